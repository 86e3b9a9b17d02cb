"""The index answers as the scan does after any additions and removals, compiled or not."""

from __future__ import annotations

import math
import pickle
import random
import sys
from collections.abc import Iterator

import msgspec
import pytest
from content_strategies import disjunctions, publications
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, Value
from octopia.content.publications import scanned
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.matching import INDEX, SCAN, Match, MatcherFactory
from octopia.protocol.directions import Directions
from plain_matching import module_of, plain_matching

HERE = BrokerId("a", 0)
LINKS: tuple[Peer, ...] = (BrokerId("b", 0), BrokerId("c", 0), ClientId("p"), ClientId("q"))
WIDE = (2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, float("inf"), float("-inf"), 1e300, 0.5, 1, 1.0, -0.0)


class IndexAndScan(RuleBasedStateMachine):
    """Both matchers get the same entries and the same questions."""

    matchers = INDEX
    subscriptions = Bundle("subscriptions")
    advertisements = Bundle("advertisements")

    @initialize(few=st.sampled_from((0, 0, 3, 48)))
    def start(self, few: int) -> None:
        """Use the index immediately, after a few entries, or (mostly) not at all."""
        self.number = 0
        self.few = module_of(self.matchers).FEW
        module_of(self.matchers).FEW = few
        self.scan, self.index = SCAN.subscriptions(), self.matchers.subscriptions()
        self.scan_offers, self.index_offers = SCAN.advertisements(), self.matchers.advertisements()

    @rule(target=subscriptions, interest=disjunctions(), link=st.sampled_from(LINKS))
    def subscribe(self, interest: Disjunction, link: Peer) -> SubscriptionId:
        self.number += 1
        name = SubscriptionId(HERE, 1, self.number)
        assert self.scan.add(name, interest, link) == self.index.add(name, interest, link)
        return name

    @rule(target=advertisements, offer=disjunctions(), link=st.sampled_from(LINKS))
    def advertise(self, offer: Disjunction, link: Peer) -> AdvertisementId:
        self.number += 1
        name = AdvertisementId(HERE, 1, self.number)
        for each in (self.scan_offers, self.index_offers):
            each.add(name, offer, link)
        return name

    @rule(name=consumes(subscriptions))
    def unsubscribe(self, name: SubscriptionId) -> None:
        assert self.scan.remove(name) == self.index.remove(name)

    @rule(name=consumes(advertisements))
    def unadvertise(self, name: AdvertisementId) -> None:
        for each in (self.scan_offers, self.index_offers):
            each.remove(name)

    @rule(several=st.lists(publications(), min_size=1, max_size=4), link=st.sampled_from(LINKS))
    def publish(self, several: list[Publication], link: Peer) -> None:
        expected = list(map(told, self.scan.match_many(several)))
        assert list(map(told, self.index.match_many(several))) == expected
        assert list(map(told, self.index.match_many(list(map(as_received, several))))) == expected
        for each in several:
            assert told(self.index.match(each)) == told(self.scan.match(each))
            conforming = self.scan_offers.conforming(each, link)
            assert self.index_offers.conforming(each, link) == conforming
            assert self.index_offers.conforming(as_received(each), link) == conforming

    @rule(content=disjunctions())
    def relate(self, content: Disjunction) -> None:
        assert self.index.intersecting(content) == self.scan.intersecting(content)
        assert self.index.any_intersecting(content) == self.scan.any_intersecting(content)
        for asked in (Directions(True, ("b", "c")), Directions(True, ("d",)), Directions(False, ("c",))):
            assert self.index.intersecting_from(content, asked) == self.scan.intersecting_from(content, asked)
        assert self.index_offers.intersected_by(content) == self.scan_offers.intersected_by(content)

    @rule()
    def pickle(self) -> None:
        self.index = pickle.loads(pickle.dumps(self.index))
        self.index_offers = pickle.loads(pickle.dumps(self.index_offers))

    @invariant()
    def as_many(self) -> None:
        assert len(self.index) == len(self.scan)
        assert len(self.index_offers) == len(self.scan_offers)

    def teardown(self) -> None:
        module_of(self.matchers).FEW = self.few


IndexAndScan.TestCase.settings = settings(max_examples=80, stateful_step_count=50)
TestIndexAndScan = IndexAndScan.TestCase


def test_the_plain_kernel_answers_as_the_scan_does() -> None:
    with plain_matching() as plain:

        class PlainIndexAndScan(IndexAndScan):
            matchers = plain
            pickle = None  # the plain classes have the names of those that are installed

        run_state_machine_as_test(PlainIndexAndScan, settings=settings(max_examples=60, stateful_step_count=40))


