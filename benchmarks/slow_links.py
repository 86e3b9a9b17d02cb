"""Measure slow aLinks under every routing algorithm: in the simulator, over sockets, and between network namespaces.

A publisher publishes at a steady rate, and one or two aLinks on the way carry a third of it: one or two of the tree
edge at the publisher's region, or one in the middle of the tree. Every subscriber must get every publication exactly
once, or the benchmark fails. There are three places:

- ``simulator``: the overlay S_e in virtual time, every link takes 3 ms per copy, 10 subscribers drawn from a seed.
- ``throttled``: 12 broker processes on this machine, with the slow links in their overlay file. Publications wait for
  such a link in the broker.
- ``namespaces``: 12 broker processes in network namespaces, with slow links made by the kernel (tbf). It needs root.
  Publications wait for such a link in the broker and, up to a credit window, in buffers below it.

The delays of algorithms that do not go around a slow link grow with the length of the run, so compare figures of one
run only. A run without slow links shows what the machine itself adds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import enum
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from bursts import ONE_SERVER, Burst, scenario_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "live"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "network"))

from namespaces import Hosts, why_not
from processes import Process, free_ports

from octopia.experiments.local_overlay import percentile
from octopia.ids import BrokerId
from octopia.overlay import LinkShape
from octopia.scenario import LinkChange
from octopia.settings import Algorithm
from octopia.simulator.run import run_scenario
from tables import print_rows

SIMULATED_PER_SECOND = 200.0
PER_SECOND = 100.0
SLOW_SHARE = 1.0 / 3.0
PAYLOAD_BYTES = 1000
PACKET_BYTES = 1150
"""The size of a packet with one publication, for links that are limited in bits per second."""

SIMULATED_HOST = "A.0"
REGIONS, CLUSTERS = "abcd", 3
BROKERS = [f"{region}.{cluster}" for region in REGIONS for cluster in range(CLUSTERS)]
PUBLISHER = "a.0"
SUBSCRIBERS = ["b.0", "c.0", "d.0", "b.1", "d.1", "c.2"]
PATIENCE_S = 30.0

Link: TypeAlias = tuple[str, str]


class Place(enum.StrEnum):
    """The places where slow links are measured."""

    SIMULATOR = "simulator"
    THROTTLED = "throttled"
    NAMESPACES = "namespaces"


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """The slow links of a case, in the simulator and elsewhere."""

    name: str
    simulated: tuple[Link, ...]
    live: tuple[Link, ...]


CASES = {
    "one": Case("one aLink of the host broker", (("A.0", "F.0"),), (("a.0", "b.0"),)),
    "two": Case("two aLinks of its edge", (("A.0", "F.0"), ("A.2", "F.2")), (("a.0", "b.0"), ("a.1", "b.1"))),
    "middle": Case("one in the middle of the tree", (("F.0", "G.0"),), (("b.0", "c.0"),)),
}
NOTHING_SLOW = Case("nothing slow", (), ())


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """The delays of one or more runs, and the number of deliveries, each owed and made exactly once."""

    mean_ms: float
    p99_ms: float
    max_ms: float
    deliveries: int

    @classmethod
    def of(cls, delays_ms: Sequence[float]) -> Figures:
        """Return the figures of delays."""
        values = list(delays_ms)
        return cls(statistics.fmean(values), percentile(values, 99), max(values), len(values))


# The simulator.


def simulate(case: Case, algorithm: Algorithm, seconds: float, seeds: int) -> Figures:
    """Run a case in virtual time, once per seed."""
    delays_ms: list[float] = []
    for seed in range(1, seeds + 1):
        rate = SIMULATED_PER_SECOND
        steady = Burst(SIMULATED_HOST, seed, round(seconds * rate), rate, background_per_second=0.0)
        links = tuple((BrokerId.parse(one), BrokerId.parse(other)) for one, other in case.simulated)
        slow = [LinkChange(links, shape=LinkShape(rate=SLOW_SHARE * rate))] if links else []
        run = run_scenario(scenario_of(steady, slow).with_algorithm(algorithm), profile=ONE_SERVER)
        complaints = run.complaints()
        found = [each.delay_ms for each in run.recorder.deliveries]
        if complaints or len(found) != steady.publications * steady.subscribers:
            raise SystemExit(
                f"WRONG: under {algorithm} routing, {case.name}: {len(found)} deliveries, {complaints[:1]}"
            )
        delays_ms += found
    return Figures.of(delays_ms)


# Broker processes.


@dataclasses.dataclass(frozen=True, slots=True)
class Ground:
    """The machines of an overlay: the address of each broker, the start of its overlay file, and how to run there."""

    addresses: dict[str, str]
    links: str
    command: Callable[[str], list[str]]

    def overlay_text(self, algorithm: Algorithm) -> str:
        """Return the overlay file."""
        text = f'tree = "path:{len(REGIONS)}"\nclusters = {CLUSTERS}\n'
        for broker, address in self.addresses.items():
            host, _, port = address.rpartition(":")
            text += f'[brokers."{broker}"]\nhost = "{host}"\nport = {port}\n'
        return f'{text}{self.links}[routing]\nalgorithm = "{algorithm}"\n'


@contextlib.contextmanager
def throttled(slow: Sequence[Link]) -> Iterator[Ground]:
    """Yield the addresses of brokers on this machine, with slow links in the overlay file."""
    addresses = {broker: f"127.0.0.1:{port}" for broker, port in zip(BROKERS, free_ports(len(BROKERS)), strict=True)}
    links = [f'[[link]]\nfrom = "{one}"\nto = "{other}"\nrate = {SLOW_SHARE * PER_SECOND}\n' for one, other in slow]
    yield Ground(addresses, "".join(links), lambda _: [])


@contextlib.contextmanager
def namespaces(slow: Sequence[Link]) -> Iterator[Ground]:
    """Yield brokers in network namespaces, with slow links between some of them."""
    with Hosts([*BROKERS, "pub", "sub"]) as hosts:
        for one, other in slow:
            hosts.cap(one, [other], f"{SLOW_SHARE * PER_SECOND * PACKET_BYTES * 8:.0f}bit", "400kb")
        yield Ground({broker: f"{hosts.address(broker)}:7400" for broker in BROKERS}, "", hosts.command)


GROUNDS = {Place.THROTTLED: throttled, Place.NAMESPACES: namespaces}


def play(place: Place, case: Case, algorithm: Algorithm, seconds: float) -> Figures:
    """Run a case with broker processes."""
    with tempfile.TemporaryDirectory() as folder, GROUNDS[place](case.live) as ground:
        overlay = Path(folder) / "overlay.toml"
        overlay.write_text(ground.overlay_text(algorithm))
        received = asyncio.run(_play(ground, overlay, round(seconds * PER_SECOND)))
    publications = list(range(round(seconds * PER_SECOND)))
    if received["numbers"] != [publications] * len(SUBSCRIBERS) or any(received["doubled"]):
        raise SystemExit(f"WRONG: under {algorithm} routing, {case.name}: publications are missing or came twice")
    return Figures.of([delay for delays in received["delays_ms"] for delay in delays])


async def _play(ground: Ground, overlay: Path, publications: int) -> dict[str, Any]:
    processes: list[Process] = []

    async def start(name: str, at: str, script: str, *arguments: str) -> Process:
        processes.append(await Process.start(name, script, *arguments, within=ground.command(at)))
        return processes[-1]

    try:
        brokers = [await start(each, each, "broker_process.py", str(overlay), each) for each in BROKERS]
        await asyncio.gather(*(broker.hear("ready") for broker in brokers))
        urls = [f"octopia://{ground.addresses[each]}" for each in (PUBLISHER, *SUBSCRIBERS)]
        subscribers = await start("S", "sub", "client_process.py", "subscribe", "x > 0", *urls[1:])
        await subscribers.hear("ready")
        load = (str(publications), str(PER_SECOND), str(PAYLOAD_BYTES))
        publisher = await start("P", "pub", "client_process.py", "publish", "x > 0 AND n >= 0", urls[0], *load)
        await publisher.hear("ready")
        publisher.tell("go")
        subscribers.tell(f"await {publications}")
        await subscribers.hear("complete", PATIENCE_S + 5 * publications / PER_SECOND)
        # Only when all brokers are at rest together, no copy is left that could come twice.
        while any([(await broker.ask("rest", "rest"))["unrest"] for broker in brokers]):
            await asyncio.gather(*(broker.until("at-rest") for broker in brokers))
        return await subscribers.ask("report", "received")
    finally:
        await asyncio.gather(*(process.stop() for process in processes))


# The table.


def measure(place: Place, case: Case, algorithm: Algorithm, seconds: float, seeds: int) -> Figures:
    """Run a case at a place."""
    if place is Place.SIMULATOR:
        return simulate(case, algorithm, seconds, seeds)
    return play(place, case, algorithm, seconds)


def rows_of(found: dict[str, Figures]) -> list[dict[str, Any]]:
    """Return the rows of figures, with the ratio of p99 to that of dynamic routing."""
    dynamic = found.get(Algorithm.DYNAMIC)
    rows = []
    for name, figures in found.items():
        row: dict[str, Any] = {"algorithm": name, **dataclasses.asdict(figures)}
        rows.append(row | ({"p99_to_dynamic": figures.p99_ms / dynamic.p99_ms} if dynamic else {}))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cases at all places, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", default=",".join(Place), help="(default: %(default)s)")
    parser.add_argument("--cases", default=",".join(CASES), help="(default: %(default)s)")
    parser.add_argument("--algorithms", default="static,dynamic,tid-static,adaptive", help="(default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="the time of publishing (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="runs in the simulator (default: %(default)s)")
    wanted = parser.parse_args(arguments)
    for place in map(Place, wanted.places.split(",")):
        if place is Place.NAMESPACES and why_not():
            print(f"skipping the slow links between namespaces: {why_not()}")
            continue
        # The rival is compared in virtual time only.
        algorithms = [Algorithm(each) for each in wanted.algorithms.split(",")]
        if place is not Place.SIMULATOR:
            algorithms = [each for each in algorithms if each is not Algorithm.TID_STATIC]
        reference = measure(place, NOTHING_SLOW, algorithms[-1], wanted.seconds, wanted.seeds)
        for case in map(CASES.__getitem__, wanted.cases.split(",")):
            found = {str(each): measure(place, case, each, wanted.seconds, wanted.seeds) for each in algorithms}
            found[f"{algorithms[-1]}, nothing slow"] = reference
            print_rows(f"{place}: {case.name} at a third of the offered rate", rows_of(found))


if __name__ == "__main__":
    main()
