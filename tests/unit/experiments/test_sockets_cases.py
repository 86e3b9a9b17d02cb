"""The sizes of the comparison over sockets."""

import pytest

from octopia.experiments.sockets.cases import CASES, CaseName, case_of, full_study, laptop_study, tiny_study


@pytest.mark.parametrize(
    ("study", "sizes", "runs"),
    [(tiny_study(), [12], 20), (laptop_study(), [12, 56], 40), (full_study(), [12, 56], 120)],
)
def test_every_case_is_run_under_every_algorithm(study, sizes, runs):
    assert sorted({setup.brokers for setup in study.setups}) == sizes
    assert study.runs == runs


def test_slow_links_carry_a_third_of_the_burst():
    for setup in full_study().setups:
        assert setup.link_rate == pytest.approx(setup.burst_per_s / 3)
        burst = setup.workload.burst
        assert burst is not None
        assert burst.start_ms > setup.outage_ms
        # The others publish for about as long as the burst lasts.
        assert setup.workload.publications / 2 >= burst.publications / setup.burst_per_s


def test_seeds_can_be_fewer():
    assert [setup.seed for setup in full_study(1).setups] == [4, 6]


def test_cases_are_found_by_name():
    assert [case_of(name).name for name in CaseName] == [case.name for case in CASES]
