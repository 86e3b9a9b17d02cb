"""A client from bytes to bytes: what it writes, what subscriptions receive, and how calls end.

The event loop has virtual time and no sockets. A session plays the broker: it answers or refuses requests, delivers
publications, loses connections, forgets the client, and sends bytes in pieces of any size, some of them wrong.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from unittest import mock

from encoded_attributes import FLOATS, NAMES, NUMBERS, TEXTS

import octopia
from octopia.client.received import Received
from octopia.content import Publication
from octopia.errors import OctopiaError
from octopia.ids import BrokerId, PublicationId
from octopia.link import LinkSettings, Session
from octopia.protocol import CONTROL, Cause, CloseCode, Closing, Frame, MessageKind, Opening, Role, WireItem
from octopia.protocol.messages import (
    AdvertiseRequest,
    ClientReply,
    Confirmed,
    CutOff,
    Deliver,
    Gap,
    Lost,
    Message,
    PublishRequest,
    Refused,
    SubscribeRequest,
)
from octopia.wire import Reader, encode_all

STEPS = 60
HOSTS = (BrokerId("a", 0), BrokerId("region_9", 63))
LINKS = (LinkSettings(300, 500.0, 1e9), LinkSettings(65536, 500.0, 1e9))
ACTIONS = (
    ("publish", 6), ("publish_many", 3), ("subscribe", 3), ("advertise", 1), ("unsubscribe", 1), ("read", 4),
    ("deliver", 8), ("tell", 2), ("stick", 1), ("cut", 2), ("close", 1), ("spoil", 1),
)  # fmt: skip


class Instant(selectors.SelectSelector):
    """A selector that does not wait: virtual time advances instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "nothing will ever happen"
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, whose connections lead to one peer."""

    def __init__(self, connect: Callable[[asyncio.BufferedProtocol], Any]):
        self.instant = Instant()
        self.accept = connect
        super().__init__(self.instant)

    def time(self) -> float:
        return self.instant.now_s

    def time_ns(self) -> int:
        return int(self.instant.now_s * 1e9)

    async def create_connection(self, factory: Callable[[], Any], *_: Any, **__: Any) -> Any:
        await asyncio.sleep(0)
        protocol = factory()
        transport = self.accept(protocol)
        protocol.connection_made(transport)
        return transport, protocol


class Wire(asyncio.Transport):
    """A connection with a client, and the broker at its other end."""

    def __init__(self, peer: Peer, protocol: asyncio.BufferedProtocol):
        super().__init__()
        self.peer, self.protocol = peer, protocol
        self.reader = Reader()
        self.is_broken = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits: there is no buffer."""

    def write(self, data: Any) -> None:
        self.peer.story.append(f"wrote {bytes(data).hex()}")
        if not self.is_broken:
            self.peer.hear(self, list(self.reader.feed(data)))

    def write_eof(self) -> None:
        self.peer.story.append("ended its stream")
        self.peer.loop.call_soon(self.abort)

    def abort(self) -> None:
        if not self.is_broken:
            self.is_broken = True
            self.peer.lose(self)
            self.peer.loop.call_soon(self.protocol.connection_lost, None)

    def close(self) -> None:
        self.abort()

    def put(self, data: bytes) -> None:
        """Let bytes arrive at the client in pieces."""
        while data and not self.is_broken:
            step = self.peer.chance.choice((1, 63, 200, 10_000, 10_000, 10_000))
            piece, data = data[:step], data[step:]
            self.protocol.get_buffer(-1)[: len(piece)] = piece  # type: ignore[index]
            self.protocol.buffer_updated(len(piece))


