"""What comes of subscriptions: publications, in order, and word of those that were lost."""

from __future__ import annotations

import asyncio

import pytest

import octopia
from fake_broker import FakeBroker, delivery
from octopia.client import Received, Subscription
from octopia.errors import SlowSubscriber, TimedOut, UsageError
from octopia.protocol import Cause, CloseCode
from octopia.protocol.messages import CutOff, Gap, Lost, UnsubscribeRequest


async def take(subscription: Subscription, count: int) -> list[object]:
    return [(await anext(subscription))["x"] for _ in range(count)]


def test_publications_come_with_all_that_belongs_to_them():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("price > 0")
            broker.say([delivery({"price": 1.5, "symbol": "IBM"}, number=7, payload=b"hi")])
            received = await anext(subscription)
            assert dict(received.attributes) == {"price": 1.5, "symbol": "IBM"}
            assert (received.payload, received.hops, received.published_ms) == (b"hi", 2, 1000.0)
            assert str(received.id) == "a.0/1/7"
            assert received.received_ms > 1e12
            assert received["price"] == 1.5
            assert "symbol" in received
            assert received.get("volume", 0) == 0
            assert repr(received) == "Received({'price': 1.5, 'symbol': 'IBM'}, id=a.0/1/7, payload=2 bytes)"

    asyncio.run(run())


def test_one_delivery_reaches_all_subscriptions_that_it_names():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            first, second = await client.subscribe("x > 0"), await client.subscribe("x > 1")
            broker.deliver([1], (1, 99))
            broker.deliver([2], (1, 2))
            assert await take(first, 2) == [1, 2]
            assert await take(second, 1) == [2]

    asyncio.run(run())


def test_iteration_lists_and_leaving_lose_nothing():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0")
            broker.deliver(range(100))
            async for received in subscription:
                assert received["x"] == 0
                break
            assert await take(subscription, 1) == [1]
            seen: list[object] = []
            async for batch in subscription.batches():
                assert batch
                seen += [each["x"] for each in batch]
                if len(seen) == 98:
                    break
            assert seen == list(range(2, 100))

    asyncio.run(run())


def test_next_waits_for_one_publication_and_loses_none():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0")
            with pytest.raises(TimedOut, match=r"expected a publication within 0\.01 s, got none") as caught:
                await subscription.next(timeout=0.01)
            assert isinstance(caught.value, TimeoutError)
            waiting = asyncio.create_task(subscription.next())
            broker.deliver([1, 2])
            assert (await waiting)["x"] == 1
            await subscription.unsubscribe()
            assert subscription.buffered == 1
            assert (await subscription.next(timeout=10))["x"] == 2
            with pytest.raises(UsageError, match="has ended"):
                await subscription.next()

    asyncio.run(run())


def test_deliveries_survive_cuts_once_and_in_order():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0")
            for start in range(0, 1000, 50):
                broker.deliver(range(start, start + 50))
                broker.cut()
            assert await take(subscription, 1000) == list(range(1000))
            assert (subscription.lost, subscription.gaps) == (0, 0)

    asyncio.run(run())


def test_callbacks_get_everything_and_may_fail():
    async def run() -> None:
        seen: list[object] = []

        def callback(received: Received) -> None:
            seen.append(received["x"])
            if received["x"] == 1:
                raise ValueError("a bug of the user's")

        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0", callback=callback)
            broker.deliver(range(3))
            await client.publish({"x": 1})
            assert seen == [0, 1, 2]
            with pytest.raises(UsageError, match="without a callback"):
                await anext(subscription)

            async def slow(_: Received) -> None: ...

            with pytest.raises(UsageError, match="coroutine"):
                await client.subscribe("x > 0", callback=slow)

    asyncio.run(run())


def test_a_full_buffer_ends_a_subscription_after_what_is_buffered():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            slow, other = await client.subscribe("x > 0", buffer=10), await client.subscribe("x > 0")
            broker.deliver(range(15), (1, 2))
            await broker.until(lambda: UnsubscribeRequest(1) in broker.received)
            assert await take(slow, 10) == list(range(10))
            with pytest.raises(SlowSubscriber, match="buffer of 10") as caught:
                await anext(slow)
            assert caught.value.lost == 5
            assert slow.has_ended
            assert await take(other, 15) == list(range(15))
            await slow.unsubscribe()

    asyncio.run(run())


def test_the_oldest_are_dropped_by_choice():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0", buffer=10, overflow="drop_oldest")
            broker.deliver(range(15))
            await client.publish({"x": 1})
            assert subscription.lost == 5
            assert await take(subscription, 10) == list(range(5, 15))

    asyncio.run(run())


def test_what_the_broker_dropped_is_counted():
    async def run() -> None:
        async with FakeBroker() as broker:
            async with octopia.connect(broker.url, overflow="drop_oldest") as client:
                subscription = await client.subscribe("x > 0")
                broker.say([Lost(3), Gap(Cause.RESTART), Lost(4)])
                await client.publish({"x": 1})
                assert (subscription.lost, subscription.gaps) == (7, 1)
            assert broker.openings[0].overflow == "drop_oldest"

    asyncio.run(run())


def test_who_is_cut_off_learns_how_much_was_lost():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0")
            broker.deliver([1])
            broker.say([CutOff(42)])
            broker.close(CloseCode.TOO_SLOW)
            assert await take(subscription, 1) == [1]
            with pytest.raises(SlowSubscriber) as caught:
                await anext(subscription)
            assert caught.value.lost == 42
            assert not client.is_connected
            with pytest.raises(SlowSubscriber):
                await client.publish({"x": 1})
            assert len(broker.openings) == 1

    asyncio.run(run())


def test_iteration_ends_when_the_subscription_or_the_client_does():
    async def run() -> None:
        async with FakeBroker() as broker:
            async with octopia.connect(broker.url) as client:
                first, second = await client.subscribe("x > 0"), await client.subscribe("x > 0")
                broker.deliver([1, 2], (1, 2))
                waiting = asyncio.create_task(_values(second))
                await client.publish({"x": 1})
                await first.unsubscribe()
                assert await _values(first) == [1, 2]
            assert await waiting == [1, 2]

    asyncio.run(run())


async def _values(subscription: Subscription) -> list[object]:
    return [received["x"] async for received in subscription]


def test_a_broker_that_does_not_know_the_client_cannot_give_a_subscription_the_same_twice():
    """A subscription that has not had the publication still gets it."""

    async def run() -> None:
        async with FakeBroker() as broker:
            back = asyncio.Event()
            async with octopia.connect(broker.url, on_reconnect=back.set) as client:
                first = await client.subscribe("x > 0")
                broker.say(delivery({"x": x}, (1,), x) for x in (1, 2, 5))
                assert await take(first, 3) == [1, 2, 5]
                second = await client.subscribe("x > 1")
                broker.forget()
                await asyncio.wait_for(back.wait(), 10.0)
                broker.say(delivery({"x": x}, (1, 2), x) for x in range(1, 7))
                assert await take(first, 3) == [3, 4, 6]
                assert await take(second, 6) == [1, 2, 3, 4, 5, 6]
                assert (first.buffered, second.buffered) == (0, 0)
                assert (first.gaps, first.lost) == (1, 0)

    asyncio.run(run())
