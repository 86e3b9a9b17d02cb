"""The interface between brokers and matchers.

A broker asks two kinds of question. To forward a publication it needs the *links* that match, and the subscriptions of
its own clients only. ``Match`` holds exactly that, so an index may stop at the first match of a link. To keep cluster
index vectors correct it needs the advertisements and subscriptions that intersect.

Publications that arrive together are matched together (``match_many``); a broker never changes the tables between two
publications of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, BrokerId, Peer, SubscriptionId
from octopia.matching.matched import Match
from octopia.protocol.directions import Directions
from octopia.protocol.duties import HERE


class Subscriptions(Protocol):
    """The subscriptions that a broker knows, each with the link it came from."""

    def __len__(self) -> int:
        """Return the number of subscriptions."""

    def add(self, subscription: SubscriptionId, interest: Disjunction, link: Peer) -> int:
        """Store a subscription, whose id must be new, and return its number.

        Numbers are small; the number of a removed subscription may be used again.
        """

    def remove(self, subscription: SubscriptionId) -> int:
        """Remove a stored subscription, and return the number that it had."""

    def match(self, publication: Publication) -> Match:
        """Return the links and local subscriptions that match ``publication``."""

    def match_many(self, publications: Sequence[Publication]) -> list[Match]:
        """Return the ``match`` of each publication."""

    def intersecting(self, advertisement: Disjunction) -> list[SubscriptionId]:
        """Return the subscriptions that intersect ``advertisement``, sorted by id."""

    def any_intersecting(self, advertisement: Disjunction) -> bool:
        """Return whether any subscription intersects ``advertisement``."""

    def intersecting_from(self, advertisement: Disjunction, asked: Directions) -> Directions:
        """Return those of the directions ``asked`` from which a subscription came that intersects ``advertisement``."""


class Advertisements(Protocol):
    """The advertisements that a broker knows, each with the link it came from."""

    def __len__(self) -> int:
        """Return the number of advertisements."""

    def add(self, advertisement: AdvertisementId, offer: Disjunction, link: Peer) -> None:
        """Store an advertisement; its id must be new."""

    def remove(self, advertisement: AdvertisementId) -> None:
        """Remove a stored advertisement."""

    def intersected_by(self, subscription: Disjunction) -> list[AdvertisementId]:
        """Return the advertisements that ``subscription`` intersects, sorted by id."""

    def conforming(self, publication: Publication, link: Peer) -> list[AdvertisementId]:
        """Return the advertisements from ``link`` to which ``publication`` conforms, sorted by id."""

    def conformity_with(self, link: Peer) -> Callable[[Publication], list[AdvertisementId]]:
        """Return a function that finds the advertisements from ``link`` to which a publication conforms.

        It holds until an advertisement is added or removed.
        """


class MatcherFactory(NamedTuple):
    """The two classes of a matcher, for brokers to instantiate."""

    subscriptions: type[Subscriptions]
    advertisements: type[Advertisements]


def direction_of(link: Peer) -> str:
    """Return the direction that a link leads to: the region of a neighbour, or ``HERE`` for a client."""
    return link.region if isinstance(link, BrokerId) else HERE
