"""The variations of the cost model."""

import pytest

from octopia.experiments.paper.names import StudyName
from octopia.experiments.paper.sensitivity import QUANTITIES, SENDERS, VARIATIONS, _decisive_profiles, small_study
from octopia.simulator.profiles import PAPER, PAPER_BROKER_SENDER_RACE_TREES, find_profile, write_profile


def test_every_study_has_results_and_variations_to_try():
    assert set(QUANTITIES) == set(StudyName)
    for name in StudyName:
        assert len([each for each in VARIATIONS if name in each.studies]) >= 5


def test_every_assumption_of_the_profile_is_varied():
    varied = set().union(*(each.costs for each in VARIATIONS))
    assert varied == PAPER.assumptions().keys() - {"name", "description"} | {"credit_kib"}


@pytest.mark.parametrize("variation", VARIATIONS, ids=lambda each: each.name)
def test_a_variation_changes_what_it_says_and_nothing_else(variation, tmp_path):
    path = write_profile(variation.profile(), tmp_path)
    read, paper = find_profile(str(path)).assumptions(), PAPER.assumptions()
    changed = {key for key in paper.keys() | read.keys() if paper.get(key) != read.get(key)}
    assert changed - {"name", "description"} == set(variation.costs)
    assert bool(variation.costs) == (variation.name != "as-assumed")


def test_dynamic_routing_on_static_paths_is_not_run_again():
    runs = {name: small_study(name).points[0].runs for name in StudyName}
    assert [run.algorithm for run in runs[StudyName.DELIVERY]] == ["static", "tid-static"]
    assert [run.algorithm for run in runs[StudyName.BURST]] == ["static", "dynamic", "tid-static", "tid-dynamic"]
    assert [run.algorithm for run in runs[StudyName.PUBLISHERS]] == ["dynamic", "tid-static"]
    assert [point.host for point in small_study(StudyName.BURST).points] == ["edge"]


def test_decisive_assumptions_are_combined(tmp_path):
    written = _decisive_profiles(tmp_path)
    assert list(written) == [(sender, trees) for sender in SENDERS for trees in ("shortest paths", "races")]
    assert len(set(written.values())) == len(written)
    slower = find_profile(str(written["one per machine, 4 times slower", "shortest paths"]))
    assert (slower.sender, slower.send_us) == ("machine", 375.0)
    both = find_profile(str(written["one per broker", "races"]))
    named = ("name", "description")
    expected = {key: value for key, value in PAPER_BROKER_SENDER_RACE_TREES.assumptions().items() if key not in named}
    assert {key: value for key, value in both.assumptions().items() if key not in named} == expected
