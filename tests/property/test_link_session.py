"""Whatever a network does to items, two sessions carry every message exactly once and in order, within their credit.

The machine below is the network: it delivers items in any order, drops and doubles them, cuts the connection and makes
another. It spares greetings, as a connection either opens or does not. It keeps an account of its own of what was sent,
accepted and placed, against which both sessions are held.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections import deque

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from octopia.content import Publication
from octopia.ids import BrokerId, PublicationId, SubscriptionId
from octopia.link import LinkSettings, Session, Status
from octopia.protocol import ALL_CLASSES, CONTROL, ClusterIndexVector, Hello, Item
from octopia.protocol.messages import Confirm, Message, Publish

WINDOW = 200
LARGEST = 400
CLASSES = 3
SETTINGS = LinkSettings(WINDOW, heartbeat_ms=20.0, suspicion_ms=100.0, retransmit_ms=30.0)
HOME = BrokerId("a", 0)

ends = st.sampled_from([0, 1])
classes = st.integers(0, CLASSES - 1)


@dataclasses.dataclass(slots=True)
class End:
    """A session, what it has to say and heard, and the frames that its broker has not placed."""

    session: Session
    incarnation: int = 1
    sent: list[Message] = dataclasses.field(default_factory=list)
    accepted: list[Message] = dataclasses.field(default_factory=list)
    credit_used: list[int] = dataclasses.field(default_factory=lambda: [0] * CLASSES)
    unplaced: list[deque[int]] = dataclasses.field(default_factory=lambda: [deque() for _ in range(CLASSES)])
    """By class, the sizes of accepted frames; 0 for those from an incarnation that is no more."""
    accepts_data: bool = True


class Network(RuleBasedStateMachine):
    """Two sessions, and the items on their way to each of them."""

    links = SETTINGS

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.number = 0
        self.ends = [End(Session(1, self.links)) for _ in range(2)]
        self.coming: list[list[Item]] = [[], []]

    @initialize()
    def introduce(self) -> None:
        """Let both ends meet."""
        self.connect_both()
        self.carry_everything()

    # What brokers do.

    @rule(end=ends, traffic_class=st.integers(CONTROL, CLASSES - 1), size=st.integers(60, LARGEST))
    def send(self, end: int, traffic_class: int, size: int) -> None:
        """Send a message, if its class may be sent."""
        me, session = self.ends[end], self.ends[end].session
        if not session.is_up or (traffic_class != CONTROL and not session.classes >> traffic_class & 1):
            return
        message = self.make(traffic_class, size)
        session.send(message, self.now_ms)
        me.sent.append(message)
        if traffic_class != CONTROL:
            assert me.credit_used[traffic_class] < WINDOW, "it was allowed to send without credit"
            me.credit_used[traffic_class] += message.size_bytes if isinstance(message, Publish) else 0

    def make(self, traffic_class: int, size: int) -> Message:
        """Make a message unlike any other."""
        self.number += 1
        if traffic_class == CONTROL:
            return Confirm((SubscriptionId(HOME, 1, self.number),))
        civ = ClusterIndexVector.of(range(traffic_class), 8) if traffic_class else None
        content = Publication({"x": 1}, b"." * (size - 50))
        return Publish(PublicationId(HOME, 1, self.number), content, civ, 1, 0.0)

    @rule(end=ends, traffic_class=classes, frames=st.integers(1, 3))
    def place(self, end: int, traffic_class: int, frames: int) -> None:
        """Place the oldest frames of a class."""
        me, other = self.ends[end], self.ends[1 - end]
        frames = min(frames, len(me.unplaced[traffic_class]))
        if not frames:
            return
        me.session.placed(traffic_class, frames)
        for _ in range(frames):
            other.credit_used[traffic_class] -= me.unplaced[traffic_class].popleft()

    @rule(end=ends, accepts=st.booleans())
    def accept_data(self, end: int, accepts: bool) -> None:
        """Open or close the window."""
        self.ends[end].accepts_data = accepts
        self.ends[end].session.accept_data(accepts)

    # What the network does.

    @rule(end=ends)
    def write(self, end: int) -> None:
        """Put what an end has to write on its way."""
        self.coming[1 - end] += self.ends[end].session.drain(self.now_ms)

    @rule(end=ends, where=st.integers(0, 30))
    def deliver(self, end: int, where: int) -> None:
        """Deliver some item, not always the first."""
        if self.coming[end]:
            self.hand_over(end, [self.coming[end].pop(where % len(self.coming[end]))])

    @rule(end=ends)
    def deliver_all(self, end: int) -> None:
        """Deliver what is on its way to an end, in order and together."""
        items, self.coming[end] = self.coming[end], []
        self.hand_over(end, items)

    @rule(end=ends, where=st.integers(0, 30))
    def drop(self, end: int, where: int) -> None:
        """Lose an item."""
        coming = self.coming[end]
        if coming and not isinstance(coming[where % len(coming)], Hello):
            del coming[where % len(coming)]

    @rule(end=ends, where=st.integers(0, 30))
    def double(self, end: int, where: int) -> None:
        """Double an item."""
        coming = self.coming[end]
        if coming and not isinstance(coming[where % len(coming)], Hello):
            coming.append(coming[where % len(coming)])

    @rule(notices=st.sampled_from([(0,), (1,), (0, 1), ()]))
    def cut(self, notices: tuple[int, ...]) -> None:
        """Lose everything on its way; ends notice, or go on writing to nobody."""
        self.coming = [[], []]
        for end in notices:
            self.ends[end].session.disconnected()

    @rule()
    def connect_both(self) -> None:
        """Make a new connection."""
        self.coming = [[], []]
        for end in self.ends:
            end.session.disconnected()
            end.session.connected(self.now_ms)

    @rule(end=ends)
    def connect_one(self, end: int) -> None:
        """Make a new connection, which the other end takes for the one that it has."""
        if self.ends[1 - end].session.is_up:
            self.coming = [[], []]
            self.ends[end].session.connected(self.now_ms)

    @rule(passed_ms=st.floats(0.0, 60.0))
    def pass_time(self, passed_ms: float) -> None:
        """Let time pass, and both ends do what is due."""
        self.now_ms += passed_ms
        for end in self.ends:
            due_ms = end.session.next_deadline_ms
            assert (due_ms is None) == (end.session.status is Status.DOWN)
            if not end.session.wake(self.now_ms):
                assert due_ms is not None
                assert due_ms <= self.now_ms
                end.session.disconnected()

    @rule(end=ends)
    def pickle(self, end: int) -> None:
        """Go on with a copy."""
        self.ends[end].session = pickle.loads(pickle.dumps(self.ends[end].session))

    @precondition(lambda self: all(end.session.is_up for end in self.ends))
    @rule(end=ends)
    def restart(self, end: int) -> None:
        """Let an end lose its memory, and meet the other anew."""
        dead, living = self.ends[end], self.ends[1 - end]
        written = [each for each in living.sent if isinstance(each, Publish)]
        unheard = [each for each in written if each not in dead.accepted]
        dropped_before = living.session.dropped_unacknowledged
        self.ends[end] = End(Session(dead.incarnation + 1, self.links), dead.incarnation + 1)
        for mine in (living.sent, living.accepted):
            mine.clear()
        living.credit_used = [0] * CLASSES
        living.unplaced = [deque([0] * len(sizes)) for sizes in living.unplaced]
        self.connect_both()
        for _ in range(2):
            for each in (0, 1):
                self.write(each)
                self.deliver_all(each)
        dropped = living.session.dropped_unacknowledged - dropped_before
        assert len(unheard) <= dropped <= len(written)
        assert all(each.session.is_up for each in self.ends)

    # What must hold.

    def hand_over(self, end: int, items: list[Item]) -> None:
        me = self.ends[end]
        for message in me.session.receive(items, self.now_ms).messages:
            me.accepted.append(message)
            if isinstance(message, Publish):
                me.unplaced[message.traffic_class].append(message.size_bytes)

    @invariant()
    def everything_is_accepted_once_and_in_order(self) -> None:
        """What one end accepted is what the other sent first."""
        for me, other in ((0, 1), (1, 0)):
            accepted = self.ends[me].accepted
            assert accepted == self.ends[other].sent[: len(accepted)]

    @invariant()
    def no_class_exceeds_its_window_by_more_than_one_frame(self) -> None:
        """Credit bounds what is under way and not placed."""
        for end in self.ends:
            assert all(0 <= used < WINDOW + LARGEST for used in end.credit_used)

    def carry_everything(self) -> None:
        """Carry back and forth until both are silent."""
        for _ in range(20):
            for end in (0, 1):
                self.write(end)
                self.deliver_all(end)

    def teardown(self) -> None:
        """Let the network behave: all that was sent arrives, and all credit returns."""
        dropped = [end.session.dropped_unacknowledged for end in self.ends]
        self.connect_both()
        self.carry_everything()
        for end in (0, 1):
            assert self.ends[end].accepted == self.ends[1 - end].sent
            assert not self.ends[end].session.awaits_acknowledgement
            self.accept_data(end, accepts=True)
            for traffic_class in range(CLASSES):
                self.place(end, traffic_class, len(self.ends[end].unplaced[traffic_class]))
        self.carry_everything()
        assert self.coming == [[], []]
        for end, before in zip(self.ends, dropped, strict=True):
            assert end.credit_used == [0] * CLASSES
            assert end.session.classes == ALL_CLASSES
            assert end.session.dropped_unacknowledged == before, "nothing is dropped while both live"


class RetransmittingNetwork(Network):
    """The same where no new connection helps at the end: time alone must bring everything across."""

    def teardown(self) -> None:
        """Wait instead of connecting, if the connection that there is still carries."""
        if all(end.session.is_up for end in self.ends):
            for _ in range(8):
                self.pass_time(SETTINGS.retransmit_ms)
                self.carry_everything()
            if all(end.session.is_up for end in self.ends):
                for end in (0, 1):
                    assert self.ends[end].accepted == self.ends[1 - end].sent
        super().teardown()


class PatientNetwork(Network):
    """The same where acknowledgements wait for more frames."""

    links = dataclasses.replace(SETTINGS, ack_ms=8.0, ack_frames=3)

    @rule(end=ends)
    def acknowledge(self, end: int) -> None:
        """Write the acknowledgement that waits."""
        self.ends[end].session.acknowledge()

    @rule(end=ends)
    def ask(self, end: int) -> None:
        """Ask for an acknowledgement."""
        self.ends[end].session.ask()

    @invariant()
    def none_waits_for_long(self) -> None:
        """Few frames go without an acknowledgement, and there is a time by which it comes."""
        for end in self.ends:
            session = end.session
            due_ms, next_ms = session.acknowledges_by_ms, session.next_deadline_ms
            assert due_ms is None or (next_ms is not None and next_ms <= due_ms <= self.now_ms + 8.0)

    def carry_everything(self) -> None:
        """Let the acknowledgements that wait be written, too."""
        super().carry_everything()
        for end in (0, 1):
            self.acknowledge(end)
        super().carry_everything()


TestNetwork = Network.TestCase
TestNetwork.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
TestPatientNetwork = PatientNetwork.TestCase
TestPatientNetwork.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
TestRetransmittingNetwork = RetransmittingNetwork.TestCase
TestRetransmittingNetwork.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
