"""The matching index: exact segment bitmaps over the subscriptions and advertisements of a broker.

Filters are stored in the slots of a ``store``. One probe per publication searches all of them (``probes``): a link is
done at its first match, and numbers are collected for local clients only. Questions about filters work the same way: a
filter picks rows and intervals that rule out most slots. If these describe the filter fully (ranges, single strings,
existence), the answer is final; the relations of ``octopia.content`` decide the rest, so that the index answers as the
scan does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec

from octopia.content import Disjunction, Filter, Publication, intersection_with, intersects, matches
from octopia.content.prepared import AnyFilter, plain
from octopia.ids import AdvertisementId, BrokerId, Peer, SubscriptionId
from octopia.matching import probes
from octopia.matching.blocks import Column
from octopia.matching.interface import MatcherFactory, direction_of
from octopia.matching.layout import IS_ABSENT, IS_NEEDED, LOCAL, OVERLAPS
from octopia.matching.matched import Match, Matcher
from octopia.matching.numbering import Numbering
from octopia.matching.offers import Offers
from octopia.matching.store import Store
from octopia.matching.value_sets import ValueSet, question_of
from octopia.protocol.directions import NOWHERE, Directions

IS_COMPILED = not (probes.__file__ or "").endswith(".py")
"""True if the kernel of the index is compiled."""

FEW = 8 if IS_COMPILED else 48
"""With at most this many entries every entry is read, which takes no memory and is faster in plain Python."""

PATIENCE = 64 if IS_COMPILED else 1 << 62
"""The number of publications for which few subscriptions are read one by one; an index pays for itself after that."""

_NOTHING = Match((), ())

_ALL = 1 << 62

_GROWING = (64, 4096, _ALL)
"""The numbers of subscriptions that a search for their directions collects before it starts again for more."""


class _Entry(msgspec.Struct, frozen=True, gc=False):
    """A stored interest or offer, the link it came from, and its number."""

    content: Disjunction
    link: Peer
    number: int


class _Places(msgspec.Struct, frozen=True, gc=False):
    """The places of the filters of an entry in the store.

    Entries and places are no tuples, so that the garbage collector need not read the dictionaries that hold them.
    """

    all: tuple[int, ...]


class IndexSubscriptions:
    """Subscriptions in an index, grouped by the neighbour that they came from; local clients are one group."""

    __slots__ = (
        "_entries",
        "_groups",
        "_matcher",
        "_members",
        "_names",
        "_numbering",
        "_places",
        "_read",
        "_repeats",
        "_sources",
        "_store",
    )

    def __init__(self, entries: dict[SubscriptionId, _Entry] | None = None, numbering: Numbering | None = None):
        """Create an index of entries that already have their numbers; empty by default."""
        self._store = Store()
        self._entries = entries or {}
        self._numbering = numbering or Numbering()
        self._names = cast("list[SubscriptionId]", self._numbering.names)
        self._places: dict[int, _Places] = {}
        self._groups: dict[BrokerId, int] = {}
        self._members = [0]
        self._read = 0
        self._repeats = 0
        self._matcher = Matcher(self._store.blocks, self._store.column_list)
        self._sources = NOWHERE
        self._place_all()

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_subscriptions, (self._entries, self._numbering)

    def add(self, subscription: SubscriptionId, interest: Disjunction, link: Peer) -> int:
        """Store a subscription, and return its number."""
        number = self._numbering.take(subscription)
        self._entries[subscription] = entry = _Entry(interest, link, number)
        if self._places:
            self._place(entry)
        else:
            self._place_all()
        return number

    def _place_all(self) -> None:
        """Start to use rows if there are more than a few entries, or if they have been read often."""
        if len(self._entries) > FEW or self._read > PATIENCE:
            for each in self._entries.values():
                self._place(each)

    def _place(self, entry: _Entry) -> None:
        filters, number = entry.content.filters, entry.number
        group = self._group(entry.link)
        self._members[group] += 1
        if self._members[group] == 1:
            self._expect_groups()
        add = self._store.add
        self._places[number] = _Places(tuple([add(group, number, each) for each in filters]))
        self._count_repeats(len(filters) > 1)

    def _count_repeats(self, more: int) -> None:
        """Count the subscriptions with several filters, whose numbers may be found more than once."""
        self._repeats += more
        self._matcher.has_repeats = self._repeats > 0

    def _group(self, link: Peer) -> int:
        if not isinstance(link, BrokerId):
            return LOCAL
        group = self._groups.get(link)
        if group is None:
            group = self._groups[link] = len(self._members)
            self._members.append(0)
        return group

    def _expect_groups(self) -> None:
        self._matcher.expect_groups([None, *self._groups], sum(map(bool, self._members[1:])))
        regions = [link.region for link, group in self._groups.items() if self._members[group]]
        self._sources = Directions(self._members[LOCAL] > 0, tuple(sorted(regions)))

    def remove(self, subscription: SubscriptionId) -> int:
        """Remove a stored subscription, and return the number that it had."""
        entry = self._entries.pop(subscription)
        self._numbering.give_back(entry.number)
        if self._places:
            self._displace(entry)
        return entry.number

    def _displace(self, entry: _Entry) -> None:
        places = self._places.pop(entry.number).all
        for place in places:
            self._store.remove(place)
        self._store.odd.pop(entry.number, None)
        self._count_repeats(-(len(places) > 1))
        group = self._group(entry.link)
        self._members[group] -= 1
        if not self._members[group]:
            self._expect_groups()

    def match(self, publication: Publication) -> Match:
        """Return the links and local subscriptions that match ``publication``."""
        if not self._places and not self._start_rows(1):
            return self._scan(publication, self._entries)
        match = self._matcher.match(publication)
        return self._completed(match, publication) if self._matcher.probe.is_doubtful and self._store.odd else match

    def match_many(self, publications: Sequence[Publication]) -> list[Match]:
        """Return the ``match`` of each publication."""
        if not self._places and not self._start_rows(len(publications)):
            return [self._scan(each, self._entries) for each in publications]
        doubtful: list[int] = []
        matched = self._matcher.match_many(list(publications), doubtful)
        for index in doubtful if self._store.odd else ():
            matched[index] = self._completed(matched[index], publications[index])
        return matched

    def _start_rows(self, publications: int) -> bool:
        """Count publications that entries are read for, and return whether rows are used from now on."""
        self._read += publications
        if self._read > PATIENCE:
            self._place_all()
        return bool(self._places)

    def _completed(self, match: Match, publication: Publication) -> Match:
        """Add the subscriptions to a match that have to be evaluated one by one."""
        odd = self._scan(publication, self._odd)
        links = dict.fromkeys((*match.links, *odd.links))
        return Match(tuple(sorted(links)), tuple(dict.fromkeys((*match.local, *odd.local))))

    def intersecting(self, advertisement: Disjunction) -> list[SubscriptionId]:
        """Return the subscriptions that intersect ``advertisement``, sorted by id."""
        return sorted(dict.fromkeys(self._intersecting(advertisement, _ALL)))

    def any_intersecting(self, advertisement: Disjunction) -> bool:
        """Return whether any subscription intersects ``advertisement``."""
        return next(self._intersecting(advertisement, 1), None) is not None

    def intersecting_from(self, advertisement: Disjunction, asked: Directions) -> Directions:
        """Return those of the directions ``asked`` from which a subscription came that intersects ``advertisement``."""
        if self._places:
            asked &= self._sources
        left = dict.fromkeys(asked)
        for enough in _GROWING if left else ():
            collected = 0
            for name in self._intersecting(advertisement, enough):
                left.pop(direction_of(self._entries[name].link), None)
                if not left:
                    return asked
                collected += 1
            if collected < enough:
                break
        return asked - Directions.of(left)

    def size_bytes(self) -> int:
        """Return the size of rows and intervals in bytes."""
        return self._store.size_bytes()

    @property
    def _odd(self) -> dict[SubscriptionId, None]:
        """The subscriptions that have to be compared with a filter one by one."""
        return {self._names[number]: None for number in self._store.odd}

    def _scan(self, publication: Publication, names: Iterable[SubscriptionId]) -> Match:
        """Evaluate entries one by one: if there are few, and for integers that are not doubles."""
        entries = map(self._entries.__getitem__, names)
        wanted = [each for each in entries if matches(each.content, publication)]
        if not wanted:
            return _NOTHING
        links = dict.fromkeys([each.link for each in wanted if isinstance(each.link, BrokerId)])
        local = [each.number for each in wanted if not isinstance(each.link, BrokerId)]
        return Match(tuple(sorted(links)), local)

    def _intersecting(self, advertisement: Disjunction, enough: int) -> Iterator[SubscriptionId]:
        # Filters that rows and intervals cannot represent are compared one by one.
        is_plain_all = bool(self._places) and _are_plain(advertisement)
        for offer in advertisement.filters if is_plain_all else ():
            is_exact = self._probe_offer(offer)
            sure, unsure = _collect(self._store, self._matcher.probe, enough, is_exact=is_exact)
            for number in sure:
                yield self._names[number]
            for number, interest in unsure:
                if intersects(Disjunction((offer,)), Disjunction((interest,))):
                    yield self._names[number]
        for name in self._odd if is_plain_all else self._entries:
            if intersects(advertisement, self._entries[name].content):
                yield name

    def _probe_offer(self, offer: Filter) -> bool:
        """Rule out subscriptions that require an undeclared attribute, or other values of a declared one.

        Return whether the probe describes the offer fully.
        """
        probe, value_sets = self._matcher.probe, question_of(offer).value_sets
        probe.clear(len(self._store.column_list))
        is_exact = True
        for column in self._store.column_list:
            values = value_sets.get(column.name)
            if values is None:
                probe.ask(column.number, IS_ABSENT)
            else:
                is_exact = _ask_values(self._store, probe, column, values) and is_exact
        return is_exact


class IndexAdvertisements:
    """Advertisements in an index, and also by link, since each publisher has few."""

    __slots__ = ("_by_link", "_entries", "_names", "_numbering", "_offers", "_places", "_probe", "_store")

    def __init__(self, entries: dict[AdvertisementId, _Entry] | None = None, numbering: Numbering | None = None):
        """Create an index of entries that already have their numbers; empty by default."""
        self._store = Store(ignores_absence=True)
        self._entries = entries or {}
        self._numbering = numbering or Numbering()
        self._names = cast("list[AdvertisementId]", self._numbering.names)
        self._places: dict[int, _Places] = {}
        self._by_link: dict[Peer, dict[AdvertisementId, Disjunction]] = {}
        for advertisement, entry in self._entries.items():
            self._by_link.setdefault(entry.link, {})[advertisement] = entry.content
        self._offers: dict[Peer, Offers] = {}
        self._probe = probes.Probe()
        self._place_all()

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_advertisements, (self._entries, self._numbering)

    def add(self, advertisement: AdvertisementId, offer: Disjunction, link: Peer) -> None:
        """Store an advertisement."""
        entry = _Entry(offer, link, self._numbering.take(advertisement))
        self._entries[advertisement] = entry
        self._by_link.setdefault(link, {})[advertisement] = offer
        self._offers.pop(link, None)
        if self._places:
            self._place(entry)
        else:
            self._place_all()

    def _place_all(self) -> None:
        """Start to use rows if there are more than a few entries."""
        if len(self._entries) > FEW:
            for each in self._entries.values():
                self._place(each)

    def _place(self, entry: _Entry) -> None:
        places = [self._store.add(LOCAL, entry.number, each) for each in entry.content.filters]
        self._places[entry.number] = _Places(tuple(places))

    def remove(self, advertisement: AdvertisementId) -> None:
        """Remove a stored advertisement."""
        entry = self._entries.pop(advertisement)
        self._numbering.give_back(entry.number)
        self._store.odd.pop(entry.number, None)
        self._offers.pop(entry.link, None)
        del self._by_link[entry.link][advertisement]
        if not self._by_link[entry.link]:
            del self._by_link[entry.link]
        if self._places:
            for place in self._places.pop(entry.number).all:
                self._store.remove(place)

    def intersected_by(self, subscription: Disjunction) -> list[AdvertisementId]:
        """Return the advertisements that ``subscription`` intersects, sorted by id."""
        is_odd = not self._places or not _are_plain(subscription)
        one_by_one = self._entries if is_odd else [self._names[number] for number in self._store.odd]
        meets = intersection_with(subscription)
        found = {name: None for name in one_by_one if meets(self._entries[name].content)}
        for interest in () if is_odd else subscription.filters:
            is_exact = self._probe_interest(interest)
            if is_exact is not None:
                sure, unsure = _collect(self._store, self._probe, _ALL, is_exact=is_exact)
                found |= dict.fromkeys(self._names[number] for number in sure)
                meets = intersection_with(Disjunction((interest,)))
                found |= {self._names[number]: None for number, offer in unsure if meets(Disjunction((offer,)))}
        return sorted(found)

    def conforming(self, publication: Publication, link: Peer) -> list[AdvertisementId]:
        """Return the advertisements from ``link`` to which ``publication`` conforms, sorted by id."""
        return self.conformity_with(link)(publication)

    def conformity_with(self, link: Peer) -> Callable[[Publication], list[AdvertisementId]]:
        """Return a function that finds the advertisements from ``link`` to which a publication conforms."""
        offers = self._offers.get(link)
        if offers is None:
            offers = Offers(self._by_link.get(link, {}))
            if link in self._by_link:
                self._offers[link] = offers
        return offers.conforming

    def _probe_interest(self, interest: Filter) -> bool | None:
        """Ask for advertisements that declare all required attributes, with values that may satisfy the interest.

        Return whether the probe describes the interest fully, or None if no advertisement declares all attributes.
        """
        probe, value_sets = self._probe, question_of(interest).value_sets
        probe.clear(2 * len(value_sets))
        is_exact = True
        for name, values in value_sets.items():
            column = self._store.columns.get(name)
            if column is None:
                if self._store.is_complete:
                    return None
                is_exact = False
                continue
            probe.ask(column.number, IS_NEEDED)
            is_exact = _ask_values(self._store, probe, column, values) and is_exact
        return is_exact


def _are_plain(asked: Disjunction) -> bool:
    return all(question_of(each).is_plain for each in asked.filters)


def _ask_values(store: Store, probe: probes.Probe, column: Column, values: ValueSet) -> bool:
    """Ask about a set of values, if rows and intervals can represent it.

    Return whether they represent it fully.
    """
    text = values.only_text
    if text is not None:
        probe.ask_text(column, text, store.blocks)
    elif values.is_about_numbers and values.low <= values.high:
        probe.ask_numbers(column, OVERLAPS, values.low, values.high)
    return values.is_clear


def _collect(
    store: Store, probe: probes.Probe, enough: int, *, is_exact: bool
) -> tuple[list[int], list[tuple[int, Filter]]]:
    """Return the numbers that have the relation a probe asks about, and candidates to decide with their filters.

    The search ends when ``enough`` numbers are found.
    """
    sure: list[int] = []
    unsure: list[tuple[int, AnyFilter]] = []
    probes.collect(probe, store.blocks, sure, unsure, is_exact, enough)
    return sure, [(number, plain(stored)) for number, stored in unsure]


def _restore_subscriptions(entries: dict[SubscriptionId, _Entry], numbering: Numbering) -> IndexSubscriptions:
    return IndexSubscriptions(entries, numbering)


def _restore_advertisements(entries: dict[AdvertisementId, _Entry], numbering: Numbering) -> IndexAdvertisements:
    return IndexAdvertisements(entries, numbering)


INDEX = MatcherFactory(IndexSubscriptions, IndexAdvertisements)
