"""A broker for tests of clients, over real sockets. It does only what a test tells it."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import itertools
from collections.abc import Callable, Iterable, Sequence

from octopia.content import Publication
from octopia.errors import PeerError
from octopia.ids import BrokerId, PublicationId
from octopia.link import Session
from octopia.protocol import CloseCode, Closing, MessageKind, Opening, Role, WireItem
from octopia.protocol.messages import (
    AdvertiseRequest,
    ClientReply,
    ClientRequest,
    Confirmed,
    Deliver,
    PublishRequest,
    SubscribeRequest,
)
from octopia.transport import Connection
from octopia.transport.settings import CLIENT_LINK

PATIENCE_S = 10.0
_LINK = dataclasses.replace(CLIENT_LINK, ack_ms=0.0)
"""It acknowledges at once, since it has no timer."""

_incarnations = itertools.count(1)


class Cut(enum.Enum):
    """The time at which a connection breaks in a read: never, before it is processed, or before the answer."""

    NEVER = enum.auto()
    BEFORE = enum.auto()
    AFTER = enum.auto()


def confirm(request: ClientRequest) -> list[ClientReply]:
    match request:
        case AdvertiseRequest():
            return [Confirmed(MessageKind.ADVERTISEMENT, request.handle)]
        case SubscribeRequest():
            return [Confirmed(MessageKind.SUBSCRIPTION, request.handle)]
    return []


def keep_quiet(_: ClientRequest) -> list[ClientReply]:
    return []


class FakeBroker:
    """Accepts clients, records their requests, and answers them with ``answer``."""

    def __init__(self, name: str = "b.3", *, confirms: bool = True):
        self.name = name
        self.confirms = confirms
        self.answer: Callable[[ClientRequest], Sequence[ClientReply]] = confirm
        self.cut_on_read: Callable[[], Cut] = lambda: Cut.NEVER
        self.refusal: Closing | None = None
        self.accepts_data = True
        self.greets = True
        self.leaves_after_opening = False
        self.places = True
        self.received: list[ClientRequest] = []
        self.openings: list[Opening] = []
        self.goodbyes: list[PeerError | None] = []
        self.sessions: dict[str, Session] = {}
        self.connections: dict[str, Connection] = {}
        self.cuts = 0
        self.port = 0
        self._numbers = itertools.count()
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> FakeBroker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    @property
    def url(self) -> str:
        return f"octopia://127.0.0.1:{self.port}"

    # For tests.

    def cut(self) -> None:
        """Break all connections."""
        connections, self.connections = self.connections, {}
        for name, connection in connections.items():
            self.sessions[name].disconnected()
            connection.abort()
        self.cuts += len(connections)

    def forget(self) -> None:
        """Break all connections, and forget all sessions."""
        self.cut()
        self.sessions.clear()

    def say(self, replies: Iterable[ClientReply]) -> None:
        """Send replies to all clients."""
        replies = list(replies)
        for name, session in self.sessions.items():
            for reply in replies:
                session.send(reply, _now_ms())
            self._flush(name)

    def deliver(self, values: Iterable[object], handles: tuple[int, ...] = (1,)) -> None:
        """Deliver publications ``{x = value}``."""
        self.say(delivery({"x": value}, handles, next(self._numbers)) for value in values)

    def place(self) -> None:
        """Return all credit."""
        self.places = True
        for name, session in self.sessions.items():
            _place(session)
            self._flush(name)

    def close(self, code: CloseCode, reason: str = "") -> None:
        for connection in list(self.connections.values()):
            connection.close(code, reason)

    def values(self) -> list[object]:
        """Return ``x`` of every publication that was accepted, in order."""
        return [each.publication.attributes["x"] for each in self.of(PublishRequest)]

    def of(self, kind: type) -> list:
        return [each for each in self.received if isinstance(each, kind)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked after each read."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    # For connections.

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        first = items[0]
        if isinstance(first, Opening):
            self._on_opening(connection, first)
        else:
            self._on_read(connection, items)
        self._changed.set()

    def on_capacity_changed(self, connection: Connection) -> None:
        pass

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        for name, each in list(self.connections.items()):
            if each is connection:
                del self.connections[name]
                if name in self.sessions:
                    self.sessions[name].disconnected()
                self.goodbyes.append(reason)
        self._changed.set()

    def _on_opening(self, connection: Connection, opening: Opening) -> None:
        self.openings.append(opening)
        if self.refusal is not None:
            connection.close(self.refusal.code, self.refusal.reason, retry_ms=self.refusal.retry_ms)
            return
        if opening.broker not in ("", self.name):
            connection.close(CloseCode.WRONG_BROKER, f"this is {self.name}, not {opening.broker}")
            return
        if not self.greets:
            return
        connection.send([Opening(Role.BROKER, self.name, "abc", confirms=self.confirms)])
        if self.leaves_after_opening:
            connection.close(CloseCode.SHUTDOWN)
            return
        if opening.sender not in self.sessions:
            self.sessions[opening.sender] = Session(next(_incarnations), _LINK)
        session = self.sessions[opening.sender]
        self.connections[opening.sender] = connection
        session.accept_data(self.accepts_data)
        session.connected(_now_ms())
        self._flush(opening.sender)

    def _on_read(self, connection: Connection, items: list[WireItem]) -> None:
        name = next(name for name, each in self.connections.items() if each is connection)
        session, cut = self.sessions[name], self.cut_on_read()
        if cut is Cut.BEFORE:
            self.cut()
            return
        for request in session.receive(items, _now_ms()).messages:
            self.received.append(request)
            for reply in self.answer(request):
                session.send(reply, _now_ms())
        if self.places:
            _place(session)
        if cut is Cut.AFTER:
            self.cut()
            return
        self._flush(name)

    def _flush(self, name: str) -> None:
        items = self.sessions[name].drain(_now_ms()) if name in self.connections else []
        if items:
            self.connections[name].send(items)


def delivery(attributes: dict, handles: tuple[int, ...] = (1,), number: int = 1, payload: bytes = b"") -> Deliver:
    name = PublicationId(BrokerId("a", 0), 1, number)
    return Deliver(name, Publication(attributes, payload), handles, 2, 1000.0)


def _place(session: Session) -> None:
    waiting = session._receiver.unplaced.get(0)
    if waiting:
        session.placed(0, len(waiting))


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000.0
