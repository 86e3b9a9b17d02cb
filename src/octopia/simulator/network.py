"""Links in virtual time: delay, rate and bandwidth.

A wire is one direction of a link. It takes from the broker's queue whenever it can carry more. Control messages leave
at once. A publication occupies the wire for the time that the link's rate and bandwidth demand, and the next one
stays in the broker's queue meanwhile: that is where congestion shows.

``IdealLinks`` carries messages from queue to broker and nothing else: nothing is ever lost, so nothing needs to be
acknowledged. It is the fast way where no faults are asked for; ``sessions.SessionLinks`` is the real one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from octopia.broker import Broker, Placed
from octopia.ids import BrokerId, Peer
from octopia.overlay import LinkShape
from octopia.protocol import CONTROL_ONLY
from octopia.protocol.messages import Message
from octopia.simulator.agenda import Agenda, Priority, to_ns
from octopia.simulator.profiles import Profile

NS_PER_US = 1000


class Wire:
    """One direction of a link."""

    __slots__ = (
        "_last_control_ns",
        "_last_data_ns",
        "delay_ns",
        "free_at_ns",
        "interval_ns",
        "is_awaited",
        "source",
        "target",
    )

    def __init__(self, source: BrokerId, target: Peer, delay_ns: int, interval_ns: int = 0):
        self.source = source
        self.target = target
        self.delay_ns = delay_ns
        self.interval_ns = interval_ns
        self.free_at_ns = 0
        self.is_awaited = False
        """Whether something is planned for when it is free."""
        self._last_control_ns = 0
        self._last_data_ns = 0

    def set_shape(self, shape: LinkShape) -> None:
        """Change the rate or the delay; None leaves it as it is."""
        if shape.rate is not None:
            self.interval_ns = round(1e9 / shape.rate)
        if shape.delay_ms is not None:
            self.delay_ns = to_ns(shape.delay_ms)

    def arrival_ns(self, earliest_ns: int, *, control: bool, data: bool) -> int:
        """Return when a batch of ``control`` or ``data`` arrives: never before what left earlier of its kind."""
        if control and earliest_ns < self._last_control_ns:
            earliest_ns = self._last_control_ns
        if data:
            if earliest_ns < self._last_data_ns:
                earliest_ns = self._last_data_ns
            self._last_data_ns = earliest_ns
        if control:
            self._last_control_ns = earliest_ns
        return earliest_ns


class Host(Protocol):
    """The world as links see it."""

    agenda: Agenda
    profile: Profile
    random: random.Random

    def broker(self, broker: BrokerId) -> Broker | None:
        """Return a broker, or None while it is crashed."""

    def arrive(self, target: BrokerId, sender: Peer, batch: Sequence[Message]) -> None:
        """Hand messages to a broker."""

    def link_changed(self, broker: BrokerId, peer: BrokerId, *, is_up: bool) -> None:
        """Tell a broker that a link of its came up or went down."""

    def tell(self, broker: BrokerId) -> None:
        """Let observers know what a broker has to tell, and carry out what taking from it has set free."""


class Links(Protocol):
    """All that lies between brokers."""

    def pump(self, source: BrokerId, target: BrokerId) -> None:
        """Let a link take all that it can carry now."""

    def placed(self, broker: BrokerId, placed: Placed) -> None:
        """Return the credit of frames that a broker has placed."""

    def admission_changed(self, broker: BrokerId) -> None:
        """Open the windows of a broker that has become ready for publications."""

    def shape(self, source: BrokerId, target: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of one direction of a link."""

    def unsettled(self) -> str | None:
        """Return what is still under way without being planned, or None if all is at rest."""


class IdealLinks:
    """Links that never fail."""

    def __init__(self, host: Host, wires: dict[tuple[BrokerId, BrokerId], Wire]):
        self._host = host
        self._wires = wires

    def pump(self, source: BrokerId, target: BrokerId) -> None:
        """Let a link take all that it can carry now."""
        wire, host = self._wires[source, target], self._host
        broker = host.broker(source)
        assert broker is not None
        if not wire.interval_ns and not host.profile.bandwidth_mbit_s:
            self._send(wire, broker.take_all(target, host.agenda.now_ms))
        else:
            self._send(wire, broker.take_all(target, host.agenda.now_ms, CONTROL_ONLY))
            self._transmit_next(wire, broker)
        host.tell(source)

    def placed(self, broker: BrokerId, placed: Placed) -> None:
        """Do nothing: without sessions there is no credit."""

    def admission_changed(self, broker: BrokerId) -> None:
        """Do nothing: without sessions there is no credit."""

    def shape(self, source: BrokerId, target: BrokerId, shape: LinkShape) -> None:
        """Change the rate or the delay of one direction of a link."""
        self._wires[source, target].set_shape(shape)

    def unsettled(self) -> str | None:
        """Return None: all that these links do is planned."""
        return None

    def _transmit_next(self, wire: Wire, broker: Broker) -> None:
        """Take one publication if the wire is free, and come back for what is left when it has passed."""
        agenda = self._host.agenda
        if agenda.now_ns >= wire.free_at_ns:
            message = broker.take(wire.target, agenda.now_ms)
            if message is None:
                return
            occupied_ns = occupation_ns(wire, self._host.profile, message)
            wire.free_at_ns = agenda.now_ns + occupied_ns
            self._send(wire, [message], occupied_ns)
        if not wire.is_awaited and broker.waits_for(wire.target):
            wire.is_awaited = True
            agenda.enter(wire.free_at_ns, Priority.LINK_FREE, self._on_free, wire)

    def _on_free(self, wire: Wire) -> None:
        wire.is_awaited = False
        assert isinstance(wire.target, BrokerId)
        self.pump(wire.source, wire.target)

    def _send(self, wire: Wire, batch: Sequence[Message], occupied_ns: int = 0) -> None:
        if batch:
            arrival_ns = plan_arrival(wire, self._host.agenda.now_ns + occupied_ns + jitter_ns(self._host), batch)
            self._host.agenda.enter(arrival_ns, Priority.ARRIVAL, self._arrive, (wire, batch))

    def _arrive(self, arrival: tuple[Wire, Sequence[Message]]) -> None:
        wire, batch = arrival
        assert isinstance(wire.target, BrokerId)
        self._host.arrive(wire.target, wire.source, batch)


def occupation_ns(wire: Wire, profile: Profile, message: Message) -> int:
    """Return how long a publication occupies a wire."""
    return max(wire.interval_ns, round(profile.transmission_us(message) * NS_PER_US))


def jitter_ns(host: Host) -> int:
    """Return by how much a batch is late, by chance."""
    jitter_ms = host.profile.jitter_ms
    return to_ns(host.random.uniform(0.0, jitter_ms)) if jitter_ms else 0


def plan_arrival(wire: Wire, leaves_ns: int, batch: Sequence[Message]) -> int:
    """Return when a batch arrives that leaves at some time."""
    earliest_ns = leaves_ns + wire.delay_ns
    # Control goes first, so that a batch that begins with data is data throughout.
    if batch[0].size_bytes:
        return wire.arrival_ns(earliest_ns, control=False, data=True)
    return wire.arrival_ns(earliest_ns, control=True, data=bool(batch[-1].size_bytes))
