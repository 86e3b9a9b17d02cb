"""The counters of links and brokers equal the trace of the same run, under every routing algorithm."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter

import pytest

from octopia.broker import Broker, Detail
from octopia.broker.interface import Delivered, Event, Fact, LinkCounters, Routed
from octopia.ids import BrokerId, LinkKind
from octopia.protocol import MessageKind
from octopia.protocol.duties import Lane
from octopia.protocol.messages import ClientReply, Deliver
from octopia.settings import Algorithm
from octopia.simulator.run import Run, run_scenario
from support import scenario_from

WINDOW_MS, TAU = 50.0, 10.0

OVERLAY = f"""
[overlay]
tree = "path:3"
clusters = 4
[routing]
window_ms = {WINDOW_MS}
tau = {TAU}
[[client]]
name = "P"
broker = "b.3"
advertise = ["x > 0"]
"""

SLOW_LINKS = """
[[link]]
between = ["b.3", "b.0"]
rate = 40.0
[[link]]
between = ["b.3", "c.3"]
rate = 40.0
"""

BURST = """
[[event]]
at_ms = 0.0
every_ms = 4.0
count = 300
client = "P"
publish = { x = 7 }
"""

LATER_MS = 1e6
"""A time at which everything is at rest."""


def subscribers() -> str:
    regions = {"a": (0, 3), "b": (0, 1, 2), "c": (0, 1, 3)}
    brokers = [f"{region}.{cluster}" for region, clusters in regions.items() for cluster in clusters]
    return "".join(
        f'[[client]]\nname = "S{number}"\nbroker = "{broker}"\nsubscribe = ["x > 5", "x > 6"]\n'
        for number, broker in enumerate(brokers)
    )


class Tally:
    """An observer that counts what the counters of brokers should have."""

    def __init__(self) -> None:
        self.sent: Counter[tuple[BrokerId, BrokerId]] = Counter()
        self.rerouted: Counter[tuple[BrokerId, BrokerId]] = Counter()
        self.congested: Counter[tuple[BrokerId, BrokerId]] = Counter()
        self.published: Counter[BrokerId] = Counter()
        self.delivered: Counter[BrokerId] = Counter()

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        if isinstance(fact, Routed):
            return
        if fact.event is Event.RECEIVE and fact.link is LinkKind.CLIENT and fact.kind is MessageKind.PUBLICATION:
            self.published[broker.id] += 1
        if not isinstance(fact.peer, BrokerId):
            return
        link = (broker.id, fact.peer)
        match fact.event:
            case Event.SEND if fact.kind is MessageKind.PUBLICATION:
                self.sent[link] += 1
                lane = fact.detour.lane if fact.detour is not None else Lane.PLAIN
                has_civ = fact.detour is None and bool(fact.publication_civ)
                self.rerouted[link] += has_civ or lane is Lane.REROUTED
            case Event.WINDOW:
                assert fact.value is not None
                assert fact.queue_length is not None
                self.congested[link] += fact.queue_length * fact.value > TAU

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        if isinstance(reply, Deliver):
            self.delivered[broker] += len(reply.handles)

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        raise AssertionError("expected deliveries one by one")


@functools.cache
def play(algorithm: Algorithm, detail: Detail = Detail.ALL) -> tuple[Run, Tally]:
    scenario = scenario_from(OVERLAY + SLOW_LINKS + subscribers() + BURST)
    routing = dataclasses.replace(scenario.routing, algorithm=algorithm)
    tally, is_traced = Tally(), detail is Detail.ALL
    observers = [tally] if is_traced else []
    scenario = dataclasses.replace(scenario, routing=routing)
    run = run_scenario(scenario, detail=detail, keep=is_traced, observers=observers)
    return run, tally


def counters_of(run: Run) -> dict[tuple[BrokerId, BrokerId], LinkCounters]:
    brokers = [broker for each in run.world.scot.brokers if (broker := run.world.broker(each)) is not None]
    return {(broker.id, peer): each for broker in brokers for peer, each in broker.link_counters(LATER_MS).items()}


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_the_counters_equal_the_trace(algorithm: Algorithm) -> None:
    run, tally = play(algorithm)
    links = counters_of(run)
    assert {link: each.sent for link, each in links.items() if each.sent} == tally.sent
    if not algorithm.is_tid:
        rerouted = {link: count for link, count in tally.rerouted.items() if count}
        assert {link: each.rerouted for link, each in links.items() if each.rerouted} == rerouted
    assert not any(each.dropped for each in links.values())
    brokers = [run.world.broker(each) for each in run.world.scot.brokers]
    assert {each.id: each.published for each in brokers if each and each.published} == tally.published
    assert {each.id: each.counters.delivered for each in brokers if each and each.counters.delivered} == tally.delivered
    assert sum(tally.delivered.values()) == 300 * 16


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC])
def test_congested_time_is_that_of_the_windows_of_the_trace(algorithm: Algorithm) -> None:
    run, tally = play(algorithm)
    congested = {link: round(each.congested_ms / WINDOW_MS) for link, each in counters_of(run).items()}
    assert sum(congested.values()) > 10
    assert {link: count for link, count in congested.items() if count} == {
        link: count for link, count in tally.congested.items() if count
    }


def test_adaptive_routing_counts_the_time_for_which_it_holds_a_link_for_congested() -> None:
    run, _ = play(Algorithm.ADAPTIVE)
    congested = {f"{one}>{other}": each.congested_ms for (one, other), each in counters_of(run).items()}
    slow = congested.pop("b.3>b.0"), congested.pop("b.3>c.3")
    assert all(500.0 < each < 3_000.0 for each in slow)
    assert not any(congested.values())


@pytest.mark.parametrize("algorithm", [Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_rerouted_copies_are_those_around_slow_links(algorithm: Algorithm) -> None:
    rerouted = {f"{one}>{other}": each.rerouted for (one, other), each in counters_of(play(algorithm)[0]).items()}
    assert rerouted["b.3>b.1"] + rerouted["b.3>b.2"] > 100
    assert rerouted["a.3>a.0"] == 0


@pytest.mark.parametrize("algorithm", [Algorithm.TID_STATIC, Algorithm.TID_DYNAMIC])
def test_tid_counts_the_copies_that_change_trees(algorithm: Algorithm) -> None:
    run, _ = play(algorithm)
    rewritten = sum(getattr(each, "rewritten", 0) for each in run.world.counters())
    assert sum(each.rerouted for each in counters_of(run).values()) == rewritten


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_counters_do_not_depend_on_the_trace(algorithm: Algorithm) -> None:
    traced, plain = play(algorithm)[0], play(algorithm, Detail.OFF)[0]
    assert counters_of(traced) == counters_of(plain)
