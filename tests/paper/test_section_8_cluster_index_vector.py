"""Section 8, Cluster Index Vector, Fig. 6 and Algorithms 1 and 2."""

from octopia.protocol.messages import CivSet, CivUnset, Publish, UnsubscribeRequest
from support import HandDriven, offer, say, want


def civ_at(net: HandDriven, broker: str, host: str) -> str:
    """The CIV that a broker stores with the only advertisement of a host broker."""
    (entry,) = (entry for entry in net.brokers[broker].state.clt if str(entry.id.host_broker) == host)
    return str(entry.civ)


def updates(net: HandDriven, kind: type) -> list[str]:
    return [f"{source}>{target}" for source, target, message in net.carried if isinstance(message, kind)]


def fig_6() -> HandDriven:
    """Four clusters, a publisher in cluster 1, and subscribers in clusters 0, 1 and 2 who want what it offers."""
    net = HandDriven("a-b", 4)
    net.ask("P", "a.1", offer(0, "x > 0"))
    for name, broker in {"S0": "b.0", "S1": "b.1", "S2": "b.2"}.items():
        net.ask(name, broker, want(0, "x > 5"))
    net.settle()
    return net


class TestFig6:
    def test_a_the_publisher_is_hosted_by_c1_while_c0_and_c2_are_tscs(self):
        assert civ_at(fig_6(), "a.1", "a.1") == "0111"

    def test_b_interested_subscribers_are_hosted_by_c2_and_the_advertisement_came_from_c1(self):
        assert civ_at(fig_6(), "a.2", "a.1") == "0110"

    def test_b_only_two_index_bits_are_meaningful_at_a_secondary_broker(self):
        net = fig_6()
        assert [civ_at(net, f"a.{cluster}", "a.1") for cluster in (0, 2, 3)] == ["0011", "0110", "0010"]

    def test_c_the_bit_of_the_host_cluster_is_always_0_and_c2_and_c0_are_tscs(self):
        net = fig_6()
        net.force("a.1", "a.0")
        net.force("a.1", "a.2")
        net.carried.clear()
        net.ask("P", "a.1", say(0, x=9))
        net.settle()
        first = next(message for _, _, message in net.carried if isinstance(message, Publish))
        assert str(first.publication_civ) == "0101"


class TestCivForAdvertisement:
    """The examples of the paper, on the overlay of Fig. 8."""

    def test_p1_without_matching_subscriptions_all_three_vectors_are_010(self):
        net = HandDriven("paper:fig3", 3)
        net.ask("P1", "e.1", offer(0, "x > 0"))
        net.settle()
        assert [civ_at(net, f"e.{cluster}", "e.1") for cluster in range(3)] == ["010", "010", "010"]
        assert updates(net, CivSet) == []

    def test_p2_with_c0_hosting_interested_subscribers_the_vector_is_101(self):
        net = HandDriven("paper:fig3", 3)
        net.ask("S0", "a.0", want(0, "x > 5"))
        net.settle()
        net.ask("P2", "a.2", offer(0, "x > 0"))
        net.settle()
        assert updates(net, CivSet) == ["a.0>a.2"]
        assert civ_at(net, "a.2", "a.2") == "101"
        assert civ_at(net, "a.0", "a.2") == "101"
        assert civ_at(net, "a.1", "a.2") == "100"

    def test_each_secondary_broker_sends_only_one_civ_set_even_if_multiple_matching_subscriptions_are_found(self):
        net = HandDriven("paper:fig3", 3)
        for number, broker in enumerate(["a.0", "c.0", "f.0"]):
            net.ask(f"S{number}", broker, want(0, "x > 5"), want(1, "x > 6"))
        net.settle()
        net.ask("P2", "a.2", offer(0, "x > 0"))
        net.settle()
        assert updates(net, CivSet) == ["a.0>a.2"]


class TestCivForSubscription:
    def test_s2_issues_the_first_matching_subscription_and_c2_becomes_a_tsc_of_p0(self):
        net = HandDriven("paper:fig3", 3)
        net.ask("P0", "a.0", offer(0, "x > 0"))
        net.settle()
        net.ask("S2", "f.2", want(0, "x > 5"))
        net.settle()
        assert updates(net, CivSet) == ["a.2>a.0"]
        assert civ_at(net, "a.2", "a.0") == "101"
        assert civ_at(net, "a.0", "a.0") == "101"

    def test_more_new_subscriptions_matching_with_the_advertisement_send_no_more_civ_set_messages(self):
        net = HandDriven("paper:fig3", 3)
        net.ask("P0", "a.0", offer(0, "x > 0"))
        net.ask("S2", "f.2", want(0, "x > 5"))
        net.settle()
        net.carried.clear()
        net.ask("T2", "c.2", want(0, "x > 7"))
        net.settle()
        assert updates(net, CivSet) == []

    def test_one_civ_set_is_enough_when_multiple_matching_advertisements_came_from_the_same_host_broker(self):
        net = HandDriven("paper:fig3", 3)
        net.ask("P0", "a.0", offer(0, "x > 0"), offer(1, "x > 1"), offer(2, "x > 2"))
        net.settle()
        net.ask("S2", "f.2", want(0, "x > 5"))
        net.settle()
        assert updates(net, CivSet) == ["a.2>a.0"]
        assert [str(entry.civ) for entry in net.brokers["a.0"].state.clt] == ["101"] * 3

    def test_a_civ_unset_is_sent_when_the_last_interested_subscriber_in_a_tsc_calls_unsubscribe(self):
        net = HandDriven("paper:fig3", 3)
        net.ask("P0", "a.0", offer(0, "x > 0"))
        net.ask("S2", "f.2", want(0, "x > 5"))
        net.ask("T2", "c.2", want(0, "x > 7"))
        net.settle()
        net.ask("S2", "f.2", UnsubscribeRequest(0))
        net.settle()
        assert updates(net, CivUnset) == []
        assert civ_at(net, "a.0", "a.0") == "101"
        net.ask("T2", "c.2", UnsubscribeRequest(0))
        net.settle()
        assert updates(net, CivUnset) == ["a.2>a.0"]
        assert civ_at(net, "a.0", "a.0") == "001"


def test_civ_avoids_false_positives_no_publication_enters_a_cluster_without_interest():
    net = fig_6()
    net.carried.clear()
    net.ask("P", "a.1", say(0, x=9))
    net.settle()
    assert {target[2] for _, target, _ in net.carried} == {"0", "1", "2"}
    assert all(broker.counters.false_positives == 0 for broker in net.brokers.values())


def test_d6_the_claim_holds_per_advertisement_only():
    """A cluster that wants some of what an advertisement offers may get what none of its subscribers wants."""
    net = fig_6()
    net.ask("P", "a.1", say(0, x=3))
    net.settle()
    counts = {name: broker.counters.false_positives for name, broker in net.brokers.items()}
    assert {name for name, count in counts.items() if count} == {"a.0", "a.2"}
    assert sum(counts.values()) == 2
