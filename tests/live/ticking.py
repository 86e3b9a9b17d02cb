"""A steady beat for programs that publish at a rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator


async def ticks(period_s: float) -> AsyncIterator[None]:
    """Yield once per period, from now on; a late beat does not delay the next ones."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    while True:
        due_s += period_s
        beat = asyncio.Event()
        timer = loop.call_at(due_s, beat.set)
        try:
            await beat.wait()
        finally:
            timer.cancel()
        yield
