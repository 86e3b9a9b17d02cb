"""The messages that travel over links: between brokers, from clients to their host broker, and back.

Messages are immutable values, so one object may wait in several queues. Every message knows its traffic class and its
size in bytes: control messages have the class ``CONTROL`` and need no credit, data messages carry a publication.
``MessageKind`` counts messages between brokers in the paper's terms.

A client names its advertisements and subscriptions by *handles* that it chooses, so it need not wait for an answer.
The host broker mints the ids that brokers use.

Frequent messages are declared with ``gc=False``: a message is never part of a cycle, so the garbage collector can skip
it.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeAlias

import msgspec

from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, BrokerId, PublicationId, SubscriptionId
from octopia.protocol.causes import Cause
from octopia.protocol.civ import ClusterIndexVector
from octopia.protocol.detours import Detour as Detour
from octopia.protocol.directions import Directions
from octopia.protocol.handshake import Name
from octopia.protocol.kinds import MessageKind
from octopia.protocol.traffic import CONTROL
from octopia.protocol.transit import Data as Data
from octopia.protocol.transit import Deliver as Deliver
from octopia.protocol.transit import Publish as Publish
from octopia.protocol.transit import PublishRequest as PublishRequest


class Message(Protocol):
    """Anything that travels over a link."""

    @property
    def traffic_class(self) -> int:
        """The class of data, or ``CONTROL``."""

    @property
    def size_bytes(self) -> int:
        """The approximate size on a link; 0 for messages without a publication."""


class NeighbourMessage(Message, Protocol):
    """A message between brokers, of any routing scheme."""

    @property
    def kind(self) -> MessageKind:
        """The kind under which it is counted and traced."""


class Copy(NeighbourMessage, Protocol):
    """A copy of a publication between brokers, of any routing scheme."""

    @property
    def id(self) -> PublicationId:
        """The id that the host broker gave the publication."""

    @property
    def publication(self) -> Publication:
        """Its content."""

    @property
    def publication_civ(self) -> ClusterIndexVector | None:
        """The clusters that this copy must still reach, or None."""

    @property
    def hop(self) -> int:
        """The number of links between brokers that it has crossed."""

    @property
    def published_ms(self) -> float:
        """The time at which the publisher sent it."""


class Control(msgspec.Struct, frozen=True, tag=True):
    """A message without a publication. It needs no credit and goes ahead of data."""

    traffic_class: ClassVar[int] = CONTROL
    size_bytes: ClassVar[int] = 0


class Version(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The age of a CIV update (D4): a secondary broker's incarnation, then a number that it counts up."""

    incarnation: int
    number: int


# Between brokers.


class Advertise(Control, frozen=True):
    """An advertisement, sent to the brokers of the host region."""

    kind: ClassVar[MessageKind] = MessageKind.ADVERTISEMENT
    id: AdvertisementId
    offer: Disjunction


class Unadvertise(Control, frozen=True):
    """The withdrawal of an advertisement."""

    kind: ClassVar[MessageKind] = MessageKind.UNADVERTISEMENT
    id: AdvertisementId


class Subscribe(Control, frozen=True, gc=False):
    """A subscription, sent to the brokers of the host cluster."""

    kind: ClassVar[MessageKind] = MessageKind.SUBSCRIPTION
    id: SubscriptionId
    interest: Disjunction


class Unsubscribe(Control, frozen=True):
    """The withdrawal of a subscription."""

    kind: ClassVar[MessageKind] = MessageKind.UNSUBSCRIPTION
    id: SubscriptionId


class CivSet(Control, frozen=True, omit_defaults=True):
    """A notice to the host broker: the sender's cluster now wants these advertisements (D3).

    Under adaptive routing, ``directions`` says which parts of the cluster want each of them, old and new.
    """

    kind: ClassVar[MessageKind] = MessageKind.CIV_SET
    advertisements: tuple[AdvertisementId, ...]
    version: Version
    directions: tuple[Directions, ...] = ()


class CivUnset(Control, frozen=True, omit_defaults=True):
    """A notice to the host broker: the sender's cluster no longer wants these advertisements (D3).

    Under adaptive routing, ``directions`` says which parts of the cluster still want each of them.
    """

    kind: ClassVar[MessageKind] = MessageKind.CIV_UNSET
    advertisements: tuple[AdvertisementId, ...]
    version: Version
    directions: tuple[Directions, ...] = ()


# Between brokers: confirmations (D5).


class CivNone(Control, frozen=True):
    """The answer to advertisements that the sender's cluster does not want; others are answered with CivSet."""

    kind: ClassVar[MessageKind] = MessageKind.CONFIRMATION
    advertisements: tuple[AdvertisementId, ...]
    version: Version


class CivAck(Control, frozen=True):
    """The versions of a secondary broker's bits that the host broker now holds, by advertisement."""

    kind: ClassVar[MessageKind] = MessageKind.CONFIRMATION
    stored: tuple[tuple[AdvertisementId, Version], ...]


class Confirm(Control, frozen=True):
    """A confirmation to the last hop: these subscriptions are in force here and beyond."""

    kind: ClassVar[MessageKind] = MessageKind.CONFIRMATION
    subscriptions: tuple[SubscriptionId, ...]


# Between brokers: the exchange at link up.


class SubscriptionDigest(Control, frozen=True):
    """Over an aLink: all subscriptions that the receiver should know from the sender.

    ``unconfirmed`` are those whose confirmation the sender still waits for. A long digest comes in parts; each part
    after the first ``continues`` the one before, and only the last may be ``complete``. If it is, the receiver removes
    subscriptions that no part has named.
    """

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    subscriptions: tuple[SubscriptionId, ...]
    unconfirmed: tuple[SubscriptionId, ...]
    complete: bool
    continues: bool = False


