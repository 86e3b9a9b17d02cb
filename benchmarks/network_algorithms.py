"""The cost of a publication under each routing algorithm, for benchmarks/network.py: lines of brokers, run in turn."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from network_lines import Line, Round, clients, everything
from network_processes import Wrong
from octopia.addresses import Address
from octopia.experiments.local_overlay import at_free_addresses, running
from octopia.overlay.files import overlay_from_text
from octopia.protocol.operations import Command, Verb
from octopia.runtime.operating import ask
from octopia.settings import Algorithm, RoutingSettings

ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE)
NEVER = 1e12
"""A limit that no queue exceeds, not even on a busy machine."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A line of brokers, from the first one of the first cluster (publisher) to the last of the last (subscriber).

    ``limit`` is both tau and ``wait_ms``; None leaves both as they are.
    """

    length: int
    clusters: int
    limit: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The publications of a round, as a share of the usual number, and their rate; 0 is as fast as possible."""

    share: float = 1.0
    rate: float = 0.0


LINES: list[tuple[Shape, dict[str, Load]]] = [
    (Shape(1, 1), {"algorithms_hop": Load()}),
    (
        Shape(4, 2, limit=NEVER),
        {"algorithms_chain_below_capacity": Load(0.1, rate=500.0), "algorithms_chain_full_batches": Load()},
    ),
    (Shape(4, 2), {"algorithms_chain_saturated": Load()}),
]


class Contestant:
    """A line of brokers that use one algorithm."""

    def __init__(self, line: Line, addresses: Sequence[Address]):
        self._line = line
        self._addresses = addresses

    def run(self, count: int, load: Load) -> Round:
        """Publish; only rerouted publications may arrive out of order."""
        return self._line.run(count, load.rate, in_order=False)

    def rerouted(self) -> int:
        """Return how often the brokers have rerouted a publication so far."""
        return asyncio.run(rerouted_at(self._addresses))


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
    overlay = at_free_addresses(dataclasses.replace(overlay, routing=routing))
    brokers = overlay.scot.brokers
    addresses = [overlay.addresses[broker] for broker in brokers]
    with (
        running(overlay, len(brokers)) as workers,
        clients(addresses[0], addresses[-1], workers.pids, interests, everything, True) as line,
    ):
        yield Contestant(line, addresses)


def inner_s(shape: Shape, found: Round) -> float:
    """Return the CPU time of the inner brokers of the last cluster, which pass publications on."""
    return sum(found.cpu_s_by_process[shape.clusters * 2 - 1 : -1 : shape.clusters])


def compare_algorithms(
    contestants: Mapping[Algorithm, Contestant], shape: Shape, load: Load, count: int, rounds: int
) -> dict[str, float]:
    """Return the cost of a publication under each algorithm, and its ratio to that under ``dynamic``."""
    for each in contestants.values():
        each.run(max(20, count // 10), load)
    found: dict[Algorithm, list[Round]] = {algorithm: [] for algorithm in ALGORITHMS}
    for number in range(rounds):
        first = number % len(ALGORITHMS)
        for algorithm in ALGORITHMS[first:] + ALGORITHMS[:first]:
            found[algorithm].append(contestants[algorithm].run(count, load))
    result = costs_of({algorithm: [each.cpu_s for each in runs] for algorithm, runs in found.items()}, count)
    if shape.length > 2:
        inner = {algorithm: [inner_s(shape, each) for each in runs] for algorithm, runs in found.items()}
        result |= {f"inner_{name}": value for name, value in costs_of(inner, count).items()}
    rerouted = {f"{algorithm}_rerouted": each.rerouted() for algorithm, each in contestants.items()}
    if shape.limit is not None and any(rerouted.values()):
        raise Wrong(f"expected no rerouted publications where no link is congested, got {rerouted}")
    return result | rerouted


def costs_of(seconds: Mapping[Algorithm, Sequence[float]], count: int) -> dict[str, float]:
    """Return the cost of the cheapest round under each algorithm, and the medians of the ratios per round."""
    costs = {f"{algorithm}_us": round(min(runs) / count * 1e6, 2) for algorithm, runs in seconds.items()}
    for algorithm in (Algorithm.STATIC, Algorithm.ADAPTIVE):
        pairs = zip(seconds[algorithm], seconds[Algorithm.DYNAMIC], strict=True)
        costs[f"{algorithm}_ratio"] = round(median(one / other for one, other in pairs), 3)
    return costs


def measure_algorithms(interests: list[list[str]], publications: int, rounds: int) -> dict[str, dict[str, float]]:
    """Compare the algorithms on all lines and under all loads."""
    found = {}
    for shape, loads in LINES:
        with contextlib.ExitStack() as stack:
            lines = {each: stack.enter_context(contestant(shape, each, interests)) for each in ALGORITHMS}
            for name, load in loads.items():
                count = max(20, round(publications * load.share))
                found[name] = compare_algorithms(lines, shape, load, count, rounds)
    return found
