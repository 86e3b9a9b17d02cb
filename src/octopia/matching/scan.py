"""The reference matcher: it reads every entry, using nothing but the relations of ``octopia.content``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from octopia.content import Disjunction, Publication, conforms, intersects, matches
from octopia.ids import AdvertisementId, BrokerId, Peer, SubscriptionId
from octopia.matching.interface import MatcherFactory, direction_of
from octopia.matching.matched import Match
from octopia.matching.numbering import Numbering
from octopia.protocol.directions import Directions


class ScanSubscriptions:
    """Subscriptions in a dictionary; every question reads all of them."""

    __slots__ = ("_entries", "_numbering", "_numbers")

    def __init__(self) -> None:
        self._entries: dict[SubscriptionId, tuple[Disjunction, Peer]] = {}
        self._numbers: dict[SubscriptionId, int] = {}
        self._numbering = Numbering()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, subscription: SubscriptionId, interest: Disjunction, link: Peer) -> int:
        """Store a subscription, and return its number."""
        self._entries[subscription] = (interest, link)
        self._numbers[subscription] = number = self._numbering.take(subscription)
        return number

    def remove(self, subscription: SubscriptionId) -> int:
        """Remove a stored subscription, and return the number that it had."""
        del self._entries[subscription]
        number = self._numbers.pop(subscription)
        self._numbering.give_back(number)
        return number

    def match(self, publication: Publication) -> Match:
        """Evaluate every subscription whose link has not matched ``publication`` yet."""
        links: dict[BrokerId, None] = {}
        local: list[int] = []
        for subscription, (interest, link) in self._entries.items():
            if link in links or not matches(interest, publication):
                continue
            if isinstance(link, BrokerId):
                links[link] = None
            else:
                local.append(self._numbers[subscription])
        return Match(tuple(sorted(links)), tuple(local))

    def match_many(self, publications: Sequence[Publication]) -> list[Match]:
        """Return the ``match`` of each publication."""
        return [self.match(publication) for publication in publications]

    def intersecting(self, advertisement: Disjunction) -> list[SubscriptionId]:
        """Return the subscriptions that intersect ``advertisement``, sorted by id."""
        return sorted(each for each, (interest, _) in self._entries.items() if intersects(advertisement, interest))

    def any_intersecting(self, advertisement: Disjunction) -> bool:
        """Return whether any subscription intersects ``advertisement``."""
        return any(intersects(advertisement, interest) for interest, _ in self._entries.values())

    def intersecting_from(self, advertisement: Disjunction, asked: Directions) -> Directions:
        """Return those of the directions ``asked`` from which a subscription came that intersects ``advertisement``."""
        intersecting = (link for interest, link in self._entries.values() if intersects(advertisement, interest))
        return asked & Directions.of(map(direction_of, intersecting))


class ScanAdvertisements:
    """Advertisements in a dictionary; every question reads all of them."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[AdvertisementId, tuple[Disjunction, Peer]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, advertisement: AdvertisementId, offer: Disjunction, link: Peer) -> None:
        """Store an advertisement."""
        self._entries[advertisement] = (offer, link)

    def remove(self, advertisement: AdvertisementId) -> None:
        """Remove a stored advertisement."""
        del self._entries[advertisement]

    def intersected_by(self, subscription: Disjunction) -> list[AdvertisementId]:
        """Return the advertisements that ``subscription`` intersects, sorted by id."""
        return sorted(each for each, (offer, _) in self._entries.items() if intersects(offer, subscription))

    def conforming(self, publication: Publication, link: Peer) -> list[AdvertisementId]:
        """Return the advertisements from ``link`` to which ``publication`` conforms, sorted by id."""
        return sorted(
            each for each, (offer, source) in self._entries.items() if source == link and conforms(offer, publication)
        )

    def conformity_with(self, link: Peer) -> Callable[[Publication], list[AdvertisementId]]:
        """Return a function that finds the advertisements from ``link`` to which a publication conforms."""
        return functools.partial(self.conforming, link=link)


SCAN = MatcherFactory(ScanSubscriptions, ScanAdvertisements)
