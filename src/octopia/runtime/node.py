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
from collections.abc import Callable, Collection, Sequence

from octopia.addresses import Address
from octopia.algorithms import hop_limit_of, make_broker
from octopia.broker import Broker, BrokerSettings, Effects, hop_limit_of, make_broker
from octopia.errors import ClosedByPeer, InvalidOverlay, PeerError, Unavailable
from octopia.ids import BrokerId, ClientId, Peer
from octopia.matching import INDEX
from octopia.overlay import LinkShape
from octopia.overlay.files import Overlay
from octopia.protocol import CloseCode, Hello, Opening, Role
from octopia.runtime.greeting import BROKER_LIMITS, CLIENT_LIMITS, Caller, Greeter
from octopia.runtime.links import BrokerLink, ClientLink
from octopia.transport import Connection
from octopia.transport.settings import DELAY_LIMIT_MS

log = logging.getLogger("octopia")

CLIENT_GRACE_S = 10.0
"""How long a client whose connection broke may stay away before what it issued is withdrawn."""
TICK_S = 0.1
"""How often deadlines are looked at: heartbeats, silence, timeouts."""
BACKOFF_S = (0.05, 2.0)
"""The shortest and the longest wait between attempts to reach a neighbour."""
DIAL_S = 5.0
"""How long an attempt may take."""
STEADY_S = 2.0
"""A connection that lasted so long is no reason to wait before the next one."""
STOP_S = 1.0
"""How long a node that stops waits for the other ends to close their connections."""
QUIET_S = 1.0
"""How long a node that drains waits for what is on its way to it: neighbours may be busy, and hear of it late."""
QUEUE_CAPACITY = 4096
"""How many publications of a class wait for a neighbour before whoever sends more has to wait."""


def default_settings(overlay: Overlay) -> BrokerSettings:
    """Return the settings of brokers on the network: queues are bounded, and no path is longer than the overlay's."""
    algorithm = overlay.routing.algorithm
    # TID-based routing has no classes, and could deadlock.
    capacity = 0 if algorithm.is_tid else QUEUE_CAPACITY
    return BrokerSettings(overlay.routing, hop_limit_of(overlay.scot, algorithm), queue_capacity=capacity)