class Peer:
    """The broker that a client talks to."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.story: list[str] = []
        self.loop = Loop(self.accept)
        self.wire: Wire | None = None
        self.incarnation = 0
        self.number = 0
        self.is_stuck = False
        self.session = self.new_session()

    def new_session(self) -> Session:
        self.incarnation += 1
        return Session(self.incarnation, self.chance.choice(LINKS))

    @property
    def now_ms(self) -> float:
        return self.loop.time() * 1000.0

    def accept(self, protocol: asyncio.BufferedProtocol) -> Wire:
        self.story.append("connected")
        return Wire(self, protocol)

    def lose(self, wire: Wire) -> None:
        if wire is self.wire:
            self.wire = None
            self.session.disconnected()

    def hear(self, wire: Wire, items: list[WireItem]) -> None:
        """Handle what a client wrote, after it has finished its turn."""
        self.loop.call_soon(self.handle, wire, items)

    def handle(self, wire: Wire, items: list[WireItem]) -> None:
        if wire.is_broken:
            return
        if isinstance(items[0], Opening):
            self.wire = wire
            wire.put(encode_all([Opening(Role.BROKER, "b.3", "abc", confirms=True)]))
            self.session.connected(self.now_ms)
        carried = [item for item in items if not isinstance(item, Opening | Closing)]
        outcome = self.session.receive(carried, self.now_ms)  # type: ignore[arg-type]
        for message in outcome.messages:
            for reply in self.answer(message):
                self.session.send(reply, self.now_ms)
            if message.traffic_class != CONTROL and not self.is_stuck:
                self.session.placed(message.traffic_class, 1)
        self.flush()

    def answer(self, request: Message) -> list[ClientReply]:
        is_kind = self.chance.random() < 0.9
        match request:
            case AdvertiseRequest():
                kind, number = MessageKind.ADVERTISEMENT, request.handle
            case SubscribeRequest():
                kind, number = MessageKind.SUBSCRIPTION, request.handle
            case PublishRequest():
                return [] if is_kind else [Refused(MessageKind.PUBLICATION, request.sequence, "it is refused")]
            case _:
                return []
        return [Confirmed(kind, number)] if is_kind else [Refused(kind, number, "it is refused")]

    def say(self, *replies: ClientReply) -> None:
        for reply in replies:
            self.session.send(reply, self.now_ms)
        self.flush()

    def flush(self) -> None:
        if self.wire is not None and (items := self.session.drain(self.now_ms)):
            self.wire.put(bytes(encode_all(items)))

    def delivery(self) -> Deliver:
        chance = self.chance
        self.number += chance.choice((0, 1, 1, 1, 1))
        name = PublicationId(chance.choice(HOSTS), chance.choice((1, 2**64 - 1)), self.number)
        count = chance.choice((1, 1, 2, 16))
        handles = tuple(chance.choice((1, 2, 3, 4, 5, 127, 128, 2**33)) for _ in range(count))
        return Deliver(name, draw(chance), handles, chance.choice((0, 3, 2**32 - 1)), chance.choice((0.0, 1.7e12)))


def draw(chance: random.Random) -> Publication:
    """Draw a publication."""
    values = (chance.choice(TEXTS), chance.choice(NUMBERS), chance.choice(FLOATS), True, chance.random())
    names = chance.sample(NAMES, chance.choice((1, 2, 5)))
    return Publication({name: chance.choice(values) for name in names}, chance.randbytes(chance.choice((0, 3, 700))))


class Program:
    """A program that uses a client, and notes what comes of it."""

    def __init__(self, peer: Peer):
        self.peer, self.chance = peer, peer.chance
        self.client: octopia.Client
        self.subscriptions: list[octopia.Subscription] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.calls = 0

    async def run(self) -> None:
        self.client = await octopia.connect(
            "octopia://127.0.0.1:7400",
            name="client",
            on_disconnect=lambda reason: self.note(f"disconnected {reason}"),
            on_reconnect=lambda: self.note("reconnected"),
            on_error=lambda error: self.note(f"error {error}"),
        )
        names, weights = zip(*ACTIONS, strict=True)
        for _ in range(STEPS):
            action = self.chance.choices(names, weights)[0]
            self.note(f"{action} at {self.peer.now_ms}")
            getattr(self, f"_{action}")()
            await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.001, 0.001, 0.1, 1.0)))
        self.peer.is_stuck = False
        self._read()
        await self.client.close(timeout=1.0)
        await asyncio.wait(self.tasks, timeout=100.0)
        self.note(f"{self.client!r}, {sum(task.done() for task in self.tasks)} of {len(self.tasks)} calls are done")

    def note(self, sentence: str) -> None:
        self.peer.story.append(sentence)

    def call(self, what: str, made: Awaitable[Any]) -> None:
        """Start a call, and note its end."""
        self.calls += 1

        async def ended(number: int) -> None:
            try:
                result = await made
            except OctopiaError as error:
                self.note(f"call {number}, {what}: {type(error).__name__}: {error} {getattr(error, '__notes__', '')}")
                return
            if isinstance(result, octopia.Subscription):
                self.subscriptions.append(result)
            self.note(f"call {number}, {what}: {result!r}")

        self.tasks.append(asyncio.create_task(ended(self.calls)))

    def _publish(self) -> None:
        for _ in range(self.chance.choice((1, 3))):
            self.call("publish", self.client.publish(draw(self.chance), timeout=self.chance.choice((None, 0.2))))

    def _publish_many(self) -> None:
        many = [draw(self.chance) for _ in range(self.chance.choice((2, 20)))]
        given = [(dict(each.attributes), each.payload) if self.chance.random() < 0.5 else each for each in many]
        self.call("publish_many", self.client.publish_many(given, timeout=self.chance.choice((None, 0.2))))

    def _subscribe(self) -> None:
        text = self.chance.choice(("x > 2", "symbol = 'IBM'", "x IS NOT NULL"))
        overflow = self.chance.choice(("disconnect", "drop_oldest"))
        buffer = self.chance.choice((2, 1000))
        callback = self.heard if self.chance.random() < 0.3 else None
        self.call("subscribe", self.client.subscribe(text, callback=callback, buffer=buffer, overflow=overflow))

    def heard(self, received: Received) -> None:
        self.note(f"called with {received!r}")

    def _advertise(self) -> None:
        self.call("advertise", self.client.advertise("x > 0", ordered=self.chance.random() < 0.5))

    def _unsubscribe(self) -> None:
        if self.subscriptions:
            self.call("unsubscribe", self.chance.choice(self.subscriptions).unsubscribe())

    def _read(self) -> None:
        for each in self.subscriptions:
            self.note(f"{each!r} {each.lost} {each.gaps} {each.last_gap} {each.has_ended} {each.buffered}")
            if each.buffered:
                self.call("read", self.batch(each))

    async def batch(self, subscription: octopia.Subscription) -> list[str]:
        return [
            f"{each!r} {each.payload.hex()} {each.published_ms} {each.received_ms} {each.hops} {each.publication!r}"
            for each in await subscription.next_batch()
        ]

    def _deliver(self) -> None:
        self.peer.say(*(self.peer.delivery() for _ in range(self.chance.choice((1, 5, 40)))))

    def _tell(self) -> None:
        told = (Gap(Cause.RESTART), Gap(Cause.LINK_DOWN, 2**40), Lost(2**63 - 1), Lost(3))
        self.peer.say(CutOff(2) if self.chance.random() < 0.05 else self.chance.choice(told))

    def _stick(self) -> None:
        peer = self.peer
        peer.is_stuck = not peer.is_stuck
        waiting = peer.session._receiver.unplaced.get(0)
        if not peer.is_stuck and waiting:
            peer.session.placed(0, len(waiting))
            peer.flush()

    def _cut(self) -> None:
        if self.peer.wire is not None:
            self.peer.wire.abort()
        if self.chance.random() < 0.3:
            self.peer.session = self.peer.new_session()

    def _close(self) -> None:
        codes = (CloseCode.SHUTDOWN, CloseCode.BUSY, CloseCode.TIMEOUT)
        if self.peer.wire is not None:
            self.peer.wire.put(bytes(encode_all([Closing(self.chance.choice(codes), "for a while", retry_ms=10)])))

    def _spoil(self) -> None:
        if self.peer.wire is not None:
            data = bytearray(encode_all([Frame(1, self.peer.delivery())]))
            data[self.chance.randrange(4, len(data))] = self.chance.randrange(256)
            self.peer.wire.put(bytes(data))


def lines(seed: int) -> Iterator[str]:
    """Yield what a client does."""
    peer = Peer(seed)
    random.seed(seed)  # Delays before another attempt are random.
    with (
        mock.patch("time.time", peer.loop.time),
        mock.patch("time.time_ns", peer.loop.time_ns),
        asyncio.Runner(loop_factory=lambda: peer.loop) as runner,
    ):
        runner.run(Program(peer).run())
    yield from peer.story
