"""Links as they are: connections that break, carried by the sessions that the network runs.

Both ends of every link have a session. What a session wants written travels over a wire; what is on its way when a
link is cut is lost. A cut is silent: the ends notice when they have heard nothing for too long. Who has noticed tries
again to connect; in vain while the link is cut, and again when it is mended or a crashed broker restarts.

Below the sessions, frames may also be dropped, doubled or held back, each with a probability, to show that sessions put
right what a bad network does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from octopia.broker import Broker, Placed
from octopia.ids import BrokerId
from octopia.link import LinkSettings, Session
from octopia.overlay import LinkShape
from octopia.protocol import CONTROL_ONLY, Ack, Frame, Hello, Item
from octopia.protocol.messages import Message
from octopia.simulator.agenda import Priority, just_after_ns, to_ns
from octopia.simulator.network import Host, Wire, jitter_ns, occupation_ns

RECONNECT_MS = 100.0


@dataclasses.dataclass(frozen=True, slots=True)
class FrameFaults:
    """How likely a frame is to be dropped, doubled, or held back for up to ``delay_ms``."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay_ms: float = 5.0


@dataclasses.dataclass(slots=True)
class FaultCounters:
    """What befell frames on their way."""

    dropped: int = 0
    duplicated: int = 0
    reordered: int = 0
    lost_in_cuts: int = 0
    lost_in_crashes: int = 0


class _End:
    """One end of a link: its session, the wire on which it writes, and the publication that occupies the wire."""

    __slots__ = ("broker", "in_service", "peer", "session", "timer_ns", "wire")

    def __init__(self, wire: Wire, peer: BrokerId, session: Session):
        self.broker = wire.source
        self.peer = peer
        self.wire = wire
        self.session = session
        self.in_service: Message | None = None
        self.timer_ns: int | None = None


Link = tuple[BrokerId, BrokerId]


