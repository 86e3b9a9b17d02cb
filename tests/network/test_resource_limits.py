"""The limits of the overlay file, over sockets: what is refused, what waits, and what the broker reports."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import pytest
from raw_client import RawClient, run
from stranger import Stranger

import octopia
from octopia.client.operators import ask
from octopia.content import parse_filter
from octopia.errors import RequestRefused, Unavailable
from octopia.overlay.files import overlay_from_text
from octopia.protocol import CloseCode, Closing, Command, Opening, Role, Verb
from octopia.protocol.messages import AdvertiseRequest, Refused, SubscribeRequest, UnsubscribeRequest
from octopia.runtime import server as server_module
from octopia.runtime.local import Overlay
from octopia.settings import Limit, ResourceLimits
from support import at

ELSEWHERE = "127.0.0.2"
"""An address of this machine that brokers take for that of another."""


@contextlib.asynccontextmanager
async def limited(**limits: float) -> AsyncIterator[Overlay]:
    described = dataclasses.replace(overlay_from_text("path:2", 1), limits=ResourceLimits(**limits))
    async with Overlay(described) as overlay:
        yield overlay


async def used(overlay: Overlay, limit: Limit) -> tuple[float, float, int]:
    """Return a limit, how much of it is used, and how often it was reached."""
    [report] = await ask(overlay._addresses[at("a.0")], Command(Verb.REPORT))
    assert list(report["limits"]) == [each.value for each in Limit]
    found = report["limits"][limit.value]
    return found["limit"], found["used"], found["reached"]


def test_clients_beyond_the_limit_are_refused(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        async with limited(clients=2) as overlay:
            first, _ = [await RawClient(name).connect(overlay.url("a.0")) for name in ("one", "two")]
            third = RawClient("three")
            assert await third.be_refused(overlay.url("a.0")) is CloseCode.LIMIT
            assert "expected at most 2 clients at this broker, got one more: connect to another broker" in str(
                third.closed_because
            )
            with pytest.raises(Unavailable, match="raise clients in"):
                await octopia.connect(overlay.url("a.0"), timeout=0.5)
            await first.move()  # A client that is known comes back over a new connection.
            assert (await used(overlay, Limit.CLIENTS))[:2] == (2, 2)
            assert (await used(overlay, Limit.CLIENTS))[2] >= 2
            first.leave()
            await overlay.wait_until(lambda: len(overlay._servers[at("a.0")].node.clients) == 1, "room")
            await third.connect(overlay.url("a.0"))

    run(main())
    assert "event=refused broker=a.0 why=limit peer=127.0.0.1:" in caplog.text
    assert "client=three" in caplog.text


@pytest.mark.parametrize("kind", ["subscription", "advertisement"])
def test_requests_beyond_the_limit_are_refused(kind: str, caplog: pytest.LogCaptureFixture):
    limit = Limit.SUBSCRIPTIONS if kind == "subscription" else Limit.ADVERTISEMENTS
    request = SubscribeRequest if kind == "subscription" else AdvertiseRequest

    async def main() -> None:
        async with limited(subscriptions_per_client=3, advertisements_per_client=3) as overlay:
            client = await RawClient("greedy").connect(overlay.url("a.0"))
            for handle in range(5):
                client.say(request(handle, parse_filter("n > 0")))
            await client.until(lambda: len(client.told(Refused)) == 2, "two refusals")
            assert [(each.request, each.number) for each in client.told(Refused)] == [(kind, 3), (kind, 4)]
            reason = client.told(Refused)[0].reason
            assert reason == (
                f"expected at most 3 {kind}s per client, got one more: withdraw some, "
                f"or raise {kind}s_per_client in [limits] of the overlay file"
            )
            assert await used(overlay, limit) == (3, 3, 2)
            if kind == "subscription":
                client.say(UnsubscribeRequest(0))
                client.heard.clear()
                await client.subscribe("n > 1", handle=9)
            other = await RawClient("modest").connect(overlay.url("a.0"))
            await other.subscribe("n > 0")
            assert overlay._servers[at("a.0")].broker.counters.refused == 2

    run(main())
    assert f"event=refused broker=a.0 why=limit client=greedy limit={limit.value} value=3" in caplog.text


def test_a_program_is_told_which_limit_it_has_reached():
    async def main() -> None:
        async with limited(subscriptions_per_client=1) as overlay, overlay.connect("a.0") as client:
            await client.subscribe("n > 0")
            with pytest.raises(RequestRefused, match=r"at most 1 subscriptions per client.*subscriptions_per_client"):
                await client.subscribe("n > 1")

    run(main())


@pytest.mark.parametrize(
    ("limits", "limit", "count"),
    [
        ({"publications_per_second_per_client": 100.0}, Limit.PUBLICATION_RATE, 180),
        ({"bytes_per_second_per_client": 20_000.0}, Limit.BYTE_RATE, 34),
    ],
)
def test_a_fast_publisher_waits_and_loses_nothing(
    limits: dict[str, float], limit: Limit, count: int, caplog: pytest.LogCaptureFixture
):
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with limited(**limits) as overlay:
            subscriber = await RawClient("S").connect(overlay.url("b.0"))
            await subscriber.subscribe("n >= 0")
            publisher = await RawClient("fast").connect(overlay.url("a.0"))
            await publisher.advertise("n >= 0")
            begin = loop.time()
            payload = bytes(1000) if limit is Limit.BYTE_RATE else b""
            for n in range(count):
                publisher.publish(n, payload, n=n)
            node = overlay._servers[at("a.0")].node
            await overlay.wait_until(lambda: node.held_back(limit) == 1, "the publisher to be held back")
            assert (await used(overlay, limit))[1:] == (1, 1)
            await publisher.subscribe("other = 1")  # Its control messages pass.
            await subscriber.until(lambda: len(subscriber.deliveries) == count, "all publications")
            # A second's worth may come at once, the rest takes its time.
            assert loop.time() - begin > 0.5
            assert subscriber.got() == dict.fromkeys(range(count), 1)
            assert publisher.told(Refused) == []

    run(main())
    value = next(iter(limits.values()))
    assert f"event=limit_reached broker=a.0 client=fast limit={limit.value} value={value:g}" in caplog.text


def test_a_program_that_publishes_too_fast_only_waits():
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with limited(publications_per_second_per_client=50.0) as overlay, overlay.connect("a.0") as client:
            subscription = await client.subscribe("n >= 0")
            await client.advertise("n >= 0")
            begin = loop.time()
            for n in range(90):
                await client.publish({"n": n})
            assert loop.time() - begin > 0.3
            assert [(await anext(subscription))["n"] for _ in range(90)] == list(range(90))

    run(main())


async def from_elsewhere(overlay: Overlay, *said: object) -> Stranger:
    host, port = overlay._addresses[at("a.0")].host, overlay._addresses[at("a.0")].port
    stranger = Stranger(*await asyncio.open_connection(host, port, local_addr=(ELSEWHERE, 0)))
    stranger.say(*said)
    return stranger


def test_connections_of_one_address_are_limited(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        async with limited(connections_per_address=2) as overlay:
            guests = [await from_elsewhere(overlay, Opening(Role.CLIENT, f"c{n}")) for n in range(2)]
            for guest in guests:
                await guest.hear(Opening)
            one_more = await from_elsewhere(overlay, Opening(Role.CLIENT, "c2"))
            closing = await one_more.hear(Closing)
            assert closing.code is CloseCode.LIMIT
            assert "expected at most 2 connections per address, got one more: close some" in closing.reason
            assert (await used(overlay, Limit.ADDRESS))[2] == 1
            await one_more.leave()
            for n in range(5):  # Programs on the broker's machine are not counted.
                await RawClient(f"here{n}").connect(overlay.url("a.0"))
            await guests[0].leave()
            server = overlay._servers[at("a.0")]
            await overlay.wait_until(lambda: server.admission.open[ELSEWHERE] == 1, "room")
            again = await from_elsewhere(overlay, Opening(Role.CLIENT, "c3"))
            await again.hear(Opening)
            for guest in (guests[1], again):
                await guest.leave()

    run(main())
    assert f"why=limit peer={ELSEWHERE}:" in caplog.text


def test_connections_that_do_not_greet_are_limited():
    async def main() -> None:
        async with limited(connections_without_greeting=2) as overlay:
            url, server = overlay.url("a.0"), overlay._servers[at("a.0")]
            silent = [await Stranger.connect(url) for _ in range(2)]
            await overlay.wait_until(lambda: server.admission.greeting == 2, "two silent guests")
            refused = await Stranger.connect(url)
            closing = (await refused.until_closed()).closing
            assert closing is not None
            assert closing.code is CloseCode.LIMIT
            assert (
                "at most 2 connections that have not greeted yet, got one more: connect again later" in closing.reason
            )
            for guest in silent:
                await guest.leave()
            await overlay.wait_until(lambda: server.admission.greeting == 0, "room")
            assert (await used(overlay, Limit.GREETING))[2] == 1
            for name in ("one", "two", "three"):
                await RawClient(name).connect(url)
            assert server.admission.greeting == 0

    run(main())


def test_a_flood_of_connections_costs_little(monkeypatch: pytest.MonkeyPatch):
    async def main() -> None:
        async with limited(connections_without_greeting=2) as overlay:
            url, server = overlay.url("a.0"), overlay._servers[at("a.0")]
            monkeypatch.setattr(server_module, "FAREWELLS_MAX", 3)
            flood = [await Stranger.connect(url) for _ in range(30)]
            await overlay.wait_until(lambda: server.limits_reached[Limit.GREETING] == 28, "all of them")
            assert len(server.admission.refused) <= 3
            for guest in flood:
                await guest.leave()
            await overlay.wait_until(lambda: server.admission.greeting == 0, "their end")
            await RawClient("one").connect(url)
            assert server.admission.refused == set()

    run(main())


def test_nothing_is_kept_of_connections_that_have_ended():
    async def main() -> None:
        async with limited() as overlay:
            server = overlay._servers[at("a.0")]
            before = dict(server.admission.open)
            for name in ("one", "two"):
                client = await RawClient(name).connect(overlay.url("a.0"))
                client.leave()
                await client.until(lambda client=client: client.is_closed, "its end")
            await overlay.wait_until(lambda: dict(server.admission.open) == before, "their end")

    run(main())
