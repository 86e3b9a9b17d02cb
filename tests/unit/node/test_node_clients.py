"""Clients with sessions: admission, return, grace, credit, and those that never read their answers."""

from __future__ import annotations

import dataclasses

import pytest
from node_support import CLIENT_LINKS, LINKS, Rig, codes, full, make_node, make_restarted, numbers, plain, written_to

from octopia.ids import ClientId
from octopia.link import Session
from octopia.node import NodeSettings, Ready
from octopia.node.links import KEEPS_MAX
from octopia.protocol import CONTROL_ONLY, Ack, Cause, CloseCode, Frame, Grant, Hello, Overflow
from octopia.protocol.messages import CutOff, Refused, SubscribeRequest, UnsubscribeRequest
from support import at, offer, say, subscribe, want

GRACE_MS = 10_000.0


def met(**settings: object) -> Rig:
    """Return a rig with all neighbours, where c.0 wants x."""
    rig = Rig(**settings)
    rig.meet("a.0", "c.0", "b.1", "b.2")
    rig.tell("c.0", subscribe("c.0", 0, "x > 0"))
    rig.settle()
    rig.told("c.0")
    return rig


class TestAdmission:
    def test_a_client_is_greeted_and_heard(self) -> None:
        rig = met()
        client = rig.join("C", UnsubscribeRequest(9))
        assert client.name == "C"
        assert rig.node.client_named("C") == client
        assert [type(each) for each in rig.told("C")] == [Refused]

    def test_no_two_clients_are_the_same(self) -> None:
        rig = met()
        ids = [rig.join(name) for name in ("C", "D")]
        rig.node.detach(ids[0], 0.0)
        ids.append(rig.join("C"))
        assert len(set(ids)) == 3
        sessions = {session._incarnation for name in ("C", "D") for session in [rig.session(name)]}
        assert len(sessions) == 2

    def test_sessions_of_two_incarnations_of_a_node_are_never_the_same(self) -> None:
        first, second = make_node(), make_node()
        second.incarnation = 2
        hellos = []
        for node in (first, second):
            for name in ("C", "D"):
                node.admit(name, Overflow.DISCONNECT, Hello(1, 0, 0, Grant(1, 1, ())), 0.0)
            hellos += [items[0] for _, items in node.ready(0.0).writes]
        assert len({each.incarnation for each in hellos if isinstance(each, Hello)}) == 4

    def test_a_name_in_use_is_refused_and_its_owner_does_not_notice(self) -> None:
        rig = met()
        client = rig.join("C", want(0, "x > 0"))
        stranger = Hello(99, 0, 0, Grant(1, 1000, ()))
        assert rig.node.admit("C", Overflow.DISCONNECT, stranger, 0.0) is None
        assert rig.node.client_named("C") == client
        rig.tell("a.0", plain(0))
        rig.settle()
        assert numbers(rig.told("C")) == [0]

    def test_who_greets_again_over_a_new_connection_replaces_the_old_one(self) -> None:
        """The client has noticed that its connection broke, and the node has not."""
        rig = met()
        client = rig.join("C", want(0, "x > 0"))
        rig.tell("a.0", plain(0))
        rig.node.ready(0.0)  # It is lost on the old connection.
        assert rig.greet("C") == client
        rig.settle()
        assert numbers(rig.told("C")) == [0]


