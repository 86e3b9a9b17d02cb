"""The event queue of virtual time.

Events are totally ordered by time, priority and order of entry, so a run depends on nothing else. Time is counted in
whole nanoseconds: sums of delays are exact, and simultaneous events stay simultaneous.

Most events share their time and priority with others. They are kept in one list, in order of entry, so the heap only
has one number per such list. The garbage collector sees no object per event.

Plain Python that Cython compiles (``agenda.pxd`` has the C types), since everything that happens passes here. Compiled,
times are limited to 60 bits, which is 36 years.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from octopia.errors import UsageError

NS_PER_MS = 1_000_000
LATEST_MS = 1e12
"""The latest time in virtual time."""


def to_ns(milliseconds: float) -> int:
    """Convert a time from files and profiles to virtual time."""
    if milliseconds > LATEST_MS:
        raise UsageError(f"expected a time of at most {LATEST_MS:g} ms, which is 31 years, got {milliseconds:g}")
    return round(milliseconds * NS_PER_MS)


def just_after_ns(milliseconds: float) -> int:
    """Convert a deadline to the first moment of virtual time that is certainly after it, despite rounding."""
    return math.floor(milliseconds * NS_PER_MS) + 1


class Priority(enum.IntEnum):
    """The order of simultaneous events: messages settle before links and people act; there are at most 8."""

    ARRIVAL = 0
    SERVICE = 1
    LINK_FREE = 2
    TIMER = 3
    SCRIPT = 4


class Moment:
    """The events of one time and priority: for each its action, its argument, and whether it is in the background."""

    __slots__ = ("at", "events")

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.at = 0


class Agenda:
    """A queue of actions, each with one argument, ordered by time.

    *Background* actions happen when their time comes, but nothing waits for them: heartbeats do not keep a run alive.
    ``now_ms`` is the current time ``now_ns`` in milliseconds.
    """

    __slots__ = ("_foreground", "_heap", "_moments", "_size", "now_ms", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self.now_ms = 0.0
        self._heap: list[int] = []
        self._moments: dict[int, Moment] = {}
        self._size = 0
        self._foreground = 0

    def __len__(self) -> int:
        return self._size

    @property
    def foreground(self) -> int:
        """The number of events that a run still waits for."""
        return self._foreground

    def enter(
        self,
        time_ns: int,
        priority: Priority,
        action: Callable[[Any], None],
        argument: Any,
        background: bool = False,
    ) -> None:
        """Plan an action; a time in the past means now."""
        self._size += 1
        self._foreground += not background
        if time_ns < self.now_ns:
            time_ns = self.now_ns
        key: int = time_ns * 8 + priority
        moment = self._moments.get(key)
        if moment is None:
            moment = self._moments[key] = Moment()
            heappush(self._heap, key)
        moment.events += (action, argument, background)

    def step(self) -> None:
        """Run the next event."""
        key = self._heap[0]
        moment = self._moments[key]
        events, at = moment.events, moment.at
        action, argument = events[at], events[at + 1]
        self._size -= 1
        self._foreground -= not events[at + 2]
        if at + 3 == len(events):
            heappop(self._heap)
            del self._moments[key]
        else:
            events[at] = events[at + 1] = None
            moment.at = at + 3
        time_ns = key // 8
        if time_ns != self.now_ns:
            self.now_ns = time_ns
            self.now_ms = time_ns / NS_PER_MS
        action(argument)

    def run(self) -> None:
        """Run events until only background events are left."""
        while self._foreground:
            self.step()
