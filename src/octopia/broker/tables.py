"""The routing tables of a broker (paper sections 6 to 9).

- **Clt**, the Cluster Link Table: advertisements of publishers in this region, each with its CIV and last hop.
- **Prt**, the Publication Routing Table: subscriptions of this cluster, each with its last hop.
- The Link Status Table is derived from the output queues (``LinkStatus``) and not stored.

A table stores the entries of the paper; the matcher behind it answers questions about content.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import msgspec

from octopia.broker.adaptive_routing import Audience
from octopia.broker.numbered import Numbered
from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.markers import Derived, History
from octopia.matching import Advertisements, Match, Subscriptions
from octopia.protocol import ClusterIndexVector
from octopia.protocol.directions import NOWHERE, Directions
from octopia.protocol.messages import Version


@dataclasses.dataclass(slots=True)
class CltEntry:
    """An advertisement; ``civ`` is its advertisement_civ at the host broker, its subscription_civ elsewhere.

    At the host broker, ``versions`` holds the version of the last update from each secondary broker. ``pending`` holds
    the secondary brokers that have not answered, or whose link was lost since: they count as 1 (D4). At a secondary
    broker, ``directions`` is its answer, ``sent`` the version of its last update, and ``acked`` the last version that
    the host broker has acknowledged.

    Only adaptive routing uses ``held`` and ``audience``, at the host broker. ``held`` has the last answer of each
    secondary broker. It stays when the link is lost, and goes when the secondary broker has lost its state.
    ``audience`` caches what follows from the answers, and is None after a change.
    """

    id: AdvertisementId
    offer: Disjunction
    last_hop: Peer
    civ: ClusterIndexVector
    ordered: bool = False
    versions: dict[BrokerId, Version] = dataclasses.field(default_factory=dict)
    pending: dict[BrokerId, None] = dataclasses.field(default_factory=dict)
    directions: Directions = NOWHERE
    sent: Version | None = None
    acked: Version | None = None
    held: dict[BrokerId, Directions] = dataclasses.field(default_factory=dict)
    audience: Derived[Audience | None] = None

    @property
    def is_hosted_here(self) -> bool:
        """True if the publisher is a client of this broker."""
        return isinstance(self.last_hop, ClientId)

    @property
    def routing_civ(self) -> ClusterIndexVector:
        """The clusters that publications go to, pending ones too: a needless copy is cheaper than a loss (D4)."""
        civ = self.civ
        for secondary in self.pending:
            civ = civ.with_bit(secondary.cluster)
        return civ

    @property
    def awaits_ack(self) -> bool:
        """True if the host broker has not acknowledged the last update of this secondary broker."""
        return self.sent is not None and (self.acked is None or self.acked < self.sent)

    def answer(self, cluster: int, directions: Directions) -> None:
        """Change the answer of this secondary broker, whose cluster is ``cluster``."""
        self.directions = directions
        self.civ = self.civ.with_bit(cluster) if directions else self.civ.without_bit(cluster)

    def await_answer(self, secondary: BrokerId) -> None:
        """Count a secondary broker as interested until it answers again (D4)."""
        self.pending[secondary] = None
        self.audience = None


class PrtEntry(msgspec.Struct, frozen=True, gc=False):
    """A subscription and the hop towards its subscriber."""

    id: SubscriptionId
    interest: Disjunction
    last_hop: Peer


class Clt:
    """The Cluster Link Table."""

    __slots__ = ("_entries", "_matcher")
    _matcher: Derived[Advertisements]

    def __init__(self, matcher: Advertisements):
        self._entries: dict[AdvertisementId, CltEntry] = {}
        self._matcher = matcher

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CltEntry]:
        """Yield the entries in order of insertion."""
        return iter(self._entries.values())

    def __contains__(self, advertisement: AdvertisementId) -> bool:
        return advertisement in self._entries

    def get(self, advertisement: AdvertisementId) -> CltEntry | None:
        """Return an entry, or None if the advertisement is unknown."""
        return self._entries.get(advertisement)

    def add(self, entry: CltEntry) -> None:
        """Store a new entry."""
        self._entries[entry.id] = entry
        self._matcher.add(entry.id, entry.offer, entry.last_hop)

    def remove(self, advertisement: AdvertisementId) -> CltEntry:
        """Remove and return an entry."""
        self._matcher.remove(advertisement)
        return self._entries.pop(advertisement)

    def intersected_by(self, interest: Disjunction) -> list[CltEntry]:
        """Return the entries whose advertisement intersects ``interest``, by id."""
        return [self._entries[each] for each in self._matcher.intersected_by(interest)]

    def __getitem__(self, advertisement: AdvertisementId) -> CltEntry:
        return self._entries[advertisement]

    def conformity_with(self, publisher: ClientId) -> Callable[[Publication], list[AdvertisementId]]:
        """Return a function that finds the publisher's own advertisements to which a publication conforms, by id.

        It holds until an advertisement comes or goes.
        """
        return self._matcher.conformity_with(publisher)

    def conforming(self, publication: Publication, publisher: ClientId) -> list[CltEntry]:
        """Return the publisher's own entries to which ``publication`` conforms, by id."""
        return [self._entries[each] for each in self._matcher.conforming(publication, publisher)]


class Prt:
    """The Publication Routing Table."""

    __slots__ = ("_entries", "_matcher", "_numbered", "version")
    _matcher: Derived[Subscriptions]
    _numbered: Derived[Numbered[SubscriptionId]]
    version: History[int]
    """The number of changes so far; what was found in one version holds until the next."""

    def __init__(self, matcher: Subscriptions):
        self._entries: dict[SubscriptionId, PrtEntry] = {}
        self._numbered = Numbered()
        self._matcher = matcher
        self.version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[PrtEntry]:
        """Yield the entries in order of insertion."""
        return iter(self._entries.values())

    def __contains__(self, subscription: SubscriptionId) -> bool:
        return subscription in self._entries

    def __getitem__(self, subscription: SubscriptionId) -> PrtEntry:
        return self._entries[subscription]

    def get(self, subscription: SubscriptionId) -> PrtEntry | None:
        """Return an entry, or None if the subscription is unknown."""
        return self._entries.get(subscription)

    def add(self, entry: PrtEntry) -> None:
        """Store a new entry."""
        self.version += 1
        self._entries[entry.id] = entry
        self._numbered.add(self._matcher.add(entry.id, entry.interest, entry.last_hop), entry.id)

    def remove(self, subscription: SubscriptionId) -> PrtEntry:
        """Remove and return an entry."""
        self.version += 1
        self._numbered.remove(self._matcher.remove(subscription))
        return self._entries.pop(subscription)

    def named(self, numbers: bytes) -> tuple[SubscriptionId, ...]:
        """Return the subscriptions of ``Match.numbers``; equal numbers mostly give the same tuple object."""
        return self._numbered.all(numbers)

    def match_many(self, publications: list[Publication]) -> list[Match]:
        """Return, for each publication, the links and the local subscriptions that want it; the latter in any order."""
        return self._matcher.match_many(publications)

    def any_intersecting(self, offer: Disjunction) -> bool:
        """Return whether a subscription of this cluster intersects ``offer``."""
        return self._matcher.any_intersecting(offer)

    def intersecting_from(self, offer: Disjunction, asked: Directions) -> Directions:
        """Return those of the directions ``asked`` from which a subscription came that intersects ``offer``."""
        return self._matcher.intersecting_from(offer, asked)
