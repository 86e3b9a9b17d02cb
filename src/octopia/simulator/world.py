"""A whole overlay in virtual time: nodes, the links between them, and clients.

The world makes the same nodes as the network runs, lets people act, and lets faults strike. Its ``driver`` does all
else. Nothing in either knows how brokers route.
"""

from __future__ import annotations

import dataclasses
import gc
import random
from collections.abc import Callable, Sequence
from typing import Any

from octopia.algorithms import make_broker
from octopia.broker import Broker, BrokerSettings, Counters, Detail, Verdict
from octopia.errors import Stuck, UsageError
from octopia.ids import BrokerId, ClientId
from octopia.link import LinkSettings
from octopia.matching import INDEX, MatcherFactory
from octopia.node import Node, NodeSettings, introduce
from octopia.overlay import LinkShape, Scot
from octopia.protocol import ClusterIndexVector, Overflow
from octopia.protocol.messages import ClientRequest
from octopia.simulator.agenda import Agenda, Priority, to_ns
from octopia.simulator.driver import Driver, Observer, Place
from octopia.simulator.links import FaultyLinks, FrameFaults, Links, ReliableLinks
from octopia.simulator.profiles import Profile, SenderScope
from octopia.simulator.wires import NS_PER_US, SharedSender, Wire

_PATIENCE_MS = 120_000.0
"""The virtual time for which a world that is not at rest may go on without anything planned; then it is stuck."""
_COLLECT_AFTER = (100_000, 50, 100)
"""The thresholds of the garbage collector during a run; Python's own are 700, 10 and 10.

Events and messages are not part of cycles, and looking for cycles among them took a sixth of the time.
"""

