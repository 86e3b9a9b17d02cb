"""History on Spark finds the same rows as history in one process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from octopia.cli import app
from octopia.cli import history as command
from octopia.pipeline.historic import history_rows
from octopia.protocol import Cause
from octopia.protocol.messages import Gap
from octopia.records import history
from octopia.records.selection import Question
from records_samples import MORNING_MS, add_to_archive, found_in, numbered, received


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three slices: two in files, and one in the spool."""
    monkeypatch.setattr(history, "SLICE_ROWS", 50)
    for start in (0, 60):
        add_to_archive(tmp_path, numbered(*(received(n, payload=b"\xff") for n in range(start, start + 60))))
    add_to_archive(tmp_path, [*numbered(received(120)), (200, Gap(Cause.NEW_SESSION, 4))], is_rolled=False)
    return tmp_path


@pytest.mark.parametrize("question", [Question(), Question("n >= 55 AND n < 65", MORNING_MS + 56)], ids=["all", "some"])
def test_both_engines_give_the_same_rows_in_the_same_order(spark: SparkSession, folder: Path, question: Question):
    found = list(history_rows(spark, folder, question))
    assert found == found_in(folder, question)
    assert len(found) == (122 if question == Question() else 9)


def test_the_command_prints_the_same_with_both(run_command: Callable[..., str], folder: Path):
    by_spark, by_arrow = (
        run_command("history", "n > 100", "--archive", str(folder), "--engine", engine, "--json")
        for engine in ("spark", "arrow")
    )
    assert by_spark == by_arrow
    assert by_spark.count("\n") == 21


def test_the_command_takes_spark_for_many_rows_if_it_is_there(
    run_command: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[object] = []
    monkeypatch.setattr(command, "SPARK_ROWS", 10)
    monkeypatch.setattr(
        command, "_rows_by_spark", lambda *given: asked.append(given) or contextlib.nullcontext(iter(()))
    )
    run_command("history", "n > 100", "--archive", str(folder))
    assert len(asked) == 1
    run_command("history", "n > 100", "--archive", str(folder), "--limit", "5")
    monkeypatch.setattr(command, "has_spark", lambda: False)
    assert run_command("history", "n > 100", "--archive", str(folder)).count("\n") == 20
    assert len(asked) == 1


def test_the_command_says_that_spark_starts_and_ends_on_ctrl_c(
    run_command: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    words = ["history", "n > 100", "--archive", str(folder), "--engine", "spark"]
    done = CliRunner().invoke(app, words)
    assert done.stdout.count("\n") == 20
    assert done.stderr.count("starting Spark") == 1
    monkeypatch.setattr(command, "_show", interrupt)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1] == "octopia: stopped"
