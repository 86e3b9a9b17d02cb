"""The load of benchmarks/network.py: publishers and subscribers.

The clients do little more than a connection needs, so that they do not dominate the measurement: a session with a
broker, and not even that with a relay.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

from network_processes import Ears, Wrong
from octopia.addresses import Address
from octopia.client.attempts import busy_s
from octopia.content import Publication, Value, parse_filter
from octopia.errors import PeerError
from octopia.link import Session
from octopia.protocol import Frame, Opening, Role, WireItem
from octopia.protocol.messages import AdvertiseRequest, Confirmed, Deliver, PublishRequest, SubscribeRequest
from octopia.transport import Connection
from octopia.transport.settings import CLIENT_LINK
from octopia.wire import prepare

WRITE_BYTES = 64 * 1024
CHOICES = 50
"""The number of values of x: publication n has x = n % 50."""
OFFER = "symbol IS NOT NULL AND open > 0 AND high > 0 AND low > 0 AND price > 0 AND volume > 0 AND x >= 0"
NUMBER_BYTES = 8

_incarnations = itertools.count(time.time_ns())


def publication(number: int) -> Publication:
    """Return a publication with 7 attributes; the payload starts with its number."""
    bar: dict[str, Value] = {
        "symbol": "IBM",
        "open": 15.07,
        "high": 15.12,
        "low": 14.63,
        "price": 14.75,
        "volume": 8_407_500,
    }
    made = Publication(bar | {"x": number % CHOICES}, number.to_bytes(NUMBER_BYTES) + bytes(12))
    prepare(made)
    return made


# Clients.


class End:
    """A client's end of a connection, with a session to a broker, without one to a relay."""

    def __init__(self, name: str, on_messages: Callable[[list[Any]], None], *, has_session: bool):
        self.name = name
        self.session = Session(next(_incarnations), CLIENT_LINK) if has_session else None
        self.on_messages = on_messages
        self.on_room: Callable[[], None] = lambda: None
        self.confirmed = 0
        self._ack_timer: asyncio.TimerHandle | None = None
        self._greeted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.news = asyncio.Event()

    async def connect(self, address: Address) -> None:
        """Connect, and wait until messages can be written. Come back to a busy broker when it says."""
        loop = asyncio.get_running_loop()
        is_up = False
        while not is_up:
            self._greeted = loop.create_future()
            _, self.connection = await loop.create_connection(lambda: Connection(self), address.host, address.port)
            self.connection.send([Opening(Role.CLIENT, self.name)])
            retry_s = await self._greeted
            is_up = not retry_s
            await asyncio.sleep(retry_s)
        self._tick()

    async def request(self, *requests: Any) -> None:
        """Send requests, and wait until the broker has confirmed them."""
        assert self.session is not None
        wanted = self.confirmed + len(requests)
        for each in requests:
            self.session.send(each, now_ms())
        self.flush()
        while self.confirmed < wanted:
            self.news.clear()
            await self.news.wait()

    def flush(self) -> None:
        """Write the items of the session."""
        if self.session is not None:
            self.connection.send(self.session.drain(now_ms()))

    def _tick(self) -> None:
        if self.session is not None and self.session.wake(now_ms()):
            self.flush()
        asyncio.get_running_loop().call_later(1.0, self._tick)

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Handle received items."""
        if isinstance(items[0], Opening):
            if self.session is None:
                self._greeted.set_result(0.0)
            else:
                self.session.connected(now_ms())
        elif self.session is None:
            self.on_messages([item.message for item in items])  # type: ignore[union-attr]
        else:
            outcome = self.session.receive(items, now_ms())  # type: ignore[arg-type]
            if outcome.came_up:
                self._greeted.set_result(0.0)
            self._take(outcome.messages)
            self.on_room()
        if self.session is not None:
            connection.send(self.session.drain(now_ms()))
            due_ms = self.session.acknowledges_by_ms
            if due_ms is not None and self._ack_timer is None:
                loop = asyncio.get_running_loop()
                self._ack_timer = loop.call_later((due_ms - now_ms()) / 1000.0, self._acknowledge)

    def _acknowledge(self) -> None:
        self._ack_timer = None
        if self.session is not None:
            self.session.acknowledge()
            self.flush()

    def _take(self, messages: list[Any]) -> None:
        others = [each for each in messages if type(each) is not Deliver]
        for each in others:
            if not isinstance(each, Confirmed):
                raise Wrong(f"expected confirmations and deliveries, got {each}")
            self.confirmed += 1
            self.news.set()
        self.on_messages([each for each in messages if type(each) is Deliver] if others else messages)

    def on_capacity_changed(self, connection: Connection) -> None:
        """Continue publishing."""
        if connection.is_writable:
            self.on_room()

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Fail, unless a busy broker turns this client away: no other connection is closed here."""
        problem = Wrong(f"{self.name} lost its connection: {reason}")
        if self._greeted.done():
            raise problem
        if retry_s := busy_s(reason):
            self._greeted.set_result(retry_s)
        else:
            self._greeted.set_exception(problem)


