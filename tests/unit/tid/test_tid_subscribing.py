from tid_support import TidOverlay, advertised, bound, make_tid_broker, tid, unadvertised, unsubscribed

from octopia.protocol.messages import Deliver, UnadvertiseRequest, UnsubscribeRequest
from support import at, join, offer, say, sent_by, want


def knowing(*senders: str):
    """A broker b.0 that has one advertisement from each of these neighbours, hosted there."""
    broker = make_tid_broker("b.0")
    for sender in senders:
        broker.receive(at(sender), [advertised(sender)], 0.0)
    sent_by(broker)
    return broker


def test_one_copy_is_bound_to_each_advertisement_and_goes_towards_it():
    broker = knowing("a.0", "b.1")
    join(broker, "S", want(0, "x > 5"))
    assert sent_by(broker) == {
        "a.0": [bound("b.0", 0, tid("a.0"), "x > 5")],
        "b.1": [bound("b.0", 0, tid("b.1"), "x > 5")],
    }
    assert broker.table_sizes()["prt"] == 2


def test_what_intersects_nothing_stays_unbound_and_costs_nothing():
    broker = knowing("a.0")
    join(broker, "S", want(0, "y > 5"))
    assert sent_by(broker) == {}
    assert broker.table_sizes()["prt"] == 0
    assert len(broker.state.unbound) == 1


def test_a_bound_copy_is_stored_and_passed_on():
    broker = knowing("a.0")
    broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
    assert sent_by(broker) == {"a.0": [bound("c.1", 0, tid("a.0"))]}
    assert [copy.last_hop for copy in broker.state.prt] == [at("c.0")]


def test_it_ends_at_the_publishers_host_broker():
    broker = make_tid_broker("b.0")
    join(broker, "P", offer(0, "x > 0"))
    sent_by(broker)
    broker.receive(at("c.0"), [bound("c.1", 0, tid("b.0"))], 0.0)
    assert sent_by(broker) == {}
    assert broker.table_sizes()["prt"] == 1


def test_a_duplicate_stops():
    broker = knowing("a.0")
    broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
    sent_by(broker)
    broker.receive(at("b.1"), [bound("c.1", 0, tid("a.0"))], 0.0)
    assert sent_by(broker) == {}
    assert [copy.last_hop for copy in broker.state.prt] == [at("c.0")]


def test_it_stops_where_the_advertisement_was_just_withdrawn():
    broker = knowing("a.0")
    broker.receive(at("a.0"), [unadvertised("a.0")], 0.0)
    sent_by(broker)
    broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
    assert sent_by(broker) == {}
    assert broker.table_sizes()["prt"] == 0


def test_it_cannot_come_from_nearer_the_publisher():
    broker = knowing("a.0")
    violation = broker.receive(at("a.0"), [bound("c.1", 0, tid("a.0"))], 0.0).violation
    assert violation is not None
    assert "nearer to the publisher" in str(violation)


class TestUnsubscribe:
    def test_all_bound_copies_go_and_each_hop_is_told_once(self):
        broker = make_tid_broker("b.0")
        broker.receive(at("a.0"), [advertised("a.0"), advertised("a.0", 1)], 0.0)
        broker.receive(at("b.1"), [advertised("b.1")], 0.0)
        client = join(broker, "S", want(3, "x > 5"))
        sent_by(broker)
        broker.receive(client, [UnsubscribeRequest(3)], 0.0)
        assert sent_by(broker) == {"a.0": [unsubscribed("b.0")], "b.1": [unsubscribed("b.0")]}
        assert broker.table_sizes()["prt"] == 0
        assert len(broker.state.unbound) == 0

    def test_copies_from_another_hop_wait_for_their_own_withdrawal(self):
        broker = knowing("a.0", "b.1")
        broker.receive(at("c.0"), [bound("c.1", 0, tid("a.0"))], 0.0)
        broker.receive(at("a.0"), [bound("c.1", 0, tid("b.1"))], 0.0)
        sent_by(broker)
        broker.receive(at("c.0"), [unsubscribed("c.1")], 0.0)
        assert sent_by(broker) == {"a.0": [unsubscribed("c.1")]}
        assert [copy.tid for copy in broker.state.prt] == [tid("b.1")]
        broker.receive(at("a.0"), [unsubscribed("c.1")], 0.0)
        assert sent_by(broker) == {"b.1": [unsubscribed("c.1")]}
        assert broker.table_sizes()["prt"] == 0

    def test_one_that_is_not_known_changes_nothing(self):
        broker = knowing("a.0")
        broker.receive(at("c.0"), [unsubscribed("c.1")], 0.0)
        assert sent_by(broker) == {}

    def test_crossing_withdrawals_leave_nothing(self):
        overlay = TidOverlay()
        overlay.ask("P", "a.0", offer(0, "x > 0"))
        overlay.settle()
        overlay.ask("S", "c.1", want(0, "x > 0"))
        overlay.carry("c.1", "b.1")
        overlay.ask("P", "a.0", UnadvertiseRequest(0))
        overlay.ask("S", "c.1", UnsubscribeRequest(0))
        overlay.settle()
        overlay.check()
        assert all(not any(broker.table_sizes().values()) for broker in overlay.brokers.values())


def test_a_later_advertisement_makes_a_new_copy_and_a_path():
    overlay = TidOverlay()
    overlay.ask("S", "c.1", want(0, "x > 0"))
    overlay.settle()
    overlay.ask("P", "a.0", offer(0, "x > 0"))
    overlay.settle()
    overlay.ask("P", "a.0", say(0, x=1))
    overlay.settle()
    overlay.check()
    assert [type(each) for each in overlay.received("S")] == [Deliver]
