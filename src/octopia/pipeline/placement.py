"""The placement of clients on the brokers of an overlay.

Publishers and subscribers are placed at random. The subscribers of a burst are spread over all clusters, and none is at
the broker of the burst's publisher.
"""

from __future__ import annotations

import dataclasses

from octopia.ids import BrokerId
from octopia.pipeline.randomness import chosen
from octopia.pipeline.schedule import BURST
from octopia.pipeline.spec import WorkloadSpec

_BURST_KEY = 2**32 - 1
"""The key of a burst's publisher in random draws, which no other publisher has."""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """The brokers of a workload's clients; they depend on the seed and the client alone."""

    spec: WorkloadSpec
    brokers: tuple[BrokerId, ...]

    @classmethod
    def of(cls, spec: WorkloadSpec) -> Placement:
        """Return the placement of a workload."""
        return cls(spec, tuple(spec.scot().brokers))

    def publisher(self, name: str) -> str:
        """Return the broker of a publisher; that of a burst may have to be of some kind."""
        if name == BURST:
            return str(chosen(self.spec.seed, "publisher", self.spec.burst_hosts, _BURST_KEY))
        return str(chosen(self.spec.seed, "publisher", self.brokers, int(name[1:])))

    def subscriber(self, number: int) -> str:
        """Return the broker of a subscriber."""
        if number >= self.spec.burst_subscribers:
            return str(chosen(self.spec.seed, "subscriber", self.brokers, number))
        clusters = self.spec.scot().clusters
        host = self.publisher(BURST)
        allowed = [each for each in self.brokers if each.cluster == number % clusters and str(each) != host]
        return str(chosen(self.spec.seed, "burst subscriber", allowed or self.brokers, number))
