"""A node: one broker on the network.

It feeds the broker what links bring, and carries out what the broker asks for. Everything happens within callbacks of
the event loop, one input after another: a batch of messages comes in, the broker handles it, links that have something
to carry are noted, and each of them flows once before the input ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from octopia.broker import Broker, BrokerSettings, Effects, make_broker
from octopia.errors import ClosedByPeer, PeerError, Unavailable
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import Hello
from octopia.matching import INDEX
from octopia.overlay import LinkShape
from octopia.overlay.files import Address, Overlay
from octopia.runtime.links import BrokerLink, ClientLink
from octopia.runtime.operating import Desk
from octopia.transport import Connection
from octopia.wire import CloseCode, Limits, Opening, Role, WireItem

log = logging.getLogger("octopia")

CLIENT_GRACE_S = 10.0
"""How long a client whose connection broke may stay away before what it issued is withdrawn."""
TICK_S = 0.1
"""How often deadlines are looked at: heartbeats, silence, timeouts."""
BACKOFF_S = (0.05, 2.0)
"""The shortest and the longest wait between attempts to reach a neighbour."""
STOP_S = 1.0
"""How long a node that stops waits for the other ends to close their connections."""
QUIET_S = 0.2
"""How long a node that drains waits for what is on its way to it."""

CLIENT_LIMITS = Limits(control_bytes_max=512 * 1024)
BROKER_LIMITS = Limits(publication_bytes_max=2 * 1024 * 1024, control_bytes_max=64 * 1024 * 1024)


def new_incarnation() -> int:
    """Return a number that grows with every start, whatever was remembered."""
    return time.time_ns() // 1_000_000


class Node:
    """One broker, its listener, and its links."""

    def __init__(
        self,
        overlay: Overlay,
        broker: BrokerId,
        settings: BrokerSettings | None = None,
        *,
        observe: Callable[[Node], None] | None = None,
    ):
        self.overlay = overlay
        self.id = broker
        self.incarnation = new_incarnation()
        self._settings = settings or BrokerSettings(routing=overlay.routing)
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        neighbourhood = overlay.scot.neighbourhood(broker)
        self.broker: Broker = make_broker(
            neighbourhood, self._settings, self.incarnation, INDEX, restarted_at_ms=self.now_ms()
        )
        self.links = {
            peer: BrokerLink(self, peer, self.incarnation, overlay.shapes.get((broker, peer)))
            for peer in neighbourhood.neighbours
        }
        self.clients: dict[ClientId, ClientLink] = {}
        self._is_draining = False
        self._server: asyncio.Server | None = None
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        self._gone: dict[BrokerId, asyncio.Event] = {}
        self._guests: dict[Connection, None] = {}
        self._is_over = False
        self._dirty: dict[Peer, None] = {}
        self._is_settling = False
        self._ticker: asyncio.TimerHandle | None = None
        self._admits = self.broker.accepts_data
        self._last_session = 0
        self._last_data_s = 0.0
        self.addresses = dict(overlay.addresses)
        self.address = overlay.addresses[broker]

    # Life.

    async def listen(self, address: Address | None = None) -> Address:
        """Begin to accept connections, and return where; port 0 takes any that is free."""
        wanted = address or self.address
        try:
            self._server = await self._loop.create_server(self._accept, wanted.host, wanted.port, backlog=512)
        except OSError as error:
            raise Unavailable(f"{self.id} cannot listen at {wanted}: {error.strerror or error}") from None
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = Address(host, port)
        return self.address

    def start(self, addresses: dict[BrokerId, Address] | None = None) -> None:
        """Begin to reach for neighbours; of two, the one with the lower id dials."""
        if addresses is not None:
            self.addresses = addresses
        for peer in self.links:
            if self.id < peer:
                self._gone[peer] = asyncio.Event()
                self._tasks[peer] = self._loop.create_task(self._keep_dialling(peer, self.addresses[peer]))
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        self._settle()

    async def drain(self, timeout_s: float = 10.0) -> bool:
        """Take no more publications, and wait until all that were accepted have gone on; tell whether they have."""
        self._is_draining = True
        self._last_data_s = self._loop.time()  # Neighbours may have written before they hear that no more is wanted.
        if self._server is not None:
            self._server.close()
        self._let_all_flow()
        self._settle()
        deadline = self._loop.time() + timeout_s
        while self._loop.time() < deadline:
            if self._is_at_rest() and self._loop.time() - self._last_data_s > QUIET_S:
                return True
            await asyncio.sleep(TICK_S / 4)
        return self._is_at_rest()

    async def stop(self) -> None:
        """Close everything."""
        self._is_over = True
        for task in self._tasks.values():
            task.cancel()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            self._server.close()
        links = (*self.links.values(), *self.clients.values())
        connections = [*self._guests, *(link.connection for link in links if link.connection is not None)]
        for connection in connections:
            connection.close(CloseCode.SHUTDOWN, f"{self.id} is going down")
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        closing = [asyncio.ensure_future(connection.wait_closed()) for connection in connections]
        if closing:
            await asyncio.wait(closing, timeout=STOP_S)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*closing)
        for client in self.clients.values():
            if client.expiry is not None:
                client.expiry.cancel()

    def kill(self) -> None:
        """Drop everything without a word, as a crash does."""
        self._is_over = True
        for task in self._tasks.values():
            task.cancel()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            self._server.close()
        for link in (*self.links.values(), *self.clients.values()):
            connection, link.connection = link.connection, None
            if connection is not None:
                connection.abort()
            if isinstance(link, ClientLink) and link.expiry is not None:
                link.expiry.cancel()
        for guest in list(self._guests):
            guest.abort()

    def _is_at_rest(self) -> bool:
        for peer, link in self.links.items():
            if link.is_up and (link.session.awaits_acknowledgement or self.broker.waits_for(peer)):
                return False
        return not any(
            link.connection is not None and (link.session.awaits_acknowledgement or self.broker.waits_for(client))
            for client, link in self.clients.items()
        )

    @property
    def is_connected(self) -> bool:
        """Whether all links to neighbours are up."""
        return all(link.is_up for link in self.links.values())

    # What links need of their node.

    @property
    def accepts_data(self) -> bool:
        """Whether publications are taken from links now."""
        return self.broker.accepts_data and not self._is_draining

    def now_ms(self) -> float:
        """Return the time, in the broker's clock."""
        return self._loop.time() * 1000.0

    def carry_out(self, effects: Effects) -> None:
        """Do what an input has asked for."""
        for placed in effects.placed:
            link = self._link(placed.peer)
            if link is not None:
                link.session.placed(placed.traffic_class, placed.frames)
                self._dirty[placed.peer] = None
        if effects.placed:
            self._last_data_s = self._loop.time()
        self._dirty.update(effects.ready)
        for client in effects.cut_off:
            self._loop.call_soon(self._part_with, client)
        self._settle()

    def wants_flow(self, peer: Peer) -> None:
        """Let a link carry what it can, before this input ends."""
        self._dirty[peer] = None
        self._settle()

    def lost_connection(self, peer: Peer, reason: PeerError | None) -> None:
        """Dial again, or let the time of grace begin for a client."""
        if isinstance(peer, BrokerId):
            if reason is not None:
                level = logging.INFO if _is_farewell(reason) else logging.WARNING
                log.log(level, "%s lost its connection with %s: %s", self.id, peer, reason)
            if peer in self._gone:
                self._gone[peer].set()
            return
        link = self.clients[peer]
        has_left = isinstance(reason, ClosedByPeer) and reason.code == CloseCode.DONE
        grace_s = 0.0 if has_left else CLIENT_GRACE_S
        link.expiry = self._loop.call_later(grace_s, self.forget_client, peer)

    def _link(self, peer: Peer) -> BrokerLink | ClientLink | None:
        return self.links.get(peer) if isinstance(peer, BrokerId) else self.clients.get(peer)

    def _settle(self) -> None:
        """Let all links flow that have something to carry; what that sets free joins them."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._dirty:
                dirty, self._dirty = self._dirty, {}
                for peer in dirty:
                    link = self._link(peer)
                    if link is not None:
                        link.flow()
                    unblocked = self.broker.drain_effects()
                    if unblocked is not None:
                        self.carry_out(unblocked)
                self._note_admission()
        finally:
            self._is_settling = False
        if self._observe is not None:
            self._observe(self)

    def _note_admission(self) -> None:
        """Open or close all windows when the broker has become ready for publications, or no longer is."""
        if self.broker.accepts_data != self._admits:
            self._admits = self.broker.accepts_data
            self._let_all_flow()

    def _let_all_flow(self) -> None:
        self._dirty.update(dict.fromkeys(self.links))
        self._dirty.update(dict.fromkeys(self.clients))

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        now_ms = self.now_ms()
        due_ms = self.broker.next_deadline_ms
        if due_ms is not None and now_ms >= due_ms:
            self.carry_out(self.broker.wake(now_ms))
        for link in (*self.links.values(), *self.clients.values()):
            link.wake(now_ms)

    # Clients.

    def admit_client(self, connection: Connection, opening: Opening, greeting: Hello) -> None:
        """Let a client in: one that comes back goes on where it was, any other begins anew."""
        client = ClientId(opening.sender)
        link = self.clients.get(client)
        if link is not None and link.session.peer_incarnation != greeting.incarnation:
            if link.connection is not None and not link.connection.is_closing:
                connection.close(CloseCode.NAME_TAKEN, f"another client of {self.id} is called {client}")
                return
            self.forget_client(client)
            link = None
        if link is None:
            self._last_session = incarnation = max(self._last_session + 1, time.time_ns())
            link = self.clients[client] = ClientLink(
                self, client, incarnation, opening.overflow, self._settings.client_queue_limit
            )
            self.carry_out(self.broker.attach(client, opening.overflow, self.now_ms()))
        link.connect(connection, [greeting])

    def forget_client(self, client: ClientId) -> None:
        """Withdraw all that a client issued."""
        link = self.clients.pop(client, None)
        if link is None:
            return
        if link.expiry is not None:
            link.expiry.cancel()
        self.carry_out(self.broker.detach(client, self.now_ms()))

    def _part_with(self, client: ClientId) -> None:
        """Tell a client that was too slow what it lost, and close its connection."""
        link = self.clients.get(client)
        if link is None:
            return
        now_ms = self.now_ms()
        for message in self.broker.take_all(client, now_ms):
            link.session.send(message, now_ms)
        link.write(link.session.drain(now_ms))
        connection, link.connection = link.connection, None
        if connection is not None:
            connection.close(CloseCode.TOO_SLOW, "it was too slow for what it subscribed to")
        self.forget_client(client)

    # Connections.

    def _accept(self) -> Connection:
        connection = Connection(Greeter(self), CLIENT_LIMITS)
        if self._is_over:
            connection.abort()  # It was accepted while the listener was being closed.
        else:
            connection.expect_opening()
            self._guests[connection] = None
        return connection

    def forget_guest(self, connection: Connection) -> None:
        """Take note that an accepted connection has become that of a link, or has ended."""
        self._guests.pop(connection, None)

    def opening_for(self, other: str) -> Opening:
        """Return how this broker introduces itself."""
        confirms = self._settings.routing.confirmations and not self._settings.routing.algorithm.is_tid
        return Opening(Role.BROKER, str(self.id), self.overlay.scot.fingerprint, other, confirms=confirms)

    async def _keep_dialling(self, peer: BrokerId, address: Address) -> None:
        """Have a connection with a neighbour whenever that is possible."""
        shortest_s, longest_s = BACKOFF_S
        wait_s = shortest_s
        while True:
            self._gone[peer].clear()
            if await self._dial(peer, address):
                wait_s = shortest_s
                await self._gone[peer].wait()
            await asyncio.sleep(random.uniform(0.5, 1.0) * wait_s)
            wait_s = min(longest_s, 2.0 * wait_s)

    async def _dial(self, peer: BrokerId, address: Address) -> bool:
        """Connect to a neighbour, and tell whether it is the one that was meant."""
        caller = Caller(self, peer)
        try:
            _, connection = await self._loop.create_connection(
                lambda: Connection(caller, BROKER_LIMITS), address.host, address.port
            )
        except OSError:
            return False
        connection.expect_opening()
        connection.send([self.opening_for(str(peer))])
        try:
            return await caller.answer
        except asyncio.CancelledError:
            connection.abort()  # The node is going down, and must not get another link.
            raise

    def set_shape(self, peer: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of the link to a neighbour, in this direction."""
        self.links[peer].shaper.set_shape(shape)
        self.wants_flow(peer)


def _is_farewell(reason: PeerError) -> bool:
    return isinstance(reason, ClosedByPeer) and reason.code in (CloseCode.SHUTDOWN, CloseCode.REPLACED)


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
