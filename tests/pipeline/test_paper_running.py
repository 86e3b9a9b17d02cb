"""Studies, run at a size that takes seconds: from an experiment file to tables and an audit."""

import dataclasses
import shutil

import pytest
from small import BURST_STUDY

from octopia.content import intersects
from octopia.errors import UsageError
from octopia.experiments.paper import finding, real
from octopia.experiments.paper.names import Name, Scale
from octopia.experiments.paper.real import ENOUGH, SHORT, UNKNOWN, run_really
from octopia.experiments.paper.running import run_study, run_variants, stable_ms
from octopia.experiments.paper.studies import Extent, read_study
from octopia.experiments.paper.tables import SequenceRow
from octopia.pipeline import jobs
from octopia.pipeline.jobs import Market
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
profile = "paper"
detail = "hops"
[tiny]
[laptop]
[paper]
"""


def study_of(text, name, tmp_path):
    (tmp_path / "study.toml").write_text(text)
    return read_study(tmp_path / "study.toml", name, Extent(Scale.LAPTOP))


def test_advertisements_cost_what_the_overlay_says(bench, tmp_path, monkeypatch):
    study = study_of(PUBLISHERS, Name.PUBLISHERS, tmp_path)
    ran = run_study(bench, study, "studies", SMALL)
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
    assert run_study(bench, study, "studies", SMALL) == ran


@pytest.fixture(scope="module")
def burst(bench, tmp_path_factory):
    study = study_of(BURST_STUDY, Name.BURST, tmp_path_factory.mktemp("burst"))
    return study, run_study(bench, study, "studies", SMALL)


def test_a_burst_is_played_measured_and_audited(bench, burst):
    _, ran = burst
    assert [row.algorithm for row in ran.tables.bursts] == ["static", "dynamic"]
    for row in ran.tables.bursts:
        assert (row.rate_per_minute, row.publications, row.stable_ms) == (60_000, 60, 0.0)
        assert row.publication_messages > 0
        assert row.share_below_1s == 1.0
    assert {row.algorithm for row in ran.tables.sequences} == {"static", "dynamic"}
    assert all((row.missing, row.unwanted, row.duplicate) == (0, 0, 0) for row in ran.audits)
    assert [row.deliveries for row in ran.audits] == [row.deliveries for row in ran.tables.bursts]
    assert all(row.deliveries > 0 for row in ran.audits)


def test_what_was_found_is_kept_until_the_run_is_another(bench, burst, monkeypatch):
    study, ran = burst
    place = "studies/burst/runs/traces"
    (kept,) = (run for run in bench.storage.names_in(place) if "static" in run)
    batches = []
    look = finding._look
    monkeypatch.setattr(finding, "_look", lambda *asked: batches.append(asked[2]) or look(*asked))
    assert run_study(bench, study, "studies", SMALL) == ran
    assert batches == []
    # As if it had been run again, and taken longer.
    noted = bench.storage.read_json(f"{place}/{kept}/run.json")
    bench.storage.write_json(f"{place}/{kept}/run.json", noted | {"seconds": 1234.5})
    static, dynamic = run_study(bench, study, "studies", SMALL).tables.bursts
    assert [list(batch) for batch in batches] == [[kept]]
    assert static == dataclasses.replace(ran.tables.bursts[0], seconds=1234.5)
    assert dynamic == ran.tables.bursts[1]
    bench.storage.write_json(f"{place}/{kept}/run.json", noted)


def test_large_runs_are_looked_at_one_by_one(bench, burst, monkeypatch):
    study, ran = burst
    place = "studies/burst/runs/traces"
    for run in bench.storage.names_in(place):
        bench.storage.remove_file(f"{place}/{run}/found.json")
    sizes = []
    look = finding._look
    monkeypatch.setattr(finding, "_look", lambda *asked: sizes.append(len(asked[2])) or look(*asked))
    monkeypatch.setattr(finding, "ROWS_AT_ONCE", 1)
    assert run_study(bench, study, "studies", SMALL) == ran
    assert sizes == [1, 1]


def test_a_share_of_publishers_is_that_of_publishers_and_of_their_advertisements(bench, burst):
    study, _ = burst
    folder = f"studies/burst/{study.points[0].folder}"
    assert bench.storage.read_json(f"{folder}/workload.json")["selectivity"]["of_publishers"] == pytest.approx(0.5)
    loaded = load_workload(bench.storage.absolute(folder))
    offers = [each.filter for each in loaded.advertisements if each.client != "burst"]
    assert len(offers) == 4
    for subscription in loaded.subscriptions:
        assert sum(intersects(each, subscription.filter) for each in offers) == 2


def test_a_study_under_several_profiles_gives_tables_of_each(bench, burst, tmp_path):
    study, ran = burst
    slow = write_profile(dataclasses.replace(PAPER, name="slow", send_us=30_000.0), tmp_path)
    tables = run_variants(bench, study, "studies", SMALL, {"assumed": "paper", "slow": str(slow)})
    assert tables["assumed"] == ran.tables
    for before, after in zip(ran.tables.bursts, tables["slow"].bursts, strict=True):
        assert (after.algorithm, after.deliveries) == (before.algorithm, before.deliveries)
        assert after.publication_delay_ms > 5 * before.publication_delay_ms


def test_a_study_over_sockets_is_audited_and_stands_beside_the_simulator(bench, burst, tmp_path, monkeypatch):
    (point,) = burst[0].points
    study = dataclasses.replace(burst[0], points=(dataclasses.replace(point, runs=point.runs[:1]),), link_rate=40.0)
    (tmp_path / "burst").mkdir()
    made = bench.storage.absolute(f"studies/burst/{study.points[0].folder}")
    shutil.copytree(made, tmp_path / "burst" / study.points[0].folder)
    ran = run_really(bench, study, tmp_path, SMALL)
    (static,), (audit,) = ran.rows, ran.audits
    assert (audit.missing, audit.unwanted, audit.duplicate, audit.deliveries) == (0, 0, 0, static.deliveries)
    assert (static.algorithm, static.publications, static.offered) == ("static", 60, 25.0)
    assert static.deliveries > 0
    assert static.processors in (ENOUGH, SHORT, UNKNOWN)
    # Forty publications over a link that carries forty a second.
    assert static.publication_delay_ms > 50
    assert static.simulated_delay_ms > 50
    assert static.publication_messages == static.simulated_messages
    # All is finished: asked again, it only reads.
    monkeypatch.setattr(real, "play_on_brokers", None)
    assert run_really(bench, study, tmp_path, SMALL) == ran
    # With other links they would be other runs.
    with pytest.raises(UsageError, match="to be the same run of the same workload, got another one"):
        run_really(bench, dataclasses.replace(study, link_rate=30.0), tmp_path, SMALL)


def sequence_of(*delays_ms: float) -> list[SequenceRow]:
    return [SequenceRow(60_000, "static", 0, number, delay, 100.0 * number) for number, delay in enumerate(delays_ms)]


def test_a_run_is_stable_after_its_last_late_group():
    assert stable_ms(sequence_of(5.0, 1000.0, 7.0)) == 0.0
    assert stable_ms(sequence_of(5.0, 1500.0, 9.0, 2000.0, 7.0)) == 300.0
    assert stable_ms(sequence_of(5.0, 1500.0)) is None
