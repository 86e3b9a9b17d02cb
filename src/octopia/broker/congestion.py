"""Congestion by time, for adaptive routing: Eq. 3 (paper section 9.2) mended, and a limit on waiting.

Eq. 3 compares the length of a queue with the traffic of the last window. It has two gaps:

- A link that was avoided for one window has Qin = 0 and looks free, however many copies wait. Here the ratio of Eq. 3
  is at least 1.
- Ten copies are nothing on a fast link and two seconds on a link that carries five per second. So a link is congested
  also if its queue takes longer than ``wait_ms``. For that, a ``Pace`` measures how long a copy takes on the link.

On the network, copies that were written to a slow link wait in buffers below the broker, up to a credit window, while Q
is 0. The time that they take counts too (``under_way_ms``).

Time counts only against a link that is slower than the other links of its broker. If all are equally slow, it is the
machine that is short of CPU, and more messages would make it slower still.

A link stays congested for ``hold_ms`` after that. Routing does not avoid such a link, it only compares it with others,
and sends one copy with many duties instead of many static ones. Without the hold, a link near its capacity is free and
congested in turn, and every time it is free it gets the many copies of static routing.

An empty queue may belong to a slow link, too. It stays congested for ``probe_ms`` after its last copy. Then one copy
may try it again, and measures it.

``static`` and ``dynamic`` routing keep Eq. 3 as printed.
"""

from __future__ import annotations

import enum
import math
from collections import deque

import msgspec

SLOW = 2.0
"""A link is slow if its copies take this much longer than those of the other links of the broker."""

LEAST_COPY_MS = 0.1
"""The time that a copy takes at least when links are compared: a long queue is long on the fastest link, too."""


class Rule(enum.Enum):
    """The rules by which a link counts as congested, for explanations."""

    DOWN = "the link is down"
    FORCED = "a scenario says so"
    LENGTH = "Eq. 3: the queue is too long"
    TIME = "the queue takes too long"
    SLOW = "a slow link without a queue"
    HELD = "an earlier verdict is held"


class CongestionLimits(msgspec.Struct, frozen=True, gc=False):
    """The limits that make a link congested: ``tau`` of Eq. 3 and the longest wait.

    A link stays congested for ``hold_ms``, and a slow one without traffic for ``probe_ms``.
    """

    tau: float = 10.0
    wait_ms: float = 50.0
    hold_ms: float = 500.0
    probe_ms: float = 5_000.0


class LinkLoad(msgspec.Struct, frozen=True, gc=False):
    """The load of a link: Q, the traffic of the last closed window, and its pace.

    ``copy_ms`` (s) is the time that a copy takes, and ``idle_ms`` the time since the link last carried one. Both are
    None if it has carried nothing yet. ``under_way_ms`` is the time that written copies take beyond the latency.
    """

    length: int
    entered: int = 0
    left: int = 0
    copy_ms: float | None = None
    idle_ms: float | None = None
    under_way_ms: float = 0.0


def is_congested(load: LinkLoad, limits: CongestionLimits, usual_ms: float = 0.0) -> bool:
    """Return whether a link that is up is congested: Q * max(1, (1 + Qin) / (1 + Qout)) > tau, or by time.

    ``usual_ms`` is the time that a copy takes on the other links of the broker.
    """
    return rule_of(load, limits, usual_ms) is not None


def rule_of(load: LinkLoad, limits: CongestionLimits, usual_ms: float = 0.0) -> tuple[Rule, float] | None:
    """Return the rule by which a link that is up is congested, with a time; None if it is free.

    The time is that of the queue and of the copies under way, or that of one copy for a slow link without a queue.
    """
    length, copy_ms = load.length, load.copy_ms
    queue_ms = length * (copy_ms or 0.0) + load.under_way_ms
    if length and length * max(load.entered + 1, load.left + 1) > limits.tau * (load.left + 1):
        return Rule.LENGTH, queue_ms
    if copy_ms is None or copy_ms < SLOW * usual_ms:
        return None
    if queue_ms > limits.wait_ms:
        return Rule.TIME, queue_ms
    is_recent = load.idle_ms is not None and load.idle_ms < limits.probe_ms
    return (Rule.SLOW, copy_ms) if not length and copy_ms > limits.wait_ms and is_recent else None


