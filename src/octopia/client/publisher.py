"""The publisher: publications on their way to the host broker, and the calls that wait for them.

A publication is *accepted* when the broker has acknowledged its frame and has not refused it. The backlog of unwritten
publications is bounded; when it is full, calls wait for room in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from octopia.client.outbox import Outbox
from octopia.content import Publication, Value
from octopia.errors import InvalidPublication, OctopiaError, OutcomeUnknown, RequestRefused, TimedOut
from octopia.protocol.messages import PublishRequest
from octopia.wire import prepare

BACKLOG_BYTES_MAX = 256 * 1024
"""The size of the backlog at which calls begin to wait for room."""

Attributes: TypeAlias = Mapping[str, Value]
Publishable: TypeAlias = Publication | Attributes | tuple[Attributes, bytes]
"""A publication, its attributes, or a pair of attributes and payload."""


def to_publication(item: Publishable) -> Publication:
    """Check a publication, and encode it."""
    if isinstance(item, tuple):
        if len(item) != 2:
            raise InvalidPublication(f"expected attributes and payload, got a tuple of {len(item)}")
        item = Publication(*item)
    elif not isinstance(item, Publication):
        item = Publication(item)
    prepare(item)
    return item


class Ticket(Protocol):
    """A call that waits for publications to be accepted."""

    @property
    def is_abandoned(self) -> bool:
        """True if the call has ended."""

    def add(self, sequence: int) -> None:
        """Wait for one more publication."""

    def settle(self, sequence: int, error: OctopiaError | None) -> None:
        """Take the result of one publication."""


class Single:
    """The ticket of one publication."""

    __slots__ = ("open", "outcome")

    def __init__(self) -> None:
        self.open: tuple[int, ...] = ()
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_abandoned(self) -> bool:
        """True if the call has ended."""
        return self.outcome.done()

    def add(self, sequence: int) -> None:
        """Note the number of the publication."""
        self.open = (sequence,)

    def settle(self, sequence: int, error: OctopiaError | None) -> None:
        """Return to the caller, or raise the error there."""
        if self.outcome.done():
            return
        if error is None:
            self.outcome.set_result(None)
        else:
            self.outcome.set_exception(error)


class Batch:
    """The ticket of many publications. ``open`` maps the numbers of those that are not settled to their index."""

    def __init__(self) -> None:
        self.count = 0
        self.accepted = 0
        self.failures: list[OctopiaError] = []
        self.is_abandoned = False
        self.open: dict[int, int] = {}
        self._settled = asyncio.Event()
        self._settled.set()

    def add(self, sequence: int) -> None:
        """Wait for one more."""
        self.open[sequence] = self.count
        self.count += 1
        self._settled.clear()

    def settle(self, sequence: int, error: OctopiaError | None) -> None:
        """Count the result of one."""
        index = self.open.pop(sequence)
        if error is None:
            self.accepted += 1
        else:
            self.failures.append(_at(index, error))
        if not self.open:
            self._settled.set()

    async def wait(self) -> None:
        """Return when all are settled."""
        await self._settled.wait()

    def result(self) -> int:
        """Return the number accepted, or raise the first failure with a note of the numbers."""
        if not self.failures:
            return self.accepted
        raise self.noted(self.failures[0])

    def noted(self, error: OctopiaError) -> OctopiaError:
        """Add a note with the numbers to an error."""
        unknown = f", {len(self.open)} have an unknown outcome" if self.open else ""
        error.add_note(f"{self.accepted} publications were accepted, {len(self.failures)} failed{unknown}")
        return error


def _at(index: int, error: OctopiaError) -> OctopiaError:
    """Return an error about one item of a batch with the index of the item; others concern all items."""
    if isinstance(error, InvalidPublication | OutcomeUnknown | RequestRefused):
        return type(error)(f"item {index}: {error}")
    return error


class _Entry:
    """A publication in the outbox."""

    __slots__ = ("_publisher", "_ticket", "message")

    def __init__(self, message: PublishRequest, ticket: Ticket, publisher: Publisher):
        self.message = message
        self._ticket = ticket
        self._publisher = publisher

    @property
    def is_abandoned(self) -> bool:
        return self._ticket.is_abandoned or not self._publisher.awaits(self.message.sequence)

    def acknowledged(self) -> None:
        self._publisher.settle(self.message.sequence, None)

    def forgotten(self) -> None:
        sentence = "the host broker lost its memory, or was lost, before it had acknowledged this publication"
        self._publisher.settle(self.message.sequence, OutcomeUnknown(sentence))


class Publisher:
    """Sends publications, and settles them when the broker answers."""

    def __init__(self, outbox: Outbox, poke: Callable[[], None], ask: Callable[[], None]):
        self._outbox = outbox
        self._poke = poke
        self._ask = ask
        self._sequence = 0
        self._open: dict[int, Ticket] = {}
        self._turn = asyncio.Lock()
        self._has_room = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._end: OctopiaError | None = None

    # The client's side.

    async def publish(self, publication: Publication, timeout: float | None = None) -> None:
        """Return when a publication is accepted."""
        ticket = Single()
        try:
            async with asyncio.timeout(timeout):
                await self._put(publication, ticket)
                self._ask()
                await ticket.outcome
        except TimeoutError:
            if ticket.outcome.done() and not ticket.outcome.cancelled():
                return ticket.outcome.result()  # The answer and the end of the time came together.
            raise self._expired(ticket.open, timeout) from None

    async def publish_many(
        self, items: Iterable[Publishable] | AsyncIterable[Publishable], timeout: float | None = None
    ) -> int:
        """Return the number accepted, when all are settled; none waits for the one before."""
        batch = Batch()
        try:
            async with asyncio.timeout(timeout) as limit:
                await self._put_all(items, batch)
        except TimeoutError:
            if not limit.expired():
                raise  # It is the source's own.
            raise batch.noted(self._expired(tuple(batch.open), timeout)) from None
        finally:
            batch.is_abandoned = True
        return batch.result()

    async def settled(self) -> None:
        """Return when all that was published before is settled."""
        async with self._turn:
            pass  # The calls that waited for room before this one have put their publications.
        self._ask()
        await self._is_idle.wait()

    # The connection's side.

    def room_was_made(self) -> None:
        """Wake a call that waits for room, if there is some."""
        if self._outbox.backlog_bytes < BACKLOG_BYTES_MAX:
            self._has_room.set()

    def settle(self, sequence: int, error: OctopiaError | None) -> bool:
        """Settle a publication; return False if no call waits for it any more."""
        ticket = self._open.pop(sequence, None)
        if ticket is None:
            return False
        if not self._open:
            self._is_idle.set()
        is_awaited = not ticket.is_abandoned
        ticket.settle(sequence, error)
        return is_awaited

    def awaits(self, sequence: int) -> bool:
        """Return whether a publication is not settled."""
        return sequence in self._open

    def refused(self, sequence: int, reason: str) -> RequestRefused | None:
        """Fail a publication; return the error if no call waits for it any more."""
        error = RequestRefused(f"the broker refused a publication: {reason}")
        return None if self.settle(sequence, error) else error

    def end(self, error: OctopiaError) -> None:
        """Fail all open publications, and all later ones."""
        self._end = error
        for request in self._outbox.written_publications():
            unknown = OutcomeUnknown(f"the connection ended before this publication was acknowledged: {error}")
            self.settle(request.sequence, unknown)
        for sequence in list(self._open):
            self.settle(sequence, error)
        self._has_room.set()

    async def _put_all(self, items: Iterable[Publishable] | AsyncIterable[Publishable], batch: Batch) -> None:
        try:
            async with contextlib.aclosing(_each(items)) as each:
                async for item in each:
                    try:
                        publication = to_publication(item)
                    except InvalidPublication as error:
                        raise _at(batch.count, error) from None
                    await self._put(publication, batch)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._ask()
            await batch.wait()
            raise
        self._ask()
        await batch.wait()

    def _expired(self, sequences: Iterable[int], timeout: float | None) -> OctopiaError:
        """Withdraw publications that are not written; return the error of a call whose time is over."""
        withdrawn = TimedOut(f"publishing took longer than {timeout} s; what was not written is withdrawn")
        is_unknown = False
        for sequence in sequences:
            # Publications leave the outbox in the order of their numbers, which count from 1.
            if sequence <= self._outbox.departed:
                is_unknown = True
            else:
                self.settle(sequence, withdrawn)
        if is_unknown:
            return OutcomeUnknown(f"written, but not acknowledged within {timeout} s; it may or may not be accepted")
        return withdrawn

    async def _put(self, publication: Publication, ticket: Ticket) -> None:
        if self._turn.locked() or self._outbox.backlog_bytes >= BACKLOG_BYTES_MAX:
            async with self._turn:
                await self._room()
                self._add(publication, ticket)
        else:
            self._add(publication, ticket)

    async def _room(self) -> None:
        while self._outbox.backlog_bytes >= BACKLOG_BYTES_MAX and self._end is None:
            self._has_room.clear()
            await self._has_room.wait()

    def _add(self, publication: Publication, ticket: Ticket) -> None:
        if self._end is not None:
            raise self._end
        self._sequence += 1
        request = PublishRequest(self._sequence, publication, time.time() * 1000.0)
        self._open[self._sequence] = ticket
        self._is_idle.clear()
        ticket.add(self._sequence)
        self._outbox.put_publication(_Entry(request, ticket, self), publication.size)
        self._poke()


async def _each(items: Iterable[Publishable] | AsyncIterable[Publishable]) -> AsyncGenerator[Publishable, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
