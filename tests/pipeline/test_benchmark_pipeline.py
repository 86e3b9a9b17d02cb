"""The benchmark of the pipeline at a small size, to keep it working."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "pipeline.py"
TINY = ["--publications", "200", "--subscriptions", "20", "--json"]


def load_benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_pipeline", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.soak
def test_all_stages_are_measured_and_checked(spark: SparkSession, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("duckdb")
    load_benchmark().main(TINY)
    found = json.loads(capsys.readouterr().out)
    assert (found["publications"], found["subscriptions"]) == (200, 20)
    assert found["matches"] > 0
    stages = {name: found[name] for name in found if name.endswith("_s")}
    assert list(stages) == ["workload_s", "truth_s", "audit_s", "metrics_s", "duckdb_truth_s", "wall_s"]
    # Of so few rows, duckdb needs less processor time than can be measured.
    assert all(value > 0 for name, value in stages.items() if name != "duckdb_truth_s")