class Hold:
    """The verdict on a link, which is held for a while: see ``is_congested``."""

    __slots__ = ("_limits", "_total_ms", "_until_ms")

    def __init__(self, limits: CongestionLimits):
        self._limits = limits
        self._until_ms = 0.0
        self._total_ms = 0.0

    def is_congested(self, load: LinkLoad, now_ms: float, usual_ms: float = 0.0) -> bool:
        """Return whether a link is congested, or was so when it was last asked for within ``hold_ms``."""
        if is_congested(load, self._limits, usual_ms):
            until_ms = now_ms + self._limits.hold_ms
            self._total_ms += until_ms - max(now_ms, self._until_ms)
            self._until_ms = until_ms
            return True
        return self.lasts(now_ms)

    def looks_congested(self, load: LinkLoad, now_ms: float, usual_ms: float = 0.0) -> bool:
        """Return the verdict of ``is_congested`` for a report, which must not hold it."""
        return self.lasts(now_ms) or is_congested(load, self._limits, usual_ms)

    def congested_ms(self, now_ms: float) -> float:
        """Return the time up to now for which routing held the link for congested."""
        return self._total_ms - max(0.0, self._until_ms - now_ms)

    def is_free(self, length: int, entered: int, left: int, pace: Pace, now_ms: float) -> bool:
        """Return whether a link is not congested, as ``is_congested`` does; False if that needs a closer look."""
        limits = self._limits
        return (
            now_ms >= self._until_ms
            and (not length or length * (max(entered, left) + 1) <= limits.tau * (left + 1))
            and pace.carries_within(limits.wait_ms, length or 1, now_ms)
        )

    def rule(self, load: LinkLoad, now_ms: float, usual_ms: float = 0.0) -> tuple[Rule, float]:
        """Return the rule by which a congested link is so, with its time; for a held verdict, the rest of the hold."""
        return rule_of(load, self._limits, usual_ms) or (Rule.HELD, self._until_ms - now_ms)

    def lasts(self, now_ms: float) -> bool:
        """Return whether an earlier verdict is still held."""
        return now_ms < self._until_ms


def work_of(load: LinkLoad, usual_ms: float | None) -> float:
    """Return the work that waits for a link (W): how long one more copy takes, or Q if no pace is known.

    ``usual_ms`` is the time that a copy usually takes at this broker, None if no link has carried anything yet.
    """
    if usual_ms is None:
        return float(load.length)
    copy_ms = max(LEAST_COPY_MS, usual_ms if load.copy_ms is None else load.copy_ms)
    return (load.length + 1) * copy_ms + load.under_way_ms


class _Start(msgspec.Struct, gc=False):
    """Copies that were given to a link at the same time."""

    at_ms: float
    copies: int