class TestReturn:
    def test_a_client_whose_session_is_remembered_goes_on_where_it_was(self) -> None:
        rig = met()
        client = rig.join("C", want(0, "x > 0"), offer(0, "x > 0"))
        rig.tell("a.0", plain(0))
        rig.node.ready(0.0)  # It does not arrive.
        rig.cut("C")
        rig.tell("a.0", plain(1))
        rig.settle()
        assert rig.node.left_behind == 1
        assert rig.greet("C") == client
        rig.tell("C", say(0, x=5))
        rig.settle()
        assert numbers(rig.told("C")) == [0, 1, 0]
        assert rig.ends["C"].dropped_unacknowledged == 0

    def test_what_a_client_sent_is_heard_once(self) -> None:
        rig = met()
        rig.join("P", offer(0, "x > 0"))
        rig.tell("P", say(0, x=1))
        rig.node.ready(0.0)  # The acknowledgement is lost; so is what c.0 was to hear.
        rig.cut("P")
        rig.connect("c.0")
        rig.greet("P")
        rig.settle()
        assert numbers(rig.told("c.0")) == [0]

    def test_the_same_name_with_another_incarnation_is_another_client(self) -> None:
        rig = met()
        first = rig.join("C", want(0, "x > 0"))
        rig.cut("C")
        rig.tell("a.0", plain(0))
        rig.settle()
        second = rig.join("C", incarnation=2)
        assert second != first
        assert first not in rig.node.clients
        assert rig.node.client_named("C") == second
        assert rig.broker.table_sizes()["prt"] == 1, "what the first one wanted is withdrawn"
        assert rig.told("C") == [], "and what waited for it is dropped"

    def test_an_older_incarnation_is_another_client_too(self) -> None:
        rig = met()
        first = rig.join("C", incarnation=5)
        rig.cut("C")
        second = rig.join("C", incarnation=4)
        assert second != first
        assert rig.session("C").is_up

    def test_a_client_that_has_left_is_removed_at_once(self) -> None:
        rig = met()
        client = rig.join("C", want(0, "x > 0"))
        rig.node.disconnect(client, 0.0, has_left=True)
        rig.settle()
        assert rig.node.client_named("C") is None
        assert rig.broker.table_sizes()["prt"] == 1
        again = rig.join("C")
        assert again != client

    def test_detaching_twice_is_harmless(self) -> None:
        rig = met()
        first = rig.join("C")
        rig.node.detach(first, 0.0)
        second = rig.join("C")
        rig.node.detach(first, 0.0)
        assert rig.node.client_named("C") == second

    def test_late_inputs_of_a_client_that_is_gone_are_ignored(self) -> None:
        rig = met()
        client = rig.join("C")
        rig.node.detach(client, 0.0)
        rig.settle()
        rig.node.receive(client, [Frame(1, want(0, "x > 0"))], 0.0)
        rig.node.disconnect(client, 0.0)
        rig.node.pause(client)
        rig.node.resume(client)
        rig.node.pace(client, is_paced=True)
        assert rig.node.begin(client, 0.0) is None
        assert rig.node.ready(0.0) == Ready()