_NEVER_MS = 1e9
"""The interval of heartbeats on links that cannot fail: later than the end of any run."""


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """The surroundings of the brokers of a world.

    Without ``sessions`` its links never fail. They have sessions all the same if the profile limits credit. With
    ``whole`` its clients are never slow, and all deliveries of a publication at a broker are one event.
    """

    profile: Profile
    sessions: LinkSettings | None = None
    faults: FrameFaults = dataclasses.field(default_factory=FrameFaults)
    seed: int = 0
    client_queue_limit: int = 10_000
    whole: bool = False

    def link_settings(self) -> LinkSettings | None:
        """Return the settings of the sessions between brokers, or None if links need no sessions."""
        if self.sessions is not None or not self.profile.credit_kib:
            return self.sessions
        # Nothing is lost on these links, and a busy broker is silent for long.
        return LinkSettings(self.profile.window_bytes, heartbeat_ms=_NEVER_MS, suspicion_ms=_NEVER_MS)


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
        self.profile = environment.profile
        self.agenda = Agenda()
        listens, chance = settings.detail > Detail.OFF, random.Random(environment.seed)
        self.driver = Driver(self.agenda, self.profile, chance, observers, listens, environment.whole)
        self._settings = settings
        sessions = environment.link_settings()
        self._node_settings = NodeSettings(
            sessions,
            client_queue_limit=environment.client_queue_limit,
            whole=environment.whole,
            spreading=True,
            detail=settings.detail,
        )
        self._matchers = matchers
        self._places, self._clients = self.driver.places, self.driver.clients
        self._past_nodes: list[Node] = []
        self.links = self.driver.links = self._make_links(sessions, environment.faults)
        for broker in scot.brokers:
            self._places[broker] = Place(self._make_node(broker, 1))
        for place in self._places.values():
            self.links.prepare(place.node)
        if sessions is not None:
            for low, high in (*scot.alinks, *scot.ilinks):
                introduce(self._places[low].node, self._places[high].node)
            for place in self._places.values():
                self.driver.set_timer(place)

    def _make_node(self, broker: BrokerId, incarnation: int, restarted_at_ms: float | None = None) -> Node:
        neighbourhood = self.scot.neighbourhood(broker)
        made = make_broker(neighbourhood, self._settings, incarnation, self._matchers, restarted_at_ms=restarted_at_ms)
        return Node(made, neighbourhood.neighbours, incarnation, self._node_settings)

    def _make_links(self, sessions: LinkSettings | None, faults: FrameFaults) -> Links:
        machines = {broker: number for number, broker in enumerate(self.scot.brokers)}
        if self.profile.machines:
            machines = {broker: number % self.profile.machines for broker, number in machines.items()}
        senders = self._make_senders(machines)
        send_ns = 0 if senders else round(self.profile.send_us * NS_PER_US)
        wires: dict[tuple[BrokerId, BrokerId], Wire] = {}
        for low, high in (*self.scot.alinks, *self.scot.ilinks):
            same_machine = machines[low] == machines[high]
            delay_ms = self.profile.same_machine_delay_ms if same_machine else self.profile.link_delay_ms
            for source, target in ((low, high), (high, low)):
                wires[source, target] = Wire(source, target, to_ns(delay_ms), send_ns, senders.get(source))
        if sessions is None:
            return ReliableLinks(self.driver, wires)
        return FaultyLinks(self.driver, wires, sessions, faults)

    def _make_senders(self, machines: dict[BrokerId, int]) -> dict[BrokerId, SharedSender]:
        """Return the sender that all links from a broker share; none if each has its own."""
        scope, send_ns = self.profile.sender, round(self.profile.send_us * NS_PER_US)
        if scope is SenderScope.LINK:
            return {}
        if scope is SenderScope.BROKER:
            return {broker: SharedSender(send_ns) for broker in machines}
        by_machine = {machine: SharedSender(send_ns) for machine in machines.values()}
        return {broker: by_machine[machine] for broker, machine in machines.items()}

    # Client actions.

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
        return self.driver.node(broker)

    def broker(self, broker: BrokerId) -> Broker | None:
        """Return a broker, or None while it is crashed."""
        node = self.driver.node(broker)
        return None if node is None else node.broker

    def attach(self, name: str, broker: BrokerId, overflow: Overflow = Overflow.DISCONNECT) -> str:
        """Connect a client to its host broker, which takes no time, and return its name."""
        if name in self._clients:
            raise UsageError(f'expected a client name that is not in use, got "{name}"')
        node = self._places[broker].node
        client = node.attach(name, overflow, self.agenda.now_ms)
        self._clients[name] = Wire(broker, client, self.driver.client_delay_ns)
        node.pace(client, self._clients[name].is_slow(self.profile))
        self.driver.carry_out(broker)
        return name

    def detach(self, name: str) -> None:
        """Disconnect a client; what it issued is withdrawn, and what is on its way to it is lost."""
        wire = self._clients.pop(name)
        assert isinstance(wire.target, ClientId)
        self._places[wire.source].node.detach(wire.target, self.agenda.now_ms)
        self.driver.carry_out(wire.source)

    def is_attached(self, name: str) -> bool:
        """Return whether a client is connected."""
        return name in self._clients

    def request(self, name: str, request: ClientRequest) -> None:
        """Send a client's request to its host broker."""
        self.driver.request(name, request)

    def force(self, source: BrokerId, target: BrokerId, verdict: Verdict, queue_length: int | None) -> None:
        """Override the verdict about one direction of a link."""
        self._places[source].node.broker.force(target, verdict, queue_length, self.agenda.now_ms)

    def slow_down(self, name: str, rate: float) -> None:
        """Limit the publications that a client takes per second."""
        wire = self._clients[name]
        wire.set_shape(LinkShape(rate=rate))
        self._places[wire.source].node.pace(wire.target, is_paced=True)

    def at(self, time_ns: int, action: Callable[[Any], None], argument: Any) -> None:
        """Schedule an action of a client or a fault."""
        self.agenda.enter(time_ns, Priority.SCRIPT, action, argument)

    def run(self) -> None:
        """Run until no events are left, except for timers that only repeat."""
        before = gc.get_threshold()
        gc.set_threshold(*_COLLECT_AFTER)
        try:
            self._run()
        finally:
            gc.set_threshold(*before)

    def _run(self) -> None:
        patient_until_ms = self.agenda.now_ms + _PATIENCE_MS
        while True:
            if self.agenda.foreground:
                self.agenda.run()
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
        """Crash a broker, which loses its state, and return the clients that lost their connection."""
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
        self.driver.set_timer(place)

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
