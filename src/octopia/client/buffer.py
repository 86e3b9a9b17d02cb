"""The buffer of a subscription: publications that were received and not read yet. The client fills it."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from octopia.client.callbacks import Callback, call
from octopia.client.guard import LoopGuard
from octopia.client.inbox import Inbox
from octopia.client.received import Received
from octopia.errors import OctopiaError, SlowSubscriber, UsageError
from octopia.protocol import Overflow
from octopia.protocol.messages import Gap, Lost

Notice: TypeAlias = Gap | Lost


class Buffer(Inbox):
    """Holds up to ``size`` publications, or passes them to a callback."""

    def __init__(
        self,
        size: int,
        overflow: Overflow,
        callback: Callback | None,
        guard: LoopGuard,
        *,
        is_manual: bool = False,
        on_receipt: Callback | None = None,
    ):
        super().__init__(size, callback)
        if is_manual:
            # The broker sends no more than it keeps for a client that acknowledges nothing.
            self.room = sys.maxsize if callback is None else 0
            self.unacknowledged = deque()
        self._on_receipt = on_receipt
        self._noted_room = self.room
        if on_receipt is not None:
            self.room = 0  # So that every publication passes ``put``.
        self._notices: list[tuple[int, Notice]] = []
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

    async def wait(self) -> bool:
        """Wait until a publication or a notice is there; return False, or raise the reason, if none will come."""
        while not self.items and not self._notices:
            if self.has_ended:
                self.check_end()
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def take_all(self) -> list[Received]:
        """Remove and return everything that is buffered, without waiting."""
        batch = list(self.items)
        self.items.clear()
        return batch

    @property
    def last_read(self) -> int:
        """The number of the last message that the program has read; those that are buffered come after it."""
        return self.items[0].number - 1 if self.items else sys.maxsize

    def take_notices(self) -> list[tuple[int, Notice]]:
        """Return the notices since the last call, each with its number; only manual acknowledgement keeps notices."""
        notices, self._notices = self._notices, []
        return notices

    def acknowledge(self, number: int) -> None:
        """Note that the program has finished with all messages up to a number."""
        waiting = self.unacknowledged
        while waiting and waiting[0] <= number:
            waiting.popleft()

    def forget_unacknowledged(self) -> None:
        """Forget all unacknowledged messages: they can no longer be acknowledged, or need not be."""
        if self.unacknowledged is not None:
            self.unacknowledged.clear()

    def check_end(self) -> None:
        """Raise the reason for the end, unless the program asked for it."""
        if isinstance(self._error, SlowSubscriber):
            raise SlowSubscriber(self._error.sentence, self.lost)
        if self._error is not None:
            raise self._error

    # The client's side.

    def put(self, received: Received) -> bool:
        """Handle a publication that does not fit, or is to be noted; return False if the subscription ends."""
        if self._on_receipt is not None and not self.has_ended:
            call(self._on_receipt, received)
            if len(self.items) < self._noted_room:
                self.items.append(received)
                return True
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

    def note_gap(self, gap: Gap, number: int, *, was_told: bool) -> None:
        """Note that publications may have been missed; ``was_told`` if the message with this number says so."""
        self.gaps += 1
        self.last_gap = gap
        self._note(gap, number, was_told)
        self.tell_gap()

    def note_lost(self, deliveries: int, number: int) -> None:
        """Note that the broker has dropped deliveries, since this client was too slow."""
        self.lost += deliveries
        self._note(Lost(deliveries), number, True)

    def _note(self, notice: Notice, number: int, was_told: bool) -> None:
        if self.unacknowledged is not None and not self.has_ended:
            self._notices.append((number, notice))
            if was_told:
                self.unacknowledged.append(number)
            self._news.set()

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
