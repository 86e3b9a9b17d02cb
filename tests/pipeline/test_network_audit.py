"""Workloads on real brokers: the same trace, and the same audit."""

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from octopia.errors import UsageError
from octopia.experiments.local_overlay import at_free_addresses, running
from octopia.overlay.files import overlay_from_text
from octopia.pipeline.jobs import Workspace, audit_runs
from octopia.pipeline.metrics import messages, publication_delay
from octopia.pipeline.traces import read_traces
from octopia.settings import Algorithm, RoutingSettings
from octopia.trace import Parquet
from octopia.transport.loop import run_loop
from octopia.workloads.network_run import NetworkTrace, Pace, Played, play_on_network
from octopia.workloads.runs import RunSpec, overlay_of
from octopia.workloads.workload import load_workload

FIRST = 200


@pytest.fixture(scope="module")
def played(workspace, small_workload) -> dict[str, Played]:
    """The results of running the workload with two algorithms, by the name of the run and its folder."""
    return {
        f"network-{algorithm}": play(workspace, small_workload, algorithm, f"network-{algorithm}")
        for algorithm in (Algorithm.DYNAMIC, Algorithm.TID_STATIC)
    }


def play(workspace: Workspace, small_workload: str, algorithm: Algorithm, name: str) -> Played:
    workload = load_workload(small_workload)
    overlay = overlay_from_text(workload.tree, workload.scot.clusters)
    overlay = at_free_addresses(dataclasses.replace(overlay, routing=RoutingSettings(algorithm)))
    folder = Path(workspace.storage.absolute(name))
    folder.mkdir()
    with running(overlay, 1), Parquet(folder / "trace.parquet") as sink:
        writer = NetworkTrace(name, algorithm.value, [sink])
        coming = play_on_network(workload, overlay.addresses, writer, Pace(FIRST, speed=20.0), lambda *_: None)
        return run_loop(coming)


def test_the_audit_of_runs_on_the_network_finds_nothing_wrong(workspace, played):
    summaries = audit_runs(workspace, list(played), "small", "network-faults")
    assert [row["run_id"] for row in summaries] == sorted(played)
    for row in summaries:
        assert (row["publications"], row["missing"], row["unwanted"], row["duplicates"]) == (FIRST, 0, 0, 0)
        assert row["deliveries"] == row["owed"] == played[row["run_id"]].deliveries > 0


def test_metrics_read_runs_on_the_network(spark, workspace, played):
    trace = read_traces(spark, workspace.storage, *played)
    delays = {row.run_id: row for row in publication_delay(trace).collect()}
    counted: dict[str, dict[str, int]] = {name: {} for name in played}
    for row in messages(trace).collect():
        counted[row.run_id][row.kind] = row.messages
    for name, result in played.items():
        assert delays[name].deliveries == result.deliveries
        assert 0 < delays[name].delay_ms_p50 < delays[name].delay_ms_max
        sent: Counter[str] = Counter()
        for report in result.reports.values():
            sent.update(report["sent"])
        assert counted[name] == {kind: count for kind, count in sent.items() if count}
        assert counted[name]["publication"] > 0


def test_an_overlay_file_must_have_the_brokers_of_the_workload(small_workload, tmp_path):
    (tmp_path / "other.toml").write_text('tree = "a-b"\nclusters = 2\n')
    (tmp_path / "same.toml").write_text('tree = "path:3"\nclusters = 2\n[[link]]\nbetween = ["a.0", "a.1"]\nrate = 5\n')
    workload = load_workload(small_workload)
    with pytest.raises(UsageError, match="expected the brokers of the workload"):
        overlay_of(RunSpec(workload=small_workload, overlay=str(tmp_path / "other.toml")), workload)
    shaped = overlay_of(RunSpec(workload=small_workload, overlay=str(tmp_path / "same.toml")), workload)
    assert len(shaped.shapes) == 2
