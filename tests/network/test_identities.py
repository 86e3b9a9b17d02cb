"""Names and incarnations over sockets: a client that returns under its name, and two brokers with one name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from raw_client import RawClient, run
from rest import overlay_at_rest

from octopia.broker import BrokerSettings
from octopia.overlay.files import overlay_from_text
from octopia.runtime import server as server_module
from octopia.runtime.local import Overlay
from octopia.runtime.server import BrokerServer
from support import at, turn

OFFER = "n >= 0"


@contextlib.asynccontextmanager
async def no_errors() -> AsyncIterator[None]:
    """Fail if the event loop is left with an exception that nobody handled."""
    raised: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    yield
    assert raised == []


# A client that is killed while congested, and returns.


def test_a_client_killed_while_congested_returns_and_harms_nobody(caplog: pytest.LogCaptureFixture):
    run(_return_while_congested())
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def _return_while_congested() -> None:
    settings = BrokerSettings(queue_capacity=1)
    async with no_errors(), Overlay(overlay_from_text("path:2", 1), settings) as overlay:
        subscriber = await RawClient("S").connect(overlay.url("b.0"))
        await subscriber.subscribe(OFFER)
        other = await RawClient("Q").connect(overlay.url("a.0"))
        await other.advertise(OFFER)
        first = await RawClient("P").connect(overlay.url("a.0"))
        await first.advertise(OFFER)
        overlay.throttle("a.0", "b.0", rate=2.0)
        node = overlay._servers[at("a.0")].node
        for n in range(5):
            first.publish(n, n=n)
        await overlay.wait_until(lambda: bool(node.broker.state.inputs), "publications that wait for room")
        old = node.client_named("P")
        first.cut()
        await overlay.wait_until(lambda: not node.clients[old].is_connected, "the end of the connection")
        again = await RawClient("P").connect(overlay.url("a.0"))
        assert node.client_named("P") != old
        assert any(source == old for source, _ in node.broker.state.inputs), "the head of its input still waits"
        await again.advertise(OFFER)
        for n in range(100, 105):
            again.publish(n, n=n)
        for n in range(200, 205):
            other.publish(n, n=n)
        overlay.throttle("a.0", "b.0", rate=0.0)
        await overlay_at_rest(overlay, [subscriber, other, again])
        got = subscriber.got()
        assert [n for n in range(100, 105) if got[n] != 1] == []
        assert [n for n in range(200, 205) if got[n] != 1] == []
        assert max(got.values()) == 1
        for client in node.clients.values():
            assert not client.session.owes_credit


# Two brokers with one name.


@contextlib.asynccontextmanager
async def second(overlay: Overlay, name: str) -> AsyncIterator[BrokerServer]:
    """Run a second broker under a name of an overlay, at another address."""
    impostor = BrokerServer(overlay._overlay, at(name))
    impostor.start(overlay._addresses)
    try:
        yield impostor
    finally:
        await impostor.stop()


async def sound(overlay: Overlay) -> None:
    """Check that a publication gets through."""
    subscriber = await RawClient("S").connect(overlay.url("b.0"))
    publisher = await RawClient("P").connect(overlay.url("a.0"))
    await subscriber.subscribe(OFFER)
    await publisher.advertise(OFFER)
    publisher.publish(1, n=1)
    await subscriber.until(lambda: subscriber.got()[1] == 1, "a publication")
    for client in (subscriber, publisher):
        client.leave()
        await client.until(lambda client=client: client.is_closed, "its end")


def test_of_two_brokers_with_one_name_the_newer_wins(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(server_module, "STARTING_S", 0.0)
    run(_fence_the_older())
    assert "a.0 is fenced: a newer broker runs as a.0; stop one of the two" in caplog.text


async def _fence_the_older() -> None:
    async with no_errors(), Overlay(overlay_from_text("path:2", 1)) as overlay:
        await sound(overlay)
        older = overlay._servers.pop(at("a.0"))
        async with second(overlay, "a.0") as newer:
            assert newer.incarnation > older.incarnation
            async with asyncio.timeout(10):
                while not (older.fenced and newer.is_connected):
                    await turn()
            assert not newer.fenced
        await older.stop()
        await overlay.restart("a.0")
        await overlay.wait_until(overlay.is_ready, "the restarted broker")
        assert overlay._servers[at("a.0")].incarnation > newer.incarnation
        await sound(overlay)


def test_an_older_broker_cannot_take_the_place_of_a_newer_one(monkeypatch: pytest.MonkeyPatch):
    run(_refuse_the_older(monkeypatch))


async def _refuse_the_older(monkeypatch: pytest.MonkeyPatch) -> None:
    async with no_errors(), Overlay(overlay_from_text("path:2", 1)) as overlay:
        connection = overlay._servers[at("b.0")].lines[at("a.0")].connection
        monkeypatch.setattr(server_module, "new_incarnation", lambda: 1)
        monkeypatch.setattr(server_module, "STARTING_S", 0.0)
        async with second(overlay, "a.0") as older:
            async with asyncio.timeout(10):
                while not older.fenced:
                    await turn()
        assert overlay._servers[at("b.0")].lines[at("a.0")].connection is connection, "nobody was disturbed"
        await sound(overlay)


def test_a_broker_that_restarts_with_its_clock_set_back_takes_a_newer_incarnation(monkeypatch: pytest.MonkeyPatch):
    run(_set_the_clock_back(monkeypatch))


async def _set_the_clock_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with no_errors(), Overlay(overlay_from_text("path:2", 2)) as overlay:
        before = overlay._servers[at("a.0")].incarnation
        overlay.crash("a.0")
        with monkeypatch.context() as patch:
            patch.setattr(server_module, "new_incarnation", lambda: before - 3_600_000)
            await overlay.restart("a.0")
        await overlay.wait_until(overlay.is_ready, "the restarted broker")
        assert overlay._servers[at("a.0")].incarnation > before
        await sound(overlay)
