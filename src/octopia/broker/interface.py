"""The interface between a driver and a broker: the broker protocol, its effects and its facts.

A driver (simulator or network) feeds inputs and carries out effects; it never looks inside. Messages wait in the
broker's output queues until the driver takes them, so most effects are queue entries and cost nothing more. ``Fact``
objects are the trace. They carry no time; the driver adds it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from octopia.broker.adaptive_routing import AdaptiveDecision
from octopia.broker.congestion import Rule
from octopia.content import Publication
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId, LinkKind, Peer, PublicationId, SubscriptionId
from octopia.protocol import ALL_CLASSES, Cause, ClusterIndexVector, MessageKind
from octopia.protocol.messages import ClientReply, Copy, Detour, Message, NeighbourMessage
from octopia.settings import Algorithm, Limit

if TYPE_CHECKING:
    from octopia.broker.queues import OutputQueue


class Verdict(enum.Enum):
    """The source of a link's congestion verdict: Eq. 3 (AUTO), or a forced value."""

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
    """A publication for local clients: one entry, for any number of clients and subscriptions."""

    copy: Copy
    subscriptions: tuple[SubscriptionId, ...]
    plan: DeliveryPlan


class Told(msgspec.Struct, frozen=True, gc=False):
    """A reply or a notice for one local client."""

    client: ClientId
    reply: ClientReply


ForClients: TypeAlias = Delivered | Told
"""An entry for local clients; entries are handed over in the order in which they were made."""


class LimitReached(msgspec.Struct, frozen=True, gc=False):
    """A client that has reached a limit."""

    client: ClientId
    limit: Limit


class Loss(msgspec.Struct, frozen=True, gc=False):
    """Publications that were lost here; ``peer`` is the link that they were for or came from, if there is one.

    A ``count`` of 0 means that their number is unknown.
    """

    cause: Cause
    count: int
    peer: Peer | None = None


class Effects(msgspec.Struct):
    """The consequences of an input, apart from messages, which wait in queues.

    ``ready`` holds the neighbours with new messages to take, in the order of queueing. ``placed`` holds the frames
    whose credit may be returned. A ``violation`` by the peer, or a ``failure`` of this broker, ended the handling of a
    batch early: the link must be closed, and all other effects still hold. ``failed`` lists failures outside the batch,
    such as in a slice of long work, each with the peer whose link must be closed, or this broker if there is none.
    ``limits_reached`` and ``losses`` are for the log: the requests beyond a limit are already refused, and losses are
    counted and told.
    """

    ready: dict[BrokerId, None] = msgspec.field(default_factory=dict)
    placed: list[Placed] = msgspec.field(default_factory=list)
    violation: ProtocolViolation | None = None
    failure: Exception | None = None
    failed: tuple[tuple[Peer, Exception], ...] = ()
    limits_reached: tuple[LimitReached, ...] = ()
    losses: tuple[Loss, ...] = ()


class Event(enum.StrEnum):
    """The event that a row of the trace records."""

    ENQUEUE = "enqueue"
    SEND = "send"
    RECEIVE = "receive"
    DELIVER = "deliver"
    DROP = "drop"
    REFUSE = "refuse"
    WINDOW = "window"
    TABLE = "table"


class Detail(enum.IntEnum):
    """The detail of the trace; each level adds to the one before."""

    OFF = 0
    DELIVERIES = 1
    HOPS = 2
    ALL = 3


class Case(enum.StrEnum):
    """The case of inter-cluster dynamic routing that was taken (paper section 9)."""

    ONE = "I"
    TWO = "II"
    THREE = "III"


class Forward(msgspec.Struct, frozen=True, gc=False):
    """One copy of a publication: the link it takes, and the clusters it must still reach (none: a plain copy)."""

    link: BrokerId
    publication_civ: ClusterIndexVector | None = None


