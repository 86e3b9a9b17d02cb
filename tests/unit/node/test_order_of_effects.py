"""The order of calls and effects that the header of ``octopia.node.core`` promises."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from node_support import SESSIONS, Rig, codes, full, make_node, messages_in, numbers, plain, written_to

from octopia.broker import Delivered, Told
from octopia.ids import Peer
from octopia.node import NodeSettings, Ready
from octopia.protocol import Ack, CloseCode, Hello, Item, Overflow
from octopia.protocol.messages import Confirmed, Deliver, Message, Publish, Refused, UnsubscribeRequest
from support import at, offer, publish, say, subscribe, want


def flat(ready: Ready) -> list[tuple[Peer, Item | Message]]:
    """Return the single items that are to be written, in order."""
    return [(peer, item) for peer, items in ready.writes for item in items]


def place_of_ack(ready: Ready, peer: Peer, accepted: int) -> int:
    """Return where a peer is told that its frames up to a number were accepted."""
    (place,) = [
        place
        for place, (each, item) in enumerate(flat(ready))
        if each == peer and isinstance(item, Ack | Hello) and item.accepted == accepted
    ]
    return place


def places_of(ready: Ready, kind: type, *peers: Peer) -> list[int]:
    """Return where messages of a kind are written to peers."""
    found = [
        place
        for place, (peer, item) in enumerate(flat(ready))
        if peer in peers and any(isinstance(each, kind) for each in messages_in([item]))  # type: ignore[list-item]
    ]
    assert found
    return found


def overlay() -> Rig:
    """Return a rig with all neighbours, where a.0 and c.0 want x, and two clients that want x."""
    rig = Rig()
    rig.meet("a.0", "c.0", "b.1", "b.2")
    rig.tell("a.0", subscribe("a.0", 0, "x > 0"))
    rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
    rig.join("S", want(0, "x > 0"))
    rig.join("P", offer(0, "x > 0"))
    rig.settle()
    return rig


class TestBeforeTheAcknowledgement:
    def test_what_a_publication_of_a_neighbour_caused_is_written_first(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0))
        ready = rig.node.ready(0.0)
        ack = place_of_ack(ready, at("a.0"), rig.session("a.0").accepted)
        assert max(places_of(ready, Publish, at("c.0"))) < ack
        assert max(places_of(ready, object, rig.ids["S"])) < ack

    def test_what_a_publication_of_a_client_caused_is_written_first(self) -> None:
        rig = overlay()
        rig.tell("P", say(0, x=1))
        ready = rig.node.ready(0.0)
        ack = place_of_ack(ready, rig.ids["P"], rig.session("P").accepted)
        assert max(places_of(ready, Publish, at("a.0"), at("c.0"))) < ack
        assert max(places_of(ready, object, rig.ids["S"])) < ack

    def test_a_client_gets_its_answer_before_the_acknowledgement(self) -> None:
        rig = overlay()
        rig.tell("S", UnsubscribeRequest(9))
        ready = rig.node.ready(0.0)
        ack = place_of_ack(ready, rig.ids["S"], rig.session("S").accepted)
        assert places_of(ready, Refused, rig.ids["S"]) == [ack - 1]

    def test_several_inputs_of_one_peer_are_acknowledged_together(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0))
        rig.tell("a.0", plain(1))
        ready = rig.node.ready(0.0)
        assert numbers(written_to(ready, at("c.0"))) == [0, 1]
        acks = [item for peer, item in flat(ready) if peer == at("a.0") and isinstance(item, Ack)]
        assert [each.accepted for each in acks] == [rig.session("a.0").accepted]

    def test_inputs_of_two_peers_that_cause_writes_to_each_other(self) -> None:
        """Both peers get frames and an acknowledgement; neither acknowledgement may go before the other's frames."""
        rig = overlay()
        rig.tell("a.0", plain(0))
        rig.tell("c.0", publish("c.0", 1, x=1))
        ready = rig.node.ready(0.0)
        for sender, other in (("a.0", "c.0"), ("c.0", "a.0")):
            ack = place_of_ack(ready, at(sender), rig.session(sender).accepted)
            assert max(places_of(ready, Publish, at(other))) < ack

    def test_inputs_of_a_client_and_a_neighbour_that_cause_writes_to_each_other(self) -> None:
        rig = overlay()
        rig.tell("S", offer(5, "x > 0"))
        rig.settle()
        rig.tell("S", say(0, x=1))
        rig.tell("a.0", plain(1))
        ready = rig.node.ready(0.0)
        of_client = place_of_ack(ready, rig.ids["S"], rig.session("S").accepted)
        assert max(places_of(ready, Publish, at("a.0"))) < of_client
        of_neighbour = place_of_ack(ready, at("a.0"), rig.session("a.0").accepted)
        assert max(places_of(ready, object, rig.ids["S"])) < of_neighbour

    def test_a_greeting_over_a_new_connection_acknowledges_too(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0))
        rig.connect("a.0")
        ready = rig.node.ready(0.0)
        greeting = place_of_ack(ready, at("a.0"), rig.session("a.0").accepted)
        assert max(places_of(ready, Publish, at("c.0"))) < greeting

    def test_so_does_one_over_a_link_that_had_something_to_write_before(self) -> None:
        rig = overlay()
        rig.tell("c.0", subscribe("c.0", 8, "y > 0"))  # It is forwarded to a.0.
        rig.tell("a.0", plain(0))
        rig.connect("a.0")
        ready = rig.node.ready(0.0)
        greeting = place_of_ack(ready, at("a.0"), rig.session("a.0").accepted)
        assert max(places_of(ready, Publish, at("c.0"))) < greeting

    def test_so_does_one_of_a_client_that_comes_back(self) -> None:
        rig = overlay()
        rig.tell("c.0", plain(5))  # It is delivered to S.
        rig.tell("S", offer(5, "x > 0"), say(0, x=1))
        rig.greet("S")
        ready = rig.node.ready(0.0)
        greeting = place_of_ack(ready, rig.ids["S"], rig.session("S").accepted)
        assert max(places_of(ready, Publish, at("c.0"), at("a.0"))) < greeting

    def test_an_acknowledgement_that_room_made_due_goes_after_what_it_placed(self) -> None:
        rig = full()
        rig.tell("b.1", plain(10))
        rig.carry()
        rig.unstick("c.0")
        rig.hand_over("c.0")
        ready = rig.node.ready(0.0)
        assert numbers(written_to(ready, at("c.0"))) == [1]
        assert rig.broker.waits_for(at("c.0")) == 1, "the publication of b.1 has taken its place"
        assert rig.session("b.1").owes_credit is False


