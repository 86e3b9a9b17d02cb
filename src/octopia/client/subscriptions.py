"""Advertisements and subscriptions, as programs hold them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from octopia.client.buffer import Buffer, Notice
from octopia.client.received import Received
from octopia.content import Disjunction as Filter  # As programs know it.
from octopia.content import format_filter
from octopia.errors import TimedOut, UsageError
from octopia.protocol.messages import Gap

OnGap: TypeAlias = Callable[["Subscription"], object]
Withdraw: TypeAlias = Callable[[], Awaitable[None]]


class Advertisement:
    """A promise of a client about what it will publish, made with ``client.advertise``."""

    def __init__(self, offer: Filter, withdraw: Withdraw):
        self._offer = offer
        self._withdraw = withdraw

    @property
    def offer(self) -> Filter:
        """The filter that publications will match."""
        return self._offer

    async def unadvertise(self) -> None:
        """Withdraw the advertisement; return when the host broker has done so.

        The broker may still refuse publications under way that no other advertisement covers.
        """
        await self._withdraw()

    def __repr__(self) -> str:
        return f"<Advertisement {format_filter(self.offer)!r}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Durable:
    """The functions behind manual acknowledgement; both take the number of a message."""

    acknowledge: Callable[[int], None]
    resume_point: Callable[[int], str]


class Subscription:
    """The publications that match a filter, made with ``client.subscribe``.

    Read them with ``async for``, with ``next()``, or as lists with ``batches()``. After ``unsubscribe`` and after the
    client was closed, iteration yields what is buffered and then ends. If the subscription ended for another reason,
    iteration then raises it.
    """

    def __init__(self, interest: Filter, buffer: Buffer, withdraw: Withdraw, durable: Durable):
        self._interest = interest
        self._buffer = buffer
        self._withdraw = withdraw
        self._durable = durable

    @property
    def interest(self) -> Filter:
        """The filter."""
        return self._interest

    @property
    def lost(self) -> int:
        """The number of publications that were dropped, here or at the broker, because the reader was too slow.

        The broker counts them per client, so they count for each of its subscriptions.
        """
        return self._buffer.lost

    @property
    def gaps(self) -> int:
        """The number of times that publications may have been missed for another reason, such as a lost broker."""
        return self._buffer.gaps

    @property
    def last_gap(self) -> Gap | None:
        """The last of these gaps, with its ``cause`` and the ``count`` of lost publications, 0 if that is unknown."""
        return self._buffer.last_gap

    @property
    def has_ended(self) -> bool:
        """True if nothing more will come except what is buffered."""
        return self._buffer.has_ended

    @property
    def buffered(self) -> int:
        """The number of publications that were received and not read yet."""
        return len(self._buffer.items)

    def __aiter__(self) -> AsyncIterator[Received]:
        # A generator: the interpreter resumes it faster than it calls a coroutine.
        return self._each()

    async def __anext__(self) -> Received:
        if await self._buffer.fill():
            return self._buffer.items.popleft()
        raise StopAsyncIteration

    async def next(self, timeout: float | None = None) -> Received:
        """Return the next publication; raise TimedOut if none comes within ``timeout`` seconds."""
        try:
            async with asyncio.timeout(timeout):
                if await self._buffer.fill():
                    return self._buffer.items.popleft()
        except TimeoutError:
            raise nothing_came(timeout) from None
        raise has_ended()

    async def batches(self) -> AsyncIterator[list[Received]]:
        """Yield everything received since the last list, as lists that are never empty."""
        while batch := await self.next_batch():
            yield batch

    async def next_batch(self) -> list[Received]:
        """Return everything that is buffered, after waiting if there is nothing; an empty list is the end."""
        await self._buffer.fill()
        return self._buffer.take_all()

    def acknowledge(self, publication: Received | int | None = None) -> None:
        """Acknowledge a publication and everything before it; by default, everything that was read.

        Only for subscriptions with ``ack="manual"``. It covers the notices of gaps before it, too. A ``number``
        stands for its publication.
        """
        self._durable.acknowledge(self._number_of(publication))

    def resume_point(self, publication: Received | int | None = None) -> str:
        """Return a string for ``connect(resume=…)``, to continue after a publication; by default, the last one read.

        Store it together with what was done with the publication, then acknowledge.
        """
        return self._durable.resume_point(self._number_of(publication))

    def take_notices(self) -> list[tuple[int, Notice]]:
        """Return the notices of gaps and losses since the last call, for subscriptions with ``ack="manual"``.

        Each comes with a number: it arrived before the publications with a greater ``number``.
        """
        return self._buffer.take_notices()

    async def next_events(self) -> tuple[list[Received], list[tuple[int, Notice]]]:
        """Return all publications and notices since the last call, after waiting if there are none; none is the end."""
        if not await self._buffer.wait():
            return [], []
        return self._buffer.take_all(), self._buffer.take_notices()

    def _number_of(self, publication: Received | int | None) -> int:
        if publication is None:
            return self._buffer.last_read
        return publication if isinstance(publication, int) else publication.number

    async def unsubscribe(self) -> None:
        """Cancel the subscription; return when the host broker has done so. What is buffered can still be read."""
        await self._withdraw()

    async def _each(self) -> AsyncIterator[Received]:
        items = self._buffer.items
        while await self._buffer.fill():
            while items:
                yield items.popleft()

    def __repr__(self) -> str:
        ended = ", ended" if self.has_ended else ""
        counts = f"{self.buffered} buffered, {self.lost} lost, {self.gaps} gaps"
        return f"<Subscription {format_filter(self.interest)!r}, {counts}{ended}>"


def nothing_came(timeout: float | None) -> TimedOut:
    """Return the error of a reader whose time is over."""
    return TimedOut(f"expected a publication within {timeout} s, got none")


def has_ended() -> UsageError:
    """Return the error of a reader that waits at the end."""
    return UsageError("expected an active subscription, got one that has ended: subscribe again")