class LinkView(msgspec.Struct, frozen=True):
    """The state of a link at the time of a decision.

    Under adaptive routing, a congested link has the ``rule`` that made it so, with the time to which it refers.
    """

    link: BrokerId
    queue_length: int
    congested: bool
    rule: Rule | None = None
    rule_ms: float = 0.0


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The links of the copies: aLinks, then iLinks, each by broker id; ``case`` if a target iLink was congested."""

    forwards: tuple[Forward, ...]
    case: Case | None = None


class Routed(msgspec.Struct, frozen=True):
    """A record of one routing step, for explanations."""

    publication: PublicationId
    content: Publication
    source: Peer
    advertisements: tuple[AdvertisementId, ...]
    alinks: tuple[BrokerId, ...]
    local: tuple[SubscriptionId, ...]
    targets: ClusterIndexVector
    links: tuple[LinkView, ...]
    decision: Decision
    adaptive: AdaptiveDecision | None = None


class Fact(msgspec.Struct):
    """An event at a broker. Fields that do not apply are None.

    ``searched`` is the number of subscriptions against which a publication was matched.
    """

    event: Event
    kind: MessageKind | None = None
    message_id: AdvertisementId | SubscriptionId | PublicationId | None = None
    peer: Peer | None = None
    link: LinkKind | None = None
    subscription: SubscriptionId | None = None
    publication_civ: ClusterIndexVector | None = None
    detour: Detour | None = None
    queue_length: int | None = None
    hop: int | None = None
    published_ms: float | None = None
    searched: int | None = None
    value: float | None = None
    reason: str | None = None


@dataclasses.dataclass(slots=True)
class Counters:
    """The counters of a broker's lifetime; ``sent`` counts messages to other brokers by kind.

    ``lost`` is the ledger of losses: the publications or deliveries that are known to be lost, by cause. ``occasions``
    counts how often each cause occurred, also where the number of lost publications is unknown. ``searches`` counts
    searches of the PRT for other paths: only TID-dynamic does that. Adaptive routing counts the copies that it
    reroutes in ``detours``, and those that made more hops than it should need in ``beyond_hop_bound``. ``delivered``
    counts publications for local clients, once per matching subscription.
    """

    sent: dict[MessageKind, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(MessageKind, 0))
    cases: dict[Case, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(Case, 0))
    false_positives: int = 0
    refused: int = 0
    lost: dict[Cause, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(Cause, 0))
    occasions: dict[Cause, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(Cause, 0))
    searches: int = 0
    detours: int = 0
    beyond_hop_bound: int = 0
    delivered: int = 0

    def count_loss(self, cause: Cause, count: int) -> None:
        """Enter a loss into the ledger; a count of 0 is unknown."""
        self.lost[cause] += count
        self.occasions[cause] += 1


class LinkStatus(msgspec.Struct, frozen=True):
    """One row of the Link Status Table: a queue's length now, its traffic in the last closed window, the verdict."""

    queue_length: int
    entered: int
    left: int
    congested: bool


class LinkCounters(msgspec.Struct, frozen=True):
    """The counters of the publications of one link, in one direction.

    ``sent`` counts the copies that left, and ``rerouted`` those among them that have clusters to reach for which
    another link was congested or down (TID-dynamic counts copies that change trees, when they are queued). ``dropped``
    counts copies that were lost. ``congested_ms`` is the time for which the link was congested while it was up: whole
    windows of Eq. 3, or under adaptive routing the time for which routing held it for congested.
    """

    sent: int
    rerouted: int
    dropped: int
    congested_ms: float


