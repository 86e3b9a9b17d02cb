"""The session of one end of a link.

Theory of operation
-------------------

A link uses one connection after another. A connection may break at any time, and loses whatever is in flight. The
session turns them into a link that carries every message once and in order, as long as both ends live.

- *Sequence.* A message gets the next number when it is first written, and is kept until it is acknowledged. Control
  and data share one sequence, so the order on the wire is the order of messages.
- *Acceptance.* A frame is accepted if its number is the next one. It is handed to the broker at once, whose input
  outlives the connection. Frames with earlier numbers are duplicates, frames with later numbers are out of order: both
  are ignored.
- *Acknowledgement.* One acknowledgement covers all frames up to the last accepted one. That of publications waits for
  more if others were acknowledged less than ``ack_ms`` ago, until that time has passed. It goes out earlier with the
  next write, after ``ack_frames`` frames, or after a quarter of the window. Control messages, frames that are not the
  next one, and an end that asks are answered at once. An acknowledgement says how long it was held, so that the other
  end can still measure the link.
- *Holding.* An end that ``holds`` acknowledges no frame before it is released, so the other end keeps all frames that
  this end has not dealt with for good. It greets with the last number that was released. What it is sent again after a
  new connection is ignored as always.
- *Resuming.* An end that lost its state, but knows its incarnation, that of the other end and the last number that it
  released, continues the session with these. The number of its own next frame follows from the other end's greeting.
- *Credit.* Data of a class may be written while the receiver has granted more bytes than were sent; one large frame
  may exceed the grant. Grants are absolute: bytes of this class that the receiver has placed in output queues, plus
  its window. Every acknowledgement and every greeting repeats them, so none is ever lost. Control needs no credit.
  Credit is a rule: data beyond the window is a violation, and the connection is closed.
- *Reconnecting.* Both ends greet with their incarnation, the incarnation of the other end that they know, and the last
  number they accepted. If both remember each other, everything after that number is written again. An end that is not
  remembered starts a new sequence. Its written but unacknowledged data is dropped and counted, since the other end may
  have passed it on before it forgot. A session that fences refuses a greeting from an older incarnation than the last:
  of two ends with the same name, the newer one wins.
- *Silence.* An idle end repeats its last acknowledgement. An end that hears nothing for longer treats the connection
  as broken. Where frames can be lost without a broken connection, unacknowledged frames are written again after a
  timeout.

The session reads no clock and holds no socket: each input carries the time, and items to write are drained.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

import msgspec

from octopia.link.flow import Receiver, Sender
from octopia.markers import Fixed, History, Timed
from octopia.protocol import ALL_CLASSES, CONTROL, CONTROL_ONLY, Ack, Frame, Grant, Hello, Item
from octopia.protocol.messages import Message

_NEVER_MS = float("-inf")


@dataclasses.dataclass(frozen=True, slots=True)
class LinkSettings:
    """The settings of a session.

    A ``retransmit_ms`` of 0 trusts a connection to lose nothing unless it breaks. A session that ``fences`` refuses a
    greeting from an older incarnation than the last one it talked to. Publications are acknowledged every ``ack_ms`` or
    ``ack_frames``; with an ``ack_ms`` of 0 at once.
    """

    window_bytes: int = 64 * 1024
    heartbeat_ms: float = 500.0
    suspicion_ms: float = 2000.0
    retransmit_ms: float = 0.0
    fences: bool = False
    ack_ms: float = 0.0
    ack_frames: int = 16


class Status(enum.Enum):
    """The status of a session: no connection, greeting over a new one, or up."""

    DOWN = "down"
    GREETING = "greeting"
    UP = "up"


@dataclasses.dataclass(slots=True)
class Outcome:
    """The result of items from the other end: messages for the broker, and whether the link came up.

    With ``is_fenced`` the other end is older than the last one, with a ``violation`` it has exceeded its credit: the
    connection must be closed. ``acknowledged`` counts the publications that the other end has accepted. ``forgotten``
    are the messages of a sequence that the other end does not remember: they were written and not acknowledged. With
    ``was_replaced`` the other end is another incarnation than the last one. With ``admission_changed`` it has begun or
    ceased to grant credit for data. ``held_ms`` is the time for which the last acknowledgement was held back.
    """

    messages: list[Message] = dataclasses.field(default_factory=list)
    came_up: bool = False
    is_fenced: bool = False
    violation: str = ""
    forgotten: Sequence[Message] = ()
    acknowledged: int = 0
    was_replaced: bool = False
    admission_changed: bool = False
    held_ms: float = 0.0


class Session:
    """One end of a link, from the first connection to the end of this incarnation."""

    _settings: Fixed[LinkSettings]
    _last_accepted_ms: Timed[float]
    _last_ack_ms: Timed[float]
    dropped_unacknowledged: History[int]

    def __init__(self, incarnation: int, settings: LinkSettings):
        self._incarnation = incarnation
        self._settings = settings
        self.status = Status.DOWN
        self.dropped_unacknowledged = 0
        self._sender = Sender()
        self._grant_number = 0
        self._peer_incarnation = 0
        self._receiver = Receiver()
        self.holds = False
        self._released = 0
        self._grants = 1
        self._outlived: dict[int, int] = {}
        self._accepts_data = True
        # Writes and their times.
        self._outbox: list[Item] = []
        self._ack_is_due = False
        self._ack_by_ms: float | None = None
        self._unacknowledged_frames = 0
        self._has_new_publications = False
        self._ungranted_bytes = 0
        self._asks = False
        self._last_accepted_ms = 0.0
        self._last_ack_ms = _NEVER_MS
        self._last_written_ms = 0.0
        self._last_heard_ms = 0.0
        self._last_progress_ms = 0.0

    def resume(self, peer_incarnation: int, released: int) -> None:
        """Continue a session that holds, after the loss of this end's state; call it before the first connection."""
        self.holds = True
        self._peer_incarnation = peer_incarnation
        self._receiver.accepted = self._released = released

    # The connection.

    def connected(self, now_ms: float) -> None:
        """Greet over a new connection; an older one is dropped."""
        self.status = Status.GREETING
        self._last_heard_ms = now_ms
        self._outbox = [self._hello(is_answer=False)]

    def disconnected(self) -> bool:
        """Drop the connection, and return whether the link was up."""
        was_up = self.status is Status.UP
        self.status = Status.DOWN
        self._outbox = []
        self._acknowledged()
        return was_up

    def receive(self, items: Sequence[Item], now_ms: float) -> Outcome:
        """Handle items that arrived over the connection."""
        outcome = Outcome()
        if self.status is Status.DOWN:
            return outcome
        self._last_heard_ms = now_ms
        at, size = 0, len(items)
        while at < size and not outcome.violation:
            item = items[at]
            if type(item) is Frame and self.status is Status.UP:
                at = self._on_frames(items, at, outcome, now_ms)
                continue
            at += 1
            if type(item) is Ack:
                if self.status is Status.UP:
                    self._on_ack(item, outcome, now_ms)
            elif type(item) is Hello:
                if self._settings.fences and item.incarnation < self._peer_incarnation:
                    outcome.is_fenced = True
                    break
                self._on_hello(item, outcome, now_ms)
                outcome.came_up = True
            # Before the greeting, everything else is ignored; it will be written again.
        return outcome

    # Messages and credit.

    @property
    def classes(self) -> int:
        """The data classes that may be written now, as a mask for the broker's ``take``."""
        if self.status is not Status.UP or not self._sender.window_bytes:
            return CONTROL_ONLY
        return ALL_CLASSES & ~self._sender.exhausted

    @property
    def is_up(self) -> bool:
        """True if messages can be written."""
        return self.status is Status.UP

    @property
    def peer_accepts_data(self) -> bool:
        """True if the other end grants a window for data, used up or not."""
        return self._sender.window_bytes > 0

    def send(self, message: Message, now_ms: float) -> None:
        """Write a message."""
        if not self._sender.kept:
            self._last_progress_ms = now_ms
        self._sender.send(message, self._outbox)

    def begin_output(self, now_ms: float) -> tuple[Sender, list[Item]]:
        """Return the objects that publications are moved into by a caller that writes many."""
        if not self._sender.kept:
            self._last_progress_ms = now_ms
        return self._sender, self._outbox

    def placed(self, traffic_class: int, frames: int) -> None:
        """Return the credit of the oldest frames of a class, whose copies are all in output queues."""
        outlived = min(frames, self._outlived.get(traffic_class, 0))
        if outlived:
            self._outlived[traffic_class] -= outlived
        if frames > outlived:
            self._ungranted_bytes += self._receiver.place(traffic_class, frames - outlived)
        self._grants += 1
        if self._ack_by_ms is None or self._ungranted_bytes * 4 >= self._settings.window_bytes:
            self._ack_is_due = True

    def settle_credit(self, waiting: Mapping[int, int]) -> None:
        """Return the credit of all frames except those that still wait to be placed, counted per class."""
        unplaced = self._receiver.unplaced
        for traffic_class in {**unplaced, **self._outlived}:
            held = len(unplaced.get(traffic_class, ())) + self._outlived.get(traffic_class, 0)
            self.placed(traffic_class, held - waiting.get(traffic_class, 0))

    @property
    def has_output(self) -> bool:
        """True if there is something to write, apart from an acknowledgement that is due."""
        return bool(self._outbox)

    @property
    def has_greeting(self) -> bool:
        """True if a greeting is to be written, which acknowledges what was accepted."""
        return bool(self._outbox) and type(self._outbox[0]) is Hello

    def accept_data(self, accepts: bool) -> None:
        """Open or close the window; a broker that is not ready for publications grants no credit."""
        if accepts != self._accepts_data:
            self._accepts_data = accepts
            self._grants += 1
            self._ack_is_due = True

    @property
    def owes_ack(self) -> bool:
        """True if an acknowledgement waits for more frames."""
        return self._ack_by_ms is not None

    @property
    def acknowledges_by_ms(self) -> float | None:
        """The time until which an acknowledgement waits for more frames, or None if none does."""
        return self._ack_by_ms

    def acknowledge(self) -> None:
        """Write an acknowledgement that waits for more frames."""
        self._ack_is_due |= self.owes_ack

    def hold(self) -> None:
        """Acknowledge no frame from now on before it is released."""
        if not self.holds:
            self.holds = True
            self._released = self._receiver.accepted

    def release(self, sequence: int) -> None:
        """Let all frames up to a number be acknowledged; beyond the last accepted one, nothing is."""
        sequence = min(sequence, self._receiver.accepted)
        if sequence > self._released:
            self._released = sequence
            self._ack_is_due = True

    @property
    def released(self) -> int:
        """The number of the last frame that may be acknowledged."""
        return self._released if self.holds else self._receiver.accepted

    def ask(self) -> None:
        """Ask the other end to acknowledge at once what was written, since somebody waits for it."""
        if self._sender.kept:
            self._ack_is_due = self._asks = True

    # Writes and deadlines.

    def drain(self, now_ms: float, *, acknowledge: bool = True) -> list[Item]:
        """Remove and return the items to write now, with an acknowledgement if one is due and wanted."""
        if acknowledge and self.status is Status.UP and (self._ack_is_due or (self._outbox and self.owes_ack)):
            held_ms = now_ms - self._last_accepted_ms if self.owes_ack else 0.0
            self._outbox.append(Ack(self.released, self._own_grant(), held_ms, self._asks))
            if self._has_new_publications:
                self._last_ack_ms = now_ms
            self._acknowledged()
        items, self._outbox = self._outbox, []
        if items:
            self._last_written_ms = now_ms
        return items

    @property
    def next_deadline_ms(self) -> float | None:
        """The time by which ``wake`` must be called, or None."""
        if self.status is Status.DOWN:
            return None
        due = [self._last_heard_ms + self._settings.suspicion_ms]
        if self.status is Status.UP:
            due.append(self._last_written_ms + self._settings.heartbeat_ms)
            if self._sender.kept and self._settings.retransmit_ms:
                due.append(self._last_progress_ms + self._settings.retransmit_ms)
            if self._ack_by_ms is not None:
                due.append(self._ack_by_ms)
        return min(due)

    @property
    def retransmits(self) -> bool:
        """True if unacknowledged messages are written again after a timeout, which every message brings forward."""
        return bool(self._settings.retransmit_ms)

    @property
    def awaits_acknowledgement(self) -> bool:
        """True if a written message is not acknowledged yet."""
        return bool(self._sender.kept)

    @property
    def unacknowledged(self) -> int:
        """The number of messages that were written and are not acknowledged."""
        return len(self._sender.kept)

    @property
    def unacknowledged_publications(self) -> int:
        """The number of publications that were written and are not acknowledged."""
        return sum(frame.message.size_bytes > 0 for frame in self._sender.kept)

    @property
    def kept_bytes(self) -> int:
        """The approximate size of the publications that were written and are not acknowledged."""
        return self._sender.kept_bytes

    @property
    def last_sequence(self) -> int:
        """The number of the last written message; numbering restarts when the other end loses its state."""
        return self._sender.next_sequence - 1

    @property
    def acknowledged(self) -> int:
        """The number of the last frame that the other end has acknowledged."""
        kept = self._sender.kept
        return kept[0].sequence - 1 if kept else self.last_sequence

    @property
    def accepted(self) -> int:
        """The number of the last accepted frame."""
        return self._receiver.accepted

    @property
    def grants_data(self) -> bool:
        """True if the other end has credit for data of class 0, as far as this end knows."""
        return self._accepts_data and self._receiver.unplaced_bytes.get(0, 0) < self._settings.window_bytes

    @property
    def owes_credit(self) -> bool:
        """True while frames of this session wait to be placed."""
        return any(self._receiver.unplaced.values())

    @property
    def incarnation(self) -> int:
        """The incarnation of this end."""
        return self._incarnation

    @property
    def peer_incarnation(self) -> int:
        """The incarnation of the other end, 0 before the first greeting; it changes if that end loses its state."""
        return self._peer_incarnation

    def wake(self, now_ms: float) -> bool:
        """Do what is due; return False if the other end was silent for too long and the connection must be closed."""
        if self.status is Status.DOWN:
            return True
        if now_ms >= self._last_heard_ms + self._settings.suspicion_ms:
            return False
        if self.status is Status.UP:
            if now_ms >= self._last_written_ms + self._settings.heartbeat_ms or (
                self._ack_by_ms is not None and now_ms >= self._ack_by_ms
            ):
                self._ack_is_due = True
            retransmit_ms = self._settings.retransmit_ms
            if self._sender.kept and retransmit_ms and now_ms >= self._last_progress_ms + retransmit_ms:
                self._outbox.extend(self._sender.kept)
                self._last_progress_ms = now_ms
        return True

    # Handling of items.

    def _on_hello(self, hello: Hello, outcome: Outcome, now_ms: float) -> None:
        if hello.incarnation != self._peer_incarnation:
            outcome.was_replaced |= self._peer_incarnation != 0
            self._forget_received()
            self._peer_incarnation = hello.incarnation
            self._forget_sent(outcome)
        elif hello.knows_incarnation == self._incarnation:
            self._acknowledge(hello.accepted, outcome)
            self._sender.continue_after(hello.accepted)
        elif hello.knows_incarnation:
            # Another session with our name has replaced us in its memory. Both sequences begin again.
            self._forget_received()
            self._forget_sent(outcome)
        # Otherwise it has never known us, so it has accepted nothing, and everything is still kept.
        # What it has placed was sent by somebody else, unless it remembers us.
        knows_us = hello.knows_incarnation == self._incarnation
        self._take_grant(hello.grant if knows_us else msgspec.structs.replace(hello.grant, placed_bytes=()))
        if self.status is Status.UP and not hello.is_answer:
            # The other end restarted over a connection that we considered sound: greet again.
            self._outbox = [self._hello(is_answer=True)]
        self.status = Status.UP
        self._outbox.extend(self._sender.kept)
        self._last_progress_ms = now_ms

    def _on_frames(self, items: Sequence[Item], at: int, outcome: Outcome, now_ms: float) -> int:
        """Handle the frames from an index on, and return the index of the first other item."""
        settings, receiver = self._settings, self._receiver
        before, publications = receiver.accepted, receiver.publications
        end = receiver.accept(
            items if type(items) is list else list(items), at, outcome.messages, settings.window_bytes
        )
        if end < 0:
            outcome.violation = (
                f"expected data within the credit of {settings.window_bytes} bytes, got a frame beyond it"
            )
            return ~end
        accepted = receiver.accepted - before
        self._last_accepted_ms = now_ms
        self._unacknowledged_frames += accepted
        publications = receiver.publications - publications
        self._has_new_publications |= publications > 0
        is_plain = accepted == end - at == publications
        ack_by_ms = self._last_ack_ms + settings.ack_ms
        if now_ms >= ack_by_ms or not is_plain or self._unacknowledged_frames >= settings.ack_frames:
            self._ack_is_due = True
        else:
            self._ack_by_ms = ack_by_ms
        return end

    def _on_ack(self, ack: Ack, outcome: Outcome, now_ms: float) -> None:
        if self._acknowledge(ack.accepted, outcome):
            self._last_progress_ms = now_ms
        outcome.held_ms = ack.held_ms
        if ack.asks and self._unacknowledged_frames:
            self._ack_is_due = True
        accepted_data = self.peer_accepts_data
        self._take_grant(ack.grant)
        outcome.admission_changed |= accepted_data != self.peer_accepts_data

    def _acknowledge(self, accepted: int, outcome: Outcome) -> bool:
        before = len(self._sender.kept)
        outcome.acknowledged += self._sender.acknowledge(accepted)
        return len(self._sender.kept) < before

    def _acknowledged(self) -> None:
        """Note that the other end has been told everything."""
        self._ack_is_due = False
        self._ack_by_ms = None
        self._unacknowledged_frames = 0
        self._has_new_publications = False
        self._ungranted_bytes = 0
        self._asks = False

    def _forget_sent(self, outcome: Outcome) -> None:
        """Start a new sequence; drop frames that the other end may or may not have passed on."""
        kept = [frame.message for frame in self._sender.kept]
        outcome.forgotten = [*outcome.forgotten, *kept]
        self.dropped_unacknowledged += sum(message.traffic_class != CONTROL for message in kept)
        self._sender.start()
        self._grant_number = 0

    def _forget_received(self) -> None:
        """Expect a new sequence; the broker still works on frames of the old one, and will report them placed."""
        for traffic_class, sizes in self._receiver.unplaced.items():
            self._outlived[traffic_class] = self._outlived.get(traffic_class, 0) + len(sizes)
        self._receiver.start()
        self._released = 0

    def _hello(self, *, is_answer: bool) -> Hello:
        return Hello(self._incarnation, self._peer_incarnation, self.released, self._own_grant(), is_answer)

    def _own_grant(self) -> Grant:
        window = self._settings.window_bytes if self._accepts_data else 0
        return Grant(self._grants, window, tuple(sorted(self._receiver.placed_bytes.items())))

    def _take_grant(self, grant: Grant) -> None:
        if grant.number >= self._grant_number:
            self._grant_number = grant.number
            self._sender.grant(dict(grant.placed_bytes), grant.window_bytes)
