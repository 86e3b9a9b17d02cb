"""Directions: the parts of a cluster that want an advertisement (D3, refined for adaptive routing).

Seen from a broker, its cluster consists of its own clients and of one part behind each primary neighbour. A bit of a
CIV says whether any part of a cluster wants an advertisement; directions say which. All brokers of a region have
primary neighbours in the same regions, so both ends of an iLink mean the same by a direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from octopia.protocol.duties import HERE


class Directions(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A set of directions: the clients of the broker itself, and the sorted regions of primary neighbours."""

    here: bool
    regions: tuple[str, ...] = ()

    @classmethod
    def of(cls, directions: Iterable[str]) -> Directions:
        """Return the set of these directions; ``HERE`` stands for the clients of the broker itself."""
        regions = dict.fromkeys(directions)
        return cls(HERE in regions, tuple(sorted(each for each in regions if each != HERE)))

    def __bool__(self) -> bool:
        return self.here or self.regions != ()

    def __contains__(self, direction: str) -> bool:
        return self.here if direction == HERE else direction in self.regions

    def __iter__(self) -> Iterator[str]:
        """Yield the directions, ``HERE`` first."""
        if self.here:
            yield HERE
        yield from self.regions

    def __or__(self, other: Directions) -> Directions:
        return Directions.of((*self, *other))

    def __and__(self, other: Directions) -> Directions:
        if self == other:
            return self
        return Directions(self.here and other.here, tuple([each for each in self.regions if each in other.regions]))

    def __sub__(self, other: Directions) -> Directions:
        left = tuple([each for each in self.regions if each not in other.regions])
        return Directions(self.here and not other.here, left)


NOWHERE = Directions(here=False)
"""No direction: the answer 0."""
