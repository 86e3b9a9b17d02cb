"""The benchmark of the truth at a small size, to keep it working."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "truth.py"
TINY = ["--publications", "300", "--subscriptions", "20", "--partitions", "2", "--sample", "5", "--json"]


def load_benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_truth", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_engines_are_measured_and_compared(spark: SparkSession, capsys: pytest.CaptureFixture[str]):
    load_benchmark().main(TINY)
    found = json.loads(capsys.readouterr().out)
    assert found["pairs"] >= found["pairs_compared"] > 0
    assert found["fast_s"] > 0
    assert found["worker_peak_mb"] > 0


def test_it_fails_loudly_if_the_engines_differ(spark: SparkSession, monkeypatch: pytest.MonkeyPatch):
    benchmark = load_benchmark()
    right = benchmark.matches

    def wrong(*arguments: Any) -> Any:
        return right(*arguments).where("subscription != 7")

    monkeypatch.setattr(benchmark, "matches", wrong)
    monkeypatch.setattr(benchmark, "_warm_up", lambda *_: None)
    with pytest.raises(SystemExit, match="WRONG"):
        benchmark.main(TINY)
