"""The benchmark of bursts at a tiny size, so that it stays in working order."""

from __future__ import annotations

from types import ModuleType

import pytest

from support import load_benchmark


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("bursts", monkeypatch)


def test_every_algorithm_is_measured_and_checked(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(["--seeds", "1", "--publications", "60", "--hosts", "A.0"])
    shown = capsys.readouterr().out
    assert all(algorithm in shown for algorithm in ("static", "dynamic", "tid-static", "adaptive"))
    assert "fluid bound" in shown


def test_the_bound_of_a_burst_that_its_links_can_carry(benchmark: ModuleType) -> None:
    mean_s, last_s = benchmark.bound_of(benchmark.Burst("G.0", 1, publications=300, per_second=100.0))
    assert (mean_s, last_s) == (0.0, 3.0)
