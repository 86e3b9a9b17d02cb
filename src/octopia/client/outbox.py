"""The outbox of a client: requests that wait to be written or to be acknowledged.

Requests without publications go first and need no credit; publications wait for credit. A request is done when the
session reports its acknowledgement. This module is pure: results go to the entries.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from octopia.link import Session
from octopia.protocol.messages import ClientRequest, PublishRequest

_PLAIN = 1
"""The traffic class of a client's publications, in the mask of a session."""


class Entry(Protocol):
    """A request in the outbox, and the receiver of its result."""

    @property
    def message(self) -> ClientRequest:
        """The message to write."""

    @property
    def is_abandoned(self) -> bool:
        """True if nobody waits for it any more, so that it must not be written."""

    def acknowledged(self) -> None:
        """Note that the broker has it."""

    def forgotten(self) -> None:
        """Note that no answer will come: the broker lost its memory, or the request was abandoned."""


class Outbox:
    """All requests that wait, in order."""

    def __init__(self) -> None:
        self.backlog_bytes = 0
        self.departed = 0
        """The number of publications that have left the queue: they were written, or dropped because abandoned."""
        self._control: deque[Entry] = deque()
        self._data: deque[tuple[Entry, int]] = deque()
        self._written: deque[tuple[int, Entry]] = deque()

    def put_control(self, entry: Entry) -> None:
        """Add a request without a publication."""
        self._control.append(entry)

    def put_publication(self, entry: Entry, size_bytes: int) -> None:
        """Add a publication."""
        self._data.append((entry, size_bytes))
        self.backlog_bytes += size_bytes

    def pump(self, session: Session, now_ms: float) -> None:
        """Write as much as the session accepts."""
        if not session.is_up:
            return
        while self._control:
            self._write(self._control.popleft(), session, now_ms)
        data = self._data
        while data and session.classes & _PLAIN:
            entry, size_bytes = data.popleft()
            self.backlog_bytes -= size_bytes
            self.departed += 1
            self._write(entry, session, now_ms)

    def settle(self, acknowledged: int) -> None:
        """Acknowledge all entries up to a sequence number of the session."""
        written = self._written
        while written and written[0][0] <= acknowledged:
            written.popleft()[1].acknowledged()

    def reset(self) -> None:
        """Forget all that was written to a broker that lost its memory, and control, which is issued again."""
        forgotten = [entry for _, entry in self._written] + list(self._control)
        self._written.clear()
        self._control.clear()
        for entry in forgotten:
            entry.forgotten()

    def written_publications(self) -> list[PublishRequest]:
        """Return the publications that were written and not acknowledged, in order."""
        return [entry.message for _, entry in self._written if isinstance(entry.message, PublishRequest)]

    def _write(self, entry: Entry, session: Session, now_ms: float) -> None:
        if entry.is_abandoned:
            entry.forgotten()
            return
        session.send(entry.message, now_ms)
        self._written.append((session.last_sequence, entry))
