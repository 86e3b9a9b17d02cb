"""Random scenarios: a seed in, a scenario out, together with the trees it was made from.

A scenario is a list of phases. The events of one phase happen close together, and everything settles before the next
one begins. Most phases either publish or change subscriptions, so the right deliveries are known exactly. In some
scenarios the two overlap, and then only bounds are known. Filters are drawn as expression trees and advertisements as
alternatives of predicates. Both are kept beside the normal forms that brokers get, for an oracle to evaluate.

Three families of congestion, by seed: none; verdicts and queue lengths that are forced upon random links; and bursts
over links of limited rate, where Eq. 3 alone decides. Every other seed confirms requests (D5).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import random
from collections.abc import Mapping

from octopia.broker import Verdict
from octopia.content import (
    TRUE,
    And,
    Expression,
    Not,
    Operator,
    Or,
    Predicate,
    Publication,
    Value,
    contains,
    format_expression,
    like,
    normalise,
    suffix,
)
from octopia.ids import BrokerId
from octopia.overlay import LinkShape, Overlay, Scot, Tree, parse_tree
from octopia.scenario import (
    AdvertiseItem,
    ClientSpec,
    Event,
    Item,
    LinkChange,
    PublishItem,
    Scenario,
    SimulatorSettings,
    SubscribeItem,
    UnadvertiseItem,
    UnsubscribeItem,
)
from octopia.settings import Algorithm, RoutingSettings

_PHASE_MS = 100_000.0
_SETTLE = Event(LinkChange(directions=()))


class Family(enum.Enum):
    """The source of congestion."""

    NONE = "none"
    FORCED = "forced"
    EMERGENT = "emergent"


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """An advertisement as it was drawn: alternatives, each declaring the attributes of its predicates."""

    alternatives: tuple[tuple[Predicate, ...], ...]

    @property
    def expression(self) -> Expression:
        """The same as an expression."""
        ands = tuple(And(each) if len(each) > 1 else each[0] for each in self.alternatives)
        return Or(ands) if len(ands) > 1 else ands[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Happening:
    """An event of a phase, some time after its beginning."""

    offset_ms: float
    item: Item


Phase = tuple[Happening, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RandomScenario:
    """A scenario with the trees that it was made from, by the ids of advertisements and subscriptions."""

    seed: int
    family: Family
    scenario: Scenario
    phases: tuple[Phase, ...]
    offers: Mapping[str, Offer]
    interests: Mapping[str, Expression]

    @property
    def hosts(self) -> dict[str, BrokerId]:
        """The host broker of every client."""
        return {client.name: client.broker for client in self.scenario.clients}


def family_of(seed: int) -> Family:
    """Return the family of a seed; families alternate."""
    return list(Family)[seed % len(Family)]


def draw_scenario(seed: int) -> RandomScenario:
    """Draw the scenario of a seed; the same one every time."""
    return _Builder(seed).build()


# Content.

_POOLS: dict[str, tuple[Value, ...]] = {
    "symbol": ("IBM", "IBX", "AMD", "A_D", ""),
    "price": (-1, 0, 2.5, 5, 5.0, 7.5, 10),
    "volume": (0, 1, 2, 3, 4, 5),
    "urgent": (True, False),
    "note.lang": ("en", "en-GB", "de"),
}
_ATTRIBUTES = tuple(_POOLS)
_ORDERINGS = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)


def draw_predicate(rng: random.Random, attribute: str) -> Predicate:
    """Draw a predicate that makes sense for an attribute, or occasionally one of another type."""
    pool = _POOLS[attribute if rng.random() < 0.95 else rng.choice(_ATTRIBUTES)]
    value = rng.choice(pool)
    kind = rng.random()
    if kind < 0.15:
        return Predicate(attribute, rng.choice((Operator.EXISTS, Operator.EXISTS, Operator.ABSENT)))
    if isinstance(value, bool) or kind < 0.35:
        return Predicate(attribute, rng.choice((Operator.EQ, Operator.NE)), value)
    if kind < 0.5:
        elements = tuple(dict.fromkeys(rng.choices(pool, k=rng.randint(1, 3))))
        return Predicate(attribute, rng.choice((Operator.IN, Operator.NOT_IN)), elements)
    if kind < 0.65:
        return Predicate(attribute, Operator.BETWEEN, (value, rng.choice(pool)))
    if isinstance(value, str) and kind < 0.9:
        return _draw_text_predicate(rng, attribute, value)
    return Predicate(attribute, rng.choice(_ORDERINGS), value)


def _draw_text_predicate(rng: random.Random, attribute: str, value: str) -> Predicate:
    match rng.randrange(5):
        case 0:
            return Predicate(attribute, rng.choice((Operator.PREFIX, Operator.NOT_PREFIX)), value[:2])
        case 1:
            return suffix(attribute, value[1:])
        case 2:
            return contains(attribute, value[1:2])
        case 3:
            return like(attribute, f"_{value[1:2]}%", negated=rng.random() < 0.3)
        case _:
            return like(attribute, f"{value[:1]}%{value[-1:]}")


def draw_expression(rng: random.Random, depth: int) -> Expression:
    """Draw an expression tree of at most ``depth``."""
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return draw_predicate(rng, rng.choice(_ATTRIBUTES))
    if kind < 0.5:
        return Not(draw_expression(rng, depth - 1))
    operands = tuple(draw_expression(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    return And(operands) if kind < 0.7 else Or(operands)


def draw_interest(rng: random.Random, wide: float) -> Expression:
    """Draw a subscription; with probability ``wide`` one that most publications match."""
    if rng.random() < wide:
        attribute = rng.choice(_ATTRIBUTES[:2])
        either = Or((Predicate(attribute, Operator.EXISTS), Predicate("volume", Operator.GE, 1)))
        return rng.choice((TRUE, either, Predicate(attribute, Operator.EXISTS)))
    return draw_expression(rng, depth=2)


def draw_offer(rng: random.Random) -> Offer:
    """Draw an advertisement: usually most attributes, some of them within limits."""
    return Offer(tuple(_draw_alternative(rng) for _ in range(1 if rng.random() < 0.7 else 2)))


def _draw_alternative(rng: random.Random) -> tuple[Predicate, ...]:
    declared = rng.sample(_ATTRIBUTES, k=rng.choice((2, 3, 4, 5, 5)))
    predicates: list[Predicate] = []
    for attribute in declared:
        limits = rng.choice((0, 0, 0, 1, 1, 2))
        drawn = [draw_predicate(rng, attribute) for _ in range(limits)]
        # Some publication must be possible: an advertisement that declares and forbids an attribute is useless to the
        # tests.
        sensible = [each for each in drawn if any(each.test(value) for value in _POOLS[attribute])]
        predicates += sensible or [Predicate(attribute, Operator.EXISTS)]
    return tuple(predicates)


def draw_publication(rng: random.Random, offers: list[Offer]) -> Publication:
    """Draw a publication that mostly conforms to one of the offers, and occasionally to none."""
    if not offers or rng.random() < 0.1:
        names = rng.sample(_ATTRIBUTES, k=rng.randint(1, 3))
        return Publication({name: rng.choice(_POOLS[rng.choice((name, name, "price"))]) for name in names})
    alternative = rng.choice(rng.choice(offers).alternatives)
    attributes: dict[str, Value] = {}
    for name in dict.fromkeys(each.attribute for each in alternative):
        limits = [each for each in alternative if each.attribute == name]
        possible = [value for value in _POOLS[name] if all(each.test(value) for each in limits)]
        if possible and rng.random() < 0.8:
            attributes[name] = rng.choice(possible)
    return Publication(attributes or {"volume": 1})


# Overlays.


@functools.lru_cache(maxsize=512)
def _scot(tree: Tree, clusters: int) -> Scot:
    return Scot(tree, clusters)


def draw_tree(rng: random.Random) -> Tree:
    """Draw a path, a star, or a tree to which regions were added one by one at random places."""
    size = rng.choice((1, 2, 3, 3, 4, 4, 5, 6, 7))
    shape = rng.choice(("path", "star", "recursive"))
    if shape != "recursive" or size < 3:
        return parse_tree(f"{'path' if size < 3 else shape}:{size}")
    names = list("abcdefg"[:size])
    rng.shuffle(names)
    return Tree.of((names[rng.randrange(number)], names[number]) for number in range(1, size))


# Scenarios.


class _Builder:
    """The builder of one scenario; it tracks the requests of each client."""

    def __init__(self, seed: int):
        self._seed = seed
        self._family = family_of(seed)
        self._rng = random.Random(seed)
        self._offers: dict[str, Offer] = {}
        self._interests: dict[str, Expression] = {}
        self._owners: dict[str, str] = {}
        """The advertisements and subscriptions in force, by id."""
        self._numbers: dict[str, int] = {}
        self._is_emergent = self._family is Family.EMERGENT
        self._wide = 0.5 if self._is_emergent else 0.15

    def build(self) -> RandomScenario:
        rng = self._rng
        self._scot = _scot(draw_tree(rng), rng.choice((2, 3, 3, 4, 4, 5, 6, 1)))
        self._directions = [
            direction
            for low, high in (*self._scot.alinks, *self._scot.ilinks)
            for direction in ((low, high), (high, low))
        ]
        routing = self._draw_routing()
        clients = self._draw_clients()
        links = self._draw_links()
        phases = tuple(phase for phase in self._draw_phases() if phase)
        scenario = Scenario(
            name=f"seed-{self._seed}",
            overlay=Overlay("random", self._scot, {}, {}, routing),
            routing=routing,
            clients=clients,
            links=links,
            events=_events(phases),
            simulator=SimulatorSettings("paper" if rng.random() < 0.15 else "unit", self._seed),
        )
        return RandomScenario(self._seed, self._family, scenario, phases, self._offers, self._interests)

    def _draw_routing(self) -> RoutingSettings:
        algorithm = Algorithm.STATIC if self._rng.random() < 0.2 else Algorithm.DYNAMIC
        tau = self._rng.choice((10.0, 10.0, 10.0, 5.0, 3.0, 2.0))
        # The families take turns by threes, so every one of them has both.
        return RoutingSettings(algorithm, tau, confirmations=self._seed % 2 == 1)

    # Clients.

    def _draw_clients(self) -> tuple[ClientSpec, ...]:
        rng = self._rng
        crowded = [rng.choice(self._scot.brokers) for _ in range(rng.randint(1, 3))]
        clients: list[ClientSpec] = []
        self._publishers = [f"P{number}" for number in range(rng.choice((1, 1, 2, 3)))]
        self._subscribers = [f"S{number}" for number in range(rng.randint(2, 8))]
        for name in (*self._publishers, *self._subscribers):
            items: list[AdvertiseItem | SubscribeItem] = []
            is_publisher = name in self._publishers
            if is_publisher:
                items += [self._advertise(name) for _ in range(rng.randint(1, 2))]
            if not is_publisher or rng.random() < 0.3:
                items += [self._subscribe(name) for _ in range(rng.randint(1, 3))]
            broker = rng.choice(crowded) if rng.random() < 0.3 else rng.choice(self._scot.brokers)
            clients.append(ClientSpec(name, broker, tuple(items)))
        self._hosts = {client.name: client.broker for client in clients}
        return tuple(clients)

    def _advertise(self, client: str) -> AdvertiseItem:
        offer = draw_offer(self._rng)
        name = self._name(client)
        self._offers[name] = offer
        ordered = self._rng.random() < 0.1
        return AdvertiseItem(
            client, name, format_expression(offer.expression), normalise(offer.expression), ordered=ordered
        )

    def _subscribe(self, client: str) -> SubscribeItem:
        interest = draw_interest(self._rng, self._wide)
        name = self._name(client)
        self._interests[name] = interest
        return SubscribeItem(client, name, format_expression(interest), normalise(interest))

    def _name(self, client: str) -> str:
        number = self._numbers.get(client, 0)
        self._numbers[client] = number + 1
        name = f"{client}/{number}"
        self._owners[name] = client
        return name

    # Links.

    def _draw_links(self) -> tuple[LinkChange, ...]:
        links = [
            LinkChange((direction,), shape=LinkShape(delay_ms=self._rng.choice((0.1, 0.5, 3.0, 7.0))))
            for direction in self._some_directions(self._rng.choice((0.0, 0.0, 0.3)))
        ]
        if self._family is Family.FORCED:
            links += self._forced_changes(self._rng.choice((0.3, 0.6, 0.9)))
        if self._is_emergent:
            links += self._slow_links()
        return tuple(links)

    def _some_directions(self, share: float) -> list[tuple[BrokerId, BrokerId]]:
        return [direction for direction in self._directions if self._rng.random() < share]

    def _forced_changes(self, share: float) -> list[LinkChange]:
        rng = self._rng
        verdicts = (Verdict.CONGESTED, Verdict.CONGESTED, Verdict.CONGESTED, Verdict.FREE, Verdict.AUTO)
        return [
            LinkChange((direction,), verdict=rng.choice(verdicts), queue_length=rng.choice((None, 0, 3, 11, 40)))
            for direction in self._some_directions(share)
        ]

    def _slow_links(self) -> list[LinkChange]:
        """Slow down links away from publishers, in patterns that make each of the three cases likely."""
        rng = self._rng
        homes = [self._hosts[publisher] for publisher in self._publishers]
        pattern = rng.choice(("iLinks", "some iLinks", "both", "anything"))
        slow = self._some_directions(0.5 if pattern == "anything" else 0.1)
        for source, target in self._directions:
            is_ilink = source.region == target.region
            if source in homes and (
                (pattern == "iLinks" and is_ilink)
                or (pattern == "some iLinks" and is_ilink and rng.random() < 0.6)
                or (pattern == "both" and rng.random() < 0.9)
            ):
                slow.append((source, target))
        return [
            LinkChange((direction,), shape=LinkShape(rate=rng.choice((15.0, 30.0, 60.0, 120.0)))) for direction in slow
        ]

    # Phases.

    def _draw_phases(self) -> list[Phase]:
        rng = self._rng
        overlapping = rng.random() < 0.25
        phases: list[Phase] = []
        rounds = rng.randint(1, 2) if self._is_emergent else rng.randint(2, 5)
        for _ in range(rounds):
            publications = self._draw_burst() if self._is_emergent else self._draw_few_publications()
            churn = self._draw_churn(max((each.offset_ms for each in publications), default=0.0))
            changes = self._draw_link_changes(publications[-1].offset_ms)
            if overlapping:
                # Churn is drawn after publications, which may be outside the advertisements still in force then.
                phases.append(_in_order([*publications, *churn, *changes]))
            else:
                phases += [tuple(changes), _in_order(publications), _at_once(churn)]
        phases.append(_in_order(self._draw_few_publications()))
        return phases

    def _draw_few_publications(self) -> list[Happening]:
        return [self._publish(self._rng.choice((0.0, 0.0, 0.3, 4.0))) for _ in range(self._rng.randint(1, 4))]

    def _draw_burst(self) -> list[Happening]:
        rng = self._rng
        every_ms = rng.choice((0.5, 1.0, 2.0, 4.0))
        return [self._publish(number * every_ms) for number in range(rng.randint(20, 60))]

    def _publish(self, offset_ms: float) -> Happening:
        publisher = self._rng.choice(self._publishers)
        offers = [offer for name, offer in self._offers.items() if self._owners.get(name) == publisher]
        return Happening(offset_ms, PublishItem(publisher, draw_publication(self._rng, offers)))

    def _draw_link_changes(self, within_ms: float) -> list[Happening]:
        if self._family is not Family.FORCED:
            return []
        offset_ms = self._rng.uniform(0.0, within_ms)
        return [Happening(offset_ms, change) for change in self._forced_changes(0.3)]

    def _draw_churn(self, within_ms: float) -> list[Happening]:
        drawn = [self._draw_change() for _ in range(self._rng.randint(0, 4))]
        offsets = sorted(self._rng.uniform(0.0, within_ms) for _ in drawn)
        return [Happening(offset, item) for offset, item in zip(offsets, drawn, strict=True)]

    def _draw_change(self) -> Item:
        rng = self._rng
        kind = rng.random()
        if kind < 0.4 or not self._owners:
            return self._subscribe(rng.choice((*self._subscribers, *self._publishers)))
        if kind < 0.55:
            return self._advertise(rng.choice(self._publishers))
        name = rng.choice(list(self._owners))
        client = self._owners.pop(name)
        return UnadvertiseItem(client, name) if name in self._offers else UnsubscribeItem(client, name)


def _in_order(happenings: list[Happening]) -> Phase:
    return tuple(sorted(happenings, key=lambda each: each.offset_ms))


def _at_once(happenings: list[Happening]) -> Phase:
    """Let events happen at the same time, one request right after the other."""
    return tuple(dataclasses.replace(each, offset_ms=0.0) for each in happenings)


def _events(phases: tuple[Phase, ...]) -> tuple[Event, ...]:
    """Give every event its time; an event without one separates phases, and lets everything settle."""
    return tuple(
        itertools.chain.from_iterable(
            (
                *(Event(each.item, number * _PHASE_MS + each.offset_ms) for each in phase),
                _SETTLE,
            )
            for number, phase in enumerate(phases, start=1)
        )
    )