def test_the_plain_kernel_reads_bytes_as_the_compiled_one_does() -> None:
    with plain_matching(reads_bytes=True) as plain:

        class PlainIndexOfBytes(IndexAndScan):
            matchers = plain
            pickle = None

        run_state_machine_as_test(PlainIndexOfBytes, settings=settings(max_examples=60, stateful_step_count=40))


def as_received(publication: Publication) -> Publication:
    """Return a publication as a broker receives it: as bytes."""
    encoded = msgspec.msgpack.encode(dict(publication.attributes))
    received = scanned(encoded, publication.payload)
    if received is None:
        received = Publication.trusted(dict(publication.attributes), publication.payload)
        received.encoded_attributes = encoded
    return received


def told(match: Match) -> tuple[tuple[BrokerId, ...], list[int]]:
    """Return a match without the order of local subscriptions."""
    return match.links, sorted(match.local)


@pytest.fixture(params=["as installed", "as plain Python", "as plain Python that reads bytes"])
def matchers(request: pytest.FixtureRequest) -> Iterator[MatcherFactory]:
    """The installed index, and its uncompiled source."""
    if request.param == "as installed":
        yield INDEX
    else:
        with plain_matching(reads_bytes=request.param.endswith("bytes")) as plain:
            yield plain


@pytest.mark.parametrize("seed", range(4))
def test_many_filters_and_moving_boundaries(matchers: MatcherFactory, seed: int) -> None:
    """Enough endpoints for new boundaries and converted blocks, with removals in between."""
    chance = random.Random(seed)
    scan, indexed = SCAN.subscriptions(), matchers.subscriptions()
    live: list[SubscriptionId] = []
    steps = 2500 if seed < 2 else 900
    for number in range(steps):
        name = SubscriptionId(HERE, 1, number)
        interest = Disjunction(tuple(_filter(chance) for _ in range(chance.choice((1, 1, 1, 2)))))
        link = chance.choice(LINKS)
        scan.add(name, interest, link)
        indexed.add(name, interest, link)
        live.append(name)
        if chance.random() < 0.3:
            gone = live.pop(chance.randrange(len(live)))
            scan.remove(gone)
            indexed.remove(gone)
        if number % 25 == 0:
            publication = Publication({name: _value(chance) for name in "abc" if chance.random() < 0.9} or {"a": 1})
            assert told(indexed.match(publication)) == told(scan.match(publication))
            assert told(indexed.match(as_received(publication))) == told(scan.match(publication))
    offer = Disjunction((_filter(chance),))
    assert indexed.intersecting(offer) == scan.intersecting(offer)


@pytest.mark.parametrize("seed", range(2))
def test_churn_of_strings_and_ranges_over_several_blocks(seed: int) -> None:
    """Slots are removed, swept and reused; more strings come and go than are remembered."""
    chance = random.Random(seed)
    scan, indexed = SCAN.subscriptions(), INDEX.subscriptions()
    live: list[SubscriptionId] = []
    for number in range(3500):
        name = SubscriptionId(HERE, 1, number)
        interest = Disjunction(tuple(_mixed_filter(chance) for _ in range(chance.choice((1, 1, 1, 2)))))
        link = chance.choice(LINKS)
        assert scan.add(name, interest, link) == indexed.add(name, interest, link)
        live.append(name)
        for _ in range(chance.choice((0, 0, 1, 2 if number % 1000 > 700 else 0))):
            gone = live.pop(chance.randrange(len(live)))
            assert scan.remove(gone) == indexed.remove(gone)
        text = f"{chance.choice('xyz')}{chance.randrange(3000)}"
        if number % 2 == 0:
            indexed.match(Publication({"b": text}))
        if number % 50 == 0:
            publication = Publication({"a": _value(chance), "b": text, "c": _value(chance)})
            assert told(indexed.match(publication)) == told(scan.match(publication))
            assert told(indexed.match(as_received(publication))) == told(scan.match(publication))
    offer = Disjunction((Filter((Predicate("a", Operator.GT, 10.0), Predicate("b", Operator.EXISTS))),))
    assert indexed.intersecting(offer) == scan.intersecting(offer)
    for gone in live:
        assert scan.remove(gone) == indexed.remove(gone)
    assert told(indexed.match(publication)) == ((), [])


