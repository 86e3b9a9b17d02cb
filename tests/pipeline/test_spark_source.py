"""Spools and archives as streams and tables of Spark: exact offsets, typed columns, the brokers' filters."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import DoubleType, LongType, StringType, StructType
from streaming import append_available, run_available

from octopia.errors import DamagedData, UsageError
from octopia.pipeline.spark_columns import ROW_COLUMNS, Columns
from octopia.pipeline.spark_pushdown import narrowed
from octopia.pipeline.spark_source import OctopiaSource, PushdownReader, SpoolStreamReader
from octopia.protocol import Cause
from octopia.protocol.messages import Gap
from octopia.records.rows import with_offsets
from octopia.records.selection import Question
from octopia.records.spool import SpoolReader, open_spool
from records_samples import INTEREST, MORNING_MS, add_to_archive, add_to_spool, batch_of, numbered, received

SYMBOLS = "symbol string, price double"
GAP = (10**6, Gap(Cause.NEW_SESSION, 3))


def quotes(start: int, end: int) -> list[tuple[int, object]]:
    return numbered(*(received(n, {"symbol": f"S{n % 3}", "price": n / 2, "n": n}) for n in range(start, end)))


# Columns.


def test_attributes_become_typed_columns_and_other_types_are_null():
    schema = StructType().add("x", DoubleType()).add("attributes.count", LongType()).add("kind", StringType())
    contents = [{"x": 1, "count": 2}, {"x": 2.5, "count": 2.5}, {"x": "a", "count": True}, {"x": 2**53 + 1}, {"y": 1}]
    rows = batch_of([*numbered(*(received(n, each) for n, each in enumerate(contents))), GAP])
    found = Columns(schema).convert(with_offsets(0, rows))
    assert found.column("x").to_pylist() == [1.0, 2.5, None, None, None, None]
    assert found.column("attributes.count").to_pylist() == [2, None, None, None, None, None]
    assert found.column("kind").to_pylist() == ["publication"] * 5 + ["gap"]


def test_columns_of_wrong_types_are_refused():
    with pytest.raises(UsageError, match="expected the column count of rows as bigint, got string: an attribute"):
        Columns(StructType().add("count", StringType()))
    with pytest.raises(UsageError, match="expected the attribute x as a string, bigint, double or boolean, got int"):
        Columns(StructType().add("x", "integer"))


# Offsets.


def reader_of(folder: Path, **options: str) -> SpoolStreamReader:
    reader = OctopiaSource({"path": str(folder), **options}).streamReader(ROW_COLUMNS)
    assert isinstance(reader, SpoolStreamReader)
    return reader


@pytest.mark.parametrize(("starting", "offset"), [("earliest", 0), ("latest", 10), ("7", 7)])
def test_a_stream_starts_where_it_is_told_and_stays_there(tmp_path: Path, starting: str, offset: int):
    add_to_spool(tmp_path, quotes(0, 10))
    reader = reader_of(tmp_path, STARTINGOFFSET=starting, consumer="c")
    assert reader.initialOffset() == {"offset": offset}
    add_to_spool(tmp_path, quotes(10, 20))
    assert reader.initialOffset() == {"offset": offset}
    # The process dies before the first batch is done, and another one is asked again.
    assert reader_of(tmp_path, startingOffset=starting, consumer="c").initialOffset() == {"offset": offset}


def test_the_latest_offset_needs_a_consumer_that_records_it(tmp_path: Path):
    add_to_spool(tmp_path, quotes(0, 10))
    with pytest.raises(UsageError, match=r"expected a consumer with the startingOffset latest, .*, got none"):
        reader_of(tmp_path, startingOffset="latest").initialOffset()


def test_a_first_batch_whose_rows_are_gone_is_not_taken_for_an_empty_one(tmp_path: Path):
    add_to_spool(tmp_path, quotes(0, 4), block=1, segment_bytes=1)
    assert reader_of(tmp_path).initialOffset() == {"offset": 0}
    # Spark has logged that the first batch ends with row 2, and the process dies; meanwhile retention removes rows.
    reader_of(tmp_path, consumer="other").commit({"offset": 3})
    with open_spool(tmp_path, INTEREST) as spool:
        spool.trim()
    strict, lax = reader_of(tmp_path), reader_of(tmp_path, failOnDataLoss="false")
    start = strict.initialOffset()
    assert start == {"offset": 3}
    with pytest.raises(DamagedData, match=r"up to the row 2 of .*, got a start at 3: .* name a consumer"):
        strict.partitions(start, {"offset": 2})
    assert lax.partitions(start, {"offset": 2}) == []


def test_batches_are_bounded_and_end_where_the_spool_was(tmp_path: Path):
    add_to_spool(tmp_path, quotes(0, 10))
    reader = reader_of(tmp_path, maxrowsperbatch="4")
    assert reader.getDefaultReadLimit() == ReadMaxRows(4)
    assert reader.latestOffset({"offset": 8}, ReadMaxRows(4)) == {"offset": 10}
    assert reader.latestOffset({"offset": 1}, ReadMaxRows(4)) == {"offset": 5}
    reader.prepareForTriggerAvailableNow()
    add_to_spool(tmp_path, quotes(10, 20))
    assert reader.latestOffset({"offset": 1}, ReadAllAvailable()) == {"offset": 10}
    assert reader.latestOffset({"offset": 12}, ReadAllAvailable()) == {"offset": 12}
    assert reader.reportLatestOffset() == {"offset": 20}
    with pytest.raises(
        DamagedData, match=r"expected a spool with at least 21 rows in .*, got 20: after a crash, start"
    ):
        reader.latestOffset({"offset": 21}, ReadAllAvailable())


def test_a_commit_lets_the_spool_remove_rows(tmp_path: Path):
    add_to_spool(tmp_path, quotes(0, 4), block=1, segment_bytes=1)
    reader_of(tmp_path, consumer="c").commit({"offset": 2})
    with open_spool(tmp_path, INTEREST) as spool:
        spool.trim()
    assert SpoolReader(tmp_path).first_offset == 2


def rows_of(reader: SpoolStreamReader, start: int, end: int) -> list[int]:
    parts = reader.partitions({"offset": start}, {"offset": end})
    return [each for part in parts for batch in reader.read(part) for each in batch.column("offset").to_pylist()]


def test_rows_that_were_removed_and_gaps_stop_a_stream_unless_told_otherwise(tmp_path: Path):
    add_to_spool(tmp_path, [*quotes(0, 3), GAP, *quotes(4, 6)], block=1, segment_bytes=1)
    strict, lax = reader_of(tmp_path), reader_of(tmp_path, failOnDataLoss="FALSE")
    assert rows_of(strict, 0, 3) == [0, 1, 2]
    with pytest.raises(DamagedData, match=r"got a gap \(new_session\) at the offset 3"):
        rows_of(strict, 2, 5)
    assert rows_of(lax, 0, 6) == [0, 1, 2, 3, 4, 5]
    parts = strict.partitions({"offset": 0}, {"offset": 3})
    reader_of(tmp_path, consumer="c").commit({"offset": 2})
    with open_spool(tmp_path, INTEREST) as spool:
        spool.trim()
    for read in (lambda: rows_of(strict, 0, 3), lambda: list(strict.read(parts[0]))):
        with pytest.raises(DamagedData, match=r"expected the rows 0 to 1 of .*, got none"):
            read()
    assert rows_of(lax, 0, 6) == [2, 3, 4, 5]
    assert rows_of(lax, 0, 1) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "expected the option path"),
        ({"path": "s3a://bucket/out"}, "expected a local folder, got s3a://bucket/out: "),
        ({"failOnDataLoss": "perhaps"}, "expected true or false as the option failOnDataLoss, got 'perhaps'"),
        ({"maxRowsPerBatch": "0"}, "expected a number of at least 1 as the option maxRowsPerBatch, got '0'"),
        ({"startingOffset": "first"}, "expected a startingOffset of earliest, latest or a number, got 'first'"),
        ({"startingOffset": "2"}, "expected a startingOffset of at most 1, the number of rows in .*, got 2"),
    ],
)
def test_wrong_options_are_told(tmp_path: Path, options: dict[str, str], message: str):
    add_to_spool(tmp_path, quotes(0, 1))
    with pytest.raises(UsageError, match=message):
        reader_of(**{"folder": tmp_path, **options}).initialOffset() if "path" not in options else OctopiaSource(
            options
        ).reader(ROW_COLUMNS)


def test_an_archive_is_no_stream(tmp_path: Path):
    add_to_archive(tmp_path, quotes(0, 1))
    with pytest.raises(UsageError, match="expected the folder of a spool to stream from, got the archive"):
        reader_of(tmp_path)


@pytest.mark.parametrize("pushed", [[], [EqualTo(("n",), 1)]], ids=["plain", "pushed"])
def test_gaps_fail_a_table_if_they_are_within_its_times(tmp_path: Path, pushed: list[Filter]):
    add_to_archive(tmp_path, quotes(0, 2))
    # A file in which no row matches: it has a gap, noted at the beginning of the day.
    add_to_archive(tmp_path, [*numbered(received(9, {"symbol": "S0"})), GAP])
    schema = StructType().add("n", LongType())

    def offsets(**options: str) -> list[int]:
        given = {"path": str(tmp_path), "failOnDataLoss": "true", "pushdown": "true", "filter": "n >= 1", **options}
        reader = OctopiaSource(given).reader(schema)
        assert isinstance(reader, PushdownReader)
        reader.pushFilters(pushed)
        found = [batch for part in reader.partitions() for batch in reader.read(part)]
        return [n for batch in found for n in batch.column("n").to_pylist()]

    with pytest.raises(DamagedData, match=r"got a gap \(new_session\) at the offset 3"):
        offsets()
    assert offsets(failOnDataLoss="false") == [1]
    assert offsets(**{"from": str(MORNING_MS + 1)}) == [1]
    with pytest.raises(DamagedData, match="got a gap"):
        offsets(to=str(MORNING_MS + 5))


# Pushed filters.

TYPED = StructType().add("price", DoubleType()).add("symbol", StringType()).add("published_ms", DoubleType())


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (GreaterThan(("price",), 1.5), Question("price > 1.5", has_notices=False)),
        (IsNotNull(("price",)), Question("price IS NOT NULL", has_notices=False)),
        (In(("symbol",), ("a", None, "b")), Question("symbol IN ('a', 'b')", has_notices=False)),
        (StringStartsWith(("symbol",), "a"), Question("symbol LIKE 'a%'", has_notices=False)),
        (EqualTo(("published_ms",), 5.0), Question(from_ms=5.0, to_ms=math.nextafter(5.0, 6.0))),
        (LessThanOrEqual(("published_ms",), 5.0), Question(to_ms=math.nextafter(5.0, 6.0))),
        (GreaterThan(("published_ms",), 5.0), Question(from_ms=5.0)),
        (IsNull(("price",)), Question()),
        (Not(EqualTo(("price",), 1.0)), Question()),
        (GreaterThan(("price",), 1), Question()),
        (GreaterThan(("price",), math.nan), Question()),
        (GreaterThan(("other",), 1.0), Question()),
        (EqualTo(("price", "field"), 1.0), Question()),
    ],
    ids=str,
)
def test_filters_of_spark_narrow_a_question(pushed: object, expected: Question):
    assert narrowed(Question(), [pushed], TYPED) == expected


# In a session.


def test_a_table_needs_no_registration_and_has_typed_columns(spark: SparkSession, tmp_path: Path):
    add_to_archive(tmp_path, quotes(0, 6))
    add_to_archive(tmp_path, [*quotes(6, 8), GAP], is_rolled=False)
    frame = spark.read.format("octopia").option("schema", SYMBOLS).option("filter", "price >= 1").load(str(tmp_path))
    assert frame.columns == [*ROW_COLUMNS.names, "symbol", "price"]
    found = frame.orderBy("offset").collect()
    assert [(row["offset"], row["symbol"], row["price"]) for row in found[:2]] == [(2, "S2", 1.0), (3, "S0", 1.5)]
    assert [row["kind"] for row in found] == ["publication"] * 6 + ["gap"]
    # Without their kind, gaps cannot be told from publications.
    assert spark.read.format("octopia").schema(SYMBOLS).load(str(tmp_path)).count() == 8
    times = {"from": "2024-10-04T00:00:00.002", "to": str(MORNING_MS + 4), "path": str(tmp_path)}
    assert spark.read.format("octopia").schema(SYMBOLS).options(**times).load().count() == 2


def test_pushed_filters_change_no_answer(spark: SparkSession, tmp_path: Path):
    add_to_archive(tmp_path, [*quotes(0, 50), GAP])
    plain = spark.read.format("octopia").option("schema", SYMBOLS).option("path", str(tmp_path))
    conditions = [
        "price > 3 AND symbol = 'S1'",
        "price IS NULL",
        "symbol IN ('S1', 'S2') AND price BETWEEN 2 AND 4",
        f"published_ms < {MORNING_MS + 5} OR price = 12",
        f"published_ms >= {MORNING_MS + 45} AND symbol LIKE 'S%'",
    ]
    expected = [sorted(row["offset"] for row in plain.load().where(each).collect()) for each in conditions]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushing = plain.option("pushdown", "true")
        found = [sorted(row["offset"] for row in pushing.load().where(each).collect()) for each in conditions]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert found == expected
    assert [len(each) for each in found] == [15, 1, 4, 6, 5]
    with pytest.raises(PySparkException, match=r"filterPushdown\.enabled"):
        pushing.load().count()


def test_a_stream_reads_each_row_once_over_restarts(spark: SparkSession, tmp_path: Path):
    spool, out, checkpoint = tmp_path / "spool", tmp_path / "out", tmp_path / "checkpoint"
    add_to_spool(spool, quotes(0, 25))
    source = spark.readStream.format("octopia").option("consumer", "c").option("maxRowsPerBatch", 10)
    frame = source.schema(f"offset long, {SYMBOLS}").option("filter", "symbol <> 'S0'").load(str(spool))
    append_available(frame, out, checkpoint)
    assert SpoolReader(spool).consumers.committed("c") == 20
    add_to_spool(spool, quotes(25, 31))
    append_available(frame, out, checkpoint)
    found = [row["offset"] for row in spark.read.parquet(str(out)).select("offset").collect()]
    assert sorted(found) == [n for n in range(31) if n % 3]


def test_a_gap_stops_a_stream_with_a_reason(spark: SparkSession, tmp_path: Path):
    add_to_spool(tmp_path / "spool", [*quotes(0, 3), GAP])
    frame = spark.readStream.format("octopia").load(str(tmp_path / "spool"))
    with pytest.raises(PySparkException, match=r"got a gap \(new_session\) at the offset 3"):
        run_available(frame, tmp_path / "checkpoint")
    lax = spark.readStream.format("octopia").option("failOnDataLoss", "false").load(str(tmp_path / "spool"))
    rows, progress = run_available(lax.select(F.col("kind")), tmp_path / "checkpoint-2")
    assert sorted(row["kind"] for row in rows) == ["gap", "publication", "publication", "publication"]
    assert [each["numInputRows"] for each in progress] == [4]
