"""Reading traces by every kind of name, and the errors for invalid ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from trace_frames import fact, table

from octopia.errors import InvalidData
from octopia.pipeline.schemas import TRACE
from octopia.pipeline.storage import Storage
from octopia.pipeline.traces import read_traces
from octopia.trace import LATER_COLUMNS, JsonLines, Parquet, Row, TraceSink

ROWS = [
    fact("deliver", 3.0, publication=7, subscription="s/0", hop=1, published_ms=0.5),
    fact("table", 4.0, kind="prt", value=2),
]
OTHERS = [fact("send", 1.25, run="other", kind="publication", publication=0, queue_length=3)]


def write(sink: TraceSink, rows: list[Row]) -> None:
    for row in rows:
        sink.write(row)
    sink.close()


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    root = tmp_path_factory.mktemp("traces")
    for folder in (
        "run",
        "lines",
        "sweep/traces/a",
        "sweep/traces/b",
        "sweep/traces/.c",
        "sweep/traces/_d",
        "sweep/traces/e",
        "nothing",
    ):
        (root / folder).mkdir(parents=True)
    write(Parquet(root / "run/trace.parquet"), ROWS)
    write(JsonLines(root / "lines/trace.jsonl"), ROWS)
    # If both exist, Parquet, the faster one, is read.
    write(JsonLines(root / "run/trace.jsonl"), OTHERS)
    write(Parquet(root / "sweep/traces/a/trace.parquet"), ROWS)
    write(Parquet(root / "sweep/traces/b/trace.parquet"), OTHERS)
    for finished in ("a", "b", ".c"):
        (root / "sweep/traces" / finished / "run.json").write_text("{}")
    for unfinished in (".c", "_d", "e"):
        (root / "sweep/traces" / unfinished / "trace.parquet").write_bytes(b"not yet")
    return Storage(str(root))


def expected(rows: list[Row]) -> list[tuple[object, ...]]:
    return sorted((tuple(getattr(row, name) for name in TRACE.names) for row in rows), key=repr)


@pytest.mark.parametrize("name", ["run", "run/trace.parquet", "lines", "lines/trace.jsonl"])
def test_one_run(spark: SparkSession, storage: Storage, name: str):
    trace = read_traces(spark, storage, name)
    assert [(field.name, field.dataType) for field in trace.schema] == [(each.name, each.dataType) for each in TRACE]
    assert table(trace) == sorted(expected([ROWS[0], fact("table", 4.0, kind="prt", value=2.0)]), key=repr)


def test_a_sweep_is_all_its_finished_runs(spark: SparkSession, storage: Storage):
    assert read_traces(spark, storage, "sweep").select("run_id").count() == 3


def test_an_absolute_path_needs_no_root(spark: SparkSession, storage: Storage):
    assert read_traces(spark, Storage(), storage.path("sweep/traces/b")).select("run_id").collect() == [("other",)]


def test_an_empty_trace_has_no_rows(spark: SparkSession, tmp_path: Path):
    (tmp_path / "trace.jsonl").write_text("")
    trace = read_traces(spark, Storage(str(tmp_path)), "trace.jsonl")
    assert (trace.columns, trace.collect()) == (TRACE.names, [])


def complaint(spark: SparkSession, storage: Storage, name: str) -> str:
    with pytest.raises(InvalidData) as caught:
        read_traces(spark, storage, name)
    return str(caught.value)


def test_a_wrong_path_is_named(spark: SparkSession, storage: Storage):
    for name in ("nowhere", "nowhere.parquet"):
        assert complaint(spark, storage, name).startswith(f"expected a trace at {storage.root}/{name}, got none")


def test_a_folder_without_a_trace_is_told_from_one_that_is_not_there(spark: SparkSession, storage: Storage):
    assert "at " + storage.path("nothing") + ", got none of them" in complaint(spark, storage, "nothing")


def test_a_sweep_of_unfinished_runs_has_no_trace(spark: SparkSession, storage: Storage, tmp_path: Path):
    shutil.copytree(storage.path("sweep/traces/.c"), tmp_path / "traces/.c")
    assert "finished runs in traces/" in complaint(spark, Storage(str(tmp_path.parent)), tmp_path.name)


def test_a_finished_run_without_a_trace_is_an_error_and_not_left_out(
    spark: SparkSession, storage: Storage, tmp_path: Path
):
    shutil.copytree(storage.path("sweep/traces"), tmp_path / "traces")
    (tmp_path / "traces/b/trace.parquet").unlink()
    assert "traces/b/trace.parquet" in complaint(spark, Storage(str(tmp_path)), ".")


def test_a_trace_of_an_earlier_version_is_read(spark: SparkSession, storage: Storage, tmp_path: Path):
    for folder in ("lines", "sweep/traces/old", "sweep/traces/new"):
        (tmp_path / folder).mkdir(parents=True)
    table_then = pq.read_table(storage.path("run/trace.parquet")).drop_columns(list(LATER_COLUMNS))
    pq.write_table(table_then, tmp_path / "sweep/traces/old/trace.parquet")
    lines = "".join(json.dumps(row) + "\n" for row in table_then.to_pylist())
    (tmp_path / "lines/trace.jsonl").write_text(lines)
    shutil.copy(storage.path("run/trace.parquet"), tmp_path / "sweep/traces/new/trace.parquet")
    for folder in ("old", "new"):
        (tmp_path / "sweep/traces" / folder / "run.json").write_text("{}")
    now = table(read_traces(spark, storage, "run"))
    old = Storage(str(tmp_path))
    assert table(read_traces(spark, old, "lines")) == table(read_traces(spark, old, "sweep/traces/old")) == now
    assert read_traces(spark, old, "sweep").count() == 2 * len(now)


def test_missing_columns_are_named(spark: SparkSession, tmp_path: Path):
    storage = Storage(str(tmp_path))
    row = {name: None for name in TRACE.names if name not in ("hop", "civ")}
    (tmp_path / "some.jsonl").write_text(json.dumps(row) + "\n")
    spark.range(1).write.parquet(str(tmp_path / "some.parquet"))
    assert complaint(spark, storage, "some.jsonl").endswith("civ, hop are missing")
    assert "got id: run_id, algorithm" in complaint(spark, storage, "some.parquet")


@pytest.mark.parametrize(
    ("name", "said"),
    [("a.jsonl", "expected one JSON object per line"), ("a.parquet", "it is not Parquet, or it is damaged")],
)
def test_what_is_no_trace_is_refused(spark: SparkSession, tmp_path: Path, name: str, said: str):
    (tmp_path / name).write_text("[1, 2]\n")
    assert said in complaint(spark, Storage(str(tmp_path)), name)
