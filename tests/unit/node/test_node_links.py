"""The links of a node to its neighbours: connections, credit, capacity, pace and drain."""

from __future__ import annotations

import dataclasses

import pytest
from node_support import (
    CLIENT_LINKS,
    LINKS,
    ONE_BYTE,
    SESSIONS,
    Rig,
    codes,
    full,
    make_node,
    make_restarted,
    messages_in,
    numbers,
    plain,
    written_to,
)

from octopia.content import parse_filter
from octopia.ids import Peer
from octopia.link import LinkSettings, Session
from octopia.node import Node, NodeSettings, Ready, introduce
from octopia.protocol import CONTROL_ONLY, Ack, CloseCode, Frame, Grant, Hello, Overflow
from octopia.protocol.messages import (
    AdvertisementDigest,
    Deliver,
    Publish,
    Subscribe,
    SubscribeRequest,
    SubscriptionDigest,
)
from octopia.settings import Algorithm
from support import at, make_broker, offer, publish, say, subscribe, want

AMPLE = Grant(1, 1 << 30, ())


def met(**settings: object) -> Rig:
    """Return a rig with all neighbours, where c.0 wants x."""
    rig = Rig(**settings)
    rig.meet("a.0", "c.0", "b.1", "b.2")
    rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
    rig.settle()
    rig.told("c.0")
    return rig


