"""The outbox of a client: requests that wait to be written or to be acknowledged.

Requests without publications go first and need no credit; publications wait for credit. A request is done when the
session reports its acknowledgement. A publication is *settled* when it is accepted or has failed: until then it is
open, and its ticket waits for it. This module is pure: results go to entries and tickets.

Plain Python that Cython compiles (``outbox.pxd``), since every publication passes here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from octopia.client.publishable import to_publication
from octopia.content.publications import Publication
from octopia.errors import InvalidPublication, OctopiaError, OutcomeUnknown, RequestRefused
from octopia.link.flow import Sender
from octopia.link.session import Session
from octopia.protocol.traffic import HEADER_BYTES
from octopia.protocol.transit import PublishRequest, request_of

_PLAIN = 1
"""The traffic class of a client's publications, in the mask of a session."""
_HEADER = HEADER_BYTES


class Ticket:
    """A call that waits for publications.

    ``count`` is the number of its publications, ``open`` of those that are not settled, ``accepted`` of those that the
    broker has accepted. ``last`` is the number of its last publication, 0 if there is none.
    """

    __slots__ = ("accepted", "count", "last", "open")

    def __init__(self) -> None:
        self.accepted = 0
        self.count = 0
        self.last = 0
        self.open = 0

    @property
    def is_abandoned(self) -> bool:
        """True if the call has ended."""
        raise NotImplementedError

    def failed(self, index: int, error: OctopiaError) -> None:
        """Note that a publication has failed; the index counts those of this ticket."""
        raise NotImplementedError

    def settled(self) -> None:
        """Note that no publication of this ticket is open."""
        raise NotImplementedError


class Entry:
    """A request in the outbox. ``number`` is its number in the session, once it is written.

    Requests without a publication have a ``message``; ``acknowledged`` or ``forgotten`` is called with their result.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def acknowledged(self) -> None:
        """Note that the broker has it."""
        raise NotImplementedError

    def forgotten(self) -> None:
        """Note that no answer will come: the broker lost its state."""
        raise NotImplementedError


class Posting(Entry):
    """A publication in the outbox."""

    __slots__ = ("index", "is_settled", "message", "ticket")

    message: PublishRequest
    ticket: Ticket
    index: int
    is_settled: bool


class Outbox:
    """All requests that wait, in order, and the open publications by number.

    ``departed`` counts the publications that have left the queue: they were written, or dropped because no call waited
    for them any longer. ``on_idle`` is called when no publication is open.
    """

    __slots__ = ("_control", "_data", "_sequence", "_written", "backlog_bytes", "departed", "on_idle", "open")

    def __init__(self) -> None:
        self.backlog_bytes = 0
        self.departed = 0
        self.open: dict[int, Posting] = {}
        self.on_idle: Callable[[], object] = _nothing
        self._sequence = 0
        self._control: deque[Any] = deque()
        self._data: deque[Posting] = deque()
        self._written: deque[Any] = deque()

    def start_after(self, sequence: int) -> None:
        """Number the first publication after those that a producer has published before."""
        self._sequence = sequence

    @property
    def has_published(self) -> bool:
        """True if a publication has a number."""
        return self._sequence > 0

    def put_control(self, entry: Entry) -> None:
        """Add a request without a publication."""
        self._control.append(entry)

    def put_publication(self, publication: Publication, ticket: Ticket, published_ms: float) -> None:
        """Number a publication, and add it."""
        self._sequence += 1
        request = request_of(self._sequence, publication, published_ms)
        posting = Posting.__new__(Posting)
        posting.number = 0
        posting.message = request
        posting.ticket = ticket
        posting.index = ticket.count
        posting.is_settled = False
        ticket.count += 1
        ticket.open += 1
        ticket.last = self._sequence
        self.open[self._sequence] = posting
        self._data.append(posting)
        self.backlog_bytes += request.size_bytes - _HEADER

    def put_all(
        self, items: Iterator[Any], ticket: Ticket, backlog_bytes_max: int, clock: Callable[[], float]
    ) -> Publication | None:
        """Add publications until the backlog is full; return the one that found no room, or None at the end of items.

        ``clock`` returns the time in seconds since 1970. An error about an item begins with its index.
        """
        for item in items:
            try:
                publication = to_publication(item)
            except InvalidPublication as error:
                raise at_item(ticket.count, error) from None
            if self.backlog_bytes >= backlog_bytes_max:
                return publication
            self.put_publication(publication, ticket, clock() * 1000.0)
        return None

    def pump(self, session: Session, now_ms: float) -> None:
        """Write as much as the session accepts."""
        if not session.is_up:
            return
        while self._control:
            entry = self._control.popleft()
            session.send(entry.message, now_ms)
            entry.number = session.last_sequence
            self._written.append(entry)
        if self._data and session.classes & _PLAIN:
            sender, frames = session.begin_output(now_ms)
            self._write(sender, frames)

    def settle_up_to(self, acknowledged: int) -> None:
        """Settle all entries up to a number of the session: the broker has them."""
        written = self._written
        while written:
            entry = written[0]
            if entry.number > acknowledged:
                break
            written.popleft()
            if type(entry) is not Posting:
                entry.acknowledged()
                continue
            posting = entry
            if not posting.is_settled:
                self._settle(posting, None)

    def settle(self, sequence: int, error: OctopiaError) -> bool:
        """Fail a publication; return False if no call waits for it any more."""
        posting = self.open.get(sequence)
        if posting is None:
            return False
        is_awaited = not posting.ticket.is_abandoned
        self._settle(posting, error)
        return is_awaited

    def reset(self) -> None:
        """Forget everything written to a broker that lost its state, and control requests, which are issued again."""
        forgotten = [*self._written, *self._control]
        self._written.clear()
        self._control.clear()
        for entry in forgotten:
            self._forget(entry)

    def written_publications(self) -> list[int]:
        """Return the numbers of the publications that were written and not acknowledged, in order."""
        return [entry.message.sequence for entry in self._written if type(entry) is Posting]

    def _write(self, sender: Sender, frames: list[Any]) -> None:
        """Write publications as long as there is credit, except those for which no call waits."""
        data, written = self._data, self._written
        while data and not sender.exhausted & _PLAIN:
            posting = data.popleft()
            self.backlog_bytes -= posting.message.size_bytes - _HEADER
            self.departed += 1
            if posting.is_settled or posting.ticket.is_abandoned:
                self._forget(posting)
                continue
            sender.send(posting.message, frames)
            posting.number = sender.next_sequence - 1
            written.append(posting)

    def _settle(self, posting: Posting, error: OctopiaError | None) -> None:
        """Settle an open publication."""
        ticket = posting.ticket
        posting.is_settled = True
        del self.open[posting.message.sequence]
        if not self.open:
            self.on_idle()
        ticket.open -= 1
        if error is None:
            ticket.accepted += 1
        else:
            ticket.failed(posting.index, error)
        if not ticket.open:
            ticket.settled()

    def _forget(self, entry: Any) -> None:
        if type(entry) is not Posting:
            entry.forgotten()
        elif not entry.is_settled:
            sentence = "the host broker lost its memory, or was lost, before it had acknowledged this publication"
            self._settle(entry, OutcomeUnknown(sentence))


def at_item(index: int, error: OctopiaError) -> OctopiaError:
    """Return an error about one item of many with the index of the item; others concern all items."""
    if isinstance(error, InvalidPublication | OutcomeUnknown | RequestRefused):
        return type(error)(f"item {index}: {error}")
    return error


def _nothing() -> None:
    """Do nothing."""
