"""All that travels over links: what two brokers say to each other, what clients ask, and what they are told.

Messages are immutable values; one object may stand in several queues. ``MESSAGE_KINDS`` counts what brokers say to each
other in the paper's terms. A client names its advertisements and subscriptions by *handles* of its own choice, so that
it may go on talking before it was answered; the host broker mints the ids that brokers use among each other.
"""

from __future__ import annotations

import enum
from typing import ClassVar, TypeAlias

import msgspec

from octopia.broker.civ import ClusterIndexVector
from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, PublicationId, SubscriptionId


class MessageKind(enum.StrEnum):
    """The kinds of message between brokers, as they are counted and traced."""

    ADVERTISEMENT = "advertisement"
    UNADVERTISEMENT = "unadvertisement"
    SUBSCRIPTION = "subscription"
    UNSUBSCRIPTION = "unsubscription"
    CIV_SET = "civ_set"
    CIV_UNSET = "civ_unset"
    PUBLICATION = "publication"
    CONFIRMATION = "confirmation"
    SYNC = "sync"


class Version(msgspec.Struct, frozen=True, order=True, array_like=True):
    """The age of a CIV update (D4): a secondary broker's incarnation, then a number that it counts up."""

    incarnation: int
    number: int


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


class Subscribe(msgspec.Struct, frozen=True, tag=True):
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


class Publish(msgspec.Struct, frozen=True, tag=True):
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


BrokerMessage: TypeAlias = Advertise | Unadvertise | Subscribe | Unsubscribe | CivSet | CivUnset | Publish


# From a client to its host broker.


class AdvertiseRequest(msgspec.Struct, frozen=True, tag=True):
    """A publisher says what it will send; ``ordered`` asks for static paths, which keep its order."""

    handle: int
    offer: Disjunction
    ordered: bool = False


class UnadvertiseRequest(msgspec.Struct, frozen=True, tag=True):
    """A publisher withdraws what it advertised as ``handle``."""

    handle: int


class SubscribeRequest(msgspec.Struct, frozen=True, tag=True):
    """A subscriber says what it wants."""

    handle: int
    interest: Disjunction


class UnsubscribeRequest(msgspec.Struct, frozen=True, tag=True):
    """A subscriber withdraws what it subscribed to as ``handle``."""

    handle: int


class PublishRequest(msgspec.Struct, frozen=True, tag=True):
    """A publisher sends a publication; ``sequence`` is its own number for it."""

    sequence: int
    publication: Publication
    published_ms: float


ClientRequest: TypeAlias = (
    AdvertiseRequest | UnadvertiseRequest | SubscribeRequest | UnsubscribeRequest | PublishRequest
)


# From a host broker to its client.


class Deliver(msgspec.Struct, frozen=True, tag=True):
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


class CutOff(msgspec.Struct, frozen=True, tag=True):
    """The last thing a client is told when it was too slow: how many deliveries it lost."""

    lost: int


class Lost(msgspec.Struct, frozen=True, tag=True):
    """How many deliveries a client has missed here since it was last told, because it chose to drop the oldest."""

    deliveries: int


ClientReply: TypeAlias = Deliver | Refused | CutOff | Lost

Message: TypeAlias = BrokerMessage | ClientRequest | ClientReply
