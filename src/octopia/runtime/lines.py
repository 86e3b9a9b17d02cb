"""Lines: the connections that carry the links of a broker, one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from octopia.errors import PeerError
from octopia.ids import BrokerId, Peer
from octopia.node import Node
from octopia.overlay import LinkShape
from octopia.protocol import Ack, CloseCode, Frame, Hello, Item, WireItem
from octopia.runtime.eventlog import fields_of
from octopia.runtime.shaping import Shaper
from octopia.transport import Connection

_SESSION_ITEMS = frozenset((Hello, Frame, Ack))


class Host(Protocol):
    """The server that lines belong to."""

    node: Node

    def received(self, peer: Peer, items: Sequence[Item]) -> None:
        """Handle the items that arrived over a line."""

    def capacity_changed(self, peer: Peer, *, is_writable: bool) -> None:
        """Handle a connection that can carry nothing more for now, or can again."""

    def refuse(self, connection: Connection, code: CloseCode, reason: str, **who: str) -> None:
        """Close a connection for a mistake of the other end, and log it."""

    def lost_connection(self, peer: Peer, reason: PeerError | None, address: str = "") -> None:
        """Handle the end of a connection."""

    def now_ms(self) -> float:
        """Return the time, in the node's clock."""

    def carry_out(self) -> None:
        """Do the work that the node asks for."""


class Line:
    """The connection of a link, if it has one now."""

    def __init__(self, host: Host, peer: Peer):
        self._host = host
        self.peer = peer
        self.connection: Connection | None = None

    def use(self, connection: Connection, code: CloseCode = CloseCode.REPLACED, incarnation: int = 0) -> None:
        """Continue over a new connection; close an old one with a code."""
        self.close(code, "a newer connection has taken its place", incarnation)
        self.connection = connection
        connection.owner = self
        connection.opened()

    def close(self, code: CloseCode, reason: str, incarnation: int = 0) -> None:
        """Close the connection, if there is one; its end is no longer reported."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close(code, reason, incarnation)

    def abort(self) -> None:
        """Drop the connection without a reason, if there is one; its end is no longer reported."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abort()

    def write(self, items: Sequence[Item]) -> None:
        """Write items over the connection, if there is one."""
        if self.connection is not None:
            self.connection.send(items)

    # Called by the connection.

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Pass on the items of the session, up to one that has no place in it."""
        if connection is not self.connection:
            return
        if not _SESSION_ITEMS.issuperset(map(type, items)):
            place = next(place for place, item in enumerate(items) if type(item) not in _SESSION_ITEMS)
            reason = f"expected an item of a session, got {type(items[place]).__name__}"
            self._host.refuse(connection, CloseCode.VIOLATION, reason, **fields_of(self.peer))
            items = items[:place]
        self._host.received(self.peer, items)  # type: ignore[arg-type]

    def on_capacity_changed(self, connection: Connection) -> None:
        """Report to the node whether the connection can carry more."""
        if connection is self.connection:
            self._host.capacity_changed(self.peer, is_writable=connection.is_writable)

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Report the end of the connection, unless another has taken its place."""
        if connection is self.connection:
            self.connection = None
            self._host.lost_connection(self.peer, reason, connection.peer_address)


class NeighbourLine(Line):
    """The line to a neighbour, which may be slow or cut on purpose."""

    def __init__(self, host: Host, peer: BrokerId):
        super().__init__(host, peer)
        self._neighbour = peer
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.shaper = Shaper(self._loop, super().write)
        self.healed = asyncio.Event()
        """Set unless an operator has cut the link."""
        self.healed.set()

    @property
    def is_cut(self) -> bool:
        """True if an operator has cut the link, and not healed it since."""
        return not self.healed.is_set()

    def cut(self) -> None:
        """Drop the connection, and have none until ``heal``."""
        self.healed.clear()
        if self.connection is not None:
            self.connection.abort()

    def heal(self) -> None:
        """Allow connections again."""
        self.healed.set()

    def write(self, items: Sequence[Item]) -> None:
        """Write items over the connection, after the delay of the link."""
        if items:
            self.shaper.write(items)

    def serve(self, *, was_awaited: bool = False) -> None:
        """Send as many publications as the rate of the link allows now, and set a timer for the next one."""
        was_awaited = was_awaited or self._timer is not None
        node, now_ms = self._host.node, self._host.now_ms()
        while node.can_begin(self._neighbour):
            if not self.shaper.is_free:
                if self._timer is None:
                    self._timer = self._loop.call_at(self.shaper.free_at, self._go_on)
                return
            if node.begin(self._neighbour, now_ms) is None:
                return
            self.shaper.occupy(was_awaited=was_awaited)
            node.finish(self._neighbour, now_ms, busy_until_ms=self.shaper.free_at * 1000.0)

    def set_shape(self, shape: LinkShape) -> None:
        """Change the rate or the delay; what waits for the link follows the new ones."""
        self.shaper.set_shape(shape)
        self._cancel_timer()
        self._host.node.pace(self._neighbour, self.shaper.has_rate)
        self._host.node.resume(self._neighbour)

    def clear(self) -> None:
        """Forget what is held back for a connection that is gone."""
        self.shaper.clear()
        self._cancel_timer()

    def _go_on(self) -> None:
        self._timer = None
        self.serve(was_awaited=True)
        self._host.carry_out()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
