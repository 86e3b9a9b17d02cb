"""Subscriptions that the program acknowledges, and sessions that another process resumes."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import octopia
from fake_broker import FakeBroker
from octopia.client.durable import ResumePoint
from octopia.errors import ClosedByPeer, UsageError
from octopia.protocol import Cause, CloseCode, Closing
from octopia.protocol.messages import Gap, Lost, SubscribeRequest, UnsubscribeRequest

Test = Callable[..., Awaitable[None]]


def with_broker(test: Test) -> Callable[..., None]:
    """Run a test in an event loop, with a broker."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        async def in_loop() -> None:
            async with FakeBroker() as broker:
                await test(broker, **given)

        asyncio.run(in_loop())

    parameters = list(inspect.signature(test).parameters.values())[1:]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


async def take(subscription: octopia.Subscription, count: int) -> list[object]:
    return [(await subscription.next(5.0))["x"] for _ in range(count)]


def kept(broker: FakeBroker) -> int:
    """Return the number of deliveries that the broker keeps for its only client."""
    (session,) = broker.sessions.values()
    return session.unacknowledged


async def crash(client: octopia.Client) -> None:
    """Let a client vanish, as if its process had been killed."""
    client._engine.channel.abort()


async def manual(client: octopia.Client, interest: str = "x > 0", **options: Any) -> octopia.Subscription:
    return await client.subscribe(interest, ack="manual", **options)


# Acknowledging.


