"""Output queues, one a link, and the congestion that they show (paper section 9.2, Eq. 3).

A queue has a control lane, which always goes first, and a data lane for each traffic class. Within a lane the order is
kept; among the data lanes that the driver may take from, the oldest entry goes first. Q counts the data lanes together.
Qin and Qout are the publications that entered and left in the last closed window. Windows start at multiples of their
length, and roll over lazily, when a queue is next looked at: nothing ticks.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from octopia.broker.interface import ALL_CLASSES, Verdict
from octopia.broker.messages import Deliver, Message, Publish


class LinkStatus(msgspec.Struct, frozen=True):
    """One row of the Link Status Table: a queue's length now, its traffic in the last closed window, the verdict."""

    queue_length: int
    entered: int
    left: int
    congested: bool


class Window:
    """Counts of one queue's traffic in the current and in the last closed time window."""

    __slots__ = ("_length_ms", "closed_entered", "closed_left", "entered", "index", "is_news", "left")

    def __init__(self, length_ms: float):
        self._length_ms = length_ms
        self.index = 0
        self.entered = 0
        self.left = 0
        self.closed_entered = 0
        self.closed_left = 0
        self.is_news = False

    def roll(self, now_ms: float) -> bool:
        """Close the current window if ``now_ms`` lies beyond it, and tell whether that happened.

        It stays news (``is_news``) until somebody has noted it in a trace.
        """
        index = math.floor(now_ms / self._length_ms)
        if index <= self.index:
            return False
        # A window in which nothing was looked at saw no traffic: after a longer silence the last closed one is empty.
        adjacent = index == self.index + 1
        self.closed_entered = self.entered if adjacent else 0
        self.closed_left = self.left if adjacent else 0
        self.entered = 0
        self.left = 0
        self.index = index
        self.is_news = True
        return True


class OutputQueue:
    """What waits for one link."""

    __slots__ = ("_control", "_lanes", "_next_order", "_size", "_tau", "forced_length", "verdict", "window")

    def __init__(self, tau: float, window_ms: float):
        self._tau = tau
        self._control: deque[Message] = deque()
        self._lanes: dict[int, deque[tuple[int, Publish | Deliver]]] = {}
        self._next_order = 0
        self._size = 0
        self.window = Window(window_ms)
        self.verdict = Verdict.AUTO
        self.forced_length: int | None = None

    def __len__(self) -> int:
        """Return Q, the number of publications that wait, whatever was forced."""
        return self._size

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take, neither control nor data."""
        return not self._size and not self._control

    @property
    def length(self) -> int:
        """Q as routing sees it: forced, or the number of publications that wait."""
        return self._size if self.forced_length is None else self.forced_length

    def congested(self, now_ms: float) -> bool:
        """Apply Eq. 3: Q * (1 + Qin) / (1 + Qout) > tau; an empty queue is never congested."""
        if self.verdict is not Verdict.AUTO:
            return self.verdict is Verdict.CONGESTED
        length = self.length
        if not length:
            return False
        self.window.roll(now_ms)
        return length * (1 + self.window.closed_entered) > self._tau * (1 + self.window.closed_left)

    def status(self, now_ms: float) -> LinkStatus:
        """Describe this queue as a row of the Link Status Table."""
        self.window.roll(now_ms)
        return LinkStatus(
            self.length, self.window.closed_entered, self.window.closed_left, congested=self.congested(now_ms)
        )

    def put_control(self, message: Message) -> None:
        """Append to the control lane."""
        self._control.append(message)

    def put_data(self, message: Publish | Deliver, traffic_class: int, now_ms: float) -> None:
        """Append to the data lane of a class."""
        self.window.roll(now_ms)
        self.window.entered += 1
        lane = self._lanes.get(traffic_class)
        if lane is None:
            lane = self._lanes[traffic_class] = deque()
        lane.append((self._next_order, message))
        self._next_order += 1
        self._size += 1

    def take(self, now_ms: float, classes: int = ALL_CLASSES) -> Message | None:
        """Remove and return the next message, or None if nothing may go."""
        if self._control:
            return self._control.popleft()
        lane = self._oldest_lane(classes) if self._size else None
        if lane is None:
            return None
        self.window.roll(now_ms)
        self.window.left += 1
        self._size -= 1
        return lane.popleft()[1]

    def drop_oldest(self) -> Publish | Deliver:
        """Remove and return the oldest publication; it did not leave over the link, so Qout does not count it."""
        lane = self._oldest_lane(ALL_CLASSES)
        if lane is None:
            raise IndexError("drop from an empty queue")
        self._size -= 1
        return lane.popleft()[1]

    def clear(self) -> int:
        """Drop everything, and return how many publications that were."""
        dropped = self._size
        self._control.clear()
        self._lanes.clear()
        self._size = 0
        return dropped

    def waiting(self) -> list[Message]:
        """List what waits, in the order in which it would be taken."""
        data = sorted((entry for lane in self._lanes.values() for entry in lane), key=lambda entry: entry[0])
        return [*self._control, *(message for _, message in data)]

    def _oldest_lane(self, classes: int) -> deque[tuple[int, Publish | Deliver]] | None:
        oldest: deque[tuple[int, Publish | Deliver]] | None = None
        for traffic_class, lane in self._lanes.items():
            allowed = lane and classes >> traffic_class & 1
            if allowed and (oldest is None or lane[0][0] < oldest[0][0]):
                oldest = lane
        return oldest
