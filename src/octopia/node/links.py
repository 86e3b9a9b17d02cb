"""The ends of links at a node: to a neighbour, and to a client."""

from __future__ import annotations

import dataclasses

from octopia.ids import BrokerId, ClientId
from octopia.link import Session
from octopia.markers import Derived
from octopia.node.mailbox import Mailbox
from octopia.node.rates import PublishingRate
from octopia.protocol import Overflow
from octopia.protocol.messages import Message


@dataclasses.dataclass(slots=True)
class NeighbourLink:
    """The link to a neighbour.

    It has a session, unless the driver promises that nothing is ever lost; ``taken`` are the messages for such a
    driver. While the connection cannot carry more it ``is_paused``. Publications over a link that ``is_paced`` leave
    one by one, when the driver says so; ``in_service`` is the one that occupies it. A neighbour that ``has_departed``
    went down in order; ``departed`` is the incarnation that did so last.
    """

    peer: BrokerId
    session: Session | None
    is_paused: bool = False
    is_paced: bool = False
    has_departed: bool = False
    departed: int = 0
    in_service: Message | None = None
    taken: list[Message] = dataclasses.field(default_factory=list)

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


@dataclasses.dataclass(slots=True)
class ClientLink:
    """The link to a client, which outlives a connection for a while, until ``expires_ms``.

    ``unanswered`` counts the requests that it has sent while it reads no replies. Its ``rate`` is None without a limit.
    ``alarm_ms`` is the time of its entry among the node's alarms.
    """

    peer: ClientId
    overflow: Overflow
    session: Session | None
    mailbox: Mailbox = dataclasses.field(default_factory=Mailbox)
    is_connected: bool = True
    is_paused: bool = False
    is_paced: bool = False
    in_service: Message | None = None
    taken: list[Message] = dataclasses.field(default_factory=list)
    unanswered: int = 0
    expires_ms: float | None = None
    rate: PublishingRate | None = None
    alarm_ms: Derived[float | None] = None

    @property
    def next_deadline_ms(self) -> float | None:
        """The earlier of the deadlines of its session and of its grace period, or None."""
        due_ms = self.session.next_deadline_ms if self.session is not None else None
        if self.expires_ms is None or (due_ms is not None and due_ms < self.expires_ms):
            return due_ms
        return self.expires_ms

    @property
    def held_bytes(self) -> int:
        """The approximate size of the deliveries that wait for this client or are not acknowledged."""
        return self.mailbox.size_bytes + (self.session.kept_bytes if self.session is not None else 0)


Link = NeighbourLink | ClientLink
