"""The brokers of another checkout, measured in turn with this one's: ``benchmarks/network.py --against DIR``.

A subprocess imports the benchmark and the package of the other checkout and runs its lines on command, so that both are
measured in one run, on the same machine at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_SCRIPT = """
import contextlib, json, sys
sys.path.insert(0, sys.argv[1] + "/benchmarks")
import network
from network_lines import broker_line, everything, ranges
LINES = {
    "hop": (1, network.ONE_OF_MANY, everything),
    "chain": (network.CHAIN, network.ONE_OF_MANY, everything),
    "fan": (1, network.RANGES, ranges),
}
stack = contextlib.ExitStack()
for command in sys.stdin:
    verb, value = command.split()
    if verb == "open":
        line = stack.enter_context(broker_line(*LINES[value]))
        answer = 0.0
    elif verb == "run":
        answer = line.run(int(value)).cpu_s
    else:
        stack.close()
        answer = 0.0
    print(json.dumps(answer), flush=True)
"""


class Before:
    """The brokers of another checkout."""

    def __init__(self, folder: Path):
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=folder,
        )

    @contextlib.contextmanager
    def line(self, figure: str) -> Iterator[Before]:
        """Keep a line of brokers for a figure."""
        self._ask(f"open {figure}")
        yield self
        self._ask("close line")

    def cpu_s(self, count: int) -> float:
        """Send publications through the line, and return the processor time of its brokers."""
        return self._ask(f"run {count}")

    def end(self) -> None:
        """End the subprocess."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, command: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"the other checkout failed at: {command}")
        return float(json.loads(answer))
