"""The cost of a publication under each routing algorithm, for benchmarks/network.py: lines of brokers, run in turn."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from network_lines import Line, Round, broker_processes, clients, cost_rows, everything, in_turns
from network_processes import Wrong
from octopia.addresses import Address
from octopia.client.operators import ask
from octopia.experiments.local_overlay import at_free_addresses
from octopia.overlay import LinkShape
from octopia.overlay.files import overlay_from_text
from octopia.protocol.operations import Command, Verb
from octopia.settings import Algorithm, RoutingSettings
from tables import verdict

ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE)
NEVER = 1e12
"""A limit that no queue exceeds, not even on a busy machine."""
RATIO_AIM = 1.05
"""The aim for the ratio of adaptive to dynamic routing where nothing is congested."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A line of brokers, from the first one of the first cluster (publisher) to the last of the last (subscriber).

    ``limit`` is both tau and ``wait_ms``; None leaves both as they are. ``slow_per_s`` is the rate of the first link of
    the static way, 0 if it is as fast as the others.
    """

    length: int
    clusters: int
    limit: float | None = None
    slow_per_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The publications of a round, as a share of the usual number, and their rate; 0 is as fast as possible."""

    share: float = 1.0
    rate: float = 0.0


LINES: list[tuple[Shape, dict[str, Load]]] = [
    (Shape(1, 1), {"one hop": Load()}),
    (Shape(4, 2, limit=NEVER), {"below capacity": Load(0.1, rate=500.0), "full batches": Load()}),
    (Shape(4, 2), {"saturated": Load()}),
    (Shape(4, 2, slow_per_s=2_000.0), {"slow link": Load(0.2)}),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Contestant:
    """A line of brokers that use one algorithm."""

    line: Line
    addresses: Sequence[Address]

    def rerouted(self) -> int:
        """Return how often the brokers have rerouted a publication so far."""
        return asyncio.run(rerouted_at(self.addresses))


async def rerouted_at(addresses: Sequence[Address]) -> int:
    """Return how often brokers have rerouted a publication so far."""
    answers = [(await ask(each, Command(Verb.REPORT)))[0] for each in addresses]
    return sum(answer["rerouted"] + sum(answer["cases"].values()) for answer in answers)


@contextlib.contextmanager
def contestant(shape: Shape, algorithm: Algorithm, interests: list[list[str]]) -> Iterator[Contestant]:
    """Run a line of brokers, one process per broker."""
    routing = RoutingSettings(algorithm)
    if shape.limit is not None:
        routing = dataclasses.replace(routing, tau=shape.limit, wait_ms=shape.limit)
    overlay = overlay_from_text(f"path:{shape.length}", shape.clusters)
    brokers = overlay.scot.brokers
    shapes = {(brokers[0], brokers[1]): LinkShape(shape.slow_per_s)} if shape.slow_per_s else {}
    overlay = at_free_addresses(dataclasses.replace(overlay, routing=routing, shapes=shapes))
    addresses = [overlay.addresses[broker] for broker in brokers]
    with (
        broker_processes(overlay) as pids,
        clients(addresses[0], addresses[-1], pids, interests, everything, True) as line,
    ):
        yield Contestant(line, addresses)


def inner_s(shape: Shape, found: Round) -> float:
    """Return the CPU time of the inner brokers of the last cluster, which pass publications on."""
    return sum(found.cpu_s_by_process[shape.clusters * 2 - 1 : -1 : shape.clusters])


def hop_us(rounds: Sequence[Round], count: int) -> float:
    """Return the CPU time per broker that a publication passes, which is one more than its hops."""
    return median(each.cpu_s / (each.hops + count) * 1e6 for each in rounds)


def compare_algorithms(
    contestants: Mapping[Algorithm, Contestant], shape: Shape, load: Load, count: int, rounds: int
) -> list[dict[str, Any]]:
    """Return the cost of a publication under each algorithm, and its ratio to that under ``dynamic``."""
    lines = {str(algorithm): each.line for algorithm, each in contestants.items()}
    found = in_turns(lines, count, rounds, load.rate, in_order=False, has_details=True)
    reference = {"to_dynamic": str(Algorithm.DYNAMIC)}
    costs = cost_rows({name: [each.cpu_s for each in runs] for name, runs in found.items()}, count, reference)
    inner = {}
    if shape.length > 2:
        seconds = {name: [inner_s(shape, each) for each in runs] for name, runs in found.items()}
        inner = cost_rows(seconds, count, reference)
    rows = []
    for algorithm, each in contestants.items():
        name = str(algorithm)
        row: dict[str, Any] = {"algorithm": name, **costs[name], "hop_us": hop_us(found[name], count)}
        row["per_s"] = count / min(run.wall_s for run in found[name])
        row |= {f"inner_{key}": value for key, value in inner.get(name, {}).items() if key != "best_us"}
        row["rerouted"] = each.rerouted()
        if algorithm is Algorithm.ADAPTIVE and not (shape.clusters > 1 and shape.limit is None):
            row |= {"aim": RATIO_AIM, "verdict": verdict(row["to_dynamic"], RATIO_AIM)}
        rows.append(row)
    if shape.limit is not None and any(row["rerouted"] for row in rows):
        raise Wrong(f"expected no rerouted publications where no link is congested, got {rows}")
    return rows


QUICK_LINES = [LINES[0], LINES[1], LINES[3]]


def measure_algorithms(
    interests: list[list[str]], publications: int, rounds: int, *, is_quick: bool = False
) -> list[dict[str, Any]]:
    """Compare the algorithms on all lines and under all loads."""
    found = []
    for shape, loads in QUICK_LINES if is_quick else LINES:
        with contextlib.ExitStack() as stack:
            lines = {each: stack.enter_context(contestant(shape, each, interests)) for each in ALGORITHMS}
            for name, load in loads.items():
                count = max(20, round(publications * load.share))
                rows = compare_algorithms(lines, shape, load, count, rounds)
                found += [{"load": name, **row} for row in rows]
    return found