class TestGrace:
    def test_a_client_that_does_not_return_is_removed(self) -> None:
        rig = met()
        client = rig.join("C", want(0, "x > 0"))
        rig.now_ms = 50.0
        rig.cut("C")
        for name in ("a.0", "c.0", "b.1", "b.2"):
            rig.cut(name)
        assert rig.node.next_deadline_ms == 50.0 + GRACE_MS
        rig.node.wake(49.0 + GRACE_MS)
        assert client in rig.node.clients
        rig.node.wake(50.0 + GRACE_MS)
        assert client not in rig.node.clients
        assert rig.node.client_named("C") is None
        assert rig.broker.table_sizes()["prt"] == 1
        rig.broker.check()

    def test_one_that_returned_is_not(self) -> None:
        rig = met()
        client = rig.join("C")
        rig.cut("C")
        rig.now_ms = GRACE_MS - 1
        rig.greet("C")
        rig.settle()
        rig.node.wake(GRACE_MS + 1)
        assert client in rig.node.clients

    def test_a_silent_client_is_reported_and_then_has_its_grace(self) -> None:
        rig = met()
        client = rig.join("C")
        rig.node.wake(400.0)
        ready = rig.node.ready(400.0)
        assert client in ready.silent
        rig.node.disconnect(client, 400.0)
        assert rig.node.clients[client].expires_ms == 400.0 + GRACE_MS

    @pytest.mark.parametrize(
        ("wanted_ms", "kept_ms"),
        [(0.0, GRACE_MS), (1.0, GRACE_MS), (60_000.0, 60_000.0), (1e12, 90_000.0), (float("nan"), GRACE_MS)],
    )
    def test_it_is_remembered_for_as_long_as_it_asked_within_a_limit(self, wanted_ms: float, kept_ms: float) -> None:
        rig = met(node=make_node(settings=NodeSettings(LINKS, CLIENT_LINKS, client_keep_max_ms=90_000.0)))
        interest = want(0, "x > 0").interest
        client = rig.join("C", SubscribeRequest(0, interest, keep_ms=wanted_ms), SubscribeRequest(1, interest))
        rig.cut("C")
        assert rig.node.clients[client].expires_ms == kept_ms
        rig.node.wake(kept_ms - 1.0)
        assert client in rig.node.clients
        rig.node.wake(kept_ms + 1.0)
        assert client not in rig.node.clients

    def test_it_may_ask_for_another_time_and_no_longer_for_one(self) -> None:
        rig = met()
        first, second = want(0, "x > 0").interest, want(1, "x > 1").interest
        client = rig.join("C", SubscribeRequest(0, first, keep_ms=60_000.0), SubscribeRequest(1, second, keep_ms=20e3))
        rig.tell("C", SubscribeRequest(0, first, keep_ms=30_000.0))
        assert rig.node.clients[client].keep_ms == 30_000.0
        assert not [each for each in rig.told("C") if isinstance(each, Refused)]
        rig.tell("C", UnsubscribeRequest(0))
        assert rig.node.clients[client].keep_ms == 20_000.0
        rig.tell("C", SubscribeRequest(1, second))
        assert rig.node.clients[client].keep_ms == 0.0

    def test_requests_to_be_remembered_take_a_limited_amount_of_memory(self) -> None:
        rig = met()
        client = rig.join("C")
        link = rig.node.clients[client]
        for handle in range(KEEPS_MAX + 5):
            link.keep(handle, 1000.0 + handle)
        assert len(link.keeps_ms) == KEEPS_MAX
        link.keep(0, 60_000.0)
        assert link.keep_ms == 60_000.0

    def test_it_is_cut_off_while_it_is_away_if_too_much_waits(self) -> None:
        rig = met(node=make_node(settings=NodeSettings(LINKS, CLIENT_LINKS, client_queue_limit=2)))
        client = rig.join("C", want(0, "x > 0"))
        rig.cut("C")
        rig.tell("a.0", plain(0), plain(1), plain(2))
        ready = rig.carry()
        assert codes(ready.closes) == [("C", CloseCode.TOO_SLOW)]
        assert all(peer != client for peer, _ in ready.writes), "there is no connection for last words"
        assert rig.node.lost_by_slow_clients == 3
        again = rig.join("C", want(0, "x > 0"))
        assert again != client
        assert rig.told("C") == []

    def test_only_the_oldest_is_lost_if_it_chose_that(self) -> None:
        rig = met(node=make_node(settings=NodeSettings(LINKS, CLIENT_LINKS, client_queue_limit=2)))
        rig.join("C", want(0, "x > 0"), overflow=Overflow.DROP_OLDEST)
        rig.cut("C")
        rig.tell("a.0", plain(0), plain(1), plain(2))
        rig.settle()
        rig.greet("C", Overflow.DROP_OLDEST)
        rig.settle()
        assert numbers(rig.told("C")) == [1, 2]


