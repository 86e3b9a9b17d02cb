"""Tasks of any kind on Spark, such as the runs of the scale study."""

import functools
from pathlib import Path

import msgspec
import pytest

from octopia.experiments.scale import study as studying
from octopia.experiments.scale.forks import run_one
from octopia.experiments.scale.names import Scale, Series, Source, System
from octopia.experiments.scale.tasks import Growth, Memory, finished
from octopia.experiments.scale.workload import Point
from octopia.pipeline.tasks import run_tasks

SMALL = Point(Series.REGIONS, "path:2", 2, 10, publishers=4, publications=5)


def test_each_task_runs_in_a_process_of_its_own_and_errors_are_returned(spark, tmp_path: Path):
    good = Growth(SMALL, System.STATIC, Source.SIMULATED)
    bad = Memory(System.FLOOD, 10)  # A flood has no brokers of its own.
    run = functools.partial(run_one, folder=str(tmp_path))
    errors = run_tasks(spark, run, [msgspec.json.encode(task) for task in (good, bad)])
    assert errors[0] == ""
    assert "not a valid Algorithm" in errors[1]
    assert finished(good, tmp_path) is not None
    assert run_tasks(spark, run, []) == []


def test_the_study_runs_on_spark(workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tasks = [Growth(SMALL, system, Source.SIMULATED) for system in (System.STATIC, System.TID)]
    monkeypatch.setattr(studying, "plan", lambda _: [*tasks, Memory(System.STATIC, 20)])
    done = studying.study(Scale.TINY, tmp_path, studying.on_spark(workspace))
    assert (dict(done.failed), done.wrong) == ({}, ())
    assert (tmp_path / "tables" / "growth.csv").read_text().count("simulated") == 2
