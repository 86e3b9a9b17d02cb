"""The routing of a publication at one broker."""

import pytest

from octopia.broker import Case, OctopiaBroker, Verdict
from octopia.ids import AdvertisementId, ClientId, PublicationId
from octopia.protocol import Cause, ClusterIndexVector
from octopia.protocol.messages import (
    CivSet,
    Deliver,
    Gap,
    GapNotice,
    Publish,
    PublishRequest,
    Refused,
    UnadvertiseRequest,
    Version,
)
from support import at, join, make_broker, offer, pub, publish, say, sent_by, subscribe, take_all, want

P, S = ClientId("P"), ClientId("S")


def civ(text: str) -> ClusterIndexVector:
    return ClusterIndexVector(int(text, 2), len(text))


def with_publisher(*offers: str, clusters: int = 4, **settings: object) -> OctopiaBroker:
    """The broker b.3, whose client P advertised, with no message left in its queues."""
    broker = make_broker("b.3", clusters=clusters, **settings)
    join(broker, "P", *(offer(number, text) for number, text in enumerate(offers)))
    sent_by(broker)
    return broker


def set_bits(broker: OctopiaBroker, advertisement: int, *clusters: int) -> None:
    for cluster in clusters:
        named = (AdvertisementId(broker.id, 1, advertisement),)
        broker.receive(at(f"b.{cluster}"), [CivSet(named, Version(1, advertisement + 1))], 0.0)


def congest(broker: OctopiaBroker, *links: str) -> None:
    for link in links:
        broker.force(at(link), Verdict.CONGESTED, None, 0.0)


def copies(broker: OctopiaBroker) -> dict[str, str]:
    """Take everything that waits for neighbours, and return the CIV that each copy carries, or a dash."""
    sent = sent_by(broker)
    assert all(len(messages) == 1 for messages in sent.values())
    return {link: str(message.publication_civ or "-") for link, (message,) in sent.items()}


class TestAtTheHostBroker:
    def test_static_routing_sends_plain_copies_to_interested_alinks_and_to_target_ilinks(self):
        broker = with_publisher("x > 0", algorithm="static")
        broker.receive(at("a.3"), [subscribe("a.3", 0, "x > 5")], 0.0)
        sent_by(broker)
        set_bits(broker, 0, 0, 2)
        congest(broker, "b.0", "a.3")
        broker.receive(P, [say(0, x=9)], 0.0)
        assert copies(broker) == {"a.3": "-", "b.0": "-", "b.2": "-"}

    def test_the_copy_says_who_where_and_when(self):
        broker = with_publisher("x > 0")
        set_bits(broker, 0, 1)
        broker.receive(P, [PublishRequest(17, pub(x=9), 12.5)], 13.0)
        assert take_all(broker, "b.1") == [Publish(PublicationId(at("b.3"), 1, 0), pub(x=9), None, 1, 12.5)]

    def test_dynamic_routing_lets_one_copy_carry_the_rest(self):
        broker = with_publisher("x > 0")
        set_bits(broker, 0, 0, 1, 2)
        congest(broker, "b.0", "b.2")
        broker.receive(P, [say(0, x=9)], 0.0)
        assert copies(broker) == {"b.1": "0101"}
        assert broker.counters.cases == {Case.ONE: 1, Case.TWO: 0, Case.THREE: 0}

    def test_several_conforming_advertisements_use_the_or_of_their_civs(self):
        broker = with_publisher("x > 0", "x < 99", "x > 50")
        set_bits(broker, 0, 0)
        set_bits(broker, 1, 2)
        set_bits(broker, 2, 1)
        broker.receive(P, [say(0, x=9)], 0.0)
        assert copies(broker) == {"b.0": "-", "b.2": "-"}

    def test_the_advertisements_of_other_clients_do_not_count(self):
        broker = with_publisher("x > 0")
        join(broker, "Q", offer(0, "x > 0"))
        sent_by(broker)
        set_bits(broker, 1, 0)
        broker.receive(P, [say(0, x=9)], 0.0)
        assert copies(broker) == {}

    def test_an_ordered_advertisement_is_routed_statically_under_dynamic_routing(self):
        broker = make_broker("b.3", clusters=4)
        join(broker, "P", offer(0, "x > 0", ordered=True))
        sent_by(broker)
        set_bits(broker, 0, 0, 1)
        congest(broker, "b.0")
        broker.receive(P, [say(0, x=9)], 0.0)
        assert copies(broker) == {"b.0": "-", "b.1": "-"}
        assert not any(broker.counters.cases.values())

    def test_one_ordered_advertisement_among_the_conforming_ones_is_enough(self):
        broker = make_broker("b.3", clusters=4)
        join(broker, "P", offer(0, "x > 0"), offer(1, "x > 1", ordered=True))
        sent_by(broker)
        set_bits(broker, 0, 0)
        congest(broker, "b.0")
        broker.receive(P, [say(0, x=9)], 0.0)
        assert copies(broker) == {"b.0": "-"}
        assert broker.counters.cases[Case.THREE] == 0

    def test_eq_3_is_evaluated_at_the_time_of_the_publication(self):
        broker = with_publisher("x > 0", tau=10.0, window_ms=50.0)
        set_bits(broker, 0, 0, 1)
        broker.receive(P, [say(number, x=9) for number in range(10)], 0.0)
        assert len(take_all(broker, "b.1")) == 10
        broker.receive(P, [say(10, x=9)], 10.0)  # ten wait for b.0: 10 * 1 / 1 is not above 10
        assert copies_to(broker, "b.1") == [None]
        broker.receive(P, [say(11, x=9)], 60.0)  # eleven wait, eleven entered, none left
        assert copies_to(broker, "b.1") == ["0001"]
        assert len(broker.state.queues[at("b.0")]) == 11


