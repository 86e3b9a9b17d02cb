"""The TID trees that floods of advertisements build on the overlay of the paper, by the delays of their copies."""

from __future__ import annotations

import statistics

import pytest

from octopia.ids import BrokerId
from octopia.overlay import Scot, parse_tree
from octopia.simulator.profiles import find_profile
from octopia.simulator.world import Environment, World
from octopia.tid.core import TidBroker
from support import make_settings, offer


def mean_hops(profile: str, seed: int = 1) -> float:
    """Return the mean length of the paths between brokers in the trees of one advertisement per broker."""
    scot = Scot(parse_tree("paper:se"), 4)
    world = World(scot, make_settings("tid-static"), Environment(find_profile(profile), seed=seed))
    for number, broker in enumerate(scot.brokers):
        world.request(world.attach(f"P{number}", broker), offer(0, "x > 0"))
        world.run()
    next_hops: dict[BrokerId, dict[BrokerId, BrokerId]] = {broker: {} for broker in scot.brokers}
    for broker, each in world.brokers.items():
        assert isinstance(each, TidBroker)
        for entry in each._state.srt:
            if isinstance(entry.last_hop, BrokerId):
                next_hops[entry.tid.host_broker][broker] = entry.last_hop
    return statistics.mean(
        hops_to(root, broker, tree) for root, tree in next_hops.items() for broker in scot.brokers if broker != root
    )


def hops_to(root: BrokerId, broker: BrokerId, next_hop: dict[BrokerId, BrokerId]) -> int:
    """Return the number of hops from a broker to the root of a tree."""
    hops = 0
    while broker != root:
        broker = next_hop[broker]
        hops += 1
    return hops


@pytest.mark.parametrize(
    ("profile", "hops"),
    [
        ("paper", 3.46),
        ("paper-broker-sender", 3.46),
        ("paper-race-trees", 5.1),
        ("paper-broker-sender-race-trees", 5.1),
    ],
)
def test_trees_are_longer_where_the_copies_of_a_flood_race_without_memory(profile: str, hops: float) -> None:
    assert mean_hops(profile) == pytest.approx(hops, abs=0.2)
