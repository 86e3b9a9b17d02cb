"""The replies that wait for one client: notices of losses, answers, then deliveries, which are bounded.

Plain Python that Cython compiles (``mailbox.pxd`` has the C types).
"""

from __future__ import annotations

from typing import Any

from octopia.protocol import Cause
from octopia.protocol.messages import ClientReply, Deliver, Gap, Lost


class Mailbox:
    """The replies that wait for a client, in the order in which they leave.

    Lists are enough, since most are handed over as a whole. There are no classes and no window: no publication is ever
    routed around a client. ``lost`` counts its own losses since the last notice, and ``gaps`` those of others by cause:
    they take no more room, however long the client does not read.
    """

    __slots__ = ("answers", "deliveries", "gaps", "lost", "size_bytes")

    def __init__(self) -> None:
        self.lost = 0
        self.gaps: dict[Cause, int] = {}
        self.size_bytes = 0
        self.answers: list[ClientReply] = []
        self.deliveries: list[Deliver] = []

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to take."""
        return not self.deliveries and not self.answers and not self.lost and not self.gaps

    def answer(self, reply: ClientReply) -> None:
        """Add an answer, or a notice."""
        if isinstance(reply, Gap):
            self.gaps[reply.cause] = self.gaps.get(reply.cause, 0) + reply.count
        else:
            self.answers.append(reply)

    def take_answers(self) -> list[ClientReply]:
        """Remove and return everything but deliveries."""
        taken: list[ClientReply] = []
        if self.answers:
            taken, self.answers = self.answers, taken
        if self.lost or self.gaps:
            notices: list[ClientReply] = [Gap(cause, count) for cause, count in self.gaps.items()]
            if self.lost:
                notices.append(Lost(self.lost))
            self.lost, self.gaps = 0, {}
            return notices + taken
        return taken

    def take_all(self) -> list[Any]:
        """Remove and return everything."""
        if not self.answers and not self.lost and not self.gaps:
            return self.take_deliveries()
        return self.take_answers() + self.take_deliveries()

    def has_room(self, limit: int, limit_bytes: int) -> bool:
        """Return whether the deliveries are below both limits; one more may be of any size."""
        return len(self.deliveries) < limit and self.size_bytes < limit_bytes

    def put(self, delivery: Deliver, size_bytes: int) -> None:
        """Add a delivery of a known size."""
        self.deliveries.append(delivery)
        self.size_bytes += size_bytes

    def take_delivery(self) -> Deliver | None:
        """Remove and return the oldest delivery, or None."""
        if not self.deliveries:
            return None
        oldest = self.deliveries.pop(0)
        self.size_bytes -= oldest.size_bytes
        return oldest

    def take_deliveries(self) -> list[Deliver]:
        """Remove and return all deliveries."""
        taken = self.deliveries
        self.deliveries = []
        self.size_bytes = 0
        return taken
