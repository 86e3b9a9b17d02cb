"""The neighbourhood of a broker: all that it knows of the overlay (paper section 4).

It has the broker, its neighbours and the number of clusters. A broker learns nothing else of the overlay, so this
module needs no graphs.
"""

from __future__ import annotations

import dataclasses
import itertools

from octopia.errors import InvalidOverlay, UnknownBroker
from octopia.ids import BrokerId, ClientId, LinkKind, Peer


@dataclasses.dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A broker with its primary neighbours (over aLinks) and its secondary neighbours (over iLinks), both sorted."""

    broker: BrokerId
    primary_neighbours: tuple[BrokerId, ...]
    secondary_neighbours: tuple[BrokerId, ...]
    clusters: int

    def __post_init__(self) -> None:
        _check_primary(self)
        _check_secondary(self)

    @property
    def is_edge(self) -> bool:
        """True for an edge broker, which has at most one primary neighbour; False for an inner broker."""
        return len(self.primary_neighbours) <= 1

    @property
    def neighbours(self) -> tuple[BrokerId, ...]:
        """All neighbours, primary neighbours first."""
        return self.primary_neighbours + self.secondary_neighbours

    def kind_of(self, peer: Peer) -> LinkKind:
        """Return the kind of the link to a neighbour or to any client."""
        if isinstance(peer, ClientId):
            return LinkKind.CLIENT
        if peer in self.secondary_neighbours:
            return LinkKind.ILINK
        if peer in self.primary_neighbours:
            return LinkKind.ALINK
        raise UnknownBroker(f"expected a neighbour of {self.broker}, got {peer}")

    def secondary_neighbour(self, cluster: int) -> BrokerId:
        """Return the broker of this region in another cluster."""
        own = self.broker.cluster
        if cluster == own or not 0 <= cluster < self.clusters:
            raise UnknownBroker(
                f"expected a cluster other than {own} and below {self.clusters} at {self.broker}, got {cluster}"
            )
        # Sorted by cluster with only the own cluster missing, so the position is the cluster, or one less.
        return self.secondary_neighbours[cluster if cluster < own else cluster - 1]


def _check_primary(of: Neighbourhood) -> None:
    neighbours = of.primary_neighbours
    if any(each.cluster != of.broker.cluster or each.region == of.broker.region for each in neighbours):
        raise InvalidOverlay(
            f"expected the primary neighbours of {of.broker} in other regions of its cluster, got {_names(neighbours)}"
        )
    if any(left >= right for left, right in itertools.pairwise(neighbours)):
        raise InvalidOverlay(f"expected the primary neighbours of {of.broker} sorted, got {_names(neighbours)}")


def _check_secondary(of: Neighbourhood) -> None:
    region, own = of.broker.region, of.broker.cluster
    if not 0 <= own < of.clusters:
        raise InvalidOverlay(f"expected a broker of cluster 0 to {of.clusters - 1}, got {of.broker}")
    expected = tuple(BrokerId(region, cluster) for cluster in range(of.clusters) if cluster != own)
    if of.secondary_neighbours != expected:
        raise InvalidOverlay(
            f"expected the secondary neighbours of {of.broker} to be {_names(expected)}, "
            f"got {_names(of.secondary_neighbours)}"
        )


def _names(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers)) or "none"
