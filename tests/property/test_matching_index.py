"""The index answers as the scan does, whatever was added and removed before, compiled or not."""

from __future__ import annotations

import importlib.util
import pickle
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
from content_strategies import disjunctions, publications
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, Value
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.matching import INDEX, SCAN, index, kernel, store

HERE = BrokerId("a", 0)
LINKS: tuple[Peer, ...] = (BrokerId("b", 0), BrokerId("c", 0), ClientId("p"), ClientId("q"))
WIDE = (2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, float("inf"), float("-inf"), 1e300, 0.5, 1, 1.0, -0.0)


class IndexAndScan(RuleBasedStateMachine):
    """Both matchers are told the same things and asked the same questions."""

    subscriptions = Bundle("subscriptions")
    advertisements = Bundle("advertisements")

    @initialize(few=st.sampled_from((0, 3, 48)))
    def start(self, few: int) -> None:
        """Begin with the index at once, after a few entries, or (mostly) not at all."""
        self.number = 0
        index.FEW = few
        self.scan, self.index = SCAN.subscriptions(), INDEX.subscriptions()
        self.scan_offers, self.index_offers = SCAN.advertisements(), INDEX.advertisements()

    @rule(target=subscriptions, interest=disjunctions(), link=st.sampled_from(LINKS))
    def subscribe(self, interest: Disjunction, link: Peer) -> SubscriptionId:
        self.number += 1
        name = SubscriptionId(HERE, 1, self.number)
        for each in (self.scan, self.index):
            each.add(name, interest, link)
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
        for each in (self.scan, self.index):
            each.remove(name)

    @rule(name=consumes(advertisements))
    def unadvertise(self, name: AdvertisementId) -> None:
        for each in (self.scan_offers, self.index_offers):
            each.remove(name)

    @rule(several=st.lists(publications(), min_size=1, max_size=4), link=st.sampled_from(LINKS))
    def publish(self, several: list[Publication], link: Peer) -> None:
        assert self.index.match_many(several) == self.scan.match_many(several)
        for each in several:
            assert self.index.match(each) == self.scan.match(each)
            assert self.index_offers.conforming(each, link) == self.scan_offers.conforming(each, link)

    @rule(content=disjunctions())
    def relate(self, content: Disjunction) -> None:
        assert self.index.intersecting(content) == self.scan.intersecting(content)
        assert self.index.any_intersecting(content) == self.scan.any_intersecting(content)
        assert self.index.covering(content) == self.scan.covering(content)
        assert self.index.covered_by(content) == self.scan.covered_by(content)
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
        index.FEW = 48


IndexAndScan.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestIndexAndScan = IndexAndScan.TestCase


@pytest.fixture(params=["as installed", "as plain Python"])
def each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The kernel that is installed, and its source, which works uncompiled."""
    module: ModuleType = kernel
    if request.param == "as plain Python":
        source = Path(kernel.__file__).with_name("kernel.py")
        spec = importlib.util.spec_from_file_location("octopia_plain_kernel", source)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        assert module.__file__ is not None
        assert module.__file__.endswith("kernel.py")
        monkeypatch.setattr(index, "kernel", module)
        for name in ("Block", "Boundaries", "Column"):
            monkeypatch.setattr(store, name, getattr(module, name))
    return module


@pytest.mark.parametrize("seed", range(4))
def test_many_filters_and_moving_boundaries(each_kernel: ModuleType, seed: int) -> None:
    """Enough endpoints that boundaries are chosen and blocks change over, with slots given back in between."""
    chance = random.Random(seed)
    scan, indexed = SCAN.subscriptions(), INDEX.subscriptions()
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
            assert indexed.match(publication) == scan.match(publication)
    offer = Disjunction((_filter(chance),))
    assert indexed.intersecting(offer) == scan.intersecting(offer)
    assert indexed.covered_by(offer) == scan.covered_by(offer)


@pytest.mark.parametrize("bound", WIDE)
@pytest.mark.parametrize("operator", [Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ, Operator.NE])
def test_bounds_are_exact_to_the_last_integer(
    each_kernel: ModuleType, operator: Operator, bound: Value, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "FEW", 0)
    scan, indexed = SCAN.subscriptions(), INDEX.subscriptions()
    interest = Disjunction((Filter((Predicate("a", operator, bound),)),))
    for each in (scan, indexed):
        each.add(SubscriptionId(HERE, 1, 0), interest, ClientId("p"))
    for value in (*WIDE, 2**53 + 2, 2**62, 2**62 + 2, 0, -1):
        publication = Publication({"a": value})
        assert indexed.match(publication) == scan.match(publication), value


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
