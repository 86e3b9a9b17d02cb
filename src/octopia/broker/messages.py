"""All that travels over links: what two brokers say to each other, what clients ask, and what they are told.

Messages are immutable values; one object may stand in several queues. ``MessageKind`` counts what brokers say to each
other in the paper's terms. A client names its advertisements and subscriptions by *handles* of its own choice, so that
it may go on talking before it was answered; the host broker mints the ids that brokers use among each other.

What there are many of is made with ``gc=False``: a message can be part of no cycle, so that the garbage collector need
not look at it again and again.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from octopia.broker.civ import ClusterIndexVector
from octopia.broker.kinds import MessageKind
from octopia.broker.tid.messages import TidMessage, TidPublish
from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, BrokerId, PublicationId, SubscriptionId


class Version(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The age of a CIV update (D4): a secondary broker's incarnation, then a number that it counts up."""

    incarnation: int
    number: int


_HEADER_BYTES = 40


# Between brokers.


class Advertise(msgspec.Struct, frozen=True, tag=True):
    """Tell the brokers of the host region what a publisher will send."""

    kind: ClassVar[MessageKind] = MessageKind.ADVERTISEMENT
    id: AdvertisementId
    offer: Disjunction


class Unadvertise(msgspec.Struct, frozen=True, tag=True):
    """Withdraw an advertisement."""

    kind: ClassVar[MessageKind] = MessageKind.UNADVERTISEMENT
    id: AdvertisementId