class TestConnecting:
    def test_a_new_node_has_no_connection(self) -> None:
        node = make_node()
        assert not any(link.is_up for link in node.links.values())
        assert node.incarnation_of(at("a.0")) == 0
        assert node.next_deadline_ms is None

    def test_both_ends_greet_and_then_exchange_their_state(self) -> None:
        rig = Rig()
        rig.meet("a.0", "b.1", incarnation=7)
        assert rig.node.links[at("a.0")].is_up
        assert not rig.node.links[at("c.0")].is_up
        assert rig.node.incarnation_of(at("a.0")) == 7
        assert [type(each) for each in rig.told("a.0")] == [SubscriptionDigest]
        assert [type(each) for each in rig.told("b.1")] == [AdvertisementDigest]

    def test_the_broker_hears_of_a_link_that_breaks_once(self) -> None:
        rig = met()
        rig.cut("c.0")
        assert list(rig.broker.state.down) == [at("c.0")]
        rig.node.disconnect(at("c.0"), 1.0)
        rig.broker.check()
        rig.connect("c.0")
        rig.settle()
        assert not rig.broker.state.down

    def test_a_greeting_that_is_not_answered_brings_no_link_up(self) -> None:
        rig = Rig()
        rig.node.connect(at("a.0"), 0.0)
        (write,) = rig.node.ready(0.0).writes
        assert [type(each) for each in write[1]] == [Hello]
        rig.node.disconnect(at("a.0"), 1.0)
        assert not rig.broker.state.down

    def test_everything_that_did_not_arrive_is_written_again(self) -> None:
        rig = met()
        for number in range(3):
            rig.tell("a.0", plain(number))
        lost = rig.node.ready(0.0)
        assert numbers(written_to(lost, at("c.0"))) == [0, 1, 2]
        rig.connect("c.0")
        rig.tell("a.0", plain(3))
        rig.settle()
        assert numbers(rig.told("c.0")) == [0, 1, 2, 3]
        assert rig.session("c.0").dropped_unacknowledged == 0

    def test_what_arrived_is_not_written_again(self) -> None:
        rig = met()
        rig.tell("a.0", plain(0))
        rig.settle()
        rig.tell("a.0", plain(1))
        ready = rig.node.ready(0.0)
        items = next(items for peer, items in ready.writes if peer == at("c.0"))
        rig.reach("c.0", items)  # type: ignore[arg-type]
        rig.connect("c.0")  # The acknowledgement is lost.
        rig.settle()
        assert numbers(rig.told("c.0")) == [0, 1]

    def test_publications_wait_while_there_is_no_connection(self) -> None:
        rig = met()
        rig.cut("c.0")
        for number in range(3):
            rig.tell("a.0", plain(number))
        rig.settle()
        assert rig.node.left_behind == 3
        assert numbers(rig.told("c.0")) == []
        rig.connect("c.0")
        rig.settle()
        assert numbers(rig.told("c.0")) == [0, 1, 2]
        assert rig.node.left_behind == 0

    def test_a_neighbour_that_lost_its_memory_begins_a_new_sequence(self) -> None:
        rig = met()
        rig.tell("a.0", plain(0))
        rig.node.ready(0.0)  # It is lost with the connection.
        rig.meet("c.0", incarnation=2)
        assert rig.node.incarnation_of(at("c.0")) == 2
        assert rig.session("c.0").dropped_unacknowledged == 1
        rig.tell("c.0", subscribe("c.0", 1, "x > 0"))
        rig.tell("a.0", plain(1))
        rig.settle()
        assert 1 in numbers(rig.told("c.0"))

    def test_an_older_incarnation_is_fenced_with_the_newer_one_named(self) -> None:
        rig = Rig()
        rig.meet("a.0", incarnation=5)
        rig.cut("a.0")
        rig.ends["a.0"] = Session(4, LINKS)
        rig.connect("a.0")
        rig.hand_over("a.0")
        ready = rig.node.ready(0.0)
        assert codes(ready.closes) == [("a.0", CloseCode.FENCED)]
        assert ready.closes[0].incarnation == 5
        assert "a newer broker runs as a.0" in ready.closes[0].reason
        assert not rig.node.links[at("a.0")].is_up
        assert rig.node.incarnation_of(at("a.0")) == 5

    def test_items_before_the_greeting_are_ignored(self) -> None:
        rig = Rig()
        rig.node.connect(at("a.0"), 0.0)
        rig.node.receive(at("a.0"), [Frame(1, subscribe("a.0", 0, "x > 0"))], 0.0)
        rig.node.ready(0.0)
        assert rig.broker.table_sizes()["prt"] == 0

    def test_items_without_a_connection_are_ignored(self) -> None:
        rig = met()
        rig.cut("a.0")
        rig.node.receive(at("a.0"), [Frame(rig.session("a.0").accepted + 1, plain(0))], 0.0)
        rig.settle()
        assert numbers(rig.told("c.0")) == []

    def test_who_is_no_neighbour_is_ignored(self) -> None:
        rig = met()
        for peer in (at("c.2"), at("z.9")):
            rig.node.receive(peer, [Frame(1, plain(0))], 0.0)
            rig.node.disconnect(peer, 0.0)
            rig.node.pause(peer)
            rig.node.resume(peer)
        assert rig.node.ready(0.0) == Ready()


class TestIntroduction:
    def test_two_new_nodes_are_up_and_have_nothing_to_exchange(self) -> None:
        one, other = make_node("a.0"), make_node("b.0")
        introduce(one, other)
        for node, peer in ((one, "b.0"), (other, "a.0")):
            assert node.links[at(peer)].is_up
            assert node.ready(0.0) == Ready()
            assert node.is_at_rest

    def test_without_sessions_there_is_nothing_to_do(self) -> None:
        one, other = make_node("a.0", NodeSettings()), make_node("b.0", NodeSettings())
        introduce(one, other)
        assert one.links[at("b.0")].is_up


