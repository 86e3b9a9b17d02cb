"""Section 6, Advertisement Broadcast, and Fig. 4."""

from octopia.protocol.messages import Advertise, Unadvertise, UnadvertiseRequest
from support import HandDriven, offer, want

PUBLISHERS = {"P0": "a.0", "P1": "e.1", "P2": "a.2"}


def fig_4() -> HandDriven:
    net = HandDriven("paper:fig3", 3)
    for name, broker in PUBLISHERS.items():
        net.ask(name, broker, offer(0, "x > 0"))
    net.settle()
    return net


def links_of(net: HandDriven, kind: type) -> list[str]:
    return sorted(f"{source}>{target}" for source, target, message in net.carried if isinstance(message, kind))


def test_fig_4_an_advertisement_goes_to_secondary_brokers_in_the_host_region_and_no_further():
    assert links_of(fig_4(), Advertise) == sorted(["a.0>a.1", "a.0>a.2", "e.1>e.0", "e.1>e.2", "a.2>a.0", "a.2>a.1"])


def test_each_advertisement_is_available_at_most_one_broker_of_each_cluster():
    net = fig_4()
    for name, host in PUBLISHERS.items():
        holders = [
            broker.id
            for broker in net.brokers.values()
            if any(str(entry.id.host_broker) == host for entry in broker.state.clt)
        ]
        assert [each.cluster for each in sorted(holders, key=lambda each: each.cluster)] == [0, 1, 2], name
        assert {each.region for each in holders} == {host[0]}


def test_an_advertisement_tree_has_length_1():
    for broker in fig_4().brokers.values():
        for entry in broker.state.clt:
            assert entry.is_hosted_here or entry.last_hop == entry.id.host_broker


def test_octopia_generates_no_messages_to_detect_and_discard_duplicates():
    net = fig_4()
    assert len(net.carried) == 2 * len(PUBLISHERS)
    received = [(target, str(message.id)) for _, target, message in net.carried]
    assert len(set(received)) == len(received)


def test_an_unadvertise_call_simply_removes_the_advertisement_from_clts_of_brokers_in_the_host_region():
    net = fig_4()
    net.carried.clear()
    net.ask("P1", "e.1", UnadvertiseRequest(0))
    net.settle()
    assert links_of(net, Unadvertise) == ["e.1>e.0", "e.1>e.2"]
    assert len(net.carried) == 2
    assert all(not broker.table_sizes()["clt"] for broker in net.brokers.values() if broker.id.region == "e")
    assert all(broker.table_sizes()["clt"] == 2 for broker in net.brokers.values() if broker.id.region == "a")


def test_an_unadvertise_call_does_not_require_any_possible_unsubscribe_calls():
    net = fig_4()
    net.ask("S", "f.0", want(0, "x > 5"))
    net.settle()
    net.carried.clear()
    net.ask("P1", "e.1", UnadvertiseRequest(0))
    net.settle()
    assert {type(message) for _, _, message in net.carried} == {Unadvertise}
    assert all(broker.table_sizes()["prt"] == 1 for broker in net.brokers.values() if broker.id.cluster == 0)
