"""Admission of new clients: limited by how far the event loop lags.

A broker whose loop lags serves its neighbours and its clients late. While the loop lags by more than ``LAG_MAX_S``, new
clients are turned away. Each is given a time to come back, ``SLOT_S`` after that of the one before it.
"""

from __future__ import annotations

import time

from octopia.protocol.handshake import RETRY_MS_MAX

LAG_MAX_S = 0.25
SLOT_S = 0.001
"""The time that a broker needs for one client: its handshake and a few requests."""


class Admission:
    """The decision whether a new client is admitted now. ``ticked`` must be called every ``tick_s``."""

    def __init__(self, tick_s: float):
        self._tick_s = tick_s
        self._due_s = time.monotonic() + tick_s
        self._lag_s = 0.0
        self._slot_s = 0.0

    def ticked(self) -> None:
        """Note the lag of a tick."""
        now_s = time.monotonic()
        self._lag_s = now_s - self._due_s
        self._due_s = now_s + self._tick_s

    @property
    def lag_s(self) -> float:
        """The lag of the last tick, or that of the next one if it is overdue by more."""
        return max(self._lag_s, time.monotonic() - self._due_s)

    def retry_ms(self) -> int:
        """Return 0 if a new client is admitted now, otherwise the time after which it may come back."""
        lag_s = self.lag_s
        if lag_s < LAG_MAX_S:
            return 0
        now_s = time.monotonic()
        self._slot_s = max(self._slot_s, now_s + lag_s) + SLOT_S
        return min(RETRY_MS_MAX, int((self._slot_s - now_s) * 1000.0))