def copies_to(broker: OctopiaBroker, link: str) -> list[str | None]:
    messages = take_all(broker, link)
    return [None if each.publication_civ is None else str(each.publication_civ) for each in messages]


class TestRefusal:
    @pytest.mark.parametrize("attributes", [{"x": -1}, {"y": 1}, {"x": 1, "y": 1}, {"x": "1"}])
    def test_what_conforms_to_no_advertisement_goes_nowhere(self, attributes: dict[str, object]):
        broker = with_publisher("x > 0")
        set_bits(broker, 0, 0, 1, 2)
        join(broker, "S", want(0, "x IS NOT NULL OR y IS NOT NULL"))
        sent_by(broker)
        broker.receive(P, [say(5, **attributes)], 0.0)
        assert copies(broker) == {}
        assert take_all(broker, S) == []
        [refused] = take_all(broker, P)
        assert (refused.request, refused.number) == ("publication", 5)
        assert refused.reason.startswith(
            "it conforms to none of its publisher's advertisements; the closest is (x > 0)"
        )
        assert broker.counters.refused == 1

    def test_what_conforms_only_to_somebody_elses_advertisement_is_refused(self):
        broker = with_publisher("x > 0")
        join(broker, "Q")
        broker.receive(ClientId("Q"), [say(0, x=1)], 0.0)
        assert [type(each) for each in take_all(broker, ClientId("Q"))] == [Refused]

    def test_a_refusal_uses_no_publication_id(self):
        broker = with_publisher("x > 0")
        set_bits(broker, 0, 0)
        broker.receive(P, [say(0, y=1), say(1, x=1)], 0.0)
        assert [each.id.number for each in take_all(broker, "b.0")] == [0]

    def test_after_unadvertising_it_is_refused(self):
        broker = with_publisher("x > 0")
        broker.receive(P, [UnadvertiseRequest(0), say(0, x=1)], 0.0)
        assert [type(each) for each in take_all(broker, P)] == [Refused]