class Broker(Protocol):
    """A broker as drivers see it. Every input carries the time, which never runs backwards."""

    @property
    def id(self) -> BrokerId:
        """The id of this broker."""

    @property
    def counters(self) -> Counters:
        """The counters of this broker's lifetime."""

    @property
    def next_deadline_ms(self) -> float | None:
        """The time by which ``wake`` must be called, or None."""

    @property
    def is_behind(self) -> bool:
        """True if ``wake`` has work to do at once, such as the rest of a long input."""

    def attach(self, client: ClientId, now_ms: float) -> Effects:
        """Add a client."""

    def detach(self, client: ClientId, now_ms: float) -> Effects:
        """Remove a client and withdraw everything it issued."""

    def receive(self, peer: Peer, batch: Sequence[Message], now_ms: float) -> Effects:
        """Handle the messages that arrived together over one link, in order."""

    def take(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> NeighbourMessage | None:
        """Remove and return the next message for a neighbour: control first, then the oldest data of the mask."""

    def take_all(self, peer: BrokerId, now_ms: float, classes: int = ALL_CLASSES) -> list[NeighbourMessage]:
        """Remove and return everything that ``take`` would return now."""

    def has_control(self, peer: BrokerId) -> bool:
        """Return whether taking control messages for a neighbour does anything: some wait, or windows are traced."""

    def outlet(self, peer: BrokerId, now_ms: float) -> OutputQueue | None:
        """Return the queue to a neighbour if publications may be taken from it directly, else None.

        They may not while sent messages are traced, or while something waits for room in a queue. The driver counts
        what it takes in ``counters.sent``.
        """

    @property
    def bytes_waiting(self) -> int:
        """The approximate size of the publications that wait for neighbours."""

    def unplaced(self, peer: Peer) -> dict[int, int]:
        """Return the number of accepted publications from a link that still wait to be placed, per class."""

    @property
    def unplaced_in_all(self) -> int:
        """The number of accepted publications that still wait to be placed, also from clients that have left."""

    @property
    def stranded(self) -> int:
        """The number of copies that wait for no link in particular: those in the waiting room of adaptive routing."""

    def drain_for_clients(self) -> list[ForClients]:
        """Remove and return the entries for local clients, in the order in which they were made."""

    def wake(self, now_ms: float) -> Effects:
        """Handle all due deadlines."""

    def link_up(self, peer: BrokerId, now_ms: float) -> Effects:
        """Mark a link as up, and start the exchange of state over it."""

    def link_down(self, peer: BrokerId, now_ms: float, unsent: Sequence[Message] = ()) -> Effects:
        """Mark a link as down; ``unsent`` are publications that were taken for it and not written."""

    def link_accepts(self, peer: BrokerId, accepts: bool, now_ms: float) -> Effects:
        """Note whether a neighbour takes publications; for a link that comes up, call it before ``link_up``."""

    def carried(self, peer: BrokerId, copies: int, now_ms: float, is_acknowledgement: bool = False) -> None:
        """Note that a link has carried the oldest copies that were taken for it, or that they were acknowledged."""

    def reset_measurement(self, peer: BrokerId) -> None:
        """Forget how fast a link was, and which copies it carries: from now on it is slower or faster."""

    def link_forgotten(self, peer: BrokerId, dropped: Sequence[Message], restarted: bool, now_ms: float) -> Effects:
        """Handle a link whose other end does not remember this one; call it before ``link_up``.

        ``dropped`` are the messages that were written and not acknowledged: the other end may or may not have handled
        them. With ``restarted``, the neighbour itself has lost its state.
        """

    def batch_failed(self, peer: Peer, batch: Sequence[Message], now_ms: float) -> Effects:
        """Handle the loss of a batch that ``receive`` could not handle to its end."""

    def give_up(self, count: int, now_ms: float) -> Effects:
        """Handle the end of a broker that must leave publications behind."""

    def drain_effects(self) -> Effects | None:
        """Return the effects of taking from full queues since the last call, or None."""

    def waits_for(self, peer: BrokerId) -> int:
        """Return the number of publications that wait for a link."""

    @property
    def reroutes(self) -> bool:
        """True if copies that have not left over a link may go another way."""

    @property
    def accepts_data(self) -> bool:
        """True if this broker is ready for publications; otherwise its links grant no data credit."""

    def force(self, peer: BrokerId, verdict: Verdict, queue_length: int | None, now_ms: float) -> None:
        """Override the congestion verdict of a link, and the queue length that routing sees."""

    def link_status_table(self, now_ms: float) -> dict[BrokerId, LinkStatus]:
        """Return the Link Status Table."""

    def link_counters(self, now_ms: float) -> dict[BrokerId, LinkCounters]:
        """Return the counters of the links to all neighbours."""

    @property
    def published(self) -> int:
        """The number of publications of local clients that this broker has accepted."""

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm that routes now."""

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """The algorithms that ``route_by`` takes."""

    def route_by(self, algorithm: Algorithm) -> None:
        """Route by another algorithm from now on; raise UsageError if this broker cannot."""

    def issued(self) -> dict[ClientId, tuple[Sequence[int], Sequence[int]]]:
        """Return the handles of the advertisements and of the subscriptions of each local client."""

    def table_sizes(self) -> dict[str, int]:
        """Return the number of entries of each routing table."""

    @property
    def subscriptions_searched(self) -> int:
        """The number of distinct subscriptions against which a publication is matched."""

    def most_issued(self) -> tuple[int, int]:
        """Return the highest number of subscriptions, and of advertisements, that one client has in force."""

    def civs(self, client: ClientId, handle: int) -> tuple[ClusterIndexVector, ClusterIndexVector] | None:
        """Return the stored CIV and the target clusters of the advertisement with a client's handle, or None.

        Brokers without CIVs always return None.
        """

    def check(self) -> None:
        """Raise InvariantBroken if an invariant does not hold."""

    @property
    def has_facts(self) -> bool:
        """True if ``drain_facts`` returns any."""

    def drain_facts(self) -> list[Fact | Routed]:
        """Remove and return the facts since the last call."""

    def fingerprint(self) -> str:
        """Return a digest of the whole state; equal states have equal digests, in any process."""