class AdvertisementDigest(Control, frozen=True):
    """Over an iLink: all advertisements that the sender hosts.

    A long digest comes in parts; each part after the first ``continues`` the one before, and the last is ``complete``.
    The receiver then removes advertisements that no part has named.
    """

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    advertisements: tuple[AdvertisementId, ...]
    complete: bool = True
    continues: bool = False


class CivState(Control, frozen=True, omit_defaults=True):
    """Over an iLink, in answer to a part of a digest: the sender's bit for every advertisement that both sides know.

    Under adaptive routing, ``directions`` says which parts of the sender's cluster want each of the wanted ones.
    """

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    wanted: tuple[AdvertisementId, ...]
    unwanted: tuple[AdvertisementId, ...]
    version: Version
    directions: tuple[Directions, ...] = ()


class Fetch(Control, frozen=True):
    """A request for entries of a digest that the sender lacks, answered with Subscribe and Advertise messages."""

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    subscriptions: tuple[SubscriptionId, ...] = ()
    advertisements: tuple[AdvertisementId, ...] = ()


# Between brokers: losses.


class GapNotice(Control, frozen=True):
    """A notice that publications were lost on their way over this link, or on the way to it.

    It follows the tree of the receiver's cluster to all subscribers that may have missed them. It also enters the
    clusters whose bits are set in ``clusters``, as the publications would have. A ``count`` of 0 means that the number
    of lost publications is not known.
    """

    kind: ClassVar[MessageKind] = MessageKind.GAP
    cause: Cause
    count: int
    clusters: int = 0


# Between brokers: adaptive routing.


class LinkStatuses(Control, frozen=True):
    """Over an iLink: how much work waits for each congested aLink of the sender, and which of its links are down.

    ``congested`` maps regions to work. ``down_alinks`` are regions, ``down_ilinks`` has the bits of clusters.
    """

    kind: ClassVar[MessageKind] = MessageKind.STATUS
    congested: tuple[tuple[str, float], ...] = ()
    down_alinks: tuple[str, ...] = ()
    down_ilinks: int = 0


CivUpdate: TypeAlias = CivSet | CivUnset | CivNone | CivState
Confirmation: TypeAlias = CivNone | CivAck | Confirm
Sync: TypeAlias = SubscriptionDigest | AdvertisementDigest | CivState | Fetch
BrokerMessage: TypeAlias = (
    Advertise
    | Unadvertise
    | Subscribe
    | Unsubscribe
    | CivSet
    | CivUnset
    | Publish
    | Confirmation
    | Sync
    | GapNotice
    | LinkStatuses
)


# From a client to its host broker.


class AdvertiseRequest(Control, frozen=True):
    """A publisher's request to advertise; ``ordered`` asks for static paths, which keep the order of its publications.

    ``timeout_ms`` is the maximum wait for the confirmation, 0 for no limit.
    """

    handle: int
    offer: Disjunction
    ordered: bool = False
    timeout_ms: float = 0.0


class UnadvertiseRequest(Control, frozen=True):
    """A publisher's request to withdraw the advertisement with its ``handle``."""

    handle: int


class SubscribeRequest(Control, frozen=True):
    """A subscriber's request to subscribe; ``timeout_ms`` is the maximum wait for the confirmation, 0 for no limit.

    If the client loses its connection, the broker keeps its session for the longest ``keep_ms`` of its subscriptions,
    or for as long as it does anyway. A request that repeats the handle and the filter of a subscription changes its
    ``keep_ms``, and is confirmed again.
    """

    handle: int
    interest: Disjunction
    timeout_ms: float = 0.0
    keep_ms: float = 0.0


class UnsubscribeRequest(Control, frozen=True):
    """A subscriber's request to withdraw the subscription with its ``handle``."""

    handle: int


class ProduceRequest(Control, frozen=True):
    """A publisher's request to publish as a ``producer``, whose publications are numbered over all of its sessions.

    From now on, the host broker drops publications with a sequence that it has had from this producer.
    """

    producer: Name


ClientRequest: TypeAlias = (
    AdvertiseRequest | UnadvertiseRequest | SubscribeRequest | UnsubscribeRequest | ProduceRequest | PublishRequest
)


# From a host broker to its client.


class Refused(Control, frozen=True):
    """The refusal of a request: ``request`` is its type, ``number`` its handle or sequence."""

    request: str
    number: int
    reason: str


class Confirmed(Control, frozen=True):
    """The confirmation that an advertisement or subscription is in force everywhere it has to be (D5)."""

    request: str
    number: int


class Unconfirmed(Control, frozen=True):
    """A notice that a request was not confirmed in time, with the missing brokers; the request stays in force."""

    request: str
    number: int
    missing: tuple[BrokerId, ...]


class CutOff(Control, frozen=True):
    """The last message to a client that was too slow: the number of deliveries it lost."""

    lost: int


class Lost(Control, frozen=True):
    """The number of deliveries dropped since the last notice, to a client that chose to drop the oldest."""

    deliveries: int


class Gap(Control, frozen=True):
    """A notice that publications may be missing, with the cause and their number, which is 0 if it is unknown."""

    cause: Cause
    count: int = 0


class Produced(Control, frozen=True):
    """The answer to a ``ProduceRequest``: the highest sequence that this broker has had from the producer, or 0."""

    producer: str
    sequence: int


class Repeated(Control, frozen=True):
    """A notice that the broker dropped publications of a producer that it had before; ``last`` is the highest."""

    count: int
    last: int


ClientReply: TypeAlias = Deliver | Refused | Confirmed | Unconfirmed | CutOff | Lost | Gap | Produced | Repeated
