"""A whole overlay in virtual time: brokers, the links between them, and clients.

The world drives the very broker that the network runs. It carries messages from queue to broker, lets brokers and links
take the time that the profile says, and tells observers what happens. Nothing in it knows how brokers route.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from octopia.broker import Broker, BrokerSettings, ClusterIndexVector, Effects, Overflow, Verdict, make_broker
from octopia.broker.interface import CONTROL_ONLY, Fact, Routed
from octopia.broker.messages import ClientReply, ClientRequest, Deliver, Message, Publish
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, Peer
from octopia.matching import SCAN, MatcherFactory
from octopia.overlay import LinkShape, Scot
from octopia.simulator.agenda import Agenda, Priority, to_ns
from octopia.simulator.network import Wire
from octopia.simulator.profiles import Profile

_NS_PER_US = 1000


class Observer(Protocol):
    """Somebody who is told what happens in a world."""

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Hear what happened at a broker."""

    def on_reply(self, client: ClientId, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Hear what reached a client."""


class _Node:
    """A broker with the messages that wait for it while it is busy."""

    __slots__ = ("broker", "busy", "waiting")

    def __init__(self, broker: Broker):
        self.broker = broker
        self.waiting: deque[tuple[Peer, Message]] = deque()
        self.busy = False


class World:
    """An overlay of simulated brokers; time moves only while ``run`` runs."""

    def __init__(
        self,
        scot: Scot,
        settings: BrokerSettings,
        profile: Profile,
        seed: int = 0,
        observers: Sequence[Observer] = (),
        matchers: MatcherFactory = SCAN,
    ):
        self.scot = scot
        self.agenda = Agenda()
        self.profile = profile
        self.checking = False
        self._observers = tuple(observers)
        self._random = random.Random(seed)
        self._nodes = {
            broker: _Node(make_broker(scot.neighbourhood(broker), settings, matchers=matchers))
            for broker in scot.brokers
        }
        self._numbers = {broker: number for number, broker in enumerate(scot.brokers)}
        self._wires = {
            (source, target): Wire(source, target, to_ns(self._delay_ms(source, target)))
            for low, high in (*scot.alinks, *scot.ilinks)
            for source, target in ((low, high), (high, low))
        }
        self._client_wires: dict[ClientId, Wire] = {}

    # What people do.

    @property
    def brokers(self) -> dict[BrokerId, Broker]:
        """All brokers, by id."""
        return {broker: node.broker for broker, node in self._nodes.items()}

    def attach(self, name: str, broker: BrokerId, overflow: Overflow = Overflow.DISCONNECT) -> ClientId:
        """Connect a client to its host broker; this takes no time."""
        client = ClientId(name)
        if client in self._client_wires:
            raise UsageError(f'expected a client name that is not in use, got "{name}"')
        self._client_wires[client] = Wire(broker, client, to_ns(self.profile.client_delay_ms))
        node = self._nodes[broker]
        self._carry_out(node, node.broker.attach(client, overflow, self.agenda.now_ms))
        return client

    def detach(self, client: ClientId) -> None:
        """Disconnect a client; what it issued is withdrawn, and what is on its way to it is lost."""
        node = self._nodes[self._client_wires.pop(client).source]
        self._carry_out(node, node.broker.detach(client, self.agenda.now_ms))

    def request(self, client: ClientId, request: ClientRequest) -> None:
        """Let a client ask something of its host broker."""
        wire = self._client_wires[client]
        arrival_ns = self.agenda.now_ns + to_ns(self.profile.client_delay_ms)
        self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._arrive, (wire.source, client, [request]))

    def force(self, source: BrokerId, target: BrokerId, verdict: Verdict, queue_length: int | None) -> None:
        """Decide by hand whether one direction of a link counts as congested."""
        self._nodes[source].broker.force(target, verdict, queue_length, self.agenda.now_ms)

    def shape(self, source: BrokerId, target: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of one direction of a link."""
        wire = self._wires[source, target]
        if shape.rate is not None:
            wire.set_rate(shape.rate)
        if shape.delay_ms is not None:
            wire.delay_ns = to_ns(shape.delay_ms)

    def at(self, time_ns: int, action: Callable[[Any], None], argument: Any) -> None:
        """Plan something that people will do."""
        self.agenda.enter(time_ns, Priority.SCRIPT, action, argument)

    def run(self) -> None:
        """Let time pass until nothing is left to happen."""
        while self.agenda:
            self.agenda.step()

    def civs(self, client: ClientId, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return the stored CIV and the target clusters of what a client advertised, or None if it is withdrawn."""
        wire = self._client_wires.get(client)
        return self._nodes[wire.source].broker.civs(client, handle) if wire else None

    # How messages travel.

    def _arrive(self, arrival: tuple[BrokerId, Peer, Sequence[Message]]) -> None:
        target, sender, batch = arrival
        node = self._nodes[target]
        if not self.profile.brokers_take_time:
            self._feed(node, sender, batch)
            return
        node.waiting.extend((sender, message) for message in batch)
        if not node.busy:
            self._serve_next(node)

    def _serve_next(self, node: _Node) -> None:
        node.busy = bool(node.waiting)
        if node.busy:
            sizes = node.broker.table_sizes()
            service_us = self.profile.service_us(node.waiting[0][1], sizes["clt"], sizes["prt"])
            done_ns = self.agenda.now_ns + round(service_us * _NS_PER_US)
            self.agenda.enter(done_ns, Priority.SERVICE, self._served, node)

    def _served(self, node: _Node) -> None:
        sender, message = node.waiting.popleft()
        self._feed(node, sender, [message])
        self._serve_next(node)

    def _feed(self, node: _Node, sender: Peer, batch: Sequence[Message]) -> None:
        if isinstance(sender, ClientId) and sender not in self._client_wires:
            return  # The client left while its request was on its way.
        self._carry_out(node, node.broker.receive(sender, batch, self.agenda.now_ms))

    def _carry_out(self, node: _Node, effects: Effects) -> None:
        if effects.violation is not None:
            raise effects.violation
        self._tell(node.broker)
        broker = node.broker.id
        for peer in effects.ready:
            self._pump(self._client_wires[peer] if isinstance(peer, ClientId) else self._wires[broker, peer])
        for client in effects.cut_off:
            self.detach(client)
        if self.checking:
            node.broker.check()

    def _pump(self, wire: Wire) -> None:
        """Let a wire take all that it can carry now."""
        if isinstance(wire.target, ClientId) and self._client_wires.get(wire.target) is not wire:
            return  # The client has left; another of its name has a wire of its own.
        broker = self._nodes[wire.source].broker
        if not wire.interval_ns and not self.profile.bandwidth_mbit_s:
            self._send(wire, self._take_all(broker, wire.target))
        else:
            self._send(wire, self._take_all(broker, wire.target, CONTROL_ONLY))
            self._transmit_next(wire)
        self._tell(broker)

    def _take_all(self, broker: Broker, target: Peer, *classes: int) -> list[Message]:
        now_ms = self.agenda.now_ms
        batch: list[Message] = []
        while (message := broker.take(target, now_ms, *classes)) is not None:
            batch.append(message)
        return batch

    def _transmit_next(self, wire: Wire) -> None:
        """Take one publication if the wire is free, and come back when it has passed."""
        now_ns = self.agenda.now_ns
        if now_ns < wire.free_at_ns:
            return
        message = self._nodes[wire.source].broker.take(wire.target, self.agenda.now_ms)
        if message is None:
            return
        occupied_ns = max(wire.interval_ns, round(self.profile.transmission_us(message) * _NS_PER_US))
        wire.free_at_ns = now_ns + occupied_ns
        self._send(wire, [message], occupied_ns)
        self.agenda.enter(wire.free_at_ns, Priority.LINK_FREE, self._pump, wire)

    def _send(self, wire: Wire, batch: list[Message], occupied_ns: int = 0) -> None:
        if not batch:
            return
        arrival_ns = wire.arrival_ns(
            self.agenda.now_ns + occupied_ns + wire.delay_ns + self._jitter_ns(),
            control=not isinstance(batch[0], Publish | Deliver),
            data=isinstance(batch[-1], Publish | Deliver),
        )
        if isinstance(wire.target, ClientId):
            self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._reach_client, (wire.target, wire.source, batch))
        else:
            self.agenda.enter(arrival_ns, Priority.ARRIVAL, self._arrive, (wire.target, wire.source, batch))

    def _reach_client(self, arrival: tuple[ClientId, BrokerId, Sequence[ClientReply]]) -> None:
        client, broker, batch = arrival
        now_ms = self.agenda.now_ms
        for reply in batch:
            for observer in self._observers:
                observer.on_reply(client, broker, reply, now_ms)

    def _tell(self, broker: Broker) -> None:
        facts = broker.drain_facts()
        if not facts:
            return
        now_ms = self.agenda.now_ms
        for fact in facts:
            for observer in self._observers:
                observer.on_fact(broker, fact, now_ms)

    # What things cost.

    def _delay_ms(self, source: BrokerId, target: BrokerId) -> float:
        same = self._machine(source) == self._machine(target)
        return self.profile.same_machine_delay_ms if same else self.profile.link_delay_ms

    def _machine(self, broker: BrokerId) -> int:
        """Return the machine of a broker: they are dealt out in order of their ids."""
        number = self._numbers[broker]
        return number % self.profile.machines if self.profile.machines else number

    def _jitter_ns(self) -> int:
        return to_ns(self._random.uniform(0.0, self.profile.jitter_ms)) if self.profile.jitter_ms else 0
