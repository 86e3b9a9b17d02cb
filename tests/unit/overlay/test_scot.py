import pickle
import subprocess
import sys

import networkx
import pytest

from octopia.errors import InvalidOverlay, UnknownBroker
from octopia.ids import BrokerId, LinkKind
from octopia.overlay.scot import Scot, check_properties
from octopia.overlay.trees import parse_tree


def scot(tree: str, clusters: int) -> Scot:
    return Scot(parse_tree(tree), clusters)


def names(links) -> str:
    return " ".join(f"{low}-{high}" for low, high in links)


def test_small_overlay_written_out():
    small = scot("b-a", 2)
    assert [str(each) for each in small.brokers] == ["a.0", "a.1", "b.0", "b.1"]
    assert names(small.alinks) == "a.0-b.0 a.1-b.1"
    assert names(small.ilinks) == "a.0-a.1 b.0-b.1"
    assert (small.regions, small.clusters, small.diameter, small.hop_bound) == (("a", "b"), 2, 1, 4)


def test_brokers_are_ordered_by_cluster_as_a_number():
    assert [each.cluster for each in scot("a", 12).brokers] == list(range(12))


def test_neighbourhood():
    known = scot("a-b, b-c", 3).neighbourhood(BrokerId("b", 1))
    assert [str(each) for each in known.primary_neighbours] == ["a.1", "c.1"]
    assert [str(each) for each in known.secondary_neighbours] == ["b.0", "b.2"]
    assert known.clusters == 3


def test_one_cluster_is_a_plain_tree():
    tree = scot("a-b, b-c", 1)
    assert (len(tree.brokers), len(tree.alinks), len(tree.ilinks), tree.hop_bound) == (3, 2, 0, 3)


def test_one_region_is_a_plain_clique():
    clique = scot("a", 5)
    assert (len(clique.brokers), len(clique.alinks), len(clique.ilinks)) == (5, 0, 10)
    assert (clique.diameter, clique.hop_bound) == (0, 5)
    assert all(clique.neighbourhood(each).is_edge for each in clique.brokers)


def test_one_broker():
    alone = scot("a", 1)
    assert alone.brokers == (BrokerId("a", 0),)
    assert alone.neighbourhood(BrokerId("a", 0)).secondary_neighbours == ()


@pytest.mark.parametrize("clusters", [0, -1, 65, True, 2.0, "3", None])
def test_numbers_of_clusters_that_are_refused(clusters):
    with pytest.raises(InvalidOverlay, match=r"expected from 1 to 64 clusters, got"):
        scot("a-b", clusters)


def test_too_many_brokers():
    with pytest.raises(InvalidOverlay, match="at most 50000 brokers, got 10000 regions x 64 clusters"):
        scot("path:10000", 64)


def test_a_thousand_regions():
    large = scot("binary:1000", 4)
    assert (len(large.brokers), len(large.alinks), len(large.ilinks)) == (4000, 3996, 6000)


def test_link_kind():
    small = scot("a-b, b-c", 2)
    assert small.link_kind(BrokerId("a", 1), BrokerId("b", 1)) is LinkKind.ALINK
    assert small.link_kind(BrokerId("b", 1), BrokerId("b", 0)) is LinkKind.ILINK
    for one, other in [("a.0", "c.0"), ("a.0", "b.1"), ("a.0", "a.0")]:
        with pytest.raises(InvalidOverlay, match=f"expected two neighbours, got {one} and {other}"):
            small.link_kind(BrokerId.parse(one), BrokerId.parse(other))


@pytest.mark.parametrize(
    ("tree", "name", "message"),
    [
        ("paper:se", "a.0", 'expected a broker of this overlay, got a.0 (did you mean "A.0"?)'),
        ("paper:se", "a.9", 'got a.9 (did you mean "A.3"?)'),
        ("paper:se", "A.4", "expected a broker of region A, from A.0 to A.3, got A.4"),
        ("paris-london", "pari.2", '(did you mean "paris.2"?)'),
        ("a-b", "x.0", "got x.0 (its regions are a, b)"),
        ("path:12", "Q7.0", "(its regions are a, b, c, d, e, f, g, h, i, j, …)"),
        ("a-b", "b3", "expected a broker as region.cluster, such as b.3, got 'b3'"),
    ],
)
def test_unknown_brokers(tree: str, name: str, message: str):
    with pytest.raises(UnknownBroker) as caught:
        scot(tree, 4).broker(name)
    assert message in str(caught.value)


