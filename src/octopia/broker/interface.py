"""What a driver and a broker exchange beside messages: the protocol of a broker, its effects and its facts.

A driver (simulator or network) feeds inputs and carries out effects; it never looks inside. Messages wait in the
broker's output queues until the driver takes them, so most effects are queue entries and cost nothing more. ``Facts``
are the trace: what happened, without the time, which the driver knows.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from octopia.content import Publication
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, Peer, PublicationId, SubscriptionId
from octopia.protocol import ALL_CLASSES, ClusterIndexVector, MessageKind
from octopia.protocol.messages import ClientReply, Copy, Message, NeighbourMessage


class Verdict(enum.Enum):
    """Whether Eq. 3 decides about a link, or somebody who knows better."""

    AUTO = "auto"
    CONGESTED = "congested"
    FREE = "free"


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A number of data frames of a class from ``peer``, in order of arrival, whose copies are all in output queues."""

    peer: Peer
    traffic_class: int
    frames: int


DeliveryPlan: TypeAlias = tuple[tuple[ClientId, tuple[int, ...]], ...]
"""The clients that get a publication, by name, each with the handles of its matching subscriptions."""


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """A publication for local clients. It is one entry, however many clients and subscriptions want it."""

    copy: Copy
    subscriptions: tuple[SubscriptionId, ...]
    plan: DeliveryPlan


class Told(msgspec.Struct, frozen=True, gc=False):
    """An answer or a notice for one local client."""

    client: ClientId
    reply: ClientReply


ForClients: TypeAlias = Delivered | Told
"""An entry for local clients, in the order in which a broker made them."""


class Effects(msgspec.Struct):
    """The consequences of an input, apart from messages, which wait in queues.

    ``ready`` holds the neighbours with something new to take, in the order in which it was queued; ``placed`` the
    frames whose credit may be returned. A ``violation`` of the peer, or a ``failure``
    of our own, ended the handling of a batch early: the link must be closed, and everything else still holds.
    """

    ready: dict[BrokerId, None] = msgspec.field(default_factory=dict)
    placed: list[Placed] = msgspec.field(default_factory=list)
    violation: ProtocolViolation | None = None
    failure: Exception | None = None


class Event(enum.StrEnum):
    """What a row of the trace tells."""

    ENQUEUE = "enqueue"
    SEND = "send"
    RECEIVE = "receive"
    DELIVER = "deliver"
    DROP = "drop"
    REFUSE = "refuse"
    WINDOW = "window"
    TABLE = "table"


class Detail(enum.IntEnum):
    """How much is traced; each level adds to the one before."""

    OFF = 0
    DELIVERIES = 1
    HOPS = 2
    ALL = 3


class Case(enum.StrEnum):
    """Which of the three cases of inter-cluster dynamic routing was taken (paper section 9)."""

    ONE = "I"
    TWO = "II"
    THREE = "III"


class Forward(msgspec.Struct, frozen=True, gc=False):
    """One copy of a publication: the link it takes, and the clusters it must still reach (none: a plain copy)."""

    link: BrokerId
    publication_civ: ClusterIndexVector | None = None


