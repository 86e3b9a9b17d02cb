"""Section 4, Structuredness, and the overlay of the evaluation (section 10, Fig. 9)."""

from octopia.ids import BrokerId, LinkKind
from octopia.overlay.scot import Scot
from octopia.overlay.trees import parse_tree

FIG_3 = Scot(parse_tree("paper:fig3"), 3)
S_E = Scot(parse_tree("paper:se"), 4)


def kinds(scot: Scot, *, edge: bool) -> list[BrokerId]:
    return [broker for broker in scot.brokers if scot.neighbourhood(broker).is_edge is edge]


def test_scot_in_fig_3_contains_three_clusters_and_six_regions():
    assert FIG_3.clusters == 3
    assert FIG_3.regions == ("a", "b", "c", "d", "e", "f")


def test_alinks_connect_brokers_in_the_same_cluster_ilinks_brokers_in_the_same_region():
    assert all(one.cluster == other.cluster and one.region != other.region for one, other in FIG_3.alinks)
    assert all(one.region == other.region and one.cluster != other.cluster for one, other in FIG_3.ilinks)
    assert FIG_3.link_kind(BrokerId("b", 0), BrokerId("d", 0)) is LinkKind.ALINK
    assert FIG_3.link_kind(BrokerId("b", 0), BrokerId("b", 2)) is LinkKind.ILINK


def test_primary_neighbours_are_in_the_same_cluster_secondary_neighbours_in_the_same_region():
    known = FIG_3.neighbourhood(BrokerId("b", 1))
    assert [str(each) for each in known.primary_neighbours] == ["a.1", "c.1", "d.1"]
    assert [str(each) for each in known.secondary_neighbours] == ["b.0", "b.2"]


def test_host_brokers_of_p1_and_p2_are_inner_and_edge_brokers_respectively():
    assert not FIG_3.neighbourhood(BrokerId("e", 1)).is_edge
    assert FIG_3.neighbourhood(BrokerId("a", 2)).is_edge


def test_all_brokers_in_a_region_are_the_same_type():
    for region in FIG_3.regions:
        first, *others = (FIG_3.neighbourhood(BrokerId(region, cluster)).is_edge for cluster in range(3))
        assert all(each is first for each in others)


def test_se_has_16_inner_and_40_edge_brokers():
    # D1: that makes 56, where the paper prints 54.
    assert (len(kinds(S_E, edge=False)), len(kinds(S_E, edge=True)), len(S_E.brokers)) == (16, 40, 56)


def test_fig_9_inner_regions_of_se_are_f_g_h_and_i():
    assert sorted({broker.region for broker in kinds(S_E, edge=False)}) == ["F", "G", "H", "I"]
    assert sorted({broker.region for broker in kinds(S_E, edge=True)}) == list("ABCDEJKLMN")


def test_se_has_52_alinks_84_ilinks_and_a_tree_of_diameter_5():
    assert (len(S_E.alinks), len(S_E.ilinks), S_E.diameter) == (52, 84, 5)


def test_fig_7_is_a_path_of_three_regions_in_four_clusters():
    fig_7 = Scot(parse_tree("paper:fig7"), 4)
    assert (len(fig_7.brokers), len(fig_7.alinks), len(fig_7.ilinks)) == (12, 8, 18)


def test_fig_1_is_a_path_of_three_regions_in_two_clusters():
    fig_1 = Scot(parse_tree("path:3"), 2)
    assert [str(each) for each in sorted(fig_1.brokers, key=lambda each: (each.cluster, each.region))] == [
        "a.0",
        "b.0",
        "c.0",
        "a.1",
        "b.1",
        "c.1",
    ]
    assert 2 * len(fig_1.alinks + fig_1.ilinks) - (len(fig_1.brokers) - 1) == 9
