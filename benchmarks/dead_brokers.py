"""Measure what live subscribers get from live publishers while brokers are dead, with and without adaptive routing.

The first part runs twelve broker processes over loopback (four regions in a row, three clusters), publishes at a steady
rate, and kills one, two or three of them with SIGKILL. Some time later it starts them again. It prints:

- *noticed*: the time from the kill until every neighbour knows that its link is down;
- *last loss*: the time from the kill to the last publication that was not delivered while they were dead;
- *after*: the share delivered, while they were dead, of the publications made after they were noticed;
- *lost* and *told*: what was not delivered even after their return, and how much of that subscribers were told of.

The second part kills brokers of the paper's overlay S_e in the simulator, several times at random, and publishes when
that was noticed. It compares what arrives with what is connected: there is a path of live brokers.

The benchmark fails if a publication arrives twice, if a loss is not told, or if adaptive routing does not deliver
everything that is published after the crash was noticed and is connected.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "live"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))

from ledger import Ledger, Outcome
from processes import Process, free_ports

import octopia
from octopia.content import Publication, parse_filter
from octopia.ids import BrokerId
from octopia.overlay import Scot, overlay_from_text, parse_tree
from octopia.scenario import AdvertiseItem, ClientSpec, CrashItem, Event, PublishItem, Scenario, SubscribeItem
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.run import run_scenario
from tables import print_rows

TREE, CLUSTERS = "path:4", 3
SCOT = Scot(parse_tree(TREE), CLUSTERS)
PUBLISH_AT = ("a.0", "d.1")
SUBSCRIBE_AT = ("d.0", "c.0", "a.1", "d.2", "b.2")
VICTIMS = (("b.0",), ("b.0", "b.1"), ("b.0", "c.1", "a.2"))
ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE)
INTEREST = "n >= 0"
PATIENCE_S = 60.0
QUIET_S = 2.0
"""The time without deliveries after which nothing more is expected while brokers are dead."""


class Wrong(Exception):
    """A promise was broken."""


# Broker processes.


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """The results of one run with killed processes; times are in seconds from the kill."""

    noticed_s: float
    last_loss_s: float
    after: float
    lost: int
    told: int


class Overlay:
    """The broker processes of one run."""

    def __init__(self, folder: Path, algorithm: Algorithm):
        names = list(map(str, SCOT.brokers))
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._path = folder / "overlay.toml"
        places = "".join(f'[brokers."{name}"]\nport = {port}\n' for name, port in self._ports.items())
        routing = f'[routing]\nalgorithm = "{algorithm}"\n'
        self._path.write_text(f'tree = "{TREE}"\nclusters = {CLUSTERS}\n{places}{routing}')
        self.processes: dict[str, Process] = {}

    async def start(self, *names: str) -> None:
        """Start brokers, all by default, and wait until they are ready."""
        for name in names or self._ports:
            self.processes[name] = await Process.start(
                name, "broker_process.py", str(self._path), name, log=self._path.with_name(f"{name}.log")
            )
        await asyncio.gather(*(self.processes[name].hear("ready", PATIENCE_S) for name in names or self._ports))

    async def stop(self) -> None:
        """End all brokers."""
        await asyncio.gather(*(each.kill() for each in self.processes.values()))

    def url(self, name: str) -> str:
        """Return the URL of a broker."""
        return f"octopia://127.0.0.1:{self._ports[name]}"

    async def noticed(self, victims: Sequence[str]) -> None:
        """Wait until all live neighbours of the victims have noticed that their links are down."""
        waits = [
            (str(neighbour), victim)
            for victim in victims
            for neighbour in SCOT.neighbourhood(BrokerId.parse(victim)).neighbours
            if str(neighbour) not in victims
        ]
        for name, victim in waits:
            await self.processes[name].until(f"down {victim}", PATIENCE_S)

    async def at_rest(self) -> None:
        """Wait until no broker has anything to do."""
        busy = True
        while busy:
            await asyncio.gather(*(each.until("at-rest", PATIENCE_S) for each in self.processes.values()))
            busy = any([(await each.ask("rest", "rest"))["unrest"] for each in self.processes.values()])


class Traffic:
    """Publishers and subscribers at brokers that stay alive, and the ledger of what they do."""

    def __init__(self, overlay: Overlay):
        self._overlay = overlay
        self._publishers: list[octopia.Client] = []
        self._clients: list[octopia.Client] = []
        self._open: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count()
        self.ledger = Ledger()
        self.last_delivery_s = 0.0

    async def join(self) -> None:
        """Connect all clients, and wait until everything is confirmed."""
        for name in SUBSCRIBE_AT:
            client = await octopia.connect(self._overlay.url(name), name=f"at {name}", timeout=PATIENCE_S)
            self._clients.append(client)

            def receive(publication: octopia.Received, name: str = name) -> None:
                number = publication["n"]
                assert isinstance(number, int)
                self.ledger.received(name, number)
                self.last_delivery_s = time.monotonic()

            def note_gap(_: octopia.Subscription, name: str = name) -> None:
                self.ledger.told(name, time.monotonic())

            await client.subscribe(INTEREST, callback=receive, on_gap=note_gap, timeout=PATIENCE_S)
            self.ledger.confirmed(name, lambda _: True, time.monotonic())
        for name in PUBLISH_AT:
            client = await octopia.connect(self._overlay.url(name), name=f"from {name}", timeout=PATIENCE_S)
            self._publishers.append(client)
            self._clients.append(client)
            await client.advertise(INTEREST, timeout=PATIENCE_S)

    async def leave(self) -> None:
        """Close all clients."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*(each.close(timeout=0.5) for each in self._clients), return_exceptions=True)

    async def publish_for(self, seconds: float, rate: float) -> None:
        """Publish at a steady rate, by all publishers in turn."""
        start = time.monotonic()
        for each in range(round(seconds * rate)):
            await asyncio.sleep(start + each / rate - time.monotonic())
            task = asyncio.get_running_loop().create_task(self._publish(next(self._numbers)))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _publish(self, number: int) -> None:
        self.ledger.made(number, {"n": number}, time.monotonic())
        try:
            await self._publishers[number % len(self._publishers)].publish({"n": number})
        except octopia.OctopiaError:
            self.ledger.answered(number, Outcome.FAILED)
        else:
            self.ledger.answered(number, Outcome.ACCEPTED)

    async def quiet(self) -> None:
        """Wait until everything was delivered, or no delivery has come for a while."""
        begin = time.monotonic()
        while self._open or any(map(self.ledger.missing, SUBSCRIBE_AT)):
            if time.monotonic() > max(begin, self.last_delivery_s) + QUIET_S:
                return
            await asyncio.sleep(0.05)


