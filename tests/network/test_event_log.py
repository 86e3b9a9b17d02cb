"""The event log over sockets: every mistake of a peer is one line, and a flood of mistakes is a handful."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from typing import Any

import pytest
from raw_client import RawClient, run
from recorders import until
from stranger import Stranger, greeting

from octopia.addresses import Address
from octopia.content import parse_filter
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Ack, Command, Grant, Opening, Overflow, Role, Verb, WireItem
from octopia.protocol.messages import Lost, SubscribeRequest
from octopia.runtime import server as server_module
from octopia.runtime.defaults import NODE_SETTINGS
from octopia.runtime.local import Overlay
from octopia.runtime.server import BrokerServer
from support import at, turn
from wire_samples import frames

pytestmark = pytest.mark.usefixtures("never_busy")

FLOOD = 1000


def log_after(*said: bytes | WireItem, caplog: pytest.LogCaptureFixture) -> str:
    """Return the lines that a broker writes when somebody says this, without those of the start and the end."""

    async def main() -> None:
        async with Overlay.local("path:2", 2) as overlay:
            caplog.clear()
            stranger = await Stranger.connect(overlay.url("b.0"))
            stranger.say(*said)
            await stranger.until_closed()
            await overlay.wait_until(lambda: overlay._servers[at("b.0")].admission.greeting == 0, "its end")
            await turn()
            found.append(caplog.text)

    found: list[str] = []
    run(main())
    return found[0]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ([b"GET / HTTP/1.1\r\n\r\n"], r"event=bad_frame broker=b\.0 peer=127\.0\.0\.1:\d+ reason=\""),
        (
            [*greeting("feed"), b"garbage" * 10],
            r"event=bad_frame broker=b\.0 peer=127\.0\.0\.1:\d+ client=feed reason=\"",
        ),
        (
            [Ack(0, Grant(1, 0, ()))],
            r"event=violation broker=b\.0 peer=\S+ reason=\"expected an Opening, then a Hello, got Ack\"",
        ),
        (
            [*greeting("feed"), Command(Verb.REPORT)],
            r"event=violation broker=b\.0 peer=\S+ reason=\"expected an item of a session, got Command\" client=feed",
        ),
        (
            [*greeting("feed"), *frames(Lost(1))],
            r"event=violation broker=b\.0 peer=127\.0\.0\.1:\d+ client=feed reason=\"",
        ),
        (
            [Opening(Role.CLIENT, "feed", broker="a.1")],
            r"event=refused broker=b\.0 why=wrong_broker peer=\S+ reason=\"this is b\.0, not a\.1\" client=feed",
        ),
        (
            [Opening(Role.BROKER, "a.0", "f" * 64, "b.0")],
            r"event=refused broker=b\.0 why=wrong_overlay peer=\S+ reason=\".*\" neighbour=a\.0",
        ),
        ([Opening(Role.OPERATOR, "o"), Ack(0, Grant(1, 0, ()))], r"event=violation broker=b\.0 peer=\S+ reason="),
    ],
)
def test_a_mistake_of_a_peer_is_one_line(said: list[bytes | WireItem], line: str, caplog: pytest.LogCaptureFixture):
    found = log_after(*said, caplog=caplog)
    assert len(re.findall(line, found)) == 1, found
    assert found.count("event=") == 1, found


def test_a_neighbour_that_may_not_dial_and_a_name_that_is_taken(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        async with Overlay.local("path:2", 2) as overlay:
            stranger = await Stranger.connect(overlay.url("b.0"))
            stranger.say(Opening(Role.BROKER, "z.9", overlay._overlay.scot.fingerprint, "b.0"))
            await stranger.until_closed()
            await RawClient("feed").connect(overlay.url("b.0"))
            stranger = await Stranger.connect(overlay.url("b.0"))
            stranger.say(*greeting("feed", incarnation=10**6))
            await stranger.until_closed()

    run(main())
    assert "event=refused broker=b.0 why=not_allowed" in caplog.text
    assert "event=refused broker=b.0 why=name_taken" in caplog.text


def test_a_thousand_bad_frames_are_a_handful_of_lines_that_add_up(caplog: pytest.LogCaptureFixture):
    async def attack(url: str, number: int) -> None:
        stranger = await Stranger.connect(url)
        stranger.say(*greeting(f"c{number}"), b"garbage" * 10)
        await stranger.until_closed()

    async def main() -> None:
        async with Overlay.local("path:1", 1) as overlay:
            for begin in range(0, FLOOD, 50):
                await asyncio.gather(*(attack(overlay.url("a.0"), begin + each) for each in range(50)))

    run(main())
    lines = [record.getMessage() for record in caplog.records]
    suppressed = [int(found) for line in lines for found in re.findall(r"event=bad_frame .*suppressed=(\d+)", line)]
    written = [line for line in lines if line.startswith("event=bad_frame") and "suppressed" not in line]
    assert len(lines) < 20
    assert len(written) + sum(suppressed) == FLOOD


def test_an_internal_error_brings_its_traceback(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    async def main() -> None:
        async with Overlay.local("path:1", 1) as overlay:
            client = await RawClient("feed").connect(overlay.url("a.0"))
            broker = overlay._servers[at("a.0")].broker

            def fail(*_: object) -> None:
                raise RuntimeError("a bug")

            monkeypatch.setattr(type(broker), "_receive_from_client", fail)
            client.say(SubscribeRequest(0, parse_filter("n > 0")))
            await client.until(lambda: client.is_closed, "its end")

    run(main())
    assert re.search(r'event=internal_error broker=a\.0 peer=\S+ client=feed reason="a bug"\nTraceback', caplog.text)


def test_a_cut_link_is_one_line_at_each_end(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        async with Overlay.local("path:2", 1) as overlay:
            caplog.clear()
            overlay.cut("a.0", "b.0")
            await overlay.wait_until(lambda: not overlay.is_ready(), "the cut")
            await overlay.wait_until(overlay.is_ready, "the link")

    run(main())
    lost = [line for line in caplog.text.splitlines() if "event=connection_lost" in line]
    assert len(lost) == 2, caplog.text
    assert re.search(r'broker=a\.0 peer=127\.0\.0\.1:\d+ neighbour=b\.0 reason="the connection broke"', caplog.text)


def test_a_silent_link_is_one_line_and_comes_back(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        async with Overlay.local("path:2", 1) as overlay:
            caplog.clear()
            connection = overlay._servers[at("a.0")].lines[at("b.0")].connection
            connection._transport.pause_reading()
            await overlay.wait_until(lambda: not overlay.is_ready(), "suspicion")
            await overlay.wait_until(overlay.is_ready, "the link")

    run(main())
    lines = [line for line in caplog.text.splitlines() if "event=connection_lost broker=a.0" in line]
    assert len(lines) == 1, caplog.text
    assert 'neighbour=b.0 reason="the other end was silent for too long"' in lines[0]


def test_a_client_that_does_not_read_is_too_slow(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        settings = dataclasses.replace(NODE_SETTINGS, client_queue_limit=10)
        async with Overlay(overlay_from_text("path:1", 1), node_settings=settings) as overlay:
            slow = await RawClient("slow", Overflow.DISCONNECT).connect(overlay.url("a.0"))
            await slow.subscribe("n >= 0")
            publisher = await RawClient("P").connect(overlay.url("a.0"))
            await publisher.advertise("n >= 0")
            slow.stop_reading()
            node = overlay._servers[at("a.0")].node
            for n in range(400):
                publisher.publish(n, bytes(50_000), n=n)
            await overlay.wait_until(lambda: node.client_named("slow") is None, "its end")

    run(main())
    assert re.search(r"event=too_slow broker=a\.0 peer=\S+ client=slow reason=", caplog.text)


def test_a_neighbour_that_is_not_there_is_news_only_after_the_start(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    refused: list[str] = []
    note = BrokerServer.note_unreachable

    def count(self: BrokerServer, *problem: Any) -> bool:
        refused.append(self.id.region)
        return note(self, *problem)

    monkeypatch.setattr(BrokerServer, "note_unreachable", count)

    async def main() -> None:
        server = BrokerServer(overlay_from_text("path:2", 1), at("a.0"))
        await server.listen(Address("127.0.0.1", 0))
        server.start({at("a.0"): server.address, at("b.0"): Address("127.0.0.1", 1)})
        await until(lambda: len(refused) >= 3)
        assert "unreachable" not in caplog.text
        monkeypatch.setattr(server_module, "STARTING_S", 0.0)
        await until(lambda: "event=unreachable broker=a.0 peer=127.0.0.1:1 neighbour=b.0" in caplog.text)
        await server.stop()

    run(main())
    assert caplog.text.count("event=unreachable") == 1


def test_a_neighbour_whose_host_name_is_not_valid_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    async def main() -> None:
        monkeypatch.setattr(server_module, "STARTING_S", 0.0)
        server = BrokerServer(overlay_from_text("path:2", 1), at("a.0"))
        await server.listen(Address("127.0.0.1", 0))
        server.start({at("a.0"): server.address, at("b.0"): Address("a..b", 1)})
        await until(lambda: "event=unreachable broker=a.0 peer=a..b:1 neighbour=b.0" in caplog.text)
        await server.stop()

    run(main())
    assert "its host name is not valid" in caplog.text
