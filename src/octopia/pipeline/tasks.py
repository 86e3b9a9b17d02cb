"""Any independent tasks on Spark, one per Spark task; the tasks keep their own results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow
from pyspark.sql import SparkSession

from octopia.errors import JobFailed
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message

_OUTCOME = "number long, error string"


def run_tasks(spark: SparkSession, run: Callable[[bytes], str], encoded: Sequence[bytes]) -> list[str]:
    """Run ``run`` with each encoded task on some worker; return the error of each, empty if it succeeded.

    ``run`` must be a function that workers can import, or a partial one of it.
    """
    tasks = list(encoded)
    if not tasks:
        return []

    def play(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield pyarrow.RecordBatch.from_pylist([{"number": number, "error": run(tasks[number])}])

    try:
        # One row per partition, hence one task per Spark task.
        rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(play, _OUTCOME).collect()
    except SPARK_ERRORS as error:
        raise JobFailed(f"the tasks were interrupted: {spark_message(error)}; finished ones are kept") from error
    errors = {row.number: row.error for row in rows}
    return [errors[number] for number in range(len(tasks))]
