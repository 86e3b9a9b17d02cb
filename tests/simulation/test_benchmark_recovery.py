"""The benchmark of recovery at a tiny size, so that it stays in working order."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from support import load_benchmark

SCENARIOS = ["recovery", "confirmation", "departure"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("recovery", monkeypatch)


def test_every_scenario_is_measured_and_checked(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(["--sizes", "1200", "--scenarios", *SCENARIOS, "--json"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["scenario"] for each in found] == SCENARIOS
    assert all(each["inner_cpu_ms"] > 0 and each["others_cpu_ms"] > 0 for each in found)


def test_recovery_over_sockets(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(["--sizes", "600", "--scenarios", "sockets"])
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["sockets", "600"]


def test_it_fails_loudly_if_a_subscription_is_lost(benchmark: ModuleType) -> None:
    bench = benchmark.Bench()
    with pytest.raises(SystemExit, match=r"the PRT of a\.0 has 0 entries, expected 1"):
        bench.check(1)