class TestReady:
    def test_without_inputs_there_is_nothing_to_do(self) -> None:
        rig = overlay()
        assert not rig.node.has_work
        assert rig.node.ready(0.0) == Ready()

    def test_work_is_handed_over_once(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0))
        assert rig.node.has_work
        assert rig.node.ready(0.0) != Ready()
        assert not rig.node.has_work
        assert rig.node.ready(0.0) == Ready()

    def test_a_ready_that_was_handed_over_is_not_touched_again(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0))
        first = rig.node.ready(0.0)
        before = [(peer, list(items)) for peer, items in first.writes]
        rig.tell("a.0", plain(1))
        rig.node.ready(0.0)
        assert [(peer, list(items)) for peer, items in first.writes] == before

    def test_inputs_only_record(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0))
        assert rig.broker.waits_for(at("c.0")) == 1
        rig.node.ready(0.0)
        assert rig.broker.waits_for(at("c.0")) == 0

    def test_several_inputs_give_what_each_would_have_given(self) -> None:
        together, alone = overlay(), overlay()
        heard: list[list[Message]] = []
        for rig, pauses in ((together, False), (alone, True)):
            for number in range(6):
                rig.tell(["a.0", "c.0"][number % 2], plain(number))
                if pauses:
                    rig.settle()
            rig.settle()
            heard.append(rig.told("S"))
            assert numbers(rig.told("a.0")) == [1, 3, 5]
            assert numbers(rig.told("c.0")) == [0, 2, 4]
        assert heard[0] == heard[1]

    def test_an_input_of_a_client_that_is_gone_is_no_work(self) -> None:
        rig = overlay()
        rig.join("Q")
        rig.settle()
        rig.node.receive(rig.ids["Q"], rig.ends["Q"].drain(0.0), 0.0)
        rig.node.detach(rig.ids["Q"], 0.0)
        assert rig.node.ready(0.0) == Ready()
        assert not rig.node.has_work

    def test_a_silent_link_is_work_too(self) -> None:
        rig = overlay()
        rig.node.wake(1000.0)
        assert rig.node.has_work
        assert rig.node.ready(1000.0).silent


class TestClosing:
    def test_a_violation_closes_the_link_and_keeps_what_came_before_it(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0), Confirmed("subscription", 0), plain(1))
        ready = rig.node.ready(0.0)
        assert codes(ready.closes) == [("a.0", CloseCode.VIOLATION)]
        assert "a Confirmed cannot come from broker a.0" in ready.closes[0].reason
        assert numbers(written_to(ready, at("c.0"))) == [0]
        assert numbers(written_to(ready, rig.ids["S"])) == [0]
        assert not ready.failures

    def test_a_violation_of_a_client_closes_its_connection(self) -> None:
        rig = overlay()
        rig.tell("P", say(0, x=1), subscribe("c.0", 9, "x > 0"))
        ready = rig.node.ready(0.0)
        assert codes(ready.closes) == [("P", CloseCode.VIOLATION)]
        assert numbers(written_to(ready, at("c.0"))) == [0]


