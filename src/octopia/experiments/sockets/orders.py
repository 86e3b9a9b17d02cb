"""The order of algorithms by delay, in the simulator and on real brokers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from octopia.experiments.paper.names import StudyName
from octopia.experiments.paper.rows import RealRow
from octopia.settings import Algorithm

APART = 0.1
"""Two delays are apart if they differ by more than this share of the larger; otherwise they are too close to call."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ranking:
    """The faster of two algorithms in one study, in virtual time and over sockets; none where it is too close."""

    study: StudyName
    pair: tuple[Algorithm, Algorithm]
    simulated: Algorithm | None
    real: Algorithm | None

    @property
    def verdict(self) -> str:
        """The result of the comparison, in a few words."""
        if self.simulated is None and self.real is None:
            return "the same in both"
        if self.simulated == self.real:
            return "confirmed"
        if self.simulated is None or self.real is None:
            return "apart in one only"
        return "contradicted"


def rankings(rows: Sequence[RealRow]) -> list[Ranking]:
    """Rank all pairs of algorithms that were run in the same study with the same seed."""
    groups: dict[tuple[StudyName, int], list[RealRow]] = {}
    for row in rows:
        groups.setdefault((row.study, row.seed), []).append(row)
    return [
        Ranking(
            one.study,
            (one.algorithm, other.algorithm),
            _faster(one, other, one.simulated_delay_ms, other.simulated_delay_ms),
            _faster(one, other, one.publication_delay_ms, other.publication_delay_ms),
        )
        for group in groups.values()
        for one, other in itertools.combinations(group, 2)
    ]


def _faster(one: RealRow, other: RealRow, delay_ms: float, other_delay_ms: float) -> Algorithm | None:
    if abs(delay_ms - other_delay_ms) <= APART * max(delay_ms, other_delay_ms):
        return None
    return one.algorithm if delay_ms < other_delay_ms else other.algorithm
