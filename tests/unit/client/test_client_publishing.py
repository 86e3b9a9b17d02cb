"""What ``publish`` promises: accepted once, in order, or an error that says what is known."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

import octopia
from fake_broker import PATIENCE_S, Cut, FakeBroker
from octopia.client import attempts, publisher
from octopia.client.outbox import Outbox
from octopia.client.publisher import Publisher
from octopia.content import Publication
from octopia.errors import (
    InvalidPublication,
    OctopiaError,
    OutcomeUnknown,
    RequestRefused,
    TimedOut,
    Unavailable,
    UsageError,
)
from octopia.link import LinkSettings, Session
from octopia.protocol import Frame, Grant, Hello
from octopia.protocol.messages import AdvertiseRequest, Produced, ProduceRequest, PublishRequest, Refused, Repeated
from support import turn


def refuse_odd(request: object) -> list[Refused]:
    if isinstance(request, PublishRequest) and request.publication.attributes["x"] % 2:
        return [Refused("publication", request.sequence, "it is odd")]
    return []


async def publish(client: octopia.Client, items: list[dict[str, int]], timeout: float, *, many: bool) -> None:
    """Publish all at once, or the first alone."""
    await (client.publish_many(items, timeout=timeout) if many else client.publish(items[0], timeout=timeout))


def test_a_publication_is_accepted_with_its_payload():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            await client.publish({"symbol": "IBM", "price": 1.5}, payload=b"hi")
            (request,) = broker.received
            assert request.publication == Publication({"symbol": "IBM", "price": 1.5}, b"hi")
            assert request.published_ms > 1e12

    asyncio.run(run())


def test_bad_publications_never_leave():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            with pytest.raises(InvalidPublication, match="NaN"):
                await client.publish({"x": float("nan")})
            with pytest.raises(InvalidPublication, match="at most 8192 characters for the attribute x, got 8193"):
                await client.publish({"x": "é" * 8193})
            with pytest.raises(InvalidPublication, match="when encoded"):
                await client.publish({f"x{number}": "é" * 8192 for number in range(17)})
            with pytest.raises(UsageError, match="inside the publication"):
                await client.publish(Publication({"x": 1}), b"hi")
            await client.publish({"x": 1})
            assert broker.values() == [1]

    asyncio.run(run())


def test_a_refused_publication_fails_alone():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = refuse_odd
            results = await asyncio.gather(*(client.publish({"x": x}) for x in range(4)), return_exceptions=True)
            assert [type(each) for each in results] == [type(None), RequestRefused] * 2
            assert str(results[1]) == "the broker refused a publication: it is odd"

    asyncio.run(run())


def test_a_refusal_that_comes_too_late_is_reported():
    async def run() -> None:
        errors: list[OctopiaError] = []
        async with FakeBroker() as broker, octopia.connect(broker.url, on_error=errors.append) as client:
            await client.publish({"x": 1})
            broker.say([Refused("publication", 1, "too late")])
            await client.publish({"x": 2})
        assert [str(each) for each in errors] == ["the broker refused a publication: too late"]

    asyncio.run(run())


def test_many_are_pipelined_and_counted():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            assert await client.publish_many({"x": x} for x in range(5000)) == 5000
            assert broker.values() == list(range(5000))
            assert await client.publish_many([({"x": 1}, b"p"), Publication({"x": 2})]) == 2
            assert broker.received[-2].publication.payload == b"p"

    asyncio.run(run())


def test_many_from_an_asynchronous_source():
    async def source() -> AsyncIterator[dict[str, int]]:
        loop = asyncio.get_running_loop()
        later: asyncio.Queue[int] = asyncio.Queue()
        for x in range(3):
            loop.call_soon(later.put_nowait, x)
            yield {"x": await later.get()}

    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            assert await client.publish_many(source()) == 3
            assert broker.values() == [0, 1, 2]

    asyncio.run(run())


def test_many_raise_the_first_failure_when_all_are_settled():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.answer = refuse_odd
            with pytest.raises(RequestRefused) as caught:
                await client.publish_many({"x": x} for x in range(10))
            assert str(caught.value).startswith("item 1: the broker refused a publication: ")
            assert caught.value.__notes__ == ["5 publications were accepted, 5 failed"]
            assert len(broker.received) == 10
            with pytest.raises(InvalidPublication, match=r"^item 1: "):
                await client.publish_many([{"x": 10}, {"x": None}, {"x": 12}])
            assert broker.values()[10:] == [10]

    asyncio.run(run())


def test_publishers_wait_for_credit_and_then_for_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher, "BACKLOG_BYTES_MAX", 2_000)
    payload = b"." * 1000

    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.places = False
            calls = [asyncio.create_task(client.publish({"x": x}, payload)) for x in range(200)]
            await broker.until(lambda: len(broker.received) >= 63)
            advertising = asyncio.create_task(client.advertise("x > 0"))
            await broker.until(lambda: bool(broker.of(AdvertiseRequest)))  # control needs no credit
            await advertising
            written = len(broker.of(PublishRequest))
            assert written < 70
            assert client._engine.publisher._outbox.backlog_bytes < 4_000
            broker.place()
            await asyncio.gather(*calls)
            assert broker.values() == list(range(200))

    asyncio.run(run())


def test_nothing_is_published_while_the_broker_grants_nothing():
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.accepts_data = False
            async with octopia.connect(broker.url) as client:
                await client.advertise("x > 0")
                call = asyncio.create_task(client.publish({"x": 1}))
                await client.subscribe("x > 0")
                assert broker.values() == []
                assert not call.done()
                (session,) = broker.sessions.values()
                session.accept_data(True)
                broker.place()
                await call

    asyncio.run(run())


def test_a_publication_that_nobody_waits_for_is_not_written():
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.accepts_data = False
            async with octopia.connect(broker.url) as client:
                call = asyncio.create_task(client.publish({"x": 1}))
                await client.advertise("x > 0")
                call.cancel()
                (session,) = broker.sessions.values()
                session.accept_data(True)
                broker.place()
                await client.publish({"x": 2})
                assert broker.values() == [2]

    asyncio.run(run())


@pytest.mark.parametrize("many", [False, True])
def test_what_is_not_written_in_time_is_withdrawn(many: bool):
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.accepts_data = False
            async with octopia.connect(broker.url) as client:
                with pytest.raises(TimedOut, match=r"longer than 0\.01 s; what was not written is withdrawn") as caught:
                    await publish(client, [{"x": 1}, {"x": 2}], 0.01, many=many)
                assert isinstance(caught.value, TimeoutError)
                if many:
                    assert caught.value.__notes__ == ["0 publications were accepted, 2 failed"]
                (session,) = broker.sessions.values()
                session.accept_data(True)
                broker.place()
                await client.publish({"x": 3}, timeout=PATIENCE_S)
                assert broker.values() == [3]

    asyncio.run(run())


def test_what_gets_no_room_in_time_is_never_published(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher, "BACKLOG_BYTES_MAX", 10)

    async def run() -> None:
        async with FakeBroker() as broker:
            broker.accepts_data = False
            async with octopia.connect(broker.url) as client:
                first = asyncio.create_task(client.publish({"x": 1}, b"." * 100))
                await turn()
                with pytest.raises(TimedOut):
                    await client.publish({"x": 2}, timeout=0.01)
                (session,) = broker.sessions.values()
                session.accept_data(True)
                broker.place()
                await first
                await client.publish({"x": 3})
                assert broker.values() == [1, 3]

    asyncio.run(run())


@pytest.mark.parametrize("many", [False, True])
def test_what_is_written_and_not_acknowledged_in_time_has_an_unknown_outcome(many: bool):
    """A refusal that comes later is reported."""

    async def run() -> None:
        errors: list[OctopiaError] = []
        async with FakeBroker() as broker, octopia.connect(broker.url, on_error=errors.append) as client:
            flush, broker._flush = broker._flush, lambda _: None
            with pytest.raises(OutcomeUnknown, match=r"expected an acknowledgement within 0\.1 s, got none") as caught:
                await publish(client, [{"x": 1}], 0.1, many=many)
            if many:
                assert caught.value.__notes__ == ["0 publications were accepted, 0 failed, 1 have an unknown outcome"]
            assert broker.values() == [1]
            broker._flush = flush
            broker.say([Refused("publication", 1, "too late")])
            await client.publish({"x": 2})
        assert [str(each) for each in errors] == ["the broker refused a publication: too late"]

    asyncio.run(run())


def test_the_time_covers_a_slow_source_and_leaves_its_own_errors_alone():
    async def slow() -> AsyncIterator[dict[str, int]]:
        yield {"x": 1}
        await asyncio.Event().wait()

    async def impatient() -> AsyncIterator[dict[str, int]]:
        yield {"x": 2}
        raise TimeoutError("of the source")

    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            with pytest.raises(TimedOut) as caught:
                await client.publish_many(slow(), timeout=0.2)
            assert caught.value.__notes__ == ["1 publications were accepted, 0 failed"]
            with pytest.raises(TimeoutError, match="of the source"):
                await client.publish_many(impatient(), timeout=PATIENCE_S)
            with pytest.raises(UsageError, match="timeout in seconds above 0"):
                await client.publish({"x": 3}, timeout=0)
            assert broker.values() == [1, 2]

    asyncio.run(run())


def test_a_cut_goes_unnoticed():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            await client.publish({"x": 1})
            broker.cut()
            await client.publish({"x": 2})
            assert broker.values() == [1, 2]
            assert len(broker.openings) == 2

    asyncio.run(run())


def test_the_outcome_is_unknown_if_the_broker_forgot_and_what_was_not_written_is_sent():
    async def run() -> None:
        gone = asyncio.Event()
        async with FakeBroker() as broker, octopia.connect(broker.url, on_disconnect=lambda _: gone.set()) as client:
            await client.publish({"x": 1})
            broker.cut_on_read = lambda: Cut.BEFORE
            written = asyncio.create_task(client.publish({"x": 2}))
            await asyncio.wait_for(gone.wait(), PATIENCE_S)
            assert not client.is_connected
            broker.forget()
            broker.cut_on_read = lambda: Cut.NEVER
            later = asyncio.create_task(client.publish({"x": 3}))
            with pytest.raises(OutcomeUnknown):
                await written
            await later
            assert broker.values() == [1, 3]

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(8))
def test_each_is_accepted_once_and_in_order_whatever_is_cut(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(attempts, "BACKOFF_FIRST_S", 0.001)

    async def run() -> None:
        draw, payload = random.Random(seed), b"." * 4000
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            broker.cut_on_read = lambda: draw.choices(list(Cut), (6, 2, 2))[0]
            async with asyncio.timeout(60):
                if seed % 2:
                    await client.publish_many(({"x": x}, payload) for x in range(1000))
                else:
                    calls = [asyncio.create_task(client.publish({"x": x}, payload)) for x in range(1000)]
                    await asyncio.gather(*calls)
            assert broker.values() == list(range(1000))
            assert broker.cuts > 10

    asyncio.run(run())


def test_closing_waits_for_what_was_published_and_says_goodbye():
    async def run() -> None:
        async with FakeBroker() as broker:
            async with octopia.connect(broker.url) as client:
                call = asyncio.create_task(client.publish_many({"x": x} for x in range(100)))
                await turn()
            assert await call == 100
            await broker.until(lambda: bool(broker.goodbyes))
            assert str(broker.goodbyes[0]) == "the other end closed the connection (done)"
            with pytest.raises(UsageError, match="closed"):
                await client.publish({"x": 1})
            await client.close()

    asyncio.run(run())


def test_closing_gives_up_in_time():
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.accepts_data = False
            client = await octopia.connect(broker.url)
            calls = [client.publish({"x": 1}), client.publish_many([{"x": 2}, {"x": 3}])]
            tasks = [asyncio.create_task(each) for each in calls]
            await client.advertise("x > 0")
            async with asyncio.timeout(PATIENCE_S):
                await client.close(timeout=0.01)
            for task in tasks:
                with pytest.raises(UsageError):
                    await task
            assert broker.values() == []

    asyncio.run(run())


@pytest.mark.parametrize("many", [False, True])
def test_what_was_told_to_have_failed_is_never_written(many: bool):
    async def run() -> None:
        outbox, session = Outbox(), Session(1, LinkSettings())
        session.connected(0.0)
        session.receive([Hello(2, 0, 0, Grant(1, 2**20, ()))], 0.0)
        publisher = Publisher(outbox, lambda: None, lambda: None)
        work = publisher.publish_many([{"x": 1}]) if many else publisher.publish(Publication({"x": 1}))
        task = asyncio.create_task(work)
        await turn()
        assert outbox.backlog_bytes
        publisher.end(UsageError("closed"))
        outbox.pump(session, 0.0)
        assert session.last_sequence == 0
        with pytest.raises(UsageError):
            await task

    asyncio.run(run())


def open_outbox() -> tuple[Outbox, Session]:
    session = Session(1, LinkSettings())
    session.connected(0.0)
    session.receive([Hello(2, 0, 0, Grant(1, 2**20, ()))], 0.0)
    return Outbox(), session


def written(session: Session) -> list[object]:
    return [item.message.publication.attributes["x"] for item in session.drain(0.0) if isinstance(item, Frame)]


def test_calls_that_wait_for_room_are_written_together_in_their_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher, "BACKLOG_BYTES_MAX", 100)

    async def run() -> None:
        outbox, session = open_outbox()
        sender = Publisher(outbox, lambda: None, lambda: None)
        calls = [asyncio.create_task(sender.publish(Publication({"x": x}))) for x in range(30)]
        calls.append(asyncio.create_task(sender.publish_many({"x": x} for x in range(30, 40))))
        await turn()
        assert outbox.backlog_bytes == 100
        for number in range(3):
            outbox.pump(session, 0.0)
            assert written(session) == list(range(10 * number, 10 * number + 10))
            sender.room_was_made()
        await turn()
        outbox.pump(session, 0.0)
        sender.room_was_made()
        assert written(session) == list(range(30, 40))
        outbox.settle_up_to(session.last_sequence)
        assert await asyncio.gather(*calls) == [None] * 30 + [10]

    asyncio.run(run())


def test_a_call_that_is_cancelled_while_it_waits_for_room_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher, "BACKLOG_BYTES_MAX", 20)

    async def run() -> None:
        outbox, session = open_outbox()
        sender = Publisher(outbox, lambda: None, lambda: None)
        calls = [asyncio.create_task(sender.publish(Publication({"x": x}))) for x in range(6)]
        await turn()
        assert len(sender._waiting) == 4
        calls[2].cancel()
        await turn()
        assert len(sender._waiting) == 3
        calls[3].cancel()  # It has not run since when there is room.
        outbox.pump(session, 0.0)
        sender.room_was_made()
        calls[4].cancel()  # Its publication is in the outbox.
        await turn()
        outbox.pump(session, 0.0)
        assert written(session) == [0, 1, 5]
        outbox.settle_up_to(session.last_sequence)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in results] == [False, False, True, True, True, False]
        assert not outbox.open
        assert not sender._waiting

    asyncio.run(run())


def test_calls_that_wait_for_room_fail_at_the_end_and_closing_does_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher, "BACKLOG_BYTES_MAX", 20)

    async def run() -> None:
        outbox, _ = open_outbox()
        sender = Publisher(outbox, lambda: None, lambda: None)
        calls = [asyncio.create_task(sender.publish(Publication({"x": x}))) for x in range(4)]
        await turn()
        closing = asyncio.create_task(sender.settled())
        await turn()
        sender.end(UsageError("closed"))
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert list(map(str, results)) == ["closed"] * 4
        await closing
        with pytest.raises(UsageError, match="closed"):
            await sender.publish(Publication({"x": 4}))

    asyncio.run(run())


# Producers.


def test_a_producer_goes_on_after_what_the_broker_has():
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = lambda request: [Produced("sink", 7)] if isinstance(request, ProduceRequest) else []
            async with octopia.connect(broker.url) as client:
                assert await client.produce_as("sink") == 7
                await client.publish({"x": 1})
                assert [each.sequence for each in broker.of(PublishRequest)] == [8]
                broker.say([Repeated(2, 9)])
                await client.publish({"x": 2})
                assert client.repeated == 2
                with pytest.raises(UsageError, match=r"expected produce_as\(\) before the first publication"):
                    await client.produce_as("sink")

    asyncio.run(run())


def test_a_producer_ends_rather_than_publish_behind_an_unknown_outcome():
    async def run() -> None:
        async with FakeBroker() as broker:
            broker.answer = lambda request: [Produced("sink", 0)] if isinstance(request, ProduceRequest) else []
            is_cut = asyncio.Event()
            async with octopia.connect(broker.url, on_disconnect=lambda _: is_cut.set()) as client:
                await client.produce_as("sink")
                assert await client.publish_many([{"x": 1}, {"x": 2}]) == client.accepted == 2
                # The third is read and never acknowledged; the broker then forgets the session.
                broker.cut_on_read = lambda: Cut.BEFORE
                lost = asyncio.create_task(client.publish({"x": 3}))
                await is_cut.wait()
                broker.forget()
                late = asyncio.create_task(client.publish({"x": 4}))
                broker.cut_on_read = lambda: Cut.NEVER
                with pytest.raises(OutcomeUnknown):
                    await lost
                with pytest.raises(Unavailable, match="the broker does not know this producer"):
                    await late
                with pytest.raises(Unavailable, match=r"call produce_as\(\) again"):
                    await client.publish({"x": 5})
                assert (broker.values(), client.accepted) == ([1, 2], 2)
                assert not client.is_connected

    asyncio.run(run())


def test_a_request_to_be_a_producer_is_sent_again_if_it_was_not_answered():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            asked = asyncio.create_task(client.produce_as("sink"))
            await broker.until(lambda: len(broker.of(ProduceRequest)) == 1)
            broker.answer = lambda request: [Produced("sink", 3)] if isinstance(request, ProduceRequest) else []
            broker.forget()
            assert await asked == 3
            await client.publish({"x": 1})
            assert [each.sequence for each in broker.of(PublishRequest)] == [4]

    asyncio.run(run())


def test_a_broker_that_does_not_answer_a_producer():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            with pytest.raises(TimedOut, match=r"the broker did not answer within 0\.05 s"):
                await client.produce_as("sink", timeout=0.05)
            # Its answer may come late, and say that the broker has the first publications of this producer already.
            with pytest.raises(Unavailable, match=r"produce_as\(\) got no answer: connect again"):
                await client.publish({"x": 1})
            assert not client.is_connected

    asyncio.run(run())


def test_a_call_to_be_a_producer_that_is_cancelled_ends_the_client():
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            asked = asyncio.create_task(client.produce_as("sink"))
            await broker.until(lambda: bool(broker.of(ProduceRequest)))
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
            with pytest.raises(Unavailable, match=r"produce_as\(\) got no answer"):
                await client.publish({"x": 1})
            assert broker.values() == []

    asyncio.run(run())


@pytest.mark.parametrize("many", [False, True])
def test_until_a_producer_is_answered_nothing_else_is_published(many: bool):
    async def run() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            asked = asyncio.create_task(client.produce_as("sink"))
            await broker.until(lambda: bool(broker.of(ProduceRequest)))
            with pytest.raises(UsageError, match=r"expected one call of produce_as\(\) at a time, got another one"):
                await client.produce_as("other")
            with pytest.raises(UsageError, match=r"expected publications after produce_as\(\) has returned"):
                await publish(client, [{"x": 1}], PATIENCE_S, many=many)
            broker.say([Produced("sink", 7)])
            assert await asked == 7
            await publish(client, [{"x": 2}], PATIENCE_S, many=many)
            assert [each.sequence for each in broker.of(PublishRequest)] == [8]

    asyncio.run(run())
