"""Delays of a run, from its trace."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from octopia.errors import InvalidData
from octopia.experiments.delays import read_delays

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
    columns = {"event": events, "time_ms": times_ms, "published_ms": published_ms, "publication": range(len(rows))}
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), file)
    return file


def test_delays_are_grouped_by_the_time_of_publication(tmp_path: Path):
    found = read_delays(trace(tmp_path, [*ROWS, ("deliver", 700.0, 690.0)]))
    assert found.curve.times_s == [0.125, 0.625]
    assert found.curve.means_s == pytest.approx([(2.5 + 0.01 + 0.04 + 0.01 + 0.02) / 5, 0.01])


def test_only_deliveries_count(tmp_path: Path):
    found = read_delays(trace(tmp_path, ROWS))
    assert (found.count, found.mean_ms, found.max_ms) == (5, 516.0, 2500.0)
    assert found.mean_ms < found.p99_ms < found.max_ms


def test_an_interval_of_publications(tmp_path: Path):
    file = trace(tmp_path, ROWS)
    assert (read_delays(file, end=3).count, read_delays(file, begin=3).count) == (2, 3)
    assert read_delays(file, begin=3).max_ms == 40.0
    with pytest.raises(InvalidData, match="expected deliveries"):
        read_delays(file, begin=100)


def test_a_trace_without_deliveries_is_refused(tmp_path: Path):
    with pytest.raises(InvalidData, match="expected deliveries"):
        read_delays(trace(tmp_path, ROWS[:1]))
