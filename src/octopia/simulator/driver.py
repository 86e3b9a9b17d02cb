"""The driver of simulated nodes: it hands them what arrives, and does the work that they ask for.

Plain Python that Cython compiles (``driver.pxd`` has the C types), since every message passes here. ``World`` has the
inputs that people cause. The driver lets brokers take the time that the profile says, gives messages to the links, lets
replies travel to clients, wakes nodes at their deadlines, and notifies observers.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from octopia.broker import Broker, Delivered, Fact, ForClients, Routed
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, Peer
from octopia.node.core import Node
from octopia.node.ready import Ready
from octopia.protocol import CloseCode, Frame
from octopia.protocol.messages import ClientReply, ClientRequest, Message
from octopia.protocol.transit import Deliver, Publish, delivery_of
from octopia.simulator.agenda import Agenda, Priority, just_after_ns, to_ns
from octopia.simulator.links import FaultyLinks, Links
from octopia.simulator.profiles import Profile
from octopia.simulator.wires import NS_PER_US, Wire, occupation_ns, plan_arrival

_ARRIVAL = Priority.ARRIVAL
_SERVICE = Priority.SERVICE
_LINK_FREE = Priority.LINK_FREE
_TIMER = Priority.TIMER


class Observer(Protocol):
    """A listener to what happens in a world."""

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Handle a fact about a broker."""

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Handle a reply that reached a client."""

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Handle a publication that reached all of a broker's clients at once, if the world takes entries whole."""


class Place:
    """A node with the items that wait for it while it is busy.

    A publication of a neighbour takes it ``publication_us``, while it has ``searched`` subscriptions.
    """

    __slots__ = ("busy", "id", "is_alive", "node", "publication_us", "searched", "timer_ms", "waiting")

    def __init__(self, node: Node):
        self.id = node.broker.id
        self.node = node
        self.is_alive = True
        self.waiting: deque[tuple[Peer, Any]] = deque()
        self.busy = False
        self.timer_ms: float | None = None
        self.searched = -1
        self.publication_us = 0.0


class Departures:
    """Everything that leaves one broker for its clients at one moment: arrivals, and wires that become free, by time.

    Clients are many. What happens to them at the same time is one event, in the order in which it was caused, since
    nothing else of its kind could come in between.
    """

    __slots__ = ("_at_ns", "_latest", "arrivals", "source", "wires")

    def __init__(self, source: BrokerId):
        self.source = source
        # Flat lists, in which the name of a client precedes its reply: there may be very many.
        self.arrivals: dict[int, list[Any]] = {}
        self.wires: dict[int, list[Wire]] = {}
        self._at_ns = -1
        self._latest: list[Any] = []

    def add(self, arrival_ns: int, client: str, batch: Sequence[Message]) -> None:
        """Add replies to a client."""
        if arrival_ns != self._at_ns:
            self._at_ns = arrival_ns
            self._latest = self.arrivals.setdefault(arrival_ns, [])
        for reply in batch:
            self._latest.append(client)
            self._latest.append(reply)

    def add_one(self, arrival_ns: int, client: str, reply: Message) -> None:
        """Add a reply to a client."""
        if arrival_ns != self._at_ns:
            self._at_ns = arrival_ns
            self._latest = self.arrivals.setdefault(arrival_ns, [])
        self._latest.append(client)
        self._latest.append(reply)


