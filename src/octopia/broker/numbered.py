"""Caches for the numbers that a matcher returns, and for values made from them.

Many publications match the same set of subscriptions. The tuple of ids behind such a set of numbers is looked up once
and cached. Values made from that tuple can be cached too, by its identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

MOST_KEPT = 4096
"""The maximum size of a cache; a full cache is cleared, since frequent values return soon."""

K = TypeVar("K")
V = TypeVar("V")


class Numbered(Generic[V]):
    """Values by number."""

    __slots__ = ("_known", "_values")

    def __init__(self) -> None:
        self._values: dict[int, V] = {}
        self._known: dict[bytes, tuple[V, ...]] = {}

    def add(self, number: int, value: V) -> None:
        """Assign a value to a number."""
        self._values[number] = value
        self._known.clear()

    def remove(self, number: int) -> None:
        """Remove a number and its value."""
        del self._values[number]
        self._known.clear()

    def all(self, numbers: bytes) -> tuple[V, ...]:
        """Return the values of numbers of 64 bits; equal numbers mostly give the same tuple object."""
        known = self._known.get(numbers)
        if known is None:
            known = tuple(map(self._values.__getitem__, memoryview(numbers).cast("q")))
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[numbers] = known
        return known


class Kept(Generic[K, V]):
    """A cache of values made from immutable objects, by the identity of the object."""

    __slots__ = ("_made", "_most")

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        # Each value is stored with its object: while that is alive, no other object has its identity.
        self._made: dict[int, tuple[K, V]] = {}

    def of(self, thing: K, make: Callable[[K], V]) -> V:
        """Return the value made from this object, or make it now."""
        known = self._made.get(id(thing))
        if known is not None:
            return known[1]
        made = make(thing)
        if len(self._made) >= self._most:
            self._made.clear()
        self._made[id(thing)] = thing, made
        return made

    def clear(self) -> None:
        """Clear the cache."""
        self._made.clear()
