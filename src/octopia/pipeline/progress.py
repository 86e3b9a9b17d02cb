"""Progress of Spark jobs, as a bar in the terminal.

A thread polls a classic session a few times per second; a remote one (Spark Connect) reports by itself. Both give the
numbers of completed and known tasks of the running jobs.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

POLL_S = 0.2

OnTasks: TypeAlias = Callable[[int, int], None]
"""Takes the numbers of completed and known tasks."""
Report: TypeAlias = Callable[[str], None]
"""Takes a text to show at the end of a line."""


class Stages:
    """Shows one line per stage of the work: its title, its progress, and finally its result."""

    def __init__(self, spark: SparkSession, screen: Console | None = None):
        self._spark = spark
        self._screen = screen or _screen()

    def title(self, text: str) -> None:
        """Show a title above the lines that follow."""
        self._screen.print(text, style="bold")

    @contextlib.contextmanager
    def stage(self, title: str) -> Iterator[Report]:
        """Show a line with a progress bar while the block runs; the block may report its result."""
        with (
            _line(self._screen, title, BarColumn(bar_width=12), MofNCompleteColumn()) as update,
            watching(self._spark, lambda done, known: update(completed=done, total=known)),
        ):
            yield lambda outcome: update(outcome=outcome)

    @contextlib.contextmanager
    def line(self, title: str) -> Iterator[Report]:
        """Show a line for work without Spark; the block may report its progress."""
        with _line(self._screen, title) as update:
            yield lambda outcome: update(outcome=outcome)


def starting() -> contextlib.AbstractContextManager[Any]:
    """Show a line while Spark starts in the block."""
    return _line(_screen(), "starting Spark…")


def _screen() -> Console:
    return Console(stderr=True, highlight=False)


@contextlib.contextmanager
def _line(screen: Console, title: str, *bar: ProgressColumn) -> Iterator[Callable[..., None]]:
    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        *bar,
        TextColumn("{task.fields[outcome]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen) as progress:
        update = functools.partial(progress.update, progress.add_task(title, total=None, outcome=""))
        yield update
        known = int(progress.tasks[0].total or 1)
        update(completed=known, total=known)


@contextlib.contextmanager
def watching(spark: SparkSession, on_tasks: OnTasks) -> Iterator[None]:
    """Report the tasks of a session while the block runs."""
    if is_remote(spark):
        handler = _remote_handler(on_tasks)
        spark.registerProgressHandler(handler)
        try:
            yield
        finally:
            spark.removeProgressHandler(handler)
        return
    over = threading.Event()
    poller = threading.Thread(target=_poll, args=(spark, on_tasks, over), daemon=True)
    poller.start()
    try:
        yield
    finally:
        over.set()
        poller.join()


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session uses Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _remote_handler(on_tasks: OnTasks) -> Any:
    def handle(stages: Any, inflight_tasks: int, operation_id: str | None = None, done: bool = False) -> None:
        on_tasks(sum(each.num_completed_tasks for each in stages or ()), sum(each.num_tasks for each in stages or ()))

    return handle


def _poll(spark: SparkSession, on_tasks: OnTasks, over: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    while not over.wait(POLL_S):
        done = known = 0
        for job in tracker.getActiveJobsIds():
            information = tracker.getJobInfo(job)
            for stage in information.stageIds if information else ():
                details = tracker.getStageInfo(stage)
                if details:
                    done += details.numCompletedTasks
                    known += details.numTasks
        if known:
            on_tasks(done, known)
