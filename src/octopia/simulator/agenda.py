"""The event queue of virtual time.

Events are totally ordered by time, priority and order of entry, so a run depends on nothing else. Time is counted in
whole nanoseconds: sums of delays are exact, and simultaneous events stay simultaneous.

Plain Python that Cython compiles (``agenda.pxd`` has the C types), since everything that happens passes here. Compiled,
times are limited to 64 bits, which is 292 years.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

NS_PER_MS = 1_000_000


def to_ns(milliseconds: float) -> int:
    """Convert a time from files and profiles to virtual time."""
    return round(milliseconds * NS_PER_MS)


def just_after_ns(milliseconds: float) -> int:
    """Convert a deadline to the first moment of virtual time that is certainly after it, despite rounding."""
    return math.floor(milliseconds * NS_PER_MS) + 1


class Priority(enum.IntEnum):
    """The order of simultaneous events: messages settle before links and people act."""

    ARRIVAL = 0
    SERVICE = 1
    LINK_FREE = 2
    TIMER = 3
    SCRIPT = 4


class Agenda:
    """A queue of actions, each with one argument, ordered by time.

    *Background* actions happen when their time comes, but nothing waits for them: heartbeats do not keep a run alive.
    ``now_ms`` is the current time ``now_ns`` in milliseconds.
    """

    __slots__ = ("_entered", "_foreground", "_heap", "now_ms", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self.now_ms = 0.0
        self._heap: list[tuple[int, int, int, bool, Callable[[Any], None], Any]] = []
        self._entered = 0
        self._foreground = 0

    def __len__(self) -> int:
        return len(self._heap)

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
        self._entered += 1
        self._foreground += not background
        if time_ns < self.now_ns:
            time_ns = self.now_ns
        heappush(self._heap, (time_ns, priority, self._entered, background, action, argument))

    def step(self) -> None:
        """Run the next event."""
        event = heappop(self._heap)
        if event[0] != self.now_ns:
            self.now_ns = event[0]
            self.now_ms = event[0] / NS_PER_MS
        self._foreground -= not event[3]
        event[4](event[5])

    def run(self) -> None:
        """Run events until only background events are left."""
        while self._foreground:
            self.step()
