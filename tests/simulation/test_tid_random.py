"""TID routing under random scenarios.

Static routing guarantees that every client gets what it wants exactly once, whenever requests have settled before a
publication is made. Dynamic routing guarantees less: no client gets anything twice or unwanted, and all missing
publications were dropped at the hop limit, or because their tree was withdrawn meanwhile. Brokers have counted these.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from random_scenarios import RandomScenario, draw_scenario

from octopia.broker import Broker, Event, Fact, Routed, Verdict
from octopia.content import Publication, parse_filter
from octopia.ids import BrokerId, ClientId, PublicationId, SubscriptionId
from octopia.overlay import LinkShape, Overlay, Scot, parse_tree
from octopia.protocol import Cause
from octopia.protocol.messages import ClientReply
from octopia.scenario import (
    AdvertiseItem,
    ClientSpec,
    LinkChange,
    PublishItem,
    Scenario,
    SubscribeItem,
    UnadvertiseItem,
)
from octopia.scenario import Event as ScenarioEvent
from octopia.settings import Algorithm, PathSelection, RoutingSettings
from octopia.simulator.run import Run, run_scenario
from octopia.tid.core import TidBroker

STATIC_SEEDS = 500
SOAK_SEEDS = 2000
CHUNK = 50


class Drops:
    """An observer that counts the dropped copies of each publication."""

    def __init__(self) -> None:
        self.copies: Counter[PublicationId] = Counter()

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        if isinstance(fact, Fact) and fact.event is Event.DROP and isinstance(fact.message_id, PublicationId):
            self.copies[fact.message_id] += int(fact.value or 0)

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        pass


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A run with its errors, and the missing deliveries by publication."""

    run: Run
    complaints: list[str]
    missing: dict[int, list[str]]
    dropped: dict[int, int]

    def total(self, counter: str) -> int:
        found = [each.counters for each in tid_brokers(self.run).values()]
        if counter == "over_hop_limit":
            return sum(each.lost[Cause.HOP_LIMIT] for each in found)
        return sum(getattr(each, counter) for each in found)


def tid_brokers(run: Run) -> dict[BrokerId, TidBroker]:
    return {name: broker for name, broker in run.world.brokers.items() if isinstance(broker, TidBroker)}


def judge(scenario: Scenario, *, check: bool = False) -> Judged:
    """Run a scenario and compare all deliveries with the clients' filters."""
    drops = Drops()
    run = run_scenario(scenario, check=check, observers=[drops])
    received: dict[int, Counter[str]] = {}
    for delivery in run.recorder.deliveries:
        received.setdefault(delivery.publication, Counter())[delivery.subscription] += 1
    complaints: list[str] = []
    missing: dict[int, list[str]] = {}
    for number in range(run.ledger.attempted):
        must, may = run.ledger.expected(number)
        got = received.get(number, Counter())
        complaints += [f"publication {number} came to {name} {got[name]} times" for name in got if got[name] > 1]
        complaints += [f"publication {number} came to {name} unasked" for name in got if name not in may]
        if lost := [name for name in must if name not in got]:
            missing[number] = lost
    complaints += binding_complaints(tid_brokers(run))
    dropped = {run.names.publication(each): copies for each, copies in drops.copies.items()}
    judged = Judged(run, complaints, missing, dropped)
    complaints += withdrawal_complaints(judged)
    return judged


def binding_complaints(brokers: dict[BrokerId, TidBroker]) -> Iterator[str]:
    """At rest, the bound copies of every subscription line the whole path from its edge broker to the publisher."""
    found = {
        (name, copy.subscription, copy.tid): copy.last_hop
        for name, broker in brokers.items()
        for copy in broker.state.prt
    }
    expected: dict[tuple[BrokerId, SubscriptionId, object], object] = {}
    for name, broker in brokers.items():
        for copy in broker.state.prt:
            if not isinstance(copy.last_hop, ClientId):
                continue
            last_hop, here = copy.last_hop, name
            while isinstance(here, BrokerId):
                expected[here, copy.subscription, copy.tid] = last_hop
                last_hop, here = here, brokers[here].state.srt[copy.tid].last_hop
    if found != expected:
        yield f"{len(found)} bound copies are stored where {len(expected)} line the ways to publishers"