class TestLocalDelivery:
    def test_one_entry_per_client_names_all_handles(self):
        broker = with_publisher("x > 0")
        join(broker, "S", want(7, "x > 1"), want(3, "x > 2"), want(5, "x > 99"))
        join(broker, "R", want(1, "x > 0"))
        broker.receive(P, [say(0, x=9)], 0.0)
        named = PublicationId(at("b.3"), 1, 0)
        assert take_all(broker, S) == [Deliver(named, pub(x=9), (7, 3), 0, 0.0)]
        assert take_all(broker, ClientId("R")) == [Deliver(named, pub(x=9), (1,), 0, 0.0)]
        assert take_all(broker, P) == []

    def test_a_publisher_receives_its_own(self):
        broker = with_publisher("x > 0")
        broker.receive(P, [want(4, "x > 1"), say(0, x=9)], 0.0)
        assert [each.handles for each in take_all(broker, P)] == [(4,)]

    def test_a_delivery_says_how_many_links_were_crossed(self):
        broker = make_broker("b.3", clusters=4)
        join(broker, "S", want(0, "x > 1"))
        broker.receive(at("a.3"), [publish("a.3", 0, hop=3, x=9)], 0.0)
        assert [each.hop for each in take_all(broker, S)] == [3]

    def test_a_local_subscription_alone_sends_nothing_to_neighbours(self):
        broker = with_publisher("x > 0")
        join(broker, "S", want(0, "x > 1"))
        sent_by(broker)
        broker.receive(P, [say(0, x=9)], 0.0)
        assert copies(broker) == {}


