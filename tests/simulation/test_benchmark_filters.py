"""The filter benchmark at a tiny size: the worst filters that are accepted, within their limits."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "filters.py"
TINY = ["--repeats", "30", "--cases", "30", "--subscriptions", "300"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_filters", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_worst_filters_stay_within_their_limits(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main(TINY)
    frame, *heaviest, search, forgotten = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert frame["peak_bytes"] < 5_000_000
    assert [each["kind"] for each in heaviest] == list(benchmark.candidates())
    assert max(each["model_us"] for each in heaviest) > 450  # otherwise the limit would show nothing
    assert search["of_model"] > 0
    assert forgotten["kept_bytes"] < 6_000_000


def test_it_fails_loudly_if_an_answer_is_wrong(benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "matches", lambda interest, publication: True)
    with pytest.raises(SystemExit, match="WRONG: contains: wrong match"):
        benchmark.measure_heaviest("contains", 1)
