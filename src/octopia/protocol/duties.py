"""Duties: what a copy of a publication still owes, in the header of adaptive routing.

At a broker (x,i), ``enter`` (V) has the clusters that are still to be entered in this region x. ``cross`` (X) has, per
primary region z, the clusters that are still to be carried over the tree edge x-z. ``origin`` (f) bounds what ``enter``
covers:

===================  ==================================================================================================
origin               cluster j in ``enter`` stands for
===================  ==================================================================================================
``Origin.HOST``      everything of cluster j: x is the host region of the publication
a region w           everything of cluster j that is not behind w: x was entered over the tree edge w-x
``Origin.LOCAL``     the clients of broker (x,j) alone (f = all)
===================  ==================================================================================================

Cluster j in ``cross`` of z always stands for everything of cluster j on z's side of the edge x-z. ``ilinks`` (h) counts
the iLinks that the copy has crossed within x.

Both kinds of duty fall into *pieces* (region or here, cluster), which never overlap. So two copies owe the same thing
twice exactly if they share a piece, and a routing step is right exactly if the pieces of what it makes are the pieces
of what it got.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec


class Origin(enum.Enum):
    """The origins of a copy that are not a region."""

    HOST = "host"
    LOCAL = "local"


Entered: TypeAlias = str | Origin
"""The region from which the current one was entered, or an origin that is not a region."""

Crossings: TypeAlias = tuple[tuple[str, int], ...]
"""The clusters to carry over each tree edge, as bits per region; sorted by region, and without empty sets."""

Piece: TypeAlias = tuple[str, int]
"""A smallest duty at a broker: a cluster on the far side of the edge to a primary region, or of this broker's region.

The region of the latter is the empty string, which no region is called.
"""

HERE = ""


class Lane(enum.IntEnum):
    """The data lanes of a link with adaptive routing; each has its own bound, credit and input."""

    PLAIN = 0
    REROUTED = 1


class Duties(msgspec.Struct, frozen=True, gc=False):
    """The duties of one copy; all of them share ``origin`` and ``ilinks``."""

    enter: int
    cross: Crossings = ()
    origin: Entered = Origin.HOST
    ilinks: int = 0

    def __bool__(self) -> bool:
        return self.enter != 0 or self.cross != ()

    @property
    def clusters(self) -> int:
        """The bits of all clusters that the copy still has to reach."""
        bits = self.enter
        for _, carried in self.cross:
            bits |= carried
        return bits

    def union(self, other: Duties) -> Duties:
        """Return the duties of both; they must have the same origin and nothing in common."""
        cross = dict(self.cross)
        for region, bits in other.cross:
            cross[region] = cross.get(region, 0) | bits
        return Duties(self.enter | other.enter, crossings(cross), self.origin, max(self.ilinks, other.ilinks))

    def part(self, clusters: int) -> Duties:
        """Return the duties for some clusters, given as bits."""
        cross = tuple([(region, bits & clusters) for region, bits in self.cross if bits & clusters])
        return Duties(self.enter & clusters, cross, self.origin, self.ilinks)

    def partition(self, clusters: int) -> tuple[Duties, Duties]:
        """Split into the duties for some clusters, given as bits, and the rest."""
        return self.part(clusters), self.part(~clusters)

    def pieces(self, primary_regions: Sequence[str]) -> list[Piece]:
        """Return the smallest duties that these stand for, at a broker with these primary regions."""
        pieces = [(region, cluster) for region, bits in self.cross for cluster in clusters_of(bits)]
        for cluster in clusters_of(self.enter):
            pieces.append((HERE, cluster))
            pieces += [(region, cluster) for region in regions_beyond(self.origin, primary_regions)]
        return pieces


def crossings(cross: dict[str, int]) -> Crossings:
    """Return the clusters per tree edge in their canonical form."""
    if len(cross) < 2:
        return tuple(cross.items())
    return tuple(sorted(cross.items()))


def regions_beyond(origin: Entered, primary_regions: Iterable[str]) -> list[str]:
    """Return the primary regions that a copy may go on to: never back to its origin, and none with Origin.LOCAL."""
    if origin is Origin.LOCAL:
        return []
    return [region for region in primary_regions if region != origin]


def clusters_of(bits: int) -> Iterator[int]:
    """Yield the clusters of a set of bits, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def lane_of(duties: Duties, receiver_cluster: int) -> Lane:
    """Return the lane of a copy: plain if all its duties are for the receiver's own cluster.

    An iLink's plain lane then waits only for aLinks of the cluster that it enters, and an aLink's only for aLinks
    further along the tree. That order has no cycle, so plain lanes always drain.
    """
    return Lane.REROUTED if duties.clusters & ~(1 << receiver_cluster) else Lane.PLAIN
