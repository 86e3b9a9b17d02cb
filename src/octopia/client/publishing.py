"""Publishing: publications on their way into the host broker, each with somebody who waits for it.

A publication is *accepted* when the broker has acknowledged its frame and has not refused it. What waits to be written
is bounded; whoever comes when it is full waits for room, in the order of the calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from octopia.client.outbox import Outbox
from octopia.content import Publication, Value
from octopia.errors import InvalidPublication, OctopiaError, OutcomeUnknown, RequestRefused
from octopia.protocol.messages import PublishRequest
from octopia.wire import prepare

BACKLOG_BYTES_MAX = 256 * 1024
"""When so much waits to be written, whoever publishes more waits."""

Attributes: TypeAlias = Mapping[str, Value]
Publishable: TypeAlias = Publication | Attributes | tuple[Attributes, bytes]
"""What can be published: a publication, its attributes, or attributes and payload."""


def to_publication(item: Publishable) -> Publication:
    """Check what is to be published, and encode it."""
    if isinstance(item, tuple):
        if len(item) != 2:
            raise InvalidPublication(f"expected attributes and payload, got a tuple of {len(item)}")
        item = Publication(*item)
    elif not isinstance(item, Publication):
        item = Publication(item)
    prepare(item)
    return item


class Ticket(Protocol):
    """Whoever waits for publications to be accepted."""

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits any more."""

    def settle(self, error: OctopiaError | None) -> None:
        """Learn what became of one publication."""


class Single:
    """The ticket of one publication."""

    __slots__ = ("outcome",)

    def __init__(self) -> None:
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_abandoned(self) -> bool:
        """Whether the caller has given up."""
        return self.outcome.done()

    def settle(self, error: OctopiaError | None) -> None:
        """Tell the caller."""
        if self.outcome.done():
            return
        if error is None:
            self.outcome.set_result(None)
        else:
            self.outcome.set_exception(error)


class Batch:
    """The ticket of many publications, with one that waits for all of them."""

    def __init__(self) -> None:
        self.accepted = 0
        self.failures: list[OctopiaError] = []
        self.is_abandoned = False
        self._open = 0
        self._settled = asyncio.Event()
        self._settled.set()

    def add(self) -> None:
        """Wait for one more."""
        self._open += 1
        self._settled.clear()

    def settle(self, error: OctopiaError | None) -> None:
        """Count what became of one."""
        if error is None:
            self.accepted += 1
        else:
            self.failures.append(error)
        self._open -= 1
        if not self._open:
            self._settled.set()

    async def wait(self) -> None:
        """Return when all are settled."""
        await self._settled.wait()

    def result(self) -> int:
        """Return how many were accepted, or raise the first failure, which then tells how many there were."""
        if not self.failures:
            return self.accepted
        error = self.failures[0]
        error.add_note(f"{self.accepted} publications were accepted, {len(self.failures)} failed")
        raise error


class _Entry:
    """A publication in the outbox."""

    __slots__ = ("_publishing", "_ticket", "message")

    def __init__(self, message: PublishRequest, ticket: Ticket, publishing: Publishing):
        self.message = message
        self._ticket = ticket
        self._publishing = publishing

    @property
    def is_abandoned(self) -> bool:
        return self._ticket.is_abandoned or not self._publishing.awaits(self.message.sequence)

    def acknowledged(self) -> None:
        self._publishing.settle(self.message.sequence, None)

    def forgotten(self) -> None:
        sentence = "the host broker lost its memory, or was lost, before it had acknowledged this publication"
        self._publishing.settle(self.message.sequence, OutcomeUnknown(sentence))


class Publishing:
    """All publications of a client that are not settled."""

    def __init__(self, outbox: Outbox, poke: Callable[[], None]):
        self._outbox = outbox
        self._poke = poke
        self._sequence = 0
        self._open: dict[int, Ticket] = {}
        self._turn = asyncio.Lock()
        self._has_room = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._end: OctopiaError | None = None

    # What clients do.

    async def publish(self, publication: Publication) -> None:
        """Return when a publication is accepted."""
        ticket = Single()
        await self._put(publication, ticket)
        await ticket.outcome

    async def publish_many(self, items: Iterable[Publishable] | AsyncIterable[Publishable]) -> int:
        """Return how many were accepted, when all are; they are written without waiting for one another."""
        batch = Batch()
        try:
            async with contextlib.aclosing(_each(items)) as each:
                async for item in each:
                    await self._put(to_publication(item), batch)
            await batch.wait()
        except asyncio.CancelledError:
            batch.is_abandoned = True
            raise
        except BaseException:
            await batch.wait()
            raise
        return batch.result()

    async def settled(self) -> None:
        """Return when nothing is open that was published before."""
        async with self._turn:
            pass  # Whoever waited for room before this has got it.
        await self._is_idle.wait()

    # What the connection brings.

    def room_was_made(self) -> None:
        """Let publishers go on, if there is room."""
        if self._outbox.backlog_bytes < BACKLOG_BYTES_MAX:
            self._has_room.set()

    def settle(self, sequence: int, error: OctopiaError | None) -> bool:
        """Tell whoever waits for a publication; return False if nobody does any more."""
        ticket = self._open.pop(sequence, None)
        if ticket is None:
            return False
        if not self._open:
            self._is_idle.set()
        ticket.settle(error)
        return True

    def awaits(self, sequence: int) -> bool:
        """Tell whether a publication is not settled."""
        return sequence in self._open

    def refused(self, sequence: int, reason: str) -> RequestRefused | None:
        """Fail a publication; return the error if it is too late for that."""
        error = RequestRefused(f"the broker refused a publication: {reason}")
        return None if self.settle(sequence, error) else error

    def end(self, error: OctopiaError) -> None:
        """Fail all that is open, and whatever is still to come."""
        self._end = error
        for request in self._outbox.written_publications():
            unknown = OutcomeUnknown(f"the connection ended before this publication was acknowledged: {error}")
            self.settle(request.sequence, unknown)
        for sequence in list(self._open):
            self.settle(sequence, error)
        self._has_room.set()

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
        if isinstance(ticket, Batch):
            ticket.add()
        self._outbox.put_publication(_Entry(request, ticket, self), publication.size)
        self._poke()


async def _each(items: Iterable[Publishable] | AsyncIterable[Publishable]) -> AsyncGenerator[Publishable, None]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
