"""The clock of a port: it takes snapshots, and passes the messages of the feed to all listeners.

While there are listeners, it takes one every half second. Otherwise it takes one every five seconds, so that the next
listener sees the delays of the last minute. A snapshot serves all requests that arrive at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Protocol

from octopia.http.feed import EVERY_MS, Feed
from octopia.http.snapshot import Snapshot, Source

FRESH_S = 0.25
"""The age up to which a snapshot serves another request."""
UNWATCHED_S = 5.0
"""The interval of snapshots without listeners."""

_log = logging.getLogger(__name__)


class Listener(Protocol):
    """A recipient of the messages of the feed."""

    def on_messages(self, messages: list[bytes]) -> None:
        """Take the messages of a tick."""


class Watch:
    """The snapshots of one port."""

    def __init__(self, source: Source):
        self.source = source
        self.brokers = source.brokers
        self.feed = Feed(source.overlay, source.brokers)
        self._loop = asyncio.get_running_loop()
        self._listeners: dict[Listener, None] = {}
        self._last: Snapshot | None = None
        self._taken_s = float("-inf")
        self._turn = asyncio.Lock()
        self._woken = asyncio.Event()
        self._task = self._loop.create_task(self._keep_watching())

    async def snapshot(self, age_s: float = FRESH_S) -> Snapshot:
        """Return a snapshot that is not older than ``age_s``."""
        async with self._turn:
            if self._last is None or self._loop.time() - self._taken_s > age_s:
                self._last = await self.source.snapshot()
                self._taken_s = self._loop.time()
            return self._last

    async def listen(self, listener: Listener) -> None:
        """Add a listener, after the first snapshot; it needs a whole tick, and then gets all changes."""
        if not self._listeners:
            await self._look()
        self._listeners[listener] = None
        self._woken.set()

    def forget(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.pop(listener, None)

    async def close(self) -> None:
        """Stop taking snapshots, and close the source."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.source.close()

    async def _look(self) -> None:
        """Take a snapshot, and pass the changes to all listeners: the feed has each of them once."""
        messages = self.feed.add(await self.snapshot(0.0))
        for listener in list(self._listeners):
            listener.on_messages(messages)

    async def _keep_watching(self) -> None:
        due_s = self._loop.time()
        while True:
            try:
                await self._look()
            except Exception:  # A bug here must neither end the watch nor harm a broker.
                _log.exception("event=internal_error where=http")
            every_s = EVERY_MS / 1000.0 if self._listeners else UNWATCHED_S
            due_s = max(due_s + every_s, self._loop.time() + every_s / 2)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await self._woken.wait()
                    due_s = self._loop.time()
            self._woken.clear()
