"""Section 7, Subscription Broadcast, and Fig. 5."""

import pytest

from octopia.protocol.messages import Subscribe, Unsubscribe, UnsubscribeRequest
from support import HandDriven, offer, want

FIG_5 = {
    "S0@a.0": ["a.0>b.0", "b.0>c.0", "b.0>d.0", "d.0>e.0", "e.0>f.0"],
    "S@f.0": ["b.0>a.0", "b.0>c.0", "d.0>b.0", "e.0>d.0", "f.0>e.0"],
    "S1@d.1": ["b.1>a.1", "b.1>c.1", "d.1>b.1", "d.1>e.1", "e.1>f.1"],
    "S2@f.2": ["b.2>a.2", "b.2>c.2", "d.2>b.2", "e.2>d.2", "f.2>e.2"],
}


@pytest.mark.parametrize("subscriber", FIG_5)
def test_fig_5_a_subscription_tree_is_formed_in_the_host_cluster(subscriber: str):
    name, host = subscriber.split("@")
    net = HandDriven("paper:fig3", 3)
    net.ask(name, host, want(0, "x > 0"))
    net.settle()
    assert sorted(f"{source}>{target}" for source, target, _ in net.carried) == FIG_5[subscriber]
    assert {type(message) for _, _, message in net.carried} == {Subscribe}
    holders = {name for name, broker in net.brokers.items() if broker.table_sizes()["prt"]}
    assert holders == {f"{region}.{host[2]}" for region in "abcdef"}


def test_sbp_does_not_use_trees_of_matching_advertisements():
    """The subscription takes the same links whether or not an advertisement matches it."""
    trees = []
    for offered in ("x > 0", "y > 0"):
        net = HandDriven("paper:fig3", 3)
        net.ask("P0", "a.0", offer(0, offered))
        net.settle()
        net.carried.clear()
        net.ask("S1", "d.1", want(0, "x > 5"))
        net.settle()
        trees.append([(source, target) for source, target, message in net.carried if isinstance(message, Subscribe)])
    assert trees[0] == trees[1]


def test_an_unsubscribe_removes_the_subscription_from_prts_of_brokers_in_the_host_cluster():
    net = HandDriven("paper:fig3", 3)
    net.ask("S", "f.0", want(0, "x > 0"))
    net.ask("S2", "f.2", want(0, "x > 0"))
    net.settle()
    net.carried.clear()
    net.ask("S", "f.0", UnsubscribeRequest(0))
    net.settle()
    assert sorted(f"{source}>{target}" for source, target, _ in net.carried) == FIG_5["S@f.0"]
    assert {type(message) for _, _, message in net.carried} == {Unsubscribe}
    sizes = {broker.id.cluster: broker.table_sizes()["prt"] for broker in net.brokers.values()}
    assert sizes == {0: 0, 1: 0, 2: 1}


def test_an_unsubscribe_does_not_generate_traffic_in_secondary_clusters():
    net = HandDriven("paper:fig3", 3)
    net.ask("S", "f.0", want(0, "x > 0"))
    net.settle()
    net.carried.clear()
    net.ask("S", "f.0", UnsubscribeRequest(0))
    net.settle()
    assert {end[2] for source, target, _ in net.carried for end in (source, target)} == {"0"}
