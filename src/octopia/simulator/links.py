"""Links between simulated nodes: drivers that carry what nodes want written.

``ReliableLinks`` carry messages and lose nothing, so their nodes need no sessions. They are the fast choice where no
faults are wanted. ``FaultyLinks`` carry the items of sessions. A cut is silent: the ends notice when they have heard
nothing for too long, and try to connect again from time to time. Below the sessions, items may be dropped, doubled or
held back, each with a probability.

Plain Python that Cython compiles (``links.pxd`` has the C types of reliable links).
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from octopia.ids import BrokerId
from octopia.link import LinkSettings
from octopia.node import Node
from octopia.overlay import LinkShape
from octopia.protocol import Ack, Frame, Hello, Item
from octopia.protocol.messages import Message
from octopia.simulator.agenda import NS_PER_MS, Agenda, Priority, to_ns
from octopia.simulator.profiles import Profile
from octopia.simulator.wires import SharedSender, Wire, jitter_ns, occupation_ns, occupy, plan_arrival

RECONNECT_MS = 100.0

Link = tuple[BrokerId, BrokerId]


class Host(Protocol):
    """The world as links see it."""

    agenda: Agenda
    profile: Profile
    random: random.Random

    def node(self, broker: BrokerId) -> Node | None:
        """Return a node, or None while it is crashed."""

    def arrive(self, target: BrokerId, sender: BrokerId, items: Sequence[Any]) -> None:
        """Hand items to a node."""

    def forget_arrivals(self, target: BrokerId, sender: BrokerId) -> None:
        """Drop the items of a connection that is over and that a busy node has not handled yet."""

    def carry_out(self, broker: BrokerId) -> None:
        """Do the work that a node asks for."""


class Links(Protocol):
    """Everything between nodes."""

    def prepare(self, node: Node) -> None:
        """Set up the links of a new node."""

    def carry(self, source: BrokerId, target: BrokerId, items: Sequence[Any]) -> None:
        """Carry what a node wants written."""

    def serve(self, source: BrokerId, target: BrokerId) -> None:
        """Let the next publication occupy a slow link, if it is free."""

    def shape(self, source: BrokerId, target: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of one direction of a link."""

    def unsettled(self) -> str | None:
        """Return a description of anything under way that is not planned, or None if all is at rest."""


_ARRIVAL = Priority.ARRIVAL
_LINK_FREE = Priority.LINK_FREE


