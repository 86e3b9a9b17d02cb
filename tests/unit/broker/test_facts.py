"""The facts of a broker at each level of detail."""

from octopia.broker import Case, Detail, Event, Fact, LinkView, OctopiaBroker, Routed, Verdict
from octopia.ids import AdvertisementId, ClientId, LinkKind, PublicationId, SubscriptionId
from octopia.protocol import ClusterIndexVector
from octopia.protocol.messages import CivSet, MessageKind, UnsubscribeRequest, Version
from support import advertise, at, join, make_broker, offer, publish, say, sent_by, subscribe, take_all, want

P, S = ClientId("P"), ClientId("S")
ADVERTISEMENT = AdvertisementId(at("b.1"), 1, 0)


def full_life(detail: Detail) -> OctopiaBroker:
    """A broker that has seen every kind of input, its facts not yet drained."""
    broker = make_broker("b.1", detail=detail, hop_limit=2)
    join(broker, "P", offer(4, "x > 0"))
    join(broker, "S", want(5, "x > 5"), UnsubscribeRequest(6))
    broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 2")], 1.0)
    broker.receive(at("b.0"), [advertise("b.0", 0, "x > 0"), CivSet((ADVERTISEMENT,), Version(1, 1))], 2.0)
    broker.receive(P, [say(7, x=9), say(8, y=9), say(9, x=9)], 3.0)
    broker.receive(at("c.1"), [publish("c.1", 0, hop=2, x=9)], 4.0)
    sent_by(broker, 60.0)
    take_all(broker, S, 60.0)
    return broker


def facts_of(broker: OctopiaBroker, event: Event) -> list[Fact]:
    return [fact for fact in broker.drain_facts() if isinstance(fact, Fact) and fact.event is event]


def events(detail: Detail) -> set[str]:
    return {fact.event.value for fact in full_life(detail).drain_facts() if isinstance(fact, Fact)}


def test_nothing_is_recorded_when_it_is_off():
    assert full_life(Detail.OFF).drain_facts() == []


def test_each_level_adds_to_the_one_before():
    assert events(Detail.DELIVERIES) == {"receive", "refuse", "drop"}
    assert events(Detail.HOPS) == {"receive", "refuse", "drop", "send"}
    assert events(Detail.ALL) == {"receive", "refuse", "drop", "send", "enqueue", "table", "window"}


def test_facts_are_handed_over_once():
    broker = full_life(Detail.ALL)
    assert broker.drain_facts()
    assert broker.drain_facts() == []


class TestDeliveries:
    def test_requests_show_the_id_they_got_beside_the_clients_own_number(self):
        received = facts_of(full_life(Detail.DELIVERIES), Event.RECEIVE)
        assert [(str(each.kind), str(each.message_id), each.peer, each.value) for each in received] == [
            ("advertisement", "b.1/1/0", P, 4),
            ("subscription", "b.1/1/0", S, 5),
            ("publication", "b.1/1/0", P, 7),
            ("publication", "b.1/1/1", P, 9),
        ]
        assert all(each.link is LinkKind.CLIENT and each.hop == 0 for each in received)
        assert [each.searched for each in received] == [None, None, 2, 2]

    def test_refusals_say_why(self):
        refused = facts_of(full_life(Detail.DELIVERIES), Event.REFUSE)
        why = (
            "it conforms to none of its publisher's advertisements; the closest is (x > 0), which does not declare y: "
            "leave it out, or advertise what you publish"
        )
        assert [(str(each.kind), each.peer, each.value, each.reason) for each in refused] == [
            ("unsubscription", S, 6, "this client has no such subscription"),
            ("publication", P, 8, why),
        ]

    def test_drops_say_why_and_how_many(self):
        dropped = facts_of(full_life(Detail.DELIVERIES), Event.DROP)
        assert [(str(each.message_id), each.value, each.reason) for each in dropped] == [
            ("c.1/1/0", 1, "its 1 copies would go beyond the hop limit of 2"),
        ]


