"""The log of losses: one line per burst, with the number of publications.

Losses come one by one, thousands in a row. They are added up per cause and link. A sum is written when nothing was
added to it for ``QUIET_S``, or after ``BURST_MAX_S``.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from octopia.broker import Loss
from octopia.ids import Peer
from octopia.protocol import Cause
from octopia.runtime.eventlog import EventKind, EventLog, fields_of

QUIET_S = 1.0
BURST_MAX_S = 10.0


@dataclasses.dataclass(slots=True)
class _Burst:
    began_s: float
    last_s: float
    count: int = 0


class LossLog:
    """The losses of one broker that are not written yet."""

    def __init__(self, events: EventLog, clock: Callable[[], float] = time.monotonic):
        self._events = events
        self._clock = clock
        self._bursts: dict[tuple[Cause, Peer | None], _Burst] = {}

    def note(self, loss: Loss) -> None:
        """Add a loss to its burst."""
        now_s = self._clock()
        burst = self._bursts.setdefault((loss.cause, loss.peer), _Burst(now_s, now_s))
        burst.last_s = now_s
        burst.count += loss.count

    def flush(self, *, is_over: bool = False) -> None:
        """Write the bursts that have ended, or all at the end."""
        if not self._bursts:
            return
        now_s = self._clock()
        for (cause, peer), burst in list(self._bursts.items()):
            if is_over or now_s - burst.last_s >= QUIET_S or now_s - burst.began_s >= BURST_MAX_S:
                del self._bursts[cause, peer]
                who = {} if peer is None else fields_of(peer)
                count = burst.count or None
                self._events.note(EventKind.PUBLICATIONS_LOST, f"{cause} {peer}", cause=cause, **who, count=count)
