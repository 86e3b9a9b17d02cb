"""The benchmark of streams at a small size, to keep it working."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "streams.py"


def load_benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_streams", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.soak
def test_source_sink_and_delay_are_measured(spark: SparkSession, capsys: pytest.CaptureFixture[str]):
    load_benchmark().main(["--rows", "2000", "--rate", "20", "--seconds", "0.5", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 2000
    assert all(value > 0 for value in found.values())
    assert found["delay_ms_p50"] <= found["delay_ms_p95"]


def test_it_fails_loudly_if_a_row_is_missing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    benchmark = load_benchmark()
    fill = benchmark.fill_spool
    monkeypatch.setattr(benchmark, "fill_spool", lambda folder, rows: fill(folder, rows - 1))
    with pytest.raises(SystemExit, match="WRONG: the table has 99 rows"):
        benchmark.measure_source(spark, tmp_path, 100)
