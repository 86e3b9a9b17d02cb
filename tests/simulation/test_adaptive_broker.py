"""Adaptive routing in brokers and in the simulator: the worked examples; static paths where nothing is congested."""

from __future__ import annotations

import dataclasses

import pytest
from random_faults import draw, judge
from random_scenarios import draw_scenario

from octopia.scenario import LinkChange, Scenario, load_scenario
from octopia.settings import Algorithm
from octopia.simulator.record import Hop
from octopia.simulator.run import Run, run_scenario
from support import EXAMPLES, run_text

HEAD = """
[overlay]
tree = "a-b, b-c"
clusters = 4
[routing]
algorithm = "adaptive"
"""


def client(name: str, broker: str, *, publishes: bool = False) -> str:
    issued = "advertise" if publishes else "subscribe"
    return f'[[client]]\nname = "{name}"\nbroker = "{broker}"\n{issued} = ["x > 0"]\n'


def link(one: str, other: str, queue: int = 0, *, congested: bool = True) -> str:
    verdict = "congested = true\n" if congested else ""
    return f'[[link]]\nbetween = ["{one}", "{other}"]\n{verdict}queue_length = {queue}\n'


def published(broker: str, subscribers: str, *more: str) -> Run:
    clients = [client("P", broker, publishes=True)]
    clients += [client(f"S{number}", each) for number, each in enumerate(subscribers.split())]
    event = '[[event]]\nclient = "P"\npublish = { x = 1 }\n'
    run = run_text(HEAD + "".join(clients) + "".join(more) + event)
    assert run.complaints() == []
    return run


def text_of(hop: Hop) -> str:
    carries = "".join(f" {region}:{bits}" for region, bits in (getattr(hop, "carries", None) or {}).items())
    header = f"[{hop.civ or '----'}{carries}]" if hop.civ or carries else ""
    return f"{hop.sender}>{hop.receiver}{header}"


def hops(run: Run) -> str:
    return ", ".join(text_of(each) for each in run.recorder.hops if each.publication == 0)


def test_a_congested_alink_is_avoided_over_another_cluster():
    run = published("b.3", "a.3 c.3 c.1", link("b.3", "c.3", 20))
    assert hops(run) == "b.3>a.3, b.3>b.1[0000 c:1010], b.1>c.1[1010], c.1>c.3"


def test_fig_7b():
    more = [link("b.3", "b.0"), link("b.1", "b.0"), link("b.3", "b.1", 1, congested=False)]
    run = published("b.3", "c.0 c.1 a.3 c.3 c.2", *more, link("b.3", "b.2", 2, congested=False))
    assert hops(run) == "b.3>a.3, b.3>c.3[1111], c.3>c.0, c.3>c.1, c.3>c.2"


def test_fig_7c():
    more = [link("b.3", "b.0"), link("b.3", "b.2"), link("b.3", "c.3", 1, congested=False)]
    run = published("b.3", "c.0 a.0 a.3 c.3 c.2", *more, link("b.3", "a.3", 2, congested=False))
    assert hops(run) == "b.3>a.3[1001], b.3>c.3[1101], a.3>a.0, c.3>c.0, c.3>c.2"


def test_fig_7d():
    pairs = [("b.3", "b.2", 20), ("b.3", "b.0", 30), ("b.3", "b.1", 30), ("b.3", "c.3", 40)]
    pairs += [("b.1", "b.2", 0), ("b.0", "b.1", 0), ("a.0", "a.1", 0)]
    run = published("b.3", "a.0 c.1 c.3 c.2", *(link(*each) for each in pairs))
    assert hops(run) == "b.3>a.3[0001], b.3>b.2[0000 c:1110], a.3>a.0, b.2>c.2[1110], c.2>c.1, c.2>c.3"


def test_a_dead_broker():
    crash = '[[event]]\ncrash = "b.0"\n'
    run = published("a.0", "a.2 b.2 c.0 c.2", crash)
    assert hops(run) == "a.0>a.2[0100 b:0001], a.2>b.2[0101], b.2>c.2[0101], c.2>c.0"
    assert len(run.recorder.deliveries) == 4


@pytest.mark.parametrize("seed", range(40))
def test_where_nothing_is_congested_it_is_static_routing_hop_for_hop(seed: int):
    scenario = uncongested(draw_scenario(seed).scenario)
    static = run_scenario(scenario.with_algorithm(Algorithm.STATIC))
    adaptive = run_scenario(scenario.with_algorithm(Algorithm.ADAPTIVE), check=seed % 10 == 0)
    assert adaptive.complaints() == []
    assert journeys(adaptive) == journeys(static)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_times_it_is_static_routing(block: int):
    for seed in range(100 * block, 100 * block + 100):
        test_where_nothing_is_congested_it_is_static_routing_hop_for_hop(seed)


def uncongested(scenario: Scenario) -> Scenario:
    """Return a scenario without congestion: no forced verdicts, and a threshold that nothing reaches.

    Its events are a second apart, since adaptive routing has more CIV updates: a publication that races with the end of
    a subscription may win under one algorithm and lose under the other.
    """
    routing = dataclasses.replace(scenario.routing, tau=1e9, wait_ms=1e9)
    events = [each for each in scenario.events if not isinstance(each.item, LinkChange)]
    apart = tuple(dataclasses.replace(each, at_ms=1_000.0 * place) for place, each in enumerate(events))
    return dataclasses.replace(scenario, routing=routing, links=(), events=apart)


def journeys(run: Run) -> list[tuple[int, str, str, str]]:
    hops = [each for each in run.recorder.hops if each.publication is not None]
    return sorted((each.publication or 0, each.sender, each.receiver, each.civ or "") for each in hops)


@pytest.mark.parametrize("example", ["fig7b", "fig7c", "fig7d", "outage"])
def test_the_examples(example: str):
    scenario = load_scenario(EXAMPLES / f"{example}.toml").with_algorithm(Algorithm.ADAPTIVE)
    assert run_scenario(scenario, check=True).complaints() == []


def judge_with_faults(seeds: range, *, check: bool = False) -> None:
    for seed in seeds:
        complaints, _ = judge(draw(seed).with_algorithm(Algorithm.ADAPTIVE), check=check)
        assert not complaints, f"seed {seed}: {complaints[:3]}"


@pytest.mark.parametrize("first", range(0, 50, 25))
def test_faults_lose_and_double_nothing_unheard(first: int):
    judge_with_faults(range(first, first + 25))


def test_invariants_hold_after_every_step():
    judge_with_faults(range(1_000, 1_010), check=True)


def test_copies_that_wait_for_a_link_to_be_opened_are_under_way():
    """A broker has recovered, and a neighbour has not heard of it: the overlay is not at rest."""
    judge_with_faults(range(8_434, 8_435))


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, 10_000, 100))
def test_faults_lose_and_double_nothing_in_ten_thousand_runs(first: int):
    judge_with_faults(range(first, first + 100))