class TestUnread:
    """A client may leave only so many replies unacknowledged."""

    def limited(self, overflow: Overflow = Overflow.DISCONNECT) -> Rig:
        rig = met(node=make_node(settings=NodeSettings(LINKS, CLIENT_LINKS, client_queue_limit=3)))
        rig.join("C", want(0, "x > 0"), overflow=overflow)
        return rig

    def test_more_waits_in_its_mailbox(self) -> None:
        rig = self.limited()
        for number in range(3):
            rig.tell("a.0", plain(number))
            assert numbers(written_to(rig.node.ready(0.0), rig.ids["C"])) == [number]
        rig.tell("a.0", plain(3), plain(4))
        assert written_to(rig.node.ready(0.0), rig.ids["C"]) == []
        session = rig.session("C")
        rig.node.receive(rig.ids["C"], [Ack(session.last_sequence, Grant(1, 1000, ()))], 0.0)
        assert numbers(written_to(rig.node.ready(0.0), rig.ids["C"])) == [3, 4]

    def test_and_there_the_limit_holds(self) -> None:
        rig = self.limited()
        for number in range(6):
            rig.tell("a.0", plain(number))
            assert rig.node.ready(0.0).closes == ()
        rig.tell("a.0", plain(6))
        ready = rig.node.ready(0.0)
        assert codes(ready.closes) == [("C", CloseCode.TOO_SLOW)]
        assert written_to(ready, rig.ids["C"]) == [CutOff(4)]

    def test_who_asks_and_never_reads_the_answers_is_removed(self) -> None:
        rig = self.limited()
        rig.node.pause(rig.ids["C"])
        session = rig.session("C")
        for number in range(3):
            rig.node.receive(rig.ids["C"], [Frame(session.accepted + 1, UnsubscribeRequest(9))], 0.0)
            assert rig.node.ready(0.0).closes == (), number
        rig.node.receive(rig.ids["C"], [Frame(session.accepted + 1, UnsubscribeRequest(9))], 0.0)
        ready = rig.node.ready(0.0)
        assert codes(ready.closes) == [("C", CloseCode.TOO_SLOW)]
        assert ready.closes[0].reason == "it sends requests without reading the answers"
        assert rig.node.client_named("C") is None
        rig.broker.check()

    def test_who_reads_before_the_next_request_is_not(self) -> None:
        rig = self.limited()
        for _ in range(10):
            rig.node.pause(rig.ids["C"])
            rig.tell("C", UnsubscribeRequest(9))
            rig.carry()
            rig.node.resume(rig.ids["C"])
            rig.tell("C", UnsubscribeRequest(9))
            rig.settle()
        assert rig.ids["C"] in rig.node.clients
        assert len(rig.told("C")) == 20

    def test_requests_whose_answers_were_read_do_not_add_up(self) -> None:
        rig = self.limited()
        for _ in range(10):
            rig.node.pause(rig.ids["C"])
            rig.tell("C", UnsubscribeRequest(9))
            rig.carry()
            rig.node.resume(rig.ids["C"])
            rig.settle()
            assert [type(each) for each in rig.told("C")] == [Refused]
            assert rig.ids["C"] in rig.node.clients


