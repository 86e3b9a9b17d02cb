"""The matching index: exact segment bitmaps over the subscriptions and advertisements of a broker.

The slots of each link lie in blocks of their own (``store``), and one probe a publication is asked of all of them
(``kernel``): a link is done at its first hit, names are gathered for local clients only. Questions about filters work
alike: a filter picks rows and intervals that rule most slots out, and the relations of ``octopia.content`` judge the
rest, so that the index answers as the scan does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from octopia.content import Disjunction, Filter, Publication, conforms, covers, intersects, matches
from octopia.ids import AdvertisementId, BrokerId, Peer, SubscriptionId
from octopia.matching import kernel
from octopia.matching.interface import Match, MatcherFactory
from octopia.matching.layout import CONTAINS, IS_ABSENT, IS_NEEDED, OVERLAPS, WITHIN
from octopia.matching.shapes import is_plain, shape_of
from octopia.matching.store import Place, Store

_LOCAL = "local clients"

FEW = 48
"""Up to so many entries, looking at each is faster than any index, and takes no memory."""
_NOTHING = Disjunction()


class IndexSubscriptions:
    """Subscriptions in an index, grouped by the neighbour that they came from; those of local clients are one group."""

    __slots__ = (
        "_entries",
        "_link_blocks",
        "_links",
        "_local_blocks",
        "_local_blocks",
        "_odd",
        "_places",
        "_possible",
        "_probe",
        "_repeats",
        "_store",
    )

    def __init__(self) -> None:
        self._store = Store()
        self._entries: dict[SubscriptionId, tuple[Disjunction, Peer]] = {}
        self._places: dict[SubscriptionId, list[Place]] = {}
        self._links: dict[BrokerId, int] = {}
        self._link_blocks: list[tuple[BrokerId, list[kernel.Block]]] = []
        self._local_blocks = self._store.blocks(_LOCAL)
        self._repeats = 0
        self._probe = kernel.Probe()
        self._possible: dict[SubscriptionId, bool] = {}
        self._odd: dict[SubscriptionId, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_subscriptions, (self._entries,)

    def add(self, subscription: SubscriptionId, interest: Disjunction, link: Peer) -> None:
        """Store a subscription."""
        self._entries[subscription] = (interest, link)
        if self._places:
            self._place(subscription, interest, link)
        elif len(self._entries) > FEW:
            for name, entry in self._entries.items():
                self._place(name, *entry)

    def _place(self, subscription: SubscriptionId, interest: Disjunction, link: Peer) -> None:
        group = link if isinstance(link, BrokerId) else _LOCAL
        self._places[subscription] = [self._store.add(group, subscription, each) for each in interest.filters]
        self._repeats += len(interest.filters) > 1
        if not all(map(is_plain, interest.filters)):
            self._odd[subscription] = None
        if isinstance(link, BrokerId):
            self._links[link] = self._links.get(link, 0) + 1
            if self._links[link] == 1:
                self._list_links()

    def remove(self, subscription: SubscriptionId) -> None:
        """Forget a stored subscription."""
        interest, link = self._entries.pop(subscription)
        self._possible.pop(subscription, None)
        if not self._places:
            return
        for place in self._places.pop(subscription):
            self._store.remove(place)
        self._odd.pop(subscription, None)
        self._repeats -= len(interest.filters) > 1
        if isinstance(link, BrokerId):
            self._links[link] -= 1
            if not self._links[link]:
                del self._links[link]
                self._list_links()

    def _list_links(self) -> None:
        """Keep the links in the order in which matches name them, each with its blocks."""
        self._link_blocks = [(link, self._store.blocks(link)) for link in sorted(self._links)]

    def match(self, publication: Publication) -> Match:
        """Return the links and local subscriptions that want ``publication``."""
        probe = self._probe
        if not self._places or not kernel.fill(probe, self._store.column_list, publication.attributes):
            return self._scan(publication)
        links = [link for link, own in self._link_blocks if kernel.any_match(own, probe)]
        found: list[SubscriptionId] = []
        kernel.collect_matches(self._local_blocks, probe, found)
        if self._repeats:
            found = list(dict.fromkeys(found))
        return Match(tuple(links), tuple(sorted(found)))

    def local_ids(self, publication: Publication) -> list[SubscriptionId]:
        """Return the local subscriptions that want ``publication``, in no particular order."""
        if not self._places or not kernel.fill(self._probe, self._store.column_list, publication.attributes):
            return list(self._scan(publication).local)
        found: list[SubscriptionId] = []
        kernel.collect_matches(self._local_blocks, self._probe, found)
        return list(dict.fromkeys(found)) if self._repeats else found

    def match_many(self, publications: Sequence[Publication]) -> list[Match]:
        """Return ``match`` of each."""
        return [self.match(publication) for publication in publications]

    def intersecting(self, advertisement: Disjunction) -> list[SubscriptionId]:
        """Return, in order of ids, the subscriptions that intersect ``advertisement``."""
        return sorted(dict.fromkeys(self._intersecting(advertisement)))

    def any_intersecting(self, advertisement: Disjunction) -> bool:
        """Tell whether some subscription intersects ``advertisement``."""
        return next(self._intersecting(advertisement), None) is not None

    def covering(self, interest: Disjunction) -> list[SubscriptionId]:
        """Return, in order of ids, the subscriptions that cover ``interest``."""
        possible = [each for each in interest.filters if not covers(_NOTHING, Disjunction((each,)))]
        if not possible:
            return sorted(self._entries)
        # Whatever covers the whole covers its first part, by one filter or another.
        found = dict.fromkeys(self._ask(possible[0], CONTAINS)) | self._odd
        return sorted(name for name in found if covers(self._entries[name][0], interest))

    def covered_by(self, interest: Disjunction) -> list[SubscriptionId]:
        """Return, in order of ids, the subscriptions that ``interest`` covers."""
        found = dict.fromkeys(name for each in interest.filters for name in self._ask(each, WITHIN))
        found |= dict.fromkeys(self._impossible()) | self._odd
        return sorted(name for name in found if covers(interest, self._entries[name][0]))

    def size_bytes(self) -> int:
        """Return how many bytes the rows and intervals take."""
        return self._store.size_bytes()

    def _scan(self, publication: Publication) -> Match:
        """Look at every entry: where there are few, and for integers that no double can stand for."""
        wanted = [(name, link) for name, (interest, link) in self._entries.items() if matches(interest, publication)]
        links = dict.fromkeys(link for _, link in wanted if isinstance(link, BrokerId))
        local = [name for name, link in wanted if not isinstance(link, BrokerId)]
        return Match(tuple(sorted(links)), tuple(sorted(local)))

    def _intersecting(self, advertisement: Disjunction) -> Iterator[SubscriptionId]:
        # What rows and intervals cannot be asked about as a whole is asked one by one.
        is_plain_all = bool(self._places) and all(map(is_plain, advertisement.filters))
        for name in self._odd if is_plain_all else self._entries:
            if intersects(advertisement, self._entries[name][0]):
                yield name
        for offer in advertisement.filters if is_plain_all else ():
            alone = Disjunction((offer,))
            self._probe_offer(offer)
            for name, interest in _candidates(self._store.all_blocks(), self._probe):
                if intersects(alone, Disjunction((interest,))):
                    yield name

    def _probe_offer(self, offer: Filter) -> None:
        """Rule out what requires an undeclared attribute, or other values of a declared one."""
        probe = self._probe
        probe.clear({}, len(self._store.column_list))
        for column in self._store.column_list:
            if column.name not in offer.by_attribute:
                probe.ask(column.number, IS_ABSENT)
            else:
                _ask_values(probe, column, offer, OVERLAPS)

    def _ask(self, interest: Filter, kind: int) -> Iterator[SubscriptionId]:
        """Yield the subscriptions with a slot that may cover a filter (CONTAINS), or be covered by it (WITHIN)."""
        if not self._places or not is_plain(interest):
            return iter(self._entries)
        probe = self._probe
        probe.clear({}, 2 * len(self._store.column_list))
        for column in self._store.column_list:
            required = column.name in interest.required
            if kind == CONTAINS and not required:
                probe.ask(column.number, IS_ABSENT)
            elif required:
                if kind == WITHIN:
                    probe.ask(column.number, IS_NEEDED)
                _ask_values(probe, column, interest, kind)
        if kind == WITHIN and any(name not in self._store.columns for name in interest.required):
            return iter(())
        return (name for name, _ in _candidates(self._store.all_blocks(), probe))

    def _impossible(self) -> list[SubscriptionId]:
        """Return the subscriptions with a filter that matches nothing: those are covered by anything."""
        for name, (interest, _) in self._entries.items():
            if name not in self._possible:
                parts = [covers(_NOTHING, Disjunction((each,))) for each in interest.filters]
                self._possible[name] = bool(parts) and not any(parts)
        return [name for name, possible in self._possible.items() if not possible]


class IndexAdvertisements:
    """Advertisements in an index; those of one publisher are few, so that they are also kept by link."""

    __slots__ = ("_by_link", "_entries", "_odd", "_places", "_probe", "_store")

    def __init__(self) -> None:
        self._store = Store(ignores_absence=True)
        self._entries: dict[AdvertisementId, tuple[Disjunction, Peer]] = {}
        self._places: dict[AdvertisementId, list[Place]] = {}
        self._by_link: dict[Peer, dict[AdvertisementId, Disjunction]] = {}
        self._odd: dict[AdvertisementId, None] = {}
        self._probe = kernel.Probe()

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_advertisements, (self._entries,)

    def add(self, advertisement: AdvertisementId, offer: Disjunction, link: Peer) -> None:
        """Store an advertisement."""
        self._entries[advertisement] = (offer, link)
        self._by_link.setdefault(link, {})[advertisement] = offer
        if self._places:
            self._place(advertisement, offer)
        elif len(self._entries) > FEW:
            for name, (content, _) in self._entries.items():
                self._place(name, content)

    def _place(self, advertisement: AdvertisementId, offer: Disjunction) -> None:
        self._places[advertisement] = [self._store.add(_LOCAL, advertisement, each) for each in offer.filters]
        if not all(map(is_plain, offer.filters)):
            self._odd[advertisement] = None

    def remove(self, advertisement: AdvertisementId) -> None:
        """Forget a stored advertisement."""
        _, link = self._entries.pop(advertisement)
        self._odd.pop(advertisement, None)
        del self._by_link[link][advertisement]
        if not self._by_link[link]:
            del self._by_link[link]
        for place in self._places.pop(advertisement, ()):
            self._store.remove(place)

    def intersected_by(self, subscription: Disjunction) -> list[AdvertisementId]:
        """Return, in order of ids, the advertisements that ``subscription`` intersects."""
        is_odd = not self._places or not all(map(is_plain, subscription.filters))
        one_by_one = self._entries if is_odd else self._odd
        found = {name: None for name in one_by_one if intersects(self._entries[name][0], subscription)}
        for interest in () if is_odd else subscription.filters:
            alone = Disjunction((interest,))
            if self._probe_interest(interest):
                for name, offer in _candidates(self._store.all_blocks(), self._probe):
                    if name not in found and intersects(Disjunction((offer,)), alone):
                        found[name] = None
        return sorted(found)

    def conforming(self, publication: Publication, link: Peer) -> list[AdvertisementId]:
        """Return, in order of ids, the advertisements from ``link`` to which ``publication`` conforms."""
        own = self._by_link.get(link, {})
        return sorted(each for each, offer in own.items() if conforms(offer, publication))

    def _probe_interest(self, interest: Filter) -> bool:
        """Ask for what declares all that is required, with values that could be; False if nothing declares it all."""
        probe = self._probe
        probe.clear({}, 2 * len(interest.required))
        for name in interest.required:
            column = self._store.columns.get(name)
            if column is None:
                return False
            probe.ask(column.number, IS_NEEDED)
            _ask_values(probe, column, interest, OVERLAPS)
        return True


def _ask_values(probe: kernel.Probe, column: kernel.Column, given: Filter, kind: int) -> None:
    """Ask about the values that a filter takes for an attribute, where rows and intervals know about such."""
    shape = shape_of(given.required.get(column.name, ()))
    text = shape.only_text
    if text is not None and kind == OVERLAPS:
        probe.ask_text(column.number, text)
    elif shape.is_about_numbers and shape.low <= shape.high:
        probe.ask_numbers(column, kind, shape.low, shape.high)


def _candidates(blocks: list[kernel.Block], probe: kernel.Probe) -> Iterator[tuple[Any, Filter]]:
    """Yield what a probe does not rule out, block by block: whoever needs only one need not wait for all."""
    for block in blocks:
        found: list[tuple[Any, Filter]] = []
        kernel.collect_candidates([block], probe, found)
        yield from found


def _restore_subscriptions(entries: dict[SubscriptionId, tuple[Disjunction, Peer]]) -> IndexSubscriptions:
    restored = IndexSubscriptions()
    for subscription, (interest, link) in entries.items():
        restored.add(subscription, interest, link)
    return restored


def _restore_advertisements(entries: dict[AdvertisementId, tuple[Disjunction, Peer]]) -> IndexAdvertisements:
    restored = IndexAdvertisements()
    for advertisement, (offer, link) in entries.items():
        restored.add(advertisement, offer, link)
    return restored


INDEX = MatcherFactory(IndexSubscriptions, IndexAdvertisements)
