"""Commands that record or publish as processes, the publications that they are fed, and waiting for what they do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from ticking import ticks

from octopia.client import Client

PATIENCE_S = 120.0
_AWAY_MAX = 5_000
"""The number of publications of a feed that are not recorded: a broker keeps 10,000 for a client that is away."""
_BEAT_S = 0.005

_started: list[asyncio.subprocess.Process] = []


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition about another process holds; it is checked at every beat."""
    async with asyncio.timeout(PATIENCE_S):
        if condition():
            return
        async for _ in ticks(_BEAT_S):
            if condition():
                return


async def start(program: list[str], said: bytes, *, on_stderr: bool = True) -> asyncio.subprocess.Process:
    """Start a Python program, and wait until it has said that it works."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE if on_stderr else None
    )
    _started.append(process)
    stream = process.stderr if on_stderr else process.stdout
    assert stream is not None
    async with asyncio.timeout(PATIENCE_S):
        while said not in (line := await stream.readline()):
            assert line, "it ended before it began to work"
    return process


async def start_command(said: bytes, *words: str) -> asyncio.subprocess.Process:
    """Start a command of octopia that prints JSON at its end."""
    return await start(["-m", "octopia", *words, "--json"], said)


async def kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process, and wait for its end."""
    process.send_signal(signal.SIGKILL)
    await process.wait()


@pytest.fixture(autouse=True)
def nobody_is_left_behind() -> Iterator[None]:
    """Kill the processes that a failed test has started; import it into a module of tests."""
    yield
    kill_the_rest()


def kill_the_rest() -> None:
    """Kill all processes that still run."""
    for process in [each for each in _started if each.returncode is None]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    _started.clear()


class Feed:
    """Publications ``{n = 0}``, ``{n = 1}``, … in batches of random sizes, not far ahead of what is recorded."""

    def __init__(self, publisher: Client, recorded: Callable[[], int], chance: random.Random):
        self.published = 0
        self._publisher = publisher
        self._recorded = recorded
        self._chance = chance

    @contextlib.asynccontextmanager
    async def running(self, beat_s: float = 0.002) -> AsyncIterator[None]:
        """Publish as long as the block runs."""
        is_over = asyncio.Event()
        publishing = asyncio.create_task(self._publish(is_over, beat_s))
        try:
            yield
        finally:
            is_over.set()
            await publishing

    async def _publish(self, is_over: asyncio.Event, beat_s: float) -> None:
        async for _ in ticks(beat_s):
            if is_over.is_set():
                return
            if self.published - self._recorded() <= _AWAY_MAX:
                size = self._chance.randrange(1, 100)
                await self._publisher.publish_many({"n": self.published + index} for index in range(size))
                self.published += size
