"""A whole overlay in virtual time: brokers, the links between them, and clients.

The world drives the very broker that the network runs. It carries messages from queue to broker, lets brokers and links
take the time that the profile says, lets faults strike, and tells observers what happens. Nothing in it knows how
brokers route.
"""

from __future__ import annotations

import dataclasses
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from octopia.algorithms import make_broker
from octopia.broker import Broker, BrokerSettings, Counters, Detail, Effects, Verdict
from octopia.broker.interface import Delivered, Fact, ForClient, Routed
from octopia.errors import Stuck, UsageError
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import LinkSettings
from octopia.matching import INDEX, MatcherFactory
from octopia.overlay import LinkShape, Scot
from octopia.protocol import CONTROL_ONLY, ClusterIndexVector, Overflow
from octopia.protocol.messages import ClientReply, ClientRequest, Message
from octopia.simulator.agenda import Agenda, Priority, just_after_ns, to_ns
from octopia.simulator.network import NS_PER_US, IdealLinks, Links, Wire, occupation_ns, plan_arrival
from octopia.simulator.profiles import Profile
from octopia.simulator.sessions import FrameFaults, SessionLinks

_PATIENCE_MS = 120_000.0
"""How long a world that is not at rest may go on without anything planned before it counts as stuck."""


class Observer(Protocol):
    """Somebody who is told what happens in a world."""

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Hear what happened at a broker."""

    def on_reply(self, client: ClientId, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Hear what reached a client."""

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Hear what reached clients all at once, in worlds whose brokers deliver so."""


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """What surrounds the brokers of a world; without ``sessions`` its links never fail."""

    profile: Profile
    sessions: LinkSettings | None = None
    faults: FrameFaults = dataclasses.field(default_factory=FrameFaults)
    seed: int = 0


class _Node:
    """A broker with the messages that wait for it while it is busy."""

    __slots__ = ("accepts_data", "broker", "busy", "id", "incarnation", "is_alive", "timer_ms", "waiting")

    def __init__(self, broker: Broker):
        self.id = broker.id
        self.broker = broker
        self.accepts_data = broker.accepts_data
        self.incarnation = 1
        self.is_alive = True
        self.waiting: deque[tuple[Peer, Message]] = deque()
        self.busy = False
        self.timer_ms: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Departures:
    """What leaves one broker for its clients at one moment: what arrives when, and which wires are free when.

    Clients are many. What happens to them at the same time is one event, in the order in which it was caused, since
    nothing else of its kind could come in between.
    """

    source: BrokerId
    arrivals: dict[int, list[tuple[ClientId, Sequence[Message]]]] = dataclasses.field(default_factory=dict)
    wires: dict[int, list[Wire]] = dataclasses.field(default_factory=dict)


class World:
    """An overlay of simulated brokers; time moves only while ``run`` runs."""

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
        self._matchers = matchers
        self._observers = tuple(observers)
        self._listens = settings.detail > Detail.OFF
        self._brokers_take_time = environment.profile.brokers_take_time
        self._client_delay_ns = to_ns(environment.profile.client_delay_ms)
        self._clients_are_alike = not environment.profile.bandwidth_mbit_s
        self._returns_credit = environment.sessions is not None
        self._nodes = {
            broker: _Node(make_broker(scot.neighbourhood(broker), settings, matchers=matchers))
            for broker in scot.brokers
        }
        self._client_wires: dict[ClientId, Wire] = {}
        self._past_counters: list[Counters] = []
        self._work: deque[tuple[_Node, Effects, bool]] = deque()
        self._is_working = False
        self.links = self._make_links(environment)

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
            return IdealLinks(self, wires)
        return SessionLinks(self, wires, environment.sessions, environment.faults)

    # What people do.

    @property
    def brokers(self) -> dict[BrokerId, Broker]:
        """All brokers that are alive, by id."""
        return {broker: node.broker for broker, node in self._nodes.items() if node.is_alive}

    def counters(self) -> list[Counters]:
        """Return the counters of all brokers, those of past incarnations among them."""
        return self._past_counters + [node.broker.counters for node in self._nodes.values()]

    def broker(self, broker: BrokerId) -> Broker | None:
        """Return a broker, or None while it is crashed."""
        node = self._nodes[broker]
        return node.broker if node.is_alive else None

    def attach(self, name: str, broker: BrokerId, overflow: Overflow = Overflow.DISCONNECT) -> ClientId:
        """Connect a client to its host broker; this takes no time."""
        client = ClientId(name)
        if client in self._client_wires:
            raise UsageError(f'expected a client name that is not in use, got "{name}"')
        self._client_wires[client] = Wire(broker, client, self._client_delay_ns)
        node = self._nodes[broker]
        self._carry_out(node, node.broker.attach(client, overflow, self.agenda.now_ms))
        return client

    def detach(self, client: ClientId) -> None:
        """Disconnect a client; what it issued is withdrawn, and what is on its way to it is lost."""
        node = self._nodes[self._client_wires.pop(client).source]
        self._carry_out(node, node.broker.detach(client, self.agenda.now_ms))

    def is_attached(self, client: ClientId) -> bool:
        """Tell whether a client is connected."""
        return client in self._client_wires

    def request(self, client: ClientId, request: ClientRequest) -> None:
        """Let a client ask something of its host broker."""
        wire = self._client_wires[client]
        arrival_ns = self.agenda.now_ns + self._client_delay_ns
        self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._arrive_from_client, (wire, [request]))

    def force(self, source: BrokerId, target: BrokerId, verdict: Verdict, queue_length: int | None) -> None:
        """Decide by hand whether one direction of a link counts as congested."""
        self._nodes[source].broker.force(target, verdict, queue_length, self.agenda.now_ms)

    def slow_down(self, client: ClientId, rate: float) -> None:
        """Let a client take at most so many publications in a second."""
        self._client_wires[client].set_shape(LinkShape(rate=rate))
        self._clients_are_alike = False

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
        return self.links.unsettled()

    def civs(self, client: ClientId, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return the stored CIV and the target clusters of what a client advertised, or None if it is withdrawn."""
        wire = self._client_wires.get(client)
        return self._nodes[wire.source].broker.civs(client, handle) if wire else None

    # Faults.

    def crash(self, broker: BrokerId) -> list[ClientId]:
        """Let a broker die with all that it knows, and return the clients that lost their connection."""
        node = self._nodes[broker]
        if not node.is_alive:
            return []
        self._faulty_links().crash(broker)
        node.is_alive = False
        node.waiting.clear()
        lost = [client for client, wire in self._client_wires.items() if wire.source == broker]
        for client in lost:
            del self._client_wires[client]
        return lost

    def restart(self, broker: BrokerId) -> None:
        """Start a crashed broker again, without memory, as a new incarnation."""
        node = self._nodes[broker]
        if node.is_alive:
            return
        node.incarnation += 1
        self._past_counters.append(node.broker.counters)
        node.broker = make_broker(
            self.scot.neighbourhood(broker),
            self._settings,
            node.incarnation,
            self._matchers,
            restarted_at_ms=self.agenda.now_ms,
        )
        node.accepts_data = node.broker.accepts_data
        node.is_alive = True
        node.busy = False
        node.timer_ms = None
        self._faulty_links().restart(broker, node.incarnation)
        self._set_timer(node)

    def cut(self, one: BrokerId, other: BrokerId) -> None:
        """Cut a link in both directions."""
        self._faulty_links().cut(one, other)

    def heal(self, one: BrokerId, other: BrokerId) -> None:
        """Mend a link that was cut."""
        self._faulty_links().heal(one, other)

    def _faulty_links(self) -> SessionLinks:
        if not isinstance(self.links, SessionLinks):
            raise UsageError("expected links with sessions, since ideal links cannot fail")
        return self.links

    # How messages travel.

    def arrive(self, target: BrokerId, sender: Peer, batch: Sequence[Message]) -> None:
        """Hand messages to a broker, at once or when it has time for them."""
        node = self._nodes[target]
        if not node.is_alive:
            return
        if not self._brokers_take_time:
            self._feed(node, sender, batch)
            return
        node.waiting.extend((sender, message) for message in batch)
        if not node.busy:
            self._serve_next(node)

    def link_changed(self, broker: BrokerId, peer: BrokerId, *, is_up: bool) -> None:
        """Tell a broker that a link of its came up or went down."""
        node = self._nodes[broker]
        now_ms = self.agenda.now_ms
        effects = node.broker.link_up(peer, now_ms) if is_up else node.broker.link_down(peer, now_ms)
        self._carry_out(node, effects)

    def tell(self, broker: BrokerId) -> None:
        """Let observers know what a broker has to tell, and carry out what taking from it has set free."""
        node = self._nodes[broker]
        if self._listens:
            self._tell(node.broker)
        unblocked = node.broker.drain_effects()
        if unblocked is not None:
            self._carry_out(node, unblocked)

    def _arrive_from_client(self, arrival: tuple[Wire, Sequence[ClientRequest]]) -> None:
        wire, batch = arrival
        # A client that has left, or reconnected meanwhile, has no use for an answer.
        if isinstance(wire.target, ClientId) and self._client_wires.get(wire.target) is wire:
            self.arrive(wire.source, wire.target, batch)

    def _serve_next(self, node: _Node, search_us: float = 0.0) -> None:
        """Let a broker take the next message; if it is still searching for the last one, after that."""
        node.busy = bool(node.waiting) or search_us > 0
        if search_us:
            resumes_ns = self.agenda.now_ns + round(search_us * NS_PER_US)
            self.agenda.enter(resumes_ns, Priority.SERVICE, self._searched, (node, node.incarnation))
        elif node.busy:
            sizes = node.broker.table_sizes()
            advertisements = sizes["clt"] + sizes["srt"]
            service_us = self.profile.service_us(node.waiting[0][1], advertisements, sizes["prt"])
            done_ns = self.agenda.now_ns + round(service_us * NS_PER_US)
            self.agenda.enter(done_ns, Priority.SERVICE, self._served, (node, node.incarnation))

    def _served(self, service: tuple[_Node, int]) -> None:
        node, incarnation = service
        if node.is_alive and node.incarnation == incarnation:
            sender, message = node.waiting.popleft()
            counters = node.broker.counters
            before = counters.searches
            self._feed(node, sender, [message])
            searches = counters.searches - before
            self._serve_next(node, searches and searches * self.profile.searching_us(node.broker.table_sizes()["prt"]))

    def _searched(self, service: tuple[_Node, int]) -> None:
        node, incarnation = service
        if node.is_alive and node.incarnation == incarnation:
            self._serve_next(node)

    def _feed(self, node: _Node, sender: Peer, batch: Sequence[Message]) -> None:
        if isinstance(sender, ClientId) and sender not in self._client_wires:
            return  # The client left while its request was on its way.
        self._carry_out(node, node.broker.receive(sender, batch, self.agenda.now_ms))

    def _carry_out(self, node: _Node, effects: Effects) -> None:
        """Plan what a broker's input asks for, and do it unless somebody further up is doing just that."""
        if effects.violation is not None:
            raise effects.violation
        if self._listens:
            self._tell(node.broker)
        accepts_data = node.broker.accepts_data
        admission_changed = accepts_data != node.accepts_data
        node.accepts_data = accepts_data
        self._set_timer(node)
        if self.checking:
            node.broker.check()
        if self._is_working:
            self._work.append((node, effects, admission_changed))
        else:
            self._do_work(node, effects, admission_changed)

    def _do_work(self, node: _Node, effects: Effects, admission_changed: bool) -> None:
        """Do what an input asks for; what that asks for in turn is queued and done in order, however deep its cause."""
        self._is_working = True
        try:
            self._fulfil(node, effects, admission_changed)
            while self._work:
                self._fulfil(*self._work.popleft())
        finally:
            self._is_working = False

    def _fulfil(self, node: _Node, effects: Effects, admission_changed: bool) -> None:
        """Return credit, let links and clients take what is ready for them, and part with clients."""
        if effects.delivered:
            reached_ms = self.agenda.now_ms + self.profile.client_delay_ms
            for delivered in effects.delivered:
                for observer in self._observers:
                    observer.on_delivered(node.id, delivered, reached_ms)
        if self._returns_credit:
            for placed in effects.placed:
                self.links.placed(node.id, placed)
        if admission_changed:
            self.links.admission_changed(node.id)
        clients: list[ClientId] = []
        for peer in effects.ready:
            if isinstance(peer, ClientId):
                clients.append(peer)
                continue
            if clients:
                self._pump_clients(node, clients)
                clients = []
            self.links.pump(node.id, peer)
        if clients:
            self._pump_clients(node, clients)
        for client in effects.cut_off:
            self._part_with(client)

    def _part_with(self, client: ClientId) -> None:
        if client in self._client_wires:
            self.detach(client)

    # How messages reach clients.

    def _pump_clients(self, node: _Node, clients: Sequence[ClientId]) -> None:
        """Let the links to some clients of a broker take all that they can carry now."""
        if self._clients_are_alike:
            arrivals = node.broker.take_for_clients(clients, self.agenda.now_ms)
            if arrivals:
                arrival_ns = self.agenda.now_ns + self._client_delay_ns
                self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._reach_clients, (node.id, arrivals))
            return
        departures = _Departures(node.id)
        for client in clients:
            wire = self._client_wires.get(client)
            if wire is not None:
                self._pump_client(node.broker, client, wire, departures)
        self._enter_departures(departures)

    def _on_free(self, wires: Sequence[Wire]) -> None:
        """Let wires to clients of one broker, all of which are free now, take what they can carry."""
        departures = _Departures(wires[0].source)
        for wire in wires:
            client = wire.target
            assert isinstance(client, ClientId)
            # If the client has left, another of its name has a wire of its own.
            if self._client_wires.get(client) is wire:
                self._pump_client(self._nodes[wire.source].broker, client, wire, departures)
        self._enter_departures(departures)

    def _pump_client(self, broker: Broker, client: ClientId, wire: Wire, departures: _Departures) -> None:
        agenda = self.agenda
        if not wire.interval_ns and not self.profile.bandwidth_mbit_s:
            self._send_to_client(client, wire, broker.take_all(client, agenda.now_ms), 0, departures)
            return
        self._send_to_client(client, wire, broker.take_all(client, agenda.now_ms, CONTROL_ONLY), 0, departures)
        if agenda.now_ns < wire.free_at_ns:
            return
        message = broker.take(client, agenda.now_ms)
        if message is not None:
            occupied_ns = occupation_ns(wire, self.profile, message)
            wire.free_at_ns = agenda.now_ns + occupied_ns
            self._send_to_client(client, wire, [message], occupied_ns, departures)
            departures.wires.setdefault(wire.free_at_ns, []).append(wire)

    def _send_to_client(
        self, client: ClientId, wire: Wire, batch: Sequence[Message], occupied_ns: int, departures: _Departures
    ) -> None:
        if batch:
            arrival_ns = plan_arrival(wire, self.agenda.now_ns + occupied_ns, batch)
            departures.arrivals.setdefault(arrival_ns, []).append((client, batch))

    def _enter_departures(self, departures: _Departures) -> None:
        for arrival_ns, arrivals in departures.arrivals.items():
            self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._reach_clients, (departures.source, arrivals))
        for free_at_ns, wires in departures.wires.items():
            self.agenda.enter(free_at_ns, Priority.LINK_FREE, self._on_free, wires)

    def _reach_clients(self, arrival: tuple[BrokerId, Sequence[ForClient]]) -> None:
        source, arrivals = arrival
        now_ms, observers = self.agenda.now_ms, self._observers
        for client, batch in arrivals:
            for reply in batch:
                for observer in observers:
                    observer.on_reply(client, source, reply, now_ms)

    def _tell(self, broker: Broker) -> None:
        facts = broker.drain_facts()
        if not facts:
            return
        now_ms = self.agenda.now_ms
        for fact in facts:
            for observer in self._observers:
                observer.on_fact(broker, fact, now_ms)

    # Timers.

    def _set_timer(self, node: _Node) -> None:
        due_ms = node.broker.next_deadline_ms
        if due_ms is None or (node.timer_ms is not None and node.timer_ms <= due_ms):
            return
        node.timer_ms = due_ms
        timer = (node, node.incarnation, due_ms)
        self.agenda.enter(just_after_ns(due_ms), Priority.TIMER, self._on_timer, timer, background=True)

    def _on_timer(self, timer: tuple[_Node, int, float]) -> None:
        node, incarnation, due_ms = timer
        if not node.is_alive or node.incarnation != incarnation or node.timer_ms != due_ms:
            return
        node.timer_ms = None
        self._carry_out(node, node.broker.wake(self.agenda.now_ms))
