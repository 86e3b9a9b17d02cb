"""The event queue of virtual time.

Events are totally ordered by time, priority and order of entry, so a run depends on nothing else. Time is counted in
whole nanoseconds: sums of delays are exact, and simultaneous events stay simultaneous.
"""

from __future__ import annotations

import enum
import heapq
import math
from collections.abc import Callable
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
    """

    __slots__ = ("_entered", "_foreground", "_heap", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[tuple[int, int, int, bool, Callable[[Any], None], Any]] = []
        self._entered = 0
        self._foreground = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def foreground(self) -> int:
        """The number of events that a run still waits for."""
        return self._foreground

    @property
    def now_ms(self) -> float:
        """The current time in milliseconds."""
        return self.now_ns / NS_PER_MS

    def enter(
        self,
        time_ns: int,
        priority: Priority,
        action: Callable[[Any], None],
        argument: Any,
        *,
        background: bool = False,
    ) -> None:
        """Plan an action; a time in the past means now."""
        self._entered += 1
        self._foreground += not background
        if time_ns < self.now_ns:
            time_ns = self.now_ns
        heapq.heappush(self._heap, (time_ns, priority, self._entered, background, action, argument))

    def step(self) -> None:
        """Run the next event."""
        self.now_ns, _, _, background, action, argument = heapq.heappop(self._heap)
        self._foreground -= not background
        action(argument)