class _Wired:
    """The wires, and which of them are slow."""

    __slots__ = ("_wires", "host")

    def __init__(self, host: Host, wires: dict[Link, Wire]):
        self.host = host
        self._wires = wires

    def prepare(self, node: Node) -> None:
        """Set up the links of a new node."""
        for peer in node.links:
            self._pace(node, self._wires[node.broker.id, peer])

    def shape(self, source: BrokerId, target: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of one direction of a link."""
        wire, node = self._wires[source, target], self.host.node(source)
        wire.set_shape(shape)
        if node is not None:
            self._pace(node, wire)

    def _pace(self, node: Node, wire: Wire) -> None:
        node.pace(wire.target, wire.is_slow(self.host.profile))

    # Senders that wires share.

    def _begin(self, wire: Wire, sender: SharedSender) -> None:
        """Let the next publication occupy a wire and its sender."""
        raise NotImplementedError

    def _give_turn(self, wire: Wire, sender: SharedSender) -> None:
        """Add a wire to those that its sender serves in turn; a sender that is free serves it at once."""
        wire.has_turn = True
        sender.turns.append(wire)
        if not sender.is_awaited:
            self._serve_turns(sender, is_event=False)

    def _on_sender_free(self, sender: SharedSender) -> None:
        self._serve_turns(sender, is_event=True)

    def _serve_turns(self, sender: SharedSender, is_event: bool) -> None:
        """Serve wires until the sender is occupied; after an event, also do the work that this causes."""
        agenda = self.host.agenda
        # It counts as awaited until it is done, so that what is caused meanwhile waits for its turn.
        sender.is_awaited = True
        while sender.turns and agenda.now_ns >= sender.free_at_ns:
            wire = sender.turns.popleft()
            wire.has_turn = False
            self._begin(wire, sender)
            if is_event:
                self.host.carry_out(wire.source)
        sender.is_awaited = bool(sender.turns)
        if sender.is_awaited:
            agenda.enter(sender.free_at_ns, _LINK_FREE, self._on_sender_free, sender)


class ReliableLinks(_Wired):
    """Links that never fail."""

    __slots__ = ("_agenda", "_bandwidth_mbit_s", "_draw", "_from", "_hops", "_jitter_ms", "_on_arrival")

    def __init__(self, host: Host, wires: dict[Link, Wire]):
        super().__init__(host, wires)
        self._agenda = host.agenda
        self._bandwidth_mbit_s = host.profile.bandwidth_mbit_s
        self._jitter_ms = host.profile.jitter_ms
        self._draw = host.random.random
        self._hops = host.profile.hops
        self._on_arrival = self._arrive
        self._from: dict[BrokerId, dict[BrokerId, Wire]] = {}
        for (source, target), wire in wires.items():
            self._from.setdefault(source, {})[target] = wire

    def carry(self, source: BrokerId, target: BrokerId, items: Sequence[Message]) -> None:
        """Carry messages."""
        wires = self._from[source]
        self._send(wires[target], items)

    def serve(self, source: BrokerId, target: BrokerId) -> None:
        """Let the next publication occupy a slow link, if it is free, and come back for what is left."""
        wires = self._from[source]
        self._serve(wires[target])

    def _serve(self, wire: Wire) -> None:
        node, target, agenda = self.host.node(wire.source), wire.target, self._agenda
        assert node is not None
        assert isinstance(target, BrokerId)
        if wire.sender is not None:
            self._line_up(wire, node)
            return
        if agenda.now_ns >= wire.free_at_ns:
            message = node.begin(target, agenda.now_ms)
            if message is None:
                return
            occupied_ns = occupation_ns(wire.interval_ns, self._bandwidth_mbit_s, message)
            wire.free_at_ns = agenda.now_ns + occupied_ns
            node.carried(target, wire.free_at_ns / NS_PER_MS)
            self._send(wire, [message], occupied_ns)
        if not wire.is_awaited and node.broker.waits_for(target):
            wire.is_awaited = True
            agenda.enter(wire.free_at_ns, _LINK_FREE, self._on_free, wire)

    def _begin(self, wire: Wire, sender: SharedSender) -> None:
        """Let the next publication occupy a free wire and its sender, and come back for what is left."""
        node, agenda = self.host.node(wire.source), self._agenda
        assert node is not None
        assert isinstance(wire.target, BrokerId)
        message = node.begin(wire.target, agenda.now_ms)
        if message is not None:
            leaves_ns = occupy(wire, sender, self._bandwidth_mbit_s, message, agenda.now_ns)
            node.carried(wire.target, leaves_ns / NS_PER_MS)
            self._send(wire, [message], leaves_ns - agenda.now_ns)
            self._line_up(wire, node)

    def _line_up(self, wire: Wire, node: Node) -> None:
        """Give a wire a turn if something waits for it, once it is free: after all that wait by then."""
        assert wire.sender is not None
        assert isinstance(wire.target, BrokerId)
        if wire.has_turn or wire.is_awaited or not node.broker.waits_for(wire.target):
            return
        if wire.free_at_ns > self._agenda.now_ns:
            wire.is_awaited = True
            self._agenda.enter(wire.free_at_ns, _LINK_FREE, self._on_free, wire)
        else:
            self._give_turn(wire, wire.sender)

    def unsettled(self) -> str | None:
        """Return None: everything that these links do is planned."""
        return None

    def _on_free(self, wire: Wire) -> None:
        wire.is_awaited = False
        self._serve(wire)
        self.host.carry_out(wire.source)

    def _send(self, wire: Wire, batch: Sequence[Message], occupied_ns: int = 0) -> None:
        leaves_ns = self._agenda.now_ns + occupied_ns
        if self._hops is not None:
            self._send_by_kind(wire, batch, leaves_ns)
            return
        earliest_ns = leaves_ns + wire.delay_ns
        if self._jitter_ms:
            earliest_ns += jitter_ns(self._jitter_ms, self._draw())
        self._agenda.enter(plan_arrival(wire, earliest_ns, batch), _ARRIVAL, self._on_arrival, (wire, batch))

    def _send_by_kind(self, wire: Wire, batch: Sequence[Message], leaves_ns: int) -> None:
        """Send messages whose delays depend on their kinds; those of one kind that follow each other stay together."""
        assert self._hops is not None
        for kind, messages in itertools.groupby(batch, key=_kind_of):
            part = list(messages)
            earliest_ns = leaves_ns + self._hops.draw_ns(kind, wire.delay_ns, self.host.random)
            self._agenda.enter(plan_arrival(wire, earliest_ns, part), _ARRIVAL, self._on_arrival, (wire, part))

    def _arrive(self, arrival: tuple[Wire, Sequence[Message]]) -> None:
        wire, batch = arrival
        assert isinstance(wire.target, BrokerId)
        self.host.arrive(wire.target, wire.source, batch)


@dataclasses.dataclass(frozen=True, slots=True)
class FrameFaults:
    """The probabilities that an item is dropped, doubled, or held back for up to ``delay_ms``."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay_ms: float = 5.0


@dataclasses.dataclass(slots=True)
class FaultCounters:
    """Counts of the items that faults struck."""

    dropped: int = 0
    duplicated: int = 0
    reordered: int = 0
    lost_in_cuts: int = 0
    lost_in_crashes: int = 0


class FaultyLinks(_Wired):
    """Links that can fail, between nodes with sessions."""

    def __init__(self, host: Host, wires: dict[Link, Wire], settings: LinkSettings, faults: FrameFaults):
        super().__init__(host, wires)
        self._settings = settings
        self.faults = faults
        self.counters = FaultCounters()
        self._hops = host.profile.hops
        self._cut: dict[Link, None] = {}
        # A connection has a number; what was written on an earlier one never arrives.
        self._connections = {_undirected(*link): 0 for link in wires}
        self._in_flight = dict.fromkeys(self._connections, 0)

    # Carrying.

    def carry(self, source: BrokerId, target: BrokerId, items: Sequence[Item]) -> None:
        """Carry items, unless a fault strikes them."""
        link = _undirected(source, target)
        sent = [item for each in items for item in self._mistreat(each)]
        if link in self._cut:
            self.counters.lost_in_cuts += sum(isinstance(item, Frame) for item in items)
            return
        held_back = [item for item in sent if self._is_held_back(item)]
        for part in self._parts([item for item in sent if item not in held_back]):
            self._fly(source, target, part, 0)
        for item in held_back:
            self.counters.reordered += 1
            self._fly(source, target, [item], to_ns(self.host.random.uniform(0.0, self.faults.delay_ms)))

    def serve(self, source: BrokerId, target: BrokerId) -> None:
        """Write the publication that has occupied a slow link for its time, and let the next one occupy it."""
        wire, node, agenda = self._wires[source, target], self.host.node(source), self.host.agenda
        assert node is not None
        if agenda.now_ns < wire.free_at_ns or not node.links[target].is_up:
            return
        node.finish(target, agenda.now_ms)
        if wire.sender is not None:
            if not wire.has_turn and node.can_begin(target):
                self._give_turn(wire, wire.sender)
            return
        message = node.begin(target, agenda.now_ms)
        if message is not None:
            bandwidth_mbit_s = self.host.profile.bandwidth_mbit_s
            wire.free_at_ns = agenda.now_ns + occupation_ns(wire.interval_ns, bandwidth_mbit_s, message)
            agenda.enter(wire.free_at_ns, Priority.LINK_FREE, self._on_free, (node, wire))

    def _begin(self, wire: Wire, sender: SharedSender) -> None:
        """Let the next publication occupy a wire and its sender, if the node still has one and may send it."""
        node, agenda = self.host.node(wire.source), self.host.agenda
        message = None if node is None else node.begin(wire.target, agenda.now_ms)
        if message is not None:
            leaves_ns = occupy(wire, sender, self.host.profile.bandwidth_mbit_s, message, agenda.now_ns)
            agenda.enter(leaves_ns, Priority.LINK_FREE, self._on_free, (node, wire))

    def _on_free(self, free: tuple[Node, Wire]) -> None:
        node, wire = free
        # A wire that was occupied before a restart belongs to a node that is no more.
        if self.host.node(wire.source) is node and isinstance(wire.target, BrokerId):
            self.serve(wire.source, wire.target)
            self.host.carry_out(wire.source)

    def _mistreat(self, item: Item) -> Iterator[Item]:
        """Yield an item once, twice or not at all; greetings are spared, since a connection opens or it does not."""
        faults, chance = self.faults, self.host.random
        if isinstance(item, Hello):
            yield item
            return
        if faults.drop and chance.random() < faults.drop:
            self.counters.dropped += 1
            return
        yield item
        if faults.duplicate and chance.random() < faults.duplicate:
            self.counters.duplicated += 1
            yield item

    def _is_held_back(self, item: Item) -> bool:
        likely = self.faults.reorder
        return bool(likely) and not isinstance(item, Hello) and self.host.random.random() < likely

    def _parts(self, items: list[Item]) -> Iterator[list[Item]]:
        """Yield items that travel together: all, or those of one kind if delays depend on it."""
        if self._hops is None:
            yield items
        else:
            for _, part in itertools.groupby(items, key=_kind_in):
                yield list(part)

    def _delay_ns(self, wire: Wire, item: Item) -> int:
        if self._hops is None:
            jitter_ms = self.host.profile.jitter_ms
            return wire.delay_ns + (jitter_ns(jitter_ms, self.host.random.random()) if jitter_ms else 0)
        return self._hops.draw_ns(_kind_in(item), wire.delay_ns, self.host.random)

    def _fly(self, source: BrokerId, target: BrokerId, items: list[Item], extra_ns: int) -> None:
        if not items:
            return
        host, wire, link = self.host, self._wires[source, target], _undirected(source, target)
        earliest_ns = host.agenda.now_ns + extra_ns + self._delay_ns(wire, items[0])
        arrival_ns = earliest_ns if extra_ns else wire.arrival_ns(earliest_ns, True, True)
        self._in_flight[link] += sum(isinstance(item, Frame) for item in items)
        flight = (source, target, self._connections[link], items)
        # A lone acknowledgement keeps no run alive: if it mattered, something waits for it and keeps the run going.
        matters = any(not isinstance(item, Ack) for item in items) or self._awaits_acknowledgement(source, target)
        host.agenda.enter(arrival_ns, Priority.ARRIVAL, self._land, flight, background=not matters)

    def _awaits_acknowledgement(self, source: BrokerId, target: BrokerId) -> bool:
        node = self.host.node(source)
        session = node.links[target].session if node is not None else None
        return session is not None and session.awaits_acknowledgement

    def _land(self, flight: tuple[BrokerId, BrokerId, int, list[Item]]) -> None:
        source, target, connection, items = flight
        link = _undirected(source, target)
        if connection == self._connections[link]:
            self._in_flight[link] -= sum(isinstance(item, Frame) for item in items)
            self.host.arrive(target, source, items)

    # Faults.

    def cut(self, one: BrokerId, other: BrokerId) -> None:
        """Let everything on a link vanish from now on; the ends will notice the silence."""
        link = _undirected(one, other)
        if link in self._cut:
            return
        self._cut[link] = None
        self.counters.lost_in_cuts += self._in_flight[link]
        self._break(link)
        notice_ms = self._settings.suspicion_ms + self._settings.heartbeat_ms
        noticed_ns = self.host.agenda.now_ns + to_ns(notice_ms)
        self.host.agenda.enter(noticed_ns, Priority.TIMER, _pass_time, None)

    def heal(self, one: BrokerId, other: BrokerId) -> None:
        """Let a link carry again; ends that noticed the cut connect again, others go on as if it had been slow."""
        link = _undirected(one, other)
        self._cut.pop(link, None)
        self.host.agenda.enter(self.host.agenda.now_ns, Priority.TIMER, self._try_connect, link)

    def crash(self, broker: BrokerId) -> None:
        """Break all connections of a broker; its neighbours learn it from their machines, after a link's delay."""
        for source, target in self._wires:
            if source == broker:
                link = _undirected(source, target)
                self.counters.lost_in_crashes += self._in_flight[link]
                self._break(link)
                reset_ns = self.host.agenda.now_ns + self._wires[source, target].delay_ns
                reset = (target, broker, self._connections[link])
                self.host.agenda.enter(reset_ns, Priority.ARRIVAL, self._on_reset, reset)

    def restart(self, broker: BrokerId) -> None:
        """Connect a restarted broker with all neighbours that can be reached."""
        for (source, target), wire in self._wires.items():
            if source == broker:
                # What the old incarnation was writing holds up nobody.
                wire.free_at_ns = 0
                self._try_connect(_undirected(source, target))

    # Connections.

    def disconnect(self, broker: BrokerId, peer: BrokerId) -> None:
        """Give up a connection from one end, and try to have another before long."""
        node = self.host.node(broker)
        if node is None:
            return
        node.disconnect(peer, self.host.agenda.now_ms)
        self.host.carry_out(broker)
        again_ns = self.host.agenda.now_ns + to_ns(RECONNECT_MS)
        link = _undirected(broker, peer)
        self.host.agenda.enter(again_ns, Priority.TIMER, self._try_connect, link, background=True)

    def _try_connect(self, link: Link) -> None:
        """Connect two ends if either is without a connection and nothing keeps them apart."""
        if not self._is_usable(link):
            return
        ends = [(link[0], link[1]), (link[1], link[0])]
        nodes = [node for broker, _ in ends if (node := self.host.node(broker)) is not None]
        if all(node.links[peer].is_up for node, (_, peer) in zip(nodes, ends, strict=True)):
            return
        self._break(link)
        now_ms = self.host.agenda.now_ms
        for node, (broker, peer) in zip(nodes, ends, strict=True):
            node.disconnect(peer, now_ms)
            self.host.carry_out(broker)
        for node, (broker, peer) in zip(nodes, ends, strict=True):
            node.connect(peer, now_ms)
            self.host.carry_out(broker)

    def _on_reset(self, reset: tuple[BrokerId, BrokerId, int]) -> None:
        broker, peer, connection = reset
        if connection == self._connections[_undirected(broker, peer)]:
            self.disconnect(broker, peer)

    def _break(self, link: Link) -> None:
        self._connections[link] += 1
        self._in_flight[link] = 0
        for source, target in (link, (link[1], link[0])):
            self.host.forget_arrivals(target, source)

    def _is_usable(self, link: Link) -> bool:
        return link not in self._cut and all(self.host.node(broker) is not None for broker in link)

    def unsettled(self) -> str | None:
        """Return a description of anything under way that is not planned, or None if all is at rest."""
        for source, target in self._wires:
            node = self.host.node(source)
            if node is None or not self._is_usable(_undirected(source, target)):
                continue
            session = node.links[target].session
            if session is None or not session.is_up:
                return f"{source} is not connected with {target}"
            if session.awaits_acknowledgement:
                return f"{source} waits for an acknowledgement from {target}"
            if node.broker.waits_for(target):
                return f"{node.broker.waits_for(target)} publications at {source} wait for {target}"
        return None


def _kind_of(message: Message) -> str:
    kind: str = message.kind  # type: ignore[attr-defined]  # Messages between brokers have one.
    return kind


def _kind_in(item: Item) -> str:
    """Return the kind of the message in an item, or an empty string if it has none."""
    return _kind_of(item.message) if isinstance(item, Frame) else ""


def _undirected(one: BrokerId, other: BrokerId) -> Link:
    return (one, other) if one < other else (other, one)


def _pass_time(_: None) -> None:
    """Do nothing: time was to pass until here."""
