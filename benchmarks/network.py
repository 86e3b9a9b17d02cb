"""Measure brokers over TCP, and compare them with a bare relay that reads, decodes and forwards the same frames.

The figures:

- *hop*: a publisher, a broker and a subscriber in three processes. Publications have 7 attributes and a payload of 20
  bytes. One subscription matches, 100 others do not.
- *chain*: four brokers in a row, one process per broker, against four relays. Figures are per hop.
- *fan*: 100 subscribers with distinct range filters; half of them match each publication. The relay sends each
  publication to one half of its 100 receivers and the next to the other half. Figures are per publication.
- *delay*: as *hop*, at a low rate: from the publisher's clock to the subscriber's, which are the same.
- *overlay*: the 56 brokers of paper:se on this machine: the time until all are connected and accept publications, and
  the memory of all processes, including the parent (shared pages count once). Like `octopia up`, it uses one process
  per CPU; *apart* uses one process per broker.
- *algorithms*: brokers with static, dynamic and adaptive routing in turn, without a relay; ratios are to dynamic. One
  hop, and a chain of four in two clusters that is entered in one cluster and left in the other, so copies cross one
  iLink and three aLinks. Figures are per publication: for all brokers, and for the two inner ones (*inner*). *below
  capacity* is at 500 publications per second, *full batches* as fast as possible. Both have limits that no link
  exceeds, so nothing is congested, even on a busy machine, and nothing may be rerouted. *saturated* is as fast as
  possible with the usual limits: links are congested. *rerouted* counts the decisions to go around a link.

How to read the numbers:

- Broker and relay take turns. Costs are CPU time per publication of the process in the middle, since wall times of the
  same reading differ a lot from round to round on a shared machine. Each cost is that of the cheapest round, which was
  disturbed least. *ratio* is the median of the ratios per round, in which both ran one right after the other, so it
  need not be the ratio of the two costs. *per_s* is by wall time, from the fastest round. It is limited by the slowest
  process, including publisher and subscriber.
- The relay has no session, no acknowledgements and no tables. It encodes once per copy.
- *CPU time by package* is from a profile of the broker in *hop*. Profiling makes code with many small calls look more
  expensive than it is. Time outside Python is spent in the event loop and the kernel.

Every publication must arrive exactly once at all its subscribers; otherwise the benchmark fails.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from network_algorithms import measure_algorithms
from network_before import Before
from network_lines import (
    FAN,
    Line,
    Round,
    broker_line,
    clients,
    everything,
    halves,
    ranges,
    relay_line,
    wait_for,
)
from network_load import CHOICES, run_profiled
from network_processes import Child, Wrong
from octopia.errors import OctopiaError
from octopia.experiments.local_overlay import at_free_addresses, percentile, running
from octopia.overlay.files import overlay_from_text

CHAIN = 4
AIMS = {
    "hop.ratio": 3.0,
    "chain.ratio": 3.0,
    "fan.ratio": 3.0,
    "delay.p50_ratio": 2.0,
    "overlay.up_s": 5.0,
    "overlay.mb": 500.0,
    "overlay_apart.up_s": 5.0,
    "overlay_apart.mb": 500.0,
    "algorithms_hop.adaptive_ratio": 1.05,
    "algorithms_chain_below_capacity.adaptive_ratio": 1.05,
    "algorithms_chain_below_capacity.inner_adaptive_ratio": 1.05,
    "algorithms_chain_full_batches.adaptive_ratio": 1.05,
    "algorithms_chain_full_batches.inner_adaptive_ratio": 1.05,
}
ONE_OF_MANY = [["price > 10 AND volume > 5 AND x >= 0", *(f"price > 1000 AND volume > {n}" for n in range(100))]]
RANGES = [[f"x >= {n} AND volume > 0"] for n in range(CHOICES)] + [[f"x < {n} AND volume > 0"] for n in range(CHOICES)]


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """The size of a measurement."""

    publications: int
    rounds: int
    rate: float
    seconds: float


# Figures.


def in_turns(
    broker: Line, relay: Line, before: Before | None, count: int, rounds: int
) -> tuple[list[Round], list[Round], list[float]]:
    """Measure all in turn, after a warm-up."""
    warm_up = max(100, count // 10)
    for line in (broker, relay):
        line.run(warm_up)
    if before is not None:
        before.cpu_s(warm_up)
    ours, theirs, befores = [], [], []
    for _ in range(rounds):
        ours.append(broker.run(count))
        if before is not None:
            befores.append(before.cpu_s(count))
        theirs.append(relay.run(count))
    return ours, theirs, befores


def compare(
    broker: Line, relay: Line, before: Before | None, count: int, rounds: int, hops: int = 1
) -> dict[str, float]:
    """Return the cost of a publication per hop, and the publications per second."""
    ours, theirs, befores = in_turns(broker, relay, before, count, rounds)
    broker_us, relay_us = (min(each.cpu_s for each in side) / count / hops * 1e6 for side in (ours, theirs))
    against = {}
    if befores:
        ratios = [one.cpu_s / other for one, other in zip(ours, befores, strict=True)]
        against = {
            "before_us": round(min(befores) / count / hops * 1e6, 2),
            "ratio_to_before": round(median(ratios), 3),
        }
    return against | {
        "broker_us": round(broker_us, 2),
        "relay_us": round(relay_us, 2),
        "ratio": round(median(one.cpu_s / other.cpu_s for one, other in zip(ours, theirs, strict=True)), 2),
        "broker_per_s": round(count / min(each.wall_s for each in ours)),
        "relay_per_s": round(count / min(each.wall_s for each in theirs)),
    }


def line_before(before: Before | None, figure: str) -> contextlib.AbstractContextManager[Before | None]:
    """Return the same line of brokers of the other checkout, if there is one."""
    return contextlib.nullcontext() if before is None else before.line(figure)


def measure_hop(size: Size, before: Before | None = None) -> tuple[dict[str, float], dict[str, float]]:
    """Measure the cost and the delay of one hop."""
    with broker_line(1, ONE_OF_MANY, everything) as broker, relay_line(1, 1, everything) as relay:
        with line_before(before, "hop") as other:
            hop = compare(broker, relay, other, size.publications, size.rounds)
        ours: list[float] = []
        theirs: list[float] = []
        turns = max(1, round(size.seconds))
        for _ in range(turns):
            count = max(20, round(size.rate * size.seconds / turns))
            ours += broker.run(count, size.rate).delays_ms
            theirs += relay.run(count, size.rate).delays_ms
    delay = {"rate": size.rate, "publications": float(len(ours))}
    for share in (50, 99):
        broker_ms, relay_ms = percentile(ours, share), percentile(theirs, share)
        delay |= {f"broker_p{share}_ms": round(broker_ms, 3), f"relay_p{share}_ms": round(relay_ms, 3)}
        delay[f"p{share}_ratio"] = round(broker_ms / relay_ms, 2)
    return hop, delay


def measure_chain(size: Size, before: Before | None = None) -> dict[str, float]:
    """Measure four hops."""
    with (
        broker_line(CHAIN, ONE_OF_MANY, everything) as broker,
        relay_line(CHAIN, 1, everything) as relay,
        line_before(before, "chain") as other,
    ):
        return compare(broker, relay, other, size.publications, size.rounds, CHAIN)


def measure_fan(size: Size, before: Before | None = None) -> dict[str, float]:
    """Measure one hop with many subscribers."""
    with (
        broker_line(1, RANGES, ranges) as broker,
        relay_line(1, FAN, halves) as relay,
        line_before(before, "fan") as other,
    ):
        return compare(broker, relay, other, max(CHOICES, size.publications // 20), size.rounds)


def measure_overlay(tree: str, processes: int) -> dict[str, float]:
    """Measure the start of a large overlay in a number of processes."""
    overlay = at_free_addresses(overlay_from_text(tree))
    begin = time.monotonic()
    with running(overlay, processes) as workers:
        up_s = time.monotonic() - begin
        pss_kb = sum(map(pss_kb_of, [os.getpid(), *workers.pids]))
    return {
        "brokers": len(overlay.scot.brokers),
        "processes": 1 + len(workers.pids),
        "up_s": round(up_s, 2),
        "mb": round(pss_kb / 1024, 1),
    }


def pss_kb_of(pid: int) -> int:
    """Return the memory of a process; shared memory is divided among its users."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


