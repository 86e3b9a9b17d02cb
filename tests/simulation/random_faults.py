"""Random runs with faults, drawn from a seed, and the checks that each of them must pass.

A run has phases. In a phase, clients publish, subscribe, unsubscribe, advertise and unadvertise at random times, while
brokers crash and restart, links are cut and heal, and frames are dropped, duplicated and reordered. At the end of the
phase everything is whole again and settles. ``judge`` then checks:

- The ledger found nothing missing, duplicated, or delivered to an uninterested client.
- The tables and CIVs equal those of the same run without faults, up to ids.

``random_faults.py SEED… [--se] [--check]`` replays seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from octopia.broker import OctopiaBroker, Verdict
from octopia.content import Publication, format_filter, parse_filter
from octopia.ids import BrokerId
from octopia.overlay import LinkShape, Overlay, overlay_from_text
from octopia.scenario import (
    AdvertiseItem,
    ClientSpec,
    CrashItem,
    CutItem,
    Event,
    FaultItem,
    HealItem,
    Item,
    LinkChange,
    LinkModel,
    PublishItem,
    RestartItem,
    Scenario,
    SimulatorSettings,
    SlowItem,
    SubscribeItem,
    UnadvertiseItem,
    UnsubscribeItem,
)
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.checkers import Ledger
from octopia.simulator.links import FaultyLinks
from octopia.simulator.run import Run, run_scenario

PHASES = 3
PHASE_MS = 4000.0
_OFFERS = ("x >= 0", "x >= 0 AND y IS NOT NULL", "x BETWEEN 0 AND 5 AND kind IN ('a', 'b')")
_INTERESTS = ("x > 2", "x <= 3", "x > 1 AND y > 0", "kind = 'a' OR x = 5", "x >= 0", "NOT x > 4")


SE_CLIENTS = 24
"""The number of clients of a run on the paper's overlay S_e."""

_Issued = TypeVar("_Issued", AdvertiseItem, SubscribeItem)


@dataclasses.dataclass(frozen=True, slots=True)
class FaultTotals:
    """The faults of a run, so that a set of runs can show that its faults struck.

    ``lost_in_…`` count the frames that were in flight when a link was cut or a broker crashed. ``confirmed`` counts the
    deliveries that were owed only because the subscription had been confirmed just before.
    """

    crashes: int
    cuts: int
    dropped: int
    duplicated: int
    reordered: int
    lost_in_cuts: int
    lost_in_crashes: int
    slow_links: int
    slow_clients: int
    confirmed: int

    def __add__(self, other: FaultTotals) -> FaultTotals:
        one, another = dataclasses.astuple(self), dataclasses.astuple(other)
        return FaultTotals(*(a + b for a, b in zip(one, another, strict=True)))


