"""What a client has asked of its broker and is not done with: waiting to be written, or to be acknowledged.

Requests without publications go first and need no credit; publications wait for credit. What was written is done when
the session says that it was acknowledged. This is pure: whoever asked is told through the entries.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from octopia.link import Session
from octopia.protocol.messages import ClientRequest, PublishRequest

_PLAIN = 1
"""The class of a client's publications, in the mask of a session."""


class Entry(Protocol):
    """Something that was asked, and whom to tell what became of it."""

    @property
    def message(self) -> ClientRequest:
        """What is written."""

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody wants it any more, so that it need not be written."""

    def acknowledged(self) -> None:
        """Learn that the broker has it."""

    def forgotten(self) -> None:
        """Learn that no answer will come: the broker lost its memory, or it was abandoned before it was written."""


class Outbox:
    """All that waits, in order."""

    def __init__(self) -> None:
        self.backlog_bytes = 0
        self._control: deque[Entry] = deque()
        self._data: deque[tuple[Entry, int]] = deque()
        self._written: deque[tuple[int, Entry]] = deque()

    @property
    def is_written(self) -> bool:
        """Whether nothing waits to be written."""
        return not self._control and not self._data

    def put_control(self, entry: Entry) -> None:
        """Add a request without a publication."""
        self._control.append(entry)

    def put_publication(self, entry: Entry, size_bytes: int) -> None:
        """Add a publication."""
        self._data.append((entry, size_bytes))
        self.backlog_bytes += size_bytes

    def pump(self, session: Session, now_ms: float) -> None:
        """Write as much as the session carries."""
        if not session.is_up:
            return
        while self._control:
            self._write(self._control.popleft(), session, now_ms)
        data = self._data
        while data and session.classes & _PLAIN:
            entry, size_bytes = data.popleft()
            self.backlog_bytes -= size_bytes
            self._write(entry, session, now_ms)

    def settle(self, acknowledged: int) -> None:
        """Tell of all entries up to a number of the session that the broker has them."""
        written = self._written
        while written and written[0][0] <= acknowledged:
            written.popleft()[1].acknowledged()

    def start_anew(self) -> None:
        """Forget all that a broker which lost its memory may have had, and control, which is issued again."""
        forgotten = [entry for _, entry in self._written] + list(self._control)
        self._written.clear()
        self._control.clear()
        for entry in forgotten:
            entry.forgotten()

    def written_publications(self) -> list[PublishRequest]:
        """Return the publications of which it is not known whether the broker has them, in order."""
        return [entry.message for _, entry in self._written if isinstance(entry.message, PublishRequest)]

    def _write(self, entry: Entry, session: Session, now_ms: float) -> None:
        if entry.is_abandoned:
            entry.forgotten()
            return
        session.send(entry.message, now_ms)
        self._written.append((session.last_sequence, entry))
