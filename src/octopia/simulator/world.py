"""A whole overlay in virtual time: nodes, the links between them, and clients.

The world drives the same nodes as the network does. It carries what they want written, lets brokers and links take the
time that the profile says, lets faults strike, and tells observers what happens. Nothing in it knows how brokers route.
"""

from __future__ import annotations

import dataclasses
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from octopia.algorithms import make_broker
from octopia.broker import Broker, BrokerSettings, Counters, Delivered, Detail, Fact, ForClients, Routed, Verdict
from octopia.errors import Stuck, UsageError
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import LinkSettings
from octopia.matching import INDEX, MatcherFactory
from octopia.node import Node, NodeSettings, Ready, introduce
from octopia.overlay import LinkShape, Scot
from octopia.protocol import CloseCode, ClusterIndexVector, Frame, Overflow
from octopia.protocol.messages import ClientReply, ClientRequest, Message
from octopia.simulator.agenda import Agenda, Priority, just_after_ns, to_ns
from octopia.simulator.links import FaultyLinks, FrameFaults, Links, ReliableLinks
from octopia.simulator.profiles import Profile
from octopia.simulator.wires import NS_PER_US, Wire, occupation_ns, plan_arrival

_PATIENCE_MS = 120_000.0
"""The virtual time for which a world that is not at rest may go on without anything planned; then it is stuck."""


class Observer(Protocol):
    """A listener to what happens in a world."""

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Handle a fact about a broker."""

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Handle a reply that reached a client."""

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Handle a publication that reached all of a broker's clients at once, if the world takes entries whole."""


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """The surroundings of the brokers of a world.

    Without ``sessions`` its links never fail. With ``whole`` its clients are never slow, and all deliveries of a
    publication at a broker are one event.
    """

    profile: Profile
    sessions: LinkSettings | None = None
    faults: FrameFaults = dataclasses.field(default_factory=FrameFaults)
    seed: int = 0
    client_queue_limit: int = 10_000
    whole: bool = False


class _Place:
    """A node with the items that wait for it while it is busy."""

    __slots__ = ("busy", "id", "is_alive", "node", "timer_ms", "waiting")

    def __init__(self, node: Node):
        self.id = node.broker.id
        self.node = node
        self.is_alive = True
        self.waiting: deque[tuple[Peer, Any]] = deque()
        self.busy = False
        self.timer_ms: float | None = None


@dataclasses.dataclass(slots=True)
class _Departures:
    """Everything that leaves one broker for its clients at one moment: arrivals, and wires that become free, by time.

    Clients are many. What happens to them at the same time is one event, in the order in which it was caused, since
    nothing else of its kind could come in between.
    """

    source: BrokerId
    arrivals: dict[int, list[tuple[ClientId, Sequence[Message]]]] = dataclasses.field(default_factory=dict)
    wires: dict[int, list[Wire]] = dataclasses.field(default_factory=dict)


