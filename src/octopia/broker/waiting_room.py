"""The waiting room of adaptive routing: copies that can go nowhere for now. It blocks no lane.

A copy waits here because no way is known, or because a lane *refused* it. It is routed again when a way may have
opened: all copies when a link comes up, the refused ones when their lane has room. A room may hold very many copies, so
nothing that happens for every input looks at all of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from octopia.ids import BrokerId
from octopia.markers import Derived
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
    """The copies that wait at one broker, in the order of their arrival here.

    Each has a number, and those up to ``_due`` are to be routed again. ``_ages`` is a heap of the times since which
    copies wait; it may hold copies that have left.
    """

    __slots__ = ("_ages", "_due", "_next", "_refused", "entries", "size_bytes")
    _ages: Derived[list[tuple[float, int]]]
    _refused: Derived[dict[Place, dict[int, None]]]

    def __init__(self) -> None:
        self.entries: dict[int, Waiting] = {}
        self._ages = []
        self._refused = {}
        self._next = 0
        self._due = -1
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self.entries.values())

    @property
    def has_due(self) -> bool:
        """True if there are copies to be routed again."""
        return bool(self.entries) and next(iter(self.entries)) <= self._due

    @property
    def due(self) -> int:
        """The number of copies to be routed again; they are the first ones."""
        return sum(number <= self._due for number in self.entries)

    @property
    def oldest_ms(self) -> float | None:
        """The time since which the oldest copy waits, or None."""
        while self._ages and self._ages[0][1] not in self.entries:
            heapq.heappop(self._ages)
        return self._ages[0][0] if self._ages else None

    def put(self, waiting: Waiting) -> None:
        """Add a copy."""
        number = self._next
        self._next += 1
        self.entries[number] = waiting
        heapq.heappush(self._ages, (waiting.since_ms, number))
        if waiting.refused_by is not None:
            self._refused.setdefault(waiting.refused_by, {})[number] = None
        self.size_bytes += waiting.publication.size_bytes

    def make_all_due(self) -> None:
        """Mark all copies to be routed again."""
        self._due = self._next - 1

    def take_due(self) -> Waiting | None:
        """Remove and return the next copy to be routed again, or None."""
        return self._take(next(iter(self.entries))) if self.has_due else None

    def take_refused(self, by: Place) -> Waiting | None:
        """Remove and return the first copy that was refused by a lane, or None."""
        refused = self._refused.get(by)
        return self._take(next(iter(refused))) if refused else None

    def take_beyond(self, limit_bytes: int, since_ms: float) -> list[Waiting]:
        """Remove and return the copies that have waited since ``since_ms`` or longer, and the oldest of too many."""
        taken = []
        while (oldest_ms := self.oldest_ms) is not None and (oldest_ms <= since_ms or self.size_bytes > limit_bytes):
            taken.append(self._take(self._ages[0][1]))
        return taken

    def _take(self, number: int) -> Waiting:
        taken = self.entries.pop(number)
        self.size_bytes -= taken.publication.size_bytes
        if taken.refused_by is not None:
            refused = self._refused[taken.refused_by]
            del refused[number]
            if not refused:
                del self._refused[taken.refused_by]
        if len(self._ages) > 2 * len(self.entries) + _AGES_MIN:
            self._ages = [each for each in self._ages if each[1] in self.entries]
            heapq.heapify(self._ages)
        return taken


_AGES_MIN = 64
"""The number of copies that have left and are always kept in the heap."""
