"""The publisher: publications on their way to the host broker, and the calls that wait for them.

A publication is *accepted* when the broker has acknowledged its frame and has not refused it. The backlog of unwritten
publications is bounded; when it is full, calls wait for room in their order. Their publications are put into the outbox
when there is room, as many as fit, before the calls continue: so they are written together.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterable, Callable, Iterable, Iterator

from octopia.client.outbox import Outbox, Ticket, at_item
from octopia.client.publishable import Publishable, to_publication
from octopia.content import Publication
from octopia.errors import InvalidPublication, OctopiaError, OutcomeUnknown, RequestRefused, TimedOut

BACKLOG_BYTES_MAX = 256 * 1024
"""The size of the backlog at which calls begin to wait for room."""


class Single(Ticket):
    """The ticket of one publication."""

    __slots__ = ("outcome",)

    def __init__(self) -> None:
        super().__init__()
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_abandoned(self) -> bool:
        """True if the call has ended."""
        return self.outcome.done()

    def failed(self, index: int, error: OctopiaError) -> None:
        """Raise the error in the call."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    def settled(self) -> None:
        """Return to the caller, unless the publication has failed."""
        if not self.outcome.done():
            self.outcome.set_result(None)


class Batch(Ticket):
    """The ticket of many publications."""

    is_abandoned = False

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[OctopiaError] = []
        self._settled = asyncio.Event()

    def failed(self, index: int, error: OctopiaError) -> None:
        """Keep the error."""
        self.failures.append(at_item(index, error))

    def settled(self) -> None:
        """Wake the call."""
        self._settled.set()

    async def wait(self) -> None:
        """Return when all are settled."""
        if self.open:
            self._settled.clear()
            await self._settled.wait()

    def result(self) -> int:
        """Return the number accepted, or raise the first failure with a note of the numbers."""
        if not self.failures:
            return self.accepted
        raise self.noted(self.failures[0])

    def noted(self, error: OctopiaError) -> OctopiaError:
        """Add a note with the numbers to an error."""
        unknown = f", {self.open} have an unknown outcome" if self.open else ""
        error.add_note(f"{self.accepted} publications were accepted, {len(self.failures)} failed{unknown}")
        return error