class Driver:
    """The driver of all nodes of a world.

    ``places`` has the nodes by broker, and ``clients`` the wires to clients by name. With ``checking``, the invariants
    of a broker are checked after every step.
    """

    __slots__ = (
        "_brokers_take_time",
        "_client_delay_ms",
        "_is_limited",
        "_is_whole",
        "_listens",
        "_observers",
        "agenda",
        "checking",
        "client_delay_ns",
        "clients",
        "links",
        "places",
        "profile",
        "random",
    )

    links: Links

    def __init__(
        self,
        agenda: Agenda,
        profile: Profile,
        chance: random.Random,
        observers: Sequence[Observer],
        listens: bool,
        is_whole: bool,
    ):
        self.agenda = agenda
        self.profile = profile
        self.random = chance
        self.checking = False
        self.client_delay_ns = to_ns(profile.client_delay_ms)
        self.places: dict[BrokerId, Place] = {}
        self.clients: dict[str, Wire] = {}
        self._observers = tuple(observers)
        self._listens = listens
        self._brokers_take_time = profile.brokers_take_time
        self._client_delay_ms = profile.client_delay_ms
        self._is_limited = bool(profile.bandwidth_mbit_s)
        self._is_whole = is_whole

    def node(self, broker: BrokerId) -> Node | None:
        """Return a node, or None while it is crashed."""
        place = self.places[broker]
        return place.node if place.is_alive else None

    def request(self, name: str, request: ClientRequest) -> None:
        """Send a client's request to its host broker."""
        arrival_ns = self.agenda.now_ns + self.client_delay_ns
        self.agenda.enter(arrival_ns, _ARRIVAL, self._arrive_from_client, (self.clients[name], [request]))

    # Items that arrive.

    def arrive(self, target: BrokerId, sender: Peer, items: Sequence[Any]) -> None:
        """Hand items to a node, at once or when it has time for them."""
        place = self.places[target]
        if not place.is_alive:
            return
        if not self._brokers_take_time:
            self._feed(place, sender, items)
            return
        place.waiting.extend([(sender, item) for item in items])
        if not place.busy:
            self._serve_next(place)

    def forget_arrivals(self, target: BrokerId, sender: BrokerId) -> None:
        """Drop the items of a connection that is over and that a busy node has not handled yet."""
        place = self.places.get(target)
        if place is not None and place.waiting:
            place.waiting = deque(each for each in place.waiting if each[0] != sender)

    def _arrive_from_client(self, arrival: tuple[Wire, Sequence[ClientRequest]]) -> None:
        wire, batch = arrival
        # A client that has left, or reconnected meanwhile, has no use for an answer.
        if isinstance(wire.target, ClientId) and self.clients.get(wire.target.name) is wire:
            self.arrive(wire.source, wire.target, batch)

    def _serve_next(self, place: Place, search_us: float = 0.0) -> None:
        """Let a broker take the next message; if it is still searching for the last one, after that."""
        place.busy = bool(place.waiting) or search_us > 0
        if search_us:
            resumes_ns = self.agenda.now_ns + round(search_us * NS_PER_US)
            self.agenda.enter(resumes_ns, _SERVICE, self._searched, (place, place.node))
        elif place.busy:
            done_ns = self.agenda.now_ns + round(self._service_us(place) * NS_PER_US)
            self.agenda.enter(done_ns, _SERVICE, self._served, (place, place.node))

    def _service_us(self, place: Place) -> float:
        """Return the time that the next item takes; greetings and acknowledgements take none."""
        item, broker = place.waiting[0][1], place.node.broker
        if isinstance(item, Frame):
            item = item.message
        if type(item) is Publish:
            searched = broker.subscriptions_searched
            if searched != place.searched:
                place.searched, place.publication_us = searched, self.profile.publication_us(searched)
            return place.publication_us
        if not hasattr(item, "size_bytes"):
            return 0.0
        sizes = broker.table_sizes()
        return self.profile.service_us(item, sizes["clt"] + sizes["srt"], broker.subscriptions_searched)

    def _served(self, service: tuple[Place, Node]) -> None:
        place, node = service
        if not place.is_alive or place.node is not node:
            return
        if not place.waiting:
            self._serve_next(place)  # Its connection broke meanwhile.
            return
        sender, item = place.waiting.popleft()
        counters = node.broker.counters
        before = counters.searches
        self._feed(place, sender, [item])
        searches = counters.searches - before
        self._serve_next(place, searches and searches * self.profile.searching_us(node.broker.table_sizes()["prt"]))

    def _searched(self, service: tuple[Place, Node]) -> None:
        place, node = service
        if place.is_alive and place.node is node:
            self._serve_next(place)

    def _feed(self, place: Place, sender: Peer, items: Sequence[Any]) -> None:
        place.node.receive(sender, items, self.agenda.now_ms)
        self._carry_out(place)

    # Work that nodes ask for.

    def carry_out(self, broker: BrokerId) -> None:
        """Do the work that a node asks for."""
        self._carry_out(self.places[broker])

    def _carry_out(self, place: Place) -> None:
        node = place.node
        while True:
            ready = node.ready(self.agenda.now_ms)
            if self._listens:  # A publication may be routed in ``ready``, and must be known before its deliveries.
                self._tell(node)
            self._fulfil(place, ready)
            if self._listens:
                self._tell(node)
            if self.checking:
                node.broker.check()
            if not node._has_work():
                break
        self.set_timer(place)

    def _fulfil(self, place: Place, ready: Ready) -> None:
        for failure in ready.failures:
            raise failure.error
        if self._is_whole and ready.for_clients:
            self._reach_whole(place.id, ready.for_clients)
        departures: Departures | None = None
        for peer, items in ready.writes:
            if isinstance(peer, BrokerId):
                if departures is not None:
                    self._enter_departures(departures)
                    departures = None
                if items:
                    self.links.carry(place.id, peer, items)
                link = place.node.links[peer]
                if link.is_paced:
                    self.links.serve(place.id, peer)
                continue
            name = peer.name
            wire = self.clients.get(name)
            if wire is None or (wire.target is not peer and wire.target != peer):
                continue  # It has left.
            if departures is None:
                departures = Departures(place.id)
            if items:
                arrival_ns = plan_arrival(wire, self.agenda.now_ns + wire.delay_ns, items)  # type: ignore[arg-type]
                departures.add(arrival_ns, name, items)  # type: ignore[arg-type]
            if wire.interval_ns or self._is_limited:
                self._serve_client(place.node, wire, departures)
        if ready.for_clients and not self._is_whole:
            if departures is None:
                departures = Departures(place.id)
            for entry in ready.for_clients:
                self._spread(entry, departures)  # type: ignore[arg-type]  # Answers go through mailboxes.
        if departures is not None:
            self._enter_departures(departures)
        for close in ready.closes:
            if close.code is CloseCode.TOO_SLOW and isinstance(close.peer, ClientId):
                self.clients.pop(close.peer.name, None)
            else:
                raise UsageError(f"{place.id} closed its link to {close.peer}: {close.reason}")
        for peer in ready.silent:
            assert isinstance(peer, BrokerId)
            assert isinstance(self.links, FaultyLinks)
            self.links.disconnect(place.id, peer)

    def _tell(self, node: Node) -> None:
        if not node.has_facts:
            return
        now_ms = self.agenda.now_ms
        for fact in node.drain_facts():
            for observer in self._observers:
                observer.on_fact(node.broker, fact, now_ms)

    # Messages that reach clients.

    def _spread(self, entry: Delivered, departures: Departures) -> None:
        """Let a publication depart to all of a broker's clients that want it; none of them is slow."""
        copy, now_ns = entry.copy, self.agenda.now_ns
        delivery: Deliver | None = None
        for client, handles in entry.plan:
            name = client.name
            wire = self.clients.get(name)
            if wire is None or (wire.target is not client and wire.target != client):
                continue  # It has left.
            if delivery is not None and delivery.handles is handles:
                delivery.is_shared = True
            elif type(copy) is Publish:
                delivery = delivery_of(copy, handles)
            else:
                delivery = Deliver(copy.id, copy.publication, handles, copy.hop, copy.published_ms)
            departures.add_one(wire.arrival_ns(now_ns + wire.delay_ns, False, True), name, delivery)

    def _reach_whole(self, source: BrokerId, entries: Sequence[ForClients]) -> None:
        """Notify observers of deliveries that wait in no mailbox, and let answers travel."""
        reached_ms = self.agenda.now_ms + self._client_delay_ms
        arrivals: list[Any] = []
        for entry in entries:
            if isinstance(entry, Delivered):
                for observer in self._observers:
                    observer.on_delivered(source, entry, reached_ms)
            else:
                arrivals += (entry.client.name, entry.reply)
        if arrivals:
            arrival_ns = self.agenda.now_ns + self.client_delay_ns
            self.agenda.enter(arrival_ns, _ARRIVAL, self._reach_clients, (source, arrivals))

    def _serve_client(self, node: Node, wire: Wire, departures: Departures) -> None:
        """Let the next delivery occupy the wire to a client, if it is slow and free."""
        now_ns = self.agenda.now_ns
        if now_ns < wire.free_at_ns or not wire.is_slow(self.profile):
            return
        message = node.begin(wire.target, self.agenda.now_ms)
        if message is not None:
            occupied_ns = occupation_ns(wire.interval_ns, self.profile.bandwidth_mbit_s, message)
            wire.free_at_ns = now_ns + occupied_ns
            batch = [message]
            assert isinstance(wire.target, ClientId)
            departures.add(plan_arrival(wire, wire.free_at_ns + wire.delay_ns, batch), wire.target.name, batch)
            departures.wires.setdefault(wire.free_at_ns, []).append(wire)

    def _on_free(self, wires: list[Wire]) -> None:
        """Let wires to clients of one broker, all of which are free now, take the next delivery."""
        departures = Departures(wires[0].source)
        node = self.places[wires[0].source].node
        for wire in wires:
            # If the client has left, another of its name has a wire of its own.
            if isinstance(wire.target, ClientId) and self.clients.get(wire.target.name) is wire:
                self._serve_client(node, wire, departures)
        self._enter_departures(departures)

    def _enter_departures(self, departures: Departures) -> None:
        for arrival_ns, arrivals in departures.arrivals.items():
            self.agenda.enter(arrival_ns, _ARRIVAL, self._reach_clients, (departures.source, arrivals))
        for free_at_ns, wires in departures.wires.items():
            self.agenda.enter(free_at_ns, _LINK_FREE, self._on_free, wires)

    def _reach_clients(self, arrival: tuple[BrokerId, list[Any]]) -> None:
        source, arrivals = arrival
        now_ms, observers = self.agenda.now_ms, self._observers
        for index in range(0, len(arrivals), 2):
            for observer in observers:
                observer.on_reply(arrivals[index], source, arrivals[index + 1], now_ms)

    # Timers.

    def set_timer(self, place: Place) -> None:
        """Plan to wake a node at its next deadline."""
        due_ms = place.node.next_deadline_ms
        if due_ms is None or (place.timer_ms is not None and place.timer_ms <= due_ms):
            return
        place.timer_ms = due_ms
        timer = (place, place.node, due_ms)
        self.agenda.enter(just_after_ns(due_ms), _TIMER, self._on_timer, timer, not place.node.is_behind)

    def _on_timer(self, timer: tuple[Place, Node, float]) -> None:
        place, node, due_ms = timer
        if place.is_alive and place.node is node and place.timer_ms == due_ms:
            place.timer_ms = None
            node.wake(self.agenda.now_ms)
            self._carry_out(place)
