"""The broker as a whole: order of effects, credit, batches, pickling, time."""

import pickle

import pytest

from octopia.broker import BrokerSettings, OctopiaBroker, Placed, Verdict
from octopia.ids import AdvertisementId, ClientId, Peer
from octopia.overlay import Scot, parse_tree
from octopia.protocol import CONTROL_ONLY, ClusterIndexVector, MessageKind
from octopia.protocol.messages import CivSet, Message, Publish, UnadvertiseRequest, UnsubscribeRequest, Version
from octopia.settings import Algorithm, RoutingSettings
from support import advertise, at, join, make_broker, offer, publish, say, sent_by, subscribe, take_all, want

P, S = ClientId("P"), ClientId("S")


def civ(text: str) -> ClusterIndexVector:
    return ClusterIndexVector(int(text, 2), len(text))


def busy_broker(**settings: object) -> OctopiaBroker:
    """The broker b.1 with some entries in all its tables and queues."""
    broker = make_broker("b.1", **settings)
    join(broker, "P", offer(0, "x > 0"), offer(1, "y > 0"))
    join(broker, "S", want(0, "x > 5"), want(1, "y > 5"))
    broker.receive(at("a.1"), [subscribe("a.1", 0, "x > 2")], 1.0)
    broker.receive(
        at("b.0"), [advertise("b.0", 0, "x > 0"), CivSet((AdvertisementId(at("b.1"), 1, 0),), Version(1, 1))], 2.0
    )
    broker.receive(P, [say(0, x=9), say(1, y=9)], 3.0)
    return broker


class TestReady:
    def test_links_are_listed_in_the_order_in_which_they_got_something(self):
        broker = make_broker("b.1")
        broker.receive(at("b.0"), [advertise("b.0", 0, "x > 0")], 0.0)
        client = join(broker, "S")
        effects = broker.receive(client, [want(0, "x > 0"), UnsubscribeRequest(9)], 0.0)
        assert list(effects.ready) == [at("a.1"), at("c.1"), at("b.0")]

    def test_a_publication_readies_alinks_then_ilinks(self):
        broker = busy_broker()
        effects = broker.receive(P, [say(2, x=9)], 4.0)
        assert list(effects.ready) == [at("a.1"), at("b.0")]

    def test_effects_are_those_of_one_input(self):
        broker = make_broker("b.1")
        join(broker, "P", offer(0, "x > 0"))
        assert broker.receive(at("a.1"), [], 0.0).ready == {}
        assert broker.wake(1.0).ready == {}


class TestPlaced:
    def test_frames_are_counted_by_class_in_order_of_arrival(self):
        broker = make_broker("b.1")
        batch = [
            publish("b.0", 0, x=1),
            publish("b.0", 1, civ("100"), x=1),
            publish("b.0", 2, x=1),
            publish("b.0", 3, civ("110"), x=1),
        ]
        effects = broker.receive(at("b.0"), batch, 0.0)
        assert effects.placed == [Placed(at("b.0"), 0, 2), Placed(at("b.0"), 1, 1), Placed(at("b.0"), 2, 1)]

    def test_control_messages_need_no_credit(self):
        assert make_broker("b.1").receive(at("a.1"), [subscribe("a.1", 0, "x > 0")], 0.0).placed == []

    def test_a_clients_publications_count_also_when_refused(self):
        broker = make_broker("b.1")
        client = join(broker, "P", offer(0, "x > 0"))
        assert broker.receive(client, [say(0, x=1), say(1, y=1), say(2, x=1)], 0.0).placed == [Placed(P, 0, 3)]

    def test_frames_that_nobody_wants_are_placed_too(self):
        assert make_broker("b.1").receive(at("a.1"), [publish("a.1", 0, x=1)], 0.0).placed == [Placed(at("a.1"), 0, 1)]


class TestTake:
    def test_control_leaves_before_data_and_the_mask_holds_data_back(self):
        broker = busy_broker()
        broker.receive(S, [UnsubscribeRequest(0)], 4.0)
        taken = []
        while (message := broker.take(at("a.1"), 4.0, CONTROL_ONLY)) is not None:
            taken.append(message)
        assert not any(isinstance(message, Publish) for message in taken)
        assert [type(message) for message in take_all(broker, "a.1", 4.0)] == [Publish]

    def test_messages_are_counted_by_kind_when_they_leave(self):
        broker = make_broker("b.1")
        join(broker, "P", offer(0, "x > 0"))
        assert broker.counters.sent[MessageKind.ADVERTISEMENT] == 0
        sent_by(broker)
        assert broker.counters.sent[MessageKind.ADVERTISEMENT] == 2
        assert sum(broker.counters.sent.values()) == 2

    def test_what_goes_to_clients_is_not_counted_as_sent(self):
        broker = busy_broker()
        sent_by(broker, 4.0)
        before = dict(broker.counters.sent)
        assert take_all(broker, S, 4.0)
        assert broker.counters.sent == before

    def test_an_empty_queue_gives_nothing(self):
        assert make_broker("b.1").take(at("a.1"), 0.0) is None


