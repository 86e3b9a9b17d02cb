"""The seam between brokers and whatever finds matches for them.

A broker asks two kinds of question. To forward a publication it needs the *links* that want it, and subscriptions only
of its own clients: ``Match`` says just that, so that an index may stop at the first hit of a link. To keep
cluster index vectors true it needs to know which advertisements and subscriptions intersect.

Publications that arrived together are matched together (``match_many``); nothing that a broker does between two
publications of one batch changes the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, BrokerId, Peer, SubscriptionId


class Match(msgspec.Struct, frozen=True):
    """Who wants a publication: neighbours in order of ids, and subscriptions of local clients by number, in any order.

    The numbers are those that ``Subscriptions.add`` gave.
    """

    links: tuple[BrokerId, ...]
    local: Sequence[int]


class Subscriptions(Protocol):
    """The subscriptions that a broker knows, each with the link it came from."""

    def __len__(self) -> int:
        """Count the subscriptions."""

    def add(self, subscription: SubscriptionId, interest: Disjunction, link: Peer) -> int:
        """Store a subscription, whose id must be new, and return its number.

        Numbers are small; that of a subscription that is removed may be given again.
        """

    def remove(self, subscription: SubscriptionId) -> int:
        """Forget a stored subscription, and return the number that it had."""

    def match(self, publication: Publication) -> Match:
        """Return the links and local subscriptions that want ``publication``."""

    def match_many(self, publications: Sequence[Publication]) -> list[Match]:
        """Return ``match`` of each."""

    def intersecting(self, advertisement: Disjunction) -> list[SubscriptionId]:
        """Return, in order of ids, the subscriptions that intersect ``advertisement``."""

    def any_intersecting(self, advertisement: Disjunction) -> bool:
        """Tell whether some subscription intersects ``advertisement``."""


class Advertisements(Protocol):
    """The advertisements that a broker knows, each with the link it came from."""

    def __len__(self) -> int:
        """Count the advertisements."""

    def add(self, advertisement: AdvertisementId, offer: Disjunction, link: Peer) -> None:
        """Store an advertisement; its id must be new."""

    def remove(self, advertisement: AdvertisementId) -> None:
        """Forget a stored advertisement."""

    def intersected_by(self, subscription: Disjunction) -> list[AdvertisementId]:
        """Return, in order of ids, the advertisements that ``subscription`` intersects."""

    def conforming(self, publication: Publication, link: Peer) -> list[AdvertisementId]:
        """Return, in order of ids, the advertisements from ``link`` to which ``publication`` conforms."""


class MatcherFactory(NamedTuple):
    """How a broker makes its matchers."""

    subscriptions: type[Subscriptions]
    advertisements: type[Advertisements]