# CPU time by package.

PACKAGES = {
    "wire": "wire",
    "link": "session",
    "matching": "matching",
    "content": "matching",
    "broker": "broker",
    "node": "node",
    "protocol": "wire",
    "runtime": "runtime and transport",
    "transport": "runtime and transport",
}
OUTSIDE = "event loop and kernel"


def measure_shares(size: Size) -> dict[str, float]:
    """Return the share of each package in a broker's CPU time."""
    overlay = at_free_addresses(overlay_from_text("path:1", 1))
    address = overlay.addresses[overlay.scot.brokers[0]]
    with contextlib.ExitStack() as stack:
        broker = Child("broker", run_profiled, overlay)
        stack.callback(broker.end)
        broker.hear()
        wait_for(address)
        line = stack.enter_context(clients(address, address, [broker.pid], ONE_OF_MANY, everything, True))
        line.run(max(100, size.publications // 10))
        broker.tell("begin")
        broker.hear()
        line.run(size.publications)
        broker.tell("end")
        return shares_of(*broker.hear())


def shares_of(stats: dict[Any, Any], total_s: float) -> dict[str, float]:
    """Sum up a profile by package; built-in functions count for their callers."""
    seconds = dict.fromkeys([*PACKAGES.values(), OUTSIDE], 0.0)
    for (file, _, _), (_, _, own_s, _, callers) in stats.items():
        if file != "~":
            seconds[package_of(file)] += own_s
            continue
        for (caller, _, _), called in callers.items():
            seconds[package_of(caller)] += called[2]
    seconds[OUTSIDE] += max(0.0, total_s - sum(seconds.values()))
    whole = sum(seconds.values())
    return {name: round(own_s / whole, 3) for name, own_s in sorted(seconds.items(), key=lambda each: -each[1])}


def package_of(file: str) -> str:
    """Return the package that a file belongs to."""
    parts = Path(file).parts
    if "octopia" not in parts[:-1]:
        return OUTSIDE
    return PACKAGES.get(parts[len(parts) - parts[::-1].index("octopia")], OUTSIDE)


def measure(size: Size, tree: str, before: Before | None = None, *, only: str | None = None) -> dict[str, Any]:
    """Measure everything; with another checkout, only the figures that are compared with it."""
    if only == "algorithms":
        return dict(measure_algorithms(ONE_OF_MANY, size.publications, size.rounds))
    hop, delay = measure_hop(size, before)
    result: dict[str, Any] = {"hop": hop, "chain": measure_chain(size, before), "fan": measure_fan(size, before)}
    if before is not None:
        return result
    result["delay"] = delay
    result["overlay"] = measure_overlay(tree, os.cpu_count() or 1)
    result["overlay_apart"] = measure_overlay(tree, len(overlay_from_text(tree).scot.brokers))
    result["shares"] = measure_shares(size)
    return result | measure_algorithms(ONE_OF_MANY, size.publications, size.rounds)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--publications", type=int, default=10_000, help="publications per round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="(default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="duration of the delay measurement (default: %(default)s)"
    )
    parser.add_argument(
        "--overlay", default="paper:se", help="the large overlay, a tree such as paper:se (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--only", choices=["algorithms"], help="only the comparison of routing algorithms")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, measured in turn")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    size = Size(chosen.publications, chosen.rounds, 200.0, chosen.seconds)
    if chosen.quick:
        size = Size(max(200, chosen.publications // 10), min(3, chosen.rounds), 200.0, min(1.0, chosen.seconds))
    if sys.platform != "linux":
        sys.exit(f"expected Linux, for the CPU times of processes, got {platform.system()}")
    try:
        before = None if chosen.against is None else Before(chosen.against.absolute())
        result = measure(size, chosen.overlay, before, only=chosen.only)
        if before is not None:
            before.end()
    except (Wrong, OctopiaError) as error:
        sys.exit(str(error))
    if chosen.json:
        print(json.dumps(result))
    else:
        show(result)


def show(result: dict[str, Any]) -> None:
    for figure, values in result.items():
        print("CPU time by package" if figure == "shares" else figure)
        for name, value in values.items():
            shown = f"{value:12.1%}" if figure == "shares" else f"{value:>12,}"
            aim = AIMS.get(f"{figure}.{name}")
            verdict = "" if aim is None else f"   limit: {aim:g}, {'met' if value <= aim else 'EXCEEDED'}"
            print(f"  {name:28}{shown}{verdict}")


if __name__ == "__main__":
    main()
