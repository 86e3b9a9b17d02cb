"""The subscription broadcast process, Alg. 2, and its reverse."""

from octopia.broker import OctopiaBroker
from octopia.content import parse_filter
from octopia.ids import AdvertisementId, ClientId, SubscriptionId
from octopia.protocol.messages import CivSet, CivUnset, Subscribe, Unsubscribe, UnsubscribeRequest, Version
from support import advertise, at, join, make_broker, offer, sent_by, subscribe, take_all, want

STAR = "a-b, b-c, b-d"


def adv(host: str, number: int) -> AdvertisementId:
    return AdvertisementId(at(host), 1, number)


def sub(host: str, number: int) -> SubscriptionId:
    return SubscriptionId(at(host), 1, number)


def with_advertisements(*advertised: tuple[str, int, str]) -> OctopiaBroker:
    """The broker b.1 of a star, which knows these advertisements."""
    broker = make_broker("b.1", STAR)
    for host, number, text in advertised:
        broker.receive(at(host), [advertise(host, number, text)], 0.0)
    return broker


def civs(broker: OctopiaBroker) -> dict[str, str]:
    return {str(entry.id): str(entry.civ) for entry in broker.state.clt}


class TestSubscribing:
    def test_the_host_broker_tells_every_primary_neighbour_and_no_secondary_one(self):
        broker = make_broker("b.1", STAR)
        join(broker, "S", want(3, "x > 5"))
        expected = [Subscribe(sub("b.1", 0), parse_filter("x > 5"))]
        assert sent_by(broker) == {"a.1": expected, "c.1": expected, "d.1": expected}
        assert broker.state.prt[sub("b.1", 0)].last_hop == ClientId("S")

    def test_it_is_passed_on_but_not_back_to_the_sender(self):
        broker = make_broker("b.1", STAR)
        message = subscribe("a.1", 0, "x > 5")
        broker.receive(at("a.1"), [message], 0.0)
        assert sent_by(broker) == {"c.1": [message], "d.1": [message]}
        assert broker.state.prt[message.id].last_hop == at("a.1")

    def test_a_second_copy_changes_nothing(self):
        broker = make_broker("b.1", STAR)
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        assert sent_by(broker) == {}
        assert broker.table_sizes()["prt"] == 1

    def test_one_civ_set_per_ilink_names_all_advertisements(self):
        broker = with_advertisements(
            ("b.2", 1, "x > 0"), ("b.0", 4, "x > 0"), ("b.2", 0, "x < 99"), ("b.2", 2, "y > 0"), ("b.0", 5, "x < 3")
        )
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        assert take_all(broker, "b.0") == [CivSet((adv("b.0", 4),), Version(1, 1))]
        assert take_all(broker, "b.2") == [CivSet((adv("b.2", 0), adv("b.2", 1)), Version(1, 2))]
        assert civs(broker) == {
            "b.2/1/1": "110",
            "b.0/1/4": "011",
            "b.2/1/0": "110",
            "b.2/1/2": "100",
            "b.0/1/5": "001",
        }

    def test_only_bits_that_were_0_are_spoken_of(self):
        broker = with_advertisements(("b.2", 0, "x > 0"), ("b.2", 1, "y > 0"))
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.1"), [subscribe("a.1", 1, "x > 6")], 0.0)
        assert take_all(broker, "b.2") == []
        broker.receive(at("a.1"), [subscribe("a.1", 2, "x > 7 OR y > 7")], 0.0)
        assert take_all(broker, "b.2") == [CivSet((adv("b.2", 1),), Version(1, 2))]

    def test_advertisements_hosted_here_need_no_update(self):
        broker = make_broker("b.1", STAR)
        join(broker, "P", offer(0, "x > 0"))
        sent_by(broker)
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        assert "b.0" not in sent_by(broker)
        assert civs(broker) == {"b.1/1/0": "010"}

    def test_versions_count_up_over_sets_and_unsets(self):
        broker = with_advertisements(("b.2", 0, "x > 0"))
        client = join(broker, "S", want(0, "x > 1"))
        broker.receive(client, [UnsubscribeRequest(0), want(1, "x > 1")], 0.0)
        assert [message.version.number for message in take_all(broker, "b.2")] == [1, 2, 3]


class TestUnsubscribing:
    def test_it_is_removed_along_the_cluster_but_not_back_to_the_sender(self):
        broker = make_broker("b.1", STAR)
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.1"), [Unsubscribe(sub("a.1", 0))], 0.0)
        assert sent_by(broker) == {"c.1": [Unsubscribe(sub("a.1", 0))], "d.1": [Unsubscribe(sub("a.1", 0))]}
        assert broker.table_sizes()["prt"] == 0

    def test_the_host_broker_tells_every_primary_neighbour(self):
        broker = make_broker("b.1", STAR)
        client = join(broker, "S", want(3, "x > 5"))
        sent_by(broker)
        broker.receive(client, [UnsubscribeRequest(3)], 0.0)
        assert sorted(sent_by(broker)) == ["a.1", "c.1", "d.1"]

    def test_the_unknown_is_ignored(self):
        broker = make_broker("b.1", STAR)
        effects = broker.receive(at("a.1"), [Unsubscribe(sub("a.1", 0))], 0.0)
        assert effects.violation is None
        assert sent_by(broker) == {}

    def test_the_last_interest_gone_one_civ_unset_per_ilink_names_all(self):
        broker = with_advertisements(("b.2", 1, "x > 0"), ("b.0", 4, "x > 0"), ("b.2", 0, "x < 99"))
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.1"), [Unsubscribe(sub("a.1", 0))], 0.0)
        assert take_all(broker, "b.0") == [CivUnset((adv("b.0", 4),), Version(1, 3))]
        assert take_all(broker, "b.2") == [CivUnset((adv("b.2", 0), adv("b.2", 1)), Version(1, 4))]
        assert civs(broker) == {"b.2/1/1": "100", "b.0/1/4": "001", "b.2/1/0": "100"}

    def test_while_another_subscription_intersects_the_bit_stays(self):
        broker = with_advertisements(("b.2", 0, "x > 0"))
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5")], 0.0)
        broker.receive(at("c.1"), [subscribe("c.1", 0, "x > 9")], 0.0)
        sent_by(broker)
        broker.receive(at("a.1"), [Unsubscribe(sub("a.1", 0))], 0.0)
        assert take_all(broker, "b.2") == []
        assert civs(broker) == {"b.2/1/0": "110"}
        broker.receive(at("c.1"), [Unsubscribe(sub("c.1", 0))], 0.0)
        assert [type(message) for message in take_all(broker, "b.2")] == [CivUnset]

    def test_an_advertisement_that_the_removed_filter_does_not_intersect_is_left_alone(self):
        broker = with_advertisements(("b.2", 0, "x > 0"), ("b.2", 1, "y > 0"))
        broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 5"), subscribe("a.1", 1, "y > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.1"), [Unsubscribe(sub("a.1", 0))], 0.0)
        assert [message.advertisements for message in take_all(broker, "b.2")] == [(adv("b.2", 0),)]
        assert civs(broker)["b.2/1/1"] == "110"
