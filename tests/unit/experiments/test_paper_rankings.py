"""The order of algorithms, in the simulator and on real brokers."""

import pytest

from octopia.experiments.paper.names import StudyName
from octopia.experiments.paper.rankings import rankings
from octopia.experiments.paper.rows import CpuSupply, RealRow
from octopia.settings import Algorithm

STATIC, DYNAMIC, TID_STATIC = Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.TID_STATIC


def row(algorithm: Algorithm, real_ms: float, simulated_ms: float, study=StudyName.BURST, seed: int = 0) -> RealRow:
    return RealRow(study, algorithm, seed, 100, 50, 3.0, real_ms, 1.0, 400, simulated_ms, 400, 0.4, CpuSupply.ENOUGH)


@pytest.mark.parametrize(
    ("real_ms", "simulated_ms", "verdict"),
    [
        ((100, 10), (90, 20), "confirmed"),
        ((10, 100), (90, 20), "contradicted"),
        ((100, 95), (90, 85), "the same in both"),
        ((100, 95), (90, 20), "apart in one only"),
        ((100, 10), (90, 85), "apart in one only"),
    ],
)
def test_a_pair_is_judged_by_both(real_ms, simulated_ms, verdict):
    rows = [row(STATIC, real_ms[0], simulated_ms[0]), row(DYNAMIC, real_ms[1], simulated_ms[1])]
    (ranking,) = rankings(rows)
    assert (ranking.pair, ranking.verdict) == ((STATIC, DYNAMIC), verdict)


def test_only_runs_of_the_same_study_and_seed_are_compared():
    rows = [row(STATIC, 1, 1), row(DYNAMIC, 1, 1, seed=1), row(TID_STATIC, 1, 1, study=StudyName.DELIVERY)]
    assert rankings(rows) == []
    assert len(rankings([row(name, 1, 1) for name in list(Algorithm)[:4]])) == 6
