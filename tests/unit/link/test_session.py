"""One end of a link: writing, acceptance, acknowledgement, credit, and silence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from octopia.content import Publication
from octopia.errors import InvariantBroken
from octopia.ids import PublicationId
from octopia.link import LinkSettings, Outcome, Session, Status
from octopia.protocol import ALL_CLASSES, CONTROL_ONLY, Ack, ClusterIndexVector, Frame, Grant, Hello, Item
from octopia.protocol.messages import Confirm, Message, Publish, PublishRequest
from support import at, say

SMALL = LinkSettings(window_bytes=100, heartbeat_ms=10.0, suspicion_ms=40.0, retransmit_ms=15.0)
TRUSTING = LinkSettings(window_bytes=100, heartbeat_ms=10.0, suspicion_ms=40.0)
PATIENT = LinkSettings(window_bytes=1000, heartbeat_ms=100.0, suspicion_ms=400.0, ack_ms=5.0, ack_frames=4)
WIDE = LinkSettings(window_bytes=1000, heartbeat_ms=10.0, suspicion_ms=40.0)
SIZE = 50


def data(number: int, traffic_class: int = 0, size: int = SIZE) -> Publish:
    """Return a publication of a class and size; one with an empty payload takes 50 bytes."""
    civ = ClusterIndexVector.of(range(traffic_class), 8) if traffic_class else None
    message = Publish(PublicationId(at("a.0"), 1, number), Publication({"x": 1}, b"." * (size - SIZE)), civ, 1, 0.0)
    assert (message.traffic_class, message.size_bytes) == (traffic_class, size)
    return message


def control() -> Message:
    return Confirm(())


class Pair:
    """Two sessions whose items are carried by hand; nothing is lost unless a test loses it."""

    def __init__(self, settings: LinkSettings = SMALL):
        self.settings = settings
        self.now_ms = 0.0
        self.a = Session(1, settings)
        self.b = Session(1, settings)
        self.connect()

    def connect(self) -> tuple[Outcome, Outcome]:
        """Open a new connection, and let both ends greet each other."""
        for end in (self.a, self.b):
            end.disconnected()
            end.connected(self.now_ms)
        to_b, to_a = self.a.drain(self.now_ms), self.b.drain(self.now_ms)
        return self.b.receive(to_b, self.now_ms), self.a.receive(to_a, self.now_ms)

    def carry(self, source: Session, target: Session) -> list[Message]:
        """Carry the items of one end to the other, and return the messages that it accepted."""
        return target.receive(source.drain(self.now_ms), self.now_ms).messages

    def settle(self) -> tuple[list[Message], list[Message]]:
        """Carry back and forth until both are silent; return the messages that a and b accepted."""
        at_a: list[Message] = []
        at_b: list[Message] = []
        while True:
            to_b, to_a = self.a.drain(self.now_ms), self.b.drain(self.now_ms)
            if not to_b and not to_a:
                return at_a, at_b
            at_b += self.b.receive(to_b, self.now_ms).messages
            at_a += self.a.receive(to_a, self.now_ms).messages

    def send(self, *messages: Message) -> None:
        for message in messages:
            self.a.send(message, self.now_ms)


def frames(items: Sequence[Item]) -> list[int]:
    return [item.sequence for item in items if isinstance(item, Frame)]


def only_ack(items: Sequence[Item]) -> Ack:
    (ack,) = items
    assert isinstance(ack, Ack)
    return ack


def may_send(session: Session, traffic_class: int) -> bool:
    return bool(session.classes >> traffic_class & 1)


class TestGreeting:
    def test_both_ends_greet_and_then_are_up(self):
        session = Session(7, SMALL)
        assert session.status is Status.DOWN
        session.connected(0.0)
        assert session.status is Status.GREETING
        assert not session.is_up
        assert session.drain(0.0) == [Hello(7, 0, 0, Grant(1, 100, ()))]
        outcome = session.receive([Hello(3, 0, 0, Grant(1, 100, ()))], 0.0)
        assert outcome.came_up
        assert session.is_up

    def test_later_greetings_tell_whom_they_knew_and_what_was_accepted(self):
        pair = Pair()
        pair.send(data(0), control())
        pair.settle()
        pair.b.connected(0.0)
        assert pair.b.drain(0.0) == [Hello(1, 1, 2, Grant(1, 100, ()))]

    def test_nothing_counts_before_it(self):
        session = Session(1, SMALL)
        session.connected(0.0)
        session.drain(0.0)
        outcome = session.receive([Frame(1, control()), Ack(0, Grant(5, 999, ()))], 1.0)
        assert (outcome.messages, outcome.came_up) == ([], False)
        assert session.drain(1.0) == []
        assert session.classes == CONTROL_ONLY
        outcome = session.receive([Hello(1, 0, 0, Grant(1, 100, ())), Frame(1, control())], 1.0)
        assert outcome.messages == [control()]

    def test_without_a_connection_nothing_is_heard(self):
        session = Session(1, SMALL)
        assert session.receive([Hello(1, 0, 0, Grant(1, 100, ()))], 0.0) == Outcome()
        assert session.status is Status.DOWN

    def test_an_end_that_is_greeted_anew_greets_again_and_repeats_itself(self):
        """The other end lost its connection and has a new one, while this end considered the old one sound."""
        pair = Pair()
        pair.send(control())
        pair.a.drain(0.0)
        pair.b.disconnected()
        pair.b.connected(0.0)
        assert pair.a.receive(pair.b.drain(0.0), 0.0).came_up
        hello, frame = pair.a.drain(0.0)
        assert isinstance(hello, Hello)
        assert frames([frame]) == [1]
        assert pair.b.receive([hello, frame], 0.0) == Outcome([control()], came_up=True)

    def test_disconnecting_tells_whether_the_link_was_up(self):
        session = Session(1, SMALL)
        assert not session.disconnected()
        session.connected(0.0)
        assert not session.disconnected()
        pair = Pair()
        assert pair.a.disconnected()
        assert not pair.a.disconnected()

    def test_what_was_to_be_written_on_a_broken_connection_is_not_written_on_the_next(self):
        pair = Pair()
        pair.send(control())
        pair.a.disconnected()
        assert pair.a.drain(0.0) == []
        pair.a.connected(0.0)
        assert frames(pair.a.drain(0.0)) == []


class TestSequence:
    def test_control_and_data_share_one_sequence_in_the_order_of_writing(self):
        pair = Pair()
        pair.send(control(), data(0), control(), data(1, 2))
        items = pair.a.drain(0.0)
        assert items == [
            Frame(1, control()),
            Frame(2, data(0)),
            Frame(3, control()),
            Frame(4, data(1, 2)),
        ]
        assert pair.b.receive(items, 0.0).messages == [control(), data(0), control(), data(1, 2)]

    def test_requests_of_clients_are_data_of_class_0(self):
        pair = Pair()
        request: PublishRequest = say(0, x=1)
        pair.send(request)
        assert pair.a.drain(0.0) == [Frame(1, request)]

    def test_one_acknowledgement_stands_for_all_frames_before(self):
        pair = Pair()
        pair.send(control(), control(), control())
        assert pair.a.awaits_acknowledgement
        pair.carry(pair.a, pair.b)
        ack = only_ack(pair.b.drain(0.0))
        assert ack.accepted == 3
        pair.a.receive([ack], 0.0)
        assert not pair.a.awaits_acknowledgement

    def test_an_acknowledgement_of_some_leaves_the_rest(self):
        pair = Pair()
        pair.send(control(), control(), control())
        first, *_ = pair.a.drain(0.0)
        pair.b.receive([first], 0.0)
        pair.carry(pair.b, pair.a)
        assert pair.a.awaits_acknowledgement
        pair.connect()
        assert frames(pair.a.drain(0.0)) == [2, 3]

    def test_an_old_acknowledgement_takes_nothing_back(self):
        pair = Pair()
        pair.send(control())
        pair.carry(pair.a, pair.b)
        early = only_ack(pair.b.drain(0.0))
        pair.send(control())
        pair.carry(pair.a, pair.b)
        pair.a.receive([only_ack(pair.b.drain(0.0)), early], 0.0)
        assert not pair.a.awaits_acknowledgement

    def test_a_duplicate_is_ignored_and_acknowledged_again(self):
        pair = Pair()
        pair.send(data(0))
        items = pair.a.drain(0.0)
        assert pair.b.receive([*items, *items], 0.0).messages == [data(0)]
        assert pair.b.receive(items, 0.0).messages == []
        assert only_ack(pair.b.drain(0.0)).accepted == 1

    def test_a_gap_is_ignored_until_it_is_filled(self):
        pair = Pair()
        pair.send(control(), data(0), data(1))
        first, second, third = pair.a.drain(0.0)
        assert pair.b.receive([third, first], 0.0).messages == [control()]
        assert only_ack(pair.b.drain(0.0)).accepted == 1
        assert pair.b.receive([third], 0.0).messages == []
        assert pair.b.receive([second, third], 0.0).messages == [data(0), data(1)]

    def test_what_is_ignored_costs_no_credit(self):
        pair = Pair()
        pair.send(data(0), data(1))
        first, second = pair.a.drain(0.0)
        pair.b.receive([second, first, first], 0.0)
        pair.b.placed(0, 1)
        with pytest.raises(InvariantBroken, match="class 0"):
            pair.b.placed(0, 1)


class TestCredit:
    def test_data_may_be_written_while_less_was_sent_than_granted(self):
        pair = Pair()
        assert pair.a.classes == ALL_CLASSES
        pair.send(data(0))
        assert may_send(pair.a, 0)
        pair.send(data(1))
        assert not may_send(pair.a, 0)

    def test_one_large_frame_may_take_it_below_zero(self):
        pair = Pair()
        pair.send(data(0, size=99))
        assert may_send(pair.a, 0)
        pair.send(data(1, size=500))
        assert not may_send(pair.a, 0)
        pair.settle()
        pair.b.placed(0, 1)
        pair.settle()
        assert not may_send(pair.a, 0), "599 were sent and 99 placed"
        pair.b.placed(0, 1)
        pair.settle()
        assert may_send(pair.a, 0)

    def test_an_exhausted_class_does_not_block_another(self):
        pair = Pair()
        pair.send(data(0, 2, size=100))
        assert [may_send(pair.a, each) for each in range(4)] == [True, True, False, True]
        pair.send(data(1, 0, size=100))
        assert [may_send(pair.a, each) for each in range(4)] == [False, True, False, True]
        pair.settle()
        pair.b.placed(2, 1)
        pair.settle()
        assert [may_send(pair.a, each) for each in range(4)] == [False, True, True, True]

    def test_control_is_exempt(self):
        pair = Pair()
        pair.send(data(0, size=100), *[control()] * 50)
        assert frames(pair.a.drain(0.0)) == list(range(1, 52))
        pair = Pair()
        pair.send(*[control()] * 50)
        assert pair.a.classes == ALL_CLASSES
        assert pair.settle() == ([], [control()] * 50)

    def test_acceptance_alone_returns_none(self):
        pair = Pair()
        pair.send(data(0, size=100))
        pair.settle()
        assert not pair.a.awaits_acknowledgement
        assert not may_send(pair.a, 0)

    def test_a_grant_is_absolute_so_that_a_lost_one_does_not_matter(self):
        pair = Pair()
        pair.send(data(0), data(1))
        pair.settle()
        pair.b.placed(0, 1)
        pair.b.drain(0.0)
        pair.b.placed(0, 1)
        ack = only_ack(pair.b.drain(0.0))
        assert ack.grant.placed_bytes == ((0, 100),)
        pair.a.receive([ack], 0.0)
        pair.send(data(2))
        assert may_send(pair.a, 0), "both returned: 50 of 100 are used"

    def test_several_frames_are_returned_together_with_their_own_sizes(self):
        pair = Pair()
        pair.send(data(0, size=60), data(1, 3, size=70), data(2, size=55))
        pair.settle()
        pair.b.placed(0, 2)
        pair.b.placed(3, 1)
        assert only_ack(pair.b.drain(0.0)).grant.placed_bytes == ((0, 115), (3, 70))

    def test_an_old_grant_is_known_by_its_number(self):
        pair = Pair()
        pair.send(data(0), data(1))
        pair.carry(pair.a, pair.b)
        before = only_ack(pair.b.drain(0.0))
        pair.b.placed(0, 2)
        after = only_ack(pair.b.drain(0.0))
        assert after.grant.number > before.grant.number
        pair.a.receive([after, before], 0.0)
        assert may_send(pair.a, 0)

    @pytest.mark.parametrize("window_bytes", [2**63 - 1, 2**63, 2**64 - 1])
    def test_a_grant_may_be_any_number_that_the_wire_carries(self, window_bytes: int):
        pair = Pair()
        pair.a.receive([Ack(0, Grant(2, window_bytes, ((0, 2**64 - 1),)))], 0.0)
        pair.send(data(0, size=1000))
        assert may_send(pair.a, 0)
        assert pair.a.peer_accepts_data

    def test_it_survives_a_cut_since_the_greeting_restates_it(self):
        pair = Pair()
        pair.send(data(0), data(1))
        pair.settle()
        assert not may_send(pair.a, 0)
        pair.b.placed(0, 2)
        pair.b.drain(0.0)
        pair.connect()
        assert may_send(pair.a, 0), "the grant was lost, and the greeting restated it"

    def test_what_is_returned_while_there_is_no_connection_is_told_by_the_greeting(self):
        pair = Pair()
        pair.send(data(0), data(1))
        pair.settle()
        pair.a.disconnected()
        pair.b.disconnected()
        pair.b.placed(0, 1)
        assert pair.b.drain(0.0) == []
        pair.connect()
        assert may_send(pair.a, 0)
        pair.send(data(2))
        assert not may_send(pair.a, 0), "a cut makes no credit: one of two was placed"

    def test_what_is_returned_during_the_greeting_is_told_after_it(self):
        pair = Pair()
        pair.send(data(0), data(1))
        pair.settle()
        for end in (pair.a, pair.b):
            end.disconnected()
            end.connected(0.0)
        hello = pair.b.drain(0.0)
        pair.b.placed(0, 2)
        pair.a.receive(hello, 0.0)
        assert not may_send(pair.a, 0)
        pair.settle()
        assert may_send(pair.a, 0)

    def test_resending_costs_nothing(self):
        pair = Pair()
        pair.send(data(0))
        for _ in range(5):
            pair.a.drain(0.0)
            pair.connect()
        assert frames(pair.a.drain(0.0)) == [1]
        assert may_send(pair.a, 0)

    def test_without_a_connection_there_is_none(self):
        pair = Pair()
        pair.a.disconnected()
        assert pair.a.classes == CONTROL_ONLY
        pair.a.connected(0.0)
        assert pair.a.classes == CONTROL_ONLY


class TestClosedWindow:
    def test_a_broker_that_is_not_ready_grants_nothing_from_the_greeting_on(self):
        pair = Pair()
        pair.b.accept_data(accepts=False)
        pair.connect()
        assert pair.a.classes == CONTROL_ONLY
        pair.send(control())
        assert pair.settle() == ([], [control()])

    def test_closing_and_opening_are_told(self):
        pair = Pair()
        pair.b.accept_data(accepts=False)
        pair.settle()
        assert pair.a.classes == CONTROL_ONLY
        pair.b.accept_data(accepts=True)
        pair.settle()
        assert pair.a.classes == ALL_CLASSES

    def test_saying_the_same_again_is_not(self):
        pair = Pair()
        pair.b.accept_data(accepts=True)
        assert pair.b.drain(0.0) == []

    def test_opening_forgets_nothing_that_was_sent(self):
        pair = Pair()
        pair.send(data(0, size=100))
        pair.settle()
        pair.b.accept_data(accepts=False)
        pair.settle()
        pair.b.accept_data(accepts=True)
        pair.settle()
        assert [may_send(pair.a, each) for each in range(2)] == [False, True]

    def test_what_was_on_its_way_when_it_closed_is_accepted(self):
        """The broker keeps it for later; refusing it would break the sequence."""
        pair = Pair()
        pair.send(data(0))
        pair.b.accept_data(accepts=False)
        assert pair.settle() == ([], [data(0)])


class TestReconnecting:
    def test_exactly_what_was_not_accepted_is_written_again(self):
        pair = Pair()
        pair.send(data(0), control(), data(1), control())
        items = pair.a.drain(0.0)
        pair.b.receive(items[:2], 0.0)
        pair.b.drain(0.0)  # The acknowledgement is lost with the connection.
        to_b, to_a = pair.connect()
        assert (to_b.came_up, to_a.came_up) == (True, True)
        assert pair.a.drain(0.0) == items[2:]
        assert pair.b.receive(items[2:], 0.0).messages == [data(1), control()]
        assert pair.a.dropped_unacknowledged == 0

    def test_what_comes_next_comes_after_what_is_written_again(self):
        pair = Pair()
        pair.send(data(0))
        pair.a.drain(0.0)
        pair.connect()
        pair.send(control())
        assert frames(pair.a.drain(0.0)) == [1, 2]

    def test_both_directions_go_on_independently(self):
        pair = Pair()
        pair.send(control())
        pair.b.send(data(0), 0.0)
        pair.a.drain(0.0)
        pair.carry(pair.b, pair.a)
        pair.connect()
        assert frames(pair.a.drain(0.0)) == [1]
        assert frames(pair.b.drain(0.0)) == []

    def test_a_greeting_that_was_lost_loses_no_data(self):
        a, b = Session(1, SMALL), Session(1, SMALL)
        for end in (a, b):
            end.connected(0.0)
        b.drain(0.0)  # Its greeting is lost with the connection; the other's arrives.
        b.receive(a.drain(0.0), 0.0)
        b.send(data(0), 0.0)
        b.drain(0.0)
        for end in (a, b):
            end.disconnected()
            end.connected(0.0)
        to_a, to_b = b.drain(0.0), a.drain(0.0)
        a.receive(to_a, 0.0)
        b.receive(to_b, 0.0)
        assert b.dropped_unacknowledged == 0
        assert a.receive(b.drain(0.0), 0.0).messages == [data(0)]


class TestNewIncarnation:
    def restarted(self, pair: Pair) -> Session:
        """Let b crash and restart without state."""
        pair.b = Session(2, pair.settings)
        pair.connect()
        return pair.b

    def test_what_was_written_is_dropped_and_data_is_counted(self):
        pair = Pair()
        pair.send(data(0), control(), data(1, 3))
        pair.a.drain(0.0)
        self.restarted(pair)
        assert pair.a.dropped_unacknowledged == 2
        assert not pair.a.awaits_acknowledgement
        assert pair.settle() == ([], [])

    def test_what_was_acknowledged_is_not_counted(self):
        pair = Pair()
        pair.send(data(0))
        pair.settle()
        self.restarted(pair)
        assert pair.a.dropped_unacknowledged == 0

    def test_drops_add_up(self):
        pair = Pair()
        for incarnation in (2, 3):
            pair.send(data(0))
            pair.a.drain(0.0)
            pair.b = Session(incarnation, SMALL)
            pair.connect()
        assert pair.a.dropped_unacknowledged == 2

    def test_both_sequences_start_anew(self):
        pair = Pair()
        pair.send(control(), control())
        pair.b.send(control(), 0.0)
        pair.settle()
        b = self.restarted(pair)
        pair.send(data(0))
        b.send(control(), 0.0)
        assert frames(items := pair.a.drain(0.0)) == [1]
        assert b.receive(items, 0.0).messages == [data(0)]
        assert pair.carry(b, pair.a) == [control()]

    def test_credit_starts_anew_however_little_was_left_and_however_old_its_grants_are(self):
        pair = Pair()
        for number in range(6):
            pair.send(data(number, size=100))
            pair.settle()
            pair.b.placed(0, 1)
            pair.settle()
        pair.send(data(9, size=500))
        assert not may_send(pair.a, 0)
        self.restarted(pair)
        assert pair.a.classes == ALL_CLASSES
        pair.send(data(10, size=100))
        assert not may_send(pair.a, 0)

    def test_the_end_that_died_gets_full_credit_from_the_one_that_lived(self):
        pair = Pair()
        pair.b.send(data(0, size=100), 0.0)
        pair.settle()
        assert not may_send(pair.b, 0)
        b = self.restarted(pair)
        assert may_send(b, 0)

    def test_frames_that_are_still_being_placed_do_not_count_for_the_new_incarnation(self):
        """The broker reports frames of the old incarnation as placed; the new one gets no credit for them."""
        pair = Pair()
        pair.b.send(data(0, size=60), 0.0)
        pair.b.send(data(1, size=70), 0.0)
        pair.b.send(data(2, 4, size=80), 0.0)
        pair.settle()
        pair.a.placed(0, 1)
        b = self.restarted(pair)
        b.send(data(3, size=100), 0.0)
        pair.settle()
        assert not may_send(b, 0)
        pair.a.placed(0, 1)
        pair.a.placed(4, 1)
        pair.settle()
        assert not may_send(b, 0), "what was placed came from the old incarnation"
        pair.a.placed(0, 1)
        assert only_ack(pair.a.drain(0.0)).grant.placed_bytes == ((0, 100),)

    def test_one_report_may_speak_of_frames_from_both(self):
        pair = Pair()
        pair.b.send(data(0, size=60), 0.0)
        pair.settle()
        b = self.restarted(pair)
        b.send(data(1, size=70), 0.0)
        pair.settle()
        pair.a.placed(0, 2)
        assert only_ack(pair.a.drain(0.0)).grant.placed_bytes == ((0, 70),)

    def test_two_restarts_outlive_the_frames_of_both(self):
        pair = Pair()
        for incarnation in (2, 3):
            pair.b.send(data(0, size=60), 0.0)
            pair.settle()
            pair.b = Session(incarnation, SMALL)
            pair.connect()
        pair.b.send(data(1, size=70), 0.0)
        pair.settle()
        pair.a.placed(0, 2)
        pair.a.drain(0.0)
        pair.a.placed(0, 1)
        assert only_ack(pair.a.drain(0.0)).grant.placed_bytes == ((0, 70),)

    def test_when_both_died_they_meet_as_strangers(self):
        pair = Pair()
        pair.send(data(0))
        pair.a, pair.b = Session(2, SMALL), Session(2, SMALL)
        pair.connect()
        pair.send(data(1))
        assert pair.settle() == ([], [data(1)])


class TestHalfRemembered:
    """One end's memory of the other was replaced, and the other lives on under its incarnation."""

    def test_an_end_that_is_not_remembered_begins_a_new_sequence_and_counts_what_that_drops(self):
        pair = Pair(TRUSTING)
        pair.send(data(0), control())
        pair.settle()
        pair.send(data(1), control(), data(2))
        pair.a.drain(0.0)  # All three are lost.
        impersonate(pair.b, 9)
        met = pair.connect()
        assert (met[0].came_up, met[1].came_up) == (True, True)
        assert pair.a.dropped_unacknowledged == 2
        assert not pair.a.awaits_acknowledgement
        pair.send(data(3))
        assert pair.a.last_sequence == 1
        assert pair.settle() == ([], [data(3)])

    def test_it_knows_from_the_greeting_of_the_other_alone(self):
        pair = Pair(TRUSTING)
        pair.send(data(0))
        pair.a.drain(0.0)
        pair.a.disconnected()
        pair.a.connected(0.0)
        pair.a.receive([Hello(1, 9, 4, Grant(1, 100, ()))], 0.0)
        assert (pair.a.dropped_unacknowledged, pair.a.last_sequence) == (1, 0)
        assert frames(pair.a.drain(0.0)) == []

    def test_both_directions_carry_again(self):
        pair = Pair(TRUSTING)
        pair.send(data(0))
        pair.b.send(data(1), 0.0)
        pair.settle()
        impersonate(pair.b, 9)
        pair.connect()
        pair.settle()
        pair.send(data(2))
        pair.b.send(data(3), 0.0)
        assert pair.settle() == ([data(3)], [data(2)])

    def test_its_credit_starts_again(self):
        pair = Pair(TRUSTING)
        pair.send(data(0), data(1))
        pair.settle()
        assert not may_send(pair.a, 0)
        impersonate(pair.b, 9)
        pair.connect()
        pair.settle()
        assert may_send(pair.a, 0)
        pair.send(data(2), data(3))
        assert not may_send(pair.a, 0)
        pair.b.placed(0, 2)
        pair.settle()
        assert not may_send(pair.a, 0), "the first two were of the old sequence"
        pair.b.placed(0, 2)
        pair.settle()
        assert may_send(pair.a, 0)

    def test_an_end_that_was_never_heard_of_resends_everything_and_drops_nothing(self):
        a, b = Session(1, TRUSTING), Session(1, TRUSTING)
        for end in (a, b):
            end.connected(0.0)
        a.receive(b.drain(0.0), 0.0)  # The greeting of a is lost.
        a.send(control(), 0.0)
        a.send(data(0), 0.0)
        a.drain(0.0)
        for end in (a, b):
            end.disconnected()
            end.connected(0.0)
        to_a, to_b = b.drain(0.0), a.drain(0.0)
        assert [each.knows_incarnation for each in to_a if isinstance(each, Hello)] == [0]
        a.receive(to_a, 0.0)
        b.receive(to_b, 0.0)
        assert a.dropped_unacknowledged == 0
        assert b.receive(a.drain(0.0), 0.0).messages == [control(), data(0)]

    def test_credit_that_was_granted_to_an_earlier_incarnation_is_not_used(self):
        """A greeting restates the bytes placed so far; those of an earlier incarnation say nothing to the next."""
        pair = Pair(TRUSTING)
        for number in range(6):
            pair.send(data(number))
            pair.settle()
            pair.b.placed(0, 1)
            pair.settle()
        pair.a = Session(2, TRUSTING)
        pair.connect()
        pair.send(data(10))
        assert may_send(pair.a, 0)
        pair.send(data(11))
        assert not may_send(pair.a, 0), "the window is 100 bytes, and both frames take 50"

    def test_nor_is_that_of_an_impostor(self):
        pair = Pair(TRUSTING)
        impersonate(pair.b, 9, data(0), data(1))
        pair.b.placed(0, 2)
        pair.connect()
        pair.send(data(10), data(11))
        assert not may_send(pair.a, 0)