class TestWhole:
    """A driver whose clients are never slow may take entries whole."""

    def test_entries_are_handed_over_in_order_and_wait_in_no_mailbox(self) -> None:
        node = make_node(settings=NodeSettings(whole=True))
        client = node.attach("S", Overflow.DISCONNECT, 0.0)
        node.receive(client, [want(0, "x > 0"), want(1, "x > 1"), UnsubscribeRequest(9)], 0.0)
        node.receive(at("a.0"), [plain(0, x=5)], 0.0)
        assert node.has_work
        ready = node.ready(0.0)
        told, delivered = ready.for_clients
        assert isinstance(told, Told)
        assert (told.client, type(told.reply)) == (client, Refused)
        assert isinstance(delivered, Delivered)
        assert delivered.plan == ((client, (0, 1)),)
        assert all(peer != client for peer, _ in ready.writes)
        assert node.left_behind == 0
        assert node.ready(0.0) == Ready()

    def test_otherwise_there_are_none(self) -> None:
        rig = overlay()
        rig.tell("a.0", plain(0))
        assert rig.node.ready(0.0).for_clients == []

    def test_no_client_is_ever_too_slow(self) -> None:
        node = make_node(settings=NodeSettings(whole=True, client_queue_limit=1))
        client = node.attach("S", Overflow.DISCONNECT, 0.0)
        node.receive(client, [want(0, "x > 0")], 0.0)
        node.receive(at("a.0"), [plain(number) for number in range(5)], 0.0)
        ready = node.ready(0.0)
        assert len(ready.for_clients) == 5
        assert ready.closes == ()


class TestSpreading:
    """A spreading driver takes deliveries whole while none of its clients is paced."""

    def test_deliveries_are_handed_over_and_answers_are_written_ahead_of_them(self) -> None:
        node = make_node(settings=NodeSettings(spreading=True))
        client = node.attach("S", Overflow.DISCONNECT, 0.0)
        node.receive(client, [want(0, "x > 0")], 0.0)
        node.receive(at("a.0"), [plain(0, x=5)], 0.0)
        node.receive(client, [UnsubscribeRequest(9)], 0.0)
        ready = node.ready(0.0)
        (delivered,) = ready.for_clients
        assert isinstance(delivered, Delivered)
        assert delivered.plan == ((client, (0,)),)
        assert kinds(written_to(ready, client)) == [Refused]
        assert node.ready(0.0) == Ready()

    def test_deliveries_wait_in_mailboxes_while_a_client_is_paced(self) -> None:
        node = make_node(settings=NodeSettings(spreading=True))
        client, slow = [node.attach(name, Overflow.DISCONNECT, 0.0) for name in ("S", "T")]
        node.receive(client, [want(0, "x > 0")], 0.0)
        node.receive(slow, [want(0, "x > 0")], 0.0)
        node.pace(slow, is_paced=True)
        node.receive(at("a.0"), [plain(0)], 0.0)
        ready = node.ready(0.0)
        assert ready.for_clients == []
        assert kinds(written_to(ready, client)) == [Deliver]
        assert node.left_behind == 1

    @pytest.mark.parametrize("ends", ["pace", "detach"])
    def test_deliveries_are_handed_over_again_when_no_client_is_paced_any_more(self, ends: str) -> None:
        node = make_node(settings=NodeSettings(spreading=True))
        client, slow = [node.attach(name, Overflow.DISCONNECT, 0.0) for name in ("S", "T")]
        node.receive(client, [want(0, "x > 0")], 0.0)
        node.pace(slow, is_paced=True)
        if ends == "pace":
            node.pace(slow, is_paced=False)
        else:
            node.detach(slow, 0.0)
        node.receive(at("a.0"), [plain(0)], 0.0)
        assert len(node.ready(0.0).for_clients) == 1


def kinds(items: Sequence[object]) -> list[type]:
    return [type(each) for each in items]


def test_a_neighbour_is_greeted_before_anything_else_is_written() -> None:
    node = make_node(settings=SESSIONS)
    node.connect(at("a.0"), 0.0)
    node.receive(node.attach("S", Overflow.DISCONNECT, 0.0), [], 0.0)
    ready = node.ready(0.0)
    assert [(str(peer), kinds(items)) for peer, items in ready.writes if isinstance(peer, type(at("a.0")))] == [
        ("a.0", [Hello])
    ]
