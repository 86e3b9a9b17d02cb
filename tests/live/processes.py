"""Processes that tests start, and that talk in lines of JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE_S = 30.0
_LINE_BYTES_MAX = 1 << 26


PORTS = range(10_000, 30_000)
"""Below the ports that the kernel gives to outgoing connections, which could take one before its process listens."""


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return ports at which nobody listens."""
    found: list[int] = []
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.create_server((host, port), family=family):
            found.append(port)
        if len(found) == count:
            break
    return found


class Process:
    """A process that tells what happens, and can be told something."""

    def __init__(self, name: str, process: asyncio.subprocess.Process):
        self.name = name
        self._process = process
        self.said: list[dict[str, Any]] = []

    @classmethod
    async def start(
        cls,
        name: str,
        script: str,
        *arguments: str,
        within: list[str] | None = None,
        log: Path | None = None,
    ) -> Process:
        """Start a script, by its path or its name in this folder: within a namespace, or with its stderr in a file."""
        command = [*(within or []), sys.executable, str(HERE / script), *arguments]
        source = os.pathsep.join(path for path in sys.path if path)
        with contextlib.ExitStack() as files:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if log is None else files.enter_context(log.open("ab")),
                env=os.environ | {"PYTHONPATH": source},
                limit=_LINE_BYTES_MAX,
            )
        return cls(name, process)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True until the process has ended."""
        return self._process.returncode is None

    @property
    def resident_bytes(self) -> int:
        """The resident memory of the process."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    async def hear(self, event: str, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """Wait for the next line that tells of an event; others are remembered in ``said``."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
            except TimeoutError:
                raise AssertionError(f"{self.name} did not say {event} within {timeout_s:g} s") from None
            assert line, f"{self.name} ended before it said {event}"
            fact = json.loads(line)
            self.said.append(fact)
            if fact["event"] == event:
                return fact

    async def ask(self, line: str, event: str) -> dict[str, Any]:
        """Tell the process something, and wait for its answer."""
        self.tell(line)
        return await self.hear(event)

    async def until(self, condition: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until a condition holds in the process, which says so."""
        self.tell(f"when {condition}")
        await self.hear(condition, timeout_s)

    def tell(self, line: str) -> None:
        """Write a line to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def end_input(self) -> None:
        """Tell the process that no more lines come."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def rest_of_output(self) -> list[dict[str, Any]]:
        """Return all further lines, when the process has ended; half a line of one that was killed is left out."""
        assert self._process.stdout is not None
        facts = [json.loads(line) async for line in self._process.stdout if line.endswith(b"\n")]
        await self._process.wait()
        self._close()
        return facts

    async def kill(self) -> None:
        """End it at once, without a word."""
        if self.is_running:
            self._process.kill()
        await self._process.wait()
        self._close()

    async def stop(self) -> None:
        """Let it end by itself."""
        if self._process.returncode is None:
            self.end_input()
            try:
                await asyncio.wait_for(self._process.wait(), PATIENCE_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self._close()

    def _close(self) -> None:
        self._process._transport.close()
