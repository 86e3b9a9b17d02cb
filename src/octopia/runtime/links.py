"""The ends of links at a broker: a session each, and the connection that carries it for now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from octopia.broker import Broker, Effects
from octopia.errors import PeerError
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import Session
from octopia.overlay import LinkShape
from octopia.protocol import CONTROL_ONLY, Ack, CloseCode, Frame, Hello, Item, Overflow, WireItem
from octopia.runtime.shaping import Shaper
from octopia.transport import Connection
from octopia.transport.settings import BROKER_LINK, CLIENT_LINK

_SAID_BY_SESSIONS = frozenset((Hello, Frame, Ack))


class Host(Protocol):
    """The node that links belong to."""

    @property
    def broker(self) -> Broker:
        """The broker that runs here."""

    def accepts_data_from(self, peer: Peer) -> bool:
        """Whether publications are taken from a link now."""

    def now_ms(self) -> float:
        """Return the time, in the broker's clock."""

    def carry_out(self, effects: Effects) -> None:
        """Do what an input has asked for."""

    def wants_flow(self, peer: Peer) -> None:
        """Let a link carry what it can, before this input ends."""

    def lost_connection(self, peer: Peer, reason: PeerError | None) -> None:
        """Learn that a link has no connection any more."""

    def dismiss(self, client: ClientId) -> None:
        """Part with a client that asks and asks, and reads no answer."""


class _End:
    """What both kinds of links have in common."""

    def __init__(self, host: Host, peer: Peer, session: Session):
        self._host = host
        self._peer = peer
        self.session = session
        self.connection: Connection | None = None

    @property
    def is_up(self) -> bool:
        """Whether the link carries messages."""
        return self.session.is_up

    @property
    def can_write(self) -> bool:
        """Whether messages may be taken for this link now."""
        return self.session.is_up and self.connection is not None and self.connection.is_writable

    def drain(self, now_ms: float) -> list[Item]:
        """Return what is to be written now; acknowledgements do not pile up for somebody who reads nothing."""
        is_clogged = self.connection is not None and not self.connection.is_writable
        return [] if is_clogged else self.session.drain(now_ms)

    def replace_connection(self, connection: Connection) -> None:
        """Go on over a new connection; an old one is closed."""
        old, self.connection = self.connection, connection
        connection.owner = self
        connection.opened()
        if old is not None:
            old.close(CloseCode.REPLACED, "a newer connection has taken its place")

    def write(self, items: Sequence[Item]) -> None:
        """Write items over the connection, if there is one."""
        if self.connection is not None:
            self.connection.send(items)

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Hand what the other end said to the broker."""
        if connection is not self.connection:
            return
        host, now_ms = self._host, self._host.now_ms()
        outcome = self.session.receive(_session_items(connection, items), now_ms)
        if outcome.came_up:
            self.came_up(now_ms)
        if outcome.messages:
            effects = host.broker.receive(self._peer, outcome.messages, now_ms)
            if effects.violation is not None:
                connection.close(CloseCode.VIOLATION, str(effects.violation))
            effects.ready[self._peer] = None  # an acknowledgement is due
            host.carry_out(effects)
        else:
            host.wants_flow(self._peer)

    def came_up(self, now_ms: float) -> None:
        """Take note that the link carries messages."""

    def on_writable(self, connection: Connection) -> None:
        """Go on taking from the queue."""
        if connection is self.connection:
            self._host.wants_flow(self._peer)

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Take note that the connection is gone, unless another has taken its place."""
        if connection is self.connection:
            self.connection = None
            self.go_down()
            self._host.lost_connection(self._peer, reason)

    def go_down(self) -> None:
        """Take note that the link carries nothing."""
        self.session.disconnected()

    def wake(self, now_ms: float) -> None:
        """Do what is due; give up a connection over which nothing was heard for too long."""
        due_ms = self.session.next_deadline_ms
        if due_ms is None or now_ms < due_ms:
            return
        if self.session.wake(now_ms):
            self._host.wants_flow(self._peer)
        elif self.connection is not None:
            self.connection.abort()


