"""Full size: ten thousand subscribers, and all of the real data; the other files have small versions."""

import pytest
from real_data import real_data

from octopia.pipeline.jobs import Market, find_truth, make_workload, run_audit, run_sweep
from octopia.pipeline.spec import WorkloadSpec
from octopia.settings import Algorithm
from octopia.workloads.runs import RunSpec

pytestmark = pytest.mark.soak


def test_ten_thousand_subscribers_on_the_papers_overlay(workspace):
    spec = WorkloadSpec(publications=100, subscribers=10_000, seed=1)
    made = make_workload(workspace, "large", spec, Market())
    assert made.selectivity.of_publications == pytest.approx(0.02, rel=0.1)
    find_truth(workspace, "large")
    large = workspace.storage.absolute("large")
    both = (Algorithm.DYNAMIC, Algorithm.ADAPTIVE)
    runs = [RunSpec(workload=large, run_id=each.value, algorithm=each, first=2000) for each in both]
    outcomes, _ = run_sweep(workspace, runs, "large-runs")
    assert [each.error for each in outcomes] == ["", ""]
    for summary in run_audit(workspace, "large-runs", "large"):
        assert summary["publications"] == 2000
        assert summary["deliveries"] == summary["owed"] > 300_000
        assert (summary["missing"], summary["unwanted"], summary["duplicates"]) == (0, 0, 0)


@pytest.mark.skipif(not real_data().exists(), reason="five years of the S&P 500 are not at hand")
def test_all_of_the_real_data_from_bars_to_audit(workspace):
    spec = WorkloadSpec(publishers=101, publications=0, subscribers=200)
    made = make_workload(workspace, "real", spec, Market(str(real_data())))
    assert made.manifest["publications"] == 619_017
    assert sum(made.rejects.values()) == 23
    assert made.selectivity.of_publications == pytest.approx(0.02, rel=0.1)
    real = workspace.storage.absolute("real")
    assert find_truth(workspace, "real") == pytest.approx(0.02 * 619_017 * 200, rel=0.1)
    runs = [RunSpec(workload=real, algorithm=each, first=2000).named() for each in Algorithm]
    outcomes, _ = run_sweep(workspace, runs, "real-runs")
    assert [each.error for each in outcomes] == [""] * 5
    for summary in run_audit(workspace, "real-runs", "real"):
        assert summary["publications"] == 2000
        assert summary["unwanted"] == summary["duplicates"] == 0
        assert summary["missing"] == 0