def impersonate(session: Session, incarnation: int, *messages: Message) -> None:
    """Let another end use the name of the other one for a moment, and send messages."""
    other = Session(incarnation, LinkSettings(window_bytes=10_000))
    session.disconnected()
    session.connected(0.0)
    other.connected(0.0)
    other.receive(session.drain(0.0), 0.0)
    for message in messages:
        other.send(message, 0.0)
    session.receive(other.drain(0.0), 0.0)
    session.disconnected()


class TestFencing:
    FENCING = LinkSettings(window_bytes=100, heartbeat_ms=10.0, suspicion_ms=40.0, fences=True)

    def fencing(self) -> Session:
        """Return a session that has talked to incarnation 5, accepted two frames and sent one."""
        session, other = Session(1, self.FENCING), Session(5, self.FENCING)
        session.connected(0.0)
        other.connected(0.0)
        other.receive(session.drain(0.0), 0.0)
        session.receive(other.drain(0.0), 0.0)
        for message in (control(), data(0)):
            other.send(message, 0.0)
        session.receive(other.drain(0.0), 0.0)
        session.send(data(1), 0.0)
        session.drain(0.0)
        session.disconnected()
        return session

    def test_an_older_incarnation_is_refused_and_changes_nothing(self):
        session = self.fencing()
        session.connected(1.0)
        before = session.drain(1.0)
        outcome = session.receive(
            [Hello(4, 0, 0, Grant(1, 100, ())), Frame(1, control()), Ack(1, Grant(1, 1, ()))], 1.0
        )
        assert (outcome.is_fenced, outcome.came_up, outcome.messages) == (True, False, [])
        assert session.status is Status.GREETING
        assert (session.peer_incarnation, session.accepted, session.dropped_unacknowledged) == (5, 2, 0)
        assert session.awaits_acknowledgement
        session.disconnected()
        session.connected(1.0)
        assert session.drain(1.0) == before, "the next greeting says what it would have said"

    def test_the_same_incarnation_goes_on(self):
        session = self.fencing()
        session.connected(1.0)
        session.drain(1.0)
        outcome = session.receive([Hello(5, 1, 0, Grant(1, 100, ()))], 1.0)
        assert (outcome.is_fenced, outcome.came_up) == (False, True)
        assert frames(session.drain(1.0)) == [1]

    def test_a_newer_one_replaces_the_last(self):
        session = self.fencing()
        session.connected(1.0)
        outcome = session.receive([Hello(6, 0, 0, Grant(1, 100, ()))], 1.0)
        assert (outcome.is_fenced, outcome.came_up) == (False, True)
        assert (session.peer_incarnation, session.accepted, session.dropped_unacknowledged) == (6, 0, 1)

    def test_a_link_that_is_up_is_not_disturbed(self):
        session = self.fencing()
        session.connected(1.0)
        session.drain(1.0)
        session.receive([Hello(5, 1, 1, Grant(1, 100, ()))], 1.0)
        outcome = session.receive([Hello(4, 0, 0, Grant(9, 1, ()))], 1.0)
        assert outcome.is_fenced
        assert session.is_up
        assert may_send(session, 0)
        assert session.receive([Frame(3, control())], 1.0).messages == [control()]

    def test_without_it_any_incarnation_is_as_good(self):
        session = Session(1, SMALL)
        for incarnation in (5, 4):
            session.disconnected()
            session.connected(0.0)
            outcome = session.receive([Hello(incarnation, 0, 0, Grant(1, 100, ()))], 0.0)
            assert (outcome.is_fenced, outcome.came_up) == (False, True)
            assert session.peer_incarnation == incarnation


