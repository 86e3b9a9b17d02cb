"""The messages between TID brokers.

An advertisement's id is its tree id (TID). It names the tree of links over which the advertisement first reached every
broker. Subscriptions and publications are bound to a TID and keep to its tree. Clients use the same messages as with
any other broker (``octopia.protocol.messages``). The types register themselves with the wire format.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, PublicationId, SubscriptionId
from octopia.protocol import MessageKind
from octopia.protocol.messages import Control
from octopia.protocol.registry import REGISTRY, OtherCopies
from octopia.protocol.traffic import HEADER_BYTES

Tid: TypeAlias = AdvertisementId


class TidAdvertise(Control, frozen=True):
    """An advertisement, sent to every broker of the overlay; its id is the TID."""

    kind: ClassVar[MessageKind] = MessageKind.ADVERTISEMENT
    id: Tid
    offer: Disjunction
    ordered: bool = False


class TidUnadvertise(Control, frozen=True):
    """The withdrawal of an advertisement and of everything bound to its TID."""

    kind: ClassVar[MessageKind] = MessageKind.UNADVERTISEMENT
    id: Tid


class TidSubscribe(Control, frozen=True):
    """A copy of a subscription, bound to the TID of one advertisement, on its way towards that publisher."""

    kind: ClassVar[MessageKind] = MessageKind.SUBSCRIPTION
    id: SubscriptionId
    interest: Disjunction
    tid: Tid


class TidUnsubscribe(Control, frozen=True):
    """The withdrawal of all copies of a subscription that came over this link."""

    kind: ClassVar[MessageKind] = MessageKind.UNSUBSCRIPTION
    id: SubscriptionId


class TidPublish(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A publication on its way along the tree of ``tid``; ``hop`` counts the links between brokers it has crossed."""

    kind: ClassVar[MessageKind] = MessageKind.PUBLICATION
    # Nothing orders the queues of a general cyclic overlay, so there is one class without a limit.
    traffic_class: ClassVar[int] = 0
    publication_civ: ClassVar[None] = None
    id: PublicationId
    publication: Publication
    tid: Tid
    hop: int
    published_ms: float

    @property
    def size_bytes(self) -> int:
        """The approximate size on a link."""
        return HEADER_BYTES + self.publication.size


TidMessage: TypeAlias = TidAdvertise | TidUnadvertise | TidSubscribe | TidUnsubscribe | TidPublish


_to_tid = msgspec.msgpack.Decoder(AdvertisementId).decode


def _make_copy(
    name: PublicationId, publication: Publication, extra: bytes, hop: int, published_ms: float
) -> TidPublish:
    return TidPublish(name, publication, _to_tid(extra), hop, published_ms)


REGISTRY.register(
    (TidAdvertise, TidUnadvertise, TidSubscribe, TidUnsubscribe),
    OtherCopies(TidPublish, lambda message: msgspec.msgpack.encode(message.tid), _make_copy),
)
