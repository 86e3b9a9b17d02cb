"""What a client has issued, as it sees it: advertisements, and subscriptions with what they bring."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from octopia.content import Disjunction, Publication, Value
from octopia.errors import OctopiaError, SlowSubscriber, UsageError
from octopia.ids import PublicationId
from octopia.protocol import Overflow
from octopia.protocol.messages import Deliver

_log = logging.getLogger(__name__)


class Received(msgspec.Struct, frozen=True, gc=False):
    """A publication as it came. Its attributes can be had by name: ``received["price"]``.

    Times are those of the publisher's and of this machine's clock, in ms since 1970.
    """

    delivery: Deliver
    received_ms: float

    @property
    def publication(self) -> Publication:
        """What was published."""
        return self.delivery.publication

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The values by name."""
        return self.delivery.publication.attributes

    @property
    def payload(self) -> bytes:
        """The bytes that travelled along."""
        return self.delivery.publication.payload

    @property
    def id(self) -> PublicationId:
        """The name that the publisher's host broker gave it."""
        return self.delivery.id

    @property
    def published_ms(self) -> float:
        """When the publisher sent it."""
        return self.delivery.published_ms

    @property
    def hops(self) -> int:
        """How many links between brokers it crossed."""
        return self.delivery.hop

    def __getitem__(self, name: str) -> Value:
        return self.delivery.publication.attributes[name]

    def __contains__(self, name: object) -> bool:
        return name in self.delivery.publication.attributes

    def get(self, name: str, default: Value | None = None) -> Value | None:
        """Return the value of an attribute, or the default if there is none."""
        return self.delivery.publication.attributes.get(name, default)

    def __repr__(self) -> str:
        return f"Received({dict(self.attributes)!r}, id={self.id}, payload={len(self.payload)} bytes)"


Callback: TypeAlias = Callable[[Received], object]
OnGap: TypeAlias = Callable[["Subscription"], object]
Withdraw: TypeAlias = Callable[[], Awaitable[None]]


class Advertisement:
    """What a client has said that it will send."""

    def __init__(self, offer: Disjunction, withdraw: Withdraw):
        self.offer = offer
        self._withdraw = withdraw

    async def withdraw(self) -> None:
        """Take it back; publications under way may still be refused for the lack of it."""
        await self._withdraw()


class Subscription:
    """What a client wants, and what has come of it.

    Publications are had by ``async for``, or as lists by ``batches()``. After ``unsubscribe`` and after the client was
    closed, what is buffered is still there, then iteration ends. If it ended for another reason, that is raised.

    ``lost`` counts what was dropped here or at the broker, for lack of speed. The broker does not say which
    subscription of a client it was, so it counts for all of them. ``gaps`` counts how often something may have been
    missed for another reason, such as a host broker that was lost.
    """

    def __init__(
        self,
        interest: Disjunction,
        buffer: int,
        overflow: Overflow,
        withdraw: Withdraw,
        callback: Callback | None = None,
        on_gap: OnGap | None = None,
    ):
        self.interest = interest
        self.lost = 0
        self.gaps = 0
        self._buffer: deque[Received] = deque()
        self._size = buffer
        self._overflow = overflow
        self._withdraw = withdraw
        self._callback = callback
        self._on_gap = on_gap
        self._has_ended = False
        self._error: OctopiaError | None = None
        self._news = asyncio.Event()

    # What users do.

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come but what is buffered."""
        return self._has_ended

    @property
    def buffered(self) -> int:
        """How many publications have come and were not taken yet."""
        return len(self._buffer)

    def __aiter__(self) -> AsyncIterator[Received]:
        # A generator: the interpreter resumes it faster than it calls a coroutine.
        return self._each()

    async def __anext__(self) -> Received:
        if self._buffer or await self._filled():
            return self._buffer.popleft()
        raise StopAsyncIteration

    async def batches(self) -> AsyncIterator[list[Received]]:
        """Yield all that has come since the last time, as lists that are never empty."""
        while batch := await self.next_batch():
            yield batch

    async def next_batch(self) -> list[Received]:
        """Return all that has come, waiting for something if there is nothing; an empty list is the end."""
        if not self._buffer:
            await self._filled()
        return self.take_buffered()

    def take_buffered(self) -> list[Received]:
        """Return what has come, without waiting."""
        batch = list(self._buffer)
        self._buffer.clear()
        return batch

    def check_end(self) -> None:
        """Raise why the subscription ended, if it was for a reason other than that the program wanted it."""
        if isinstance(self._error, SlowSubscriber):
            raise SlowSubscriber(self._error.sentence, self.lost)
        if self._error is not None:
            raise self._error

    async def unsubscribe(self) -> None:
        """Want it no longer; return when the broker has taken note."""
        self.end(None)
        await self._withdraw()

    async def _each(self) -> AsyncIterator[Received]:
        take, buffer = self._buffer.popleft, self._buffer
        while buffer or await self._filled():
            while buffer:
                yield take()

    async def _filled(self) -> bool:
        """Wait until something is buffered; return False, or raise why, if nothing will come."""
        if self._callback is not None:
            raise UsageError("expected a subscription without a callback: its publications go there")
        while not self._buffer:
            if self._has_ended:
                self.check_end()
                return False
            self._news.clear()
            await self._news.wait()
        return True

    # What the client does.

    def take(self, received: Received) -> bool:
        """Keep or pass on a publication; return False if that was one too many. ``wake`` must follow."""
        if self._has_ended:
            self.lost += isinstance(self._error, SlowSubscriber)
        elif self._callback is not None:
            call(self._callback, received)
        elif len(self._buffer) < self._size:
            self._buffer.append(received)
        elif self._overflow is Overflow.DROP_OLDEST:
            self._buffer.popleft()
            self._buffer.append(received)
            self.lost += 1
        else:
            self.lost += 1
            self.end(SlowSubscriber(f"the buffer of {self._size} publications was full", self.lost))
            return False
        return True

    def wake(self) -> None:
        """Let whoever waits go on."""
        self._news.set()

    def note_gap(self) -> None:
        """Note that something may have been missed."""
        self.gaps += 1
        if self._on_gap is not None:
            call(self._on_gap, self)

    def end(self, error: OctopiaError | None) -> None:
        """Note that nothing more will come, and why; the first reason counts."""
        if not self._has_ended:
            self._has_ended = True
            self._error = error
            self._news.set()


def call(callback: Callable[..., object], *arguments: object) -> None:
    """Call what a user gave; what it raises is logged, and harms nobody else."""
    try:
        callback(*arguments)
    except Exception:
        _log.exception("a callback failed: callback=%r", callback)
