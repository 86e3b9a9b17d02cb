"""The benchmark of slow links at a tiny size, so that it stays in working order."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from namespaces import why_not

from support import load_benchmark

ALGORITHMS = ("static", "dynamic", "tid-static", "adaptive")


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load_benchmark("slow_links", monkeypatch)


def test_every_case_is_measured_in_the_simulator(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(["--places", "simulator", "--seconds", "0.3", "--seeds", "1"])
    shown = capsys.readouterr().out
    assert all(shown.count(algorithm) >= 3 for algorithm in ALGORITHMS)
    assert shown.count("600") >= 5 * 3


@pytest.mark.parametrize(
    "place",
    ["throttled", pytest.param("namespaces", marks=pytest.mark.skipif(bool(why_not()), reason=why_not() or "none"))],
)
def test_links_between_processes_are_slow(benchmark: ModuleType, place: str) -> None:
    """At a third of 100 per second, the last of 30 publications waits for more than a quarter of a second."""
    case, static = benchmark.CASES["one"], benchmark.Algorithm.STATIC
    found = benchmark.measure(benchmark.Place(place), case, static, seconds=0.3, seeds=1)
    assert found.deliveries == 30 * 6
    assert found.max_ms > 250.0


def test_namespaces_are_skipped_with_a_reason(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "why_not", lambda: "network namespaces need root")
    benchmark.main(["--places", "namespaces"])
    assert "skipping the slow links between namespaces: network namespaces need root" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_missing_publication_is_noticed(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lose_one(_ground: object, _overlay: Path, publications: int) -> dict[str, object]:
        numbers = [list(range(publications)) for _ in benchmark.SUBSCRIBERS]
        numbers[0].pop()
        return {"numbers": numbers, "doubled": [0] * len(numbers), "delays_ms": [[1.0]] * len(numbers)}

    monkeypatch.setattr(benchmark, "_play", lose_one)
    with pytest.raises(SystemExit, match="missing"):
        benchmark.play(benchmark.Place.THROTTLED, benchmark.CASES["one"], benchmark.Algorithm.STATIC, 0.1)