@with_broker
async def test_the_broker_keeps_what_the_program_has_not_acknowledged(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await manual(client)
        broker.deliver(range(5))
        assert await take(subscription, 3) == [0, 1, 2]
        assert kept(broker) == 5
        subscription.acknowledge()
        await broker.until(lambda: kept(broker) == 2)


@with_broker
async def test_one_acknowledgement_covers_everything_before_it(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await manual(client)
        broker.deliver(range(5))
        batch = await subscription.next_batch()
        subscription.acknowledge(batch[3])
        await broker.until(lambda: kept(broker) == 1)
        subscription.acknowledge(batch[0])  # Nothing is taken back.
        broker.deliver([5])
        assert await take(subscription, 1) == [5]
        assert kept(broker) == 2


@with_broker
async def test_other_subscriptions_wait_for_it(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        by_hand, by_itself = await manual(client), await client.subscribe("x > 1")
        broker.deliver([0, 1], (1, 2))
        assert await take(by_itself, 2) == [0, 1]
        assert kept(broker) == 2
        first, second = await by_hand.next(), await by_hand.next()
        assert first.number < second.number
        by_hand.acknowledge(second)
        broker.deliver([2], (2,))
        await broker.until(lambda: kept(broker) == 0)


@with_broker
async def test_a_subscription_that_is_withdrawn_holds_nothing_back(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await manual(client)
        broker.deliver(range(3))
        await take(subscription, 1)
        await subscription.unsubscribe()
        await broker.until(lambda: kept(broker) == 0)


@with_broker
async def test_more_than_any_buffer_waits_to_be_read(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await manual(client, buffer=1)
        broker.deliver(range(100))
        assert await take(subscription, 100) == list(range(100))


@with_broker
async def test_reconnecting_loses_and_doubles_nothing(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await manual(client)
        broker.deliver(range(3))
        assert await take(subscription, 2) == [0, 1]
        broker.cut()
        await broker.until(lambda: bool(broker.connections))
        broker.deliver([3])
        assert await take(subscription, 2) == [2, 3]
        assert kept(broker) == 4
        subscription.acknowledge()
        await broker.until(lambda: kept(broker) == 0)


@with_broker
async def test_an_old_acknowledgement_is_not_taken_for_a_new_one(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await manual(client)
        broker.deliver(range(5))
        old = (await subscription.next_batch())[-1]
        broker.forget()
        await broker.until(lambda: len(broker.of(SubscribeRequest)) == 2)
        broker.deliver(range(5, 8))
        assert await take(subscription, 3) == [5, 6, 7]
        subscription.acknowledge(old)
        broker.deliver([8])
        assert await take(subscription, 1) == [8]
        # The confirmation of the new session came before all of them.
        assert kept(broker) == 4
        assert [notice.cause for _, notice in subscription.take_notices()] == [Cause.NEW_SESSION]


@with_broker
async def test_notices_are_kept_like_deliveries_and_tell_where_they_belong(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await manual(client)
        broker.deliver([0])
        broker.say([Gap(Cause.NEW_SESSION, 3), Lost(2)])
        broker.deliver([1])
        before, after = await subscription.next(), await subscription.next()
        (gap_at, gap), (lost_at, lost) = subscription.take_notices()
        assert before.number < gap_at < lost_at < after.number
        assert (gap, lost) == (Gap(Cause.NEW_SESSION, 3), Lost(2))
        assert (subscription.gaps, subscription.lost) == (1, 2)
        subscription.acknowledge(before)
        await broker.until(lambda: kept(broker) == 3)
        subscription.acknowledge(after)
        await broker.until(lambda: kept(broker) == 0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"ack": "never"}, "expected an ack of 'auto' or 'manual', got 'never'"),
        ({"keep_s": -1}, r"expected a keep_s of 0 to 86400 seconds \(a day\), or None, got -1"),
        ({"keep_s": 86_401}, "got 86401"),
        ({"keep_s": float("nan")}, "got nan"),
    ],
)
@with_broker
async def test_wrong_options_are_refused(broker: FakeBroker, options: dict, problem: str) -> None:
    async with octopia.connect(broker.url) as client:
        with pytest.raises(UsageError, match=problem):
            await client.subscribe("x > 0", **options)


@with_broker
async def test_others_acknowledge_by_themselves(broker: FakeBroker) -> None:
    async with octopia.connect(broker.url) as client:
        subscription = await client.subscribe("x > 0")
        with pytest.raises(UsageError, match='expected a subscription with ack="manual"'):
            subscription.acknowledge()


# Resuming.


@pytest.mark.parametrize("acknowledged", [True, False])
@with_broker
async def test_another_process_gets_the_rest_once(broker: FakeBroker, acknowledged: bool) -> None:
    client = await octopia.connect(broker.url, name="spool")
    subscription = await manual(client, keep_s=60.0)
    broker.deliver(range(5))
    await take(subscription, 3)
    point = subscription.resume_point()
    if acknowledged:
        subscription.acknowledge()
        await broker.until(lambda: kept(broker) == 2)
    await crash(client)
    broker.deliver([5])
    async with octopia.connect(broker.url, resume=point) as again:
        assert again.name == "spool"
        resumed = await manual(again)
        broker.deliver([6])
        assert await take(resumed, 4) == [3, 4, 5, 6]
        resumed.acknowledge()
        await broker.until(lambda: kept(broker) == 0)
        assert resumed.gaps == 0
    assert len(broker.of(SubscribeRequest)) == 1


@with_broker
async def test_a_point_in_the_middle_of_a_batch(broker: FakeBroker) -> None:
    client = await octopia.connect(broker.url)
    subscription = await manual(client)
    broker.deliver(range(5))
    batch = await subscription.next_batch()
    point = subscription.resume_point(batch[1])
    await crash(client)
    async with octopia.connect(broker.url, resume=point) as again:
        assert await take(await manual(again), 3) == [2, 3, 4]


@with_broker
async def test_what_another_subscription_has_not_acknowledged_comes_again(broker: FakeBroker) -> None:
    client = await octopia.connect(broker.url)
    first = await manual(client)
    await manual(client, "x > 1")
    broker.deliver([0], (1,))
    broker.deliver([1], (2,))
    broker.deliver([2], (1,))
    await take(first, 2)
    point = first.resume_point()
    await crash(client)
    async with octopia.connect(broker.url, resume=point) as again:
        assert await take(await manual(again, "x > 1"), 1) == [1]
        assert await take(await manual(again), 1) == [2]


@with_broker
async def test_subscriptions_without_it_are_withdrawn_and_handles_are_not_used_twice(broker: FakeBroker) -> None:
    client = await octopia.connect(broker.url)
    subscription = await manual(client)
    await client.subscribe("x > 7")
    point = subscription.resume_point()
    await crash(client)
    async with octopia.connect(broker.url, resume=point) as again:
        await again.subscribe("x > 8")
        assert [each.handle for each in broker.of(UnsubscribeRequest)] == [2]
        assert [each.handle for each in broker.of(SubscribeRequest)] == [1, 2, 3]


@with_broker
async def test_a_broker_that_has_forgotten_is_asked_again_and_the_gap_is_told(broker: FakeBroker) -> None:
    client = await octopia.connect(broker.url)
    subscription = await manual(client, keep_s=2.0)
    broker.deliver(range(3))
    await take(subscription, 1)
    point = subscription.resume_point()
    await crash(client)
    broker.forget()
    async with octopia.connect(broker.url, resume=point) as again:
        resumed = await manual(again)
        await broker.until(lambda: len(broker.of(SubscribeRequest)) == 2)
        assert [each.keep_ms for each in broker.of(SubscribeRequest)] == [2000.0, 2000.0]
        broker.deliver([9])
        assert await take(resumed, 1) == [9]
        assert [notice.cause for _, notice in resumed.take_notices()] == [Cause.NEW_SESSION]


@with_broker
async def test_another_keep_time_replaces_the_one_of_the_earlier_process(broker: FakeBroker) -> None:
    client = await octopia.connect(broker.url)
    subscription = await manual(client, keep_s=2.0)
    point = subscription.resume_point()
    await crash(client)
    again = await octopia.connect(broker.url, resume=point)
    resumed = await manual(again, keep_s=5.0)
    await broker.until(lambda: len(broker.of(SubscribeRequest)) == 2)
    first, second = broker.of(SubscribeRequest)
    assert (second.handle, second.interest) == (first.handle, first.interest)
    broker.deliver([1])
    assert await take(resumed, 1) == [1]
    point = resumed.resume_point()
    await crash(again)
    async with octopia.connect(broker.url, resume=point) as third:
        await manual(third, keep_s=5.0)
        await third.subscribe("x > 8")
    assert [each.keep_ms for each in broker.of(SubscribeRequest)] == [2000.0, 5000.0, 0.0]


@pytest.mark.parametrize(
    ("interest", "options", "problem"),
    [
        ("x > 9", {}, r"expected a filter of the resume point \(x > 0\) first, got x > 9"),
        ("x > 0", {"callback": print}, 'expected ack="manual" and no callback for x > 0.*, got a callback'),
        ("x > 0", {"ack": "auto"}, 'expected ack="manual" and no callback for x > 0.*, got ack="auto"'),
    ],
)
@with_broker
async def test_a_subscription_that_would_leave_the_resumed_one_behind_is_refused(
    broker: FakeBroker, interest: str, options: dict, problem: str
) -> None:
    client = await octopia.connect(broker.url)
    point = (await manual(client)).resume_point()
    await crash(client)
    async with octopia.connect(broker.url, resume=point) as again:
        with pytest.raises(UsageError, match=problem):
            await again.subscribe(interest, **{"ack": "manual"} | options)
        resumed = await manual(again)
        other = await manual(again, "x > 9")
        broker.deliver([10], (1, 2))
        assert [await take(each, 1) for each in (resumed, other)] == [[10], [10]]
        resumed.acknowledge()
        other.acknowledge()
        await broker.until(lambda: kept(broker) == 0)


@with_broker
async def test_two_subscriptions_with_one_filter_are_both_resumed(broker: FakeBroker) -> None:
    client = await octopia.connect(broker.url)
    await manual(client)
    point = (await manual(client)).resume_point()
    await crash(client)
    async with octopia.connect(broker.url, resume=point) as again:
        first, second = await manual(again), await manual(again)
        broker.deliver([1], (1, 2))
        assert [await take(each, 1) for each in (first, second)] == [[1], [1]]
    assert len(broker.of(SubscribeRequest)) == 2


async def point_at(broker: FakeBroker) -> str:
    """Return the resume point of a client that is gone, for which its broker keeps a publication."""
    client = await octopia.connect(broker.url)
    point = (await manual(client)).resume_point()
    broker.deliver([7])
    await crash(client)
    return point


@with_broker
async def test_the_broker_of_the_session_is_found_behind_any_of_several_addresses(broker: FakeBroker) -> None:
    point = await point_at(broker)
    async with FakeBroker("a.0") as other, FakeBroker("a.1") as silent:
        silent.greets = False
        unused = f"octopia://127.0.0.1:{broker.port}/a.2"
        urls = [other.url, silent.url, unused, broker.url]
        async with octopia.connect(urls, resume=point, timeout=8.0) as again:
            assert again.broker == broker.name
            resumed = await manual(again)
            assert await take(resumed, 1) == [7]
            assert resumed.gaps == 0
            broker.cut()
            broker.deliver([8])
            assert await take(resumed, 1) == [8]
        assert other.sessions == {}


@with_broker
async def test_without_the_broker_of_the_session_another_one_serves_it_with_a_gap(broker: FakeBroker) -> None:
    point = await point_at(broker)
    async with FakeBroker("a.0") as first, FakeBroker("a.1") as second:
        async with octopia.connect([first.url, second.url], resume=point, timeout=8.0) as again:
            resumed = await manual(again)
            assert again.broker == first.name
            await first.until(lambda: len(first.of(SubscribeRequest)) == 1)
            first.deliver([9])
            assert await take(resumed, 1) == [9]
            assert [notice.cause for _, notice in resumed.take_notices()] == [Cause.NEW_SESSION]
        broker.stop()
        async with octopia.connect([broker.url, second.url], resume=point, timeout=2.0) as again:
            assert again.broker == second.name
        await broker.start()


@with_broker
async def test_a_refusal_by_the_broker_of_the_session_is_final(broker: FakeBroker) -> None:
    point = await point_at(broker)
    broker.refusal = Closing(CloseCode.NAME_TAKEN, "this name is in use")
    async with FakeBroker("a.0") as other:
        with pytest.raises(ClosedByPeer, match="this name is in use"):
            await octopia.connect([other.url, broker.url], resume=point)


@with_broker
async def test_closing_with_keep_leaves_the_session_to_the_next(broker: FakeBroker) -> None:
    client = await octopia.connect(broker.url)
    subscription = await manual(client)
    broker.deliver(range(3))
    await take(subscription, 2)
    point = subscription.resume_point()
    subscription.acknowledge()
    await client.close(keep=True)
    await broker.until(lambda: not broker.connections)
    assert kept(broker) == 1
    async with octopia.connect(broker.url, resume=point) as again:
        assert await take(await manual(again), 1) == [2]


@with_broker
async def test_a_wrong_point_or_name_is_refused(broker: FakeBroker) -> None:
    with pytest.raises(UsageError, match=r"expected a string from subscription\.resume_point"):
        octopia.connect(broker.url, resume="{}")
    point = ResumePoint(1, "spool", "b.3", "abc", 1, 1, 0, ())
    with pytest.raises(UsageError, match="expected the name 'spool' of the session to resume"):
        octopia.connect(broker.url, name="other", resume=point.to_text())
    with pytest.raises(UsageError, match="expected a resume point of version 1, got one of version 9"):
        octopia.connect(broker.url, resume=point.to_text().replace('"version":1', '"version":9'))
