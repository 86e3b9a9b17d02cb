"""The sink: rows of Spark become publications, each once, whatever fails or is repeated."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructType, TimestampType

from octopia.content import Publication
from octopia.errors import InvalidPublication, UsageError
from octopia.pipeline.spark_sink import OutboxStreamWriter, OutboxWriter, stream_of
from octopia.pipeline.spark_source import OctopiaSource
from octopia.records.outgoing import Outgoing
from octopia.records.rows import row_of
from records_samples import add_to_spool, numbered, received

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def publications_in(folder: Path) -> list[Publication]:
    outgoing = Outgoing(folder)
    parts = [batch for each in outgoing.manifests() for batch in outgoing.read(each, 0)]
    about = {"kind": "publication", "received_ms": 0.0, "host_broker": "a.0", "incarnation": 1, "number": 1, "hops": 0,
             "published_ms": 0.0}  # fmt: skip
    return [row_of({**about, **row}).publication for part in parts for row in part.to_pylist()]


def numbers_in(folder: Path) -> list[object]:
    return [each.attributes["n"] for each in publications_in(folder)]


# Without a session.


def write(folder: Path, rows: dict[str, list[object]]) -> list[Publication]:
    writer = OutboxWriter(folder, StructType().add("n", LongType()), is_overwrite=False)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(rows)])), None])
    return publications_in(folder)


def test_columns_become_attributes_and_a_null_is_none(tmp_path: Path):
    rows = {"n": [1, None], "x": [1.5, 2.0], "s": ["a", None], "b": [None, True], "payload": [b"p", None]}
    assert write(tmp_path, rows) == [
        Publication({"n": 1, "x": 1.5, "s": "a"}, b"p"),
        Publication({"x": 2.0, "b": True}),
    ]


def test_rows_that_are_no_publications_are_refused_and_leave_nothing(tmp_path: Path):
    for rows in ({"n": [1, None]}, {"x": [float("nan")]}):
        with pytest.raises(InvalidPublication):
            write(tmp_path, rows)
    assert publications_in(tmp_path) == []


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (StructType().add("at", TimestampType()), "expected the column at as a string, a number or a boolean; cast it"),
        (StructType().add("n", LongType()).add("payload", LongType()), "expected the column payload as binary or str"),
        (StructType().add("payload", BinaryType()), "expected at least one column besides the payload"),
    ],
)
def test_wrong_columns_are_told_before_anything_runs(tmp_path: Path, schema: StructType, message: str):
    with pytest.raises(UsageError, match=message):
        OutboxWriter(tmp_path, schema, is_overwrite=False)


def test_a_stream_must_be_known_and_is_only_appended(tmp_path: Path):
    with pytest.raises(UsageError, match="expected the option stream or checkpointLocation"):
        stream_of({})
    with pytest.raises(UsageError, match="expected a checkpoint of Spark that can be read at"):
        stream_of({"checkpointlocation": str(tmp_path)})
    with pytest.raises(UsageError, match=r'got mode\("overwrite"\)'):
        OutboxStreamWriter(tmp_path, StructType().add("n", StringType()), "s", is_overwrite=True)


# In a session.


class FlakySource(OctopiaSource):
    """A sink whose first attempt of each task fails after it has staged its rows."""

    @classmethod
    def name(cls) -> str:
        return "flaky"

    def writer(self, schema: StructType, overwrite: bool) -> FlakyWriter:
        return FlakyWriter(Path(self.options["path"]), schema, is_overwrite=overwrite)


class FlakyWriter(OutboxWriter):
    def write(self, iterator: object) -> object:
        staged = super().write(iterator)
        if TaskContext.get().attemptNumber() == 0:
            raise OSError("the machine is on fire")
        return staged


def test_a_task_that_fails_after_staging_adds_its_rows_once(spark: SparkSession, tmp_path: Path):
    spark.dataSource.register(FlakySource)
    rows = spark.range(0, 100, 1, 2).selectExpr("id AS n", "CAST(id AS STRING) AS payload")
    rows.write.format("flaky").mode("append").save(str(tmp_path))
    assert sorted(numbers_in(tmp_path)) == list(range(100))
    assert publications_in(tmp_path)[7].payload == str(numbers_in(tmp_path)[7]).encode()
    # The files of the failed attempts are gone.
    assert len(list((tmp_path / "staged").iterdir())) == 2


def test_a_job_that_fails_adds_nothing(spark: SparkSession, tmp_path: Path):
    rows = spark.range(0, 10, 1, 2).selectExpr("IF(id = 7, NULL, id) AS n")
    with pytest.raises(PySparkException, match="expected 1 to"):
        rows.write.format("octopia").mode("append").save(str(tmp_path))
    assert publications_in(tmp_path) == []
    assert list((tmp_path / "staged").iterdir()) == []


def test_a_batch_that_is_repeated_adds_nothing(spark: SparkSession, tmp_path: Path):
    spool, outbox, checkpoint = tmp_path / "spool", tmp_path / "outbox", tmp_path / "checkpoint"
    add_to_spool(spool, numbered(*map(received, range(10))))
    frame = spark.readStream.format("octopia").schema("n long").load(str(spool))

    def run() -> None:
        writer = frame.writeStream.format("octopia").option("path", str(outbox))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination(120)
        assert not query.isActive

    run()
    assert numbers_in(outbox) == list(range(10))
    # The stream dies after the commit of the sink, and before its own.
    for path in ((checkpoint / "commits" / "0"), (checkpoint / "commits" / ".0.crc")):
        path.unlink()
    add_to_spool(spool, numbered(*map(received, range(10, 12))))
    run()
    assert numbers_in(outbox) == list(range(12))
