"""Streaming queries for tests: run to the end of what is available, and return the rows."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

_NAMES = itertools.count()


def run_available(frame: DataFrame, checkpoint: Path) -> tuple[list[Row], list[dict[str, Any]]]:
    """Run a query on all that is available now; return its rows, and its reports of batches with rows."""
    name = f"rows_{next(_NAMES)}"
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert not query.isActive
    spark: SparkSession = frame.sparkSession
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    return spark.table(name).collect(), progress


def append_available(frame: DataFrame, out: Path, checkpoint: Path) -> None:
    """Append all that is available now to a Parquet table, which is exact over restarts."""
    writer = frame.writeStream.format("parquet").option("path", str(out))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert not query.isActive
