"""A server: one broker on the network.

It owns the sockets and the clock, and drives a node. Everything happens within callbacks of the event loop. A batch of
items arrives and is given to the node; the work that the node asks for is done before the callback ends.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from octopia.addresses import Address
from octopia.algorithms import make_broker
from octopia.broker import Broker, BrokerSettings, Fact, Routed
from octopia.errors import BadFrame, ClosedByPeer, PeerError, TlsFailure, Unavailable
from octopia.ids import BrokerId, ClientId, Peer
from octopia.node import Node, NodeSettings, Permissions, Ready
from octopia.overlay import LinkShape
from octopia.overlay.files import Overlay
from octopia.protocol import CloseCode, Hello, Item, Opening, Role
from octopia.runtime.admission import FAREWELLS_MAX, AcceptedConnection, Admission
from octopia.runtime.defaults import NODE_SETTINGS, check_delays, default_settings, new_incarnation
from octopia.runtime.dialling import Dialler
from octopia.runtime.draining import all_at_rest
from octopia.runtime.eventlog import EVENT_OF, EventKind, EventLog, fields_of, host_of
from octopia.runtime.expiry import Expiry
from octopia.runtime.gate import Gate
from octopia.runtime.lag import LagGate
from octopia.runtime.latency import DelaySample
from octopia.runtime.lines import Line, NeighbourLine
from octopia.runtime.losslog import LossLog
from octopia.runtime.watching import Watches
from octopia.settings import Limit
from octopia.transport import Connection

TICK_S = 0.1
"""The interval at which deadlines are checked: heartbeats, silence, timeouts."""
STOP_S = 1.0
"""The time limit for the other ends to close their connections when a server stops."""
QUIET_S = 1.0
"""The time that a draining server waits for items in flight: busy neighbours learn late that it drains."""
STARTING_S = 10.0
"""The age up to which a neighbour that does not answer is no news, and a server that is fenced takes a newer
incarnation: its clock may have been set back."""
ACCEPTED_MAX = 64
"""The number of connections that asyncio accepts in one turn of its loop: more would stall the existing ones."""
BACKLOG = 4096
"""The number of connections that wait to be accepted. Beyond it the kernel drops them, and clients lose seconds."""

_ATTACKS = (EventKind.BAD_FRAME, EventKind.VIOLATION)
"""The events whose lines are limited per address: a client can change its name."""
_RATES = (Limit.PUBLICATION_RATE, Limit.BYTE_RATE)
_ORDERLY = (CloseCode.DONE, CloseCode.SHUTDOWN, CloseCode.REPLACED)


class BrokerServer:
    """One broker with its listener and its connections."""

    def __init__(
        self,
        overlay: Overlay,
        broker: BrokerId,
        settings: BrokerSettings | None = None,
        node_settings: NodeSettings = NODE_SETTINGS,
        *,
        observe: Callable[[BrokerServer], None] | None = None,
    ):
        self.overlay = overlay
        self.id = broker
        self._settings = dataclasses.replace(settings or default_settings(overlay), limits=overlay.limits)
        memory_bytes = overlay.limits.memory_bytes or node_settings.memory_bytes
        self._node_settings = dataclasses.replace(node_settings, limits=overlay.limits, memory_bytes=memory_bytes)
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._started_s = self._loop.time()
        check_delays(overlay, broker)
        self.node = self._make_node(new_incarnation())
        self.lines = {peer: NeighbourLine(self, peer) for peer in self.node.links}
        self.client_lines: dict[ClientId, Line] = {}
        for peer, line in self.lines.items():
            shape = overlay.shapes.get((broker, peer))
            if shape is not None:
                line.set_shape(shape)
        self.fenced = ""
        self.events = EventLog(broker=str(broker))
        self.losses = LossLog(self.events)
        self.delays = DelaySample()
        self.admission = Admission(overlay.limits)
        self.watches = Watches(self)
        self.gate = Gate(overlay.security, broker)
        self._expiry = Expiry(self)
        self.limits_reached: Counter[Limit] = Counter()
        self.problems: Callable[[], dict[str, str]] = dict
        self._server: asyncio.Server | None = None
        self.diallers: dict[BrokerId, Dialler] = {}
        self.guests: dict[Connection, None] = {}
        self._is_over = False
        self.lag_gate = LagGate(TICK_S)
        self._ticker: asyncio.TimerHandle | None = None
        self._continuation: asyncio.Handle | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self.addresses = dict(overlay.addresses)
        self.address = overlay.addresses[broker]

    def _make_node(self, incarnation: int) -> Node:
        neighbourhood = self.overlay.scot.neighbourhood(self.id)
        made = make_broker(neighbourhood, self._settings, incarnation, restarted_at_ms=self.now_ms())
        return Node(made, neighbourhood.neighbours, incarnation, self._node_settings)

    @property
    def broker(self) -> Broker:
        """The broker that runs here."""
        return self.node.broker

    @property
    def incarnation(self) -> int:
        """The incarnation of the broker."""
        return self.node.incarnation

    # Life.

    async def listen(self, address: Address | None = None) -> Address:
        """Start accepting connections, and return the address; port 0 takes any free port."""
        wanted = address or self.address
        try:
            self._server = await self._loop.create_server(self._accept, wanted.host, wanted.port, backlog=ACCEPTED_MAX)
        except UnicodeError:
            raise Unavailable(f"{self.id} cannot listen at {wanted}: the host name is not valid") from None
        except OSError as error:
            # The numbers of name resolution are negative, and unknown to os.strerror.
            number = error.errno or 0
            problem = os.strerror(number) if number > 0 else error.strerror or str(error)
            advice = (
                "is another broker running there? `octopia status` shows it" if error.errno == errno.EADDRINUSE else ""
            )
            raise Unavailable(f"{self.id} cannot listen at {wanted}: {problem}{advice and ': ' + advice}") from None
        for each in self._server.sockets:
            with socket.socket(fileno=os.dup(each.fileno())) as listener:
                listener.listen(BACKLOG)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = Address(host, port)
        return self.address

    def start(self, addresses: dict[BrokerId, Address] | None = None) -> None:
        """Start connecting to neighbours; of two, the one with the lower id dials."""
        if addresses is not None:
            self.addresses = addresses
        for peer in self.lines:
            if self.id < peer:
                self.diallers[peer] = Dialler(self, peer, self.addresses[peer])
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        self.carry_out()

    async def drain(self, together: Collection[BrokerId] = (), timeout_s: float = 10.0) -> bool:
        """Accept no more publications, and wait until all accepted ones are passed on; return whether they are.

        Brokers that drain ``together`` still accept what they have for each other.
        """
        self.begin_to_drain(together)
        return await all_at_rest([self], timeout_s)

    def begin_to_drain(self, together: Collection[BrokerId] = ()) -> None:
        """Accept no more publications, except from brokers that drain at the same time."""
        self.node.drain(together)
        self.node.last_data_ms = self.now_ms()  # Neighbours may have written before they learn of it.
        self.carry_out()

    @property
    def left_behind(self) -> int:
        """The number of publications and deliveries that wait here."""
        return self.node.left_behind

    @property
    def is_quiet(self) -> bool:
        """True if nothing waits here, and nothing has come for a while."""
        return self.node.is_at_rest and self.now_ms() - self.node.last_data_ms > QUIET_S * 1000.0

    async def stop(self) -> None:
        """Close everything; notify neighbours if publications are left behind."""
        self.node.give_up(self.now_ms())
        self.carry_out()
        self._end_tasks()
        lines = [*self.lines.values(), *self.client_lines.values()]
        connections = [*self.guests, *(line.connection for line in lines if line.connection is not None)]
        for connection in connections:
            connection.close(CloseCode.SHUTDOWN, f"{self.id} is shutting down")
        await asyncio.gather(*(each.task for each in self.diallers.values()), return_exceptions=True)
        closing = [asyncio.ensure_future(connection.wait_closed()) for connection in connections]
        if closing:
            await asyncio.wait(closing, timeout=STOP_S)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*closing)

    def kill(self) -> None:
        """Drop everything without notice, as a crash does."""
        self._end_tasks()
        for line in (*self.lines.values(), *self.client_lines.values()):
            line.abort()
        for guest in list(self.guests):
            guest.abort()

    def _end_tasks(self) -> None:
        self._is_over = True
        for dialler in self.diallers.values():
            dialler.task.cancel()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        if self._server is not None:
            self._server.close()
        for line in self.lines.values():
            line.clear()
        self.losses.flush(is_over=True)
        self.events.flush(is_over=True)

    @property
    def is_connected(self) -> bool:
        """True if all links to neighbours are up."""
        return all(link.is_up for link in self.node.links.values())

    def set_shape(self, peer: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of the link to a neighbour, in this direction."""
        self.lines[peer].set_shape(shape)
        self.carry_out()

    # Driving the node.

    def now_ms(self) -> float:
        """Return the time, in the node's clock."""
        return self._loop.time() * 1000.0

    def received(self, peer: Peer, items: Sequence[Item]) -> None:
        """Handle the items that arrived over a line."""
        self.node.receive(peer, items, self.now_ms())
        self.carry_out()

    def capacity_changed(self, peer: Peer, *, is_writable: bool) -> None:
        """Handle a connection that can carry nothing more for now, or can again."""
        if is_writable:
            self.node.resume(peer)
            self.carry_out()
        else:
            self.node.pause(peer)

    def carry_out(self) -> None:
        """Do the work that the node asks for."""
        node = self.node
        while True:
            self._fulfil(node.ready(self.now_ms()))
            if self.watches:
                self.watches.look()
            if not node.has_work or node is not self.node:
                break
        if node.is_behind and self._continuation is None:
            self._continuation = self._loop.call_soon(self._continue)
        if node.owes_acks and self._ack_timer is None:
            due_ms = node.acknowledges_by_ms
            if due_ms is not None:
                self._ack_timer = self._loop.call_at(due_ms / 1000.0, self._acknowledge)
        if self._observe is not None:
            self._observe(self)

    def drain_facts(self) -> list[Fact | Routed]:
        """Remove and return the facts of the trace since the last call, including those that watches have seen."""
        return self.watches.take_seen() + self.node.drain_facts()

    def _fulfil(self, ready: Ready) -> None:
        for failure in ready.failures:
            self._note(EventKind.INTERNAL_ERROR, failure.peer, str(failure.error), error=failure.error)
        written: Sequence[object] = ()
        for peer, items in ready.writes:
            if isinstance(peer, BrokerId):
                line = self.lines[peer]
                line.write(items)  # type: ignore[arg-type]
                if line.shaper.has_rate:
                    line.serve()
            elif peer in self.client_lines:
                self.client_lines[peer].write(items)  # type: ignore[arg-type]
                written = items
        if written:
            self.delays.sample(written)
        for close in ready.closes:
            if close.code in EVENT_OF:
                self._note(EVENT_OF[close.code], close.peer, close.reason)
            self._close(close.peer, close.code, close.reason, close.incarnation)
        for peer in ready.silent:
            silent = self._line(peer)
            if silent is not None and silent.connection is not None:
                self._note(EventKind.CONNECTION_LOST, peer, "the other end was silent for too long")
                silent.abort()
                self._connection_ended(peer, None)
        for reached in ready.limits_reached:
            self._note_limit(reached.limit, reached.client.name)
        for loss in ready.losses:
            self.losses.note(loss)

    def _close(self, peer: Peer, code: CloseCode, reason: str, incarnation: int) -> None:
        line = self._line(peer)
        if line is not None:
            line.close(code, reason, incarnation)
            self._connection_ended(peer, None)

    def _line(self, peer: Peer) -> Line | None:
        return self.lines.get(peer) if isinstance(peer, BrokerId) else self.client_lines.get(peer)

    def _continue(self) -> None:
        """Handle the next slice of a long input, after the connections have had their turn."""
        self._continuation = None
        if not self._is_over:
            self.node.wake(self.now_ms())
            self.carry_out()

    def _acknowledge(self) -> None:
        self._ack_timer = None
        if not self._is_over:
            self.node.acknowledge()
            self.carry_out()

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        self.lag_gate.ticked()
        self._expiry.check()
        self.node.wake(self.now_ms())
        self.carry_out()
        self.losses.flush()
        self.events.flush()

    # Connections.

    def _accept(self) -> Connection:
        connection = AcceptedConnection(self)
        if self._is_over:
            connection.abort()  # It was accepted while the listener was being closed.
        else:
            connection.expect_greeting()
            self.guests[connection] = None
        return connection

    def forget_guest(self, connection: Connection) -> None:
        """Forget an accepted connection that has become that of a line, or has ended."""
        self.guests.pop(connection, None)

    def refuse(self, connection: Connection, code: CloseCode, reason: str, **who: str) -> None:
        """Close a connection for a mistake of the other end, and log it."""
        kind, address = EVENT_OF.get(code, EventKind.REFUSED), connection.peer_address
        why = code if kind is EventKind.REFUSED else ""
        level = logging.INFO if code is CloseCode.SHUTDOWN else logging.WARNING
        self.events.note(kind, connection.peer_host, level, why=why, peer=address, reason=reason, **who)
        connection.close(code, reason)

    def refuse_beyond(self, connection: Connection, limit: Limit, **who: str) -> None:
        """Close a connection beyond a limit."""
        self.limits_reached[limit] += 1
        self.admission.greeted(connection)
        refused = self.admission.refused
        if len(refused) < FAREWELLS_MAX:
            refused.add(connection)
            self.refuse(connection, CloseCode.LIMIT, limit.refusal(self.overlay.limits), **who)
        else:
            connection.abort()

    def _note_limit(self, limit: Limit, client: str) -> None:
        """Log a client beyond a limit; publications beyond a rate wait, and other requests are refused."""
        self.limits_reached[limit] += 1
        is_rate = limit in _RATES
        self.events.note(
            EventKind.LIMIT_REACHED if is_rate else EventKind.REFUSED,
            client,
            why="" if is_rate else CloseCode.LIMIT,
            client=client,
            limit=limit,
            value=f"{limit.of(self.overlay.limits):.15g}",
        )

    def note_end(self, connection: Connection, source: str, reason: PeerError, **who: str) -> None:
        """Log the end of a connection that has not become that of a link."""
        is_bad = isinstance(reason, BadFrame)
        kind = EventKind.BAD_FRAME if is_bad else EventKind.CONNECTION_LOST
        level = logging.WARNING if is_bad or who or isinstance(reason, TlsFailure) else logging.INFO
        self.events.note(kind, source, level, peer=connection.peer_address, reason=str(reason), **who)

    def note_unreachable(self, peer: BrokerId, problem: str, address: str) -> bool:
        """Log why a neighbour cannot be reached, and return True; just after the start, return False instead."""
        if self._loop.time() - self._started_s < STARTING_S:
            return False
        self._note(EventKind.UNREACHABLE, peer, problem, address)
        return True

    def _note_lost(self, peer: Peer, reason: PeerError | None, address: str) -> None:
        if isinstance(reason, BadFrame):
            self._note(EventKind.BAD_FRAME, peer, str(reason), address)
            return
        is_expected = isinstance(peer, ClientId) or (isinstance(reason, ClosedByPeer) and reason.code in _ORDERLY)
        level = logging.INFO if is_expected else logging.WARNING
        self._note(EventKind.CONNECTION_LOST, peer, str(reason or "the connection broke"), address, level=level)

    def _note(
        self,
        kind: EventKind,
        peer: Peer | None,
        reason: str,
        address: str = "",
        *,
        level: int = logging.WARNING,
        error: Exception | None = None,
    ) -> None:
        """Log an event of a link."""
        line = None if peer is None else self._line(peer)
        if not address and line is not None and line.connection is not None:
            address = line.connection.peer_address
        who = {} if peer is None else fields_of(peer)
        level = logging.ERROR if error is not None else level
        source = host_of(address) if kind in _ATTACKS and isinstance(peer, ClientId) else str(peer)
        self.events.note(kind, source, level, error, peer=address, **who, reason=reason)

    def opening_for(self, other: str) -> Opening:
        """Return the Opening of this broker."""
        confirms = self._settings.routing.confirmations and not self._settings.routing.algorithm.is_tid
        return Opening(Role.BROKER, str(self.id), self.overlay.scot.fingerprint, other, confirms=confirms)

    def use_connection(self, connection: Connection, peer: BrokerId) -> None:
        """Greet a neighbour over a connection that this server dialled."""
        self.lines[peer].clear()
        self.lines[peer].use(connection)
        self.node.connect(peer, self.now_ms())
        self.carry_out()

    def admit_neighbour(self, connection: Connection, peer: BrokerId, hello: Hello) -> None:
        """Greet a neighbour that dialled; of two with one name, the older one is fenced."""
        known, line = self.node.incarnation_of(peer), self.lines[peer]
        if hello.incarnation < known:
            self._note(EventKind.FENCED, peer, _fencing(peer), connection.peer_address)
            connection.close(CloseCode.FENCED, _fencing(peer), known)
            return
        if known and hello.incarnation > known:
            if line.connection is not None:
                self._note(EventKind.FENCED, peer, _fencing(peer))
            line.close(CloseCode.FENCED, _fencing(peer), hello.incarnation)
        line.clear()
        line.use(connection)
        self.node.connect(peer, self.now_ms())
        self.received(peer, [hello])

    def admit_client(
        self, connection: Connection, opening: Opening, hello: Hello, permissions: Permissions | None
    ) -> None:
        """Admit a client: a returning one continues its session, any other begins a new one.

        The token is checked again, because it may have ended between the Opening and the Hello.
        """
        if permissions is not None and (end := self.gate.end_of(permissions)):
            self.refuse(connection, *end, client=opening.sender)
            return
        before = self.node.client_named(opening.sender)
        if before is None and not Limit.CLIENTS.allows(self.overlay.limits, len(self.node.clients)):
            self.refuse_beyond(connection, Limit.CLIENTS, client=opening.sender)
            return
        client = self.node.admit(opening.sender, opening.overflow, hello, self.now_ms(), permissions)
        if client is None:
            reason = f"expected a name that no other client of {self.id} has, got {opening.sender}"
            self.refuse(connection, CloseCode.NAME_TAKEN, reason, client=opening.sender)
            return
        line = self.client_lines.get(client)
        if line is None:
            line = self.client_lines[client] = Line(self, client)
        if before is not None and before != client:
            self.client_lines.pop(before, None)
        line.use(connection)
        self._note(EventKind.CONNECTED, client, "", level=logging.INFO)
        self.carry_out()

    def lost_connection(self, peer: Peer, reason: PeerError | None, address: str = "") -> None:
        """Handle the end of a connection: dial again, or let the grace period of a client begin."""
        if not self._is_over:
            self._note_lost(peer, reason, address)
        self._connection_ended(peer, reason)

    def _connection_ended(self, peer: Peer, reason: PeerError | None) -> None:
        code = reason.code if isinstance(reason, ClosedByPeer) else ""
        if isinstance(peer, ClientId):
            self.client_lines.pop(peer, None)
            self.node.disconnect(peer, self.now_ms(), has_left=code == CloseCode.DONE)
            self.carry_out()
            return
        self.lines[peer].clear()
        self.node.disconnect(peer, self.now_ms(), has_left=code == CloseCode.SHUTDOWN)
        if isinstance(reason, ClosedByPeer) and code == CloseCode.FENCED:
            self._on_fenced(reason)
        if peer in self.diallers:
            self.diallers[peer].dial_again()
        self.carry_out()

    def _on_fenced(self, reason: ClosedByPeer) -> None:
        """Stop, since a newer broker has this name; or, shortly after the start, become the newer one."""
        if self._loop.time() - self._started_s > STARTING_S:
            self.fenced = f"{self.id} is fenced: {reason.reason}"
            self.events.note(EventKind.FENCED, str(self.id), logging.ERROR, reason=self.fenced)
            self.kill()
            return
        again = f"{self.id} starts as a newer incarnation than {reason.incarnation}, which was seen before"
        self.events.note(EventKind.FENCED, str(self.id), reason=again)
        self.node = self._make_node(max(reason.incarnation, self.incarnation) + 1)
        for client_line in self.client_lines.values():
            client_line.close(CloseCode.SHUTDOWN, f"{self.id} is restarting")
        self.client_lines.clear()
        for peer, line in self.lines.items():
            line.abort()  # A regular close would mean that nothing is lost.
            self.node.pace(peer, line.shaper.has_rate)
            if peer in self.diallers:
                self.diallers[peer].dial_again()


def _fencing(peer: BrokerId) -> str:
    return f"a newer broker runs as {peer}; stop one of the two, then restart the other"
