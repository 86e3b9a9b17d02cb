"""Advertisements and subscriptions: confirmed, refused, issued again, withdrawn."""

from __future__ import annotations

import asyncio

import pytest

import octopia
from fake_broker import FakeBroker, confirm, keep_quiet
from octopia.content import parse_filter
from octopia.errors import InvalidFilter, NotConfirmed, OctopiaError, RequestRefused, UsageError
from octopia.ids import BrokerId
from octopia.protocol import MessageKind
from octopia.protocol.messages import (
    AdvertiseRequest,
    Confirmed,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    Unconfirmed,
    UnsubscribeRequest,
)


def test_requests_are_sent_as_they_are_meant():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            await client.advertise("x > 0", ordered=True, timeout=2)
            await client.subscribe(parse_filter("x > 1"))
            assert broker.received == [
                AdvertiseRequest(1, parse_filter("x > 0"), True, 2000.0),
                SubscribeRequest(2, parse_filter("x > 1"), 0.0),
            ]

    asyncio.run(run())


def test_a_bad_filter_never_leaves_and_shows_the_place():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            with pytest.raises(InvalidFilter) as caught:
                await client.subscribe("price >> 3")
            assert str(caught.value).splitlines()[1:] == ["  price >> 3", "         ^"]
            with pytest.raises(UsageError, match="timeout"):
                await client.advertise("x > 0", timeout=0)
            with pytest.raises(UsageError, match="overflow of 'disconnect' or 'drop_oldest'"):
                await client.subscribe("x > 0", overflow="explode")
            with pytest.raises(UsageError, match="buffer"):
                await client.subscribe("x > 0", buffer=0)
            assert broker.received == []

    asyncio.run(run())


def test_requests_return_when_they_are_confirmed_and_not_before():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = keep_quiet
            call = asyncio.create_task(client.subscribe("x > 0"))
            await broker.until(lambda: len(broker.received) == 1)
            await client.publish({"x": 1})  # By now the request was acknowledged, too.
            assert not call.done()
            broker.say([Confirmed("subscription", 1)])
            await call

    asyncio.run(run())


def test_with_a_broker_that_confirms_nothing_the_acknowledgement_counts():
    async def run() -> None:
        async with FakeBroker(confirms=False) as broker, octopia.connect(broker.url) as client:
            broker.answer = keep_quiet
            await client.advertise("x > 0")
            broker.answer = lambda request: [Refused("subscription", request.handle, "no")]
            with pytest.raises(RequestRefused):
                await client.subscribe("x > 0")

    asyncio.run(run())


def test_what_is_not_confirmed_in_time_stays_in_force():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = lambda request: [Unconfirmed("subscription", request.handle, (BrokerId("a", 1),))]
            with pytest.raises(
                NotConfirmed, match=r"not confirmed in time \(missing: a\.1\); it stays in force"
            ) as caught:
                await client.subscribe("x > 0", timeout=1)
            broker.deliver([1])
            assert (await anext(caught.value.issued))["x"] == 1

    asyncio.run(run())


def test_a_broker_that_says_nothing_does_not_keep_a_client_for_ever():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = keep_quiet
            with pytest.raises(NotConfirmed) as caught:
                await client.advertise("x > 0", timeout=0.01)
            await caught.value.issued.unadvertise()
            assert broker.received[1:] == [UnadvertiseRequest(1)]

    asyncio.run(run())


def test_a_refused_request_says_why_and_is_forgotten():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = lambda request: [Refused("subscription", request.handle, "too many")]
            with pytest.raises(RequestRefused, match="the broker refused a subscription: too many"):
                await client.subscribe("x > 0")
            broker.forget()
            await broker.until(lambda: len(broker.openings) == 2)
            await client.publish({"x": 1})
            assert len(broker.of(SubscribeRequest)) == 1

    asyncio.run(run())


def test_a_request_that_nobody_waits_for_is_withdrawn():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = keep_quiet
            call = asyncio.create_task(client.subscribe("x > 0"))
            await broker.until(lambda: len(broker.received) == 1)
            call.cancel()
            await broker.until(lambda: broker.received[1:] == [UnsubscribeRequest(1)])

    asyncio.run(run())


def test_withdrawing_is_done_once():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            advertisement = await client.advertise("x > 0")
            subscription = await client.subscribe("x > 0")
            for _ in range(2):
                await advertisement.unadvertise()
                await subscription.unsubscribe()
            assert broker.received[2:] == [UnadvertiseRequest(1), UnsubscribeRequest(2)]

    asyncio.run(run())


def test_everything_is_issued_again_to_a_broker_that_forgot_and_subscribers_learn_of_the_gap():
    async def run() -> None:
        gaps = []
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            await client.advertise("x > 0")
            withdrawn = await client.advertise("x > 1")
            subscription = await client.subscribe("x > 2", on_gap=gaps.append)
            await withdrawn.unadvertise()
            issued = [each for each in broker.received if getattr(each, "handle", None) != 2]
            broker.received.clear()
            broker.forget()
            await broker.until(lambda: len(broker.openings) == 2)
            await client.publish({"x": 1})
            assert broker.received[:2] == issued
            assert subscription.gaps == 1
            assert gaps == [subscription, subscription], "once at the broker, once when it is in force again"
            broker.cut()
            await client.publish({"x": 2})
            assert subscription.gaps == 1  # A mere cut leaves no gap.

    asyncio.run(run())


def test_a_gap_is_told_again_when_the_subscription_is_in_force_again():
    """Until then, publications may pass by brokers that do not know it yet."""

    async def run() -> None:
        told: list[object] = []
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            subscription = await client.subscribe("x > 0", on_gap=told.append, timeout=5)
            broker.received.clear()
            broker.answer = keep_quiet
            broker.forget()
            await broker.until(lambda: bool(broker.received))
            assert broker.received == [SubscribeRequest(1, parse_filter("x > 0"))], "without a limit: nobody waits"
            assert told == [subscription]
            for _ in range(2):
                broker.say([Confirmed(MessageKind.SUBSCRIPTION, 1)])
            await client.publish({"x": 1})
            assert told == [subscription, subscription]
            assert subscription.gaps == 1

    asyncio.run(run())


def test_a_request_on_its_way_survives_a_broker_that_forgot():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = keep_quiet
            call = asyncio.create_task(client.advertise("x > 0"))
            await broker.until(lambda: len(broker.received) == 1)
            broker.answer = confirm
            broker.forget()
            await call
            assert broker.received == [broker.received[0]] * 2

    asyncio.run(run())


def test_what_is_refused_when_it_is_issued_again_ends_with_the_reason():
    async def run() -> None:
        errors: list[OctopiaError] = []
        async with FakeBroker() as broker, octopia.connect(broker.url, on_error=errors.append) as client:
            subscription = await client.subscribe("x > 0")
            broker.answer = lambda request: [Refused("subscription", 1, "not any more")]
            broker.forget()
            with pytest.raises(RequestRefused, match="not any more"):
                await anext(subscription)
            assert len(errors) == 1

    asyncio.run(run())


def test_requests_wait_while_there_is_no_connection():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.stop()
            call = asyncio.create_task(client.advertise("x > 0"))
            withdrawn = asyncio.create_task(client.advertise("x > 1", timeout=0.01))
            with pytest.raises(NotConfirmed) as caught:
                await withdrawn
            withdrawal = asyncio.create_task(caught.value.issued.unadvertise())
            broker.sessions.clear()
            await broker.start()
            await asyncio.gather(call, withdrawal)
            assert [each.handle for each in broker.received] == [1]

    asyncio.run(run())