class BrokerLink(_End):
    """The link to a neighbour."""

    def __init__(self, host: Host, peer: BrokerId, incarnation: int, shape: LinkShape | None):
        super().__init__(host, peer, Session(incarnation, BROKER_LINK))
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.shaper = Shaper(self._loop, self.write)
        if shape is not None:
            self.shaper.set_shape(shape)

    def connect(self, connection: Connection) -> None:
        """Begin to greet over a new connection."""
        self.go_down()
        self.replace_connection(connection)
        self.session.accept_data(self._host.accepts_data_from(self.peer))
        self.session.connected(self._host.now_ms())
        self._host.wants_flow(self.peer)

    def go_down(self) -> None:
        """Tell the broker that the link carries nothing, if it did."""
        self.shaper.clear()
        if self.session.disconnected():
            self._host.carry_out(self._host.broker.link_down(self.peer, self._host.now_ms()))

    def flow(self) -> None:
        """Take what the link can carry now, and write what is due."""
        host, session = self._host, self.session
        now_ms = host.now_ms()
        session.accept_data(host.accepts_data_from(self.peer))
        if self.can_write:
            if self.shaper.has_rate:
                self._take_slowly(host.broker, now_ms)
            else:
                take, peer = host.broker.take, self.peer
                while (message := take(peer, now_ms, session.classes)) is not None:
                    session.send(message, now_ms)
        items = self.drain(now_ms)
        if items:
            self.shaper.write(items)

    def _take_slowly(self, broker: Broker, now_ms: float) -> None:
        while (control := broker.take(self.peer, now_ms, CONTROL_ONLY)) is not None:
            self.session.send(control, now_ms)
        while broker.waits_for(self.peer) and self.session.classes != CONTROL_ONLY:
            if not self.shaper.may_go():
                self._go_on_at(self.shaper.free_at)
                return
            message = broker.take(self.peer, now_ms, self.session.classes)
            if message is None:
                return
            self.session.send(message, now_ms)

    def set_shape(self, shape: LinkShape) -> None:
        """Change the rate or the delay; what waits for the link does so by the new ones."""
        self.shaper.set_shape(shape)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._host.wants_flow(self.peer)

    def _go_on_at(self, time: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_at(time, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        self._host.wants_flow(self.peer)

    def came_up(self, now_ms: float) -> None:
        """Let the broker begin the exchange of state."""
        self._host.carry_out(self._host.broker.link_up(self.peer, now_ms))


class ClientLink(_End):
    """The link to a client; it outlives a connection for a while."""

    def __init__(self, host: Host, peer: ClientId, incarnation: int, overflow: Overflow, unacknowledged_max: int):
        super().__init__(host, peer, Session(incarnation, CLIENT_LINK))
        self.peer = peer
        self.overflow = overflow
        self._unacknowledged_max = unacknowledged_max
        self._unanswered = 0
        self.expiry: asyncio.TimerHandle | None = None

    @property
    def can_write(self) -> bool:
        """Whether messages may be taken; not while too many are kept for a client that acknowledges nothing."""
        session = self.session
        return super().can_write and session.last_sequence - session.acknowledged < self._unacknowledged_max

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Hand over what the client said, unless it says very much without reading what it is told."""
        super().on_items(connection, items)
        if self.connection is None or self.can_write:
            self._unanswered = 0
            return
        self._unanswered += sum(type(item) is Frame for item in items)
        if self._unanswered > self._unacknowledged_max:
            self._host.dismiss(self.peer)

    def connect(self, connection: Connection, greeting: list[WireItem]) -> None:
        """Go on over a new connection, over which the client has greeted."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
        self.session.disconnected()
        self.replace_connection(connection)
        self.session.accept_data(self._host.accepts_data_from(self.peer))
        self.session.connected(self._host.now_ms())
        self.on_items(connection, greeting)

    def flow(self) -> None:
        """Write what waits for the client, if its connection can carry it."""
        host, session = self._host, self.session
        now_ms = host.now_ms()
        session.accept_data(host.accepts_data_from(self.peer))
        if self.can_write:
            for message in host.broker.take_all(self.peer, now_ms):
                session.send(message, now_ms)
        items = self.drain(now_ms)
        if items:
            self.write(items)


def _session_items(connection: Connection, items: list[WireItem]) -> list[Item]:
    """Return the items for the session, up to one that has no place in it."""
    for place, item in enumerate(items):
        if type(item) not in _SAID_BY_SESSIONS:
            connection.close(CloseCode.VIOLATION, f"expected what sessions say, got {type(item).__name__}")
            return items[:place]  # type: ignore[return-value]
    return items  # type: ignore[return-value]
