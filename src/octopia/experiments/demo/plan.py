"""The plan of the demo: a workload with a burst, on an overlay with slow links in which a broker is killed."""

from __future__ import annotations

import dataclasses

from octopia.errors import UsageError
from octopia.pipeline.spec import Burst, WorkloadSpec


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A workload with a burst, the market that it is made from, and the publications per second that slow links carry.

    A broker is killed after the publications that are due before ``outage_ms``. The workload is played ``speed`` times
    faster than it says.
    """

    workload: WorkloadSpec
    symbols: int
    days: int
    link_rate: float
    outage_ms: float
    speed: float = 1.0

    def __post_init__(self) -> None:
        """Raise UsageError if nothing can congest."""
        if self.workload.burst is None:
            raise UsageError("expected a workload with a burst, got one without")
        if self.outage_ms <= self.burst.start_ms + 60_000.0 * self.burst.publications / self.burst.per_minute:
            raise UsageError(f"expected an outage after the burst, got one at {self.outage_ms:g} ms")
        if not 0 < self.link_rate <= self.burst_rate / 2:
            wanted = f"at most half of the burst's {self.burst_rate:g} publications per second"
            raise UsageError(f"expected slow links to carry {wanted}, got {self.link_rate:g}")

    @property
    def burst(self) -> Burst:
        """The burst."""
        assert self.workload.burst is not None
        return self.workload.burst

    @property
    def burst_rate(self) -> float:
        """The publications per second of the burst."""
        return self.burst.per_minute / 60.0 * self.speed

    @property
    def burst_s(self) -> tuple[float, float]:
        """The times at which the burst begins and ends."""
        begin = self.burst.start_ms / 1000.0 / self.speed
        return begin, begin + self.burst.publications / self.burst_rate


DEMO = Plan(
    WorkloadSpec(
        tree="path:3",
        clusters=4,
        publishers=20,
        publications=20,
        subscribers=200,
        burst=Burst(publications=640, per_minute=9600.0, start_ms=1000.0, share=0.03),
        seed=4,
    ),
    symbols=110,
    days=40,
    link_rate=50.0,
    outage_ms=6000.0,
)
"""Under 25 seconds per algorithm. The seed puts the burst at b.3, as in the paper's example."""
