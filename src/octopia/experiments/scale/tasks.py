"""The tasks of the study: one run or measurement each, whose result is a file.

A task whose file exists is finished, if the file is of the same task: so a study that was stopped continues where it
was, and one that was changed runs what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from octopia.experiments.scale.failures import simulate_failures
from octopia.experiments.scale.growth import predict, simulate
from octopia.experiments.scale.memory import measure
from octopia.experiments.scale.names import Source, System
from octopia.experiments.scale.rows import CheckRow, FailureRow, GrowthRow, MemoryRow
from octopia.experiments.scale.workload import Point
from octopia.workloads.provenance import commit


class Growth(msgspec.Struct, frozen=True, tag=True):
    """One system at one size, simulated or by formula."""

    point: Point
    system: System
    source: Source

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"growth-{self.point.name}-{self.system}"


class Failures(msgspec.Struct, frozen=True, tag=True):
    """All faults at one size."""

    point: Point
    system: System

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"failures-{self.point.name}-{self.system}"


class Memory(msgspec.Struct, frozen=True, tag=True):
    """The memory of one broker."""

    system: System
    entries: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"memory-{self.entries}-{self.system}"


Task: TypeAlias = Growth | Failures | Memory


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a finished task, and the commit of the code that ran it."""

    task: Task
    commit: str
    growth: tuple[GrowthRow, ...] = ()
    failures: tuple[FailureRow, ...] = ()
    memory: tuple[MemoryRow, ...] = ()
    checks: tuple[CheckRow, ...] = ()


def run_task(task: Task) -> Result:
    """Run a task in this process."""
    match task:
        case Growth():
            if task.source is Source.FORMULA:
                return Result(task=task, commit=commit(), growth=(predict(task.point, task.system),))
            row, checks = simulate(task.point, task.system)
            return Result(task=task, commit=commit(), growth=(row,), checks=tuple(checks))
        case Failures():
            rows, checks = simulate_failures(task.point, task.system)
            return Result(task=task, commit=commit(), failures=tuple(rows), checks=tuple(checks))
        case Memory():
            return Result(task=task, commit=commit(), memory=(measure(task.system, task.entries),))


def run_to_file(task: Task, folder: Path) -> None:
    """Run a task, and write its result; a file is whole or missing."""
    result = run_task(task)
    path = _path(task, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
    draft.replace(path)


def finished(task: Task, folder: Path) -> Result | None:
    """Return the result of a task, or None if it is not finished."""
    path = _path(task, folder)
    try:
        result = msgspec.json.decode(path.read_bytes(), type=Result)
    except (OSError, msgspec.MsgspecError):
        return None
    return result if result.task == task else None


def pending(tasks: Iterable[Task], folder: Path) -> list[Task]:
    """Return the unfinished tasks."""
    return [task for task in tasks if finished(task, folder) is None]


def results(tasks: Iterable[Task], folder: Path) -> Sequence[Result]:
    """Return the results of the finished tasks, in their order."""
    found = (finished(task, folder) for task in tasks)
    return [each for each in found if each is not None]


def _path(task: Task, folder: Path) -> Path:
    return folder / f"{task.name}.json"