class World:
    """An overlay of simulated nodes; time moves only while ``run`` runs."""

    def __init__(
        self,
        scot: Scot,
        settings: BrokerSettings,
        environment: Environment,
        observers: Sequence[Observer] = (),
        matchers: MatcherFactory = INDEX,
    ):
        self.scot = scot
        self.agenda = Agenda()
        self.profile = environment.profile
        self.random = random.Random(environment.seed)
        self.checking = False
        self._settings = settings
        self._node_settings = NodeSettings(
            environment.sessions,
            client_queue_limit=environment.client_queue_limit,
            whole=environment.whole,
            detail=settings.detail,
        )
        self._matchers = matchers
        self._observers = tuple(observers)
        self._listens = settings.detail > Detail.OFF
        self._brokers_take_time = environment.profile.brokers_take_time
        self._client_delay_ns = to_ns(environment.profile.client_delay_ms)
        self._places: dict[BrokerId, _Place] = {}
        self._clients: dict[str, Wire] = {}
        self._past_nodes: list[Node] = []
        self.links = self._make_links(environment)
        for broker in scot.brokers:
            self._places[broker] = _Place(self._make_node(broker, 1))
        for place in self._places.values():
            self.links.prepare(place.node)
        if environment.sessions is not None:
            for low, high in (*scot.alinks, *scot.ilinks):
                introduce(self._places[low].node, self._places[high].node)
            for place in self._places.values():
                self._set_timer(place)

    def _make_node(self, broker: BrokerId, incarnation: int, restarted_at_ms: float | None = None) -> Node:
        neighbourhood = self.scot.neighbourhood(broker)
        made = make_broker(neighbourhood, self._settings, incarnation, self._matchers, restarted_at_ms=restarted_at_ms)
        return Node(made, neighbourhood.neighbours, incarnation, self._node_settings)

    def _make_links(self, environment: Environment) -> Links:
        machines = {broker: number for number, broker in enumerate(self.scot.brokers)}
        if self.profile.machines:
            machines = {broker: number % self.profile.machines for broker, number in machines.items()}
        wires: dict[tuple[BrokerId, BrokerId], Wire] = {}
        for low, high in (*self.scot.alinks, *self.scot.ilinks):
            same_machine = machines[low] == machines[high]
            delay_ms = self.profile.same_machine_delay_ms if same_machine else self.profile.link_delay_ms
            for source, target in ((low, high), (high, low)):
                wires[source, target] = Wire(source, target, to_ns(delay_ms), round(self.profile.send_us * NS_PER_US))
        if environment.sessions is None:
            return ReliableLinks(self, wires)
        return FaultyLinks(self, wires, environment.sessions, environment.faults)

    # What people do.

    @property
    def brokers(self) -> dict[BrokerId, Broker]:
        """All brokers that are alive, by id."""
        return {broker: place.node.broker for broker, place in self._places.items() if place.is_alive}

    @property
    def nodes(self) -> list[Node]:
        """All nodes, those of past incarnations among them."""
        return self._past_nodes + [place.node for place in self._places.values()]

    def counters(self) -> list[Counters]:
        """Return the counters of all brokers, those of past incarnations among them."""
        return [node.broker.counters for node in self.nodes]

    def node(self, broker: BrokerId) -> Node | None:
        """Return a node, or None while it is crashed."""
        place = self._places[broker]
        return place.node if place.is_alive else None

    def broker(self, broker: BrokerId) -> Broker | None:
        """Return a broker, or None while it is crashed."""
        place = self._places[broker]
        return place.node.broker if place.is_alive else None

    def attach(self, name: str, broker: BrokerId, overflow: Overflow = Overflow.DISCONNECT) -> str:
        """Connect a client to its host broker, which takes no time, and return its name."""
        if name in self._clients:
            raise UsageError(f'expected a client name that is not in use, got "{name}"')
        node = self._places[broker].node
        client = node.attach(name, overflow, self.agenda.now_ms)
        self._clients[name] = Wire(broker, client, self._client_delay_ns)
        node.pace(client, self._clients[name].is_slow(self.profile))
        self.carry_out(broker)
        return name

    def detach(self, name: str) -> None:
        """Disconnect a client; what it issued is withdrawn, and what is on its way to it is lost."""
        wire = self._clients.pop(name)
        assert isinstance(wire.target, ClientId)
        self._places[wire.source].node.detach(wire.target, self.agenda.now_ms)
        self.carry_out(wire.source)

    def is_attached(self, name: str) -> bool:
        """Return whether a client is connected."""
        return name in self._clients

    def request(self, name: str, request: ClientRequest) -> None:
        """Send a client's request to its host broker."""
        wire = self._clients[name]
        arrival_ns = self.agenda.now_ns + self._client_delay_ns
        self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._arrive_from_client, (wire, [request]))

    def force(self, source: BrokerId, target: BrokerId, verdict: Verdict, queue_length: int | None) -> None:
        """Override the verdict about one direction of a link."""
        self._places[source].node.broker.force(target, verdict, queue_length, self.agenda.now_ms)

    def slow_down(self, name: str, rate: float) -> None:
        """Limit the publications that a client takes per second."""
        wire = self._clients[name]
        wire.set_shape(LinkShape(rate=rate))
        self._places[wire.source].node.pace(wire.target, is_paced=True)

    def at(self, time_ns: int, action: Callable[[Any], None], argument: Any) -> None:
        """Plan something that people will do."""
        self.agenda.enter(time_ns, Priority.SCRIPT, action, argument)

    def run(self) -> None:
        """Let time pass until nothing is left to happen."""
        patient_until_ms = self.agenda.now_ms + _PATIENCE_MS
        while True:
            if self.agenda.foreground:
                while self.agenda.foreground:
                    self.agenda.step()
                patient_until_ms = self.agenda.now_ms + _PATIENCE_MS
            unsettled = self._unsettled()
            if unsettled is None:
                return
            if not self.agenda or self.agenda.now_ms > patient_until_ms:
                raise Stuck(f"nothing happens any more, but {unsettled}")
            self.agenda.step()

    def _unsettled(self) -> str | None:
        for broker in self.brokers.values():
            if not broker.accepts_data:
                return f"{broker.id} is recovering"
        for place in self._places.values():
            links = place.node.links.values()
            # The credit that opens a link may come with the next heartbeat, which nothing else waits for.
            if place.is_alive and place.node.broker.stranded and any(each.is_closed for each in links):
                return f"copies at {place.id} wait for a link to be opened"
        return self.links.unsettled()

    def civs(self, name: str, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return the stored CIV and the target clusters of what a client advertised, or None if it is withdrawn."""
        wire = self._clients.get(name)
        if wire is None or not isinstance(wire.target, ClientId):
            return None
        return self._places[wire.source].node.broker.civs(wire.target, handle)

    # Faults.

    def crash(self, broker: BrokerId) -> list[str]:
        """Let a broker die with all that it knows, and return the clients that lost their connection."""
        place = self._places[broker]
        if not place.is_alive:
            return []
        self._faulty_links().crash(broker)
        place.is_alive = False
        place.waiting.clear()
        lost = [name for name, wire in self._clients.items() if wire.source == broker]
        for name in lost:
            del self._clients[name]
        return lost

    def restart(self, broker: BrokerId) -> None:
        """Start a crashed broker again, without memory, as a new incarnation."""
        place = self._places[broker]
        if place.is_alive:
            return
        self._past_nodes.append(place.node)
        place.node = self._make_node(broker, place.node.incarnation + 1, self.agenda.now_ms)
        place.is_alive = True
        place.busy = False
        place.timer_ms = None
        self.links.prepare(place.node)
        self._faulty_links().restart(broker)
        self._set_timer(place)

    def cut(self, one: BrokerId, other: BrokerId) -> None:
        """Cut a link in both directions."""
        self._faulty_links().cut(one, other)

    def heal(self, one: BrokerId, other: BrokerId) -> None:
        """Mend a link that was cut."""
        self._faulty_links().heal(one, other)

    def _faulty_links(self) -> FaultyLinks:
        if not isinstance(self.links, FaultyLinks):
            raise UsageError("expected links with sessions, since reliable links cannot fail")
        return self.links

    # Items that arrive.

    def arrive(self, target: BrokerId, sender: Peer, items: Sequence[Any]) -> None:
        """Hand items to a node, at once or when it has time for them."""
        place = self._places[target]
        if not place.is_alive:
            return
        if not self._brokers_take_time:
            self._feed(place, sender, items)
            return
        place.waiting.extend((sender, item) for item in items)
        if not place.busy:
            self._serve_next(place)

    def forget_arrivals(self, target: BrokerId, sender: BrokerId) -> None:
        """Drop the items of a connection that is over and that a busy node has not handled yet."""
        place = self._places.get(target)
        if place is not None and place.waiting:
            place.waiting = deque(each for each in place.waiting if each[0] != sender)

    def _arrive_from_client(self, arrival: tuple[Wire, Sequence[ClientRequest]]) -> None:
        wire, batch = arrival
        # A client that has left, or reconnected meanwhile, has no use for an answer.
        if isinstance(wire.target, ClientId) and self._clients.get(wire.target.name) is wire:
            self.arrive(wire.source, wire.target, batch)

    def _serve_next(self, place: _Place, search_us: float = 0.0) -> None:
        """Let a broker take the next message; if it is still searching for the last one, after that."""
        place.busy = bool(place.waiting) or search_us > 0
        if search_us:
            resumes_ns = self.agenda.now_ns + round(search_us * NS_PER_US)
            self.agenda.enter(resumes_ns, Priority.SERVICE, self._searched, (place, place.node))
        elif place.busy:
            done_ns = self.agenda.now_ns + round(self._service_us(place) * NS_PER_US)
            self.agenda.enter(done_ns, Priority.SERVICE, self._served, (place, place.node))

    def _service_us(self, place: _Place) -> float:
        """Return the time that the next item takes; greetings and acknowledgements take none."""
        item = place.waiting[0][1]
        if isinstance(item, Frame):
            item = item.message
        elif not hasattr(item, "size_bytes"):
            return 0.0
        sizes = place.node.broker.table_sizes()
        return self.profile.service_us(item, sizes["clt"] + sizes["srt"], sizes["prt"])

    def _served(self, service: tuple[_Place, Node]) -> None:
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

    def _searched(self, service: tuple[_Place, Node]) -> None:
        place, node = service
        if place.is_alive and place.node is node:
            self._serve_next(place)

    def _feed(self, place: _Place, sender: Peer, items: Sequence[Any]) -> None:
        place.node.receive(sender, items, self.agenda.now_ms)
        self._carry_out(place)

    # Work that nodes ask for.

    def carry_out(self, broker: BrokerId) -> None:
        """Do the work that a node asks for."""
        self._carry_out(self._places[broker])

    def _carry_out(self, place: _Place) -> None:
        node = place.node
        while True:
            if self._listens:
                self._tell(node)
            self._fulfil(place, node.ready(self.agenda.now_ms))
            if self._listens:
                self._tell(node)
            if self.checking:
                node.broker.check()
            if not node.has_work:
                break
        self._set_timer(place)

    def _fulfil(self, place: _Place, ready: Ready) -> None:
        for failure in ready.failures:
            raise failure.error
        if ready.for_clients:
            self._reach_whole(place.id, ready.for_clients)
        departures: _Departures | None = None
        for peer, items in ready.writes:
            if isinstance(peer, BrokerId):
                if departures is not None:
                    self._enter_departures(departures)
                    departures = None
                if items:
                    self.links.carry(place.id, peer, items)
                if place.node.links[peer].is_paced:
                    self.links.serve(place.id, peer)
                continue
            departures = departures or _Departures(place.id)
            if items:
                self._send_to_client(peer, items, 0, departures)  # type: ignore[arg-type]
            self._serve_client(place.node, peer, departures)
        if departures is not None:
            self._enter_departures(departures)
        for close in ready.closes:
            if close.code is CloseCode.TOO_SLOW and isinstance(close.peer, ClientId):
                self._clients.pop(close.peer.name, None)
            else:
                raise UsageError(f"{place.id} closed its link to {close.peer}: {close.reason}")
        for peer in ready.silent:
            assert isinstance(peer, BrokerId)
            self._faulty_links().disconnect(place.id, peer)

    def _tell(self, node: Node) -> None:
        facts = node.drain_facts()
        if not facts:
            return
        now_ms = self.agenda.now_ms
        for fact in facts:
            for observer in self._observers:
                observer.on_fact(node.broker, fact, now_ms)

    # Messages that reach clients.

    def _reach_whole(self, source: BrokerId, entries: Sequence[ForClients]) -> None:
        """Let observers know of deliveries that wait in no mailbox, and let answers travel."""
        reached_ms = self.agenda.now_ms + self.profile.client_delay_ms
        arrivals: list[tuple[ClientId, Sequence[Message]]] = []
        for entry in entries:
            if isinstance(entry, Delivered):
                for observer in self._observers:
                    observer.on_delivered(source, entry, reached_ms)
            else:
                arrivals.append((entry.client, [entry.reply]))
        if arrivals:
            arrival_ns = self.agenda.now_ns + self._client_delay_ns
            self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._reach_clients, (source, arrivals))

    def _serve_client(self, node: Node, client: ClientId, departures: _Departures) -> None:
        """Let the next delivery occupy the wire to a client, if it is free."""
        wire = self._clients.get(client.name)
        if wire is None or wire.target != client or self.agenda.now_ns < wire.free_at_ns:
            return
        if not wire.is_slow(self.profile):
            return
        message = node.begin(client, self.agenda.now_ms)
        if message is not None:
            occupied_ns = occupation_ns(wire, self.profile, message)
            wire.free_at_ns = self.agenda.now_ns + occupied_ns
            self._send_to_client(client, [message], occupied_ns, departures)
            departures.wires.setdefault(wire.free_at_ns, []).append(wire)

    def _on_free(self, wires: Sequence[Wire]) -> None:
        """Let wires to clients of one broker, all of which are free now, take the next delivery."""
        departures = _Departures(wires[0].source)
        node = self._places[wires[0].source].node
        for wire in wires:
            # If the client has left, another of its name has a wire of its own.
            if isinstance(wire.target, ClientId) and self._clients.get(wire.target.name) is wire:
                self._serve_client(node, wire.target, departures)
        self._enter_departures(departures)

    def _send_to_client(
        self, client: ClientId, batch: Sequence[Message], occupied_ns: int, departures: _Departures
    ) -> None:
        wire = self._clients.get(client.name)
        if wire is not None and wire.target == client:
            arrival_ns = plan_arrival(wire, self.agenda.now_ns + occupied_ns, batch)
            departures.arrivals.setdefault(arrival_ns, []).append((client, batch))

    def _enter_departures(self, departures: _Departures) -> None:
        for arrival_ns, arrivals in departures.arrivals.items():
            self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._reach_clients, (departures.source, arrivals))
        for free_at_ns, wires in departures.wires.items():
            self.agenda.enter(free_at_ns, Priority.LINK_FREE, self._on_free, wires)

    def _reach_clients(self, arrival: tuple[BrokerId, Sequence[tuple[ClientId, Sequence[ClientReply]]]]) -> None:
        source, arrivals = arrival
        now_ms, observers = self.agenda.now_ms, self._observers
        for client, batch in arrivals:
            for reply in batch:
                for observer in observers:
                    observer.on_reply(client.name, source, reply, now_ms)

    # Timers.

    def _set_timer(self, place: _Place) -> None:
        due_ms = place.node.next_deadline_ms
        if due_ms is None or (place.timer_ms is not None and place.timer_ms <= due_ms):
            return
        place.timer_ms = due_ms
        timer = (place, place.node, due_ms)
        self.agenda.enter(
            just_after_ns(due_ms), Priority.TIMER, self._on_timer, timer, background=not place.node.is_behind
        )

    def _on_timer(self, timer: tuple[_Place, Node, float]) -> None:
        place, node, due_ms = timer
        if place.is_alive and place.node is node and place.timer_ms == due_ms:
            place.timer_ms = None
            node.wake(self.agenda.now_ms)
            self._carry_out(place)
