"""``octopia demo``, with made-up results in place of brokers and Spark."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from demo_outcomes import BUSY, FAULTY, outcome
from typer.testing import CliRunner, Result

from octopia.cli import app, demo
from octopia.errors import JobFailed, MissingDependency, UsageError
from octopia.experiments.demo import live
from octopia.experiments.demo import outcome as demo_outcome
from octopia.experiments.demo.outcome import Outcome

pytest.importorskip("matplotlib")


@contextlib.contextmanager
def no_spark(*_: object, **__: object) -> Iterator[SimpleNamespace]:
    yield SimpleNamespace(stages=SimpleNamespace(line=lambda _: contextlib.nullcontext()))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    def invoke(told: Outcome, *arguments: str) -> Result:
        monkeypatch.setattr(demo, "open_workspace", no_spark)
        monkeypatch.setattr(demo_outcome, "run_demo", lambda *_: told)
        return CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out"), *arguments], catch_exceptions=False)

    return invoke


def test_the_last_lines_say_where_the_report_is_and_what_to_try_next(run: Callable[..., Result], tmp_path: Path):
    result = run(outcome())
    assert result.exit_code == 0
    lines = "\n".join(result.stdout.splitlines())
    assert "audit of static routing: 60 cut off, 0 missing otherwise, 0 unwanted, 0 duplicate" in lines
    assert "audit of adaptive routing: 0 cut off, 0 missing otherwise, 0 unwanted, 0 duplicate" in lines
    assert "next: octopia paper" in lines
    assert "CPUs were short" not in lines
    assert (tmp_path / "out" / "report.html").exists()
    assert (tmp_path / "out" / "figures" / "delays.png").exists()


def test_it_says_when_cpus_were_short(run: Callable[..., Result]):
    assert "CPUs were short" in run(outcome(cpu=BUSY)).stdout


def test_numbers_as_json(run: Callable[..., Result], tmp_path: Path):
    found = json.loads(run(outcome(), "--json").stdout)
    assert found["report"] == str(tmp_path / "out" / "report.html")
    assert found["killed"] == "b.1"
    assert [each["algorithm"] for each in found["runs"]] == ["static", "dynamic", "adaptive"]
    assert [each["killed_broker"]["owed"] for each in found["runs"]] == [600, 600, 600]
    assert found["runs"][0]["slow_links"]["delivered"] == found["runs"][0]["slow_links"]["owed"] == 1000


def test_faults_are_a_failure(run: Callable[..., Result]):
    with pytest.raises(JobFailed, match="the audit found faults"):
        run(outcome(FAULTY))
    with pytest.raises(JobFailed, match="the audit found faults"):
        run(outcome(lost_adaptively=1))


def test_the_tables_tell_both_parts_of_the_story(run: Callable[..., Result]):
    rows = [line.split("│")[1:-1] for line in run(outcome()).stdout.splitlines() if line.startswith("│")]
    slow, later = rows[:3], rows[3:]
    assert [[cell.strip() for cell in row][:3] for row in slow] == [
        [name, "1,000", "1,000"] for name in ("static", "dynamic", "adaptive")
    ]
    assert [[cell.strip() for cell in row][:4] for row in later] == [
        ["static", "600", "540", "90%"],
        ["dynamic", "600", "550", "91.6%"],
        ["adaptive", "600", "600", "100%"],
    ]


def test_without_matplotlib_it_says_what_to_install(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name))
    with pytest.raises(MissingDependency, match=r"\[spark,plot\]"):
        run(outcome())


def test_a_folder_that_cannot_be_made_is_refused(run: Callable[..., Result], tmp_path: Path):
    (tmp_path / "out").write_text("taken")
    with pytest.raises(UsageError, match="a folder that can be created"):
        run(outcome())


def test_the_live_map_takes_a_token(monkeypatch: pytest.MonkeyPatch):
    called: list[tuple[str, str]] = []
    monkeypatch.setattr(live, "run_live", lambda http, token, announce: called.append((http, token)))
    with_token = ["demo", "--live", "--http", "0.0.0.0:0", "--http-token", "a-long-enough-token"]
    assert CliRunner().invoke(app, with_token, catch_exceptions=False).exit_code == 0
    assert called == [("0.0.0.0:0", "a-long-enough-token")]


def test_a_live_map_for_other_machines_needs_a_token():
    with pytest.raises(UsageError, match="give one with --http-token"):
        CliRunner().invoke(app, ["demo", "--live", "--http", "0.0.0.0:0"], catch_exceptions=False)
