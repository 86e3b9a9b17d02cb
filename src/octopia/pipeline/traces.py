"""Reading traces: of one run, or of all the runs of a sweep.

What a name may stand for:

- a file, ``….parquet`` or ``….jsonl``;
- the folder of a run, with ``trace.parquet`` or else ``trace.jsonl`` in it;
- the folder of a sweep, with ``traces/<run_id>/trace.parquet`` for each run. Folders in there that begin with a dot or
  an underscore are not finished yet, and are left out. A finished one without a trace is an error.

Only the head of a trace is looked at here: its columns are checked, its rows are read by whoever asks for them. Of many
Parquet files, Spark looks at the columns of one.
"""

from __future__ import annotations

import json
import posixpath

from pyspark.sql import DataFrame, SparkSession

from octopia.errors import InvalidData
from octopia.pipeline.schemas import TRACE
from octopia.pipeline.session import SPARK_ERRORS
from octopia.pipeline.storage import Storage, with_columns_of
from octopia.playing.files import absolute, first_line

PARQUET_FILE = "trace.parquet"
JSON_FILE = "trace.jsonl"
RUNS_FOLDER = "traces"
"""Where the folder of a sweep keeps the folders of its runs."""

_UNFINISHED = (".", "_")


def read_traces(spark: SparkSession, storage: Storage, *names: str) -> DataFrame:
    """Read the rows of a trace file, of a run's folder, or of a sweep's folder; the schema is ``TRACE``.

    Several names must stand for files of one kind.
    """
    for name in names:
        if not storage.exists(name):
            raise InvalidData(f"expected a trace at {storage.path(name)}, got none: is the path right?")
    files = [file for name in names for file in trace_files(storage, name)]
    paths = [absolute(storage.path(each)) for each in files]
    where = paths[0] if len(paths) == 1 else ", ".join(map(storage.path, names))
    try:
        frame = _read_json(spark, paths, where) if files[0].endswith(".jsonl") else spark.read.parquet(*paths)
        return with_columns_of(TRACE, frame, where)
    except SPARK_ERRORS as error:
        raise InvalidData(f"expected a trace at {where}, got: {first_line(error)}") from error


def trace_files(storage: Storage, name: str) -> list[str]:
    """Return the names of the files that a name stands for: one, or one for each run of a sweep."""
    if name.endswith((".parquet", ".jsonl")):
        return [name]
    for file in (PARQUET_FILE, JSON_FILE):
        if storage.exists(posixpath.join(name, file)):
            return [posixpath.join(name, file)]
    folder = posixpath.join(name, RUNS_FOLDER)
    runs = [run for run in storage.names_in(folder) if not run.startswith(_UNFINISHED)]
    if not runs:
        raise InvalidData(
            f"expected {PARQUET_FILE}, {JSON_FILE} or finished runs in {RUNS_FOLDER}/ at {storage.path(name)}, "
            "got none of them"
        )
    return [posixpath.join(folder, run, PARQUET_FILE) for run in runs]


def _read_json(spark: SparkSession, paths: list[str], where: str) -> DataFrame:
    """Read JSON lines; Spark would fill a column that is missing with nulls, so the first line is looked at."""
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
        raise InvalidData(f"expected a JSON object a line in {where}, got {line[:60]!r}")
    missing = [name for name in TRACE.names if name not in content]
    if missing:
        raise InvalidData(
            f"expected the columns {', '.join(TRACE.names)} in {where}, got {', '.join(content)}: "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        )
