"""The whole study: its unfinished tasks are run, and everything that is finished is reported."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from octopia.experiments.csv_rows import write_csv
from octopia.experiments.scale.figures import draw_all
from octopia.experiments.scale.forks import run_forked, run_one
from octopia.experiments.scale.names import Scale, System
from octopia.experiments.scale.plan import EXTENTS, plan
from octopia.experiments.scale.report import write_report
from octopia.experiments.scale.rows import CheckRow, FailureRow, GrowthRow, Tables
from octopia.experiments.scale.tasks import Result, Task, pending, results

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace

_SYSTEMS = list(System)

Runner: TypeAlias = Callable[[Sequence[Task], Path], Mapping[str, str]]
"""Runs tasks whose results go to a folder; returns the errors by task."""


@dataclasses.dataclass(frozen=True, slots=True)
class Studied:
    """The page of the report, and what went wrong."""

    page: Path
    failed: Mapping[str, str]
    """The errors of tasks by name."""
    wrong: tuple[CheckRow, ...]
    """The totals in which formula and simulation differ."""


def study(scale: Scale, out: Path, run: Runner) -> Studied:
    """Run the unfinished tasks of a scale, and write tables, figures and the report."""
    tasks, folder = plan(EXTENTS[scale]), out / "runs"
    failed = run(pending(tasks, folder), folder)
    found = results(tasks, folder)
    tables = _tables_of(found)
    for name, row_type, rows in tables.named():
        write_csv(out / "tables" / f"{name}.csv", row_type, rows)
    figures = draw_all(tables, out / "figures")
    commits = sorted({each.commit for each in found})
    page = write_report(out, scale, tables, figures, commits, missing=len(tasks) - len(found))
    return Studied(page, failed, tuple(row for row in tables.checks if not row.agrees))


def _tables_of(found: Sequence[Result]) -> Tables:
    return Tables(
        sorted((row for each in found for row in each.growth), key=_growth_order),
        sorted((row for each in found for row in each.failures), key=_failure_order),
        sorted((row for each in found for row in each.memory), key=lambda row: (row.system, row.entries)),
        [row for each in found for row in each.checks],
    )


def in_processes(jobs: int) -> Runner:
    """Return a runner that forks a process per task, ``jobs`` of them at a time."""
    return functools.partial(_run_in_processes, jobs)


def on_spark(workspace: Workspace) -> Runner:
    """Return a runner that makes each task a task of Spark."""
    return functools.partial(_run_on_spark, workspace)


def _run_in_processes(jobs: int, tasks: Sequence[Task], folder: Path) -> Mapping[str, str]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    failed: dict[str, str] = {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=12), MofNCompleteColumn(),
               TextColumn("{task.fields[latest]}"), TimeElapsedColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as progress:
        shown = progress.add_task("runs", total=len(tasks), latest="")

        def note(name: str, error: str) -> None:
            if error:
                failed[name] = error
            progress.update(shown, advance=1, latest=name)

        run_forked(tasks, folder, jobs, note)
    return failed


def _run_on_spark(workspace: Workspace, tasks: Sequence[Task], folder: Path) -> Mapping[str, str]:
    from octopia.pipeline.tasks import run_tasks

    if not tasks:
        return {}
    place = workspace.storage.absolute(str(folder))
    with workspace.stages.stage(f"{len(tasks)} runs") as report:
        errors = run_tasks(
            workspace.spark, functools.partial(run_one, folder=place), [msgspec.json.encode(task) for task in tasks]
        )
        failed = {task.name: error for task, error in zip(tasks, errors, strict=True) if error}
        report(f"{len(failed)} failed" if failed else "all finished")
    return failed


def _growth_order(row: GrowthRow) -> tuple[object, ...]:
    return (row.series, row.brokers, row.tree, row.subscriptions, row.publishers_per_symbol, _SYSTEMS.index(row.system))


def _failure_order(row: FailureRow) -> tuple[object, ...]:
    return row.series, row.brokers, row.tree, row.subscriptions, _SYSTEMS.index(row.system)
