"""Draining: waiting until brokers have passed on everything that they accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

LOOK_S = 0.025
"""The interval at which brokers are looked at."""


class Quiet(Protocol):
    """A server that can be at rest."""

    @property
    def is_quiet(self) -> bool:
        """True if nothing waits here, and nothing has come for a while."""


async def all_at_rest(servers: Sequence[Quiet], timeout_s: float) -> bool:
    """Wait until all servers are quiet at the same time, and return whether they are."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not all(server.is_quiet for server in servers):
        if loop.time() > deadline:
            return False
        await asyncio.sleep(LOOK_S)
    return True
