"""The event loop that brokers and clients run in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


def run_loop(main: Awaitable[T]) -> T:
    """Run a coroutine to its end, in uvloop if it is installed."""

    async def wrapped() -> T:
        return await main

    try:
        import uvloop
    except ImportError:
        return asyncio.run(wrapped())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(wrapped())
