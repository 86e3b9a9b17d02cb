"""Processes that tests start, and that talk in lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE_S = 30.0


def free_ports(count: int) -> list[int]:
    """Return ports at which nobody listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Process:
    """A process that tells what happens, and can be told something."""

    def __init__(self, name: str, process: asyncio.subprocess.Process):
        self.name = name
        self._process = process
        self.said: list[dict[str, Any]] = []

    @classmethod
    async def start(cls, name: str, script: str, *arguments: str, within: list[str] | None = None) -> Process:
        """Start a script of this folder, within a namespace if that is wanted."""
        command = [*(within or []), sys.executable, str(HERE / script), *arguments]
        source = os.pathsep.join(path for path in sys.path if path)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": source},
        )
        return cls(name, process)

    async def hear(self, event: str) -> dict[str, Any]:
        """Wait for the next line that tells of an event; others are remembered in ``said``."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_S)
            except TimeoutError:
                raise AssertionError(f"{self.name} did not say {event} within {PATIENCE_S:g} s") from None
            assert line, f"{self.name} ended before it said {event}"
            fact = json.loads(line)
            self.said.append(fact)
            if fact["event"] == event:
                return fact

    async def ask(self, line: str, event: str) -> dict[str, Any]:
        """Tell the process something, and wait for its answer."""
        self.tell(line)
        return await self.hear(event)

    def tell(self, line: str) -> None:
        """Write a line to the process."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def kill(self) -> None:
        """End it at once, without a word."""
        self._process.kill()
        await self._process.wait()
        self._close()

    async def stop(self) -> None:
        """Let it end by itself."""
        if self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                await asyncio.wait_for(self._process.wait(), PATIENCE_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self._close()

    def _close(self) -> None:
        self._process._transport.close()
