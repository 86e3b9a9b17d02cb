"""The workload of a point of the study: publishers, subscriptions and publications, drawn by a seed.

A publisher advertises one symbol at any price; several publishers share a symbol. A subscription wants one symbol in a
range of prices. The range is as wide as it must be so that a publication is wanted by the same number of subscriptions
at every size: what grows is the system, not the audience. Hosts are drawn uniformly from all brokers.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication
from octopia.experiments.scale.names import Series
from octopia.ids import BrokerId
from octopia.overlay import Scot, parse_tree

PRICE_MAX = 1000.0


class Point(msgspec.Struct, frozen=True):
    """One size of the system, and what its clients do."""

    series: Series
    tree: str
    clusters: int
    subscriptions: int
    publishers: int = 40
    publishers_per_symbol: int = 4
    publications: int = 1000
    rate_per_s: float = 100.0
    """The publications per second of all publishers together."""
    wanted_by: int = 20
    """The mean number of subscriptions that want a publication."""
    seed: int = 0

    @property
    def name(self) -> str:
        """A name for files; equal names mean equal points within a study."""
        tree = self.tree.replace(":", "-")
        per = f"-{self.publishers_per_symbol}-per-symbol" if self.series is Series.PUBLISHERS else ""
        return f"{self.series}-{tree}-x{self.clusters}-{self.subscriptions}{per}-{self.seed}"

    @property
    def symbols(self) -> int:
        """The number of symbols that are advertised and wanted."""
        return max(1, self.publishers // self.publishers_per_symbol)

    def scot(self) -> Scot:
        """Return the overlay."""
        return Scot(parse_tree(self.tree), self.clusters)


class Offer(NamedTuple):
    """An advertisement of a symbol."""

    host: BrokerId
    symbol: int

    def filter(self) -> Disjunction:
        """Return the filter of the advertisement."""
        return _conjunction(_symbol(self.symbol), Predicate("price", Operator.GE, 0.0))


class Interest(NamedTuple):
    """A subscription to a symbol in a range of prices."""

    host: BrokerId
    symbol: int
    low: float
    high: float

    def filter(self) -> Disjunction:
        """Return the filter of the subscription."""
        ends = Predicate("price", Operator.GE, self.low), Predicate("price", Operator.LE, self.high)
        return _conjunction(_symbol(self.symbol), *ends)


class Event(NamedTuple):
    """A publication: the number of its publisher, its price and its time."""

    publisher: int
    price: float
    at_ms: float


class Workload:
    """Everything that the clients of a point do."""

    def __init__(self, point: Point):
        self.point = point
        self.scot = point.scot()
        brokers, draw = self.scot.brokers, random.Random(point.seed)
        self.offers = [Offer(draw.choice(brokers), each % point.symbols) for each in range(point.publishers)]
        self.events = list(_events(point, draw))
        self._seed = draw.random()

    @functools.cached_property
    def interests(self) -> Sequence[Interest]:
        """All subscriptions."""
        return list(self.draw_interests())

    def draw_interests(self) -> Iterator[Interest]:
        """Yield all subscriptions, without keeping them."""
        return _interests(self.point, self.scot.brokers, random.Random(self._seed))

    def publication(self, event: Event) -> Publication:
        """Return the content of a publication."""
        return Publication({"symbol": _name(self.offers[event.publisher].symbol), "price": event.price})


def _events(point: Point, draw: random.Random) -> Iterator[Event]:
    at_ms = 0.0
    for _ in range(point.publications):
        at_ms += draw.expovariate(point.rate_per_s) * 1000
        yield Event(draw.randrange(point.publishers), round(draw.random() * PRICE_MAX, 2), at_ms)


def _interests(point: Point, brokers: Sequence[BrokerId], draw: random.Random) -> Iterator[Interest]:
    width = min(1.0, point.wanted_by * point.symbols / point.subscriptions) * PRICE_MAX
    for _ in range(point.subscriptions):
        low = round(draw.random() * (PRICE_MAX - width), 2)
        yield Interest(draw.choice(brokers), draw.randrange(point.symbols), low, round(low + width, 2))


def _conjunction(*predicates: Predicate) -> Disjunction:
    return Disjunction((Filter(predicates),))


@functools.cache
def _symbol(number: int) -> Predicate:
    return Predicate("symbol", Operator.EQ, _name(number))


def _name(number: int) -> str:
    return f"S{number}"
