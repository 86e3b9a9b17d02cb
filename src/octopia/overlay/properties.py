"""The four properties of a SCOT, checked on a graph whose nodes are (region, cluster) pairs (paper section 3).

- Label order: the first part of a label is a region, the second a cluster.
- Index: the clusters are numbered from 0 without a gap.
- Acyclic: every cluster is the same tree.
- Connectivity: every region is a complete graph.

If all hold and no edge leaves both its region and its cluster, the graph is the product of its fibres.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from octopia.errors import InvalidOverlay
from octopia.overlay.trees import Tree

if TYPE_CHECKING:
    import networkx


def check_properties(graph: networkx.Graph[Any]) -> None:
    """Raise ``InvalidOverlay`` unless the graph has all four properties."""
    _check_label_order(graph)
    clusters = _check_index(graph)
    regions = sorted({region: None for region, _ in graph})
    _check_nodes(graph, regions, clusters)
    _check_edges(graph)
    _check_acyclic(graph, regions, clusters)
    _check_connectivity(graph, regions, clusters)


def _check_label_order(graph: networkx.Graph[Any]) -> None:
    for node in graph:
        if not (isinstance(node, tuple) and len(node) == 2 and isinstance(node[0], str)):
            raise InvalidOverlay(f"label order property: expected a node as (region, cluster), got {node!r}")


def _check_index(graph: networkx.Graph[Any]) -> int:
    """Check the numbering of clusters, and return their number."""
    labels = {cluster: None for _, cluster in graph}
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, int):
            raise InvalidOverlay(f"index property: expected clusters to be integers, got {label!r}")
    if sorted(labels) != list(range(len(labels))):
        found = ", ".join(map(str, sorted(labels)))
        raise InvalidOverlay(f"index property: expected clusters 0 to {len(labels) - 1}, got {found}")
    return len(labels)


def _check_nodes(graph: networkx.Graph[Any], regions: list[str], clusters: int) -> None:
    """Check that there is a broker for every region and cluster (paper Eq. 1)."""
    for region, cluster in itertools.product(regions, range(clusters)):
        if (region, cluster) not in graph:
            raise InvalidOverlay(f"Eq. 1: expected a broker {region}.{cluster} in the product, got none")


def _check_edges(graph: networkx.Graph[Any]) -> None:
    """Check that every edge stays within a region or within a cluster (paper Eq. 2)."""
    for (region, cluster), (other_region, other_cluster) in graph.edges:
        if (region == other_region) == (cluster == other_cluster):
            raise InvalidOverlay(
                "Eq. 2: expected a link within one cluster or within one region, "
                f"got {region}.{cluster}-{other_region}.{other_cluster}"
            )


def _check_acyclic(graph: networkx.Graph[Any], regions: list[str], clusters: int) -> None:
    first: Tree | None = None
    edges: list[list[tuple[str, str]]] = [[] for _ in range(clusters)]
    for (region, cluster), (other_region, other_cluster) in graph.edges:
        if cluster == other_cluster:
            edges[cluster].append((region, other_region))
    for cluster in range(clusters):
        try:
            tree = Tree.of(edges[cluster], regions)
        except InvalidOverlay as error:
            raise InvalidOverlay(f"acyclic property of cluster {cluster}: {error}") from None
        first = first or tree
        if tree != first:
            raise InvalidOverlay(
                f"acyclic property: expected cluster {cluster} to be the same tree as cluster 0, got another"
            )


def _check_connectivity(graph: networkx.Graph[Any], regions: list[str], clusters: int) -> None:
    for region in regions:
        for low, high in itertools.combinations(range(clusters), 2):
            if not graph.has_edge((region, low), (region, high)):
                raise InvalidOverlay(
                    f"connectivity property: expected a link {region}.{low}-{region}.{high} within the region, got none"
                )
