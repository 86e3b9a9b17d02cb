"""The memory budget of a node: publishers wait near it, and slow clients go beyond it, largest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from octopia.node.links import ClientLink

_SHORT, _RELIEVED = 0.8, 0.7
"""The shares of the budget at which publishers lose their credit, and get it back."""

_SHORT_MS = 2_000.0
"""The time that publishers wait for slow subscribers before those are cut off."""

_CHECKS_PER_BUDGET = 32
"""The budget is checked whenever deliveries of this fraction of it were added."""


class MemoryBudget:
    """The bytes that publications may take in one node, 0 for no limit."""

    def __init__(self, limit_bytes: int):
        self._limit_bytes = limit_bytes
        self._short_since_ms: float | None = None
        self._unchecked_bytes = 0

    @property
    def is_short(self) -> bool:
        """True if publishers get no credit."""
        return self._short_since_ms is not None

    def is_due(self, added_bytes: int) -> bool:
        """Count deliveries that were added, and return whether there were enough of them for a check."""
        self._unchecked_bytes += added_bytes
        return self._unchecked_bytes * _CHECKS_PER_BUDGET > self._limit_bytes

    def check(self, held_bytes: int, clients: Iterable[ClientLink], now_ms: float) -> list[ClientLink]:
        """Note whether memory is short, and return the clients to cut off.

        They go at once beyond the budget, and near it when publishers have waited for long enough.
        """
        limit, self._unchecked_bytes = self._limit_bytes, 0
        has_waited = self._short_since_ms is not None and now_ms - self._short_since_ms > _SHORT_MS
        largest: list[ClientLink] = []
        if held_bytes > limit or (has_waited and held_bytes > limit * _RELIEVED):
            largest = list(_largest(clients, held_bytes - limit * _RELIEVED))
            held_bytes -= sum(link.held_bytes for link in largest)
        is_short = held_bytes > limit * (_RELIEVED if self.is_short else _SHORT)
        if is_short != self.is_short:
            self._short_since_ms = now_ms if is_short else None
        return largest


def _largest(clients: Iterable[ClientLink], excess_bytes: float) -> Iterator[ClientLink]:
    """Yield the clients that hold most, until they hold the excess together."""
    for link in sorted(clients, key=lambda each: -each.held_bytes):
        if excess_bytes <= 0 or not link.held_bytes:
            return
        excess_bytes -= link.held_bytes
        yield link
