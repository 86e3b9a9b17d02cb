"""The scenarios of the core over sockets: deliveries, and messages on every link, are those of the simulator."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from scenario_player import play

from octopia.scenario import Scenario, load_scenario
from octopia.settings import Algorithm
from octopia.simulator.record import Recorder
from octopia.simulator.run import run_scenario
from support import EXAMPLES, hop_text, scenario_from

BOTH = [Algorithm.STATIC, Algorithm.DYNAMIC]
TID = [Algorithm.TID_STATIC, Algorithm.TID_DYNAMIC]

FIG_8_CLIENTS = {
    "P0": ("a.0", "advertise", "source = 0"),
    "P1": ("e.1", "advertise", "source = 1"),
    "P2": ("a.2", "advertise", "source = 2"),
    "S0": ("a.0", "subscribe", "source = 1"),
    "S": ("f.0", "subscribe", "source = 1"),
    "S1": ("d.1", "subscribe", "source IN (0, 1)"),
    "S2": ("f.2", "subscribe", "source IN (0, 1, 2)"),
}


def fig_8(algorithm: Algorithm) -> Scenario:
    clients = "".join(
        f'[[client]]\nname = "{name}"\nbroker = "{broker}"\n{verb} = ["{text}"]\n'
        for name, (broker, verb, text) in FIG_8_CLIENTS.items()
    )
    events = "".join(f'[[event]]\nclient = "P{source}"\npublish.source = {source}\n' for source in range(3))
    withdrawals = """
        [[event]]
        client = "S2"
        unsubscribe = "S2/0"
        [[event]]
        client = "P2"
        unadvertise = "P2/0"
        [[event]]
        client = "P0"
        publish.source = 0
        [[event]]
        client = "P2"
        publish.source = 2
    """
    return scenario_from(
        f'[overlay]\ntree = "paper:fig3"\n[routing]\nalgorithm = "{algorithm}"\n{clients}{events}{withdrawals}'
    )


def delivered(record: Recorder) -> Counter[tuple[int, str, str]]:
    return Counter((each.publication, each.client, each.subscription) for each in record.deliveries)


def carried(record: Recorder, *, publications_only: bool = False) -> Counter[tuple[str, int | None, str]]:
    """Count the messages of every kind on every link, publications each for itself."""
    hops = [hop for hop in record.hops if hop.publication is not None or not publications_only]
    return Counter((hop.kind, hop.publication, hop_text(hop)) for hop in hops)


def refused(record: Recorder) -> list[tuple[int | None, str, str]]:
    return sorted((each.publication, each.client, each.reason) for each in record.refused)


def same_as_simulated(scenario: Scenario) -> Recorder:
    """Play a scenario over sockets and in the simulator; both must have done the same."""
    simulated, real = run_scenario(scenario), play(scenario)
    assert simulated.complaints() == []
    assert delivered(real) == delivered(simulated.recorder)
    assert carried(real) == carried(simulated.recorder)
    assert refused(real) == refused(simulated.recorder)
    assert real.deliveries
    return real


@pytest.mark.parametrize("algorithm", BOTH)
@pytest.mark.parametrize("figure", ["fig7b", "fig7c", "fig7d"])
def test_fig_7_link_for_link(figure: str, algorithm: Algorithm):
    same_as_simulated(load_scenario(EXAMPLES / f"{figure}.toml").with_algorithm(algorithm))


def test_fig_7_without_confirmations():
    scenario = load_scenario(EXAMPLES / "fig7b.toml")
    same_as_simulated(dataclasses.replace(scenario, routing=dataclasses.replace(scenario.routing, confirmations=False)))


@pytest.mark.parametrize("algorithm", BOTH)
def test_fig_6_with_both_target_ilinks_congested(algorithm: Algorithm):
    subscribers = "".join(client(f"S{cluster}", f"b.{cluster}", "subscribe") for cluster in range(3))
    links = "".join(f'[[link]]\nbetween = ["a.1", "a.{other}"]\ncongested = true\n' for other in (0, 2))
    body = client("P", "a.1", "advertise") + subscribers + links + publication("P")
    same_as_simulated(
        scenario_from(f'[overlay]\ntree = "a-b"\nclusters = 4\n[routing]\nalgorithm = "{algorithm}"\n{body}')
    )


@pytest.mark.parametrize("algorithm", BOTH)
def test_fig_8_with_withdrawals(algorithm: Algorithm):
    same_as_simulated(fig_8(algorithm))


def test_the_market_under_static_routing():
    same_as_simulated(load_scenario(EXAMPLES / "market.toml").with_algorithm(Algorithm.STATIC))


def test_the_market_under_dynamic_routing_delivers_the_same():
    """Which publications go around the slow link depends on when they come; who gets them does not."""
    scenario = load_scenario(EXAMPLES / "market.toml").with_algorithm(Algorithm.DYNAMIC)
    simulated, real = run_scenario(scenario), play(scenario)
    assert delivered(real) == delivered(simulated.recorder)
    assert refused(real) == refused(simulated.recorder)


@pytest.mark.parametrize("algorithm", BOTH)
def test_the_outage_delivers_the_same_over_the_same_links(algorithm: Algorithm):
    scenario = load_scenario(EXAMPLES / "outage.toml").with_algorithm(algorithm)
    simulated, real = run_scenario(scenario), play(scenario)
    assert delivered(real) == delivered(simulated.recorder)
    assert carried(real, publications_only=True) == carried(simulated.recorder, publications_only=True)


# Fig. 1: the baseline. Floods race, so that links which must not win are slow.

NAMES = {"1": "a.0", "2": "b.0", "3": "c.0", "4": "a.1", "5": "b.1", "6": "c.1"}


def fig_1(algorithm: Algorithm, body: str) -> Scenario:
    text = f'[overlay]\ntree = "a-b, b-c"\nclusters = 2\n[routing]\nalgorithm = "{algorithm}"\n{body}'
    for number, name in NAMES.items():
        text = text.replace(f"@{number}", name)
    return scenario_from(text)


def slow(*links: str) -> str:
    return "".join(f'[[link]]\nbetween = ["@{link[0]}", "@{link[1]}"]\ndelay_ms = 100\n' for link in links)


def client(name: str, broker: str, verb: str = "") -> str:
    issued = f'{verb} = ["x > 0"]\n' if verb else ""
    return f'[[client]]\nname = "{name}"\nbroker = "{broker}"\n{issued}'


def publication(name: str) -> str:
    return f'[[event]]\nclient = "{name}"\npublish = {{x = 1}}\n'


def now_takes(link: str, delay_ms: int) -> str:
    return f'[[event]]\nlink = {{between = ["@{link[0]}", "@{link[1]}"], delay_ms = {delay_ms}}}\n'


FIG_1A = slow("25", "36") + client("P", "@1", "advertise") + client("S", "@6", "subscribe") + publication("P")
FIG_1B = slow("14", "25") + client("P", "@1", "advertise") + client("S", "@4", "subscribe") + publication("P")
FIG_1C = (
    slow("14", "25")
    + client("P1", "@1", "advertise")
    + client("P2", "@4")
    + client("S", "@6")
    + "".join(map(now_takes, ("14", "25", "45", "36"), (1, 1, 100, 100)))
    + '[[event]]\nclient = "P2"\nadvertise = "x > 0"\n[[event]]\nclient = "S"\nsubscribe = "x > 0"\n'
    + publication("P1")
    + publication("P2")
    + '[[event]]\nlink = {from = "@2", to = "@3", congested = true}\n'
    + publication("P1")
)


@pytest.mark.parametrize("algorithm", TID)
@pytest.mark.parametrize(
    ("body", "publications"), [(FIG_1A, 3), (FIG_1B, 5), (FIG_1C, 10)], ids=["fig1a", "fig1b", "fig1c"]
)
def test_fig_1_link_for_link(body: str, publications: int, algorithm: Algorithm):
    record = same_as_simulated(fig_1(algorithm, body))
    assert sum(hop.publication is not None for hop in record.hops) == publications