class Subscribe(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Tell the brokers of the host cluster what a subscriber wants."""

    kind: ClassVar[MessageKind] = MessageKind.SUBSCRIPTION
    id: SubscriptionId
    interest: Disjunction


class Unsubscribe(msgspec.Struct, frozen=True, tag=True):
    """Withdraw a subscription."""

    kind: ClassVar[MessageKind] = MessageKind.UNSUBSCRIPTION
    id: SubscriptionId


class CivSet(msgspec.Struct, frozen=True, tag=True):
    """Tell the host broker that the sender's cluster now wants these advertisements (D3)."""

    kind: ClassVar[MessageKind] = MessageKind.CIV_SET
    advertisements: tuple[AdvertisementId, ...]
    version: Version


class CivUnset(msgspec.Struct, frozen=True, tag=True):
    """Tell the host broker that the sender's cluster no longer wants these advertisements (D3)."""

    kind: ClassVar[MessageKind] = MessageKind.CIV_UNSET
    advertisements: tuple[AdvertisementId, ...]
    version: Version


class Publish(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A publication on its way; ``hop`` counts the links between brokers that it has crossed.

    ``publication_civ`` names the clusters that this copy must still reach; a plain copy carries none.
    """

    kind: ClassVar[MessageKind] = MessageKind.PUBLICATION
    id: PublicationId
    publication: Publication
    publication_civ: ClusterIndexVector | None
    hop: int
    published_ms: float

    @property
    def traffic_class(self) -> int:
        """The number of clusters left to reach, which orders queues so that no ring of them can wait for itself."""
        return len(self.publication_civ) if self.publication_civ is not None else 0


# Between brokers: confirmations (D5).


class CivNone(msgspec.Struct, frozen=True, tag=True):
    """Answer advertisements that the sender's cluster does not want; one that it wants is answered by CivSet."""

    kind: ClassVar[MessageKind] = MessageKind.CONFIRMATION
    advertisements: tuple[AdvertisementId, ...]
    version: Version


class CivAck(msgspec.Struct, frozen=True, tag=True):
    """Tell a secondary broker which version of its bits the host broker now holds, advertisement by advertisement."""

    kind: ClassVar[MessageKind] = MessageKind.CONFIRMATION
    stored: tuple[tuple[AdvertisementId, Version], ...]


class Confirm(msgspec.Struct, frozen=True, tag=True):
    """Tell the hop that subscriptions came from that they are in force here and beyond."""

    kind: ClassVar[MessageKind] = MessageKind.CONFIRMATION
    subscriptions: tuple[SubscriptionId, ...]


# Between brokers: the exchange when a link comes up.


class SubscriptionDigest(msgspec.Struct, frozen=True, tag=True):
    """Over an aLink: all subscriptions that the receiver should know from the sender.

    ``unconfirmed`` are those whose confirmation the sender still waits for. Only a ``complete`` digest says that what
    it does not name is gone.
    """

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    subscriptions: tuple[SubscriptionId, ...]
    unconfirmed: tuple[SubscriptionId, ...]
    complete: bool


class AdvertisementDigest(msgspec.Struct, frozen=True, tag=True):
    """Over an iLink: all advertisements that the sender hosts; always complete."""

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    advertisements: tuple[AdvertisementId, ...]


class CivState(msgspec.Struct, frozen=True, tag=True):
    """Over an iLink, in answer to a digest: the sender's bit of every advertisement that both sides know."""

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    wanted: tuple[AdvertisementId, ...]
    unwanted: tuple[AdvertisementId, ...]
    version: Version


class Fetch(msgspec.Struct, frozen=True, tag=True):
    """Ask for what a digest named and the sender does not have; it comes as Subscribe and Advertise messages."""

    kind: ClassVar[MessageKind] = MessageKind.SYNC
    subscriptions: tuple[SubscriptionId, ...] = ()
    advertisements: tuple[AdvertisementId, ...] = ()


CivUpdate: TypeAlias = CivSet | CivUnset | CivNone | CivState
Confirmation: TypeAlias = CivNone | CivAck | Confirm
Sync: TypeAlias = SubscriptionDigest | AdvertisementDigest | CivState | Fetch
BrokerMessage: TypeAlias = (
    Advertise | Unadvertise | Subscribe | Unsubscribe | CivSet | CivUnset | Publish | Confirmation | Sync
)


# From a client to its host broker.


class AdvertiseRequest(msgspec.Struct, frozen=True, tag=True):
    """A publisher says what it will send; ``ordered`` asks for static paths, which keep its order.

    ``timeout_ms`` is how long it is ready to wait for the confirmation; 0 is for ever.
    """

    handle: int
    offer: Disjunction
    ordered: bool = False
    timeout_ms: float = 0.0


class UnadvertiseRequest(msgspec.Struct, frozen=True, tag=True):
    """A publisher withdraws what it advertised as ``handle``."""

    handle: int


class SubscribeRequest(msgspec.Struct, frozen=True, tag=True):
    """A subscriber says what it wants, and how long it is ready to wait for the confirmation; 0 is for ever."""

    handle: int
    interest: Disjunction
    timeout_ms: float = 0.0


class UnsubscribeRequest(msgspec.Struct, frozen=True, tag=True):
    """A subscriber withdraws what it subscribed to as ``handle``."""

    handle: int


class PublishRequest(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A publisher sends a publication; ``sequence`` is its own number for it."""

    sequence: int
    publication: Publication
    published_ms: float


ClientRequest: TypeAlias = (
    AdvertiseRequest | UnadvertiseRequest | SubscribeRequest | UnsubscribeRequest | PublishRequest
)


# From a host broker to its client.


class Deliver(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A publication for a client, naming all of its subscriptions that match, by handle."""

    id: PublicationId
    publication: Publication
    handles: tuple[int, ...]
    hop: int
    published_ms: float


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A request that was not carried out: ``request`` is its type, ``number`` its handle or sequence."""

    request: str
    number: int
    reason: str


class Confirmed(msgspec.Struct, frozen=True, tag=True):
    """An advertisement or subscription that is in force everywhere it has to be (D5)."""

    request: str
    number: int


class Unconfirmed(msgspec.Struct, frozen=True, tag=True):
    """A request that was not confirmed in time, with the brokers that are still missing; it stays in force."""

    request: str
    number: int
    missing: tuple[BrokerId, ...]


class CutOff(msgspec.Struct, frozen=True, tag=True):
    """The last thing a client is told when it was too slow: how many deliveries it lost."""

    lost: int


class Lost(msgspec.Struct, frozen=True, tag=True):
    """How many deliveries a client has missed here since it was last told, because it chose to drop the oldest."""

    deliveries: int


class Gap(msgspec.Struct, frozen=True, tag=True):
    """The broker began to admit publications before it knew all of its cluster again: some may have passed it by."""


ClientReply: TypeAlias = Deliver | Refused | Confirmed | Unconfirmed | CutOff | Lost | Gap

NeighbourMessage: TypeAlias = BrokerMessage | TidMessage
"""What travels between brokers of any kind."""

Message: TypeAlias = NeighbourMessage | ClientRequest | ClientReply

Copy: TypeAlias = Publish | TidPublish
"""A publication between brokers."""

Data: TypeAlias = Copy | Deliver
"""What waits in the data lanes of a queue."""


def size_of(message: Data | PublishRequest) -> int:
    """Return about how many bytes a message with a publication takes on a link."""
    return _HEADER_BYTES + message.publication.size