def _check_delays(overlay: Overlay, broker: BrokerId) -> None:
    for (source, target), shape in overlay.shapes.items():
        if source == broker and (shape.delay_ms or 0.0) >= DELAY_LIMIT_MS:
            raise InvalidOverlay(
                f"expected a delay below {DELAY_LIMIT_MS:g} ms from {source} to {target}, got {shape.delay_ms:g}: "
                "on the network a link that is silent for longer counts as broken"
            )


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
        self._settings = settings or default_settings(overlay)
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        neighbourhood = overlay.scot.neighbourhood(broker)
        self.broker: Broker = make_broker(
            neighbourhood, self._settings, self.incarnation, INDEX, restarted_at_ms=self.now_ms()
        )
        _check_delays(overlay, broker)
        self.links = {
            peer: BrokerLink(self, peer, self.incarnation, overlay.shapes.get((broker, peer)))
            for peer in neighbourhood.neighbours
        }
        self.clients: dict[ClientId, ClientLink] = {}
        self.is_draining = False
        self._drains_with: frozenset[Peer] = frozenset()
        self._server: asyncio.Server | None = None
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        self._gone: dict[BrokerId, asyncio.Event] = {}
        self._failures: dict[BrokerId, str] = {}
        self._guests: dict[Connection, None] = {}
        self._departed: dict[BrokerId, None] = {}
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

    async def drain(self, together: Collection[BrokerId] = (), timeout_s: float = 10.0) -> bool:
        """Take no more publications, and wait until all that were accepted have gone on; tell whether they have.

        Brokers that drain ``together`` still take what they have for each other.
        """
        self.begin_to_drain(together)
        return await all_at_rest([self], timeout_s)

    def begin_to_drain(self, together: Collection[BrokerId] = ()) -> None:
        """Take no more publications, except from brokers that drain at the same time."""
        self.is_draining = True
        self._drains_with = frozenset(together)
        self._last_data_s = self._loop.time()  # Neighbours may have written before they hear that no more is wanted.
        self._let_all_flow()
        self._settle()

    @property
    def left_behind(self) -> int:
        """How many publications and deliveries wait here."""
        waits_for = self.broker.waits_for
        return sum(map(waits_for, self.links)) + sum(map(waits_for, self.clients))

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits here, and nothing has come for a while."""
        return self._is_at_rest() and self._loop.time() - self._last_data_s > QUIET_S

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
            # What waits for a link that broke goes on when it is back; a neighbour that went down takes nothing more.
            is_needed = link.is_up or peer not in self._departed
            if is_needed and (link.session.awaits_acknowledgement or self.broker.waits_for(peer)):
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

    def accepts_data_from(self, peer: Peer) -> bool:
        """Whether publications are taken from a link now."""
        return self.broker.accepts_data and (not self.is_draining or peer in self._drains_with)

    def now_ms(self) -> float:
        """Return the time, in the broker's clock."""
        return self._loop.time() * 1000.0

    def carry_out(self, effects: Effects) -> None:
        """Do what an input has asked for; what goes on is written before what came is acknowledged."""
        self._dirty.update(effects.ready)
        for placed in effects.placed:
            link = self._link(placed.peer)
            if link is not None:
                link.session.placed(placed.traffic_class, placed.frames)
                self._dirty[placed.peer] = None
        if effects.placed:
            self._last_data_s = self._loop.time()
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
            if _has_gone_down(reason):
                self._departed[peer] = None
            else:
                self._departed.pop(peer, None)
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
        link.connection = None  # Its end is no business of whoever is called so next.
        if link.expiry is not None:
            link.expiry.cancel()
        self.carry_out(self.broker.detach(client, self.now_ms()))

    def dismiss(self, client: ClientId) -> None:
        """Part with a client that asks and asks, and reads no answer."""
        connection = self.clients[client].connection
        self.forget_client(client)
        if connection is not None:
            connection.close(CloseCode.TOO_SLOW, "it asks without reading the answers")

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

    def _note_failure(self, peer: BrokerId, address: Address, problem: str) -> None:
        """Say why a neighbour cannot be reached, once for each reason; it may just not be started yet."""
        if self._failures.get(peer) != problem:
            self._failures[peer] = problem
            log.warning("%s cannot reach %s at %s: %s", self.id, peer, address, problem)

    async def _keep_dialling(self, peer: BrokerId, address: Address) -> None:
        """Have a connection with a neighbour whenever that is possible."""
        shortest_s, longest_s = BACKOFF_S
        wait_s = shortest_s
        while True:
            self._gone[peer].clear()
            if await self._dial(peer, address):
                begin = self._loop.time()
                await self._gone[peer].wait()
                if self._loop.time() - begin > STEADY_S:
                    wait_s = shortest_s
            await asyncio.sleep(random.uniform(0.5, 1.0) * wait_s)
            wait_s = min(longest_s, 2.0 * wait_s)

    async def _dial(self, peer: BrokerId, address: Address) -> bool:
        """Connect to a neighbour, and tell whether it is the one that was meant."""
        caller = Caller(self, peer)
        try:
            async with asyncio.timeout(DIAL_S):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(caller, BROKER_LIMITS), address.host, address.port
                )
        except OSError as error:  # TimeoutError is one
            self._note_failure(peer, address, str(error.strerror or error or "it does not answer"))
            return False
        self._failures.pop(peer, None)
        connection.expect_opening()
        connection.send([self.opening_for(str(peer))])
        try:
            return await caller.answer
        except asyncio.CancelledError:
            connection.abort()  # The node is going down, and must not get another link.
            raise

    def set_shape(self, peer: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of the link to a neighbour, in this direction."""
        self.links[peer].set_shape(shape)


async def all_at_rest(nodes: Sequence[Node], timeout_s: float) -> bool:
    """Wait until all of some nodes are quiet at the same time, and tell whether they are."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not all(node.is_quiet for node in nodes):
        if loop.time() > deadline:
            return False
        await asyncio.sleep(TICK_S / 4)
    return True


def _has_gone_down(reason: PeerError | None) -> bool:
    return isinstance(reason, ClosedByPeer) and reason.code == CloseCode.SHUTDOWN


def _is_farewell(reason: PeerError) -> bool:
    return isinstance(reason, ClosedByPeer) and reason.code in (CloseCode.SHUTDOWN, CloseCode.REPLACED)