class TestCredit:
    """Publications come from a.0 and leave for c.0; queues hold one."""

    def test_it_is_returned_with_the_acknowledgement_if_there_is_room(self) -> None:
        rig = met(queue_capacity=1)
        rig.tell("a.0", plain(0))
        assert not rig.session("a.0").owes_credit
        rig.settle()
        assert rig.ends["a.0"].classes != CONTROL_ONLY

    def test_it_is_not_returned_while_a_copy_waits_for_room(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        ready = rig.carry()
        (ack,) = [item for peer, items in ready.writes if peer == at("b.1") for item in items]
        assert isinstance(ack, Ack)
        assert ack.accepted == rig.session("b.1").accepted, "accepted it is"
        assert ack.grant.placed_bytes == (), "but not placed"
        assert rig.session("b.1").owes_credit

    def test_it_is_returned_when_room_was_made(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.settle()
        rig.unstick("c.0")
        rig.settle()
        assert numbers(rig.told("c.0")) == [0, 1, 10]
        assert not any(rig.session(name).owes_credit for name in ("a.0", "b.1"))
        assert rig.ends["b.1"].classes >> 0 & 1
        assert rig.node.is_at_rest

    def test_many_senders_wait_and_all_get_theirs(self) -> None:
        rig = full()
        rig.join("P", offer(0, "x > 0"))
        for number, name in enumerate(["b.1", "b.2", "a.0", "P"], 10):
            rig.tell(name, say(number, x=1) if name == "P" else plain(number))
        rig.settle()
        assert [rig.session(name).owes_credit for name in ("b.1", "b.2", "a.0", "P")] == [True] * 4
        rig.unstick("c.0")
        rig.settle()
        assert not any(rig.session(name).owes_credit for name in ("b.1", "b.2", "a.0", "P"))
        assert len(numbers(rig.told("c.0"))) == 6
        rig.broker.check()

    def test_it_is_returned_when_the_full_link_breaks(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.settle()
        rig.cut("c.0")
        assert not rig.session("b.1").owes_credit
        ready = rig.node.ready(0.0)
        (ack,) = [item for peer, items in ready.writes if peer == at("b.1") for item in items]
        assert isinstance(ack, Ack)
        assert ack.grant.placed_bytes == ((0, plain(10).size_bytes),)

    def test_it_is_returned_to_a_neighbour_that_was_away_meanwhile(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.settle()
        rig.cut("b.1")
        rig.unstick("c.0")
        rig.settle()
        rig.connect("b.1")
        rig.settle()
        assert rig.ends["b.1"].classes & 1
        assert numbers(rig.told("c.0")) == [0, 1, 10]

    def test_it_is_not_given_to_a_new_incarnation_of_the_sender(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.settle()
        rig.meet("b.1", incarnation=2)
        rig.unstick("c.0")
        rig.settle()
        assert rig.session("b.1")._receiver.placed_bytes == {}
        assert not rig.session("b.1").owes_credit
        assert numbers(rig.told("c.0")) == [0, 1, 10]

    def test_a_sender_without_credit_still_sends_control(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.tell("a.0", subscribe("a.0", 7, "q > 0"))
        rig.settle()
        assert [each for each in rig.told("c.0") if isinstance(each, Subscribe) and each.id.number == 7]

    def test_a_broker_that_is_not_ready_grants_none(self) -> None:
        rig = Rig(make_restarted())
        rig.meet("b.1")
        assert rig.ends["b.1"].classes == CONTROL_ONLY

    def test_once_it_is_ready_it_grants_everybody(self) -> None:
        rig = Rig(make_restarted())
        rig.meet("b.1", "b.2")
        rig.join("P")
        for name in ("a.0", "c.0"):
            rig.meet(name)
            rig.tell(name, SubscriptionDigest((), (), complete=True))
        rig.settle()
        assert rig.broker.accepts_data
        for name in ("a.0", "c.0", "b.1", "b.2", "P"):
            assert rig.ends[name].classes != CONTROL_ONLY, name

    def test_it_grants_everybody_at_the_end_of_the_grace_period(self) -> None:
        settings = dataclasses.replace(LINKS, heartbeat_ms=1e6, suspicion_ms=1e7)
        rig = Rig(make_restarted(settings=NodeSettings(settings, CLIENT_LINKS)))
        rig.meet("b.1")
        rig.now_ms = 5000.0
        assert rig.node.next_deadline_ms == 5000.0
        rig.node.wake(5000.0)
        assert rig.broker.accepts_data
        rig.settle()
        assert rig.ends["b.1"].classes != CONTROL_ONLY


class TestPausing:
    def test_nothing_is_taken_for_a_connection_that_can_carry_no_more(self) -> None:
        rig = met()
        rig.node.pause(at("c.0"))
        for number in range(3):
            rig.tell("a.0", plain(number))
        rig.tell("a.0", subscribe("a.0", 3, "y > 0"))
        ready = rig.carry()
        assert written_to(ready, at("c.0")) == []
        assert rig.broker.waits_for(at("c.0")) == 3
        rig.node.resume(at("c.0"))
        rig.settle()
        heard = rig.told("c.0")
        assert numbers(heard) == [0, 1, 2]
        assert any(isinstance(each, Subscribe) for each in heard)

    def test_acknowledgements_do_not_pile_up(self) -> None:
        rig = met()
        rig.node.pause(at("a.0"))
        for number in range(5):
            rig.tell("a.0", plain(number))
            assert all(peer != at("a.0") for peer, _ in rig.carry().writes)
        rig.node.resume(at("a.0"))
        (items,) = [items for peer, items in rig.node.ready(0.0).writes if peer == at("a.0")]
        (ack,) = items
        assert isinstance(ack, Ack)
        assert ack.accepted == rig.session("a.0").accepted

    def test_heartbeats_do_not_pile_up_either(self) -> None:
        rig = met()
        rig.node.pause(at("a.0"))
        for now_ms in (100.0, 200.0, 300.0):
            rig.node.wake(now_ms)
            assert all(peer != at("a.0") for peer, _ in rig.node.ready(now_ms).writes)

    def test_a_new_connection_is_not_paused(self) -> None:
        rig = met()
        rig.node.pause(at("c.0"))
        rig.tell("a.0", plain(0))
        rig.connect("c.0")
        rig.settle()
        assert numbers(rig.told("c.0")) == [0]

    def test_a_paused_client_gets_nothing_and_then_everything(self) -> None:
        rig = met()
        rig.join("S", want(0, "x > 0"))
        rig.node.pause(rig.ids["S"])
        rig.tell("a.0", plain(0), plain(1))
        assert written_to(rig.carry(), rig.ids["S"]) == []
        assert rig.node.left_behind == 2
        rig.node.resume(rig.ids["S"])
        rig.settle()
        assert numbers(rig.told("S")) == [0, 1]


@pytest.mark.parametrize("has_session", [False, True], ids=["without a session", "with a session"])
class TestPace:
    def paced(self, has_session: bool) -> Node:
        """Return a node that has three publications for c.0 over a paced link."""
        node = make_node(settings=NodeSettings(LINKS if has_session else None))
        if has_session:
            far = Session(1, LINKS)
            far.connected(0.0)
            node.connect(at("c.0"), 0.0)
            node.ready(0.0)
            node.receive(at("c.0"), far.drain(0.0), 0.0)
        node.pace(at("c.0"), is_paced=True)
        node.ready(0.0)
        node.broker.receive(at("c.0"), [subscribe("c.0", 0, "x > 0")], 0.0)
        client = node.attach("P", Overflow.DISCONNECT, 0.0)
        node.receive(client, [offer(0, "x > 0"), *(say(each, x=1) for each in range(3))], 0.0)
        return node

    def test_a_paced_link_is_named_even_without_items(self, has_session: bool) -> None:
        node = self.paced(has_session)
        ready = node.ready(0.0)
        assert [messages_in(items) for peer, items in ready.writes if peer == at("c.0")] == [[]]
        assert node.broker.waits_for(at("c.0")) == 3

    def test_control_is_not_paced(self, has_session: bool) -> None:
        node = self.paced(has_session)
        node.receive(node.attach("S", Overflow.DISCONNECT, 0.0), [want(0, "y > 0")], 0.0)
        assert [type(each) for each in written_to(node.ready(0.0), at("c.0"))] == [Subscribe]

    def test_publications_leave_one_by_one(self, has_session: bool) -> None:
        node = self.paced(has_session)
        node.ready(0.0)
        seen = []
        while node.can_begin(at("c.0")):
            message = node.begin(at("c.0"), 1.0)
            assert isinstance(message, Publish)
            if has_session:
                assert not node.can_begin(at("c.0")), "the link is occupied"
                assert node.begin(at("c.0"), 1.0) is None
                assert written_to(node.ready(1.0), at("c.0")) == [], "it is not written yet"
            node.finish(at("c.0"), 2.0)
            written = numbers(written_to(node.ready(2.0), at("c.0")))
            assert written == ([message.id.number] if has_session else [])
            seen.append(message.id.number)
        assert seen == [0, 1, 2]
        assert node.begin(at("c.0"), 2.0) is None

    def test_without_pace_the_rest_leaves_at_once(self, has_session: bool) -> None:
        node = self.paced(has_session)
        node.ready(0.0)
        node.pace(at("c.0"), is_paced=False)
        assert numbers(written_to(node.ready(0.0), at("c.0"))) == [0, 1, 2]

    def test_deliveries_to_a_client_can_be_paced(self, has_session: bool) -> None:
        del has_session  # Clients of a driver that paces them have none.
        node = make_node(settings=NodeSettings())
        client = node.attach("S", Overflow.DISCONNECT, 0.0)
        node.pace(client, is_paced=True)
        node.receive(client, [want(0, "x > 0")], 0.0)
        node.receive(at("a.0"), [plain(0), plain(1)], 0.0)
        ready = node.ready(0.0)
        assert [list(items) for peer, items in ready.writes if peer == client] == [[]]
        taken = [node.begin(client, 0.0) for _ in range(3)]
        assert [each.id.number for each in taken if isinstance(each, Deliver)] == [0, 1]
        assert taken[2] is None


class TestPaceWithSessions:
    def occupied(self) -> Rig:
        """Return a rig whose paced link to c.0 is occupied by publication 0, while 1 waits."""
        rig = met()
        rig.node.pace(at("c.0"), is_paced=True)
        rig.tell("a.0", plain(0), plain(1))
        rig.carry()
        assert rig.node.begin(at("c.0"), 0.0) is not None
        return rig

    def test_what_occupies_a_link_when_it_breaks_is_written_once_it_is_back(self) -> None:
        rig = self.occupied()
        rig.cut("c.0")
        rig.node.finish(at("c.0"), 1.0)
        rig.connect("c.0")
        while rig.carry().writes or any(rig.hand_over(name) for name in rig.ends):
            pass
        rig.node.finish(at("c.0"), 2.0)
        assert rig.node.begin(at("c.0"), 2.0) is not None
        rig.node.finish(at("c.0"), 3.0)
        rig.carry()
        assert numbers(rig.told("c.0")) == [0, 1]

    def test_what_occupies_a_link_has_not_left(self) -> None:
        rig = self.occupied()
        assert rig.node.left_behind == 2
        assert rig.node.begin(at("c.0"), 0.0) is None
        rig.node.finish(at("c.0"), 1.0)
        rig.node.begin(at("c.0"), 1.0)
        while rig.carry().writes[1:] or any(rig.hand_over(name) for name in rig.ends):
            pass
        assert rig.broker.waits_for(at("c.0")) == 0
        assert not rig.node.is_at_rest, "publication 1 is on nobody's wire yet"

    def test_the_end_of_pacing_keeps_the_order(self) -> None:
        rig = self.occupied()
        rig.node.pace(at("c.0"), is_paced=False)
        rig.carry()
        rig.node.finish(at("c.0"), 1.0)
        rig.settle()
        assert numbers(rig.told("c.0")) == [0, 1]

    def test_a_copy_that_was_on_its_way_when_pacing_began_does_not_look_so_for_ever(self) -> None:
        rig = met(algorithm=Algorithm.ADAPTIVE)
        pace = rig.broker.state.queues[at("c.0")].pace
        rig.tell("a.0", plain(0))
        rig.carry()
        assert pace.under_way == 1, "it is not acknowledged yet"
        rig.node.pace(at("c.0"), is_paced=True)
        rig.settle()
        rig.tell("a.0", plain(1))
        rig.carry()
        assert rig.node.begin(at("c.0"), 1.0) is not None
        rig.node.finish(at("c.0"), 2.0)
        rig.settle()
        assert pace.under_way == 0
        rig.node.pace(at("c.0"), is_paced=False)
        assert not rig.broker.state.queues[at("c.0")].congested(60_000.0, 0.0)

    def test_a_paced_link_without_credit_begins_nothing(self) -> None:
        rig = Rig(far_links=ONE_BYTE)
        rig.stuck["c.0"] = None
        rig.meet("a.0", "c.0")
        rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
        rig.settle()
        rig.node.pace(at("c.0"), is_paced=True)
        rig.tell("a.0", plain(0))
        rig.tell("a.0", plain(1))
        rig.carry()
        assert rig.node.begin(at("c.0"), 0.0) is not None
        rig.node.finish(at("c.0"), 0.0)
        assert rig.node.begin(at("c.0"), 0.0) is None

    def test_room_that_begin_makes_is_used(self) -> None:
        rig = met(queue_capacity=1)
        rig.node.pace(at("c.0"), is_paced=True)
        rig.tell("a.0", plain(0), plain(1), plain(2))
        rig.carry()
        assert rig.session("a.0").owes_credit
        rig.node.begin(at("c.0"), 0.0)
        assert rig.broker.waits_for(at("c.0")) == 1
        assert rig.node.has_work, "a.0 gets credit for publication 1"


class TestDraining:
    def test_a_node_that_drains_grants_nobody_anything(self) -> None:
        rig = met()
        rig.join("P", offer(0, "x > 0"))
        rig.node.drain()
        assert rig.node.is_draining
        rig.settle()
        for name in ("a.0", "c.0", "b.1", "b.2", "P"):
            assert rig.ends[name].classes == CONTROL_ONLY, name
            assert not rig.node.accepts_data_from(rig.peer(name))

    def test_except_those_that_drain_together_with_it(self) -> None:
        rig = met()
        rig.node.drain(together=[at("a.0"), at("b.1")])
        rig.settle()
        open_to = [name for name in ("a.0", "c.0", "b.1", "b.2") if rig.ends[name].classes != CONTROL_ONLY]
        assert open_to == ["a.0", "b.1"]
        rig.tell("a.0", plain(0))
        rig.settle()
        assert numbers(rig.told("c.0")) == [0]

    def test_who_connects_later_is_granted_nothing_either(self) -> None:
        rig = met()
        rig.cut("a.0")
        rig.node.drain()
        rig.connect("a.0")
        rig.settle()
        assert rig.ends["a.0"].classes == CONTROL_ONLY
        rig.join("P")
        assert rig.ends["P"].classes == CONTROL_ONLY

    def test_what_is_there_still_leaves(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.node.drain()
        rig.settle()
        assert not rig.node.is_at_rest
        rig.unstick("c.0")
        rig.settle()
        assert numbers(rig.told("c.0")) == [0, 1, 10]
        assert rig.node.is_at_rest
        assert rig.node.left_behind == 0


class TestRest:
    def test_a_node_rests_when_all_is_acknowledged(self) -> None:
        rig = met()
        assert rig.node.is_at_rest
        rig.tell("a.0", plain(0))
        assert not rig.node.is_at_rest, "it waits in a queue"
        rig.carry()
        assert not rig.node.is_at_rest, "it is not acknowledged"
        rig.settle()
        assert rig.node.is_at_rest

    def test_what_waits_for_a_broken_link_can_still_leave(self) -> None:
        rig = met()
        rig.cut("c.0")
        rig.tell("a.0", plain(0))
        rig.settle()
        assert not rig.node.is_at_rest

    def test_a_neighbour_that_has_left_takes_nothing_more(self) -> None:
        rig = met()
        rig.ends["c.0"].disconnected()
        rig.node.disconnect(at("c.0"), 0.0, has_left=True)
        rig.tell("a.0", plain(0))
        rig.settle()
        assert rig.node.is_at_rest
        assert rig.node.left_behind == 1, "it is left behind all the same"
        rig.connect("c.0")
        assert not rig.node.is_at_rest
        rig.settle()
        assert rig.node.is_at_rest
        assert numbers(rig.told("c.0")) == [0]

    def test_a_connected_client_must_have_acknowledged(self) -> None:
        rig = met()
        rig.join("S", want(0, "x > 0"))
        rig.tell("a.0", plain(0))
        rig.carry()
        while rig.hand_over("c.0") or rig.hand_over("a.0"):
            rig.node.ready(0.0)
        assert not rig.node.is_at_rest
        rig.settle()
        assert rig.node.is_at_rest

    def test_a_client_that_is_away_is_not_waited_for(self) -> None:
        rig = met()
        rig.join("S", want(0, "x > 0"))
        rig.cut("S")
        rig.tell("a.0", plain(0))
        rig.settle()
        assert rig.node.is_at_rest
        assert rig.node.left_behind == 1

    def test_publications_in_inputs_are_left_behind_too(self) -> None:
        rig = Rig(make_restarted())
        rig.meet("b.1")
        rig.node.receive(at("b.1"), [Frame(rig.session("b.1").accepted + 1, plain(0))], 0.0)
        rig.settle()
        assert rig.broker.state.inputs
        assert rig.node.left_behind == 1
        assert not rig.node.is_at_rest

    def test_publications_behind_a_full_queue_are_left_behind_too(self) -> None:
        rig = full()
        assert rig.node.left_behind == 1
        rig.tell("b.1", plain(10))
        rig.settle()
        assert rig.node.left_behind == 2

    def test_the_time_of_the_last_publication_is_kept(self) -> None:
        rig = met()
        assert rig.node.last_data_ms == 0.0
        rig.now_ms = 70.0
        rig.tell("a.0", subscribe("a.0", 9, "x > 0"))
        assert rig.node.last_data_ms == 0.0
        rig.tell("a.0", plain(0))
        assert rig.node.last_data_ms == 70.0


class TestTime:
    def test_a_link_that_says_nothing_repeats_its_acknowledgement(self) -> None:
        rig = met()
        assert rig.node.next_deadline_ms == 100.0
        rig.node.wake(99.0)
        assert rig.node.ready(99.0) == Ready()
        rig.node.wake(100.0)
        ready = rig.node.ready(100.0)
        assert sorted(str(peer) for peer, _ in ready.writes) == ["a.0", "b.1", "b.2", "c.0"]
        assert all(isinstance(item, Ack) for _, items in ready.writes for item in items)
        assert rig.node.next_deadline_ms == 200.0

    def test_a_silent_neighbour_is_reported_and_others_are_not(self) -> None:
        rig = met()
        for now_ms in (100.0, 200.0, 300.0, 400.0):
            rig.now_ms = now_ms
            rig.node.wake(now_ms)
            ready = rig.node.ready(now_ms)
            for name in ("a.0", "b.1", "b.2"):
                rig.node.receive(at(name), [Ack(0, AMPLE)], now_ms)
        assert ready.silent == (at("c.0"),)
        rig.node.disconnect(at("c.0"), 400.0)
        rig.node.ready(400.0)
        assert list(rig.broker.state.down) == [at("c.0")]

    def test_a_greeting_that_is_never_answered_is_given_up(self) -> None:
        rig = Rig()
        rig.node.connect(at("a.0"), 0.0)
        rig.node.ready(0.0)
        assert rig.node.next_deadline_ms == 400.0
        rig.node.wake(400.0)
        assert rig.node.ready(400.0).silent == (at("a.0"),)

    def test_what_is_not_acknowledged_in_time_is_written_again(self) -> None:
        links = dataclasses.replace(LINKS, retransmit_ms=50.0)
        rig = Rig(make_node(settings=NodeSettings(links, CLIENT_LINKS)))
        rig.meet("a.0", "c.0")
        rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
        rig.settle()
        rig.tell("a.0", plain(0))
        rig.node.ready(0.0)
        rig.now_ms = 50.0
        assert rig.node.next_deadline_ms == 50.0
        rig.node.wake(50.0)
        rig.settle()
        assert numbers(rig.told("c.0")) == [0]

    def test_the_deadline_of_the_broker_counts(self) -> None:
        node = make_node(settings=NodeSettings(), confirmations=True)
        client = node.attach("S", Overflow.DISCONNECT, 0.0)
        node.receive(client, [SubscribeRequest(0, parse_filter("x > 0"), 250.0)], 0.0)
        node.ready(0.0)
        assert node.next_deadline_ms == 250.0
        node.wake(250.0)
        assert written_to(node.ready(250.0), client)

    def test_waking_the_broker_leaves_sessions_alone(self) -> None:
        rig = met()
        rig.node.wake_broker(1000.0)
        assert rig.node.ready(1000.0) == Ready()


def test_a_long_queue_leaves_in_pieces() -> None:
    rig = Rig()
    rig.meet("a.0", "c.0")
    rig.node.pause(at("c.0"))
    rig.tell("a.0", *(subscribe("a.0", number, "x > 0") for number in range(2500)))
    rig.settle()
    rig.told("c.0")
    rig.node.resume(at("c.0"))
    pieces = []
    while rig.node.has_work or rig.node.is_behind:
        rig.node.wake(rig.now_ms)
        rig.carry()
        pieces.append(rig.told("c.0"))
        assert rig.node.is_behind == (sum(map(len, pieces)) < 2500)
        assert not rig.node.is_behind or rig.node.next_deadline_ms == 0.0
    assert [len(each) for each in pieces] == [1000, 1000, 500]
    assert [each.id.number for piece in pieces for each in piece if isinstance(each, Subscribe)] == list(range(2500))


def test_a_neighbour_without_session_is_always_up_and_carries_the_messages_themselves() -> None:
    broker = make_broker("b.0")
    node = Node(broker, broker.state.neighbourhood.neighbours, 1)
    node.receive(at("c.0"), [subscribe("c.0", 0, "x > 0")], 0.0)
    node.receive(at("a.0"), [publish("a.0", 0, x=1)], 0.0)
    ready = node.ready(0.0)
    written: dict[Peer, list[type]] = {peer: [type(each) for each in items] for peer, items in ready.writes}
    assert written == {at("a.0"): [Subscribe], at("c.0"): [Publish]}
    assert node.next_deadline_ms is None
    assert node.is_at_rest


def test_settings_of_links_are_those_of_the_sessions() -> None:
    node = make_node(settings=NodeSettings(LinkSettings(window_bytes=7), None))
    node.connect(at("a.0"), 0.0)
    (write,) = node.ready(0.0).writes
    (hello,) = write[1]
    assert isinstance(hello, Hello)
    assert hello.grant.window_bytes == 7
    assert SESSIONS.client_links == CLIENT_LINKS


@pytest.mark.parametrize("is_paced", [False, True])
def test_control_is_moved_to_a_link_in_slices(is_paced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("octopia.node.flowing._FLOW_MAX", 2)
    rig = Rig()
    rig.meet("a.0", "c.0")
    rig.node.pace(at("a.0"), is_paced)
    rig.tell("c.0", *(subscribe("c.0", number, "x > 0") for number in range(5)))
    moved = []
    while rig.node.has_work or rig.node.is_behind:
        moved.append(len(written_to(rig.node.ready(0.0), at("a.0"))))
        rig.node.wake(0.0)
    assert moved == [2, 2, 1]
