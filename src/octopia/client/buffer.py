"""The buffer of a subscription: publications that were received and not read yet. The client fills it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from octopia.client.callbacks import Callback, call
from octopia.client.guard import LoopGuard
from octopia.client.inbox import Inbox
from octopia.client.received import Received
from octopia.errors import OctopiaError, SlowSubscriber, UsageError
from octopia.protocol import Overflow
from octopia.protocol.messages import Gap


class Buffer(Inbox):
    """Holds up to ``size`` publications, or passes them to a callback."""

    def __init__(self, size: int, overflow: Overflow, callback: Callback | None, guard: LoopGuard):
        super().__init__(size, callback)
        self.lost = 0
        self.gaps = 0
        self.last_gap: Gap | None = None
        self.has_ended = False
        self.on_gap: Callable[[], object] | None = None
        self._size = size
        self._overflow = overflow
        self._has_callback = callback is not None
        self._guard = guard
        self._error: OctopiaError | None = None
        self._news = asyncio.Event()

    # The reader's side.

    async def fill(self) -> bool:
        """Wait until something is buffered; return False, or raise the reason, if nothing will come."""
        self._guard.check()
        if self._has_callback:
            raise UsageError("expected a subscription without a callback: with one, publications go to the callback")
        while not self.items:
            if self.has_ended:
                self.check_end()
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def take_all(self) -> list[Received]:
        """Return all that is buffered, without waiting."""
        batch = list(self.items)
        self.items.clear()
        return batch

    def check_end(self) -> None:
        """Raise the reason for the end, unless the program asked for it."""
        if isinstance(self._error, SlowSubscriber):
            raise SlowSubscriber(self._error.sentence, self.lost)
        if self._error is not None:
            raise self._error

    # The client's side.

    def put(self, received: Received) -> bool:
        """Handle a publication that does not fit; return False if the subscription ends."""
        if self.has_ended:
            self.lost += isinstance(self._error, SlowSubscriber)
        elif self._overflow is Overflow.DROP_OLDEST:
            self.items.popleft()
            self.items.append(received)
            self.lost += 1
        else:
            self.lost += 1
            self.end(SlowSubscriber(f"the buffer of {self._size} publications was full", self.lost))
            return False
        return True

    def wake(self) -> None:
        """Wake the reader."""
        self._news.set()

    def note_gap(self, gap: Gap) -> None:
        """Note that publications may have been missed."""
        self.gaps += 1
        self.last_gap = gap
        self.tell_gap()

    def tell_gap(self) -> None:
        """Call the program's function: a gap was noted, or has ended and may have lasted until now."""
        if self.on_gap is not None:
            call(self.on_gap)

    def end(self, error: OctopiaError | None) -> None:
        """Note that nothing more will come, and why; the first reason counts."""
        if not self.has_ended:
            self.has_ended = True
            self.room = 0
            self.callback = None
            self._error = error
            self._news.set()