def test_known_brokers():
    small = scot("a-b", 2)
    assert small.broker("b.1") == small.broker(BrokerId("b", 1)) == BrokerId("b", 1)
    with pytest.raises(UnknownBroker):
        small.neighbourhood(BrokerId("b", 2))
    with pytest.raises(UnknownBroker):
        small.link_kind(BrokerId("b", 0), BrokerId("b", 2))


def test_equality_hash_and_pickle():
    one, same, other = scot("a-b", 2), scot("b-a", 2), scot("a-b", 3)
    assert one == same != other
    assert len({one, same, other}) == 2
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != "a-b"


def test_fingerprint_tells_overlays_apart():
    trees = [("a-b", 2), ("a-b", 3), ("a-c", 2), ("a-b, b-c", 2), ("a-b, a-c", 2), ("a", 2)]
    assert len({scot(*each).fingerprint for each in trees}) == len(trees)
    assert scot("a-b, b-c", 2).fingerprint == scot("c-b, b-a", 2).fingerprint


def test_fingerprint_is_the_same_in_every_process():
    # Spelt out, as brokers of one overlay may run different versions.
    assert scot("a-b, b-c", 4).fingerprint == "73f6c82dab9d5cb5bf1a783c0b9b8327"


def test_the_graph_cannot_be_changed():
    with pytest.raises(networkx.NetworkXError):
        scot("a-b", 2).graph.add_edge("x", "y")


def test_networkx_and_matplotlib_are_imported_only_when_needed():
    code = "import sys, octopia.overlay.diagrams; print(*{'networkx', 'matplotlib'}.intersection(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == ""


def product(tree: str = "a-b, b-c", clusters: int = 3) -> networkx.Graph:
    factor = networkx.Graph()
    factor.add_nodes_from(parse_tree(tree).regions)
    factor.add_edges_from(parse_tree(tree).edges)
    return networkx.cartesian_product(factor, networkx.complete_graph(clusters))


def relabelled(rule) -> networkx.Graph:
    graph = product()
    return networkx.relabel_nodes(graph, {node: rule(*node) for node in graph})


def without(*parts) -> networkx.Graph:
    graph = product()
    for part in parts:
        graph.remove_edge(*part) if isinstance(part[0], tuple) else graph.remove_node(part)
    return graph


def with_edges(*edges) -> networkx.Graph:
    graph = product()
    graph.add_edges_from(edges)
    return graph


def test_a_product_has_the_four_properties():
    check_properties(product())
    check_properties(product("a", 1))
    check_properties(product("paper:se", 4))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (relabelled(lambda region, cluster: (cluster, region)), r"label order property: .* got \(0, 'a'\)"),
        (relabelled(lambda region, cluster: f"{region}.{cluster}"), "label order property: .* got 'a.0'"),
        (relabelled(lambda region, cluster: (region, cluster, 0)), "label order property"),
        (relabelled(lambda region, cluster: (region, cluster + 1)), "index property: .* 0 to 2, got 1, 2, 3"),
        (relabelled(lambda region, cluster: (region, 2 * cluster)), "index property: .* got 0, 2, 4"),
        (relabelled(lambda region, cluster: (region, "xyz"[cluster])), "index property: .* integers, got 'x'"),
        (without(("a", 1)), "Eq. 1: expected a broker a.1"),
        (with_edges((("a", 0), ("b", 1))), "Eq. 2: .* got a.0-b.1"),
        (with_edges((("a", 0), ("a", 0))), "Eq. 2: .* got a.0-a.0"),
        (with_edges(*((("a", each), ("c", each)) for each in range(3))), "acyclic property of cluster 0: .* cycle"),
        (with_edges((("a", 2), ("c", 2))), "acyclic property of cluster 2: .* cycle b-a-c-b"),
        (without((("a", 1), ("b", 1))), "acyclic property of cluster 1: .* no path from region a to b"),
        (without((("a", 0), ("a", 2))), "connectivity property: expected a link a.0-a.2"),
    ],
)
def test_graphs_that_lack_a_property(graph: networkx.Graph, message: str):
    with pytest.raises(InvalidOverlay, match=message):
        check_properties(graph)


def test_clusters_must_be_replicas_of_one_tree():
    graph = without((("b", 2), ("c", 2)))
    graph.add_edge(("a", 2), ("c", 2))
    with pytest.raises(InvalidOverlay, match="cluster 2 to be the same tree as cluster 0"):
        check_properties(graph)


def test_an_overlay_checks_its_product(monkeypatch: pytest.MonkeyPatch):
    broken = without((("a", 0), ("a", 2)))
    monkeypatch.setattr(networkx, "cartesian_product", lambda *factors: broken)
    with pytest.raises(InvalidOverlay, match="connectivity property"):
        scot("a-b, b-c", 3)
