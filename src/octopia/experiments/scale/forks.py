"""Tasks in processes of their own: memory is released after each, and one that fails does not affect the others."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from octopia.experiments.scale.tasks import Task, run_to_file
from octopia.workloads.arrow import first_line
from octopia.workloads.provenance import commit

_FORK = multiprocessing.get_context("fork")
_WATCH_S = 0.5

OnOutcome: TypeAlias = Callable[[str, str], None]
"""Takes the name of a task that has ended, and an error or an empty text."""


class _Running:
    """A task in its process."""

    def __init__(self, name: str, encoded: bytes, folder: str):
        self.name = name
        self._ours, theirs = _FORK.Pipe(duplex=False)
        self.process = _FORK.Process(target=_run, args=(encoded, folder, theirs))
        self.process.start()
        theirs.close()

    def outcome(self) -> str:
        """Wait for the end, and return the error or an empty text."""
        try:
            error = str(self._ours.recv())
        except EOFError:
            error = ""
        self.process.join()
        code = self.process.exitcode
        return error or ("" if code == 0 else f"its process ended with exit code {code}")


def run_forked(tasks: Sequence[Task], folder: Path, jobs: int, on_outcome: OnOutcome) -> None:
    """Run tasks, several at a time."""
    commit()  # It is found once, here, and not in every process.
    waiting = [(task.name, msgspec.json.encode(task)) for task in reversed(tasks)]
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Running(*waiting.pop(), str(folder)))
            multiprocessing.connection.wait([each.process.sentinel for each in running])
            for each in [each for each in running if not each.process.is_alive()]:
                running.remove(each)
                on_outcome(each.name, each.outcome())
    finally:
        for each in running:
            each.process.kill()


def run_one(encoded: bytes, folder: str) -> str:
    """Run one encoded task in a process of its own; return its error or an empty text."""
    return _Running("", encoded, folder).outcome()


def _run(encoded: bytes, folder: str, pipe: multiprocessing.connection.Connection) -> None:
    threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
    try:
        run_to_file(encoded, folder)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {first_line(error)}")


def _exit_with(parent: int) -> None:
    """Exit when the parent process exits."""
    while os.getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(1)