class TestPlacing:
    @pytest.mark.parametrize(("accepted", "placed"), [(0, 1), (1, 2), (2, 3)])
    def test_more_than_was_accepted_is_an_error_of_ours_and_changes_nothing(self, accepted: int, placed: int):
        pair = Pair()
        pair.send(*(data(number) for number in range(accepted)))
        pair.settle()
        with pytest.raises(InvariantBroken, match=f"{placed} frames of class 0 were placed, but .*{accepted}"):
            pair.b.placed(0, placed)
        if accepted:
            pair.b.placed(0, accepted)
        assert not pair.b.owes_credit

    def test_so_is_another_class(self):
        pair = Pair()
        pair.send(data(0))
        pair.settle()
        with pytest.raises(InvariantBroken, match="class 2"):
            pair.b.placed(2, 1)

    def test_frames_of_an_earlier_incarnation_count_first(self):
        pair = Pair()
        pair.send(data(0), data(1))
        pair.settle()
        pair.a = Session(2, SMALL)
        pair.connect()
        pair.send(data(2))
        pair.settle()
        with pytest.raises(InvariantBroken):
            pair.b.placed(0, 4)


class TestTime:
    def test_without_a_connection_nothing_is_due(self):
        session = Session(1, SMALL)
        assert session.next_deadline_ms is None
        assert session.wake(1e9)
        assert session.drain(1e9) == []

    def test_a_greeting_that_is_not_answered_in_time_is_given_up(self):
        session = Session(1, SMALL)
        session.connected(100.0)
        session.drain(100.0)
        assert session.next_deadline_ms == 140.0
        assert session.wake(139.9)
        assert session.drain(139.9) == [], "there are no heartbeats before the greeting"
        assert not session.wake(140.0)

    def test_who_has_nothing_to_say_repeats_the_last_acknowledgement(self):
        pair = Pair()
        assert pair.a.next_deadline_ms == 10.0
        assert pair.a.wake(9.9)
        assert pair.a.drain(9.9) == []
        assert pair.a.wake(10.0)
        assert only_ack(pair.a.drain(10.0)) == Ack(0, Grant(1, 100, ()))
        assert pair.a.next_deadline_ms == 20.0

    def test_whatever_is_written_serves_as_a_heartbeat(self):
        pair = Pair(TRUSTING)
        pair.a.send(control(), 7.0)
        pair.a.drain(7.0)
        assert pair.a.next_deadline_ms == 17.0

    def test_whatever_is_heard_keeps_the_connection(self):
        pair = Pair(TRUSTING)
        for now_ms in (30.0, 60.0, 90.0):
            assert pair.a.wake(now_ms)
            pair.a.drain(now_ms)
            pair.a.receive([Ack(0, Grant(1, 100, ()))], now_ms)
        assert pair.a.wake(129.9)
        assert not pair.a.wake(130.0)

    def test_the_deadline_is_the_nearest_of_all(self):
        pair = Pair(LinkSettings(100, heartbeat_ms=30.0, suspicion_ms=40.0, retransmit_ms=15.0))
        assert pair.a.next_deadline_ms == 30.0
        pair.a.send(control(), 2.0)
        pair.a.drain(2.0)
        assert pair.a.next_deadline_ms == 17.0
        assert pair.a.wake(32.0)
        pair.a.drain(32.0)
        assert pair.a.next_deadline_ms == 40.0

    def test_what_is_not_acknowledged_in_time_is_written_again(self):
        pair = Pair()
        pair.send(control(), data(0))
        items = pair.a.drain(0.0)
        assert pair.a.wake(14.9)
        assert frames(pair.a.drain(14.9)) == []
        assert pair.a.wake(15.0)
        assert [item for item in pair.a.drain(15.0) if isinstance(item, Frame)] == items
        assert pair.a.wake(29.9)
        assert frames(pair.a.drain(29.9)) == []
        assert pair.a.wake(30.0)
        assert frames(pair.a.drain(30.0)) == [1, 2]

    def test_progress_puts_it_off(self):
        pair = Pair()
        pair.send(control(), control())
        pair.a.drain(0.0)
        pair.a.receive([Ack(1, Grant(1, 100, ()))], 10.0)
        assert pair.a.wake(24.9)
        assert frames(pair.a.drain(24.9)) == []
        assert pair.a.wake(25.0)
        assert frames(pair.a.drain(25.0)) == [2]

    def test_an_acknowledgement_of_nothing_new_does_not(self):
        pair = Pair()
        pair.send(control())
        pair.a.drain(0.0)
        pair.a.receive([Ack(0, Grant(1, 100, ()))], 14.0)
        assert pair.a.wake(15.0)
        assert frames(pair.a.drain(15.0)) == [1]

    def test_the_time_counts_from_the_first_frame_that_waits(self):
        pair = Pair()
        pair.a.send(control(), 9.0)
        pair.a.drain(9.0)
        pair.a.send(control(), 20.0)
        pair.a.drain(20.0)
        assert pair.a.wake(24.0)
        assert frames(pair.a.drain(24.0)) == [1, 2]

    def test_where_the_connection_loses_nothing_nothing_is_written_again(self):
        pair = Pair(TRUSTING)
        pair.send(control())
        pair.a.drain(0.0)
        for now_ms in (15.0, 30.0):
            assert pair.a.wake(now_ms)
            assert frames(pair.a.drain(now_ms)) == []


