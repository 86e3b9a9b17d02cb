"""Structured cyclic overlay topologies (paper sections 3 and 4).

Definition: a SCOT is the Cartesian product of an acyclic, connected graph (its vertices are the regions) and a complete
graph (its vertices are the clusters, 0 to k-1). A broker is a pair of a region and a cluster. aLinks join brokers of
one cluster; each cluster is a replica of the tree. iLinks join brokers of one region; each region is a clique.

networkx computes the product, which is then checked for the four properties that the paper requires. Files, drivers and
diagrams use a ``Scot``; a broker gets only its ``Neighbourhood``.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from octopia.errors import InvalidOverlay, UnknownBroker
from octopia.ids import BrokerId, LinkKind
from octopia.overlay.neighbourhood import Neighbourhood
from octopia.overlay.properties import check_properties
from octopia.overlay.trees import Tree
from octopia.tomlfile import suggestion

if TYPE_CHECKING:
    import networkx

Link = tuple[BrokerId, BrokerId]

MOST_CLUSTERS = 64
"""The publication header has one bit per cluster, in a field of 64 bits."""

MOST_BROKERS = 50_000
"""A larger number is more likely a typo than an overlay."""


class Scot:
    """The immutable overlay of a tree of regions and a number of clusters."""

    def __init__(self, tree: Tree, clusters: int):
        _check_size(tree, clusters)
        self.tree = tree
        self.clusters = clusters
        self.graph = _product(tree, clusters)
        """The frozen networkx graph of BrokerIds."""

    @property
    def regions(self) -> tuple[str, ...]:
        """The names of the regions, sorted."""
        return self.tree.regions

    @functools.cached_property
    def brokers(self) -> tuple[BrokerId, ...]:
        """All brokers, sorted by region, then by cluster."""
        return tuple(sorted(self.graph))

    @functools.cached_property
    def alinks(self) -> tuple[Link, ...]:
        """The links within clusters, each with its lower broker first."""
        return self._links(lambda low, high: low.cluster == high.cluster)

    @functools.cached_property
    def ilinks(self) -> tuple[Link, ...]:
        """The links within regions, each with its lower broker first."""
        return self._links(lambda low, high: low.region == high.region)

    def _links(self, wanted: Callable[[BrokerId, BrokerId], bool]) -> tuple[Link, ...]:
        return tuple(sorted((min(ends), max(ends)) for ends in self.graph.edges if wanted(*ends)))

    def neighbourhood(self, broker: BrokerId) -> Neighbourhood:
        """Return the neighbourhood of a broker."""
        neighbours = sorted(self.graph[self.broker(broker)])
        return Neighbourhood(
            broker=broker,
            primary_neighbours=tuple(each for each in neighbours if each.cluster == broker.cluster),
            secondary_neighbours=tuple(each for each in neighbours if each.region == broker.region),
            clusters=self.clusters,
        )

    def link_kind(self, one: BrokerId, other: BrokerId) -> LinkKind:
        """Return the kind of the link between two neighbours."""
        if not self.graph.has_edge(self.broker(one), self.broker(other)):
            raise InvalidOverlay(f"expected two neighbours, got {one} and {other}, which have no link")
        return LinkKind.ALINK if one.cluster == other.cluster else LinkKind.ILINK

    def broker(self, name: str | BrokerId) -> BrokerId:
        """Return the broker with this name; raise ``UnknownBroker`` if there is none."""
        broker = name if isinstance(name, BrokerId) else BrokerId.parse(name)
        if broker in self.graph:
            return broker
        if broker.region in self.tree.regions:
            raise UnknownBroker(
                f"expected a broker of region {broker.region}, from {broker.region}.0 to "
                f"{broker.region}.{self.clusters - 1}, got {broker}"
            )
        raise UnknownBroker(f"expected a broker of this overlay, got {broker}{self._suggest_for(broker)}")

    def _suggest_for(self, broker: BrokerId) -> str:
        cluster = min(broker.cluster, self.clusters - 1)
        by_lower = {region.lower(): region for region in reversed(self.regions)}
        if broker.region.lower() in by_lower:
            return f' (did you mean "{by_lower[broker.region.lower()]}.{cluster}"?)'
        hint = suggestion(broker.region, list(self.regions)).replace('"?)', f'.{cluster}"?)')
        some = ", ".join(self.regions[:10]) + (", …" if len(self.regions) > 10 else "")
        return hint or f" (its regions are {some})"

    @functools.cached_property
    def diameter(self) -> int:
        """The diameter of the tree: the maximum number of hops within a cluster; 0 for one region."""
        return self.tree.diameter

    @property
    def hop_bound(self) -> int:
        """The maximum number of hops of a publication, however often it is rerouted."""
        return self.clusters * (self.diameter + 1)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of regions, edges and clusters; equal overlays have equal fingerprints on every machine."""
        edges = ",".join(f"{low}-{high}" for low, high in self.tree.edges)
        canonical = f"octopia overlay 1\n{self.clusters}\n{','.join(self.regions)}\n{edges}\n"
        return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scot):
            return NotImplemented
        return (self.tree, self.clusters) == (other.tree, other.clusters)

    def __hash__(self) -> int:
        return hash((self.tree, self.clusters))

    def __repr__(self) -> str:
        return f"Scot({self.tree!r}, clusters={self.clusters})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The factors are a few bytes; computing the product is cheaper than sending it.
        return Scot, (self.tree, self.clusters)


def _check_size(tree: Tree, clusters: int) -> None:
    if isinstance(clusters, bool) or not isinstance(clusters, int) or not 1 <= clusters <= MOST_CLUSTERS:
        raise InvalidOverlay(f"expected from 1 to {MOST_CLUSTERS} clusters, got {clusters!r}")
    if len(tree.regions) * clusters > MOST_BROKERS:
        raise InvalidOverlay(
            f"expected at most {MOST_BROKERS} brokers, got {len(tree.regions)} regions x {clusters} clusters"
        )


def _product(tree: Tree, clusters: int) -> networkx.Graph[BrokerId]:
    import networkx

    acyclic_factor: networkx.Graph[str] = networkx.Graph()
    acyclic_factor.add_nodes_from(tree.regions)
    acyclic_factor.add_edges_from(tree.edges)
    product: networkx.Graph[Any] = networkx.cartesian_product(acyclic_factor, networkx.complete_graph(clusters))
    check_properties(product)
    graph: networkx.Graph[BrokerId] = networkx.relabel_nodes(product, {node: BrokerId(*node) for node in product})
    networkx.freeze(graph)
    return graph
