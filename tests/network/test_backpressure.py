"""Slow links and full queues: publishers wait, memory stays bounded, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest
from load import Load
from raw_client import RawClient, run
from rest import overlay_at_rest

from octopia.broker import BrokerSettings
from octopia.content import Publication
from octopia.overlay import LinkShape
from octopia.overlay.files import overlay_from_text
from octopia.runtime.local import Overlay
from octopia.runtime.shaping import Shaper
from octopia.settings import Algorithm, RoutingSettings
from octopia.transport.settings import CLIENT_LINK
from support import at

CAPACITY = 20
PAYLOAD = bytes(2000)


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC])
def test_a_publisher_waits_for_a_slow_link(algorithm: Algorithm):
    run(_wait(algorithm))


async def _wait(algorithm: Algorithm) -> None:
    settings = BrokerSettings(RoutingSettings(algorithm), queue_capacity=CAPACITY)
    async with Overlay(overlay_from_text("path:3", 1), settings) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.0", "b.0"])
        overlay.throttle("b.0", "c.0", rate=50.0)
        [publisher] = load.publishers
        first, second = overlay._servers[at("a.0")].broker, overlay._servers[at("b.0")].broker
        longest = [0, 0]

        def look() -> bool:
            longest[0] = max(longest[0], first.waits_for(at("b.0")))
            longest[1] = max(longest[1], second.waits_for(at("c.0")))
            return second.waits_for(at("c.0")) == CAPACITY and first.waits_for(at("b.0")) == CAPACITY

        load.publish(400, PAYLOAD)
        await overlay.wait_until(look, "both queues to be full")
        # Beyond the queues lie at most a window on the link, and one of the publisher's; the rest is still with it.
        beyond = 2 * CLIENT_LINK.window_bytes / len(PAYLOAD) + 2 * CAPACITY + 5
        assert 400 - len(publisher._backlog) - len(load.subscribers[0].deliveries) < beyond + 5
        assert len(publisher._backlog) > 0
        overlay.throttle("b.0", "c.0", rate=0.0)
        await overlay_at_rest(overlay, load.clients)
        assert load.got == load.expected()
        assert longest == [CAPACITY, CAPACITY]


def test_control_passes_a_full_link():
    run(_pass())


async def _pass() -> None:
    settings = BrokerSettings(queue_capacity=CAPACITY)
    async with Overlay(overlay_from_text("path:2", 1), settings) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["b.0"])
        overlay.throttle("a.0", "b.0", rate=1.0)
        load.publish(200, PAYLOAD)
        broker = overlay._servers[at("a.0")].broker
        await overlay.wait_until(lambda: broker.waits_for(at("b.0")) == CAPACITY, "a full queue")
        late = await RawClient("late").connect(overlay.url("a.0"))
        await late.subscribe("x > 0")
        assert broker.waits_for(at("b.0")) == CAPACITY
        assert overlay._servers[at("b.0")].broker.table_sizes()["prt"] == 2
        overlay.throttle("a.0", "b.0", rate=0.0)
        await overlay_at_rest(overlay, [*load.clients, late])
        assert load.got == load.expected()


def test_a_rate_holds_from_the_first_publication_on():
    run(_rate())


def goes(shaper: Shaper, *, was_awaited: bool = False) -> bool:
    """Let a publication go if the link is free."""
    is_free = shaper.is_free
    if is_free:
        shaper.occupy(was_awaited=was_awaited)
    return is_free


async def _rate() -> None:
    clock = FakeLoop()
    shaper = Shaper(clock, lambda items: None)  # type: ignore[arg-type]
    shaper.set_shape(LinkShape(rate=10.0))
    clock.now = 1000.0
    assert goes(shaper)
    assert not goes(shaper)
    assert shaper.free_at == pytest.approx(1000.1)
    clock.now = 1000.13  # the process was late, and makes up for it
    assert goes(shaper, was_awaited=True)
    assert shaper.free_at == pytest.approx(1000.2)
    clock.now = 1000.25  # nothing waited, if only for a moment
    assert goes(shaper)
    assert shaper.free_at == pytest.approx(1000.35)
    clock.now = 1005.0  # the process was late for longer than it may make up for
    assert goes(shaper, was_awaited=True)
    assert not goes(shaper)
    assert shaper.free_at == pytest.approx(1005.1)


class FakeLoop:
    """A loop of which only the clock is asked for."""

    now = 0.0

    def time(self) -> float:
        return self.now


def test_a_throttled_link_keeps_its_rate():
    run(_keep_the_rate())


async def _keep_the_rate() -> None:
    loop = asyncio.get_running_loop()
    async with Overlay.local("path:2", 1) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["b.0"])
        overlay.throttle("a.0", "b.0", rate=200.0)
        start = loop.time()
        load.publish(101)
        [subscriber] = load.subscribers
        await subscriber.until(lambda: len(subscriber.deliveries) == 101, "all")
        assert 0.48 < loop.time() - start < 2.0
        overlay.throttle("a.0", "b.0", rate=0.0, delay_ms=300.0)
        start = loop.time()
        load.publish(10)
        await subscriber.until(lambda: len(subscriber.deliveries) == 111, "all")
        assert 0.29 < loop.time() - start < 1.5
        assert list(subscriber.got()) == list(range(111))


def test_the_largest_publication_gets_through():
    run(_largest())


async def _largest() -> None:
    attributes = {f"a{number:02}": "x" * 7000 for number in range(35)}
    async with Overlay.local("path:2", 2) as overlay:
        subscriber = await RawClient("S").connect(overlay.url("b.1"))
        publisher = await RawClient("P").connect(overlay.url("a.0"))
        for handle in range(50):
            await subscriber.subscribe("n >= 0", handle)
        await publisher.advertise(" AND ".join(["n >= 0", *(f"{name} IS NOT NULL" for name in attributes)]))
        content = Publication({"n": 1, **attributes}, bytes(1024 * 1024))
        publisher.publish(0, content.payload, **content.attributes)
        publisher.publish(1, n=2)
        await subscriber.until(lambda: len(subscriber.deliveries) == 2, "both")
        assert subscriber.deliveries[0].publication == content
        assert len(subscriber.deliveries[0].handles) == 50
        await overlay_at_rest(overlay, [subscriber, publisher])


def test_a_rate_that_is_raised_takes_effect_at_once():
    async def play() -> None:
        async with (
            Overlay.local("path:2", 1) as overlay,
            overlay.connect("a.0") as publisher,
            overlay.connect("b.0") as subscriber,
        ):
            subscription = await subscriber.subscribe("x > 0")
            await publisher.advertise("x > 0")
            overlay.throttle("a.0", "b.0", rate=0.01)
            await publisher.publish_many([{"x": number} for number in range(1, 21)])
            overlay.throttle("a.0", "b.0", rate=1000.0)
            async with asyncio.timeout(20):
                received = [await anext(subscription) for _ in range(20)]
            assert [each["x"] for each in received] == list(range(1, 21))

    asyncio.run(play())
