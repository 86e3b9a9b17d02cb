"""Every state of small overlays with adaptive routing, whatever it sees, and long random runs of larger ones.

To show that the searches would find defects, the faults that the design guards against are planted one by one.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec
import pytest
from adaptive_search import search, wander

from adaptive_world import Ground, Moment, Place, Rules, World
from octopia.broker.adaptive_routing import AdaptiveDecision, AdaptiveView, Arrival, Dispatch, route_adaptively
from octopia.broker.rerouting import merged, static_parts
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties, Lane, Origin, lane_of

PATH = "a-b, b-c"


@dataclasses.dataclass(frozen=True)
class Plan:
    """A search: an overlay, the hosts of the publications, the number of failures, and whether brokers may die."""

    tree: str
    clusters: int
    hosts: str
    capacity: int = 0
    troubles: int = 0
    crashes: bool = False
    down: str = ""

    def start(self, world: World) -> Moment:
        return world.start(*self.hosts.split(), down=self.down.split(), troubles=self.troubles)

    def __str__(self) -> str:
        return (
            f"{self.tree} x {self.clusters}, {self.hosts}, capacity {self.capacity}, "
            f"{self.troubles} {'crashes' if self.crashes else 'cuts'}"
        )


SMALL = [
    Plan("a-b", 2, "a.0", troubles=2),
    Plan("a-b", 2, "a.0", capacity=1, troubles=1, crashes=True),
    Plan("a-b", 2, "a.0 a.0", capacity=1),
    Plan("a-b", 2, "a.0 b.1", capacity=1),
    Plan("a-b", 3, "a.0", capacity=1),
    Plan(PATH, 2, "b.0", capacity=1),
    Plan(PATH, 2, "a.0"),
    Plan("a", 4, "a.0"),
]
LARGE = [
    Plan("a-b", 2, "a.0", troubles=3),
    Plan("a-b", 2, "a.0", capacity=1, troubles=2, crashes=True),
    Plan("a-b", 2, "a.0 b.1", capacity=1, troubles=1),
    Plan("a-b", 2, "a.0 a.0", capacity=1, troubles=1, crashes=True),
    Plan("a-b", 2, "a.0 a.0 a.0", capacity=1),
    Plan("a-b", 3, "a.0", capacity=1, troubles=1),
    Plan("a-b", 3, "a.0", capacity=1, troubles=1, crashes=True),
    Plan("a-b", 3, "a.0", troubles=2),
    Plan(PATH, 2, "b.0", capacity=1, troubles=1),
    Plan(PATH, 2, "a.0", capacity=1, troubles=1, crashes=True),
    Plan("a", 4, "a.0", capacity=1, troubles=2),
]


def explore(plan: Plan, limit: int) -> None:
    world = World(Ground(plan.tree, plan.clusters), capacity=plan.capacity)
    start = plan.start(world)
    found = search(world, start, limit, crashes=plan.crashes)
    print(f"{plan}: {found}")
    assert found.complete or found.states >= limit
    assert found.at_rest


@pytest.mark.parametrize("plan", SMALL, ids=str)
def test_nothing_is_owed_twice_or_missed_in_any_state(plan: Plan) -> None:
    explore(plan, 100_000)


@pytest.mark.parametrize("capacity", [0, 1])
def test_any_subscribers(capacity: int) -> None:
    """Brokers without subscribers change what goes where."""
    everybody = Ground("a-b", 2).brokers
    for count in range(len(everybody)):
        for subscribers in itertools.combinations(everybody, count):
            world = World(Ground("a-b", 2, subscribers), capacity=capacity)
            assert search(world, world.start("a.0", troubles=1)).complete


@pytest.mark.soak
@pytest.mark.parametrize("plan", LARGE, ids=str)
def test_nothing_is_owed_twice_or_missed_in_any_of_many_states(plan: Plan) -> None:
    explore(plan, 1_000_000)


Made: TypeAlias = tuple[World, Moment, random.Random]


def random_world(seed: int, rules: Rules | None = None, kind: type[World] = World) -> Made:
    """Make a world of any shape and any subscribers in which some publications are on their way."""
    chance = random.Random(seed)
    tree = chance.choice(["a-b", PATH, "a-b, b-c, b-d", "a-b, b-c, c-d"])
    clusters = chance.choice([2, 3, 3, 4])
    subscribers = [each for each in Ground(tree, clusters).brokers if chance.random() < 0.7]
    world = kind(Ground(tree, clusters, subscribers), rules, capacity=chance.choice([1, 1, 2]))
    hosts = [str(chance.choice(world.ground.brokers)) for _ in range(chance.randrange(1, 10))]
    return world, world.start(*hosts, troubles=chance.choice([0, 0, 1, 4])), chance


def crowded_world(seed: int, rules: Rules | None = None, kind: type[World] = World) -> Made:
    """Make a world in which lanes hold one copy, and 30 publications want to go everywhere."""
    chance = random.Random(seed)
    world = kind(Ground(chance.choice(["a-b", PATH]), chance.choice([3, 4])), rules, capacity=1)
    hosts = [str(chance.choice(world.ground.brokers)) for _ in range(30)]
    return world, world.start(*hosts, troubles=chance.choice([0, 0, 6])), chance


def wander_all(make: Callable[..., Made], seeds: Iterable[int], *faults: Any) -> None:
    for seed in seeds:
        world, moment, chance = make(seed, *faults)
        try:
            wander(world, moment, chance, crashes=seed % 3 == 0)
        except AssertionError as wrong:
            raise AssertionError(f"{make.__name__} {seed}: {wrong}") from wrong


@pytest.mark.parametrize(("make", "count"), [(random_world, 60), (crowded_world, 8)])
def test_random_runs_with_narrow_lanes(make: Callable[..., Made], count: int) -> None:
    wander_all(make, range(count))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(1, 11))
@pytest.mark.parametrize(("make", "count"), [(random_world, 1_000), (crowded_world, 100)])
def test_many_random_runs_with_narrow_lanes(make: Callable[..., Made], count: int, block: int) -> None:
    wander_all(make, range(count * block, count * (block + 1)))


# Planted faults.


def changed(decision: AdaptiveDecision, *more: Dispatch) -> AdaptiveDecision:
    return msgspec.structs.replace(decision, dispatches=(*decision.dispatches, *more))


def sends_a_duty_twice(arrival: Arrival, interested: Iterable[BrokerId], view: AdaptiveView) -> AdaptiveDecision:
    """Send over the congested aLink although a detour takes the same duties."""
    decision = route_adaptively(arrival, interested, view)
    for each in decision.dispatches:
        if each.link.region == view.broker.region and each.duties.cross:
            region, bits = each.duties.cross[0]
            if view.is_up(view.alink(region)):
                return changed(decision, Dispatch(view.alink(region), Duties(bits, (), each.duties.origin)))
    return decision


def forgets_a_duty(arrival: Arrival, interested: Iterable[BrokerId], view: AdaptiveView) -> AdaptiveDecision:
    """Drop what is for the clients of a lost broker."""
    decision = route_adaptively(arrival, interested, view)
    waiting = tuple(each for each in decision.waiting if each.origin is not Origin.LOCAL)
    return msgspec.structs.replace(decision, waiting=waiting)


def misreads_local(arrival: Arrival, interested: Iterable[BrokerId], view: AdaptiveView) -> AdaptiveDecision:
    """Read f = all as an origin from which every region differs."""
    if arrival.duties.origin is Origin.LOCAL:
        arrival = Arrival(msgspec.structs.replace(arrival.duties, origin=Origin.HOST), arrival.ilink)
    return route_adaptively(arrival, interested, view)


def turns_back(arrival: Arrival, interested: Iterable[BrokerId], view: AdaptiveView) -> AdaptiveDecision:
    """Route what came over an aLink as if it had been published here."""
    if arrival.ilink is None and isinstance(arrival.duties.origin, str):
        arrival = Arrival(msgspec.structs.replace(arrival.duties, origin=Origin.HOST))
    return route_adaptively(arrival, interested, view)


def merges_any_origin(waiting: Dispatch, new: Dispatch) -> Dispatch | None:
    if lane_of(waiting.duties, waiting.link.cluster) is Lane.PLAIN:
        return None
    return Dispatch(new.link, waiting.duties.union(new.duties))


def merges_and_keeps_the_first(waiting: Dispatch, new: Dispatch) -> Dispatch | None:
    joined = merged(waiting, new)
    return joined and waiting


def falls_back_in_part(copy: Dispatch, view: AdaptiveView) -> tuple[list[Dispatch], Duties]:
    """Forget the part of the fallback that cannot go."""
    parts, rest = static_parts(copy, view)
    return parts, Duties(0, (), rest.origin)


DUTY_FAULTS = [
    ("a duty sent twice", Rules(route=sends_a_duty_twice), Plan("a-b", 2, "a.0"), "owed twice"),
    ("a duty forgotten", Rules(route=forgets_a_duty), Plan("a-b", 2, "a.0", troubles=1), "owed no more"),
    ("f = all misread", Rules(route=misreads_local), Plan("a-b", 2, "a.0", troubles=1), "owed twice|delivered twice"),
    ("turned back", Rules(route=turns_back), Plan("a-b", 2, "a.0"), "owed twice|delivered twice|came from"),
    ("merged with another f", Rules(merge=merges_any_origin), Plan("a-b", 3, "a.0", down="a.1-a.2"), "twice"),
    ("merged and lost", Rules(merge=merges_and_keeps_the_first), Plan("a-b", 3, "a.0"), "owed no more"),
]


@pytest.mark.parametrize(
    ("rules", "plan", "sentence"), [each[1:] for each in DUTY_FAULTS], ids=[each[0] for each in DUTY_FAULTS]
)
def test_a_planted_fault_is_found(rules: Rules, plan: Plan, sentence: str) -> None:
    world = World(Ground(plan.tree, plan.clusters), rules, plan.capacity)
    with pytest.raises(AssertionError, match=sentence) as found:
        search(world, plan.start(world), 300_000)
    print(found.value)


def test_a_fallback_that_forgets_a_part_is_found() -> None:
    with pytest.raises(AssertionError, match="owed no more"):
        wander_all(crowded_world, range(20), Rules(fallback=falls_back_in_part))


class OneAtATime(World):
    """A world in which a copy that waits for room holds up its whole broker."""

    def arrivals(self, moment: Moment) -> Iterator[tuple[Place, BrokerId, Arrival]]:
        held_up = {place[3] if place[1] == "in" else place[2] for place in moment.places if place[0] == "placing"}
        return (each for each in super().arrivals(moment) if each[1] not in held_up)


def one_lane(duties: Duties, receiver_cluster: int) -> Lane:
    return Lane.PLAIN


def foreign_clusters_in_the_plain_lane(duties: Duties, receiver_cluster: int) -> Lane:
    return Lane.REROUTED if duties.cross or not duties.enter >> receiver_cluster & 1 else Lane.PLAIN


LANE_FAULTS: list[tuple[str, Rules, type[World]]] = [
    ("fallback left out", Rules(fallback=None), World),
    ("one lane", Rules(lane=one_lane), World),
    ("foreign clusters in the plain lane", Rules(lane=foreign_clusters_in_the_plain_lane), World),
    ("a head that holds up its broker", Rules(), OneAtATime),
]


@pytest.mark.parametrize(("rules", "kind"), [each[1:] for each in LANE_FAULTS], ids=[each[0] for each in LANE_FAULTS])
def test_a_planted_deadlock_is_found(rules: Rules, kind: type[World]) -> None:
    with pytest.raises(AssertionError, match="deadlock"):
        wander_all(crowded_world, range(100), rules, kind)
