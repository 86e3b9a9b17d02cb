"""Workloads on real brokers: the same trace, and the same audit."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from octopia.errors import UsageError
from octopia.experiments.embedded import at_free_addresses, running
from octopia.overlay.files import overlay_from_text
from octopia.pipeline.jobs import run_audit
from octopia.pipeline.metrics import messages, publication_delay
from octopia.pipeline.traces import read_traces
from octopia.playing.files import load_workload
from octopia.playing.networked import NetworkTrace, Pace, Played, play_on_network
from octopia.playing.runs import RunSpec, overlay_of
from octopia.runtime.process import run_loop
from octopia.settings import Algorithm, RoutingSettings
from octopia.trace import Parquet

FIRST = 200


@pytest.fixture(scope="module", params=[Algorithm.DYNAMIC, Algorithm.TID_STATIC])
def played(request, bench, small_workload) -> Iterator[tuple[str, Played]]:
    workload = load_workload(small_workload)
    overlay = overlay_from_text(workload.tree, workload.scot.clusters)
    overlay = at_free_addresses(dataclasses.replace(overlay, routing=RoutingSettings(request.param)))
    name = f"network-{request.param}"
    folder = Path(bench.storage.absolute(name))
    folder.mkdir()
    with running(overlay, 1), Parquet(folder / "trace.parquet") as sink:
        writer = NetworkTrace(name, request.param.value, [sink])
        coming = play_on_network(workload, overlay.addresses, writer, Pace(FIRST, speed=20.0), lambda *_: None)
        result = run_loop(coming)
    return name, result


def test_the_audit_of_a_run_on_the_network_finds_nothing_wrong(bench, played):
    name, result = played
    (summary,) = run_audit(bench, name, "small")
    assert (summary["publications"], summary["missing"], summary["unwanted"], summary["duplicates"]) == (FIRST, 0, 0, 0)
    assert summary["deliveries"] == summary["owed"] == result.deliveries > 0


def test_metrics_read_a_run_on_the_network(spark, bench, played):
    name, result = played
    trace = read_traces(spark, bench.storage, name)
    (delay,) = publication_delay(trace).collect()
    assert delay.deliveries == result.deliveries
    assert 0 < delay.delay_ms_p50 < delay.delay_ms_max
    counted = {row.kind: row.messages for row in messages(trace).collect()}
    sent: dict[str, int] = {}
    for report in result.reports.values():
        for kind, count in report["sent"].items():
            sent[kind] = sent.get(kind, 0) + count
    assert counted == {kind: count for kind, count in sent.items() if count}
    assert counted["publication"] > 0


def test_an_overlay_file_must_have_the_brokers_of_the_workload(small_workload, tmp_path):
    (tmp_path / "other.toml").write_text('tree = "a-b"\nclusters = 2\n')
    (tmp_path / "same.toml").write_text('tree = "path:3"\nclusters = 2\n[[link]]\nbetween = ["a.0", "a.1"]\nrate = 5\n')
    workload = load_workload(small_workload)
    with pytest.raises(UsageError, match="expected the brokers of the workload"):
        overlay_of(RunSpec(workload=small_workload, overlay=str(tmp_path / "other.toml")), workload)
    shaped = overlay_of(RunSpec(workload=small_workload, overlay=str(tmp_path / "same.toml")), workload)
    assert len(shaped.shapes) == 2
