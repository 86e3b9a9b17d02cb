"""The laws of structured cyclic overlays on random trees, checked against plain networkx and the paper's Eq. 2."""

import itertools

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.errors import InvalidOverlay
from octopia.ids import BrokerId, LinkKind
from octopia.overlay.column_order import column_order
from octopia.overlay.scot import Scot
from octopia.overlay.trees import Tree, parse_tree, region_names


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Join every region to an earlier one, then assign the names at random."""
    size = draw(st.integers(1, 12))
    names = draw(st.permutations(list(itertools.islice(region_names(), size))))
    parents = [draw(st.integers(0, each - 1)) for each in range(1, size)]
    return Tree.of([(names[each], names[parent]) for each, parent in enumerate(parents, start=1)], names[:1])


scots = st.builds(Scot, trees(), st.integers(1, 6))


def as_graph(tree: Tree) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from(tree.regions)
    graph.add_edges_from(tree.edges)
    return graph


@given(scots)
def test_counts(scot: Scot):
    regions, clusters = len(scot.regions), scot.clusters
    assert len(scot.brokers) == regions * clusters
    assert len(scot.alinks) == clusters * (regions - 1)
    assert len(scot.ilinks) == regions * clusters * (clusters - 1) // 2


@given(scots)
def test_links_are_those_of_eq_2(scot: Scot):
    edges = dict.fromkeys(scot.tree.edges)
    pairs = list(itertools.combinations(scot.brokers, 2))
    assert scot.alinks == tuple(
        (low, high) for low, high in pairs if low.cluster == high.cluster and (low.region, high.region) in edges
    )
    assert scot.ilinks == tuple((low, high) for low, high in pairs if low.region == high.region)


@given(scots)
def test_clusters_are_replicas_of_the_tree_and_regions_are_complete(scot: Scot):
    for cluster in range(scot.clusters):
        fibre = scot.graph.subgraph([BrokerId(region, cluster) for region in scot.regions])
        replica = networkx.relabel_nodes(fibre, {broker: broker.region for broker in fibre})
        assert networkx.utils.graphs_equal(replica, as_graph(scot.tree))
        assert networkx.is_isomorphic(fibre, as_graph(scot.tree))
    for region in scot.regions:
        fibre = scot.graph.subgraph([BrokerId(region, cluster) for cluster in range(scot.clusters)])
        assert networkx.is_isomorphic(fibre, networkx.complete_graph(scot.clusters))


@given(scots)
def test_neighbourhoods_agree_with_links_and_with_each_other(scot: Scot):
    known = {broker: scot.neighbourhood(broker) for broker in scot.brokers}
    tree = as_graph(scot.tree)
    for broker, own in known.items():
        assert len(own.primary_neighbours) == tree.degree[broker.region]
        assert len(own.secondary_neighbours) == scot.clusters - 1
        for peer in own.primary_neighbours:
            assert broker in known[peer].primary_neighbours
            assert scot.link_kind(broker, peer) is own.kind_of(peer) is LinkKind.ALINK
        for peer in own.secondary_neighbours:
            assert broker in known[peer].secondary_neighbours
            assert scot.link_kind(broker, peer) is own.kind_of(peer) is LinkKind.ILINK
            assert own.secondary_neighbour(peer.cluster) == peer


@given(scots)
def test_all_brokers_of_a_region_are_of_one_kind(scot: Scot):
    for region in scot.regions:
        kinds = {scot.neighbourhood(BrokerId(region, cluster)).is_edge for cluster in range(scot.clusters)}
        assert len(kinds) == 1


@settings(max_examples=50)
@given(scots)
def test_distances(scot: Scot):
    assert scot.diameter == networkx.diameter(as_graph(scot.tree))
    farthest = networkx.diameter(scot.graph)
    assert farthest == scot.diameter + (1 if scot.clusters > 1 else 0)
    assert scot.hop_bound == scot.clusters * (scot.diameter + 1) >= farthest


@given(trees(), st.randoms())
def test_text_and_back_in_any_order(tree: Tree, random):
    edges = [random.choice([f"{low}-{high}", f"{high}-{low}"]) for low, high in tree.edges]
    random.shuffle(edges)
    assert parse_tree(", ".join(edges) or tree.regions[0]) == tree


@given(trees())
def test_column_order_is_an_order_of_the_regions(tree: Tree):
    order = column_order(tree)
    assert sorted(order) == list(tree.regions)
    spine = tree.longest_path()
    assert [region for region in order if region in spine] == list(spine)
    assert len(spine) - 1 == tree.diameter


@given(trees(), st.data())
def test_any_further_edge_is_refused(tree: Tree, data: st.DataObject):
    edge = data.draw(st.tuples(st.sampled_from(tree.regions), st.sampled_from(tree.regions)))
    with pytest.raises(InvalidOverlay, match=r"self edge|twice|cycle"):
        Tree.of([*tree.edges, edge])


@given(trees().filter(lambda tree: tree.edges), st.data())
def test_any_missing_edge_is_refused(tree: Tree, data: st.DataObject):
    missing = data.draw(st.sampled_from(tree.edges))
    with pytest.raises(InvalidOverlay, match="no path from"):
        Tree.of([edge for edge in tree.edges if edge != missing], tree.regions)