class SessionLinks:
    """Links that can fail."""

    def __init__(
        self,
        host: Host,
        wires: dict[Link, Wire],
        settings: LinkSettings,
        faults: FrameFaults,
    ):
        self._host = host
        self._settings = settings
        self._wires = wires
        self.faults = faults
        self.counters = FaultCounters()
        self._ends = {link: _End(wire, link[1], Session(1, settings)) for link, wire in wires.items()}
        self._cut: dict[Link, None] = {}
        # A connection has a number; what was written on an earlier one never arrives.
        self._connections = {_undirected(*link): 0 for link in wires}
        self._in_flight = dict.fromkeys(self._connections, 0)
        for low, high in self._connections:
            self._introduce(self._ends[low, high], self._ends[high, low])
        for end in self._ends.values():
            self._set_timer(end)

    # What brokers want.

    def pump(self, source: BrokerId, target: BrokerId) -> None:
        """Let a link take all that it can carry now."""
        self._flow(self._ends[source, target])

    def placed(self, broker: BrokerId, placed: Placed) -> None:
        """Return the credit of frames that a broker has placed."""
        if isinstance(placed.peer, BrokerId):
            end = self._ends[broker, placed.peer]
            end.session.placed(placed.traffic_class, placed.frames)
            self._flow(end)

    def admission_changed(self, broker: BrokerId) -> None:
        """Open the windows of a broker that has become ready for publications."""
        for end in self._ends_of(broker):
            self._flow(end)

    def shape(self, source: BrokerId, target: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of one direction of a link."""
        self._wires[source, target].set_shape(shape)

    # What befalls links.

    def cut(self, one: BrokerId, other: BrokerId) -> None:
        """Let everything on a link vanish from now on; the ends will notice the silence."""
        link = _undirected(one, other)
        if link in self._cut:
            return
        self._cut[link] = None
        self.counters.lost_in_cuts += self._in_flight[link]
        self._break(link)
        notice_ms = self._settings.suspicion_ms + self._settings.heartbeat_ms
        noticed_ns = self._host.agenda.now_ns + to_ns(notice_ms)
        self._host.agenda.enter(noticed_ns, Priority.TIMER, _pass_time, None)

    def heal(self, one: BrokerId, other: BrokerId) -> None:
        """Let a link carry again; ends that noticed the cut connect anew, others go on as if it had been slow."""
        link = _undirected(one, other)
        self._cut.pop(link, None)
        self._host.agenda.enter(self._host.agenda.now_ns, Priority.TIMER, self._try_connect, link)

    def crash(self, broker: BrokerId) -> None:
        """Break all connections of a broker; its neighbours are told by their machines, which takes a link's delay."""
        for end in self._ends_of(broker):
            link = _undirected(broker, end.peer)
            self.counters.lost_in_crashes += self._in_flight[link]
            self._break(link)
            reset = (self._ends[end.peer, broker], self._connections[link])
            self._host.agenda.enter(
                self._host.agenda.now_ns + end.wire.delay_ns, Priority.ARRIVAL, self._on_reset, reset
            )

    def restart(self, broker: BrokerId, incarnation: int) -> None:
        """Give a broker new sessions, and connect it with all neighbours that can be reached."""
        for end in self._ends_of(broker):
            self._ends[broker, end.peer] = _End(end.wire, end.peer, Session(incarnation, self._settings))
            self._try_connect(_undirected(broker, end.peer))

    def unsettled(self) -> str | None:
        """Return what is still under way without being planned, or None if all is at rest."""
        for (source, target), end in self._ends.items():
            if not self._is_usable(_undirected(source, target)):
                continue
            if not end.session.is_up:
                return f"{source} is not connected with {target}"
            if end.session.awaits_acknowledgement:
                return f"{source} waits for an acknowledgement from {target}"
            broker = self._host.broker(source)
            if broker is not None and broker.waits_for(target):
                return f"{broker.waits_for(target)} publications at {source} wait for {target}"
        return None

    @property
    def dropped_unacknowledged(self) -> int:
        """How many publications were written to brokers that then lost their memory."""
        return sum(end.session.dropped_unacknowledged for end in self._ends.values())

    # How a link carries.

    def _flow(self, end: _End) -> None:
        """Take what can be taken, and write what is due."""
        broker = self._host.broker(end.broker)
        # A wire that was occupied before a restart belongs to an end that is no more.
        if broker is None or self._ends[end.broker, end.peer] is not end:
            return
        end.session.accept_data(broker.accepts_data)
        if end.session.is_up:
            self._take(end, broker)
        self._write(end, end.session.drain(self._host.agenda.now_ms))
        self._set_timer(end)
        self._host.tell(end.broker)

    def _take(self, end: _End, broker: Broker) -> None:
        now_ms, session = self._host.agenda.now_ms, end.session
        if not end.wire.interval_ns and not self._host.profile.bandwidth_mbit_s and end.in_service is None:
            while (message := broker.take(end.peer, now_ms, session.classes)) is not None:
                session.send(message, now_ms)
            return
        while (message := broker.take(end.peer, now_ms, CONTROL_ONLY)) is not None:
            session.send(message, now_ms)
        self._serve(end, broker)

    def _serve(self, end: _End, broker: Broker) -> None:
        """Write the publication that has occupied the wire for its time, and let the next one occupy it."""
        agenda, wire = self._host.agenda, end.wire
        if agenda.now_ns < wire.free_at_ns:
            return
        if end.in_service is not None:
            end.session.send(end.in_service, agenda.now_ms)
            end.in_service = None
        message = broker.take(end.peer, agenda.now_ms, end.session.classes)
        if message is not None:
            end.in_service = message
            wire.free_at_ns = agenda.now_ns + occupation_ns(wire, self._host.profile, message)
            agenda.enter(wire.free_at_ns, Priority.LINK_FREE, self._flow, end)

    def _write(self, end: _End, items: Sequence[Item]) -> None:
        link = _undirected(end.broker, end.peer)
        sent = [item for each in items for item in self._mistreat(each)]
        if link in self._cut:
            self.counters.lost_in_cuts += sum(isinstance(item, Frame) for item in items)
            return
        held_back = [item for item in sent if self._is_held_back(item)]
        self._fly(end, link, [item for item in sent if item not in held_back], 0)
        for item in held_back:
            self.counters.reordered += 1
            self._fly(end, link, [item], to_ns(self._host.random.uniform(0.0, self.faults.delay_ms)))

    def _mistreat(self, item: Item) -> Iterator[Item]:
        """Yield an item once, twice or not at all; greetings are spared, since a connection opens or it does not."""
        faults, chance = self.faults, self._host.random
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
        return bool(likely) and not isinstance(item, Hello) and self._host.random.random() < likely

    def _fly(self, end: _End, link: Link, items: list[Item], extra_ns: int) -> None:
        if not items:
            return
        earliest_ns = self._host.agenda.now_ns + end.wire.delay_ns + extra_ns + jitter_ns(self._host)
        arrival_ns = earliest_ns if extra_ns else end.wire.arrival_ns(earliest_ns, control=True, data=True)
        self._in_flight[link] += sum(isinstance(item, Frame) for item in items)
        flight = (self._ends[end.peer, end.broker], self._connections[link], items)
        # A lone acknowledgement keeps no run alive: if it mattered, something waits for it and keeps the run going.
        matters = any(not isinstance(item, Ack) for item in items) or end.session.awaits_acknowledgement
        self._host.agenda.enter(arrival_ns, Priority.ARRIVAL, self._land, flight, background=not matters)

    def _land(self, flight: tuple[_End, int, list[Item]]) -> None:
        end, connection, items = flight
        link = _undirected(end.broker, end.peer)
        if connection != self._connections[link]:
            return
        self._in_flight[link] -= sum(isinstance(item, Frame) for item in items)
        outcome = end.session.receive(items, self._host.agenda.now_ms)
        if outcome.came_up:
            self._host.link_changed(end.broker, end.peer, is_up=True)
        if outcome.messages:
            self._host.arrive(end.broker, end.peer, outcome.messages)
        self._flow(end)

    # How connections come and go.

    def _introduce(self, one: _End, other: _End) -> None:
        """Connect two ends before time begins: an overlay starts whole, and without anything to exchange."""
        for end in (one, other):
            end.session.connected(0.0)
        greetings = {one: other.session.drain(0.0), other: one.session.drain(0.0)}
        for end, items in greetings.items():
            end.session.receive(items, 0.0)

    def _try_connect(self, link: Link) -> None:
        """Connect two ends if either is without a connection and nothing keeps them apart."""
        ends = [self._ends[link], self._ends[link[1], link[0]]]
        if not self._is_usable(link) or all(end.session.is_up for end in ends):
            return
        self._break(link)
        for end in ends:
            if end.session.disconnected():
                self._host.link_changed(end.broker, end.peer, is_up=False)
        for end in ends:
            broker = self._host.broker(end.broker)
            assert broker is not None
            end.session.accept_data(broker.accepts_data)
            end.session.connected(self._host.agenda.now_ms)
            self._flow(end)

    def _on_reset(self, reset: tuple[_End, int]) -> None:
        end, connection = reset
        if connection == self._connections[_undirected(end.broker, end.peer)]:
            self._disconnect(end)

    def _disconnect(self, end: _End) -> None:
        """Give up a connection, and try to have another before long."""
        if self._host.broker(end.broker) is None:
            return
        if end.session.disconnected():
            self._host.link_changed(end.broker, end.peer, is_up=False)
        again_ns = self._host.agenda.now_ns + to_ns(RECONNECT_MS)
        link = _undirected(end.broker, end.peer)
        self._host.agenda.enter(again_ns, Priority.TIMER, self._try_connect, link, background=True)

    def _break(self, link: Link) -> None:
        self._connections[link] += 1
        self._in_flight[link] = 0

    def _is_usable(self, link: Link) -> bool:
        return link not in self._cut and all(self._host.broker(broker) is not None for broker in link)

    def _ends_of(self, broker: BrokerId) -> list[_End]:
        return [end for (source, _), end in self._ends.items() if source == broker]

    # Timers.

    def _set_timer(self, end: _End) -> None:
        deadline_ms = end.session.next_deadline_ms
        if deadline_ms is None:
            return
        due_ns = just_after_ns(deadline_ms)
        if end.timer_ns is None or due_ns < end.timer_ns:
            end.timer_ns = due_ns
            self._host.agenda.enter(due_ns, Priority.TIMER, self._on_timer, (end, due_ns), background=True)

    def _on_timer(self, timer: tuple[_End, int]) -> None:
        end, due_ns = timer
        if end.timer_ns != due_ns or self._ends[end.broker, end.peer] is not end:
            return
        end.timer_ns = None
        if end.session.wake(self._host.agenda.now_ms):
            self._flow(end)
        else:
            self._disconnect(end)


def _undirected(one: BrokerId, other: BrokerId) -> Link:
    return (one, other) if one < other else (other, one)


def _pass_time(_: None) -> None:
    """Do nothing: time was to pass until here."""
