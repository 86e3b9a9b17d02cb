import pytest
from tid_support import advertised, bound, make_tid_broker, published, sub_id, tid

from octopia.broker import Detail, Event, Verdict
from octopia.ids import ClientId
from octopia.node import Node, NodeSettings
from octopia.protocol import Cause, CloseCode, Overflow
from octopia.protocol.messages import CutOff, Deliver, Lost, Refused
from octopia.settings import PathSelection
from octopia.tid import deliveries
from octopia.tid.core import TidBroker
from support import at, join, offer, say, sent_by, take_all, want


def crossing(**settings: object) -> TidBroker:
    """Broker 2 of Fig. 1(c): the subscription of c.1 is here twice, bound to P1 from c.0 and bound to P2 from b.1."""
    broker = make_tid_broker("b.0", **settings)
    broker.receive(at("a.0"), [advertised("a.0"), advertised("a.1")], 0.0)
    broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
    broker.receive(at("b.1"), [bound("c.1", 0, tid("a.1"))], 0.0)
    sent_by(broker)
    return broker


def congest(broker: TidBroker, link: str) -> None:
    broker.force(at(link), Verdict.CONGESTED, None, 0.0)


class TestAtTheHostBroker:
    def test_what_conforms_to_nothing_is_refused_and_goes_nowhere(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P", offer(0, "x > 0"))
        broker.receive(at("c.0"), [bound("c.1", 0, tid("b.0"))], 0.0)
        sent_by(broker)
        broker.receive(client, [say(7, x=-1)], 0.0)
        reason = (
            "it conforms to none of its publisher's advertisements; the closest is (x > 0), which excludes x = -1: "
            "change the value, or advertise what you publish"
        )
        assert take_all(broker, client) == [Refused("publication", 7, reason)]
        assert sent_by(broker) == {}
        assert broker.counters.refused == 1

    def test_an_advertisement_of_somebody_else_does_not_help(self):
        broker = make_tid_broker("b.0")
        join(broker, "other", offer(0, "x > 0"))
        client = join(broker, "P", say(0, x=1))
        assert isinstance(take_all(broker, client)[0], Refused)

    def test_it_is_bound_to_the_lowest_tid_that_conforms(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P", offer(0, "y > 0"), offer(1, "x > 0"), offer(2, "x > 1"))
        broker.receive(at("c.0"), [bound("c.1", 0, tid("b.0", number)) for number in range(3)], 0.0)
        sent_by(broker)
        broker.receive(client, [say(0, x=5)], 0.0)
        assert sent_by(broker) == {"c.0": [published(tid("b.0", 1), x=5)]}

    def test_the_publisher_hears_itself_if_it_wants_to(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P", offer(0, "x > 0"), want(1, "x > 0"), say(0, x=1))
        assert [type(each) for each in take_all(broker, client)] == [Deliver]

    def test_placed_counts_what_was_handled(self):
        broker = make_tid_broker("b.0")
        client = join(broker, "P", offer(0, "x > 0"))
        effects = broker.receive(client, [say(0, x=1), say(1, x=-1), say(2, x=2)], 0.0)
        assert [(each.peer, each.traffic_class, each.frames) for each in effects.placed] == [(client, 0, 3)]


class TestOnTheWay:
    def test_it_follows_content_and_tid(self):
        broker = crossing()
        broker.receive(at("a.0"), [published(tid("a.0"), x=1)], 0.0)
        assert sent_by(broker) == {"c.0": [published(tid("a.0"), hop=2, x=1)]}
        broker.receive(at("a.0"), [published(tid("a.1"), x=1)], 0.0)
        assert sent_by(broker) == {"b.1": [published(tid("a.1"), hop=2, x=1)]}
        broker.receive(at("a.0"), [published(tid("a.1"), x=-1)], 0.0)
        assert sent_by(broker) == {}

    def test_one_whose_tree_was_withdrawn_goes_no_further_and_is_counted(self):
        broker = crossing(detail=Detail.DELIVERIES)
        broker.receive(at("a.0"), [published(tid("a.0", 9), x=1)], 0.0)
        assert sent_by(broker) == {}
        assert broker.counters.orphaned == 1
        assert [(fact.event, fact.value) for fact in broker.drain_facts()] == [(Event.DROP, 1)]

    def test_beyond_the_hop_limit_copies_are_dropped_and_counted(self):
        broker = crossing(hop_limit=3, detail=Detail.DELIVERIES)
        broker.receive(at("a.0"), [published(tid("a.0"), hop=2, x=1)], 0.0)
        assert len(sent_by(broker)) == 1
        broker.receive(at("a.0"), [published(tid("a.0"), hop=3, x=1)], 0.0)
        assert sent_by(broker) == {}
        assert broker.counters.lost[Cause.HOP_LIMIT] == 1
        facts = [fact for fact in broker.drain_facts() if fact.event is Event.DROP]
        assert [(fact.message_id, fact.value, fact.hop) for fact in facts] == [(published(tid("a.0"), x=1).id, 1, 3)]

    def test_static_routing_ignores_congestion(self):
        broker = crossing()
        congest(broker, "c.0")
        broker.receive(at("a.0"), [published(tid("a.0"), x=1)], 0.0)
        assert list(sent_by(broker)) == ["c.0"]


class TestDynamicRouting:
    @pytest.mark.parametrize("selection", list(PathSelection))
    def test_the_tid_is_rewritten_where_the_link_is_congested(self, selection: PathSelection):
        broker = crossing(algorithm="tid-dynamic", selection=selection)
        congest(broker, "c.0")
        broker.receive(at("a.0"), [published(tid("a.0"), x=1)], 0.0)
        copy = sent_by(broker)["b.1"][0]
        assert (copy.tid, copy.id, copy.hop) == (tid("a.1"), published(tid("a.0"), x=1).id, 2)
        assert broker.counters.rewritten == 1

    def test_eq_3_decides_unless_told_otherwise(self):
        broker = crossing(algorithm="tid-dynamic", tau=2.0)
        for number in range(4):
            broker.receive(at("a.0"), [published(tid("a.0"), number, x=1)], 0.0)
        assert {peer: len(batch) for peer, batch in sent_by(broker).items()} == {"c.0": 3, "b.1": 1}

    def test_an_ordered_advertisement_keeps_its_publications_on_their_tree(self):
        broker = make_tid_broker("b.0", algorithm="tid-dynamic")
        broker.receive(at("a.0"), [advertised("a.0", ordered=True), advertised("a.1")], 0.0)
        broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
        broker.receive(at("b.1"), [bound("c.1", 0, tid("a.1"))], 0.0)
        sent_by(broker)
        congest(broker, "c.0")
        broker.receive(at("a.0"), [published(tid("a.0"), x=1)], 0.0)
        assert sent_by(broker) == {"c.0": [published(tid("a.0"), hop=2, x=1)]}

    def test_a_scan_reads_the_whole_table_and_a_look_up_only_what_it_needs(self):
        scanned = {}
        for selection in PathSelection:
            broker = crossing(algorithm="tid-dynamic", selection=selection)
            broker.receive(at("c.0"), [bound("c.0", number, tid("a.0"), "x > 9") for number in range(20)], 0.0)
            congest(broker, "c.0")
            broker.receive(at("a.0"), [published(tid("a.0"), x=1)], 0.0)
            scanned[selection] = broker.counters.entries_scanned
        assert scanned == {PathSelection.LINEAR: 22, PathSelection.INDEXED: 2}


class TestAtTheEdge:
    """Broker c.1, where a client subscribes twice, and two trees arrive."""

    def edge(self, algorithm: str = "tid-dynamic", **settings: object) -> tuple[TidBroker, ClientId]:
        broker = make_tid_broker("c.1", algorithm=algorithm, **settings)
        broker.receive(at("c.0"), [advertised("a.0")], 0.0)
        broker.receive(at("b.1"), [advertised("a.1", text="x < 5")], 0.0)
        return broker, join(broker, "S", want(4, "x > 0"), want(6, "x BETWEEN 8 AND 9"))

    def test_one_delivery_names_all_subscriptions(self):
        broker, client = self.edge()
        broker.receive(at("c.0"), [published(tid("a.0"), hop=3, x=8)], 0.0)
        (delivery,) = take_all(broker, client)
        assert isinstance(delivery, Deliver)
        assert (delivery.handles, delivery.hop) == ((4, 6), 3)

    def test_a_second_copy_in_another_tree_is_dropped_and_counted(self):
        broker, client = self.edge()
        again = published(tid("a.0"), x=1)
        broker.receive(at("c.0"), [again], 0.0)
        broker.receive(at("b.1"), [type(again)(again.id, again.publication, tid("a.1"), 4, 0.0)], 0.0)
        assert len(take_all(broker, client)) == 1
        assert broker.counters.duplicate_deliveries_dropped == 1

    def test_a_subscription_that_the_first_copy_did_not_reach_gets_the_second(self):
        broker, client = self.edge()
        first = published(tid("a.1"), x=8)  # Not what a.1 advertises, but it may have changed trees to get here.
        broker.receive(at("b.1"), [first], 0.0)
        broker.receive(at("c.0"), [type(first)(first.id, first.publication, tid("a.0"), 4, 0.0)], 0.0)
        assert [each.handles for each in take_all(broker, client) if isinstance(each, Deliver)] == [(4,), (6,)]
        assert broker.counters.duplicate_deliveries_dropped == 1

    def test_static_routing_remembers_no_deliveries(self):
        broker, _ = self.edge("tid-static")
        broker.receive(at("c.0"), [published(tid("a.0"), x=1)], 0.0)
        assert broker.state.delivered == {}

    def test_what_is_remembered_is_bounded(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(deliveries, "REMEMBERED_PUBLICATIONS", 2)
        broker, _ = self.edge()
        kept = []
        for number in range(8):
            broker.receive(at("c.0"), [published(tid("a.0"), number, x=1)], 0.0)
            kept.append([each.number for each in broker.state.delivered])
        # At least the last two, and never more than the last four.
        assert kept == [[0], [0, 1], [0, 1, 2], [2, 3], [2, 3, 4], [4, 5], [4, 5, 6], [6, 7]]
        assert set(broker.state.delivered.values()) == {(sub_id("c.1", 0),)}

    @pytest.mark.parametrize("overflow", Overflow)
    def test_a_slow_client_of_a_node_loses_everything_or_the_oldest(self, overflow: Overflow):
        broker = make_tid_broker("c.1", algorithm="tid-dynamic")
        node = Node(broker, broker.state.neighbourhood.neighbours, 1, NodeSettings(client_queue_limit=2))
        node.receive(at("c.0"), [advertised("a.0")], 0.0)
        client = node.attach("S", overflow, 0.0)
        node.receive(client, [want(0, "x > 0")], 0.0)
        node.pace(client, is_paced=True)
        node.ready(0.0)
        node.receive(at("c.0"), [published(tid("a.0"), number, x=1) for number in range(4)], 0.0)
        ready = node.ready(0.0)
        told = [each for peer, items in ready.writes if peer == client for each in items]
        if overflow is Overflow.DISCONNECT:
            assert told == [CutOff(4)]
            assert [(each.peer, each.code) for each in ready.closes] == [(client, CloseCode.TOO_SLOW)]
            assert broker.table_sizes()["prt"] == 0
        else:
            assert told == [Lost(2)]
            left = [node.begin(client, 0.0), node.begin(client, 0.0)]
            assert [each.id.number for each in left if isinstance(each, Deliver)] == [2, 3]
        assert node.lost_by_slow_clients == (4 if overflow is Overflow.DISCONNECT else 2)
        broker.check()
