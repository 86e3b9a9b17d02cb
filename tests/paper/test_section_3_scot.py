"""Section 3, Structured Cyclic Topology."""

import itertools

import networkx
import pytest

from octopia.errors import InvalidOverlay
from octopia.ids import BrokerId
from octopia.overlay.scot import Scot, check_properties
from octopia.overlay.trees import parse_tree

FIG_3 = Scot(parse_tree("paper:fig3"), 3)


def test_fig_2_left_operand_is_acyclic_with_its_arc_from_b_to_d():
    assert parse_tree("paper:fig3").edges == (("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("e", "f"))


def test_fig_3_has_18_brokers_15_alinks_and_18_ilinks():
    assert (len(FIG_3.brokers), len(FIG_3.alinks), len(FIG_3.ilinks)) == (18, 15, 18)


def test_eq_1_the_vertices_are_all_pairs_of_a_region_and_a_cluster():
    assert FIG_3.brokers == tuple(BrokerId(*each) for each in itertools.product("abcdef", range(3)))


def test_eq_2_adjacent_if_one_part_is_equal_and_the_other_adjacent():
    tree, triangle = networkx.Graph(FIG_3.tree.edges), networkx.complete_graph(3)
    for one, other in itertools.combinations(FIG_3.brokers, 2):
        adjacent = (one.region == other.region and triangle.has_edge(one.cluster, other.cluster)) or (
            tree.has_edge(one.region, other.region) and one.cluster == other.cluster
        )
        assert FIG_3.graph.has_edge(one, other) == adjacent


def test_cpug_is_commutative_reversing_the_operands_generates_no_extra_links_or_nodes():
    tree, triangle = networkx.Graph(FIG_3.tree.edges), networkx.complete_graph(3)
    assert networkx.is_isomorphic(networkx.cartesian_product(triangle, tree), FIG_3.graph)


def test_acyclic_property_g_af_must_be_an_acyclic_graph():
    with pytest.raises(InvalidOverlay, match="cycle"):
        parse_tree("a-b, b-c, b-d, d-e, e-f, f-a")


def test_connectivity_property_g_cf_must_be_a_complete_graph():
    product = networkx.cartesian_product(networkx.Graph(FIG_3.tree.edges), networkx.path_graph(3))
    with pytest.raises(InvalidOverlay, match="connectivity property"):
        check_properties(product)


def test_index_property_labels_of_g_cf_are_unique_integers_starting_from_zero():
    factor = networkx.relabel_nodes(networkx.complete_graph(3), {0: 3}, copy=True)
    with pytest.raises(InvalidOverlay, match="index property"):
        check_properties(networkx.cartesian_product(networkx.Graph(FIG_3.tree.edges), factor))


def test_label_order_property_the_first_operand_is_from_g_af():
    product = networkx.cartesian_product(networkx.complete_graph(3), networkx.Graph(FIG_3.tree.edges))
    with pytest.raises(InvalidOverlay, match="label order property"):
        check_properties(product)
    assert str(FIG_3.brokers[0]) == "a.0"


def test_number_of_distinct_fibers_equals_the_order_of_the_other_factor():
    tree = networkx.Graph(FIG_3.tree.edges)
    clusters = FIG_3.graph.edge_subgraph(FIG_3.alinks)
    regions = FIG_3.graph.edge_subgraph(FIG_3.ilinks)
    assert networkx.number_connected_components(clusters) == 3
    assert networkx.number_connected_components(regions) == len(tree)
