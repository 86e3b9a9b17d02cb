from tid_support import TidOverlay, advertised, bound, make_tid_broker, tid, unadvertised

from octopia.protocol.messages import UnadvertiseRequest
from octopia.tid.messages import TidAdvertise
from support import at, join, offer, sent_by, want


def test_the_host_broker_names_the_tree_and_floods_to_all_neighbours():
    broker = make_tid_broker("b.0")
    join(broker, "P", offer(7, "x > 0"))
    assert sent_by(broker) == {each: [advertised("b.0")] for each in ("a.0", "c.0", "b.1")}
    assert broker.table_sizes() == {"clt": 0, "prt": 0, "srt": 1}


def test_neighbours_are_served_by_broker_id_whatever_their_kind():
    broker = make_tid_broker("b.0")
    client = join(broker, "P")
    effects = broker.receive(client, [offer(0, "x > 0")], 0.0)
    assert list(map(str, effects.ready)) == ["a.0", "b.1", "c.0"]


def test_the_first_copy_goes_on_but_not_back():
    broker = make_tid_broker("b.0")
    broker.receive(at("a.0"), [advertised("a.0")], 0.0)
    assert sent_by(broker) == {each: [advertised("a.0")] for each in ("c.0", "b.1")}


def test_a_second_copy_is_discarded_and_counted():
    broker = make_tid_broker("b.0")
    broker.receive(at("a.0"), [advertised("a.0")], 0.0)
    sent_by(broker)
    broker.receive(at("c.0"), [advertised("a.0")], 0.0)
    assert sent_by(broker) == {}
    assert broker.counters.duplicates_discarded == 1
    assert [entry.last_hop for entry in broker.state.srt] == [at("a.0")]


def test_local_subscriptions_that_intersect_are_bound_and_sent_back_along_the_tree():
    broker = make_tid_broker("b.0")
    join(broker, "S", want(0, "x > 5"), want(1, "y > 5"))
    broker.receive(at("a.0"), [advertised("a.0")], 0.0)
    assert sent_by(broker)["a.0"] == [bound("b.0", 0, tid("a.0"), "x > 5")]
    assert broker.table_sizes()["prt"] == 1


def test_local_subscriptions_are_bound_to_local_advertisements_without_a_message():
    broker = make_tid_broker("b.0")
    join(broker, "S", want(0, "x > 5"))
    join(broker, "P", offer(0, "x > 0"))
    sent = [message for batch in sent_by(broker).values() for message in batch]
    assert all(isinstance(message, TidAdvertise) for message in sent)
    assert broker.table_sizes()["prt"] == 1


class TestWithdrawal:
    def test_it_takes_what_is_bound_along_and_floods(self):
        broker = make_tid_broker("b.0")
        broker.receive(at("a.0"), [advertised("a.0"), advertised("a.0", 1)], 0.0)
        broker.receive(at("c.0"), [bound("c.0", 0, tid("a.0")), bound("c.0", 0, tid("a.0", 1))], 0.0)
        sent_by(broker)
        broker.receive(at("b.1"), [unadvertised("a.0")], 0.0)
        assert sent_by(broker) == {each: [unadvertised("a.0")] for each in ("a.0", "c.0")}
        assert broker.table_sizes() == {"clt": 0, "prt": 1, "srt": 1}

    def test_it_stops_where_the_advertisement_is_not_known(self):
        broker = make_tid_broker("b.0")
        broker.receive(at("a.0"), [advertised("a.0"), unadvertised("a.0")], 0.0)
        sent_by(broker)
        broker.receive(at("c.0"), [unadvertised("a.0")], 0.0)
        assert sent_by(broker) == {}
        assert broker.counters.duplicates_discarded == 1

    def test_a_late_second_copy_does_not_bring_the_advertisement_back(self):
        """The copy from b.1 is still on its way when a.1 has handled the withdrawal and sent it to b.1."""
        overlay = TidOverlay()
        overlay.ask("P", "a.0", offer(0, "x > 0"))
        for link in (("a.0", "a.1"), ("a.0", "b.0"), ("b.0", "b.1")):
            overlay.carry(*link)
        overlay.ask("P", "a.0", UnadvertiseRequest(0))
        overlay.carry("a.0", "a.1")
        overlay.carry("a.1", "b.1")
        assert overlay.carry("b.1", "a.1") == [advertised("a.0")]
        assert overlay.brokers["a.1"].table_sizes()["srt"] == 0
        overlay.settle()
        overlay.check()
        assert all(broker.table_sizes()["srt"] == 0 for broker in overlay.brokers.values())

    def test_a_flood_and_its_withdrawal_cost_the_same(self):
        overlay = TidOverlay()
        overlay.ask("P", "b.1", offer(0, "x > 0"))
        overlay.settle()
        assert len(overlay.carried) == 2 * 7 - 5
        overlay.ask("P", "b.1", UnadvertiseRequest(0))
        overlay.settle()
        assert len(overlay.carried) == 2 * (2 * 7 - 5)
        assert all(broker.table_sizes()["srt"] == 0 for broker in overlay.brokers.values())