def now_ms() -> float:
    return time.monotonic() * 1000.0


async def run_publisher(pipe: Pipe, address: Address, has_session: bool) -> None:
    """Publish ``count`` numbers from ``first`` on command, at a rate or (0) as fast as the other end accepts them."""
    end, ears = End("P", lambda _: None, has_session=has_session), Ears(pipe)
    await end.connect(address)
    if has_session:
        await end.request(AdvertiseRequest(0, parse_filter(OFFER)))
    pipe.send("ready")
    while True:
        first, count, rate = await ears.next()
        publications = [publication(number) for number in range(first, first + count)]
        pipe.send("prepared")
        await ears.next()
        if rate:
            await _publish_slowly(end, first, publications, rate)
        else:
            await _publish_fast(end, first, publications)


async def _publish_slowly(end: End, first: int, publications: list[Publication], rate: float) -> None:
    begin = time.monotonic()
    for number, each in enumerate(publications):
        await pause_until(begin + number / rate)
        _send(end, PublishRequest(first + number, each, now_ms()))
        end.flush()


async def pause_until(deadline_s: float) -> None:
    """Let the event loop read and write, then sleep: timers of event loops are too coarse for 1,000 per second."""
    for _ in range(3):
        await asyncio.sleep(0)
    time.sleep(max(0.0, deadline_s - time.monotonic()))


async def _publish_fast(end: End, first: int, publications: list[Publication]) -> None:
    left, done = enumerate(publications, first), asyncio.Event()

    def pump() -> None:
        session, written = end.session, 0
        while end.connection.is_writable and written < WRITE_BYTES and (session is None or session.classes & 1):
            number, each = next(left, (0, None))
            if each is None:
                done.set()
                break
            _send(end, PublishRequest(number, each, now_ms()))
            written += each.size
        end.flush()
        if session is None and not done.is_set() and end.connection.is_writable:
            asyncio.get_running_loop().call_soon(pump)

    end.on_room = pump
    pump()
    await done.wait()
    end.on_room = lambda: None


def _send(end: End, request: PublishRequest) -> None:
    if end.session is not None:
        end.session.send(request, now_ms())
    else:
        end.connection.send([Frame(request.sequence, request)])


async def run_subscribers(pipe: Pipe, address: Address, interests: list[list[str]], has_session: bool) -> None:
    """Receive on command: when everything expected has arrived, report the times, and check for duplicates."""
    got = Received()
    ends = []
    for number, filters in enumerate(interests):
        end = End(f"S{number}", got.taker(number), has_session=has_session)
        await end.connect(address)
        if has_session:
            await end.request(*(SubscribeRequest(handle, parse_filter(each)) for handle, each in enumerate(filters)))
        ends.append(end)
    await obey(pipe, got)


async def obey(pipe: Pipe, got: Received) -> None:
    """Tell the parent what subscribers received, on command."""
    ears = Ears(pipe)
    pipe.send("ready")
    while True:
        expected, has_details = await ears.next()
        got.expect(expected, has_details=has_details)
        pipe.send("prepared")
        await got.all_came.wait()
        pipe.send((got.last_s, got.delays_ms, got.hops))
        await ears.next()  # duplicates have arrived by then
        pipe.send(got.numbers)


class Received:
    """The publications that subscribers received."""

    def __init__(self) -> None:
        self.all_came = asyncio.Event()
        self.numbers: dict[int, list[int]] = {}
        self.delays_ms: list[float] = []
        self.last_s = 0.0
        self.hops = 0
        self._missing = 0
        self.has_details = False

    def expect(self, count: int, *, has_details: bool) -> None:
        """Start again, and wait for ``count`` publications; details are delays and hops."""
        self.all_came.clear()
        for numbers in self.numbers.values():
            numbers.clear()
        self.delays_ms, self.hops = [], 0
        self._missing = count
        self.has_details = has_details

    def note(self, mine: list[int], numbers: list[int], published_ms: list[float]) -> None:
        """Note publications that one subscriber received together."""
        at_ms = now_ms()
        self.delays_ms += [at_ms - each for each in published_ms]
        mine.extend(numbers)
        self._missing -= len(numbers)
        if self._missing <= 0 < self._missing + len(numbers):
            self.last_s = at_ms / 1000.0
            self.all_came.set()

    def taker(self, subscriber: int) -> Callable[[list[Any]], None]:
        """Return the handler of messages of one subscriber."""
        mine = self.numbers[subscriber] = []

        def take(messages: list[Any]) -> None:
            if self.has_details:
                self.hops += sum(getattr(each, "hop", 0) for each in messages)
            numbers = [int.from_bytes(each.publication.payload[:NUMBER_BYTES]) for each in messages]
            self.note(mine, numbers, [each.published_ms for each in messages] if self.has_details else [])

        return take