class TestCreditOfClients:
    def test_a_publisher_waits_while_a_queue_that_it_needs_is_full(self) -> None:
        rig = full()
        rig.join("P", offer(0, "x > 0"))
        rig.tell("P", say(0, x=1))
        rig.settle()
        assert rig.session("P").owes_credit
        assert not rig.ends["P"].awaits_acknowledgement, "it is accepted"
        rig.unstick("c.0")
        rig.settle()
        assert not rig.session("P").owes_credit
        assert len(numbers(rig.told("c.0"))) == 3

    @pytest.mark.parametrize("returns", ["new incarnation", "same incarnation", "after its grace", "not at all"])
    def test_a_publisher_that_dies_while_its_publications_wait(self, returns: str) -> None:
        """The credit of an old session never goes to a new one, and others get what is theirs.

        The head of the old input has been routed and waits for room when the client comes back under its name.
        """
        rig = full()
        rig.join("Q", offer(0, "x > 0"))
        first = rig.join("P", offer(0, "x > 0"))
        rig.tell("P", *(say(each, x=1) for each in range(3)))
        rig.settle()
        rig.tell("Q", say(100, x=1))
        rig.tell("b.1", plain(10))
        rig.settle()
        assert [rig.session(name).owes_credit for name in ("P", "Q", "b.1")] == [True] * 3
        rig.cut("P")
        rig.settle()
        if returns == "after its grace":
            rig.node.clients[first].expires_ms = rig.now_ms
            rig.node._alarms.set(rig.node.clients[first])
            rig.node.wake(rig.now_ms)
            assert first not in rig.node.clients
        if returns == "same incarnation":
            assert rig.greet("P") == first
        elif returns != "not at all":
            second = rig.join("P", offer(0, "x > 0"), incarnation=2)
            assert second != first
            assert not rig.session("P").owes_credit
        rig.unstick("c.0")
        rig.settle()  # It raises whatever failed.
        assert not rig.closes
        assert not any(rig.session(name).owes_credit for name in ("Q", "b.1", "a.0"))
        if returns in ("new incarnation", "after its grace"):
            assert rig.session("P")._receiver.placed_bytes == {}, "the credit of the old session is not for the new one"
            rig.tell("P", say(7, x=1))
            rig.settle()
            assert rig.session("P")._receiver.placed_bytes == {0: say(7, x=1).size_bytes}
        assert not rig.broker.state.inputs
        assert rig.broker.waits_for(at("c.0")) == 0
        # 0 and 1 of a.0, 10 of b.1 and Q's; all of P's, and 7 of its second session.
        own = 4 if returns in ("new incarnation", "after its grace") else 3
        assert len(numbers(rig.told("c.0"))) == 4 + own
        rig.broker.check()
        assert rig.node.is_at_rest

    def test_two_lives_of_a_publisher_wait_at_the_same_time(self) -> None:
        rig = full()
        rig.join("P", offer(0, "x > 0"))
        rig.tell("P", say(0, x=1), say(1, x=1))
        rig.settle()
        for incarnation in (2, 3):
            rig.cut("P")
            rig.join("P", offer(0, "x > 0"), incarnation=incarnation)
            rig.tell("P", say(0, x=1), say(1, x=1))
            rig.settle()
        rig.broker.check()
        rig.unstick("c.0")
        rig.settle()
        assert not rig.session("P").owes_credit
        assert rig.session("P")._receiver.placed_bytes == {0: 2 * say(0, x=1).size_bytes}
        assert len(numbers(rig.told("c.0"))) == 2 + 3 * 2
        rig.broker.check()

    def test_a_subscriber_that_is_cut_off_while_its_publications_wait(self) -> None:
        rig = full(node=make_node(settings=NodeSettings(LINKS, CLIENT_LINKS, client_queue_limit=2), queue_capacity=1))
        rig.join("P", offer(0, "x > 0"), want(1, "x > 0"))
        rig.node.pause(rig.ids["P"])
        rig.tell("P", say(0, x=1), say(1, x=1))
        rig.tell("b.1", plain(10))
        rig.tell("b.2", plain(11))
        assert codes(rig.carry().closes) == [("P", CloseCode.TOO_SLOW)]
        rig.broker.check()
        rig.unstick("c.0")
        rig.settle()
        assert not rig.broker.state.inputs
        assert not any(rig.session(name).owes_credit for name in ("b.1", "b.2"))
        assert len(numbers(rig.told("c.0"))) == 6