class TestHops:
    def test_what_arrives_from_neighbours_is_told(self):
        received = [
            each for each in facts_of(full_life(Detail.HOPS), Event.RECEIVE) if each.link is not LinkKind.CLIENT
        ]
        assert [(str(each.peer), str(each.link), str(each.kind), each.hop) for each in received] == [
            ("a.1", "alink", "subscription", None),
            ("b.0", "ilink", "advertisement", None),
            ("b.0", "ilink", "civ_set", None),
            ("c.1", "alink", "publication", 2),
        ]
        assert received[-1].searched == 2
        assert received[0].message_id == SubscriptionId(at("a.1"), 1, 0)
        assert received[2].message_id is None

    def test_what_leaves_is_told_when_it_leaves(self):
        broker = make_broker("b.1", detail=Detail.HOPS)
        join(broker, "P", offer(0, "x > 0"))
        broker.drain_facts()
        assert broker.drain_facts() == []
        broker.take(at("b.0"), 5.0)
        (sent,) = broker.drain_facts()
        assert (sent.event, sent.kind, sent.peer, sent.link) == (
            Event.SEND,
            MessageKind.ADVERTISEMENT,
            at("b.0"),
            LinkKind.ILINK,
        )

    def test_a_rerouted_copy_shows_its_civ_hop_and_time(self):
        broker = make_broker("b.3", clusters=4, detail=Detail.HOPS)
        broker.force(at("b.0"), Verdict.CONGESTED, None, 0.0)
        broker.receive(at("b.2"), [publish("b.2", 0, ClusterIndexVector(0b0011, 4), x=9)], 0.0)
        take_all(broker, "b.1")
        (sent,) = facts_of(broker, Event.SEND)
        assert (str(sent.publication_civ), sent.hop, sent.published_ms, sent.queue_length) == ("0001", 2, 0.0, 0)


class TestAll:
    def test_a_copy_that_is_queued_shows_the_queue_with_itself_in_it(self):
        broker = full_life(Detail.ALL)
        queued = [(str(each.peer), each.queue_length) for each in facts_of(broker, Event.ENQUEUE)]
        assert queued == [("a.1", 1), ("b.0", 1), ("a.1", 2), ("b.0", 2)]

    def test_table_sizes_are_told_whenever_a_request_may_have_changed_them(self):
        sizes = [(each.reason, each.value) for each in facts_of(full_life(Detail.ALL), Event.TABLE)]
        assert sizes == [("clt", 1), ("prt", 1), ("prt", 1), ("prt", 2), ("clt", 2)]

    def test_a_closed_window_shows_its_ratio(self):
        windows = {str(each.peer): each for each in facts_of(full_life(Detail.ALL), Event.WINDOW)}
        assert windows["a.1"].value == 3.0  # (1 + 2) / (1 + 0)
        assert windows["a.1"].queue_length == 2
        assert windows["b.2"].value == 1.0

    def test_the_story_of_a_decision(self):
        broker = make_broker("b.3", clusters=4, detail=Detail.ALL)
        join(broker, "P", offer(0, "x > 0"), want(1, "x > 0"))
        broker.receive(at("a.3"), [subscribe("a.3", 0, "x > 0")], 0.0)
        for cluster in (0, 1):
            named = (AdvertisementId(at("b.3"), 1, 0),)
            broker.receive(at(f"b.{cluster}"), [CivSet(named, Version(1, 1))], 0.0)
        broker.force(at("b.0"), Verdict.CONGESTED, 42, 0.0)
        broker.receive(P, [say(0, x=1)], 0.0)
        (story,) = [fact for fact in broker.drain_facts() if isinstance(fact, Routed)]
        assert story.publication == PublicationId(at("b.3"), 1, 0)
        assert story.source == P
        assert story.advertisements == (AdvertisementId(at("b.3"), 1, 0),)
        assert story.alinks == (at("a.3"),)
        assert story.local == (SubscriptionId(at("b.3"), 1, 0),)
        assert str(story.targets) == "0011"
        assert story.links == (
            LinkView(at("a.3"), 0, congested=False),
            LinkView(at("b.0"), 42, congested=True),
            LinkView(at("b.1"), 0, congested=False),
        )
        assert story.decision.case is Case.ONE

    def test_a_window_that_closes_while_a_decision_is_made_is_told_too(self):
        broker = make_broker("b.3", clusters=4, detail=Detail.ALL)
        join(broker, "P", offer(0, "x > 0"))
        broker.receive(at("b.0"), [CivSet((AdvertisementId(at("b.3"), 1, 0),), Version(1, 1))], 0.0)
        take_all(broker, "b.0")
        broker.receive(P, [say(0, x=1)], 0.0)
        broker.drain_facts()
        broker.receive(P, [say(1, x=1)], 60.0)
        assert [str(each.peer) for each in facts_of(broker, Event.WINDOW)] == ["b.0"]


def test_the_level_changes_nothing_but_the_facts():
    prints = {full_life(detail).fingerprint() for detail in Detail}
    assert len(prints) == 1
