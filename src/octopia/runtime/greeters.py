"""New connections: their owners until both ends have identified themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from octopia.errors import PeerError
from octopia.ids import BrokerId
from octopia.node import Permissions
from octopia.protocol import CloseCode, Hello, Opening, Role, WireItem
from octopia.runtime.gate import REFUSAL
from octopia.runtime.lines import Line
from octopia.runtime.operating import Desk
from octopia.settings import Limit
from octopia.transport import Connection
from octopia.wire import Limits

if TYPE_CHECKING:
    from octopia.runtime.server import BrokerServer

CLIENT_LIMITS = Limits(control_bytes_max=512 * 1024)
BROKER_LIMITS = Limits(publication_bytes_max=2 * 1024 * 1024, control_bytes_max=64 * 1024 * 1024)


class Greeter:
    """Owns an accepted connection until the other end has sent its Opening and its Hello."""

    def __init__(self, server: BrokerServer):
        self._server = server
        self._opening: Opening | None = None
        self._permissions: Permissions | None = None

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Take the Opening, then the Hello; what follows is for the new owner."""
        first = items[0]
        if isinstance(first, Opening) and self._opening is None:
            self._opening = first
            self._on_opening(connection, first)
        elif isinstance(first, Hello) and self._opening is not None:
            self._on_hello(connection, self._opening, first)
            if len(items) > 1 and not connection.is_closing:
                connection.owner.on_items(connection, items[1:])
        else:
            reason = f"expected an Opening, then a Hello, got {type(first).__name__}"
            self._server.refuse(connection, CloseCode.VIOLATION, reason)
        if connection.owner is not self:
            self._server.admission.greeted(connection)
        if isinstance(connection.owner, Line):
            self._server.forget_guest(connection)

    def _on_opening(self, connection: Connection, opening: Opening) -> None:
        server, sender = self._server, opening.sender
        who = {"neighbour" if opening.role is Role.BROKER else "client": sender}
        if opening.broker and opening.broker != str(server.id):
            server.refuse(connection, CloseCode.WRONG_BROKER, f"this is {server.id}, not {opening.broker}", **who)
        elif opening.role is not Role.BROKER and (refusal := self._check_token(opening)):
            server.refuse(connection, CloseCode.ACCESS_DENIED, refusal, **who)
        elif opening.role is Role.OPERATOR:
            self._on_operator(connection)
        elif opening.role is Role.CLIENT:
            self._on_client(connection, sender)
        elif reason := server.gate.refusal_of_neighbour(connection, sender):
            server.refuse(connection, CloseCode.NOT_ALLOWED, reason, **who)
        elif opening.fingerprint != server.overlay.scot.fingerprint:
            server.refuse(connection, CloseCode.WRONG_OVERLAY, f"{server.id} belongs to another overlay", **who)
        elif (peer := self._neighbour(opening)) is None or not peer < server.id:
            reason = f"{sender} has no link to {server.id} that it may dial"
            server.refuse(connection, CloseCode.NOT_ALLOWED, reason, **who)
        elif server.lines[peer].is_cut:
            connection.abort()
        else:
            connection.set_limits(BROKER_LIMITS)
            connection.send([server.opening_for(sender)])

    def _check_token(self, opening: Opening) -> str:
        """Note the permissions of a client or an operator, and return why it is refused, or an empty string."""
        gate = self._server.gate
        if not gate.needs_token:
            return ""
        self._permissions = permissions = gate.permissions_for(opening.token)
        if permissions is None:
            return REFUSAL
        if opening.role is Role.CLIENT and permissions.allows_nothing:
            return f"the token {permissions.holder} may send commands, but has no filter to publish or read within"
        return ""

    def _on_client(self, connection: Connection, name: str) -> None:
        """Greet a client. One with a session can always resume it; others must wait while the broker is busy."""
        server = self._server
        if server.node.client_named(name) is not None:
            connection.send([server.opening_for("")])
        elif server.node.is_draining:
            server.refuse(connection, CloseCode.SHUTDOWN, f"{server.id} is shutting down", client=name)
        elif not server.admission.allows_client(connection):
            server.refuse_beyond(connection, Limit.ADDRESS, client=name)
        elif retry_ms := server.lag_gate.retry_ms():
            connection.close(CloseCode.BUSY, f"{server.id} is busy; retry in {retry_ms} ms", retry_ms=retry_ms)
        else:
            connection.send([server.opening_for("")])

    def _on_operator(self, connection: Connection) -> None:
        """Greet an operator, or a client that asks, to which the limits of clients apply."""
        server, permissions = self._server, self._permissions
        is_client = permissions is not None and not permissions.is_operator
        if permissions is None and not connection.is_from_here:
            reason = "expected an operator on this machine, got one on another: configure client_tokens in [security]"
            server.refuse(connection, CloseCode.NOT_ALLOWED, reason)
        elif is_client and not server.admission.allows_client(connection):
            server.refuse_beyond(connection, Limit.ADDRESS)
        elif (
            permissions is not None and is_client and (refusal := server.admission.refusal_of_desk(permissions.holder))
        ):
            server.refuse(connection, CloseCode.LIMIT, refusal)
        else:
            connection.owner = Desk(server, connection, permissions)
            connection.opened()
            connection.send([server.opening_for("")])

    def _on_hello(self, connection: Connection, opening: Opening, hello: Hello) -> None:
        peer = self._neighbour(opening)
        if opening.role is Role.BROKER and peer is not None:
            self._server.admit_neighbour(connection, peer, hello)
        else:
            self._server.admit_client(connection, opening, hello, self._permissions)

    def _neighbour(self, opening: Opening) -> BrokerId | None:
        return next((peer for peer in self._server.node.links if str(peer) == opening.sender), None)

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing: nothing waits for an unidentified peer."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Forget the connection."""
        self._server.forget_guest(connection)
        if reason is not None:
            self._server.note_end(connection, connection.peer_host, reason)


class Caller:
    """Owns a dialled connection until the neighbour has answered."""

    def __init__(self, server: BrokerServer, peer: BrokerId):
        self._server = server
        self._peer = peer
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Take the neighbour's Opening."""
        opening = items[0]
        if not isinstance(opening, Opening) or opening.sender != str(self._peer):
            connection.close(CloseCode.WRONG_BROKER, f"expected {self._peer} to answer, got another broker")
            self._settle(answer=False)
        elif self._server.lines[self._peer].is_cut:
            connection.abort()
            self._settle(answer=False)
        else:
            self._settle(answer=True)
            self._server.use_connection(connection, self._peer)

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing: nothing waits yet."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Let the next attempt begin."""
        if reason is not None:
            self._server.note_end(connection, str(self._peer), reason, neighbour=str(self._peer))
        self._settle(answer=False)

    def _settle(self, *, answer: bool) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)