@pytest.mark.parametrize("bound", WIDE)
@pytest.mark.parametrize("operator", [Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ, Operator.NE])
def test_bounds_are_exact_to_the_last_integer(
    matchers: MatcherFactory, operator: Operator, bound: Value, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_of(matchers), "FEW", 0)
    scan, indexed = SCAN.subscriptions(), matchers.subscriptions()
    interest = Disjunction((Filter((Predicate("a", operator, bound),)),))
    for each in (scan, indexed):
        each.add(SubscriptionId(HERE, 1, 0), interest, ClientId("p"))
    for value in (*WIDE, 2**53 + 2, 2**62, 2**62 + 2, 0, -1):
        publication = Publication({"a": value})
        assert told(indexed.match(publication)) == told(scan.match(publication)), value
        assert told(indexed.match(as_received(publication))) == told(scan.match(publication)), value


def _filter(chance: random.Random) -> Filter:
    predicates = []
    for name in "abc":
        if chance.random() < 0.7:
            low = chance.uniform(0, 80)
            predicates.append(Predicate(name, Operator.BETWEEN, (low, low + chance.uniform(0, 40))))
        elif chance.random() < 0.3:
            predicates.append(Predicate(name, Operator.PREFIX, chance.choice(("x", "xy", "z"))))
    return Filter(tuple(predicates))


def _value(chance: random.Random) -> Value:
    return chance.choice((chance.uniform(-5, 110), chance.randint(0, 100), "xyz", "z", True))


def _mixed_filter(chance: random.Random) -> Filter:
    text = f"{chance.choice('xyz')}{chance.randrange(300)}"
    about_text = chance.choice(
        (
            Predicate("b", Operator.EQ, text),
            Predicate("b", Operator.IN, (text, f"{text}1", 7)),
            Predicate("b", Operator.PREFIX, text[:2]),
            Predicate("b", Operator.CONTAINS, text[1:2]),
            Predicate("b", Operator.GE, text),
            Predicate("b", Operator.NE, text),
            Predicate("b", Operator.EXISTS),
        )
    )
    low = chance.uniform(0, 80)
    about_number = Predicate("a", Operator.BETWEEN, (low, low + chance.uniform(0, 40)))
    return Filter(tuple(chance.sample((about_text, about_number), chance.choice((1, 2, 2)))))


