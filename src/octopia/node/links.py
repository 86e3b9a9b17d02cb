"""The ends of links at a node: to a neighbour, and to a client.

Plain Python that Cython compiles (``links.pxd`` has the C types).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import Session
from octopia.markers import Mark
from octopia.node.mailbox import Mailbox
from octopia.node.permissions import Permissions
from octopia.node.rates import PublishingRate
from octopia.protocol import Overflow
from octopia.protocol.messages import Message


class LinkEnd:
    """The fields that the ends of all links have.

    A link has a session, unless the driver promises that nothing is ever lost; ``taken`` are the messages for such a
    driver. While the connection cannot carry more it ``is_paused``. Publications over a link that ``is_paced`` leave
    one by one, when the driver says so; ``in_service`` is the one that occupies it.
    """

    __slots__ = ("in_service", "is_paced", "is_paused", "peer", "session", "taken")

    peer: Peer

    def __init__(self, session: Session | None):
        self.session = session
        self.is_paused = False
        self.is_paced = False
        self.in_service: Message | None = None
        self.taken: list[Message] = []


class NeighbourLink(LinkEnd):
    """The link to a neighbour.

    A neighbour that ``has_departed`` went down in order; ``departed`` is the incarnation that did so last.
    """

    __slots__ = ("departed", "has_departed")

    peer: BrokerId

    def __init__(self, peer: BrokerId, session: Session | None):
        super().__init__(session)
        self.peer = peer
        self.has_departed = False
        self.departed = 0

    @property
    def is_up(self) -> bool:
        """True if the link carries messages."""
        return self.session is None or self.session.is_up

    @property
    def is_closed(self) -> bool:
        """True if the link is up and the neighbour takes no publications."""
        return self.is_up and not self.carries_data

    @property
    def carries_data(self) -> bool:
        """True if the link is up and the neighbour takes publications."""
        return self.session is None or (self.session.is_up and self.session.peer_accepts_data)


KEEPS_MAX = 10_000
"""The maximum number of subscriptions per client whose ``keep_ms`` is noted. A node does not know which requests its
broker refuses, so without a limit a client could fill its memory."""


class ClientLink(LinkEnd):
    """The link to a client, which outlives a connection for a while, until ``expires_ms``.

    ``unanswered`` counts the requests that it has sent while it reads no replies. Its ``rate`` is None without a limit.
    ``keeps_ms`` are the times for which its subscriptions want it to be remembered without a connection, by handle, if
    they are above 0. ``producer`` is its name as a producer. ``alarm_ms`` is the time of its entry among the node's
    alarms. ``permissions`` are None if it may do everything.
    """

    __slots__ = (
        "alarm_ms",
        "expires_ms",
        "is_connected",
        "keeps_ms",
        "mailbox",
        "overflow",
        "permissions",
        "producer",
        "rate",
        "unanswered",
    )

    peer: ClientId

    MARKS: ClassVar[Mapping[str, Mark]] = {"alarm_ms": Mark.DERIVED}

    def __init__(self, peer: ClientId, overflow: Overflow, session: Session | None, rate: PublishingRate | None = None):
        super().__init__(session)
        self.peer = peer
        self.overflow = overflow
        self.mailbox = Mailbox()
        self.is_connected = True
        self.unanswered = 0
        self.expires_ms: float | None = None
        self.rate = rate
        self.keeps_ms: dict[int, float] = {}
        self.producer = ""
        self.alarm_ms: float | None = None
        self.permissions: Permissions | None = None

    @property
    def next_deadline_ms(self) -> float | None:
        """The earlier of the deadlines of its session and of its grace period, or None."""
        due_ms = self.session.next_deadline_ms if self.session is not None else None
        if self.expires_ms is None or (due_ms is not None and due_ms < self.expires_ms):
            return due_ms
        return self.expires_ms

    def keep(self, handle: int, keep_ms: float) -> None:
        """Note for how long a subscription wants this client to be remembered."""
        if keep_ms > 0.0:
            if handle in self.keeps_ms or len(self.keeps_ms) < KEEPS_MAX:
                self.keeps_ms[handle] = keep_ms
        else:
            self.keeps_ms.pop(handle, None)

    @property
    def keep_ms(self) -> float:
        """The longest time for which a subscription wants this client to be remembered, or 0."""
        return max(self.keeps_ms.values(), default=0.0)

    @property
    def held_bytes(self) -> int:
        """The approximate size of the deliveries that wait for this client or are not acknowledged."""
        return self.mailbox.size_bytes + (self.session.kept_bytes if self.session is not None else 0)


Link = NeighbourLink | ClientLink
