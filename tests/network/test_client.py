"""The client with real brokers: a small overlay in this process, over TCP."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random

import pytest
from recorders import until

import octopia
from octopia.client import Subscription
from octopia.errors import ClosedByPeer, OutcomeUnknown, RequestRefused, SlowSubscriber
from octopia.ids import BrokerId
from octopia.overlay.files import overlay_from_text
from octopia.runtime.defaults import NODE_SETTINGS
from octopia.runtime.local import Overlay

PATIENCE_S = 30.0


def cut_clients(overlay: Overlay) -> int:
    """Break the connections of all clients, and return how many there were."""
    lines = [line for server in overlay._servers.values() for line in server.client_lines.values()]
    for line in lines:
        line.connection.abort()
    return len(lines)


async def values(subscription: Subscription, count: int) -> list[object]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await anext(subscription))["x"] for _ in range(count)]


def test_from_one_cluster_and_region_to_another():
    async def run() -> None:
        async with (
            Overlay.local("path:3", 4) as overlay,
            octopia.connect(overlay.url("b.3")) as publisher,
            octopia.connect(overlay.url("c.0")) as subscriber,
        ):
            await publisher.advertise("x >= 0", timeout=PATIENCE_S)
            first = await subscriber.subscribe("x > 1", timeout=PATIENCE_S)
            second = await subscriber.subscribe("x > 2", timeout=PATIENCE_S)
            assert await publisher.publish_many({"x": x} for x in range(5)) == 5
            assert await values(first, 3) == [2, 3, 4]
            assert await values(second, 2) == [3, 4]
            with pytest.raises(RequestRefused, match="conforms to none"):
                await publisher.publish({"x": -1})

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_cut_clients_lose_and_double_nothing(seed: int):
    async def run() -> None:
        draw, cuts = random.Random(seed), 0
        async with (
            Overlay.local("path:2", 2) as overlay,
            octopia.connect(overlay.url("a.0")) as publisher,
            octopia.connect(overlay.url("b.1")) as subscriber,
        ):
            await publisher.advertise("x >= 0", ordered=True, timeout=PATIENCE_S)
            subscription = await subscriber.subscribe("x >= 0", timeout=PATIENCE_S)
            published = 0
            # A fast machine has published much before both clients have been cut several times.
            while published < 3000 or cuts < 4:
                batch = range(published, published + 1000)
                publishing = asyncio.create_task(publisher.publish_many(({"x": x}, b"." * 200) for x in batch))
                reading = asyncio.create_task(values(subscription, len(batch)))
                while not (publishing.done() and reading.done()):
                    await asyncio.wait([publishing, reading], timeout=draw.uniform(0.0, 0.05))
                    cuts += cut_clients(overlay)
                assert await publishing == len(batch)
                assert await reading == list(batch)
                published = batch.stop
            assert (subscription.gaps, subscription.lost) == (0, 0)

    asyncio.run(run())


def test_everything_is_issued_again_when_brokers_lose_their_memory():
    async def run() -> None:
        gap = asyncio.Event()
        async with (
            Overlay.local("path:2", 2) as overlay,
            octopia.connect(overlay.url("a.0")) as publisher,
            octopia.connect(overlay.url("b.1")) as subscriber,
        ):
            await publisher.advertise("x >= 0", timeout=PATIENCE_S)
            subscription = await subscriber.subscribe("x >= 0", timeout=PATIENCE_S, on_gap=lambda _: gap.set())
            for broker in ("a.0", "b.1"):
                overlay.crash(broker)
                await overlay.restart(broker)
                await overlay.wait_until(overlay.is_ready, f"{broker} to be back", PATIENCE_S)
            await asyncio.wait_for(gap.wait(), PATIENCE_S)
            # One more that is confirmed after the first was issued again: requests are handled in order.
            await subscriber.subscribe("x >= 0", timeout=PATIENCE_S)
            async with asyncio.timeout(PATIENCE_S):
                await publisher.publish({"x": 1})
            assert await values(subscription, 1) == [1]
            assert subscription.gaps in (1, 2), "its own broker's loss, and the other's if it was told in time"

    asyncio.run(run())


def test_a_publication_that_the_broker_took_to_its_grave_has_an_unknown_outcome():
    async def run() -> None:
        gone = asyncio.Event()
        async with (
            Overlay.local("path:2", 2) as overlay,
            octopia.connect(overlay.url("a.0"), on_disconnect=lambda _: gone.set()) as publisher,
        ):
            await publisher.advertise("x >= 0", timeout=PATIENCE_S)
            numbers = itertools.takewhile(lambda _: not gone.is_set(), itertools.count())
            publishing = asyncio.create_task(publisher.publish_many({"x": x} for x in numbers))
            outbox = publisher._engine.publisher._outbox
            await overlay.wait_until(lambda: outbox.departed > 0, "something to be published")
            overlay.crash("a.0")
            await asyncio.wait_for(gone.wait(), PATIENCE_S)
            await overlay.restart("a.0")
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(OutcomeUnknown) as caught:
                    await publishing
            assert "publications were accepted" in caught.value.__notes__[0]
            await publisher.publish({"x": 1})

    asyncio.run(run())


def test_a_client_sees_whether_its_broker_was_restarted():
    async def run() -> None:
        async with Overlay.local("path:2", 1) as overlay, overlay.connect("a.0") as one, overlay.connect("a.0") as two:
            before = one.broker_incarnation
            assert two.broker_incarnation == before == overlay._servers[BrokerId("a", 0)].node.incarnation
            overlay.crash("a.0")
            await overlay.restart("a.0")
            await until(lambda: one.broker_incarnation != before)

    asyncio.run(run())


def test_another_broker_than_the_url_says():
    async def run() -> None:
        async with Overlay.local("path:2", 2) as overlay:
            with pytest.raises(ClosedByPeer, match=r"this is a\.0, not b\.1"):
                async with octopia.connect(overlay.url("a.0").replace("a.0", "b.1")):
                    pass

    asyncio.run(run())


def test_a_client_that_is_too_slow_is_told_what_it_lost() -> None:
    """The last words of a broker arrive, though the client has not read what came before them."""

    async def exhaust(subscription: Subscription) -> None:
        async with asyncio.timeout(PATIENCE_S):
            async for _ in subscription:
                pass

    async def play() -> None:
        settings = dataclasses.replace(NODE_SETTINGS, client_queue_limit=50)
        async with (
            Overlay(overlay_from_text("path:2", 1), node_settings=settings) as overlay,
            overlay.connect("a.0") as slow,
            overlay.connect("b.0") as publisher,
        ):
            subscription = await slow.subscribe("x > 0")
            await publisher.advertise("x > 0")
            server = overlay._servers[BrokerId("a", 0)]
            server.client_lines[server.node.client_named(slow.name)].connection.pause_writing()
            await publisher.publish_many([{"x": number} for number in range(1, 201)])
            with pytest.raises(SlowSubscriber) as told:
                await exhaust(subscription)
            assert told.value.lost >= 51

    asyncio.run(play())


def test_a_client_that_changes_its_broker_is_given_nothing_twice():
    """Its new broker still waits for publications that the old one has delivered."""

    async def run() -> None:
        async with (
            Overlay.local("path:3", 1) as overlay,
            overlay.connect("b.0") as publisher,
            overlay.connect("c.0") as neighbour,
            octopia.connect([overlay.url("a.0"), overlay.url("c.0")]) as moving,
        ):
            await publisher.advertise("x >= 0", ordered=True, timeout=PATIENCE_S)
            all_of_them = await neighbour.subscribe("x >= 0", timeout=PATIENCE_S)
            subscription = await moving.subscribe("x >= 0", timeout=PATIENCE_S)
            overlay.throttle("b.0", "c.0", rate=200)
            await publisher.publish_many({"x": x} for x in range(200))
            assert await values(subscription, 200) == list(range(200))
            overlay.crash("a.0")
            assert await values(all_of_them, 200) == list(range(200))
            await publisher.publish({"x": 200})
            assert await values(subscription, 1) == [200]
            assert subscription.gaps == 1

    asyncio.run(run())
