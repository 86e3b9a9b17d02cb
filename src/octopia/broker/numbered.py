"""What the numbers of a matcher stand for, and what is made of the same things again and again.

Many publications are wanted by the very same subscriptions. What such a set of numbers stands for is looked up once and
kept, and whoever makes something of it can keep that, too, by the identity of the tuple.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

MOST_KEPT = 4096
"""When more is kept than this, all of it is forgotten: what comes again is soon known again."""

K = TypeVar("K")
V = TypeVar("V")


class Numbered(Generic[V]):
    """Values by number."""

    __slots__ = ("_known", "_values")

    def __init__(self) -> None:
        self._values: dict[int, V] = {}
        self._known: dict[bytes, tuple[V, ...]] = {}

    def add(self, number: int, value: V) -> None:
        """Give a number its value."""
        self._values[number] = value
        self._known.clear()

    def remove(self, number: int) -> None:
        """Forget the value of a number."""
        del self._values[number]
        self._known.clear()

    def all(self, numbers: Sequence[int]) -> tuple[V, ...]:
        """Return the values of some numbers; for the same numbers mostly the same tuple."""
        key = numbers.tobytes() if type(numbers) is array else array("q", numbers).tobytes()
        known = self._known.get(key)
        if known is None:
            known = tuple(map(self._values.__getitem__, numbers))
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[key] = known
        return known


class Kept(Generic[K, V]):
    """What was made of objects that never change, by their identity."""

    __slots__ = ("_made", "_most")

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        # With the object itself: as long as it is kept, no other has its identity.
        self._made: dict[int, tuple[K, V]] = {}

    def of(self, thing: K, make: Callable[[K], V]) -> V:
        """Return what was made of this very object, or make it now."""
        known = self._made.get(id(thing))
        if known is not None:
            return known[1]
        made = make(thing)
        if len(self._made) >= self._most:
            self._made.clear()
        self._made[id(thing)] = thing, made
        return made

    def clear(self) -> None:
        """Forget everything."""
        self._made.clear()
