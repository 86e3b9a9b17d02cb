"""Links in virtual time: delay, rate and bandwidth.

A wire is one direction of a link. It takes from the broker's queue whenever it can carry more. Control messages leave
at once. A publication occupies the wire for the time that the link's rate and bandwidth demand, and the next one
stays in the broker's queue meanwhile: that is where congestion shows.
"""

from __future__ import annotations

from octopia.ids import BrokerId, Peer


class Wire:
    """One direction of a link."""

    __slots__ = ("_last_control_ns", "_last_data_ns", "delay_ns", "free_at_ns", "interval_ns", "source", "target")

    def __init__(self, source: BrokerId, target: Peer, delay_ns: int):
        self.source = source
        self.target = target
        self.delay_ns = delay_ns
        self.interval_ns = 0
        self.free_at_ns = 0
        self._last_control_ns = 0
        self._last_data_ns = 0

    def set_rate(self, publications_per_second: float) -> None:
        """Let at most so many publications pass in a second."""
        self.interval_ns = round(1e9 / publications_per_second)

    def arrival_ns(self, earliest_ns: int, *, control: bool, data: bool) -> int:
        """Return when a batch of ``control`` or ``data`` arrives: never before what left earlier of its kind."""
        if control:
            earliest_ns = max(earliest_ns, self._last_control_ns)
        if data:
            earliest_ns = self._last_data_ns = max(earliest_ns, self._last_data_ns)
        if control:
            self._last_control_ns = earliest_ns
        return earliest_ns
