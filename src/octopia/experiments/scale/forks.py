"""Tasks in separate processes: memory is released after each, and one that fails does not affect the others."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from octopia.experiments.scale.plan import memory_bytes_of
from octopia.experiments.scale.tasks import Task, run_to_file
from octopia.workloads.places import first_line
from octopia.workloads.provenance import commit

_FORK = multiprocessing.get_context("fork")
_WATCH_S = 0.5
_SHARE = 0.8
"""The share of the machine's memory that tasks may take together."""

OnOutcome: TypeAlias = Callable[[str, str], None]
"""Takes the name of a task that has ended, and an error or an empty string."""


class _Running:
    """A task in its process."""

    def __init__(self, task: Task, folder: Path):
        self.name = task.name
        self.memory_bytes = memory_bytes_of(task)
        self._ours, theirs = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=_run, args=(task, folder, theirs))
        self.process.start()
        theirs.close()

    def outcome(self) -> str:
        """Wait for the end, and return the error or an empty string."""
        try:
            error = str(self._ours.recv())
        except EOFError:
            error = ""
        self.process.join()
        code = self.process.exitcode
        return error or ("" if code == 0 else f"its process ended with exit code {code}")


def run_forked(tasks: Sequence[Task], folder: Path, jobs: int, on_outcome: OnOutcome) -> None:
    """Run tasks, several at a time as long as their memory fits, in their order."""
    commit()  # It is found once, here, and not in every process.
    waiting = deque(tasks)
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs and (not running or _fits(waiting[0], running)):
                running.append(_Running(waiting.popleft(), folder))
            multiprocessing.connection.wait([each.process.sentinel for each in running])
            for each in [each for each in running if not each.process.is_alive()]:
                running.remove(each)
                on_outcome(each.name, each.outcome())
    finally:
        for each in running:
            each.process.kill()


def run_one(encoded: bytes, folder: str) -> str:
    """Run one encoded task in a separate process; return its error or an empty string."""
    return _Running(msgspec.json.decode(encoded, type=Task), Path(folder)).outcome()


def _fits(task: Task, running: Sequence[_Running]) -> bool:
    """Return whether a task fits beside those that run, which may still grow to their full size."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return True
    total_bytes = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")), 0)
    return memory_bytes_of(task) + sum(each.memory_bytes for each in running) <= _SHARE * total_bytes


def _run(task: Task, folder: Path, pipe: multiprocessing.connection.Connection) -> None:
    gc.freeze()  # A collection need not look at, and copy, what the parent process has loaded.
    threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
    try:
        run_to_file(task, folder)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {first_line(error)}")


def _exit_with(parent: int) -> None:
    """Exit when the parent process exits."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
