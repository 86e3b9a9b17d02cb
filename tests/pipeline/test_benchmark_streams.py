"""The benchmark of streams at a small size, to keep it working."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import load_benchmark


@pytest.mark.soak
def test_source_sink_and_delay_are_measured(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    load_benchmark("streams", monkeypatch).main(["--rows", "2000", "--rate", "20", "--seconds", "0.5", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 2000
    assert all(value > 0 for value in found.values())
    assert found["delay_ms_p50"] <= found["delay_ms_p95"]


def test_it_fails_loudly_if_a_row_is_missing(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    benchmark = load_benchmark("streams", monkeypatch)
    fill = benchmark.fill_spool
    monkeypatch.setattr(benchmark, "fill_spool", lambda folder, rows: fill(folder, rows - 1))
    with pytest.raises(SystemExit, match="WRONG: the table has 99 rows"):
        benchmark.measure_source(spark, tmp_path, 100)