NOTHING = FaultTotals(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def draw_on_se(seed: int) -> Scenario:
    """Draw a scenario with faults on the paper's overlay S_e."""
    return draw(seed, "paper:se", 4, SE_CLIENTS)


def draw(seed: int, tree: str | None = None, clusters: int | None = None, wanted: int | None = None) -> Scenario:
    """Draw a scenario with faults."""
    chance = random.Random(seed)
    overlay = overlay_from_text(tree or _draw_tree(chance), clusters or chance.randint(1, 4))
    clients = _draw_clients(chance, overlay, wanted or chance.randint(3, 8))
    events: list[Event] = []
    state = _State(chance, overlay, clients)
    for _ in range(PHASES):
        events += state.phase()
        events.append(Event(LinkChange(())))
    for client in clients:
        if state.offers[client.name]:
            events.append(Event(PublishItem(client.name, Publication({"x": 5, "y": 1, "kind": "a"}))))
    bad = chance.random() < 0.5
    return Scenario(
        name=f"faults-{seed}",
        overlay=overlay,
        routing=RoutingSettings(
            algorithm=chance.choice([Algorithm.STATIC, Algorithm.DYNAMIC]),
            confirmations=chance.random() < 0.8,
        ),
        clients=tuple(clients),
        links=tuple(_draw_slowness(chance, overlay)),
        events=(*_draw_slow_clients(chance, clients), *events),
        simulator=SimulatorSettings(
            seed=seed,
            links=LinkModel.SESSION,
            drop=0.02 if bad else 0.0,
            duplicate=0.05 if bad else 0.0,
            reorder=0.05 if bad else 0.0,
            queue_capacity=chance.choice([0, 0, 2, 8]),
            window_bytes=chance.choice([200, 4096, 65536]),
        ),
    )


def _draw_slowness(chance: random.Random, overlay: Overlay) -> Iterator[LinkChange]:
    """Make some links slow or congested, so that faults meet publications on other paths."""
    links = [*overlay.scot.alinks, *overlay.scot.ilinks]
    for low, high in chance.sample(links, min(len(links), chance.choice((0, 0, 2, 4)))):
        if chance.random() < 0.6:
            yield LinkChange(((low, high), (high, low)), shape=LinkShape(rate=chance.choice((20.0, 100.0, 500.0))))
        else:
            yield LinkChange(((low, high),), verdict=Verdict.CONGESTED, queue_length=chance.randint(1, 30))


def _draw_slow_clients(chance: random.Random, clients: list[ClientSpec]) -> Iterator[Event]:
    for client in clients:
        if chance.random() < 0.15:
            yield Event(SlowItem(client.name, rate=chance.choice((20.0, 200.0))))


def without_faults(scenario: Scenario) -> Scenario:
    """Return the same scenario on links that never fail."""
    events = tuple(event for event in scenario.events if not isinstance(event.item, FaultItem))
    return dataclasses.replace(scenario, events=events, simulator=SimulatorSettings(links=LinkModel.IDEAL))


def judge(scenario: Scenario, *, check: bool = False) -> tuple[list[str], FaultTotals]:
    """Run a scenario with and without its faults; return what is wrong, and the faults that struck.

    ``check`` tests the invariants of every broker after every step, not only at the end.
    """
    run = run_scenario(scenario, check=check)
    wrong = list(run.complaints())
    whole = run_scenario(without_faults(scenario))
    expected, got = tables_of(whole), tables_of(run)
    for broker, table in expected.items():
        if got[broker] != table:
            wrong.append(f"{broker} ended with {got[broker]}, without faults with {table}")
    for broker in run.world.brokers.values():
        broker.check()
    return wrong, _totals(run, scenario)


def tables_of(run: Run) -> dict[BrokerId, tuple[list[str], list[str]]]:
    """Return the contents of the tables of every broker, without ids."""
    tables = {}
    for broker, alive in run.world.brokers.items():
        assert isinstance(alive, OctopiaBroker)
        prt = sorted(f"{format_filter(entry.interest)} <- {entry.last_hop}" for entry in alive.state.prt)
        clt = sorted(
            f"{format_filter(entry.offer)} <- {entry.last_hop} {entry.routing_civ}" for entry in alive.state.clt
        )
        tables[broker] = (prt, clt)
    return tables


def _totals(run: Run, scenario: Scenario) -> FaultTotals:
    links = run.world.links
    assert isinstance(links, FaultyLinks)
    counted = links.counters
    return FaultTotals(
        crashes=sum(isinstance(event.item, CrashItem) for event in scenario.events),
        cuts=sum(isinstance(event.item, CutItem) for event in scenario.events),
        dropped=counted.dropped,
        duplicated=counted.duplicated,
        reordered=counted.reordered,
        lost_in_cuts=counted.lost_in_cuts,
        lost_in_crashes=counted.lost_in_crashes,
        slow_links=sum(change.shape.rate is not None for change in scenario.links),
        slow_clients=sum(isinstance(event.item, SlowItem) for event in scenario.events),
        confirmed=sum(_owed_by_confirmation(run.ledger, number) for number in range(run.ledger.attempted)),
    )


def _owed_by_confirmation(ledger: Ledger, number: int) -> int:
    """Return the number of subscriptions that must receive a publication because of a confirmation alone."""
    must, _ = ledger.expected(number)
    return sum(ledger._issued[name].since >= ledger._published[number].begin for name in must)


def _draw_tree(chance: random.Random) -> str:
    return chance.choice(["a", "path:2", "path:3", "path:4", "star:4", "a-b, b-c, b-d, d-e", "path:5"])


def _draw_clients(chance: random.Random, overlay: Overlay, wanted: int) -> list[ClientSpec]:
    clients = []
    for number in range(wanted):
        name = f"c{number}"
        items: list[AdvertiseItem | SubscribeItem] = []
        if number % 2 == 0:
            items.append(_advertise(name, f"{name}/a", chance.choice(_OFFERS)))
        if number % 2 or chance.random() < 0.3:
            items.append(_subscribe(name, f"{name}/s", chance.choice(_INTERESTS)))
        clients.append(ClientSpec(name, chance.choice(overlay.scot.brokers), tuple(items)))
    return clients


def _advertise(client: str, name: str, text: str) -> AdvertiseItem:
    return AdvertiseItem(client, name, text, parse_filter(text))


def _subscribe(client: str, name: str, text: str) -> SubscribeItem:
    return SubscribeItem(client, name, text, parse_filter(text))


class _State:
    """The requests in force while events are drawn, so that the events make sense."""

    def __init__(self, chance: random.Random, overlay: Overlay, clients: list[ClientSpec]):
        self._chance = chance
        self._scot = overlay.scot
        self._links = [*self._scot.alinks, *self._scot.ilinks]
        self._clients = [client.name for client in clients]
        self._next = 0
        self.offers: dict[str, list[str]] = {name: [] for name in self._clients}
        self._interests: dict[str, list[str]] = {name: [] for name in self._clients}
        for client in clients:
            for item in client.items:
                kept = self.offers if isinstance(item, AdvertiseItem) else self._interests
                kept[client.name].append(item.id)

    def phase(self) -> list[Event]:
        events: list[Event] = []
        for time in sorted(self._chance.uniform(0, PHASE_MS) for _ in range(self._chance.randint(5, 30))):
            # Half of the clients' actions come in bursts within a few milliseconds, so that they overlap.
            at = time if self._chance.random() < 0.5 else self._chance.uniform(0, 40)
            events.append(Event(self._action(), after_ms=at))
        for _ in range(self._chance.randint(0, 2)):
            events += self._fault()
        return sorted(events, key=lambda event: event.after_ms or 0.0)

    def _fault(self) -> list[Event]:
        begin = self._chance.choice([self._chance.uniform(0, 40), self._chance.uniform(0, PHASE_MS)])
        end = begin + self._chance.choice([3.0, 50.0, 900.0, 2600.0, 6000.0]) * self._chance.uniform(0.5, 1.5)
        if self._chance.random() < 0.5 or not self._links:
            broker = self._chance.choice(self._scot.brokers)
            return [Event(CrashItem(broker), after_ms=begin), Event(RestartItem(broker), after_ms=end)]
        link = self._chance.choice(self._links)
        return [Event(CutItem(link), after_ms=begin), Event(HealItem(link), after_ms=end)]

    def _action(self) -> Item:
        client = self._chance.choice(self._clients)
        kind = self._chance.random()
        if kind < 0.55:
            values: dict[str, int | str] = {"x": self._chance.randint(0, 6)}
            if self._chance.random() < 0.6:
                values["y"] = self._chance.randint(-1, 2)
            if self._chance.random() < 0.4:
                values["kind"] = self._chance.choice("abc")
            publisher = self._chance.choice([name for name in self._clients if self.offers[name]] or self._clients)
            return PublishItem(publisher, Publication(values), count=self._chance.choice([1, 1, 5, 20]), every_ms=1)
        if kind < 0.7:
            return self._issued(self._interests, client, _subscribe, _INTERESTS)
        if kind < 0.8:
            return self._issued(self.offers, client, _advertise, _OFFERS)
        if kind < 0.9 and self._interests[client]:
            return UnsubscribeItem(client, self._interests[client].pop())
        if self.offers[client]:
            return UnadvertiseItem(client, self.offers[client].pop())
        return self._issued(self._interests, client, _subscribe, _INTERESTS)

    def _issued(
        self,
        kept: dict[str, list[str]],
        client: str,
        make: Callable[[str, str, str], _Issued],
        texts: Sequence[str],
    ) -> _Issued:
        name = f"{client}/n{self._next}"
        self._next += 1
        kept[client].append(name)
        return make(client, name, self._chance.choice(texts))


# Replaying.


def replay_command(seed: int, *, on_se: bool = False, check: bool = False) -> str:
    """Return the command that replays a seed from the root of the repository."""
    options = (" --se" if on_se else "") + (" --check" if check else "")
    return f".venv/bin/python tests/simulation/random_faults.py {seed}{options}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay seeds, and print their faults and what is wrong."""
    parser = argparse.ArgumentParser(description="Play random runs with faults.")
    parser.add_argument("seeds", type=int, nargs="+", metavar="SEED")
    parser.add_argument("--se", action="store_true", help="on the paper's overlay S_e")
    parser.add_argument("--check", action="store_true", help="test all invariants after every step")
    options = parser.parse_args(arguments)
    all_wrong: list[str] = []
    for seed in options.seeds:
        wrong, totals = judge(draw_on_se(seed) if options.se else draw(seed), check=options.check)
        print(f"seed {seed}: {totals}")
        for sentence in wrong or ["nothing is wrong"]:
            print(f"  {sentence}")
        all_wrong += wrong
    return 1 if all_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
