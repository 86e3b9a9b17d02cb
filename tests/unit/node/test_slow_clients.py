"""Clients that read too slowly: limits, losses, cut-off, and everybody else.

Each test runs twice: with a client whose session waits behind a full connection, and with a client without a session
whose deliveries leave one by one. The node is b.1; publications arrive from a.1, and links to neighbours have no
sessions.
"""

from __future__ import annotations

import dataclasses

import pytest
from node_support import (
    CLIENT_LINKS,
    LINKS,
    ONE_BYTE,
    Rig,
    codes,
    full,
    make_node,
    make_restarted,
    messages_in,
    numbers,
    plain,
)

from octopia.broker import Detail, Event, Fact
from octopia.ids import ClientId, LinkKind
from octopia.link import Session
from octopia.node import Node, NodeSettings, Ready
from octopia.protocol import Ack, CloseCode, Frame, Hello, Overflow
from octopia.protocol.messages import (
    ClientRequest,
    CutOff,
    Deliver,
    Lost,
    Message,
    Refused,
    Unadvertise,
    Unsubscribe,
    UnsubscribeRequest,
)
from support import at, offer, publish, say, subscribe, want

pytestmark = pytest.mark.parametrize("has_session", [False, True], ids=["without a session", "with a session"])

LIMIT = 3


class Edge:
    """The node b.1 with one client that reads nothing until it is told to, and one that reads everything at once."""

    def __init__(self, has_session: bool, overflow: Overflow = Overflow.DISCONNECT, detail: Detail = Detail.OFF):
        self.has_session = has_session
        settings = NodeSettings(
            client_links=CLIENT_LINKS if has_session else None, client_queue_limit=LIMIT, detail=detail
        )
        self.node: Node = make_node("b.1", settings, detail=detail)
        self.slow = self.join("slow", overflow, want(0, "x > 0"), want(1, "y > 0"), offer(0, "z > 0"))
        self.carry()
        if has_session:
            self.node.pause(self.slow)
        else:
            self.node.pace(self.slow, is_paced=True)
        self.last = Ready()

    def join(self, name: str, overflow: Overflow, *requests: ClientRequest) -> ClientId:
        """Let a client come and issue requests."""
        if not self.has_session:
            client = self.node.attach(name, overflow, 0.0)
            self.node.receive(client, requests, 0.0)
            return client
        end = Session(1, CLIENT_LINKS)
        end.connected(0.0)
        (hello,) = end.drain(0.0)
        assert isinstance(hello, Hello)
        admitted = self.node.admit(name, overflow, hello, 0.0)
        assert admitted is not None
        self.ask(admitted, *requests)
        return admitted

    def ask(self, client: ClientId, *requests: ClientRequest) -> None:
        """Let a client issue requests."""
        if not self.has_session:
            self.node.receive(client, requests, 0.0)
            return
        session = self.node.clients[client].session if client in self.node.clients else None
        after = 0 if session is None else session.accepted
        self.node.receive(client, [Frame(after + each, request) for each, request in enumerate(requests, 1)], 0.0)

    def arrive(self, *publications: int) -> list[tuple[str, CloseCode]]:
        """Let publications arrive together from a.1, and return the connections that are closed."""
        batch = [publish("a.1", number, x=number + 1) for number in publications]
        self.node.receive(at("a.1"), batch, 0.0)
        return codes(self.carry().closes)

    def carry(self) -> Ready:
        """Carry out one ``Ready``; clients acknowledge what they get."""
        self.last = self.node.ready(0.0)
        assert not self.last.failures
        for peer, items in self.last.writes:
            frames = [each.sequence for each in items if isinstance(each, Frame)]
            if frames and peer in self.node.clients:
                session = self.node.clients[peer].session
                assert session is not None
                session.receive([Ack(max(frames), session._own_grant())], 0.0)
        return self.last

    def written(self, peer: object) -> list[Message]:
        """Return what the last ``Ready`` writes to a peer."""
        return [each for one, items in self.last.writes if one == peer for each in messages_in(items)]

    def read(self) -> list[Message]:
        """Let the slow client read everything that waits for it."""
        self.node.resume(self.slow)
        self.node.pace(self.slow, is_paced=False)
        self.carry()
        written = self.written(self.slow)
        if self.has_session:
            self.node.pause(self.slow)
        else:
            self.node.pace(self.slow, is_paced=True)
        return written