class TestHeldAcknowledgements:
    def pair(self) -> Pair:
        """Return two sessions; one of them has just acknowledged two frames of the other."""
        pair = Pair(PATIENT)
        pair.send(data(0), control())
        pair.settle()
        pair.b.placed(0, 1)
        pair.settle()
        return pair

    def test_after_a_pause_it_does_not_wait(self):
        pair = Pair(PATIENT)
        pair.send(data(0))
        pair.b.receive(pair.a.drain(0.0), 0.0)
        assert only_ack(pair.b.drain(0.0)).accepted == 1
        pair.send(data(1))
        pair.b.receive(pair.a.drain(4.9), 4.9)
        assert pair.b.drain(4.9) == []
        assert pair.b.wake(5.0)
        assert only_ack(pair.b.drain(5.0)).accepted == 2
        pair.send(data(2))
        pair.b.receive(pair.a.drain(10.0), 10.0)
        assert only_ack(pair.b.drain(10.0)).accepted == 3

    def test_it_waits_for_more_publications_up_to_a_time_and_says_how_long(self):
        pair = self.pair()
        pair.send(data(1))
        assert len(pair.b.receive(pair.a.drain(0.0), 1.0).messages) == 1
        assert pair.b.drain(1.0) == []
        assert (pair.b.owes_ack, pair.b.acknowledges_by_ms, pair.b.next_deadline_ms) == (True, 5.0, 5.0)
        pair.send(data(2))
        pair.b.receive(pair.a.drain(2.0), 2.0)
        assert pair.b.acknowledges_by_ms == 5.0
        assert pair.b.wake(4.9)
        assert pair.b.drain(4.9) == []
        assert pair.b.wake(5.0)
        ack = only_ack(pair.b.drain(5.0))
        assert (ack.accepted, ack.held_ms) == (4, 3.0)
        assert (pair.b.owes_ack, pair.b.acknowledges_by_ms) == (False, None)
        outcome = pair.a.receive([ack], 5.0)
        assert (outcome.acknowledged, outcome.held_ms) == (2, 3.0)

    def test_it_does_not_wait_beyond_a_number_of_frames(self):
        pair = self.pair()
        pair.send(*map(data, range(4)))
        pair.carry(pair.a, pair.b)
        assert only_ack(pair.b.drain(0.0)).accepted == 6

    def test_it_does_not_wait_beyond_a_quarter_of_the_window(self):
        pair = self.pair()
        pair.send(data(0, size=125), data(1, size=125))
        pair.carry(pair.a, pair.b)
        pair.b.placed(0, 1)
        assert pair.b.drain(0.0) == []
        pair.b.placed(0, 1)
        assert only_ack(pair.b.drain(0.0)).grant.placed_bytes == ((0, 300),)

    def test_it_goes_along_with_the_next_write(self):
        pair = self.pair()
        pair.send(data(0))
        pair.carry(pair.a, pair.b)
        pair.b.send(data(9), 3.0)
        frame, ack = pair.b.drain(3.0)
        assert isinstance(frame, Frame)
        assert (only_ack([ack]).accepted, only_ack([ack]).held_ms) == (3, 3.0)

    def test_control_messages_are_acknowledged_at_once(self):
        pair = self.pair()
        pair.send(data(0), control())
        pair.carry(pair.a, pair.b)
        assert only_ack(pair.b.drain(0.0)).accepted == 4

    def test_so_is_a_frame_that_is_not_the_next_one(self):
        pair = self.pair()
        pair.send(data(0))
        first = pair.a.drain(0.0)
        pair.b.receive(first, 0.0)
        pair.b.acknowledge()
        pair.b.drain(0.0)
        pair.b.receive(first, 0.0)
        assert only_ack(pair.b.drain(0.0)).accepted == 3

    def test_so_is_everything_if_the_other_end_asks(self):
        pair = self.pair()
        pair.send(data(0))
        pair.a.ask()
        items = pair.a.drain(0.0)
        assert only_ack(items[1:]).asks
        pair.b.receive(items, 0.0)
        assert only_ack(pair.b.drain(0.0)).accepted == 3

    def test_nobody_asks_without_need(self):
        pair = self.pair()
        pair.a.ask()
        assert pair.a.drain(0.0) == []
        pair.b.receive([Ack(0, Grant(9, 1000, ()), asks=True)], 0.0)
        assert pair.b.drain(0.0) == []

    def test_a_new_connection_owes_nothing(self):
        pair = self.pair()
        pair.send(data(0))
        pair.carry(pair.a, pair.b)
        pair.connect()
        assert not pair.b.owes_ack
        assert not pair.a.awaits_acknowledgement