class TestFromANeighbour:
    def test_it_goes_on_to_interested_alinks_but_not_back(self):
        broker = make_broker("b.3", clusters=4)
        for region in "ac":
            broker.receive(at(f"{region}.3"), [subscribe(f"{region}.3", 0, "x > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.3"), [publish("a.3", 0, hop=1, x=9)], 0.0)
        (message,) = take_all(broker, "c.3")
        assert message.hop == 2
        assert take_all(broker, "a.3") == []

    def test_its_own_advertisements_do_not_matter_there(self):
        broker = with_publisher("x > 0")
        set_bits(broker, 0, 0, 1, 2)
        broker.receive(at("a.3"), [publish("a.3", 0, x=9)], 0.0)
        assert copies(broker) == {}

    def test_the_carried_civ_names_the_targets_without_the_own_cluster(self):
        broker = make_broker("b.3", clusters=4)
        join(broker, "S", want(0, "x > 5"))
        sent_by(broker)
        broker.receive(at("b.2"), [publish("b.2", 0, civ("1011"), x=9)], 0.0)
        assert copies(broker) == {"b.0": "-", "b.1": "-"}

    def test_what_is_still_congested_is_carried_on_over_an_alink(self):
        broker = make_broker("b.3", clusters=4)
        broker.receive(at("c.3"), [subscribe("c.3", 0, "x > 5")], 0.0)
        sent_by(broker)
        congest(broker, "b.0")
        broker.receive(at("b.2"), [publish("b.2", 0, civ("0001"), x=9)], 0.0)
        assert copies(broker) == {"c.3": "0001"}
        assert broker.counters.cases[Case.TWO] == 1

    def test_static_routing_serves_a_carried_civ_at_once(self):
        broker = make_broker("b.3", clusters=4, algorithm="static")
        congest(broker, "b.0")
        broker.receive(at("b.2"), [publish("b.2", 0, civ("0001"), x=9)], 0.0)
        assert copies(broker) == {"b.0": "-"}


class TestFalsePositives:
    """D6: once per cluster entered over an iLink where no PRT entry matches."""

    def test_an_unwanted_arrival_over_an_ilink_is_counted_once_and_goes_nowhere(self):
        broker = make_broker("b.3", clusters=4)
        broker.receive(at("c.3"), [subscribe("c.3", 0, "x > 50")], 0.0)
        sent_by(broker)
        broker.receive(at("b.2"), [publish("b.2", 0, x=9)], 0.0)
        assert broker.counters.false_positives == 1
        assert copies(broker) == {}

    def test_a_wanted_arrival_is_not_counted(self):
        broker = make_broker("b.3", clusters=4)
        broker.receive(at("c.3"), [subscribe("c.3", 0, "x > 5")], 0.0)
        broker.receive(at("b.2"), [publish("b.2", 0, x=9)], 0.0)
        join(broker, "S", want(0, "y > 5"))
        broker.receive(at("b.2"), [publish("b.2", 1, y=9)], 0.0)
        assert broker.counters.false_positives == 0

    def test_an_arrival_over_an_alink_is_not_counted(self):
        broker = make_broker("b.3", clusters=4)
        broker.receive(at("a.3"), [publish("a.3", 0, x=9)], 0.0)
        assert broker.counters.false_positives == 0

    def test_at_the_host_broker_nothing_is_counted(self):
        broker = with_publisher("x > 0")
        broker.receive(P, [say(0, x=9)], 0.0)
        assert broker.counters.false_positives == 0

    def test_the_carried_civ_is_still_routed_on(self):
        broker = make_broker("b.3", clusters=4)
        congest(broker, "b.0")
        broker.receive(at("b.2"), [publish("b.2", 0, civ("0011"), x=9)], 0.0)
        assert broker.counters.false_positives == 1
        assert copies(broker) == {"b.1": "0001"}


class TestHopLimit:
    def test_copies_beyond_the_limit_are_dropped_and_counted(self):
        broker = make_broker("b.3", clusters=4, hop_limit=3)
        join(broker, "S", want(0, "x > 5"))
        broker.receive(at("c.3"), [subscribe("c.3", 0, "x > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.3"), [publish("a.3", 0, civ("0011"), hop=3, x=9)], 0.0)
        notice = GapNotice(Cause.HOP_LIMIT, 1)
        assert sent_by(broker) == {"c.3": [notice], "b.0": [notice], "b.1": [notice]}, "it goes where they would have"
        assert broker.counters.lost[Cause.HOP_LIMIT] == 3
        assert [type(each) for each in take_all(broker, S)] == [Gap, Deliver]

    def test_the_last_hop_allowed_is_taken(self):
        broker = make_broker("b.3", clusters=4, hop_limit=3)
        broker.receive(at("c.3"), [subscribe("c.3", 0, "x > 5")], 0.0)
        sent_by(broker)
        broker.receive(at("a.3"), [publish("a.3", 0, hop=2, x=9)], 0.0)
        assert [each.hop for each in take_all(broker, "c.3")] == [3]
        assert broker.counters.lost[Cause.HOP_LIMIT] == 0

    def test_a_journey_that_ends_here_is_not_counted(self):
        broker = make_broker("b.3", clusters=4, hop_limit=3)
        join(broker, "S", want(0, "x > 5"))
        broker.receive(at("a.3"), [publish("a.3", 0, hop=3, x=9)], 0.0)
        assert broker.counters.lost[Cause.HOP_LIMIT] == 0


class TestAdaptively:
    def batch(self, first: int, count: int) -> list[Publish]:
        return [publish("a.3", number, x=7) for number in range(first, first + count)]

    def relay(self) -> OctopiaBroker:
        """The broker b.3 with a subscription behind c.3."""
        broker = make_broker("b.3", clusters=4, algorithm="adaptive")
        broker.receive(at("c.3"), [subscribe("c.3", 0, "x > 5")], 0.0)
        sent_by(broker)
        return broker

    def test_publications_that_arrive_together_do_not_congest_a_link_for_each_other(self):
        broker = self.relay()
        broker.receive(at("a.3"), self.batch(0, 100), 1.0)
        assert {link: len(messages) for link, messages in sent_by(broker, 1.0).items()} == {"c.3": 100}
        broker.receive(at("a.3"), self.batch(100, 100), 2.0)
        assert {link: len(messages) for link, messages in sent_by(broker, 2.0).items()} == {"c.3": 100}
        assert broker.counters.detours == 0

    def test_copies_that_still_wait_when_the_next_ones_arrive_do(self):
        broker = self.relay()
        broker.receive(at("a.3"), self.batch(0, 100), 1.0)
        broker.receive(at("a.3"), self.batch(100, 10), 2.0)
        assert broker.counters.detours == 10
        sent = sent_by(broker, 2.0)
        assert len(sent.pop("c.3")) == 100
        assert sum(isinstance(each, Publish) for messages in sent.values() for each in messages) == 10
