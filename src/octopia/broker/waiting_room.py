"""The waiting room of adaptive routing: copies that can go nowhere for now. It blocks no lane.

A copy waits here because no way is known, or because a lane *refused* it. It is routed again when a way may have
opened: all copies when a link comes up, the refused ones when their lane has room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from octopia.ids import BrokerId
from octopia.protocol.duties import Duties
from octopia.protocol.messages import Publish

Place: TypeAlias = tuple[BrokerId, int]
"""A lane of a link."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A publication with duties that no link can take; ``refused_by`` is the lane that had no room for it."""

    publication: Publish
    duties: Duties
    since_ms: float
    refused_by: Place | None = None


class WaitingRoom:
    """The copies that wait at one broker (``entries``), oldest first."""

    __slots__ = ("entries", "size_bytes")

    def __init__(self) -> None:
        self.entries: list[Waiting] = []
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self.entries)

    @property
    def oldest_ms(self) -> float | None:
        """The time since which the oldest copy waits, or None."""
        return min((each.since_ms for each in self.entries), default=None)

    def put(self, waiting: Waiting) -> None:
        """Add a copy."""
        self.entries.append(waiting)
        self.size_bytes += waiting.publication.size_bytes

    def take_all(self) -> list[Waiting]:
        """Remove and return all copies."""
        taken, self.entries, self.size_bytes = self.entries, [], 0
        return taken

    def take_refused(self, by: Callable[[Place], bool]) -> list[Waiting]:
        """Remove and return the copies that were refused by certain lanes."""
        taken = [each for each in self.entries if each.refused_by is not None and by(each.refused_by)]
        if taken:
            self.entries = [each for each in self.entries if each not in taken]
            self.size_bytes = sum(each.publication.size_bytes for each in self.entries)
        return taken

    def take_beyond(self, limit_bytes: int, since_ms: float) -> list[Waiting]:
        """Remove and return the copies that have waited since ``since_ms`` or longer, and the oldest of too many."""
        taken = [each for each in self.entries if each.since_ms <= since_ms]
        kept = [each for each in self.entries if each.since_ms > since_ms]
        size_bytes = sum(each.publication.size_bytes for each in kept)
        while kept and size_bytes > limit_bytes:
            oldest = min(kept, key=lambda each: each.since_ms)
            kept.remove(oldest)
            taken.append(oldest)
            size_bytes -= oldest.publication.size_bytes
        self.entries, self.size_bytes = kept, size_bytes
        return taken