class TestHolding:
    """An end that acknowledges nothing before it is released."""

    def held(self) -> Pair:
        pair = Pair(WIDE)
        pair.b.hold()
        return pair

    def test_it_accepts_and_does_not_acknowledge(self):
        pair = self.held()
        pair.send(control(), control())
        assert len(pair.settle()[1]) == 2
        assert pair.a.unacknowledged == 2
        assert pair.b.released == 0

    def test_what_is_released_is_acknowledged_with_the_next_write(self):
        pair = self.held()
        pair.send(control(), control(), control())
        pair.settle()
        pair.b.release(2)
        pair.settle()
        assert pair.a.unacknowledged == 1
        assert pair.a.acknowledged == 2

    def test_nothing_is_released_that_has_not_come(self):
        pair = self.held()
        pair.send(control())
        pair.settle()
        pair.b.release(7)
        assert pair.b.released == 1
        pair.send(control())
        pair.settle()
        assert pair.a.unacknowledged == 1

    def test_frames_that_were_accepted_before_are_acknowledged(self):
        pair = Pair(TRUSTING)
        pair.send(control())
        pair.carry(pair.a, pair.b)
        pair.b.hold()
        pair.settle()
        assert pair.a.unacknowledged == 0

    def test_after_a_new_connection_they_come_again_and_are_ignored(self):
        pair = self.held()
        pair.send(control(), control())
        pair.settle()
        pair.b.release(1)
        pair.connect()
        assert frames(pair.a.drain(0.0)) == [2]
        assert pair.settle()[1] == []
        pair.send(control())
        assert len(pair.settle()[1]) == 1
        assert pair.a.unacknowledged == 2

    @pytest.mark.parametrize("released", [0, 2, 3])
    def test_another_end_resumes_after_what_was_released(self, released: int):
        pair = self.held()
        pair.b.send(control(), 0.0)
        pair.send(*(data(number) for number in range(3)))
        pair.settle()
        peer = pair.b.peer_incarnation
        pair.b = Session(pair.b.incarnation, WIDE)
        pair.b.resume(peer, released)
        pair.connect()
        _, messages = pair.settle()
        assert [each.number for each in messages] == list(range(released, 3))
        # Its own frames continue where the other end expects them.
        pair.b.send(control(), 0.0)
        assert len(pair.settle()[0]) == 1

    def test_an_end_that_is_not_remembered_begins_anew(self):
        pair = self.held()
        pair.send(control())
        pair.settle()
        peer = pair.b.peer_incarnation
        pair.a = Session(2, TRUSTING)
        pair.b = Session(pair.b.incarnation, TRUSTING)
        pair.b.resume(peer, 1)
        pair.connect()
        pair.send(control())
        assert len(pair.settle()[1]) == 1
        assert (pair.b.released, pair.a.unacknowledged) == (0, 1)