class Pace:
    """The time that a copy takes on a link (s), measured from what the link carried.

    A link serves its copies one after the other, so the time of a copy runs from its start or from the end of the one
    before. When a window with output closes, s becomes the mean of s and the mean time of its copies. Before that, the
    copies of the open window count if they took longer, and so does the copy that is on its way. Otherwise a link that
    has just become slow would look fast between the end of one copy and the end of the window.

    A measurement is replaced instead of averaged if the link was idle for ``probe_ms`` since then. So one probe is
    enough to use a link again that has recovered.

    A link whose copies are acknowledged has a latency, too: the shortest time from start to acknowledgement. It is no
    sign of a slow link, so the time of a copy begins that long after its start, or with the end of the one before.
    One acknowledgement may cover copies that were apart, with an idle link in between. No copy took longer than the
    last one was late, so that bounds their time. A copy without an acknowledgement looks late only after ``ack_ms``,
    for which the other end may hold one back.
    """

    __slots__ = (
        "_ack_ms",
        "_busy_ms",
        "_copies",
        "_copy_ms",
        "_index",
        "_is_outdated",
        "_latency_ms",
        "_probe_ms",
        "_starts",
        "_stopped_ms",
        "_window_ms",
        "under_way",
    )

    _copy_ms: float | None
    _stopped_ms: float | None

    def __init__(self, window_ms: float, probe_ms: float, ack_ms: float = 0.0):
        self._ack_ms = ack_ms
        self._window_ms = window_ms
        self._probe_ms = probe_ms
        self.forget()

    def forget(self) -> None:
        """Forget everything when the link goes down: it may return with another pace."""
        self._copy_ms = None
        self._index = 0
        self._is_outdated = False
        self._latency_ms: float | None = None
        self._busy_ms = 0.0
        self._copies = 0
        self.under_way = 0
        """The number of copies that were given to the link and that it has not carried yet."""
        self._starts: deque[_Start] = deque()
        self._stopped_ms = None

    @property
    def is_known(self) -> bool:
        """True if the link has carried something."""
        return self.under_way > 0 or self._stopped_ms is not None

    def start(self, now_ms: float, copies: int = 1) -> None:
        """Record that copies were given to the link."""
        if not self.under_way:
            self._roll(now_ms)
            if self._stopped_ms is not None and now_ms - self._stopped_ms >= self._probe_ms:
                self._is_outdated = True
        elif (latest := self._starts[len(self._starts) - 1]).at_ms == now_ms:  # Compiled, -1 is no index.
            latest.copies += copies
            self.under_way += copies
            return
        self._starts.append(_Start(now_ms, copies))
        self.under_way += copies

    def finish(self, now_ms: float, copies: int = 1, *, is_acknowledgement: bool = False) -> None:
        """Record that the link has carried the oldest copies that it was given.

        A driver that knows how long a copy takes may say so in advance.
        """
        copies = min(copies, self.under_way)
        if not copies:
            return  # They were given to the link before it went down.
        self._roll(now_ms)
        oldest_ms = self._starts[0].at_ms
        last_ms = self._remove(copies)
        busy_ms = self._age_ms(oldest_ms, now_ms)
        if is_acknowledgement:
            took_ms = max(0.0, now_ms - last_ms)
            self._latency_ms = took_ms if self._latency_ms is None else min(took_ms, self._latency_ms)
            busy_ms = min(self._age_ms(oldest_ms, now_ms), copies * (took_ms - self._latency_ms))
        self._busy_ms += busy_ms
        self._copies += copies
        self._stopped_ms = now_ms

    def _remove(self, copies: int) -> float:
        """Remove the oldest copies that are under way, and return when the last of them was given to the link."""
        self.under_way -= copies
        while True:
            start = self._starts[0]
            if start.copies > copies:
                start.copies -= copies
                return start.at_ms
            copies -= start.copies
            self._starts.popleft()
            if not copies:
                return start.at_ms

    def under_way_ms(self, now_ms: float) -> float:
        """Return the time that several copies on their way take beyond the latency of the link."""
        if self.under_way < 2:
            return 0.0
        return max(0.0, self.under_way * (self._measured_ms(now_ms) or 0.0) - (self._latency_ms or 0.0))

    def carries_within(self, limit_ms: float, copies: int, now_ms: float) -> bool:
        """Return whether copies take at most ``limit_ms``; False if that needs a closer look."""
        copy_ms = self._copy_ms or 0.0
        if self._copies:
            copy_ms = max(copy_ms, self._busy_ms / self._copies)
        if not self.under_way:
            return copies * copy_ms <= limit_ms
        began_ms = max(self._starts[0].at_ms, self._stopped_ms or 0.0) + self._ack_ms
        return copies * max(copy_ms, now_ms - began_ms) + self.under_way * copy_ms <= limit_ms

    def copy_ms(self, now_ms: float) -> float | None:
        """Return the time that a copy takes (s), or None if nothing is known."""
        copy_ms = self._measured_ms(now_ms)
        return (
            max(copy_ms or 0.0, self._age_ms(self._starts[0].at_ms, now_ms - self._ack_ms))
            if self.under_way
            else copy_ms
        )

    def _age_ms(self, start_ms: float, now_ms: float) -> float:
        """Return the time for which the oldest copy on its way has occupied the link."""
        began_ms = start_ms + (self._latency_ms or 0.0)
        if self._stopped_ms is not None:
            began_ms = max(began_ms, self._stopped_ms)
        return max(0.0, now_ms - began_ms)

    def _measured_ms(self, now_ms: float) -> float | None:
        """Return the time of the copies that the link has carried."""
        self._roll(now_ms)
        if not self._copies:
            return self._copy_ms
        return max(self._copy_ms or 0.0, self._busy_ms / self._copies)

    def idle_ms(self, now_ms: float) -> float | None:
        """Return the time since the link last carried something: 0 while it does, None if it never did."""
        if self.under_way:
            return 0.0
        return None if self._stopped_ms is None else max(0.0, now_ms - self._stopped_ms)

    def _roll(self, now_ms: float) -> None:
        windows = now_ms / self._window_ms
        if windows < self._index + 1:
            return
        self._index = math.floor(windows)
        if self._copies:
            mean_ms = self._busy_ms / self._copies
            known_ms = mean_ms if self._copy_ms is None or self._is_outdated else self._copy_ms
            self._copy_ms = (known_ms + mean_ms) / 2
            self._is_outdated = False
            self._busy_ms = 0.0
            self._copies = 0