def test_the_link_status_table_has_a_row_for_every_neighbour_and_none_for_clients():
    broker = busy_broker()
    broker.force(at("c.1"), Verdict.CONGESTED, 33, 3.0)
    table = broker.link_status_table(50.0)
    assert [str(peer) for peer in table] == ["a.1", "c.1", "b.0", "b.2"]
    assert (table[at("a.1")].queue_length, table[at("a.1")].entered, table[at("a.1")].left) == (1, 1, 0)
    assert (table[at("c.1")].queue_length, table[at("c.1")].congested) == (33, True)


def test_nothing_in_a_broker_waits_for_time():
    broker = busy_broker()
    assert broker.next_deadline_ms is None


class TestBatches:
    """Publications that arrived together have the same effect as one by one."""

    @pytest.mark.parametrize("algorithm", ["static", "dynamic"])
    @pytest.mark.parametrize("sender", ["P", "a.1", "b.0"])
    def test_the_state_is_the_same(self, sender: str, algorithm: str):
        together, apart = busy_broker(algorithm=algorithm, tau=3.0), busy_broker(algorithm=algorithm, tau=3.0)
        peer: Peer = P if sender == "P" else at(sender)
        batch: list[Message] = [
            say(number, x=number)
            if sender == "P"
            else publish(sender, number, civ("100") if number % 3 else None, x=number)
            for number in range(12)
        ]
        together.receive(peer, batch, 5.0)
        for message in batch:
            apart.receive(peer, [message], 5.0)
        assert together.fingerprint() == apart.fingerprint()
        assert together.counters == apart.counters
        assert sent_by(together, 5.0) == sent_by(apart, 5.0)

    def test_requests_between_publications_take_effect_in_their_place(self):
        broker = make_broker("b.1")
        client = join(broker, "P", offer(0, "x > 0"))
        broker.receive(client, [say(0, x=1), want(0, "x > 0"), say(1, x=1), UnadvertiseRequest(0), say(2, x=1)], 0.0)
        refused, delivered = take_all(broker, P)
        assert refused.number == 2
        assert delivered.id.number == 1


class TestPickling:
    def test_a_copy_is_in_the_same_state(self):
        broker = busy_broker()
        assert pickle.loads(pickle.dumps(broker)).fingerprint() == broker.fingerprint()

    def test_a_copy_behaves_alike_from_then_on(self):
        broker = busy_broker(tau=2.0)
        copy = pickle.loads(pickle.dumps(broker))
        for each in (broker, copy):
            each.receive(at("c.1"), [subscribe("c.1", 0, "x > 7")], 60.0)
            each.receive(P, [say(number, x=9) for number in range(5)], 60.0)
            each.receive(S, [UnsubscribeRequest(0)], 61.0)
        assert copy.fingerprint() == broker.fingerprint()
        assert sent_by(copy, 61.0) == sent_by(broker, 61.0)
        assert take_all(copy, S, 61.0) == take_all(broker, S, 61.0)

    def test_a_copy_is_independent(self):
        broker = busy_broker()
        before = broker.fingerprint()
        copy = pickle.loads(pickle.dumps(broker))
        copy.receive(S, [UnsubscribeRequest(0)], 4.0)
        assert broker.fingerprint() == before
        assert copy.fingerprint() != before

    def test_it_remembers_its_recent_inputs(self):
        broker = busy_broker()
        assert pickle.loads(pickle.dumps(broker)).recent_inputs == broker.recent_inputs


def test_recent_inputs_are_the_last_ones_oldest_first():
    broker = make_broker("b.1")
    for number in range(40):
        broker.receive(at("a.1"), [subscribe("a.1", number, "x > 0")], float(number))
    recent = broker.recent_inputs
    assert len(recent) == 32
    assert recent[0].startswith("8 ms, from a.1")
    assert recent[-1].startswith("39 ms, from a.1")


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_a_broker_without_neighbours_has_an_empty_link_status_table(algorithm: Algorithm):
    scot = Scot(parse_tree("path:1"), 1)
    broker = OctopiaBroker(scot.neighbourhood(at("a.0")), BrokerSettings(RoutingSettings(algorithm)), 1)
    assert broker.link_status_table(0.0) == {}
    assert broker.link_counters(0.0) == {}
