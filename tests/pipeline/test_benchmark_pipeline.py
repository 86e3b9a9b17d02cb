"""The benchmark of the pipeline at a small size, to keep it working."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from support import load_benchmark

TINY = ["--publications", "200", "--subscriptions", "20", "--json"]


@pytest.mark.soak
def test_all_stages_are_measured_and_checked(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("duckdb")
    load_benchmark("pipeline", monkeypatch).main(TINY)
    found = json.loads(capsys.readouterr().out)
    assert (found["publications"], found["subscriptions"]) == (200, 20)
    assert found["matches"] > 0
    stages = {name: found[name] for name in found if name.endswith("_s")}
    assert list(stages) == ["workload_s", "truth_s", "audit_s", "metrics_s", "duckdb_truth_s", "wall_s"]
    # Of so few rows, duckdb needs less processor time than can be measured.
    assert all(value > 0 for name, value in stages.items() if name != "duckdb_truth_s")
