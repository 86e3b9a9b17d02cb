"""Delays of a run, from its trace."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.errors import InvalidData
from octopia.experiments.demo.delays import read_delays

ROWS = [
    # event, time_ms, published_ms
    ("receive", 0.0, 0.0),
    ("deliver", 2600.0, 100.0),
    ("deliver", 10.0, 0.0),
    ("deliver", 240.0, 200.0),
    ("deliver", 249.0, 239.0),
    ("deliver", 250.0, 230.0),
    ("send", 2600.0, None),
]


def trace(tmp_path: Path, rows: list[tuple[str, float, float | None]]) -> Path:
    events, times_ms, published_ms = zip(*rows, strict=True)
    file = tmp_path / "trace.parquet"
    pq.write_table(pa.table({"event": events, "time_ms": times_ms, "published_ms": published_ms}), file)
    return file


def test_delays_are_grouped_by_the_time_of_delivery(tmp_path: Path):
    found = read_delays(trace(tmp_path, ROWS))
    assert found.curve.times_s == [0.125, 0.375, 2.625]
    assert found.curve.medians_s == pytest.approx([0.01, 0.02, 2.5])
    assert found.curve.maxima_s == pytest.approx([0.04, 0.02, 2.5])


def test_only_deliveries_count(tmp_path: Path):
    found = read_delays(trace(tmp_path, ROWS))
    assert (found.median_ms, found.max_ms) == (20.0, 2500.0)
    assert found.median_ms < found.p99_ms < found.max_ms


def test_a_trace_without_deliveries_is_refused(tmp_path: Path):
    with pytest.raises(InvalidData, match="expected deliveries"):
        read_delays(trace(tmp_path, ROWS[:1]))
