"""The cluster index vector (paper section 8): one bit per cluster.

It has three contexts, and three names in this package: ``advertisement_civ`` at the host broker of a publisher,
``subscription_civ`` at the secondary brokers of its region, and ``publication_civ`` in the header of a publication that
left its static path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec


class ClusterIndexVector(msgspec.Struct, frozen=True, gc=False):
    """An immutable set of clusters, of ``clusters`` in total, printed with cluster 0 rightmost."""

    bits: int
    clusters: int

    @classmethod
    def of(cls, members: Iterable[int], clusters: int) -> ClusterIndexVector:
        """Return the vector whose set bits are ``members``."""
        bits = 0
        for member in members:
            bits |= 1 << member
        return cls(bits, clusters)

    def __contains__(self, cluster: int) -> bool:
        return bool(self.bits >> cluster & 1)

    def __iter__(self) -> Iterator[int]:
        """Yield the set clusters, lowest first."""
        rest = self.bits
        while rest:
            lowest = rest & -rest
            yield lowest.bit_length() - 1
            rest ^= lowest

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    def __or__(self, other: ClusterIndexVector) -> ClusterIndexVector:
        return ClusterIndexVector(self.bits | other.bits, self.clusters)

    def with_bit(self, cluster: int) -> ClusterIndexVector:
        """Return this vector with the bit of ``cluster`` set."""
        return ClusterIndexVector(self.bits | 1 << cluster, self.clusters)

    def without_bit(self, cluster: int) -> ClusterIndexVector:
        """Return this vector with the bit of ``cluster`` clear."""
        return ClusterIndexVector(self.bits & ~(1 << cluster), self.clusters)

    def __str__(self) -> str:
        return format(self.bits, f"0{self.clusters}b")
