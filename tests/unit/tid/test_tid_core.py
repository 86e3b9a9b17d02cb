import pickle

import pytest
from tid_support import TidOverlay, advertised, bound, make_tid_broker, published, tid, unadvertised

from octopia.broker import Detail, Event, Fact
from octopia.errors import InvariantBroken
from octopia.ids import ClientId, LinkKind
from octopia.protocol import CONTROL_ONLY, MessageKind
from octopia.protocol.messages import Refused, UnadvertiseRequest, UnsubscribeRequest
from octopia.tid.invariants import violations
from support import at, join, offer, publish, say, sent_by, subscribe, take_all, want


class TestViolations:
    @pytest.mark.parametrize(
        ("peer", "message"),
        [
            (at("c.1"), advertised("c.1")),
            (at("a.0"), publish("a.0", 0, x=1)),
            (at("a.0"), subscribe("a.0", 0, "x > 0")),
            (at("a.0"), say(0, x=1)),
            (ClientId("stranger"), say(0, x=1)),
        ],
    )
    def test_what_a_link_may_not_carry_ends_the_batch(self, peer: object, message: object):
        broker = make_tid_broker("b.0")
        assert broker.receive(peer, [message, advertised("a.0")], 0.0).violation is not None
        assert broker.table_sizes()["srt"] == 0

    def test_a_client_cannot_speak_as_a_broker(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P")
        assert broker.receive(client, [advertised("b.0")], 0.0).violation is not None

    def test_a_client_cannot_come_twice(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P")
        assert broker.attach(client, 0.0).violation is not None


class TestClients:
    @pytest.mark.parametrize(
        ("requests", "refusal"),
        [
            (
                (offer(3, "x > 0"), offer(3, "y > 0")),
                Refused("advertisement", 3, "this client already uses the handle for another advertisement"),
            ),
            (
                (want(3, "x > 0"), want(3, "y > 0")),
                Refused("subscription", 3, "this client already uses the handle for another subscription"),
            ),
            ((UnadvertiseRequest(5),), Refused("unadvertisement", 5, "this client has no such advertisement")),
            ((UnsubscribeRequest(5),), Refused("unsubscription", 5, "this client has no such subscription")),
        ],
    )
    def test_refusals_are_those_of_every_broker(self, requests: tuple, refusal: Refused):
        broker = make_tid_broker("b.0")
        client = join(broker, "C", *requests)
        assert take_all(broker, client) == [refusal]
        broker.check()

    def test_a_request_that_repeats_a_subscription_changes_nothing(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "C", want(3, "x > 0"))
        tables = broker.table_sizes()
        broker.receive(client, [want(3, "x > 0")], 0.0)
        assert take_all(broker, client) == []
        assert broker.table_sizes() == tables
        broker.check()

    def test_leaving_withdraws_everything(self):
        overlay = TidOverlay()
        overlay.ask("P", "a.0", offer(0, "x > 0"), want(1, "x > 0"))
        overlay.ask("S", "c.1", want(0, "x > 0"), want(1, "x > 1"), offer(2, "x > 0"))
        overlay.settle()
        for client, home in overlay.homes.items():
            overlay.brokers[home].detach(ClientId(client), 0.0)
        overlay.settle()
        overlay.check()
        assert all(not any(broker.table_sizes().values()) for broker in overlay.brokers.values())

    def test_a_stranger_leaves_without_a_trace(self):
        assert not make_tid_broker("b.0").detach(ClientId("stranger"), 0.0).ready


class TestQueuesAndCounters:
    def test_control_goes_first_and_the_mask_holds_data_back(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P", offer(0, "x > 0"))
        broker.receive(at("c.0"), [bound("c.1", 0, tid("b.0"))], 0.0)
        sent_by(broker)
        broker.receive(client, [say(0, x=1), offer(1, "y > 0")], 0.0)
        assert broker.take(at("c.0"), 0.0, CONTROL_ONLY) == advertised("b.0", 1, "y > 0")
        assert broker.take(at("c.0"), 0.0, CONTROL_ONLY) is None
        assert broker.take(at("c.0"), 0.0) == published(tid("b.0"), x=1)

    def test_messages_are_counted_by_kind_when_they_leave(self):
        overlay = TidOverlay()
        overlay.ask("P", "a.0", offer(0, "x > 0"))
        overlay.settle()
        overlay.ask("S", "a.1", want(0, "x > 0"))
        overlay.settle()
        overlay.ask("P", "a.0", say(0, x=1))
        overlay.settle()
        overlay.ask("S", "a.1", UnsubscribeRequest(0))
        overlay.ask("P", "a.0", UnadvertiseRequest(0))
        overlay.settle()
        sent = [broker.counters.sent for broker in overlay.brokers.values()]
        totals = {kind: sum(each[kind] for each in sent) for kind in MessageKind if any(each[kind] for each in sent)}
        assert totals == {
            MessageKind.ADVERTISEMENT: 9,
            MessageKind.UNADVERTISEMENT: 9,
            MessageKind.SUBSCRIPTION: 1,
            MessageKind.UNSUBSCRIPTION: 1,
            MessageKind.PUBLICATION: 1,
        }

    def test_it_waits_for_nothing_and_knows_no_civs(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P", offer(0, "x > 0"))
        assert broker.next_deadline_ms is None
        assert not broker.wake(5.0).ready
        assert broker.civs(client, 0) is None

    def test_the_link_status_table_has_all_neighbours(self):
        assert list(map(str, make_tid_broker("b.0").link_status_table(0.0))) == ["a.0", "c.0", "b.1"]


class TestFacts:
    def facts_of(self, detail: Detail) -> list[Fact]:
        broker = make_tid_broker("b.0", detail=detail)
        broker.receive(at("a.0"), [advertised("a.0")], 0.0)
        broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
        sent_by(broker)
        broker.drain_facts()
        broker.receive(at("a.0"), [published(tid("a.0"), x=1)], 0.0)
        sent_by(broker)
        return [fact for fact in broker.drain_facts() if isinstance(fact, Fact)]

    def test_hops_tell_of_receiving_and_sending(self):
        received, sent = self.facts_of(Detail.HOPS)
        publication = published(tid("a.0"), x=1).id
        assert (received.event, received.kind, received.message_id) == (Event.RECEIVE, "publication", publication)
        assert (received.peer, received.link, received.hop) == (at("a.0"), LinkKind.ALINK, 1)
        assert (sent.event, sent.peer, sent.hop, sent.publication_civ) == (Event.SEND, at("c.0"), 2, None)
        assert (received.searched, sent.searched) == (1, None)

    def test_all_tells_of_queues_too_and_off_of_nothing(self):
        assert [fact.event for fact in self.facts_of(Detail.ALL)] == [Event.RECEIVE, Event.ENQUEUE, Event.SEND]
        assert self.facts_of(Detail.OFF) == []

    def test_control_messages_are_named_by_what_they_are_about(self):
        broker = make_tid_broker("b.0", detail=Detail.HOPS)
        broker.receive(at("a.0"), [advertised("a.0"), unadvertised("a.0")], 0.0)
        facts = [fact for fact in broker.drain_facts() if isinstance(fact, Fact)]
        assert [(fact.kind, fact.message_id) for fact in facts] == [
            ("advertisement", tid("a.0")),
            ("unadvertisement", tid("a.0")),
        ]

    def test_tables_are_traced_by_name(self):
        broker = make_tid_broker("b.0", detail=Detail.ALL)
        broker.receive(at("a.0"), [advertised("a.0")], 0.0)
        facts = [fact for fact in broker.drain_facts() if isinstance(fact, Fact) and fact.event is Event.TABLE]
        assert [(fact.reason, fact.value) for fact in facts] == [("srt", 1), ("prt", 0)]

    def test_refusals_are_told(self):
        broker = make_tid_broker("b.0", detail=Detail.DELIVERIES)
        join(broker, "P", say(4, x=1))
        assert [(fact.event, fact.value) for fact in broker.drain_facts()] == [(Event.REFUSE, 4)]


class TestFingerprint:
    def busy(self):
        broker = make_tid_broker("b.0", algorithm="tid-dynamic")
        join(broker, "S", want(0, "x > 0"))
        broker.receive(at("a.0"), [advertised("a.0"), advertised("a.0", 1), published(tid("a.0"), x=1)], 0.0)
        return broker

    def test_equal_states_have_equal_digests_and_survive_pickling(self):
        broker = self.busy()
        assert broker.fingerprint() == self.busy().fingerprint()
        assert pickle.loads(pickle.dumps(broker)).fingerprint() == broker.fingerprint()

    @pytest.mark.parametrize(
        "change",
        [
            lambda broker: broker.receive(at("a.0"), [advertised("a.0", 2)], 0.0),
            lambda broker: broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0),
            lambda broker: broker.receive(at("a.0"), [published(tid("a.0"), 1, x=1)], 0.0),
            lambda broker: broker.take(at("a.0"), 0.0),
            lambda broker: broker.detach(ClientId("S"), 0.0),
        ],
    )
    def test_every_change_shows(self, change):
        broker = self.busy()
        before = broker.fingerprint()
        change(broker)
        assert broker.fingerprint() != before

    def test_that_an_advertisement_was_seen_shows_after_it_is_gone(self):
        broker = make_tid_broker("b.0")
        before = broker.fingerprint()
        broker.receive(at("a.0"), [advertised("a.0"), unadvertised("a.0")], 0.0)
        sent_by(broker)
        assert broker.fingerprint() != before


class TestInvariants:
    def test_a_missing_binding_is_found_and_the_story_told(self):
        broker = make_tid_broker("b.0")
        join(broker, "S", want(0, "x > 0"))
        broker.receive(at("a.0"), [advertised("a.0")], 0.0)
        broker.state.prt.remove_tree(tid("a.0"))
        with pytest.raises(InvariantBroken, match="0 copies of local subscriptions are bound, but 1 pairs intersect"):
            broker.check()
        assert any("TidAdvertise" in each for each in broker.recent_inputs)

    def test_a_copy_without_its_advertisement_is_found(self):
        broker = make_tid_broker("b.0")
        broker.receive(at("a.0"), [advertised("a.0")], 0.0)
        broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
        assert list(violations(broker.state)) == []
        broker.state.srt.remove(tid("a.0"))
        assert ["which is not advertised" in each for each in violations(broker.state)] == [True]

    def test_a_subscription_that_a_client_forgot_is_found(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "S", want(0, "x > 0"))
        broker.state.clients[client].subscriptions.clear()
        assert any("clients issued 0" in each for each in violations(broker.state))