def withdrawal_complaints(judged: Judged) -> Iterator[str]:
    """Once all clients have left, nothing remains."""
    world = judged.run.world
    for client in judged.run.scenario.clients:
        world.detach(client.name)
    world.run()
    for broker in tid_brokers(judged.run).values():
        if any(broker.table_sizes().values()):
            yield f"after everybody left, broker {broker.id} still holds {broker.table_sizes()}"
        if broker.state.for_clients or not all(queue.is_empty for queue in broker.state.queues.values()):
            yield f"after everything settled, something waits in a queue of broker {broker.id}"
        broker.check()


def chunk(number: int) -> range:
    return range(number * CHUNK, (number + 1) * CHUNK)


def withdraws_while_publishing(drawn: RandomScenario) -> bool:
    """Return whether an advertisement may be withdrawn while publications are under way.

    They are lost with its tree, even if they conform to another advertisement of the same publisher.
    """
    return any(
        {PublishItem, UnadvertiseItem} <= {type(happening.item) for happening in phase} for phase in drawn.phases
    )


@pytest.mark.soak
@pytest.mark.parametrize("number", range(STATIC_SEEDS // CHUNK, SOAK_SEEDS // CHUNK))
def test_static_routing_delivers_exactly_once_in_many_scenarios(number: int):
    test_static_routing_delivers_exactly_once(number)


@pytest.mark.parametrize("number", range(STATIC_SEEDS // CHUNK))
def test_static_routing_delivers_exactly_once(number: int):
    settled = 0
    for seed in chunk(number):
        drawn = draw_scenario(seed)
        judged = judge(drawn.scenario.with_algorithm(Algorithm.TID_STATIC), check=seed % 10 == 0)
        assert not judged.complaints, f"seed {seed}"
        assert judged.total("over_hop_limit") == 0, f"seed {seed}"
        assert judged.total("duplicate_deliveries_dropped") == 0, f"seed {seed}"
        if withdraws_while_publishing(drawn):
            assert judged.missing.keys() <= judged.dropped.keys(), f"seed {seed}"
            assert sum(judged.dropped.values()) == judged.total("orphaned"), f"seed {seed}"
        else:
            settled += 1
            assert not judged.missing, f"seed {seed}"
            assert not judged.dropped, f"seed {seed}"
    assert settled > CHUNK / 2


# Dynamic routing.


def draw_overlapping(seed: int, selection: PathSelection = PathSelection.LINEAR) -> Scenario:
    """Draw a scenario in which dynamic routing has a choice.

    With constant delays, the trees of all publishers take the same path between any two brokers: the fastest. So delays
    change from one advertisement to the next. Then links are congested at random.
    """
    rng = random.Random(seed)
    scot = Scot(parse_tree(rng.choice(("path:3", "path:4", "star:4", "star:5", "binary:5"))), rng.randint(2, 4))
    links = [*scot.alinks, *scot.ilinks]
    publishers = [f"P{number}" for number in range(rng.randint(3, 6))]
    clients = [ClientSpec(name, rng.choice(scot.brokers), ()) for name in publishers]
    for number in range(rng.randint(2, 8)):
        name, low = f"S{number}", rng.randint(0, 8)
        interests = (f"x >= {low}", f"x BETWEEN {low - 3} AND {low + 1}")
        items = tuple(
            SubscribeItem(name, f"{name}/{index}", text, parse_filter(text)) for index, text in enumerate(interests)
        )
        clients.append(ClientSpec(name, rng.choice(scot.brokers), items))
    events: list[ScenarioEvent] = []
    for name in publishers:
        events += [ScenarioEvent(_delayed(rng, link)) for link in links if rng.random() < 0.7]
        low = rng.randint(0, 5)
        text = f"x BETWEEN {low} AND {low + rng.randint(3, 8)}"
        events.append(ScenarioEvent(AdvertiseItem(name, f"{name}/0", text, parse_filter(text))))
    events += [ScenarioEvent(change) for change in _congestion(rng, links)]
    for _ in range(12):
        publication = Publication({"x": rng.randint(0, 13)})
        events.append(ScenarioEvent(PublishItem(rng.choice(publishers), publication)))
    routing = RoutingSettings(Algorithm.TID_DYNAMIC, path_selection=selection)
    overlay = Overlay("random", scot, {}, {}, routing)
    return Scenario(f"overlapping-{seed}", overlay, routing, tuple(clients), (), tuple(events))


def _delayed(rng: random.Random, link: tuple[BrokerId, BrokerId]) -> LinkChange:
    return LinkChange((link, link[::-1]), shape=LinkShape(delay_ms=rng.choice((0.5, 1.0, 3.0, 7.0))))


def _congestion(rng: random.Random, links: list[tuple[BrokerId, BrokerId]]) -> list[LinkChange]:
    share = rng.choice((0.3, 0.6, 0.9))
    return [
        LinkChange((direction,), verdict=Verdict.CONGESTED, queue_length=rng.choice((0, 3, 11, 40)))
        for link in links
        for direction in (link, link[::-1])
        if rng.random() < share
    ]


def assert_dynamic_promises(judged: Judged, seed: int) -> None:
    assert not judged.complaints, f"seed {seed}"
    assert not judged.missing.keys() - judged.dropped.keys(), f"seed {seed}"
    assert sum(judged.dropped.values()) == judged.total("orphaned") + judged.total("over_hop_limit"), f"seed {seed}"


@pytest.mark.parametrize("number", range(4))
def test_dynamic_routing_loses_only_what_it_counts(number: int):
    for seed in chunk(number):
        assert_dynamic_promises(judge(draw_overlapping(seed), check=seed % 10 == 0), seed)


@pytest.mark.parametrize("number", range(2))
def test_dynamic_routing_keeps_that_under_churn_and_bursts(number: int):
    for seed in chunk(number):
        scenario = draw_scenario(seed).scenario.with_algorithm(Algorithm.TID_DYNAMIC)
        assert_dynamic_promises(judge(scenario, check=seed % 10 == 0), seed)


def test_dynamic_routing_makes_duplicates_and_loops():
    """In some of these scenarios, congestion sends publications in circles, and some clients do not get them."""
    totals: Counter[str] = Counter()
    for seed in (155, 446, 491, 620, *range(20)):
        judged = judge(draw_overlapping(seed))
        for counter in ("rewritten", "duplicate_deliveries_dropped", "over_hop_limit"):
            totals[counter] += judged.total(counter)
        totals["missing"] += sum(map(len, judged.missing.values()))
    assert totals["rewritten"] > 100
    assert totals["duplicate_deliveries_dropped"] > 100
    assert totals["over_hop_limit"] > 0
    assert totals["missing"] > 0


def test_linear_and_indexed_look_up_come_to_the_same():
    scanned: Counter[PathSelection] = Counter()
    for seed in range(CHUNK):
        runs = {selection: judge(draw_overlapping(seed, selection)) for selection in PathSelection}
        linear, indexed = (runs[each].run.to_json() for each in PathSelection)
        assert linear == indexed, f"seed {seed}"
        for selection, judged in runs.items():
            scanned[selection] += judged.total("entries_scanned")
    assert scanned[PathSelection.LINEAR] > 3 * scanned[PathSelection.INDEXED] > 0


def test_the_same_seed_gives_the_same_run():
    first, second = (judge(draw_overlapping(178)).run.to_json() for _ in range(2))
    assert first == second
