"""``octopia scale`` at the scale tiny, its tasks, and what it keeps."""

import csv
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from octopia.cli import app
from octopia.errors import JobFailed
from octopia.experiments.scale import plan as planning
from octopia.experiments.scale.forks import run_forked
from octopia.experiments.scale.names import Scale, Series, Source, System
from octopia.experiments.scale.plan import EXTENTS, plan, points
from octopia.experiments.scale.tasks import Growth, Memory, finished, pending, run_task, run_to_file
from octopia.experiments.scale.workload import Point

TINY = EXTENTS[Scale.TINY]


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["scale", "--scale", "tiny", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_whole_study_runs_reports_and_is_not_repeated(tmp_path: Path):
    out = tmp_path / "study"
    assert f"{out}/report.html" in run("--out", str(out))
    growth, failures, memory, checks = (table(out, name) for name in ("growth", "failures", "memory", "checks"))
    assert {row["series"] for row in growth} == set(Series)
    assert {row["system"] for row in growth} == set(System)
    assert {row["source"] for row in growth if row["subscriptions"] == "4000"} == {"formula"}
    assert all(row["formula"] == row["simulated"] for row in checks)
    assert len(failures) == 5 * (4 + 4 + 2)
    assert all(float(row["bytes_per_entry"]) > 0 for row in memory if row["entries"] == "400")
    report = (out / "report.md").read_text()
    assert "0 differ" in report
    assert "octopia scale --scale tiny" in report
    assert len(list((out / "figures").glob("*.png"))) == report.count(".png")
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()}
    assert before
    run("--out", str(out), "--json")
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").iterdir()} == before


def test_a_run_is_simulated_if_it_fits():
    tasks = [task for task in plan(TINY) if isinstance(task, Growth)]
    by_source = {source: [task for task in tasks if task.source is source] for source in Source}
    assert all(task.system is System.FLOOD or task.point.subscriptions == 4000 for task in by_source[Source.FORMULA])
    assert all(planning._work(task.point, task.system) <= TINY.entries_max for task in by_source[Source.SIMULATED])


@pytest.mark.parametrize("scale", [Scale.LAPTOP, Scale.FULL])
def test_the_larger_scales_cover_the_sizes_of_the_question(scale: Scale):
    found = list(points(EXTENTS[scale]))
    of = {series: [point for point in found if point.series is series] for series in Series}
    assert {len(point.scot().brokers) for point in of[Series.REGIONS]} == {56, 224, 1000, 5000}
    assert [point.clusters for point in of[Series.CLUSTERS]] == [4, 8, 16, 32, 64]
    assert (of[Series.SUBSCRIPTIONS][0].subscriptions, of[Series.SUBSCRIPTIONS][-1].subscriptions) == (
        10_000,
        1_000_000,
    )
    names = [task.name for task in plan(EXTENTS[scale])]
    assert len(names) == len(set(names))


def test_a_result_counts_only_for_the_same_task(tmp_path: Path):
    task = Growth(Point(Series.REGIONS, "path:2", 2, 10, publications=5), System.STATIC, Source.FORMULA)
    other = Growth(msgspec.structs.replace(task.point, publications=6), System.STATIC, Source.FORMULA)
    assert pending([task], tmp_path) == [task]
    run_to_file(task, tmp_path)
    assert finished(task, tmp_path) == run_task(task)
    assert pending([task, other], tmp_path) == [other]


def test_a_task_that_fails_does_not_stop_the_others(tmp_path: Path):
    good = Memory(System.STATIC, 10)
    bad = Memory(System.FLOOD, 10)  # A flood has no brokers of its own.
    outcomes: dict[str, str] = {}
    run_forked([bad, good], tmp_path, 1, outcomes.__setitem__)
    assert outcomes[good.name] == ""
    assert outcomes[bad.name] == "ValueError: 'flood' is not a valid Algorithm"
    assert finished(good, tmp_path) is not None


def test_a_failed_run_makes_the_command_fail_after_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bad = Memory(System.FLOOD, 10)  # A flood has no brokers of its own.
    monkeypatch.setattr("octopia.experiments.scale.study.plan", lambda _: [bad, Memory(System.STATIC, 10)])
    with pytest.raises(JobFailed, match="1 failed, the first memory-10-flood"):
        run("--out", str(tmp_path))
    assert "Runs that are not finished: 1." in (tmp_path / "report.md").read_text()
