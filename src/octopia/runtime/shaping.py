"""Shaped links: a limited rate of publications, and a delay of everything.

On a link with a rate, each publication occupies the link for its share of a second before it is written. Others wait in
the broker's queue, where Eq. 3 counts them. Control messages do not wait for the rate. A delay holds back
everything that is written, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from octopia.overlay import LinkShape
from octopia.protocol import Item

MOST_BEHIND_S = 0.1
"""The maximum lag that a link may catch up on after the process was late."""


class Shaper:
    """The shape of one direction of a link."""

    def __init__(self, loop: asyncio.AbstractEventLoop, write: Callable[[Sequence[Item]], None]):
        self._loop = loop
        self._write = write
        self._interval_s = 0.0
        self._delay_s = 0.0
        self._free_at = 0.0
        self._held: deque[tuple[float, Sequence[Item]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def set_shape(self, shape: LinkShape) -> None:
        """Change the rate or the delay; None leaves it unchanged, a rate of 0 removes the limit."""
        if shape.rate is not None:
            self._interval_s = 1.0 / shape.rate if shape.rate else 0.0
            self._free_at = 0.0
        if shape.delay_ms is not None:
            self._delay_s = shape.delay_ms / 1000.0
            latest = self._loop.time() + self._delay_s
            self._held = deque((min(due, latest), items) for due, items in self._held)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = self._loop.call_at(self._held[0][0], self._release)

    @property
    def shape(self) -> LinkShape:
        """The current shape."""
        rate = 1.0 / self._interval_s if self._interval_s else None
        return LinkShape(rate=rate, delay_ms=self._delay_s * 1000.0 or None)

    @property
    def has_rate(self) -> bool:
        """True if publications have to wait for the link."""
        return bool(self._interval_s)

    @property
    def is_free(self) -> bool:
        """True if the link can carry a publication now."""
        return self._loop.time() >= self._free_at

    def occupy(self, *, was_awaited: bool) -> None:
        """Occupy the link for one publication; if it waited for the link, the link catches up on its lag."""
        now = self._loop.time()
        # A link that was idle has no right to a burst.
        catches_up = was_awaited and now - self._free_at <= MOST_BEHIND_S
        self._free_at = (self._free_at if catches_up else now) + self._interval_s

    @property
    def free_at(self) -> float:
        """The time at which the link is free again, by the clock of the event loop."""
        return self._free_at

    def write(self, items: Sequence[Item]) -> None:
        """Write items, after the delay if any."""
        if not self._delay_s and not self._held:
            self._write(items)
            return
        self._held.append((self._loop.time() + self._delay_s, items))
        if self._timer is None:
            self._timer = self._loop.call_at(self._held[0][0], self._release)

    def clear(self) -> None:
        """Drop everything held back, since the connection is gone."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _release(self) -> None:
        self._timer = None
        while self._held and self._held[0][0] <= self._loop.time():
            self._write(self._held.popleft()[1])
        if self._held:
            self._timer = self._loop.call_at(self._held[0][0], self._release)
