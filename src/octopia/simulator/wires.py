"""Wires: one direction of a link in virtual time, with a delay, a rate and a bandwidth; and senders that wires share.

Control messages leave at once. A publication occupies the wire for the time that the link's rate and bandwidth demand.
The next one stays in the broker's queue meanwhile, which is where congestion shows.

Wires may share a sender, that of a broker or of a machine. It sends one publication at a time, and serves the wires
that have one waiting in turn. A wire with a rate of its own is occupied for longer than its sender, which serves other
wires meanwhile.

Plain Python that Cython compiles (``wires.pxd`` has the C types).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from octopia.ids import BrokerId, Peer
from octopia.overlay import LinkShape
from octopia.protocol.messages import Message
from octopia.protocol.transit import Data
from octopia.simulator.agenda import to_ns
from octopia.simulator.profiles import Profile

NS_PER_US = 1000


class SharedSender:
    """A sender of publications that wires share: it is occupied for ``interval_ns`` or longer by each.

    ``turns`` are the free wires with a publication to send, in the order in which they are served.
    """

    __slots__ = ("free_at_ns", "interval_ns", "is_awaited", "turns")

    def __init__(self, interval_ns: int):
        self.interval_ns = interval_ns
        self.free_at_ns = 0
        self.is_awaited = False
        """True if an event is planned for when the sender is free; until then, nothing else begins."""
        self.turns: deque[Wire] = deque()


class Wire:
    """One direction of a link; without a ``sender`` it sends by itself."""

    __slots__ = (
        "_last_control_ns",
        "_last_data_ns",
        "delay_ns",
        "free_at_ns",
        "has_turn",
        "interval_ns",
        "is_awaited",
        "sender",
        "source",
        "target",
    )

    def __init__(
        self, source: BrokerId, target: Peer, delay_ns: int, interval_ns: int = 0, sender: SharedSender | None = None
    ):
        self.source = source
        self.target = target
        self.sender = sender
        self.has_turn = False
        """True if the wire is among the turns of its sender."""
        self.delay_ns = delay_ns
        self.interval_ns = interval_ns
        self.free_at_ns = 0
        self.is_awaited = False
        """True if an event is planned for when the wire is free."""
        self._last_control_ns = 0
        self._last_data_ns = 0

    def set_shape(self, shape: LinkShape) -> None:
        """Change the rate or the delay; None leaves it unchanged."""
        if shape.rate is not None:
            self.interval_ns = round(1e9 / shape.rate)
        if shape.delay_ms is not None:
            self.delay_ns = to_ns(shape.delay_ms)

    def arrival_ns(self, earliest_ns: int, control: bool, data: bool) -> int:
        """Return when a batch of ``control`` or ``data`` arrives: never before an earlier one of its kind."""
        if control and earliest_ns < self._last_control_ns:
            earliest_ns = self._last_control_ns
        if data:
            if earliest_ns < self._last_data_ns:
                earliest_ns = self._last_data_ns
            self._last_data_ns = earliest_ns
        if control:
            self._last_control_ns = earliest_ns
        return earliest_ns

    def is_slow(self, profile: Profile) -> bool:
        """Return whether publications occupy this wire for some time."""
        sends = self.sender is not None and self.sender.interval_ns > 0
        return bool(self.interval_ns or sends or profile.bandwidth_mbit_s)


def occupation_ns(interval_ns: int, bandwidth_mbit_s: float, message: Message) -> int:
    """Return how long a publication occupies a wire or a sender with this interval; a bandwidth of 0 has no limit."""
    if not bandwidth_mbit_s:
        return interval_ns
    transmission_us = message.size_bytes * 8 / bandwidth_mbit_s
    return max(interval_ns, round(transmission_us * NS_PER_US))


def occupy(wire: Wire, sender: SharedSender, bandwidth_mbit_s: float, message: Message, now_ns: int) -> int:
    """Let a publication occupy a wire and its sender from now on, and return when it leaves."""
    sender.free_at_ns = now_ns + occupation_ns(sender.interval_ns, bandwidth_mbit_s, message)
    wire.free_at_ns = max(sender.free_at_ns, now_ns + wire.interval_ns)
    return wire.free_at_ns


def jitter_ns(jitter_ms: float, drawn: float) -> int:
    """Return the additional delay of a batch, by a random number from 0 to 1."""
    return to_ns(jitter_ms * drawn)


def plan_arrival(wire: Wire, earliest_ns: int, batch: Sequence[Message]) -> int:
    """Return the arrival time of a batch, at ``earliest_ns`` if nothing is ahead of it."""
    first = batch[0]
    # Control goes first, so a batch that begins with data is data throughout.
    if isinstance(first, Data) or first.size_bytes:
        return wire.arrival_ns(earliest_ns, False, True)
    return wire.arrival_ns(earliest_ns, True, batch[len(batch) - 1].size_bytes > 0)
