"""Many simulator runs as Spark tasks, one run per task.

Finished runs are skipped, so a sweep that was killed continues where it stopped. A run that fails is reported and does
not affect the others: each has its own process, forked from the worker, which has already read the workload. So even a
crash affects one run only, and its memory is released. The worker does all reading and writing of storage; clients of
object stores do not survive a fork.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pathlib
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import msgspec
import pyarrow
from pyspark.sql import SparkSession

from octopia.errors import JobFailed, OctopiaError, UsageError
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.workloads.places import first_line
from octopia.workloads.runs import RunSpec, identity_of
from octopia.workloads.simulated_run import (
    Prepared,
    drafting,
    finish,
    finished_run,
    play_prepared,
    prepare,
    remove_drafts,
)

_WATCH_S = 0.5
_OUTCOME = "run_id string, seconds double, error string"


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run; ``error`` is empty if it succeeded."""

    run_id: str
    seconds: float
    error: str = ""


def pending(runs: Sequence[RunSpec], folder: str) -> list[RunSpec]:
    """Return the unfinished runs; raise an error if a different run was finished under the same id."""
    left = []
    for run in runs:
        finished = finished_run(folder, run.run_id)
        if finished is None:
            left.append(run)
        elif finished != identity_of(run):
            raise UsageError(
                f"expected {run.run_id} in {folder} to be the same run of the same workload, got another one with that "
                "id: change the id of the run or the folder of the sweep"
            )
    return left


def sweep(spark: SparkSession, runs: Sequence[RunSpec], folder: str) -> list[Outcome]:
    """Run the unfinished runs, and return the outcome of each."""
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

    # One row per partition, hence one run per task.
    tasks = spark.range(0, len(left), 1, len(left)).mapInArrow(play, _OUTCOME)
    try:
        rows = tasks.collect()
    except SPARK_ERRORS as error:
        raise JobFailed(
            f"the sweep in {folder} was interrupted: {spark_message(error)}; finished runs are kept, start it again"
        ) from error
    return [Outcome(row.run_id, row.seconds, row.error) for row in rows]


def play_apart(run: RunSpec, folder: str) -> Outcome:
    """Run a workload in a separate process, and return the outcome even if that process dies."""
    begin = time.perf_counter()
    try:
        prepared = prepare(run)
        with drafting(folder, run.run_id) as draft:
            problem = _fork(prepared, draft)
            if not problem:
                finish(draft, folder, run.run_id)
    except OctopiaError as error:
        problem = str(error)
    except OSError as error:
        problem = f"expected to write into {folder}, got: {first_line(error)}"
    return Outcome(run.run_id, round(time.perf_counter() - begin, 3), problem)


def _fork(prepared: Prepared, draft: pathlib.Path) -> str:
    """Play a run in a forked process; return what went wrong, or nothing."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_play, args=(prepared, draft, theirs))
    process.start()
    theirs.close()
    try:
        problem = str(ours.recv())
        process.join()
    except EOFError:
        process.join()
        problem = f"its process ended with exit code {process.exitcode}"
    return problem


def _play(prepared: Prepared, draft: pathlib.Path, pipe: Connection) -> None:
    threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
    try:
        play_prepared(prepared, draft)
        error = ""
    except OctopiaError as problem:
        error = str(problem)
    except Exception as problem:
        error = f"{type(problem).__name__}: {first_line(problem)}"
    pipe.send(error)


def _exit_with(parent: int) -> None:
    """Exit when the parent process exits, since the result would be lost."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
