"""The blocking client, against a fake broker in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

import octopia
from fake_broker import FakeBroker, keep_quiet
from octopia.client import BlockingClient
from octopia.errors import InvalidFilter, NotConfirmed, SlowSubscriber, TimedOut, Unavailable, UsageError
from octopia.protocol import Cause
from octopia.protocol.messages import Gap


class BrokerThread:
    """A fake broker in an event loop of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.broker = self.run(self._start())

    def run(self, work: object) -> object:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(10)

    def do(self, action: Callable[..., None], *arguments: object) -> None:
        async def act() -> None:
            action(*arguments)

        self.run(act())

    async def _start(self) -> FakeBroker:
        broker = FakeBroker()
        await broker.start()
        return broker

    def stop(self) -> None:
        self.do(self.broker.stop)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def remote() -> Iterator[BrokerThread]:
    thread = BrokerThread()
    yield thread
    thread.stop()


@pytest.fixture
def client(remote: BrokerThread) -> Iterator[BlockingClient]:
    with octopia.connect_blocking(remote.broker.url) as client:
        yield client


def test_the_verbs(remote: BrokerThread, client: BlockingClient):
    assert client.is_connected
    advertisement = client.advertise("x > 0")
    subscription = client.subscribe("x > 0")
    client.publish({"x": 1}, payload=b"hi")
    assert client.publish_many({"x": x} for x in range(2, 100)) == 98
    assert remote.broker.values() == list(range(1, 100))
    remote.do(remote.broker.deliver, range(50), (2,))
    values = (received["x"] for received in subscription)
    assert [next(values) for _ in range(50)] == list(range(50))
    advertisement.unadvertise()
    subscription.unsubscribe()
    assert list(subscription) == []
    assert (subscription.lost, subscription.gaps) == (0, 0)


def test_waiting_has_an_end(remote: BrokerThread, client: BlockingClient):
    subscription = client.subscribe("x > 0")
    remote.do(remote.broker.deliver, [1, 2])
    assert subscription.next(timeout=10)["x"] == 1
    assert [each["x"] for each in subscription.iterate(timeout=0.01)] == [2]
    with pytest.raises(TimedOut):
        subscription.next(timeout=0.01)
    subscription.unsubscribe()
    with pytest.raises(UsageError, match="has ended"):
        subscription.next()


def test_errors_come_through(remote: BrokerThread, client: BlockingClient):
    with pytest.raises(InvalidFilter):
        client.subscribe("x >")
    remote.broker.answer = keep_quiet
    with pytest.raises(NotConfirmed) as caught:
        client.subscribe("x > 0", timeout=0.01, buffer=1)
    remote.do(remote.broker.deliver, [1, 2, 3])
    waiting = iter(caught.value.issued)
    assert next(waiting)["x"] == 1
    with pytest.raises(SlowSubscriber):
        list(waiting)
    with pytest.raises(NotConfirmed) as caught:
        client.advertise("x > 0", timeout=0.01)
    caught.value.issued.unadvertise()
    with pytest.raises(Unavailable):
        octopia.connect_blocking("octopia://127.0.0.1:1", timeout=0.01)


def test_publishing_has_an_end(remote: BrokerThread):
    remote.broker.accepts_data = False
    with octopia.connect_blocking(remote.broker.url, name="feed") as client:
        with pytest.raises(TimedOut):
            client.publish({"x": 1}, timeout=0.01)
        with pytest.raises(TimedOut):
            client.publish_many([{"x": 1}], timeout=0.01)
        assert repr(client) == "<BlockingClient 'feed', connected to b.3>"
        assert repr(client.advertise("x > 0")) == "<BlockingAdvertisement 'x > 0'>"
    assert remote.broker.values() == []


def test_on_gap_gets_the_subscription_that_the_program_has(remote: BrokerThread, client: BlockingClient):
    gaps: list[object] = []
    subscription = client.subscribe("x > 0", on_gap=gaps.append)
    remote.do(remote.broker.say, [Gap(Cause.LINK_DOWN, 3)])
    client.publish({"x": 1})
    assert gaps == [subscription]
    assert subscription.last_gap == octopia.Gap(octopia.Cause.LINK_DOWN, 3)
    assert repr(subscription) == "<BlockingSubscription 'x > 0', 0 buffered, 0 lost, 1 gaps>"


def test_closing_from_another_thread_ends_iteration(remote: BrokerThread):
    client = octopia.connect_blocking(remote.broker.url)
    subscription = client.subscribe("x > 0")
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(each["x"] for each in subscription))
    reader.start()
    remote.do(remote.broker.deliver, [1, 2])
    client.publish({"x": 1})
    closers = [threading.Thread(target=client.close) for _ in range(3)]
    for each in closers:
        each.start()
    for each in (*closers, reader):
        each.join(10)
        assert not each.is_alive()
    assert seen == [1, 2]
    with pytest.raises(UsageError, match="closed"):
        client.publish({"x": 1})


def test_what_has_come_can_be_read_after_closing(remote: BrokerThread):
    with octopia.connect_blocking(remote.broker.url) as client:
        subscription = client.subscribe("x > 0")
        slow = client.subscribe("x > 0", buffer=1)
        remote.do(remote.broker.deliver, [1, 2], (1, 2))
        client.publish({"x": 1})
    assert [each["x"] for each in subscription] == [1, 2]
    assert slow.next()["x"] == 1
    with pytest.raises(SlowSubscriber):
        slow.next()


def test_a_callback_must_not_block_its_own_client(remote: BrokerThread, client: BlockingClient):
    told: list[object] = []
    done = threading.Event()

    def callback(_: object) -> None:
        try:
            client.publish({"x": 1})
        except UsageError as error:
            told.append(str(error))
        done.set()

    client.subscribe("x > 0", callback=callback)
    remote.do(remote.broker.deliver, [1])
    assert done.wait(10)
    assert told == ["expected a blocking call outside the client's own thread, got one from a callback"]


def test_a_program_acknowledges_what_it_has_read_and_another_resumes(remote: BrokerThread, client: BlockingClient):
    subscription = client.subscribe("x > 0", ack="manual", keep_s=60)
    remote.do(remote.broker.deliver, range(5))
    assert [subscription.next(timeout=10)["x"] for _ in range(2)] == [0, 1]  # All five were fetched.
    point = subscription.resume_point()
    subscription.acknowledge()
    assert subscription.take_notices() == []
    client.close(keep=True)
    with octopia.connect_blocking(remote.broker.url, resume=point) as again:
        resumed = again.subscribe("x > 0", ack="manual")
        assert [resumed.next(timeout=10)["x"] for _ in range(3)] == [2, 3, 4]
