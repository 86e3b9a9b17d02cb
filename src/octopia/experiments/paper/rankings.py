"""Whether the simulator puts algorithms in the order in which real brokers put them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from octopia.experiments.paper.rows import RealRow

APART = 0.1
"""Two delays are apart if they differ by more than this share of the larger; others are too close to call."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ordering:
    """Two algorithms in one study: which is faster in virtual time and over sockets; none where it is too close."""

    study: str
    pair: tuple[str, str]
    simulated: str | None
    real: str | None

    @property
    def verdict(self) -> str:
        """What the comparison says, in a few words."""
        if self.simulated is None and self.real is None:
            return "the same in both"
        if self.simulated == self.real:
            return "confirmed"
        if self.simulated is None or self.real is None:
            return "apart in one only"
        return "contradicted"


def orderings(rows: Sequence[RealRow]) -> list[Ordering]:
    """Compare all pairs of algorithms that were run in the same study with the same seed."""
    groups: dict[tuple[str, int], list[RealRow]] = {}
    for row in rows:
        groups.setdefault((row.study, row.seed), []).append(row)
    return [
        Ordering(
            one.study,
            (one.algorithm, other.algorithm),
            _faster(one, other, one.simulated_delay_ms, other.simulated_delay_ms),
            _faster(one, other, one.publication_delay_ms, other.publication_delay_ms),
        )
        for group in groups.values()
        for one, other in itertools.combinations(group, 2)
    ]


def _faster(one: RealRow, other: RealRow, delay_ms: float, other_delay_ms: float) -> str | None:
    if abs(delay_ms - other_delay_ms) <= APART * max(delay_ms, other_delay_ms):
        return None
    return one.algorithm if delay_ms < other_delay_ms else other.algorithm
