"""The two directions of a session: numbered frames that wait for their acknowledgement, and frames that arrive.

Plain Python that Cython compiles (``flow.pxd`` has the C types): every publication passes here once on its way in and
once per link on its way out. ``session`` has the rules, and everything that happens rarely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

from octopia.errors import InvariantBroken
from octopia.markers import Mark
from octopia.protocol.traffic import CONTROL
from octopia.protocol.transit import Data, Frame

_CONTROL = CONTROL


class Sender:
    """The frames that were written, until they are acknowledged, and the bytes of each class that were sent.

    ``exhausted`` has the bits of classes without credit. The other end has granted ``window_bytes`` of every class, in
    addition to the ``granted_bytes`` that it has placed.
    """

    __slots__ = ("exhausted", "granted_bytes", "kept", "kept_bytes", "next_sequence", "sent_bytes", "window_bytes")

    def __init__(self) -> None:
        self.kept: deque[Frame] = deque()
        self.start()

    def start(self) -> None:
        """Begin a new sequence."""
        self.next_sequence = 1
        self.kept.clear()
        self.kept_bytes = 0
        self.sent_bytes: dict[int, int] = {}
        self.granted_bytes: dict[int, int] = {}
        self.window_bytes = 0
        self.exhausted = 0

    def continue_after(self, accepted: int) -> None:
        """Number the next frame after those that the other end has, if this end does not remember them."""
        if self.next_sequence <= accepted:
            self.next_sequence = accepted + 1

    def send(self, message: Any, outbox: list[Any]) -> None:
        """Number a message, keep it, and append its frame to ``outbox``."""
        frame = Frame.__new__(Frame)
        frame.sequence = self.next_sequence
        frame.message = message
        self.next_sequence += 1
        self.kept.append(frame)
        outbox.append(frame)
        if isinstance(message, Data):
            data = message
            self.kept_bytes += data.size_bytes
            if data.traffic_class != _CONTROL:
                self.count(data.traffic_class, data.size_bytes)
        else:
            self.kept_bytes += message.size_bytes
            if message.traffic_class != _CONTROL:
                self.count(message.traffic_class, message.size_bytes)

    def send_all(self, messages: list[Any], outbox: list[Any]) -> None:
        """Send messages that need no credit."""
        keep, size_bytes = self.kept.append, 0
        for message in messages:
            frame = Frame.__new__(Frame)
            frame.sequence = self.next_sequence
            frame.message = message
            self.next_sequence += 1
            keep(frame)
            outbox.append(frame)
            if isinstance(message, Data):
                data = message
                size_bytes += data.size_bytes
            else:
                size_bytes += message.size_bytes
        self.kept_bytes += size_bytes

    def count(self, traffic_class: int, size_bytes: int) -> None:
        """Count sent bytes of a class."""
        self.sent_bytes[traffic_class] = self.sent_bytes.get(traffic_class, 0) + size_bytes
        self.note_credit(traffic_class)

    def grant(self, placed_bytes: dict[int, int], window_bytes: int) -> None:
        """Take the credit of the other end: bytes that it has placed per class, and its window."""
        self.window_bytes = window_bytes
        self.granted_bytes = placed_bytes
        for traffic_class in self.sent_bytes:
            self.note_credit(traffic_class)

    def note_credit(self, traffic_class: int) -> None:
        """Note whether a class has credit left."""
        granted = self.granted_bytes.get(traffic_class, 0) + self.window_bytes
        has_credit, bit = self.sent_bytes[traffic_class] < granted, 1 << traffic_class
        if has_credit == bool(self.exhausted & bit):
            self.exhausted ^= bit

    def acknowledge(self, accepted: int) -> int:
        """Forget the frames up to a number, and return how many of them carried a publication."""
        kept, publications = self.kept, 0
        if not kept or accepted < kept[0].sequence:
            return 0
        remove = kept.popleft
        for _ in range(min(len(kept), accepted - kept[0].sequence + 1)):
            frame = remove()
            message = frame.message
            if isinstance(message, Data):
                data = message
                size_bytes = data.size_bytes
            else:
                size_bytes = message.size_bytes
            self.kept_bytes -= size_bytes
            publications += size_bytes > 0
        return publications


class Receiver:
    """The frames that were accepted: the last number, and the sizes of those that are not placed yet, per class.

    ``publications`` counts the accepted frames that carry one.
    """

    __slots__ = ("accepted", "placed_bytes", "publications", "unplaced", "unplaced_bytes")

    MARKS: ClassVar[Mapping[str, Mark]] = {"publications": Mark.HISTORY}

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Expect a new sequence."""
        self.accepted = 0
        self.publications = 0
        self.unplaced: dict[int, deque[int]] = {}
        self.unplaced_bytes: dict[int, int] = {}
        self.placed_bytes: dict[int, int] = {}

    def accept(self, items: list[Any], at: int, messages: list[Any], window_bytes: int) -> int:
        """Accept the frames of ``items`` from an index on, and return the index of the first other item.

        Frames that are not the next one are ignored. Return ~index of a frame that exceeds the credit.
        """
        size = len(items)
        # Frames that arrive together are mostly of one class: its bytes are counted here, and entered once.
        counted, held_bytes = _CONTROL, 0
        sizes: deque[int] | None = None
        while at < size:
            item = items[at]
            if type(item) is not Frame:
                break
            frame = item
            if frame.sequence == self.accepted + 1:
                message = frame.message
                if isinstance(message, Data):
                    data = message
                    if data.traffic_class != _CONTROL:
                        if data.traffic_class != counted:
                            if counted != _CONTROL:
                                self.unplaced_bytes[counted] = held_bytes
                            counted = data.traffic_class
                            held_bytes = self.unplaced_bytes.get(counted, 0)
                            sizes = self._sizes_of(counted)
                        if held_bytes >= window_bytes:
                            at = ~at
                            break
                        sizes.append(data.size_bytes)  # type: ignore[union-attr]
                        held_bytes += data.size_bytes
                    self.publications += 1
                elif message.traffic_class != _CONTROL:
                    if counted != _CONTROL:
                        self.unplaced_bytes[counted] = held_bytes
                        counted = _CONTROL
                    if not self.hold(message.traffic_class, message.size_bytes, window_bytes):
                        at = ~at
                        break
                self.accepted = frame.sequence
                messages.append(message)
            at += 1
        if counted != _CONTROL:
            self.unplaced_bytes[counted] = held_bytes
        return at

    def hold(self, traffic_class: int, size_bytes: int, window_bytes: int) -> bool:
        """Hold the credit of a frame until it is placed; return False if it exceeds the window."""
        held_bytes = self.unplaced_bytes.get(traffic_class, 0)
        if held_bytes >= window_bytes:
            return False
        self._sizes_of(traffic_class).append(size_bytes)
        self.unplaced_bytes[traffic_class] = held_bytes + size_bytes
        return True

    def _sizes_of(self, traffic_class: int) -> deque[int]:
        sizes = self.unplaced.get(traffic_class)
        if sizes is None:
            sizes = self.unplaced[traffic_class] = deque()
        return sizes

    def place(self, traffic_class: int, frames: int) -> int:
        """Give back the credit of the oldest frames of a class, and return their size."""
        sizes = self.unplaced.get(traffic_class)
        known = 0 if sizes is None else len(sizes)
        if sizes is None or known < frames:
            raise InvariantBroken(
                f"{frames} frames of class {traffic_class} were placed, but only {known} were accepted"
            )
        size_bytes = 0
        if frames == known:
            size_bytes = self.unplaced_bytes[traffic_class]
            sizes.clear()
        else:
            for _ in range(frames):
                size_bytes += sizes.popleft()
        self.unplaced_bytes[traffic_class] -= size_bytes
        self.placed_bytes[traffic_class] = self.placed_bytes.get(traffic_class, 0) + size_bytes
        return size_bytes