class TestWithoutSessions:
    def test_a_client_comes_asks_and_goes(self) -> None:
        node = make_node(settings=NodeSettings())
        client = node.attach("C", Overflow.DISCONNECT, 0.0)
        assert node.client_named("C") == client
        node.receive(client, [want(0, "x > 0")], 0.0)
        node.receive(at("a.0"), [plain(0)], 0.0)
        assert numbers(written_to(node.ready(0.0), client)) == [0]
        node.receive(at("a.0"), [plain(1)], 0.0)
        node.detach(client, 0.0)
        assert written_to(node.ready(0.0), client) == []
        assert node.client_named("C") is None
        assert node.broker.table_sizes()["prt"] == 0

    def test_answers_come_before_deliveries_that_were_caused_earlier(self) -> None:
        node = make_node(settings=NodeSettings())
        client = node.attach("C", Overflow.DISCONNECT, 0.0)
        node.receive(client, [offer(0, "x > 0"), want(0, "x > 0"), say(0, x=1), UnsubscribeRequest(9)], 0.0)
        first, second = written_to(node.ready(0.0), client)
        assert isinstance(first, Refused)
        assert numbers([second]) == [0]

    def test_a_name_that_comes_again_is_another_client(self) -> None:
        node = make_node(settings=NodeSettings())
        first = node.attach("C", Overflow.DISCONNECT, 0.0)
        node.detach(first, 0.0)
        second = node.attach("C", Overflow.DISCONNECT, 0.0)
        assert first != second
        assert isinstance(second, ClientId)


def test_a_client_of_a_node_that_is_not_ready_is_granted_nothing() -> None:
    rig = Rig(make_restarted())
    rig.join("P")
    assert rig.ends["P"].classes == CONTROL_ONLY


def test_a_window_of_one_byte_lets_one_publication_through_at_a_time() -> None:
    links = dataclasses.replace(CLIENT_LINKS, window_bytes=1)
    rig = met(node=make_node(settings=NodeSettings(LINKS, links), queue_capacity=1))
    rig.ends["P"] = Session(1, links)
    rig.heard["P"] = []
    rig.greet("P")
    rig.settle()
    rig.tell("P", offer(0, "x > 0"))
    rig.settle()
    for number in range(5):
        assert rig.ends["P"].classes & 1
        rig.tell("P", say(number, x=1))
        assert not rig.ends["P"].classes & 1
        rig.settle()
    assert numbers(rig.told("c.0")) == [0, 1, 2, 3, 4]


class TestAlarms:
    """Deadlines of many clients: ``wake`` looks only at those that are due."""

    def test_the_next_deadline_is_that_of_the_first_client(self) -> None:
        rig = Rig()
        for number in range(3):
            rig.now_ms = 10.0 * number
            rig.join(f"C{number}")
        deadlines = [link.next_deadline_ms for link in rig.node.clients.values()]
        assert rig.node.next_deadline_ms == min(each for each in deadlines if each is not None)

    def test_a_client_that_comes_back_has_one_alarm(self) -> None:
        rig = Rig()
        client = rig.join("C")
        for _ in range(20):
            rig.cut("C")
            rig.greet("C")
            rig.settle()
            rig.now_ms += 200.0
            rig.node.wake(rig.now_ms)
            rig.settle()
        assert len(rig.node._alarms) == 1
        assert rig.node.clients[client].alarm_ms == rig.node._alarms._heap[0][0]

    def test_a_client_that_left_rings_no_alarm(self) -> None:
        rig = Rig()
        client = rig.join("C")
        rig.node.detach(client, 0.0)
        assert rig.node.next_deadline_ms is None
        rig.node.wake(1000.0)
        assert not rig.node.has_work


def test_what_a_client_that_is_gone_never_read_is_counted() -> None:
    rig = Rig()
    rig.meet("a.0")
    client = rig.join("S", want(0, "x > 0"))
    rig.tell("a.0", plain(0, x=1), plain(1, x=1))
    rig.node.ready(rig.now_ms)  # It is written, and the client never acknowledges it.
    rig.cut("S")
    rig.tell("a.0", plain(2, x=1))
    rig.now_ms += 60_000.0
    rig.node.wake(rig.now_ms)
    assert client not in rig.node.clients
    assert rig.broker.counters.lost[Cause.CLIENT_GONE] == 3