def test_an_integer_between_two_neighbouring_doubles_is_not_overlooked(
    matchers: MatcherFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only 2**53 + 1 lies in both, and it is not a double."""
    monkeypatch.setattr(module_of(matchers), "FEW", 0)
    above = Disjunction((Filter((Predicate("a", Operator.GT, 2**53),)),))
    below = Disjunction((Filter((Predicate("a", Operator.LT, 2**53 + 2),)),))
    indexed, offers = matchers.subscriptions(), matchers.advertisements()
    indexed.add(SubscriptionId(HERE, 1, 0), above, ClientId("p"))
    offers.add(AdvertisementId(HERE, 1, 0), above, ClientId("p"))
    assert indexed.any_intersecting(below)
    assert offers.intersected_by(below) == [AdvertisementId(HERE, 1, 0)]
    between = Disjunction((Filter((*above.filters[0].predicates, *below.filters[0].predicates)),))
    indexed.add(SubscriptionId(HERE, 1, 1), between, ClientId("p"))
    offers.add(AdvertisementId(HERE, 1, 1), between, ClientId("p"))
    for value, numbers in ((2**53, []), (2**53 + 1, [0, 1]), (2**53 + 2, [0])):
        publication = as_received(Publication({"a": value}))
        assert sorted(indexed.match(publication).local) == numbers
        assert [each.number for each in offers.conforming(publication, ClientId("p"))] == numbers


def test_nothing_lies_between_two_neighbouring_doubles(matchers: MatcherFactory) -> None:
    indexed = matchers.subscriptions()
    for number in range(60):
        interest = Disjunction((Filter((Predicate("a", Operator.GT, float(number)),)),))
        indexed.add(SubscriptionId(HERE, 1, number), interest, ClientId("p"))
    below = Disjunction((Filter((Predicate("a", Operator.LT, math.nextafter(5.0, math.inf)),)),))
    assert [each.number for each in indexed.intersecting(below)] == [0, 1, 2, 3, 4]


NUMBERS = (-3, 0, 1, 2, 3, 5, 6, 10, 19)


def test_what_intersects_sets_of_numbers_is_found(matchers: MatcherFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """IN and <> leave fewer numbers than the interval around them."""
    monkeypatch.setattr(module_of(matchers), "FEW", 0)
    chance = random.Random(1)
    scan, indexed = SCAN.subscriptions(), matchers.subscriptions()
    for number in range(120):
        for each in (scan, indexed):
            each.add(SubscriptionId(HERE, 1, number), _set_of_numbers(random.Random(number)), ClientId("p"))
    for _ in range(60):
        asked = _set_of_numbers(chance)
        assert indexed.intersecting(asked) == scan.intersecting(asked), asked


def test_strings_that_come_and_go_are_forgotten() -> None:
    indexed = INDEX.subscriptions()
    for number in range(6000):
        interest = Disjunction((Filter((Predicate("a", Operator.EQ, f"user {number}"),)),))
        indexed.add(SubscriptionId(HERE, 1, number), interest, ClientId("p"))
        if number % 1000 == 500:
            general = Disjunction((Filter((Predicate("a", Operator.PREFIX, "user"),)),))
            indexed.add(SubscriptionId(HERE, 2, number), general, ClientId("p"))
        if number >= 100:
            indexed.remove(SubscriptionId(HERE, 1, number - 100))
        indexed.match(Publication({"a": f"stranger {number}"}))
    column = indexed._store.columns["a"]
    assert len(column.texts.numbers) < 4000
    for number in range(500, 6000, 1000):
        indexed.remove(SubscriptionId(HERE, 2, number))
    assert len(column.texts.numbers) == 100
    assert indexed.match(Publication({"a": "user 5950"})).local


def test_more_attributes_than_have_rows(matchers: MatcherFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters on other attributes are evaluated one by one, with the same answers."""
    monkeypatch.setattr(sys.modules[module_of(matchers).Store.__module__], "MOST_COLUMNS", 5)
    monkeypatch.setattr(module_of(matchers), "FEW", 0)
    scan, indexed = SCAN.subscriptions(), matchers.subscriptions()
    scan_offers, offers = SCAN.advertisements(), matchers.advertisements()
    for number in range(60):
        content = Disjunction((Filter((Predicate(f"a{number % 12}", Operator.GT, number),)),))
        for each in (scan, indexed):
            each.add(SubscriptionId(HERE, 1, number), content, LINKS[number % 4])
        for each in (scan_offers, offers):
            each.add(AdvertisementId(HERE, 1, number), content, LINKS[number % 4])
    for attribute in range(13):
        publication = Publication({f"a{attribute}": 30, "a2": 50})
        assert told(indexed.match(publication)) == told(scan.match(publication))
        asked = Disjunction((Filter((Predicate(f"a{attribute}", Operator.BETWEEN, (20, 40)),)),))
        assert indexed.intersecting(asked) == scan.intersecting(asked)
        assert offers.intersected_by(asked) == scan_offers.intersected_by(asked)


def test_boundaries_follow_a_drift() -> None:
    """Timestamps grow: boundaries are at most as old as 16,384 endpoints, those of 8,192 subscriptions."""
    indexed = INDEX.subscriptions()
    for number in range(60_000):
        interest = Disjunction((Filter((Predicate("a", Operator.BETWEEN, (number, number + 50)),)),))
        indexed.add(SubscriptionId(HERE, 1, number), interest, ClientId("p"))
        if number >= 2000:
            indexed.remove(SubscriptionId(HERE, 1, number - 2000))
    boundaries = indexed._store.columns["a"].boundaries
    assert len({boundaries.segment(float(each)) for each in range(60_000 - 8_192 - 2_000, 60_000)}) > 20
    assert len(indexed.match(Publication({"a": 59_500})).local) == 51


def _set_of_numbers(chance: random.Random) -> Disjunction:
    first, second = sorted(chance.sample(NUMBERS, 2))
    choices = (
        Predicate("n", Operator.IN, (first, second)),
        Predicate("n", Operator.IN, (first, second, 7)),
        Predicate("n", Operator.NE, second),
        Predicate("n", Operator.NOT_IN, (second, 6)),
        Predicate("n", Operator.LE, second),
        Predicate("n", Operator.GT, first),
        Predicate("n", Operator.GE, first),
        Predicate("n", Operator.BETWEEN, (first, second)),
    )
    return Disjunction((Filter(tuple(chance.sample(choices, chance.choice((1, 2, 2, 3))))),))


@pytest.mark.soak
def test_long_runs_of_the_index_and_the_scan():
    run_state_machine_as_test(IndexAndScan, settings=settings(max_examples=2000, stateful_step_count=50))
