"""Studies, run at a size that takes seconds: from an experiment file to tables and an audit."""

import dataclasses
from statistics import fmean

import msgspec
import pyarrow.parquet
import pytest
from small import BURST_STUDY

from octopia.content import intersects
from octopia.experiments.paper import results, study_runs
from octopia.experiments.paper.names import Model, Scale, StudyName
from octopia.experiments.paper.rows import Tables
from octopia.experiments.paper.studies import Extent, read_study
from octopia.experiments.paper.study_runs import read_study_runs, run_study, run_variants
from octopia.pipeline import jobs
from octopia.pipeline.jobs import Market
from octopia.settings import Algorithm
from octopia.simulator.profiles import PAPER, write_profile
from octopia.workloads.workload import load_workload

SMALL = Market(symbols=30, days=10)
PUBLISHERS = """
title = "small"
[workload]
tree = "path:3"
clusters = 2
publications = 1
subscribers = 0
publishers = [5]
[run]
algorithm = ["dynamic", "tid-static"]
detail = "hops"
[tiny]
[laptop]
[paper]
"""


def study_of(text, name, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    return read_study(tmp_path / "study.toml", name, Extent(Scale.LAPTOP))


def test_advertisements_cost_what_the_overlay_says(workspace, tmp_path, monkeypatch):
    study = study_of(PUBLISHERS, StudyName.PUBLISHERS, tmp_path)
    ran = run_study(workspace, study, "studies", SMALL)
    octopia, tid = ran.tables.publishers
    # Two clusters: one message and two entries an advertisement; all of six brokers and seven links know TID's.
    assert (octopia.advertisements, octopia.advertisement_messages, octopia.table_size_mean) == (5, 5, 5 * 2 / 6)
    assert (tid.advertisements, tid.table_size_mean) == (5, 5.0)
    assert tid.advertisement_messages == 5 * (2 * 7 - 5)
    assert tid.duplicate_share == pytest.approx(4 / 9)
    assert 0 < octopia.advertisement_delay_ms < tid.advertisement_delay_ms
    # All is finished: asked again, it only reads.
    monkeypatch.setattr(jobs, "make_workload", None)
    monkeypatch.setattr(jobs, "sweep", lambda _, runs, __: runs)
    assert run_study(workspace, study, "studies", SMALL) == ran


@pytest.fixture(scope="module")
def burst(workspace, tmp_path_factory):
    study = study_of(BURST_STUDY, StudyName.BURST, tmp_path_factory.mktemp("burst"))
    return study, run_study(workspace, study, "studies", SMALL)


def test_a_burst_is_played_measured_and_audited(workspace, burst):
    _, ran = burst
    assert [row.algorithm for row in ran.tables.bursts] == ["static", "dynamic"]
    for row in ran.tables.bursts:
        assert (row.rate_per_minute, row.publications, row.stable_ms) == (60_000, 60, 0.0)
        assert row.publication_messages > 0
        assert (row.share_below_1s, row.publications_below_1s, row.burst_publications_below_1s) == (1.0, 1.0, 1.0)
        assert 0 < row.burst_deliveries < row.deliveries
        assert (row.model, row.host, row.burst_late_ms) == ("links", "any", 0.0)
        assert row.target_queue_length_mean > row.queue_length_mean
    assert [(row.model, row.host) for row in ran.tables.bounds] == [(Model.LINKS, "any")]
    assert {row.algorithm for row in ran.tables.sequences} == {"static", "dynamic"}
    assert all((row.missing, row.unwanted, row.duplicate) == (0, 0, 0) for row in ran.tables.audits)
    assert [row.deliveries for row in ran.tables.audits] == [row.deliveries for row in ran.tables.bursts]
    assert all(row.deliveries > 0 for row in ran.tables.audits)


def test_means_of_the_burst_and_of_all_deliveries_are_those_of_the_trace(workspace, burst):
    study, ran = burst
    [point] = study.points
    trace = pyarrow.parquet.read_table(
        workspace.storage.absolute(f"studies/burst/runs/traces/burst-static-{point.name}/trace.parquet")
    ).to_pylist()
    of_burst = {row["publication"] for row in trace if row["event"] == "receive" and row["client"] == "burst"}
    delays = [(row["publication"], row["time_ms"] - row["published_ms"]) for row in trace if row["event"] == "deliver"]
    own = [delay_ms for publication, delay_ms in delays if publication in of_burst]
    static = ran.tables.bursts[0]
    assert (static.deliveries, static.burst_deliveries) == (len(delays), len(own))
    assert static.publication_delay_ms == pytest.approx(fmean(delay_ms for _, delay_ms in delays))
    assert static.burst_delay_ms == pytest.approx(fmean(own))


def test_the_host_and_the_copies_of_a_run_are_those_of_its_study(workspace, tmp_path):
    """On a few links, the variant that loses deliveries is told apart, and its losses are no fault."""
    text = BURST_STUDY.replace('["static", "dynamic"]', '["tid-dynamic", "tid-dynamic-per-hop"]')
    text = text.replace("start_ms = 500", 'start_ms = 500\nhost = ["inner"]')
    ran = run_study(workspace, study_of(text, StudyName.BURST, tmp_path), "variants", SMALL)
    assert [(row.host, row.algorithm) for row in ran.tables.bursts] == [
        ("inner", "tid-dynamic"),
        ("inner", "tid-dynamic-per-hop"),
    ]
    assert [row.may_miss for row in ran.tables.audits] == [False, True]
    assert all(row.is_clean for row in ran.tables.audits)


def test_the_finished_part_of_a_study_is_read_without_running_the_rest(workspace, burst):
    study, ran = burst
    (point,) = study.points
    later = dataclasses.replace(point, value=1.0, seed=9)
    unfinished = msgspec.structs.replace(point.runs[0], algorithm=Algorithm.ADAPTIVE)
    more = dataclasses.replace(point, runs=(*point.runs, unfinished))
    found = read_study_runs(workspace, dataclasses.replace(study, points=(more, later)), "studies")
    assert found == ran
    assert not workspace.storage.exists(f"studies/burst/{later.folder}")
    assert read_study_runs(workspace, dataclasses.replace(study, points=(later,)), "studies").tables == Tables()


def test_what_was_found_is_kept_until_the_run_is_another(workspace, burst, monkeypatch):
    study, ran = burst
    place = "studies/burst/runs/traces"
    (kept,) = (run for run in workspace.storage.names_in(place) if "static" in run)
    batches = []
    summarise = results._summarise
    monkeypatch.setattr(results, "_summarise", lambda *asked: batches.append(asked[2]) or summarise(*asked))
    monkeypatch.setattr(study_runs, "run_audits", lambda *_: ran.tables.audits)
    assert run_study(workspace, study, "studies", SMALL) == ran
    assert batches == []
    # As if it had been run again, and taken longer.
    noted = workspace.storage.read_json(f"{place}/{kept}/run.json")
    workspace.storage.write_json(f"{place}/{kept}/run.json", noted | {"seconds": 1234.5})
    static, dynamic = run_study(workspace, study, "studies", SMALL).tables.bursts
    assert [[each.run.run_id for each in batch] for batch in batches] == [[kept]]
    assert static == dataclasses.replace(ran.tables.bursts[0], seconds=1234.5)
    assert dynamic == ran.tables.bursts[1]
    workspace.storage.write_json(f"{place}/{kept}/run.json", noted)


def test_large_runs_are_looked_at_one_by_one(workspace, burst, monkeypatch):
    study, ran = burst
    place = "studies/burst/runs/traces"
    for run in workspace.storage.names_in(place):
        workspace.storage.remove_file(f"{place}/{run}/rows.json")
    sizes = []
    summarise = results._summarise
    monkeypatch.setattr(results, "_summarise", lambda *asked: sizes.append(len(asked[2])) or summarise(*asked))
    monkeypatch.setattr(results, "ROWS_AT_ONCE", 1)
    assert run_study(workspace, study, "studies", SMALL) == ran
    assert sizes == [1, 1]


def test_a_share_of_publishers_is_that_of_publishers_and_of_their_advertisements(workspace, burst):
    study, _ = burst
    folder = f"studies/burst/{study.points[0].folder}"
    assert workspace.storage.read_json(f"{folder}/workload.json")["selectivity"]["of_publishers"] == pytest.approx(0.5)
    loaded = load_workload(workspace.storage.absolute(folder))
    offers = [each.filter for each in loaded.advertisements if each.client != "burst"]
    assert len(offers) == 4
    for subscription in loaded.subscriptions:
        assert sum(intersects(each, subscription.filter) for each in offers) == 2


def test_a_study_under_several_profiles_gives_tables_of_each(workspace, burst, tmp_path):
    study, ran = burst
    slow = write_profile(dataclasses.replace(PAPER, name="slow", send_us=30_000.0), tmp_path)
    tables = run_variants(workspace, study, "studies", SMALL, {"assumed": "paper", "slow": str(slow)})
    assert tables["assumed"] == dataclasses.replace(ran.tables, bounds=(), audits=())
    for before, after in zip(ran.tables.bursts, tables["slow"].bursts, strict=True):
        assert (after.algorithm, after.deliveries) == (before.algorithm, before.deliveries)
        assert after.publication_delay_ms > 5 * before.publication_delay_ms