class LinkView(msgspec.Struct, frozen=True):
    """How a link looked when a decision was made."""

    link: BrokerId
    queue_length: int
    congested: bool


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Where the copies of a publication go: aLinks, then iLinks, each by broker id; ``case`` if any had to wait."""

    forwards: tuple[Forward, ...]
    case: Case | None = None


class Routed(msgspec.Struct, frozen=True):
    """The story of one routing step, for people who ask why."""

    publication: PublicationId
    content: Publication
    source: Peer
    advertisements: tuple[AdvertisementId, ...]
    alinks: tuple[BrokerId, ...]
    local: tuple[SubscriptionId, ...]
    targets: ClusterIndexVector
    links: tuple[LinkView, ...]
    decision: Decision


class Fact(msgspec.Struct):
    """Something that happened at a broker. What does not apply is None.

    ``searched`` is the number of subscriptions against which a publication was matched.
    """

    event: Event
    kind: MessageKind | None = None
    message_id: AdvertisementId | SubscriptionId | PublicationId | None = None
    peer: Peer | None = None
    link: LinkKind | None = None
    subscription: SubscriptionId | None = None
    publication_civ: ClusterIndexVector | None = None
    queue_length: int | None = None
    hop: int | None = None
    published_ms: float | None = None
    searched: int | None = None
    value: float | None = None
    reason: str | None = None


@dataclasses.dataclass(slots=True)
class Counters:
    """What a broker counts over its lifetime; ``sent`` counts messages to other brokers by kind.

    ``searches`` are those of the PRT for other paths: only TID-dynamic ever does that.
    """

    sent: dict[MessageKind, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(MessageKind, 0))
    cases: dict[Case, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(Case, 0))
    false_positives: int = 0
    refused: int = 0
    over_hop_limit: int = 0
    dropped_while_down: int = 0
    admitted_by_grace: int = 0
    searches: int = 0


class LinkStatus(msgspec.Struct, frozen=True):
    """One row of the Link Status Table: a queue's length now, its traffic in the last closed window, the verdict."""

    queue_length: int
    entered: int
    left: int
    congested: bool


class Broker(Protocol):
    """A broker as drivers see it. Every input carries the time, which never runs backwards."""

    @property
    def id(self) -> BrokerId:
        """Which broker this is."""

    @property
    def counters(self) -> Counters:
        """What it has counted."""

    @property
    def next_deadline_ms(self) -> float | None:
        """When ``wake`` must be called at the latest, or None."""

    def attach(self, client: ClientId, now_ms: float) -> Effects:
        """Take note of a new client."""

    def detach(self, client: ClientId, now_ms: float) -> Effects:
        """Withdraw all that a client issued, and forget it."""

    def receive(self, peer: Peer, batch: Sequence[Message], now_ms: float) -> Effects:
        """Handle the messages that arrived together over one link, in order."""

    def take(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> NeighbourMessage | None:
        """Remove and return the next message for a neighbour: control first, then the oldest data of the mask."""

    def take_all(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> list[NeighbourMessage]:
        """Remove and return everything that ``take`` would return now."""

    def drain_for_clients(self) -> list[ForClients]:
        """Remove and return the entries for local clients, in the order in which they were made."""

    def wake(self, now_ms: float) -> Effects:
        """Do what is due."""

    def link_up(self, peer: BrokerId, now_ms: float) -> Effects:
        """Take note that a link carries messages, and begin the exchange of state over it."""

    def link_down(self, peer: BrokerId, now_ms: float) -> Effects:
        """Take note that a link carries nothing."""

    def drain_effects(self) -> Effects | None:
        """Hand over what taking from full queues has set free since the last call; None if nothing."""

    def waits_for(self, peer: BrokerId) -> int:
        """Count the publications that wait for a link."""

    @property
    def accepts_data(self) -> bool:
        """Whether this broker is ready for publications; if not, its links grant no credit for them."""

    def force(self, peer: BrokerId, verdict: Verdict, queue_length: int | None, now_ms: float) -> None:
        """Decide by hand whether a link is congested, and which queue length stands in for the real one."""

    def link_status_table(self, now_ms: float) -> dict[BrokerId, LinkStatus]:
        """Return the Link Status Table."""

    def table_sizes(self) -> dict[str, int]:
        """Count the entries of each routing table."""

    def civs(self, client: ClientId, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return the stored CIV and the target clusters of what a client advertised as ``handle``, or None.

        None, too, from brokers that know no CIVs.
        """

    def check(self) -> None:
        """Raise InvariantBroken if something that must always hold does not."""

    def drain_facts(self) -> list[Fact | Routed]:
        """Hand over the facts since the last call."""

    def fingerprint(self) -> str:
        """Digest the whole state: equal states give equal texts, in any process."""
