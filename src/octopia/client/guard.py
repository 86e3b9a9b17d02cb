"""The event loop that a client belongs to."""

from __future__ import annotations

import asyncio
import threading

from octopia.errors import UsageError


class LoopGuard:
    """Refuses calls from an event loop other than the one that it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = _name(self._loop)

    def check(self) -> None:
        """Raise UsageError if another event loop is running."""
        if (running := asyncio.get_running_loop()) is not self._loop:
            raise UsageError(
                f"expected a call from the client's own event loop ({self._name}), got one from {_name(running)}; "
                "connect one client per event loop, or use octopia.connect_blocking, which works from any thread"
            )


def _name(loop: asyncio.AbstractEventLoop) -> str:
    return f"{type(loop).__name__} {id(loop):#x} in thread {threading.current_thread().name!r}"
