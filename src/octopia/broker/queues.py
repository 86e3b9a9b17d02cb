"""Output queues, one per link, and their congestion (paper section 9.2, Eq. 3).

A queue has a control lane, which always goes first, and one data lane per traffic class. Order is kept within a lane.
Among the data lanes that the driver may take from, the oldest entry goes first. Q counts all data lanes together. Qin
and Qout are the publications that entered and left in the last closed window. Windows start at multiples of their
length and roll when the queue is next read: there is no tick.

Under adaptive routing a queue has two data lanes. Entries keep the duties of their copies: copies of one publication
are merged while they wait, and all of them are taken out when the link goes down.

A link may be up and *closed*: its other end takes control messages and no publications. Under adaptive routing they
then go another way, as if the link were down. Ordered ones wait in the queue.

A queue counts what passes it, once per batch where it can: the publications that left, the rerouted ones among them,
and those that were lost. It also counts the time for which its link was congested (``congested_ms``).

While its link is down (D10), a queue counts as congested and as longer than any other. It takes no control messages,
since the exchange at link up replaces them. It holds data up to a limit of bytes and time instead of its capacity.

Plain Python that Cython compiles (``queues.pxd`` has the C types): every copy of a publication passes a queue.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from octopia.broker.congestion import CongestionLimits, Hold, LinkLoad, Pace
from octopia.broker.interface import LinkCounters, LinkStatus, Verdict
from octopia.ids import PublicationId
from octopia.markers import Mark
from octopia.protocol import ALL_CLASSES
from octopia.protocol.duties import Duties, Lane
from octopia.protocol.messages import Copy, NeighbourMessage
from octopia.settings import Algorithm, RoutingSettings

_REROUTED = Lane.REROUTED.value

LONGER_THAN_ANY = sys.maxsize
"""The length of a queue whose link is down."""


class Window:
    """The traffic counts of a queue in the current and in the last closed time window."""

    __slots__ = (
        "_length_ms",
        "_tau",
        "closed_entered",
        "closed_left",
        "congested",
        "entered",
        "index",
        "is_news",
        "left",
    )

    def __init__(self, length_ms: float, tau: float):
        self._length_ms = length_ms
        self._tau = tau
        self.index = 0
        self.entered = 0
        self.left = 0
        self.closed_entered = 0
        self.closed_left = 0
        self.is_news = False
        self.congested = 0
        """The number of windows at whose end Eq. 3 held."""

    @property
    def congested_ms(self) -> float:
        """The length of all closed windows at whose end Eq. 3 held."""
        return self.congested * self._length_ms

    def roll(self, now_ms: float, waiting: int) -> bool:
        """Close the current window if ``now_ms`` lies beyond it, and return whether it was closed.

        ``waiting`` is Q, which has not changed since the window ended. ``is_news`` stays True until the closed window
        is recorded in a trace.
        """
        windows = now_ms / self._length_ms
        if windows < self.index + 1:
            return False
        index = math.floor(windows)
        # Queues that are not read had no traffic: after more than one window, the last closed one is empty.
        adjacent = index == self.index + 1
        if waiting:
            if waiting * (1 + self.entered) > self._tau * (1 + self.left):
                self.congested += 1
            if not adjacent and waiting > self._tau:
                self.congested += index - self.index - 1
        self.closed_entered = self.entered if adjacent else 0
        self.closed_left = self.left if adjacent else 0
        self.entered = 0
        self.left = 0
        self.index = index
        self.is_news = True
        return True


class _Entry:
    """A publication that waits."""

    __slots__ = ("duties", "entered_ms", "message", "order", "size_bytes")

    def __init__(self, order: int, message: Copy, entered_ms: float, size_bytes: int, duties: Duties | None):
        self.order = order
        self.message = message
        self.entered_ms = entered_ms
        self.size_bytes = size_bytes
        self.duties = duties


class _Lane:
    """The waiting publications of one class, oldest first, and their size.

    Those of a lane that ``is_rerouted`` have clusters to reach beyond that of the neighbour.
    """

    __slots__ = ("entries", "is_rerouted", "size_bytes")

    def __init__(self, is_rerouted: bool) -> None:
        self.entries: deque[_Entry] = deque()
        self.size_bytes = 0
        self.is_rerouted = is_rerouted


class OutputQueue:
    """The messages that wait for a neighbour.

    ``capacity`` and ``capacity_bytes`` limit each class, 0 for no limit. A class below both limits takes one more
    publication, however large.
    """

    __slots__ = (
        "_by_time",
        "_capacity",
        "_capacity_bytes",
        "_control",
        "_lanes",
        "_next_order",
        "_rerouted",
        "_size",
        "_tau",
        "down_since_ms",
        "dropped",
        "forced_length",
        "hold",
        "is_closed",
        "pace",
        "sent",
        "sent_rerouted",
        "verdict",
        "window",
    )

    MARKS: ClassVar[Mapping[str, Mark]] = {
        "_by_time": Mark.FIXED,
        "_capacity": Mark.FIXED,
        "_capacity_bytes": Mark.FIXED,
        "_rerouted": Mark.DERIVED,
        "_tau": Mark.FIXED,
        "dropped": Mark.HISTORY,
        "hold": Mark.TIMED,
        "pace": Mark.TIMED,
        "sent": Mark.HISTORY,
        "sent_rerouted": Mark.HISTORY,
        "window": Mark.TIMED,
    }

    def __init__(self, routing: RoutingSettings, capacity: int = 0, capacity_bytes: int = 0, ack_ms: float = 0.0):
        tau, window_ms = routing.tau, routing.window_ms
        self._tau = tau
        self._by_time = routing.algorithm is Algorithm.ADAPTIVE
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._control: deque[NeighbourMessage] = deque()
        self._lanes: dict[int, _Lane] = {}
        self._next_order = 0
        self._size = 0
        self.down_since_ms: float | None = None
        self._rerouted: dict[PublicationId, list[_Entry]] = {}
        self.window = Window(window_ms, tau)
        self.pace = Pace(window_ms, routing.probe_ms, ack_ms)
        self.hold = Hold(CongestionLimits(tau, routing.wait_ms, routing.hold_ms, routing.probe_ms))
        self.verdict = Verdict.AUTO
        self.forced_length: int | None = None
        self.is_closed = False
        """True if the link is up and its other end takes no publications."""
        self.sent = 0
        """The number of publications that left over the link."""
        self.sent_rerouted = 0
        """The number of rerouted ones among them."""
        self.dropped = 0
        """The number of publications for the link that were lost."""

    def __len__(self) -> int:
        """Return Q, the number of publications that wait; a forced length does not count."""
        return self._size

    @property
    def is_empty(self) -> bool:
        """True if the queue has neither control nor data."""
        return not self._size and not self._control

    @property
    def is_down(self) -> bool:
        """True if the link is down."""
        return self.down_since_ms is not None

    @property
    def bytes_waiting(self) -> int:
        """The approximate size of the waiting publications."""
        return sum(lane.size_bytes for lane in self._lanes.values())

    @property
    def length(self) -> int:
        """Q as routing sees it: forced, beyond all others if the link is down, or the publications that wait."""
        if self.forced_length is not None:
            return self.forced_length
        return LONGER_THAN_ANY if self.is_down else self._size

    def congested(self, now_ms: float, usual_ms: Callable[[], float] = float) -> bool:
        """Apply Eq. 3: Q * (1 + Qin) / (1 + Qout) > tau; an empty queue is never congested.

        Adaptive routing goes by time instead (``congestion``); ``usual_ms`` returns the time that a copy takes on the
        other links.
        """
        if self._by_time:
            return self._congested_by_time(now_ms, usual_ms)
        if self.verdict is not Verdict.AUTO:
            return self.verdict is Verdict.CONGESTED
        if self.is_down:
            return True
        length = self.length
        if not length:
            return False
        self.window.roll(now_ms, self._size)
        return length * (1 + self.window.closed_entered) > self._tau * (1 + self.window.closed_left)

    def load(self, now_ms: float) -> LinkLoad:
        """Return the load of the link, for adaptive routing."""
        window, pace = self.window, self.pace
        window.roll(now_ms, self._size)
        length = self.forced_length if self.forced_length is not None else self._size
        copy_ms, idle_ms, under_way_ms = pace.copy_ms(now_ms), pace.idle_ms(now_ms), pace.under_way_ms(now_ms)
        return LinkLoad(length, window.closed_entered, window.closed_left, copy_ms, idle_ms, under_way_ms)

    def _congested_by_time(self, now_ms: float, usual_ms: Callable[[], float]) -> bool:
        if self.verdict is not Verdict.AUTO:
            return self.verdict is Verdict.CONGESTED
        if self.down_since_ms is not None or self.is_closed:
            return True
        window = self.window
        length = self._size if self.forced_length is None else self.forced_length
        if length:
            window.roll(now_ms, self._size)  # An empty queue is judged by its pace alone.
        if self.hold.is_free(length, window.closed_entered, window.closed_left, self.pace, now_ms):
            return False
        return self.hold.is_congested(self.load(now_ms), now_ms, usual_ms())

    def status(self, now_ms: float, usual_ms: float = 0.0) -> LinkStatus:
        """Return the row of the Link Status Table for this queue; to read it changes no verdict.

        ``usual_ms`` is the time that a copy takes on the other links, which only adaptive routing compares.
        """
        window = self.window
        window.roll(now_ms, self._size)
        is_judged = self.verdict is not Verdict.AUTO or self.is_down or self.is_closed
        if self._by_time and not is_judged:
            congested = self.hold.looks_congested(self.load(now_ms), now_ms, usual_ms)
        else:
            congested = self.congested(now_ms)
        return LinkStatus(self.length, window.closed_entered, window.closed_left, congested)

    def counters(self, now_ms: float) -> LinkCounters:
        """Return the counters of the link."""
        self.window.roll(now_ms, self._size)
        congested_ms = self.hold.congested_ms(now_ms) if self._by_time else self.window.congested_ms
        return LinkCounters(self.sent, self.sent_rerouted, self.dropped, congested_ms)

    def has_room(self, traffic_class: int) -> bool:
        """Return whether a class has room for another publication."""
        if self.down_since_ms is not None:
            return True
        lane = self._lanes.get(traffic_class)
        if lane is None or not lane.entries:
            return True
        if self._capacity and len(lane.entries) >= self._capacity:
            return False
        return not self._capacity_bytes or lane.size_bytes < self._capacity_bytes

    def put_control(self, message: NeighbourMessage) -> None:
        """Append to the control lane; dropped while the link is down."""
        if self.down_since_ms is None:
            self._control.append(message)

    def put_data(self, message: Copy, traffic_class: int, now_ms: float, duties: Duties | None = None) -> None:
        """Append to the data lane of a class, under adaptive routing with the duties of the copy."""
        window = self.window
        window.roll(now_ms, self._size)
        window.entered += 1
        lane = self._lanes.get(traffic_class)
        if lane is None:
            lane = self._lanes[traffic_class] = _Lane(traffic_class != 0)
        size_bytes = message.size_bytes
        entry = _Entry(self._next_order, message, now_ms, size_bytes, duties)
        lane.entries.append(entry)
        if duties is not None and traffic_class == _REROUTED:
            self._rerouted.setdefault(message.id, []).append(entry)
        lane.size_bytes += size_bytes
        self._next_order += 1
        self._size += 1

    @property
    def has_rerouted(self) -> bool:
        """True if rerouted copies wait here, with which others may be merged."""
        return bool(self._rerouted)

    def rerouted(self, publication: PublicationId) -> list[Duties]:
        """Return the duties of the rerouted copies of a publication that wait here."""
        return [each.duties for each in self._rerouted.get(publication, ()) if each.duties is not None]

    def replace(self, publication: PublicationId, before: Duties, message: Copy, duties: Duties) -> None:
        """Replace a rerouted copy that waits here."""
        entry = next(each for each in self._rerouted[publication] if each.duties is before)
        entry.message, entry.duties = message, duties

    def with_duties(self) -> list[tuple[Copy, Duties]]:
        """Return the publications that wait with their duties."""
        return [(each.message, each.duties) for each in self._entries() if each.duties is not None]

    def take_out(self) -> list[tuple[Copy, Duties]]:
        """Remove and return all publications with duties, oldest first; they did not leave over the link."""
        found = sorted((each for each in self._entries() if each.duties is not None), key=lambda each: each.order)
        for lane in self._lanes.values():
            lane.entries = deque(each for each in lane.entries if each.duties is None)
            lane.size_bytes = sum(each.size_bytes for each in lane.entries)
        self._size -= len(found)
        self._rerouted.clear()
        return [(each.message, each.duties) for each in found if each.duties is not None]

    def take(self, now_ms: float, classes: int = ALL_CLASSES) -> NeighbourMessage | None:
        """Remove and return the next message, or None if there is none to take."""
        if self._control:
            return self._control.popleft()
        lane = self._oldest_lane(classes) if self._size else None
        if lane is None:
            return None
        self.has_left(now_ms, 1, lane.is_rerouted, self._size)
        return self._remove_oldest(lane)

    def has_left(self, now_ms: float, copies: int, rerouted: int, waiting: int) -> None:
        """Count publications that leave over the link, and the rerouted ones among them; ``waiting`` is Q before."""
        window = self.window
        window.roll(now_ms, waiting)
        window.left += copies
        self.sent += copies
        self.sent_rerouted += rerouted
        if self._by_time:
            self.pace.start(now_ms, copies)

    @property
    def has_control(self) -> bool:
        """True if control messages wait; they go first."""
        return bool(self._control)

    def drop_oldest(self) -> Copy:
        """Remove and return the oldest publication; it did not leave over the link, so Qout does not count it."""
        lane = self._oldest_lane(ALL_CLASSES)
        if lane is None:
            raise IndexError("expected a publication in the queue, got none")
        return self._remove_oldest(lane)

    def go_down(self, now_ms: float) -> list[NeighbourMessage]:
        """Mark the link as down; remove and return its control messages, which the exchange at link up replaces."""
        self.down_since_ms = now_ms
        self.is_closed = False
        self.pace.forget()
        control = list(self._control)
        self._control.clear()
        return control

    def come_up(self) -> None:
        """Mark the link as up."""
        self.down_since_ms = None

    def waited_since_ms(self) -> float | None:
        """Return since when the oldest publication has waited for a link that is down, or None."""
        lane = self._oldest_lane(ALL_CLASSES)
        if lane is None or self.down_since_ms is None:
            return None
        return max(lane.entries[0].entered_ms, self.down_since_ms)

    def waiting(self) -> list[NeighbourMessage]:
        """Return the waiting messages in the order in which they would be taken."""
        return [*self._control, *(entry.message for entry in sorted(self._entries(), key=lambda each: each.order))]

    def _entries(self) -> Iterable[_Entry]:
        return [entry for lane in self._lanes.values() for entry in lane.entries]

    def _remove_oldest(self, lane: _Lane) -> Copy:
        entry = lane.entries.popleft()
        lane.size_bytes -= entry.size_bytes
        self._size -= 1
        if self._rerouted and entry.message.id in self._rerouted:
            self._forget(entry)
        return entry.message

    def _forget(self, entry: _Entry) -> None:
        known = self._rerouted[entry.message.id]
        known[:] = [each for each in known if each is not entry]
        if not known:
            del self._rerouted[entry.message.id]

    def _oldest_lane(self, classes: int) -> _Lane | None:
        oldest: _Lane | None = None
        for traffic_class, lane in self._lanes.items():
            allowed = lane.entries and classes >> traffic_class & 1
            if allowed and (oldest is None or lane.entries[0].order < oldest.entries[0].order):
                oldest = lane
        return oldest


def usual_copy_ms(queues: Iterable[OutputQueue], now_ms: float) -> float:
    """Return the time that a copy takes on most links, 0 without links; one that has carried nothing counts as free."""
    times = [queue.pace.copy_ms(now_ms) or 0.0 for queue in queues]
    return statistics.median_low(times) if times else 0.0
