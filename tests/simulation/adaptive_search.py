"""A search of every state of a reference world, whatever routing sees and whichever links and brokers fail."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

from adaptive_world import Glance, Moment, Place, World
from octopia.broker.statuses import AlinkStatus
from octopia.ids import BrokerId


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The size of a search: its states, those at rest, and whether there are no others."""

    states: int
    at_rest: int
    complete: bool


def steps(world: World, moment: Moment, *, crashes: bool = False) -> Iterator[tuple[str, Moment]]:
    """Yield everything that may happen next, and what comes of it."""
    for place, broker, arrival in world.arrivals(moment):
        for outcome in world.every_outcome(moment, broker, arrival):
            yield f"route {_name(place)}: {outcome}", world.routed(moment, place, broker, outcome)
    for place in world.carriable(moment):
        yield f"carry {_name(place)}", world.carried(moment, place)
    for link in sorted(moment.down):
        yield f"heal {link[0]}-{link[1]}", world.healed(moment, link)
    if moment.troubles:
        calmer = dataclasses.replace(moment, troubles=moment.troubles - 1)
        for link in world.ground.links:
            if link not in moment.down:
                yield f"cut {link[0]}-{link[1]}", world.cut(calmer, link)
        for broker in world.ground.brokers if crashes else ():
            yield f"crash {broker}", world.crashed(calmer, broker)


def search(world: World, start: Moment, limit: int = 1_000_000, *, crashes: bool = False) -> Found:
    """Visit every state that can be reached, and check it; an assertion fails with the steps that lead there."""
    origins: dict[Any, tuple[Any, str]] = {start.key: (None, "start")}
    stack, at_rest = [start], 0
    while stack and len(origins) <= limit:
        moment = stack.pop()
        key = moment.key
        what = "at rest"
        try:
            if world.is_at_rest(moment):
                at_rest += 1
                world.check_rest(moment)
                world.check_patience(moment)
                world.finish(moment.copy())
            following = steps(world, moment, crashes=crashes)
            what = "step"
            for what, after in following:
                after_key = after.key
                if after_key not in origins:
                    origins[after_key] = (key, what)
                    world.check(after)
                    stack.append(after)
        except AssertionError as wrong:
            raise AssertionError("\n".join([*_path(origins, key), what, str(wrong)])) from wrong
    return Found(len(origins), at_rest, not stack)


def _path(origins: dict[Any, tuple[Any, str]], key: Any) -> list[str]:
    path = []
    while key is not None:
        key, what = origins[key]
        path.append(what)
    return path[::-1]


def _name(place: Place) -> str:
    return " ".join(map(str, place))


def random_glance(world: World, moment: Moment, broker: BrokerId, chance: random.Random) -> Glance:
    """Return verdicts, queues and statuses that have nothing to do with the truth; only the links here are right."""
    base = world.truth(moment, broker)
    others = [each for each in range(base.clusters) if each != broker.cluster]
    full, bad = chance.random(), chance.random() ** 2
    statuses = [AlinkStatus(), AlinkStatus(work=3.0), AlinkStatus(is_up=False)]
    return dataclasses.replace(
        base,
        full=frozenset(each for each in base.works if chance.random() < full),
        works={each: float(chance.randrange(12)) for each in base.works},
        statuses={
            (cluster, region): chance.choice(statuses)
            for cluster in others
            for region in base.primary_regions
            if chance.random() < bad
        },
        unlinked=frozenset(
            (one, other) for one in others for other in others if one != other and chance.random() < bad
        ),
    )


def wander(
    world: World, moment: Moment, chance: random.Random, *, crashes: bool = False, length: int = 10_000
) -> Moment:
    """Take random steps until nothing moves and all troubles are over; check every state, and finish."""
    for _ in range(length):
        moves: list[Any] = [*world.arrivals(moment), *world.carriable(moment)]
        if moment.troubles and (not moves or chance.random() < 0.1):
            moment = _trouble(world, moment, chance, crashes=crashes)
        elif not moves:
            world.check_rest(moment)
            return world.finish(moment)
        else:
            moment = _move(world, moment, chance.choice(moves), chance)
        world.check(moment)
    raise AssertionError(f"it moves for ever: {moment.places}")


def _move(world: World, moment: Moment, move: Any, chance: random.Random) -> Moment:
    if move[0] == "out":
        return world.carried(moment, move)
    place, broker, arrival = move
    view = random_glance(world, moment, broker, chance)
    return world.routed(moment, place, broker, world.outcome(broker, arrival, view, fallbacks=world.capacity > 0))


def _trouble(world: World, moment: Moment, chance: random.Random, *, crashes: bool) -> Moment:
    moment = dataclasses.replace(moment, troubles=moment.troubles - 1)
    if crashes and chance.random() < 0.2:
        return world.crashed(moment, chance.choice(world.ground.brokers))
    link = chance.choice(world.ground.links)
    return world.healed(moment, link) if link in moment.down else world.cut(moment, link)
