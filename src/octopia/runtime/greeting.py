"""New connections: who owns them until both ends know who the other is."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from octopia.errors import PeerError
from octopia.ids import BrokerId, ClientId
from octopia.protocol import CloseCode, Hello, Opening, Role, WireItem
from octopia.runtime.links import BrokerLink, ClientLink
from octopia.runtime.operating import Desk
from octopia.transport import Connection
from octopia.wire import Limits

if TYPE_CHECKING:
    from octopia.runtime.node import Node

log = logging.getLogger("octopia")

CLIENT_LIMITS = Limits(control_bytes_max=512 * 1024)
BROKER_LIMITS = Limits(publication_bytes_max=2 * 1024 * 1024, control_bytes_max=64 * 1024 * 1024)


class Greeter:
    """Owns an accepted connection until the other end has said who it is."""

    def __init__(self, node: Node):
        self._node = node
        self._opening: Opening | None = None

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Take the Opening; after that of a client, its greeting."""
        first = items[0]
        if isinstance(first, Opening) and self._opening is None:
            self._opening = first
            self._on_opening(connection, first)
        elif isinstance(first, Hello) and self._opening is not None:
            self._node.admit_client(connection, self._opening, first)
            if len(items) > 1 and not connection.is_closing:
                connection.owner.on_items(connection, items[1:])
        else:
            connection.close(CloseCode.VIOLATION, f"expected an Opening, then a Hello, got {type(first).__name__}")
        if isinstance(connection.owner, BrokerLink | ClientLink):
            self._node.forget_guest(connection)

    def _on_opening(self, connection: Connection, opening: Opening) -> None:
        node = self._node
        if opening.broker and opening.broker != str(node.id):
            connection.close(CloseCode.WRONG_BROKER, f"this is {node.id}, not {opening.broker}")
        elif opening.role is Role.OPERATOR:
            self._on_operator(connection)
        elif opening.role is Role.CLIENT and node.is_draining and ClientId(opening.sender) not in node.clients:
            connection.close(CloseCode.SHUTDOWN, f"{node.id} is going down")
        elif opening.role is Role.CLIENT:
            connection.send([node.opening_for("")])
        elif opening.fingerprint != node.overlay.scot.fingerprint:
            connection.close(CloseCode.WRONG_OVERLAY, f"{node.id} belongs to another overlay")
        else:
            self._on_neighbour(connection, opening.sender)

    def _on_operator(self, connection: Connection) -> None:
        if not connection.is_from_here:
            connection.close(CloseCode.NOT_ALLOWED, "operators are heard on this machine only")
            return
        connection.owner = Desk(self._node)
        connection.opened()
        connection.send([self._node.opening_for("")])

    def _on_neighbour(self, connection: Connection, sender: str) -> None:
        node = self._node
        link = next((link for peer, link in node.links.items() if str(peer) == sender), None)
        if link is None or not link.peer < node.id:
            connection.close(CloseCode.NOT_ALLOWED, f"{sender} has no link to {node.id} that it may dial")
            return
        connection.set_limits(BROKER_LIMITS)
        connection.send([node.opening_for(sender)])
        link.connect(connection)

    def on_writable(self, connection: Connection) -> None:
        """Do nothing: nothing waits for somebody unknown."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Forget whoever it was."""
        self._node.forget_guest(connection)
        if reason is not None:
            log.info("%s: a connection from %s ended: %s", self._node.id, connection.peer_address, reason)


class Caller:
    """Owns a dialled connection until the neighbour has answered."""

    def __init__(self, node: Node, peer: BrokerId):
        self._node = node
        self._peer = peer
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Take the neighbour's Opening."""
        opening = items[0]
        if not isinstance(opening, Opening) or opening.sender != str(self._peer):
            connection.close(CloseCode.WRONG_BROKER, f"expected {self._peer} to answer")
            self._settle(answer=False)
        else:
            self._settle(answer=True)
            self._node.links[self._peer].connect(connection)

    def on_writable(self, connection: Connection) -> None:
        """Do nothing: nothing waits yet."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Let the next attempt begin."""
        if reason is not None:
            log.warning("%s cannot link with %s: %s", self._node.id, self._peer, reason)
        self._settle(answer=False)

    def _settle(self, *, answer: bool) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)