async def kill(victims: Sequence[str], algorithm: Algorithm, seconds: float, rate: float, folder: Path) -> Figures:
    """Kill brokers under load, let them return after some seconds, and return the figures."""
    overlay = Overlay(folder, algorithm)
    traffic = Traffic(overlay)
    try:
        await overlay.start()
        await traffic.join()
        await traffic.publish_for(seconds / 2, rate)
        load = asyncio.get_running_loop().create_task(traffic.publish_for(seconds, rate))
        await asyncio.sleep(0.1)
        killed_s = time.monotonic()
        await asyncio.gather(*(overlay.processes[each].kill() for each in victims))
        await overlay.noticed(victims)
        noticed_s = time.monotonic()
        await load
        await traffic.quiet()
        dead = traffic.ledger.judge(noticed_s)
        missing = [each for name in SUBSCRIBE_AT for each in traffic.ledger.missing(name)]
        last_s = max((traffic.ledger.publications[each].at_s for each in missing), default=killed_s)
        await overlay.start(*victims)
        await overlay.at_rest()
        await traffic.quiet()
    finally:
        await traffic.leave()
        await overlay.stop()
    final = traffic.ledger.judge()
    if final.breaches:
        raise Wrong(f"{algorithm}, {len(victims)} dead: {'; '.join(final.breaches)}")
    if algorithm is Algorithm.ADAPTIVE and dead.delivered < dead.owed:
        raise Wrong(f"adaptive, {len(victims)} dead: {dead.owed - dead.delivered} of {dead.owed} waited or were lost")
    share = dead.delivered / dead.owed
    return Figures(noticed_s - killed_s, last_s - killed_s, share, final.owed - final.delivered, final.told)


def kill_processes(
    dead: Sequence[int], algorithms: Sequence[Algorithm], seconds: float, rate: float
) -> Iterator[tuple[int, Algorithm, Figures]]:
    """Yield the figures of every number of dead brokers under every algorithm."""
    for victims in VICTIMS:
        for algorithm in algorithms if len(victims) in dead else ():
            with tempfile.TemporaryDirectory() as folder:
                yield len(victims), algorithm, asyncio.run(kill(victims, algorithm, seconds, rate, Path(folder)))


