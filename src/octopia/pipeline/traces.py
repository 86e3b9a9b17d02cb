"""Reading the traces of one run, or of all runs of a sweep.

The name of a trace is one of:

- a file, ``….parquet`` or ``….jsonl``;
- the folder of a run, with ``trace.parquet`` or else ``trace.jsonl`` in it;
- the folder of a sweep, with ``traces/<run_id>/trace.parquet`` for each run. Runs without ``run.json`` are unfinished
  and skipped, as are folders whose names begin with a dot or an underscore. A finished one without a trace is an error.

Columns are checked here; rows are read when Spark needs them. Of several Parquet files, only one is checked. Columns
that earlier versions did not write are null.
"""

from __future__ import annotations

import json
import posixpath

from pyspark.sql import DataFrame, SparkSession

from octopia.errors import InvalidData
from octopia.pipeline.schemas import TRACE
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.pipeline.storage import Storage, with_columns_of
from octopia.trace import JSON_LINES_FILE, LATER_COLUMNS, PARQUET_FILE, RUN_FILE
from octopia.workloads.runs import TRACES

_UNFINISHED = (".", "_")


def read_traces(spark: SparkSession, storage: Storage, *names: str) -> DataFrame:
    """Return the rows (``TRACE``) of trace files, run folders or sweep folders.

    All names must refer to files of the same format.
    """
    for name in names:
        if not storage.exists(name):
            raise InvalidData(f"expected a trace at {storage.path(name)}, got none: is the path right?")
    files = [file for name in names for file in trace_files(storage, name)]
    paths = [storage.for_spark(each) for each in files]
    where = storage.absolute(files[0]) if len(paths) == 1 else ", ".join(map(storage.path, names))
    try:
        frame = _read_json(spark, paths, where) if files[0].endswith(".jsonl") else spark.read.parquet(*paths)
        return with_columns_of(TRACE, frame, where, optional=LATER_COLUMNS)
    except SPARK_ERRORS as error:
        raise InvalidData(f"expected a trace at {where}, got: {spark_message(error)}") from error


def trace_files(storage: Storage, name: str) -> list[str]:
    """Return the files that a name refers to: one, or one per run of a sweep."""
    if name.endswith((".parquet", ".jsonl")):
        return [name]
    for file in (PARQUET_FILE, JSON_LINES_FILE):
        if storage.exists(posixpath.join(name, file)):
            return [posixpath.join(name, file)]
    folder = posixpath.join(name, TRACES)
    runs = [
        run
        for run in storage.names_in(folder)
        if not run.startswith(_UNFINISHED) and storage.exists(posixpath.join(folder, run, RUN_FILE))
    ]
    if not runs:
        raise InvalidData(
            f"expected {PARQUET_FILE}, {JSON_LINES_FILE} or finished runs in {TRACES}/ at {storage.path(name)}, "
            "got none of them"
        )
    return [posixpath.join(folder, run, PARQUET_FILE) for run in runs]


def _read_json(spark: SparkSession, paths: list[str], where: str) -> DataFrame:
    """Return the rows of JSON lines; the first line is checked, since Spark fills missing columns with nulls."""
    head = spark.read.text(paths).head()
    if head is not None:
        _check_line(head["value"], where)
    return spark.read.schema(TRACE).option("mode", "FAILFAST").json(paths)


def _check_line(line: str, where: str) -> None:
    try:
        content = json.loads(line)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise InvalidData(f"expected one JSON object per line in {where}, got {line[:60]!r}")
    missing = [name for name in TRACE.names if name not in content and name not in LATER_COLUMNS]
    if missing:
        raise InvalidData(
            f"expected the columns {', '.join(TRACE.names)} in {where}, got {', '.join(content)}: "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
