"""History on Spark: one task per slice of an archive or a spool, each with the brokers' own matcher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from octopia.errors import JobFailed
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.records.history import Records, Slice, read_slice
from octopia.records.rows import NUMBERED, OFFSET, Row, row_of
from octopia.records.selection import Question, Selection

_TASKS_MAX = 1000


def history_frame(spark: SparkSession, folder: Path, question: Question) -> DataFrame:
    """Return the rows that match a question, with their offsets, in no particular order."""
    slices = Records(folder.absolute()).slices(question)
    tasks = spark.range(0, len(slices), 1, max(1, min(_TASKS_MAX, len(slices))))
    return tasks.mapInArrow(_reader(slices, question), from_arrow_schema(NUMBERED))


def history_rows(spark: SparkSession, folder: Path, question: Question) -> Iterator[Row]:
    """Yield the rows that match a question, in the order of their arrival."""
    try:
        for row in history_frame(spark, folder, question).orderBy(OFFSET).toLocalIterator(prefetchPartitions=True):
            yield row_of(row.asDict())
    except SPARK_ERRORS as error:
        raise JobFailed(f"expected to read {folder}, got: {spark_message(error)}") from error


def _reader(
    slices: Sequence[Slice], question: Question
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        selection = Selection(question)
        for number in (each for batch in batches for each in batch.column(0).to_pylist()):
            for found in read_slice(slices[number]):
                yield selection.select(found)

    return read