# The simulator.


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Dead brokers of S_e, and the brokers of publishers and subscribers, which are alive."""

    dead: tuple[BrokerId, ...]
    publishers: tuple[BrokerId, ...]
    subscribers: tuple[BrokerId, ...]


CRASH_MS, PUBLISH_MS, EVERY_MS = 1_000.0, 3_000.0, 20.0


def draw(seed: int, dead: int, publishers: int, subscribers: int) -> Placement:
    """Draw a placement."""
    chance = random.Random(seed)
    brokers = list(overlay_from_text("paper:se", None).scot.brokers)
    chance.shuffle(brokers)
    live = brokers[dead:]
    return Placement(
        tuple(brokers[:dead]), tuple(chance.sample(live, publishers)), tuple(chance.sample(live, subscribers))
    )


def scenario_of(placement: Placement, publications: int) -> Scenario:
    """Return the scenario: brokers crash, and later each publisher publishes, all in turn."""
    overlay, interest = overlay_from_text("paper:se", None), "x = 1"
    parsed = parse_filter(interest)
    clients = [
        ClientSpec(f"P{each}", broker, (AdvertiseItem(f"P{each}", f"P{each}/0", interest, parsed),))
        for each, broker in enumerate(placement.publishers)
    ]
    clients += [
        ClientSpec(f"S{each}", broker, (SubscribeItem(f"S{each}", f"S{each}/0", interest, parsed),))
        for each, broker in enumerate(placement.subscribers)
    ]
    events = [Event(CrashItem(broker), at_ms=CRASH_MS) for broker in placement.dead]
    step_ms = EVERY_MS / len(placement.publishers)
    events += [
        Event(PublishItem(f"P{each}", Publication({"x": 1}), publications, EVERY_MS), at_ms=PUBLISH_MS + each * step_ms)
        for each in range(len(placement.publishers))
    ]
    return Scenario("dead brokers", overlay, RoutingSettings(), tuple(clients), (), tuple(events))


def reachable(scot: Scot, dead: Sequence[BrokerId], start: BrokerId) -> set[BrokerId]:
    """Return the brokers to which there is a path of live brokers.

    The live brokers of a region are all neighbours, and the tree has one path between regions. So a path never has to
    turn back, and is one by the rules of adaptive routing, too.
    """
    found, todo = {start}, deque([start])
    while todo:
        for each in scot.neighbourhood(todo.popleft()).neighbours:
            if each not in found and each not in dead:
                found.add(each)
                todo.append(each)
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class Shares:
    """The shares of what live subscribers are owed: what is connected, and what arrived under each algorithm."""

    connected: float
    arrived: dict[Algorithm, float]


def simulate(placement: Placement, algorithms: Sequence[Algorithm], publications: int) -> Shares:
    """Run a placement under every algorithm."""
    scenario = scenario_of(placement, publications)
    hosts = placement.publishers
    owed = len(hosts) * publications * len(placement.subscribers)
    near = [reachable(scenario.overlay.scot, placement.dead, host) for host in hosts]
    pairs = {(i, j) for i, found in enumerate(near) for j, each in enumerate(placement.subscribers) if each in found}
    arrived: dict[Algorithm, float] = {}
    for algorithm in algorithms:
        run = run_scenario(scenario.with_algorithm(algorithm))
        if complaints := run.complaints():
            raise Wrong(f"under {algorithm} routing {complaints[0]} ({len(complaints)} complaints)")
        got = [(each.publication % len(hosts), int(each.client[1:])) for each in run.recorder.deliveries]
        arrived[algorithm] = len(got) / owed
        if algorithm is Algorithm.ADAPTIVE and len(got) != len(pairs) * publications:
            raise Wrong(f"adaptive delivered {len(got)} of {len(pairs) * publications} that are connected")
        if not pairs.issuperset(got):
            raise Wrong(f"under {algorithm} routing something arrived that is not connected")
    return Shares(len(pairs) * publications / owed, arrived)


# The command.


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both parts, and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--dead", type=int, nargs="*", default=[1, 2, 3], help="numbers of dead processes of 12 (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=6.0,
        help="the time for which load continues after a kill (default: %(default)s)",
    )
    parser.add_argument("--rate", type=float, default=200.0, help="publications per second (default: %(default)s)")
    parser.add_argument(
        "--simulated",
        type=int,
        default=9,
        help="the number of dead brokers of 56 in the simulator (default: %(default)s)",
    )
    parser.add_argument("--seeds", type=int, default=10, help="(default: %(default)s)")
    parser.add_argument(
        "--publications",
        type=int,
        default=20,
        help="publications per publisher in the simulator (default: %(default)s)",
    )
    parser.add_argument(
        "--algorithms", type=Algorithm, nargs="+", choices=ALGORITHMS, default=ALGORITHMS, help="(default: all)"
    )
    wanted = parser.parse_args(arguments)
    algorithms: Sequence[Algorithm] = wanted.algorithms
    try:
        killed = [
            _killed_row(dead, algorithm, each)
            for dead, algorithm, each in kill_processes(wanted.dead, algorithms, wanted.seconds, wanted.rate)
        ]
        if killed:
            print_rows("killed under load", killed)
        placements = [draw(seed, wanted.simulated, 10, 20) for seed in range(1, wanted.seeds + 1)]
        shares = [simulate(each, algorithms, wanted.publications) for each in placements]
    except Wrong as error:
        sys.exit(f"WRONG: {error}")
    if shares:
        arrived = {str(each): [share.arrived[each] for share in shares] for each in algorithms}
        arrived["connected"] = [each.connected for each in shares]
        rows = [{"routing": name, **_mean_and_least(each)} for name, each in arrived.items()]
        print_rows(f"{wanted.simulated} of 56 dead, {wanted.seeds} placements", rows)


def _killed_row(dead: int, algorithm: Algorithm, found: Figures) -> dict[str, Any]:
    times = {"noticed_ms": 1000 * found.noticed_s, "last_loss_ms": 1000 * found.last_loss_s}
    row = {"dead_of_12": dead, "algorithm": str(algorithm), **times, "after": f"{found.after:.1%}"}
    return row | {"lost": found.lost, "told": found.told}


def _mean_and_least(shares: Sequence[float]) -> dict[str, str]:
    return {"mean": f"{statistics.fmean(shares):.1%}", "least": f"{min(shares):.1%}"}


if __name__ == "__main__":
    main()
