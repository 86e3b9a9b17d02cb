"""Every link loaded beyond its rate, bounded queues, little credit: nothing deadlocks, and nothing is lost.

Every broker has a client that wants everything and publishes faster than links can carry. In a *natural* load Eq. 3
decides where carriers go. In a *ring* the verdicts are forced so that in every region all carriers go round from
cluster to cluster, each over the queues that the others fill. A broker with a single class of publications would
deadlock there. One test shows that it does; without it, the others would prove nothing.
"""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from octopia.broker import Broker, Fact, OctopiaBroker, Routed, placing
from octopia.broker.adapting import Outgoing
from octopia.broker.state import State
from octopia.ids import BrokerId
from octopia.overlay import Scot, parse_tree
from octopia.protocol.messages import ClientReply, Publish
from octopia.scenario import Scenario, read_scenario
from octopia.simulator.run import Run, run_scenario
from octopia.simulator.world import Stuck
from octopia.tomlfile import Table

CAPACITY = 4
RATE = 50
COUNT = 24
EVERY_MS = 3
SEEDS = range(4)
NATURAL = [("a", 4), ("a-b", 3), ("a-b, b-c", 3), ("a-b, a-c, a-d", 2)]
RINGS = [("a", 3), ("a", 4), ("a-b", 3), ("a-b, b-c", 3)]


def scenario_text(tree: str, clusters: int, seed: int, *, ring: bool = False, extra: str = "") -> str:
    """Return a scenario in which all clients publish to all others at once."""
    chance = random.Random(seed)
    scot = Scot(parse_tree(tree), clusters)
    lines = [
        f'[overlay]\ntree = "{tree}"\nclusters = {clusters}',
        '[routing]\nalgorithm = "dynamic"\ntau = 0.5\nwindow_ms = 50',
        # A publication takes about 50 bytes: the credit is enough for two or three.
        f"[simulator]\nseed = {seed}\nqueue_capacity = {CAPACITY}\nwindow_bytes = 120\n{extra}",
    ]
    lines += [
        f'[[client]]\nname = "C{each}"\nbroker = "{each}"\nadvertise = ["x >= 0"]\nsubscribe = ["x >= 0"]'
        for each in scot.brokers
    ]
    lines += [f'[[link]]\nbetween = ["{low}", "{high}"]\nrate = {RATE}' for low, high in (*scot.alinks, *scot.ilinks)]
    lines += _ring_verdicts(scot) if ring else []
    for broker in scot.brokers:
        publication = f"publish = {{ x = {chance.randrange(9)} }}\ncount = {COUNT}\nevery_ms = {EVERY_MS}"
        lines.append(f'[[event]]\nat_ms = {chance.randrange(15)}\nclient = "C{broker}"\n{publication}')
    return "\n".join(lines)


def _ring_verdicts(scot: Scot) -> Iterator[str]:
    """Yield the verdicts that leave each broker only the link to the next cluster of its region."""
    for low, high in scot.ilinks:
        for source, target in ((low, high), (high, low)):
            congested = target.cluster != (source.cluster + 1) % scot.clusters
            yield f'[[link]]\nfrom = "{source}"\nto = "{target}"\ncongested = {str(congested).lower()}'


def scenario_from(text: str) -> Scenario:
    """Parse a scenario."""
    return read_scenario(Table(tomllib.loads(text), "saturation.toml"), "saturation", Path())


def run_text(text: str) -> Run:
    """Run a scenario."""
    return run_scenario(scenario_from(text))


def assert_everything_arrived_once(run: Run) -> None:
    """Assert that every client received every publication once."""
    brokers = len(run.world.scot.brokers)
    assert run.complaints() == []
    assert run.recorder.refused == []
    assert len(run.recorder.deliveries) == brokers * brokers * COUNT
    assert len({(each.publication, each.client) for each in run.recorder.deliveries}) == brokers * brokers * COUNT


def carriers(run: Run) -> int:
    """Return the number of copies that carried a CIV."""
    return sum(each.civ is not None for each in run.recorder.hops)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("tree", "clusters"), NATURAL)
def test_natural_load(tree: str, clusters: int, seed: int) -> None:
    run = run_text(scenario_text(tree, clusters, seed))
    assert_everything_arrived_once(run)
    if clusters > 2:
        assert carriers(run) > COUNT, "the load must be such that CIVs are used"
    # Without waiting, everything would finish soon after the last publication was made.
    assert run.world.agenda.now_ms > 4 * COUNT * EVERY_MS


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("tree", "clusters"), RINGS)
def test_all_carriers_in_a_ring(tree: str, clusters: int, seed: int) -> None:
    run = run_text(scenario_text(tree, clusters, seed, ring=True))
    assert_everything_arrived_once(run)
    # A publication makes one carrier at each cluster of its way round, except at the last two.
    assert carriers(run) >= (clusters - 2) * COUNT * len(run.world.scot.brokers)


def place_in_one_class(state: State, key: placing.Key, copies: list[Outgoing]) -> bool:
    for _, copy, _ in copies:
        copy.traffic_class = 0
    return _place(state, key, copies)


_place = placing._place


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("tree", "clusters"), RINGS)
def test_with_all_classes_in_one_the_ring_deadlocks(
    tree: str, clusters: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "_place", place_in_one_class)
    with pytest.raises(Stuck, match="nothing happens any more"):
        run_text(scenario_text(tree, clusters, seed, ring=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ring_over_a_network_that_drops_doubles_and_reorders(seed: int) -> None:
    extra = "drop = 0.05\nduplicate = 0.05\nreorder = 0.1"
    run = run_text(scenario_text("a-b", 3, seed, ring=True, extra=extra))
    assert_everything_arrived_once(run)


@pytest.mark.parametrize("seed", SEEDS)
def test_links_that_are_cut_under_load(seed: int) -> None:
    text = scenario_text("a-b", 3, seed, ring=True)
    for number, (link, at_ms) in enumerate([('["a.0", "a.1"]', 60), ('["a.2", "b.2"]', 90), ('["b.1", "b.2"]', 200)]):
        text += f"\n[[event]]\nat_ms = {at_ms}\ncut = {link}"
        text += f"\n[[event]]\nat_ms = {at_ms + (100 if number == seed % 3 else 3500)}\nheal = {link}"
    assert_everything_arrived_once(run_text(text))


@pytest.mark.parametrize("seed", SEEDS)
def test_queues_never_exceed_their_capacity(seed: int) -> None:
    lengths: list[int] = []

    class Looks:
        """An observer that checks the queues of a broker at each of its facts."""

        def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
            assert isinstance(broker, OctopiaBroker)
            for queue in broker.state.queues.values():
                classes = Counter(each.traffic_class for each in queue.waiting() if isinstance(each, Publish))
                lengths.extend(classes.values())

        def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
            """Ignore replies to clients."""

    run_scenario(scenario_from(scenario_text("a", 4, seed, ring=True)), observers=[Looks()])
    assert max(lengths) == CAPACITY
