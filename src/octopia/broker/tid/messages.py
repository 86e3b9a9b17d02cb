"""What brokers that route by tree ids say to each other.

An advertisement's id is its tree id (TID): it names the tree of links over which the advertisement first reached every
broker. Subscriptions and publications are bound to a TID and keep to its tree. Clients speak to these brokers as they
speak to all others (``octopia.broker.messages``).
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from octopia.broker.kinds import MessageKind
from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, PublicationId, SubscriptionId

Tid: TypeAlias = AdvertisementId


class TidAdvertise(msgspec.Struct, frozen=True, tag=True):
    """Tell every broker of the overlay what a publisher will send; the id is the TID."""

    kind: ClassVar[MessageKind] = MessageKind.ADVERTISEMENT
    id: Tid
    offer: Disjunction
    ordered: bool = False


class TidUnadvertise(msgspec.Struct, frozen=True, tag=True):
    """Withdraw an advertisement, and with it all that is bound to its TID."""

    kind: ClassVar[MessageKind] = MessageKind.UNADVERTISEMENT
    id: Tid


class TidSubscribe(msgspec.Struct, frozen=True, tag=True):
    """One copy of a subscription, bound to the TID of one advertisement, on its way towards that publisher."""

    kind: ClassVar[MessageKind] = MessageKind.SUBSCRIPTION
    id: SubscriptionId
    interest: Disjunction
    tid: Tid


class TidUnsubscribe(msgspec.Struct, frozen=True, tag=True):
    """Withdraw all copies of a subscription that came over this link."""

    kind: ClassVar[MessageKind] = MessageKind.UNSUBSCRIPTION
    id: SubscriptionId


class TidPublish(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A publication on its way along the tree of ``tid``; ``hop`` counts the links between brokers it has crossed."""

    kind: ClassVar[MessageKind] = MessageKind.PUBLICATION
    id: PublicationId
    publication: Publication
    tid: Tid
    hop: int
    published_ms: float

    @property
    def traffic_class(self) -> int:
        """Always 0: nothing orders the queues of a general cyclic overlay, so there is one class, and no bound."""
        return 0


TidMessage: TypeAlias = TidAdvertise | TidUnadvertise | TidSubscribe | TidUnsubscribe | TidPublish
