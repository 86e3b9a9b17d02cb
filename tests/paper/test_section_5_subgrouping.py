"""Section 5, Subscription Subgrouping."""

from octopia.protocol.messages import UnsubscribeRequest
from support import HandDriven, offer, want


def with_a_subscriber_per_cluster() -> HandDriven:
    net = HandDriven("paper:fig3", 3)
    for name, broker in {"S": "f.0", "S0": "a.0", "S1": "d.1", "S2": "f.2"}.items():
        net.ask(name, broker, want(0, "x > 0"))
    net.settle()
    return net


def subgroup(net: HandDriven, cluster: int) -> set[str]:
    """The subscriptions known anywhere in a cluster."""
    brokers = (broker for broker in net.brokers.values() if broker.id.cluster == cluster)
    return {str(entry.id) for broker in brokers for entry in broker.state.prt}


def test_subgrouping_divides_subscriptions_into_multiple_disjoint_sets():
    net = with_a_subscriber_per_cluster()
    subgroups = [subgroup(net, cluster) for cluster in range(3)]
    assert subgroups == [{"f.0/1/0", "a.0/1/0"}, {"d.1/1/0"}, {"f.2/1/0"}]


def test_subscriptions_in_a_subgroup_are_available_in_the_same_exclusive_overlay_network_area():
    net = with_a_subscriber_per_cluster()
    for broker in net.brokers.values():
        assert {str(entry.id) for entry in broker.state.prt} == subgroup(net, broker.id.cluster)


def test_updates_in_routing_tables_due_to_unsubscribe_calls_effect_a_limited_area_of_the_network():
    net = with_a_subscriber_per_cluster()
    before = {name: broker.fingerprint() for name, broker in net.brokers.items()}
    net.ask("S1", "d.1", UnsubscribeRequest(0))
    net.settle()
    changed = {name for name, broker in net.brokers.items() if broker.fingerprint() != before[name]}
    assert changed == {"a.1", "b.1", "c.1", "d.1", "e.1", "f.1"}


def test_advertisements_and_subscriptions_of_one_content_meet_without_either_moving_the_other():
    """Tight coupling is gone: an advertisement changes no PRT, a subscription stores no advertisement elsewhere."""
    net = with_a_subscriber_per_cluster()
    prts = {name: broker.table_sizes()["prt"] for name, broker in net.brokers.items()}
    net.ask("P0", "a.0", offer(0, "x > 0"))
    net.settle()
    assert {name: broker.table_sizes()["prt"] for name, broker in net.brokers.items()} == prts
    assert {name for name, broker in net.brokers.items() if broker.table_sizes()["clt"]} == {"a.0", "a.1", "a.2"}
