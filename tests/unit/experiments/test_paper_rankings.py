"""Whether the simulator and real brokers put algorithms in the same order."""

import pytest

from octopia.experiments.paper.rankings import orderings
from octopia.experiments.paper.rows import RealRow


def row(algorithm: str, real_ms: float, simulated_ms: float, study: str = "burst", seed: int = 0) -> RealRow:
    return RealRow(study, algorithm, seed, 100, 50, 3.0, real_ms, 1.0, 400, simulated_ms, 400, 0.4, "enough")


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
    rows = [row("static", real_ms[0], simulated_ms[0]), row("dynamic", real_ms[1], simulated_ms[1])]
    (ordering,) = orderings(rows)
    assert (ordering.pair, ordering.verdict) == (("static", "dynamic"), verdict)


def test_only_runs_of_the_same_study_and_seed_are_compared():
    rows = [row("static", 1, 1), row("dynamic", 1, 1, seed=1), row("tid-static", 1, 1, study="delivery")]
    assert orderings(rows) == []
    assert len(orderings([row(name, 1, 1) for name in ("static", "dynamic", "tid-static", "tid-dynamic")])) == 6
