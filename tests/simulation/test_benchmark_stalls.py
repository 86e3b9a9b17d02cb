"""The benchmark of long inputs at a tiny size, so that it stays in working order."""

from __future__ import annotations

import gc
import json

import pytest

from support import load_benchmark


def test_every_scenario_is_measured_and_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stalls = load_benchmark("stalls", monkeypatch)
    stalls.main(["--size", "1200", "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["scenario"] for each in found] == [*stalls.SCENARIOS]
    assert all(each["input_cpu_ms"] > 0 for each in found)
    assert gc.get_freeze_count() == 0


def test_the_longest_of_all_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    load_benchmark("stalls", monkeypatch).main(["--size", "400", "--scenarios", "exchange", "changes"])
    *_, exchange, changes, longest = capsys.readouterr().out.splitlines()
    assert (exchange.split()[0], changes.split()[0]) == ("exchange", "changes")
    assert longest.startswith("the longest of all took")