class TestCutOff:
    def test_up_to_the_limit_nothing_happens(self, has_session: bool) -> None:
        edge = Edge(has_session)
        assert edge.arrive(0, 1, 2) == []
        assert edge.written(edge.slow) == []
        assert edge.node.left_behind == 3
        assert numbers(edge.read()) == [0, 1, 2]
        assert edge.node.left_behind == 0

    def test_beyond_it_the_client_is_cut_off_and_told_how_many_it_lost(self, has_session: bool) -> None:
        edge = Edge(has_session)
        assert edge.arrive(0, 1, 2) == []
        assert edge.arrive(3) == [("slow", CloseCode.TOO_SLOW)]
        assert edge.written(edge.slow) == [CutOff(4)]
        assert edge.node.lost_by_slow_clients == 4
        assert edge.slow not in edge.node.clients

    def test_what_follows_in_the_same_batch_is_lost_and_counted_too(self, has_session: bool) -> None:
        edge = Edge(has_session)
        assert edge.arrive(0, 1, 2, 3, 4, 5) == [("slow", CloseCode.TOO_SLOW)]
        assert edge.written(edge.slow) == [CutOff(6)]
        assert edge.node.lost_by_slow_clients == 6

    def test_it_is_cut_off_once(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.arrive(0, 1, 2, 3, 4)
        assert edge.arrive(5) == []
        assert edge.written(edge.slow) == []

    def test_reading_makes_room_again(self, has_session: bool) -> None:
        edge = Edge(has_session)
        for first in range(0, 12, 3):
            assert edge.arrive(first, first + 1, first + 2) == []
            assert numbers(edge.read()) == [first, first + 1, first + 2]
        assert edge.node.lost_by_slow_clients == 0

    def test_what_it_issued_is_withdrawn_in_the_same_ready(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.arrive(0, 1, 2, 3)
        assert edge.node.broker.table_sizes() == {"clt": 0, "prt": 0, "srt": 0}
        assert [type(each) for each in edge.written(at("c.1"))] == [Unsubscribe, Unsubscribe]
        assert [type(each) for each in edge.written(at("b.0"))] == [Unadvertise]
        edge.node.broker.check()

    def test_the_last_words_come_after_every_other_write(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.arrive(0, 1, 2, 3)
        peer, items = edge.last.writes[-1]
        assert (peer, messages_in(items)) == (edge.slow, [CutOff(4)])

    def test_others_do_not_notice(self, has_session: bool) -> None:
        edge = Edge(has_session)
        fast = edge.join("fast", Overflow.DISCONNECT, want(0, "x > 0"))
        edge.carry()
        for number in range(6):
            edge.arrive(number)
            assert numbers(edge.written(fast)) == [number]

    def test_its_later_requests_are_not_heard(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.arrive(0, 1, 2, 3)
        edge.ask(edge.slow, want(9, "x > 0"))
        assert edge.carry() == Ready()
        assert edge.node.broker.table_sizes()["prt"] == 0

    def test_a_refusal_that_waited_gives_way_to_the_last_word(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.ask(edge.slow, UnsubscribeRequest(77))
        edge.arrive(0, 1, 2, 3)
        assert edge.written(edge.slow)[-1] == CutOff(4)

    def test_answers_do_not_count(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.ask(edge.slow, *(UnsubscribeRequest(100 + number) for number in range(LIMIT)))
        assert edge.arrive(0, 1, 2) == []
        assert edge.slow in edge.node.clients

    def test_its_name_is_free_for_another_client_that_gets_nothing_of_it(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.arrive(0, 1, 2, 3)
        again = edge.join("slow", Overflow.DISCONNECT, want(0, "x > 0"))
        edge.carry()
        assert again != edge.slow
        edge.arrive(4)
        assert numbers(edge.written(again)) == [4]

    def test_two_at_once_are_both_told(self, has_session: bool) -> None:
        edge = Edge(has_session)
        other = edge.join("other", Overflow.DISCONNECT, want(0, "x > 0"))
        edge.carry()
        if has_session:
            edge.node.pause(other)
        else:
            edge.node.pace(other, is_paced=True)
        assert edge.arrive(0, 1, 2, 3) == [("other", CloseCode.TOO_SLOW), ("slow", CloseCode.TOO_SLOW)]
        assert [edge.written(other), edge.written(edge.slow)] == [[CutOff(4)], [CutOff(4)]]
        edge.node.broker.check()

    def test_its_own_publications_cut_it_off_too(self, has_session: bool) -> None:
        edge = Edge(has_session)
        both = edge.join("both", Overflow.DISCONNECT, offer(0, "x > 0"), want(0, "x > 9"))
        edge.carry()
        if has_session:
            edge.node.pause(both)
        else:
            edge.node.pace(both, is_paced=True)
        edge.ask(both, *(say(each, x=99) for each in range(4)))
        assert ("both", CloseCode.TOO_SLOW) in codes(edge.carry().closes)
        assert edge.written(both) == [CutOff(4)]
        edge.node.broker.check()

    def test_every_lost_delivery_is_a_fact(self, has_session: bool) -> None:
        edge = Edge(has_session, detail=Detail.DELIVERIES)
        edge.arrive(0, 1, 2, 3)
        dropped = [each for each in edge.node.drain_facts() if isinstance(each, Fact) and each.event is Event.DROP]
        assert [each.message_id.number for each in dropped if each.message_id is not None] == [0, 1, 2, 3]
        assert {(each.peer, each.link, each.value, each.reason, each.hop) for each in dropped} == {
            (edge.slow, LinkKind.CLIENT, 1, "the client is too slow", 1)
        }
        assert edge.node.drain_facts() == []

    def test_without_a_trace_there_are_no_facts(self, has_session: bool) -> None:
        edge = Edge(has_session)
        edge.arrive(0, 1, 2, 3)
        assert edge.node.drain_facts() == []


class TestDropOldest:
    def test_it_is_told_first_how_many_it_missed_and_gets_the_newest(self, has_session: bool) -> None:
        edge = Edge(has_session, Overflow.DROP_OLDEST)
        assert edge.arrive(0, 1, 2, 3, 4) == []
        lost, *deliveries = [*edge.written(edge.slow), *edge.read()]
        assert lost == Lost(2)
        assert numbers(deliveries) == [2, 3, 4]
        assert edge.node.lost_by_slow_clients == 2

    def test_it_is_told_once_and_the_count_starts_again(self, has_session: bool) -> None:
        edge = Edge(has_session, Overflow.DROP_OLDEST)
        edge.arrive(0, 1, 2, 3)
        heard = [*edge.written(edge.slow), *edge.read()]
        assert heard[0] == Lost(1)
        edge.arrive(4)
        assert [type(each) for each in [*edge.written(edge.slow), *edge.read()]] == [Deliver]

    def test_its_subscriptions_stay_and_others_do_not_notice(self, has_session: bool) -> None:
        edge = Edge(has_session, Overflow.DROP_OLDEST)
        fast = edge.join("fast", Overflow.DISCONNECT, want(0, "x > 0"))
        edge.carry()
        for number in range(6):
            edge.arrive(number)
            assert numbers(edge.written(fast)) == [number]
        assert edge.node.broker.table_sizes() == {"clt": 1, "prt": 3, "srt": 0}
        edge.node.broker.check()

    def test_a_notice_of_losses_goes_before_answers_and_these_before_deliveries(self, has_session: bool) -> None:
        edge = Edge(has_session, Overflow.DROP_OLDEST)
        edge.node.receive(at("a.1"), [publish("a.1", number, x=1) for number in range(4)], 0.0)
        edge.ask(edge.slow, UnsubscribeRequest(77))
        edge.carry()
        heard = [*edge.written(edge.slow), *edge.read()]
        assert [type(each) for each in heard] == [Lost, Refused, Deliver, Deliver, Deliver]

    def test_every_lost_delivery_is_a_fact(self, has_session: bool) -> None:
        edge = Edge(has_session, Overflow.DROP_OLDEST, Detail.DELIVERIES)
        edge.arrive(0, 1, 2, 3, 4)
        dropped = [each for each in edge.node.drain_facts() if isinstance(each, Fact) and each.event is Event.DROP]
        assert [each.message_id.number for each in dropped if each.message_id is not None] == [0, 1]


class TestOtherInputsThatCutOff:
    """A client may be cut off by room that is made, by a link that breaks, and by the end of a grace period."""

    def blocked(self, has_session: bool) -> Rig:
        """Return a rig in which a delivery for S waits behind a publication without room."""
        client_links = CLIENT_LINKS if has_session else None
        settings = NodeSettings(dataclasses.replace(ONE_BYTE, window_bytes=1000), client_links, client_queue_limit=2)
        rig = full(node=make_node(settings=settings, queue_capacity=1))
        if has_session:
            rig.join("S", want(1, "x > 0"))
            rig.node.pause(rig.ids["S"])
        else:
            rig.ids["S"] = rig.node.attach("S", Overflow.DISCONNECT, 0.0)
            rig.node.receive(rig.ids["S"], [want(1, "x > 0")], 0.0)
            rig.node.pace(rig.ids["S"], is_paced=True)
            self.carry(rig)
        rig.tell("b.1", plain(10))
        rig.tell("b.2", plain(11), plain(12), plain(13))
        return rig

    def carry(self, rig: Rig) -> Ready:
        """Carry out one ``Ready``, and let only c.0 hear of it."""
        ready = rig.node.ready(1.0)
        assert not ready.failures
        for items in [items for peer, items in ready.writes if peer == at("c.0")]:
            rig.reach("c.0", items)  # type: ignore[arg-type]
        return ready

    @pytest.mark.parametrize("how", ["credit", "link down"])
    def test_it_is_told_so(self, has_session: bool, how: str) -> None:
        rig = self.blocked(has_session)
        ready = self.carry(rig)
        assert ready.closes == ()
        assert len(rig.node.clients[rig.ids["S"]].mailbox.deliveries) == 2, "12 and 13 wait in the input"
        if how == "credit":
            rig.unstick("c.0")
            while not ready.closes:
                assert rig.hand_over("c.0")
                ready = self.carry(rig)
        else:
            rig.node.disconnect(at("c.0"), 1.0)
            ready = self.carry(rig)
        assert codes(ready.closes) == [("S", CloseCode.TOO_SLOW)]
        peer, items = ready.writes[-1]
        assert peer == rig.ids["S"]
        (last,) = messages_in(items)
        assert isinstance(last, CutOff)
        assert rig.broker.table_sizes()["prt"] == 1
        rig.broker.check()

    def test_it_is_told_so_at_the_end_of_a_grace_period(self, has_session: bool) -> None:
        client_links = CLIENT_LINKS if has_session else None
        node = make_restarted(settings=NodeSettings(LINKS, client_links, client_queue_limit=2))
        rig = Rig(node)
        if has_session:
            rig.join("S", want(1, "x > 0"))
            node.pause(rig.ids["S"])
        else:
            rig.ids["S"] = node.attach("S", Overflow.DISCONNECT, 0.0)
            node.receive(rig.ids["S"], [want(1, "x > 0")], 0.0)
            node.pace(rig.ids["S"], is_paced=True)
        rig.meet("b.1")
        items = [Frame(rig.session("b.1").accepted + each, plain(each)) for each in (1, 2, 3)]
        node.receive(at("b.1"), items, 0.0)
        assert node.ready(0.0).closes == ()
        node.wake_broker(5000.0)
        ready = node.ready(5000.0)
        assert codes(ready.closes) == [("S", CloseCode.TOO_SLOW)]
        assert messages_in(ready.writes[-1][1]) == [CutOff(3)]


def test_a_subscription_from_elsewhere_is_not_withdrawn_with_a_client(has_session: bool) -> None:
    edge = Edge(has_session)
    edge.node.receive(at("a.1"), [subscribe("a.1", 0, "x > 0")], 0.0)
    edge.arrive(0, 1, 2, 3)
    assert edge.node.broker.table_sizes()["prt"] == 1
