"""Many simulator runs as tasks of Spark, one run a task.

What is finished is not run again, so that a sweep that was killed goes on where it stopped. A run that fails is
reported and harms no other: each runs in a process of its own, forked from the worker, which has read the workload
already. So even one that dies takes nobody along, and its memory is given back.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import msgspec
import pyarrow
from pyspark.sql import SparkSession

from octopia.errors import JobFailed, OctopiaError, UsageError
from octopia.pipeline.session import SPARK_ERRORS
from octopia.playing.files import first_line, load_workload
from octopia.playing.runs import Outcome, RunSpec, finished_run, identity_of, play_run, remove_drafts

_WATCH_S = 0.5
_OUTCOME = "run_id string, seconds double, error string"


def pending(runs: Sequence[RunSpec], folder: str) -> list[RunSpec]:
    """Return the runs that are not finished; one that is finished under the same id, but was another, is an error."""
    left = []
    for run in runs:
        finished = finished_run(folder, run.run_id)
        if finished is None:
            left.append(run)
        elif finished != identity_of(run):
            raise UsageError(
                f"expected {run.run_id} in {folder} to be the same run of the same workload, got another one with that "
                "id: give the run another id, or the sweep another folder"
            )
    return left


def sweep(spark: SparkSession, runs: Sequence[RunSpec], folder: str) -> list[Outcome]:
    """Run everything that is not finished, and return what came of each of these runs."""
    left = pending(runs, folder)
    remove_drafts(folder)
    if not left:
        return []
    encoded = [msgspec.json.encode(run) for run in left]

    def play(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                outcome = play_apart(msgspec.json.decode(encoded[number], type=RunSpec), folder)
                yield pyarrow.RecordBatch.from_pylist([msgspec.to_builtins(outcome)])

    # One row a partition, and so one run a task.
    tasks = spark.range(0, len(left), 1, len(left)).mapInArrow(play, _OUTCOME)
    try:
        rows = tasks.collect()
    except SPARK_ERRORS as error:
        raise JobFailed(
            f"the sweep in {folder} was interrupted: {first_line(error)}; what was finished is kept, start it again"
        ) from error
    return [Outcome(row.run_id, row.seconds, row.error) for row in rows]


def play_apart(run: RunSpec, folder: str) -> Outcome:
    """Play a run in a process of its own, and tell what came of it, even if that process dies."""
    begin = time.perf_counter()
    try:
        load_workload(run.workload)
    except OctopiaError as error:
        return Outcome(run.run_id, 0.0, str(error))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_play, args=(run, folder, theirs))
    process.start()
    theirs.close()
    try:
        problem = str(ours.recv())
        process.join()
    except EOFError:
        process.join()
        problem = f"its process ended with exit code {process.exitcode}"
    return Outcome(run.run_id, round(time.perf_counter() - begin, 3), problem)


def _play(run: RunSpec, folder: str, pipe: Connection) -> None:
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        play_run(run, folder)
        error = ""
    except OctopiaError as problem:
        error = str(problem)
    except Exception as problem:
        error = f"{type(problem).__name__}: {first_line(problem)}"
    pipe.send(error)


def _end_with(parent: int) -> None:
    """Go where the worker has gone: nobody would take what this process finds out."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