class Publisher:
    """Sends publications, and settles them when the broker answers."""

    def __init__(self, outbox: Outbox, poke: Callable[[], None], ask: Callable[[], None]):
        self._outbox = outbox
        self._poke = poke
        self._ask = ask
        self._waiting: OrderedDict[asyncio.Future[None], tuple[Publication, Ticket] | None] = OrderedDict()
        self.accepted = 0
        """The number of publications that were accepted, of calls that have ended."""
        self._is_idle = asyncio.Event()
        self._refusal: OctopiaError | None = None
        outbox.on_idle = self._is_idle.set

    # The client's side.

    @property
    def has_published(self) -> bool:
        """True if something was published, or waits to be."""
        return self._outbox.has_published

    async def publish(self, publication: Publication, timeout: float | None = None) -> None:
        """Return when a publication is accepted."""
        ticket = Single()
        try:
            await self._publish(publication, ticket, timeout)
        finally:
            self.accepted += ticket.accepted

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
                raise  # It was raised by the items.
            is_open = [sequence for sequence, posting in self._outbox.open.items() if posting.ticket is batch]
            raise batch.noted(self._expired(is_open, timeout)) from None
        finally:
            batch.is_abandoned = True
            self.accepted += batch.accepted
        return batch.result()

    @contextlib.contextmanager
    def refusing(self, error: OctopiaError) -> Iterator[None]:
        """Fail all publications of this time."""
        self._refusal = error
        try:
            yield
        finally:
            if self._refusal is error:
                self._refusal = None

    async def settled(self) -> None:
        """Return when everything published before is settled."""
        if self._waiting:
            await self._turn(None)  # Then the calls that waited for room before this one have put their publications.
        if self._outbox.open:
            self._is_idle.clear()
            self._ask()
            await self._is_idle.wait()

    # The connection's side.

    def room_was_made(self) -> None:
        """Put the publications of calls that wait, as many as there is room for."""
        while self._waiting and self._outbox.backlog_bytes < BACKLOG_BYTES_MAX:
            turn, waiting = self._waiting.popitem(last=False)
            if turn.done():
                continue  # The call was cancelled, and has not run since.
            if waiting is not None:
                self._add(*waiting)
            turn.set_result(None)

    def refused(self, sequence: int, reason: str) -> RequestRefused | None:
        """Fail a publication; return the error if no call waits for it."""
        error = RequestRefused(f"the broker refused a publication: {reason}")
        return None if self._outbox.settle(sequence, error) else error

    def end(self, error: OctopiaError) -> None:
        """Fail all open publications, and all later ones."""
        self._refusal = error
        for sequence in self._outbox.written_publications():
            unknown = OutcomeUnknown(f"the connection ended before this publication was acknowledged: {error}")
            self._outbox.settle(sequence, unknown)
        for sequence in list(self._outbox.open):
            self._outbox.settle(sequence, error)
        while self._waiting:
            turn, waiting = self._waiting.popitem(last=False)
            if not turn.done() and waiting is None:
                turn.set_result(None)
            elif not turn.done():
                turn.set_exception(error)

    async def _publish(self, publication: Publication, ticket: Single, timeout: float | None) -> None:
        if timeout is None:
            return await self._put_one(publication, ticket)
        try:
            async with asyncio.timeout(timeout):
                await self._put_one(publication, ticket)
        except TimeoutError:
            if ticket.outcome.done() and not ticket.outcome.cancelled():
                return ticket.outcome.result()  # The answer and the end of the time came together.
            raise self._expired([ticket.last] if ticket.last else [], timeout) from None

    async def _put_all(self, items: Iterable[Publishable] | AsyncIterable[Publishable], batch: Batch) -> None:
        try:
            if isinstance(items, AsyncIterable):
                await self._put_each(items, batch)
            else:
                await self._put_in_turns(items, batch)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._ask()
            await batch.wait()
            raise
        self._ask()
        await batch.wait()

    async def _put_in_turns(self, items: Iterable[Publishable], batch: Batch) -> None:
        """Put as many as there is room for in each turn of the event loop."""
        iterator = iter(items)
        while True:
            room_bytes = BACKLOG_BYTES_MAX if self._refusal is None and not self._waiting else 0
            try:
                waiting = self._outbox.put_all(iterator, batch, room_bytes, time.time)
            finally:
                self._poke()
            if waiting is None:
                return
            await self._put(waiting, batch)

    async def _put_each(self, items: AsyncIterable[Publishable], batch: Batch) -> None:
        async for item in items:
            try:
                publication = to_publication(item)
            except InvalidPublication as error:
                raise at_item(batch.count, error) from None
            await self._put(publication, batch)

    async def _put_one(self, publication: Publication, ticket: Single) -> None:
        try:
            await self._put(publication, ticket)
            self._ask()
            await ticket.outcome
        finally:
            ticket.outcome.cancel()  # If the call was cancelled in the turn in which its publication was put.

    def _expired(self, sequences: Iterable[int], timeout: float | None) -> OctopiaError:
        """Withdraw publications that are not written; return the error of a call whose time is over."""
        withdrawn = TimedOut(f"publishing took longer than {timeout} s; what was not written is withdrawn")
        is_unknown = False
        for sequence in sequences:
            # Publications leave the outbox in the order of their numbers, which count from 1.
            if sequence <= self._outbox.departed:
                is_unknown = True
            else:
                self._outbox.settle(sequence, withdrawn)
        if is_unknown:
            return OutcomeUnknown(
                f"expected an acknowledgement within {timeout} s, got none; the publication may or may not be accepted"
            )
        return withdrawn

    async def _put(self, publication: Publication, ticket: Ticket) -> None:
        if self._refusal is None and (self._waiting or self._outbox.backlog_bytes >= BACKLOG_BYTES_MAX):
            await self._turn((publication, ticket))
        else:
            self._add(publication, ticket)

    async def _turn(self, waiting: tuple[Publication, Ticket] | None) -> None:
        """Wait for the calls that wait already, and for room; then ``waiting`` has been put."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = waiting
        try:
            await turn
        finally:
            self._waiting.pop(turn, None)

    def _add(self, publication: Publication, ticket: Ticket) -> None:
        if self._refusal is not None:
            raise self._refusal
        self._outbox.put_publication(publication, ticket, time.time() * 1000.0)
        self._poke()
