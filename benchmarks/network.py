"""Measure brokers over TCP, and compare them with bare relays that read, decode, encode and write the same frames.

Lines are a publisher, brokers or relays in a row, and subscribers, one process each. Publications have 7 attributes
and a payload of 20 bytes. All lines of a figure run in turn, so that they meet the same machine. Every publication
must arrive exactly once at all its subscribers; otherwise the benchmark fails.

Figures, for --only:

- *hop*: one broker with 100, 1,000 and 10,000 subscriptions. One matches; half of the others fail in one attribute
  and half in another.
- *inner*: three brokers in a row with 100 subscriptions. *inner* is the one in the middle, *mean* all three.
- *fan*: one broker, 50 subscribers that want everything: 50 deliveries per publication.
- *ranges*: one broker, 100 subscribers with distinct range filters; half of them match each publication. The relay
  sends each publication to one half of its 100 receivers and the next to the other half.
- *sparse*: as *hop* with 100 subscriptions, one publication every 2 ms: mostly the cost of waking up.
- *delay*: the same at 1,000 publications per second: from the publisher's clock to the subscriber's, which are the
  same.
- *traces*: *hop* and *inner* with the levels of traces, whose facts are taken after every input and dropped.
- *plain*: *hop*, *inner* and *fan* with brokers that have no compiled modules.
- *algorithms*: static, dynamic and adaptive routing; see below.
- *overlay*: the 56 brokers of paper:se on this machine: the time until all are connected and accept publications, and
  the memory of all processes, including the parent (shared pages count once). Like `octopia up`, it uses one process
  per CPU, and then one process per broker.
- *packages*: the shares of packages in the CPU time of the broker of *hop*, by a profile. Compiled code counts for
  the Python function that calls it, and time outside Python is spent in the event loop and the kernel.

Columns:

- *cpu_us*: CPU time per publication of the processes in the middle, in microseconds: the median of all rounds, and in
  *best_us* the cheapest round, which was disturbed least. Wall times differ a lot from round to round on a shared
  machine. *to_…* is the median of the ratios per round, in which both ran one right after the other, so it need not
  be the ratio of two medians.
- *per_s*: publications per second by wall time, from the fastest round. It is limited by the slowest process,
  including publisher and subscribers. *deliveries_per_s* counts deliveries, and *deliveries_per_cpu_s* those per
  second of CPU time of the process in the middle.
- *aim* is the most that *cpu_us* may be, or the column that the title of a table names.

A relay has no session, no acknowledgements and no tables. It encodes once per copy. *relay* reads and writes frames
with the compiled modules of the broker, *plain relay* without them.

*algorithms*: one hop, and a chain of four in two clusters that is entered in one cluster and left in the other, so
copies cross one iLink and three aLinks. *cpu_us* is that of all brokers, *hop_us* per broker that a publication
passes, and *inner_cpu_us* that of the two inner brokers of the last cluster. *below capacity* is at 500 publications
per second, *full batches* as fast as possible. Both have limits that no link exceeds, so nothing is congested, even
on a busy machine, and nothing may be rerouted. *saturated* is as fast as possible with the usual limits: links are
congested. In *slow link* the first link of the static way carries 2,000 publications per second. *rerouted* counts
the decisions to go around a link.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import octopia
from network_algorithms import measure_algorithms
from network_lines import (
    FAN,
    Expectation,
    Line,
    Round,
    broker_line,
    cost_rows,
    cpu_rows,
    delay_rows,
    everything,
    everything_50_times,
    halves,
    in_turns,
    plain_source,
    program_line,
    ranges,
    relay_line,
)
from network_load import CHOICES
from network_packages import measure_packages
from network_processes import Wrong
from octopia.broker import Detail
from octopia.errors import OctopiaError
from octopia.experiments.local_overlay import at_free_addresses, running
from octopia.matching import IS_COMPILED
from octopia.overlay.files import overlay_from_text
from tables import conditions, print_json, print_rows, verdict

Rows: TypeAlias = list[dict[str, Any]]
THREE = 3
HOP_AIMS_US = {100: 2.0, 1_000: 2.5, 10_000: 4.0}
FAN_AIM_US = 20.0
UP_AIM_S = 5.0
MEMORY_AIM_MB = 500.0
SPARSE_PER_S = 500.0
DELAY_PER_S = 1_000.0
QUICK_PUBLICATIONS, QUICK_SUBSCRIPTIONS = 400, 1_000
RANGES = [[f"x >= {n} AND volume > 0"] for n in range(CHOICES)] + [[f"x < {n} AND volume > 0"] for n in range(CHOICES)]
REFERENCES = {"to_relay": "relay", "to_plain_relay": "plain relay", "to_other": "other checkout"}


def one_of(count: int) -> list[list[str]]:
    """Return the subscriptions of one subscriber: one that matches, and others that fail in one of two attributes."""
    fails = ("price > 1000 AND volume > {}", "price > 10 AND volume > 9{:06}")
    return [["price > 10 AND volume > 5 AND x >= 0", *(fails[n % 2].format(n) for n in range(count - 1))]]


ONE_OF_MANY = one_of(100)


@dataclasses.dataclass(frozen=True)
class Run:
    """The sizes of a run, and the source trees beside this one: without compiled modules, and of another checkout."""

    publications: int
    rounds: int
    seconds: float
    is_quick: bool
    tree: str
    plain: Path
    other: Path | None
    stack: contextlib.ExitStack

    @property
    def sizes(self) -> list[int]:
        """The numbers of subscriptions for *hop*."""
        return [size for size in HOP_AIMS_US if size <= QUICK_SUBSCRIPTIONS or not self.is_quick]

    @functools.cached_property
    def hop_lines(self) -> dict[str, Line]:
        """The lines with one hop and 100 subscriptions, which several figures use and which stay open to the end."""
        return self.stack.enter_context(lines_of(self, 1, ONE_OF_MANY, everything, (1, everything, 1)))


# Lines that several figures have.


@contextlib.contextmanager
def lines_of(
    run: Run, length: int, interests: list[list[str]], expectation: Expectation, relays: tuple[int, Expectation, int]
) -> Iterator[dict[str, Line]]:
    """Run brokers, relays, relays without compiled modules, and brokers of the other checkout, if there is one.

    ``relays`` has the number of receivers, the publications that they must get, and the groups that they form.
    """
    receivers, relayed, shares = relays
    with contextlib.ExitStack() as stack:
        lines = {
            "broker": stack.enter_context(broker_line(length, interests, expectation)),
            "relay": stack.enter_context(relay_line(length, receivers, relayed, shares=shares)),
        }
        if IS_COMPILED:
            plain = relay_line(length, receivers, relayed, shares=shares, source=run.plain)
            lines["plain relay"] = stack.enter_context(plain)
        if run.other is not None:
            other = program_line(run.other, length, interests, expectation)
            lines["other checkout"] = stack.enter_context(other)
        yield lines


def with_aim(row: dict[str, Any], most: float, column: str = "cpu_us") -> dict[str, Any]:
    """Return a row with the aim for one of its columns."""
    return row | {"aim": most, "verdict": verdict(row[column], most)}


# Figures.


def measure_hop(run: Run) -> Rows:
    """Measure one hop, with tables of different sizes."""
    smallest, *larger = (f"broker, {size:,} subscriptions" for size in run.sizes)
    with contextlib.ExitStack() as stack:
        lines = {smallest if name == "broker" else name: line for name, line in run.hop_lines.items()}
        for name, size in zip(larger, run.sizes[1:], strict=True):
            lines[name] = stack.enter_context(broker_line(1, one_of(size), everything))
        rows = cpu_rows(in_turns(lines, run.publications, run.rounds), run.publications, REFERENCES)
    aims = {f"broker, {size:,} subscriptions": aim for size, aim in HOP_AIMS_US.items()}
    for number, row in enumerate(rows):
        if row["line"] in aims:
            below = "to_plain_relay" if IS_COMPILED else "to_relay"
            rows[number] = with_aim(row, aims[row["line"]]) | {"below_plain_relay": verdict(row[below], 1.0)}
    return rows


def measure_inner(run: Run) -> Rows:
    """Measure three hops."""
    with lines_of(run, THREE, ONE_OF_MANY, everything, (1, everything, 1)) as lines:
        found = in_turns(lines, run.publications, run.rounds)
    inner = {name: [each.cpu_s_by_process[1] for each in runs] for name, runs in found.items()}
    mean = {name: [each.cpu_s / THREE for each in runs] for name, runs in found.items()}
    rows = []
    for place, seconds in (("inner", inner), ("mean", mean)):
        costs = cost_rows(seconds, run.publications, REFERENCES)
        rows += [{"line": name, "place": place, **costs[name]} for name in seconds]
    return rows


def measure_fan(run: Run) -> Rows:
    """Measure 50 deliveries of every publication."""
    count = max(50, run.publications // 20)
    with lines_of(run, 1, everything_interests(), everything_50_times, (CHOICES, everything_50_times, 1)) as lines:
        rows = cpu_rows(in_turns(lines, count, run.rounds), count, REFERENCES)
    return with_deliveries([with_aim(rows[0], FAN_AIM_US), *rows[1:]])


def everything_interests() -> list[list[str]]:
    """Return the subscriptions of 50 subscribers that want everything."""
    return [["x >= 0 AND volume > 0"]] * CHOICES


def measure_ranges(run: Run) -> Rows:
    """Measure 100 subscribers with distinct ranges, of which 50 match a publication."""
    count = max(CHOICES, run.publications // 20)
    with lines_of(run, 1, RANGES, ranges, (FAN, halves, 2)) as lines:
        return with_deliveries(cpu_rows(in_turns(lines, count, run.rounds), count, REFERENCES))


def with_deliveries(rows: Rows) -> Rows:
    """Return rows with their deliveries per second, at 50 per publication."""
    return [
        row | {"deliveries_per_s": CHOICES * row["per_s"], "deliveries_per_cpu_s": CHOICES / row["cpu_us"] * 1e6}
        for row in rows
    ]


def measure_sparse(run: Run) -> Rows:
    """Measure the CPU time of single publications."""
    rounds = max(1, round(run.seconds))
    count = max(20, round(SPARSE_PER_S * run.seconds / rounds))
    rows = cpu_rows(in_turns(run.hop_lines, count, rounds, SPARSE_PER_S), count, REFERENCES)
    return [{key: value for key, value in row.items() if key != "per_s"} for row in rows]


def measure_delay(run: Run) -> Rows:
    """Measure the delays of single publications."""
    rounds = max(1, round(run.seconds))
    count = max(20, round(DELAY_PER_S * run.seconds / rounds))
    return delay_rows(in_turns(run.hop_lines, count, rounds, DELAY_PER_S))


def measure_traces(run: Run) -> Rows:
    """Measure one hop, and the inner broker of three, with each level of traces."""
    source = Path(octopia.__file__).parents[1]
    count = max(200, run.publications // 2)
    rows: Rows = []
    for figure, length in (("hop", 1), ("inner", THREE)):
        with contextlib.ExitStack() as stack:
            lines = {
                each.name.lower(): stack.enter_context(program_line(source, length, ONE_OF_MANY, everything, each))
                for each in Detail
            }
            found = in_turns(lines, count, run.rounds)
        rows += middle_rows(figure, "trace", found, length // 2, count, {"to_off": "off"})
    return rows


def middle_rows(
    figure: str, column: str, found: Mapping[str, list[Round]], middle: int, count: int, references: Mapping[str, str]
) -> Rows:
    """Return the costs of one broker of each line."""
    seconds = {name: [each.cpu_s_by_process[middle] for each in runs] for name, runs in found.items()}
    costs = cost_rows(seconds, count, references)
    return [{"figure": figure, column: name, **costs[name]} for name in found]


PLAIN = {
    "hop": (1, ONE_OF_MANY, everything, 2),
    "inner": (THREE, ONE_OF_MANY, everything, 2),
    "fan": (1, everything_interests(), everything_50_times, 20),
}
"""The lines that run without compiled modules: length, subscriptions, expectation, and the part of publications."""


def measure_plain(run: Run) -> Rows:
    """Measure brokers with and without compiled modules."""
    rows: Rows = []
    for figure, (length, interests, expectation, part) in PLAIN.items():
        count = max(50, run.publications // part)
        with (
            broker_line(length, interests, expectation) as compiled,
            program_line(run.plain, length, interests, expectation) as plain,
        ):
            found = in_turns({"compiled": compiled, "plain": plain}, count, run.rounds)
        rows += middle_rows(figure, "modules", found, length // 2, count, {"to_compiled": "compiled"})
    return rows


def measure_overlay(run: Run) -> Rows:
    """Measure the start of a large overlay, in one process per CPU and one per broker."""
    overlay = overlay_from_text(run.tree)
    rows: Rows = []
    for processes in (os.cpu_count() or 1, len(overlay.scot.brokers)):
        begin = time.monotonic()
        with running(at_free_addresses(overlay), processes) as workers:
            up_s = time.monotonic() - begin
            pss_kb = sum(map(pss_kb_of, [os.getpid(), *workers.pids]))
        row: dict[str, Any] = {"brokers": len(overlay.scot.brokers), "processes": 1 + len(workers.pids), "up_s": up_s}
        row |= {"up_aim": UP_AIM_S, "up_verdict": verdict(up_s, UP_AIM_S)}
        rows.append(with_aim(row | {"mb": pss_kb / 1024}, MEMORY_AIM_MB, "mb"))
    return rows


def pss_kb_of(pid: int) -> int:
    """Return the memory of a process; shared memory is divided among its users."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


# The command.

FIGURES: dict[str, tuple[str, Callable[[Run], Rows]]] = {
    "hop": ("CPU time per publication; 1 delivery each", measure_hop),
    "inner": ("CPU time per publication and broker, three in a row", measure_inner),
    "fan": ("CPU time per publication; 50 deliveries each", measure_fan),
    "ranges": ("CPU time per publication; 100 subscribers, 50 deliveries each", measure_ranges),
    "sparse": ("CPU time per publication, one every 2 ms", measure_sparse),
    "delay": ("delay from publisher to subscriber at 1,000 per second", measure_delay),
    "traces": ("CPU time per publication, by level of trace", measure_traces),
    "plain": ("CPU time per publication of a broker, with and without compiled modules", measure_plain),
    "algorithms": (
        "CPU time per publication of all brokers, by routing algorithm; the aim is for to_dynamic",
        lambda run: measure_algorithms(ONE_OF_MANY, run.publications, run.rounds, is_quick=run.is_quick),
    ),
    "overlay": ("start and memory of all processes; the aim is for mb", measure_overlay),
    "packages": (
        "shares of packages in the CPU time of a broker",
        lambda run: measure_packages(ONE_OF_MANY, run.publications),
    ),
}
COMPARED = ("hop", "inner", "fan", "ranges", "sparse", "delay")
"""The figures that have brokers of another checkout."""


def measure(run: Run, names: list[str], on_figure: Callable[[str, Rows], None]) -> None:
    """Measure figures, and hand over each when it is complete."""
    for name in names:
        if name == "plain" and not IS_COMPILED:
            print("skipping plain: no module is compiled; build them with pip install -e .", file=sys.stderr)
            continue
        on_figure(name, FIGURES[name][1](run))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--publications", type=int, default=10_000, help="publications per round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=9, help="(default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="duration of sparse and delay, per line (default: %(default)s)"
    )
    parser.add_argument(
        "--overlay", default="paper:se", help="the large overlay, a tree such as paper:se (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--only", nargs="+", choices=[*FIGURES], metavar="FIGURE", help=f"of {', '.join(FIGURES)}")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, whose brokers run in turn")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args(arguments)
    if sys.platform != "linux":
        sys.exit(f"expected Linux, for the CPU times of processes, got {platform.system()}")
    names = chosen.only or [*(FIGURES if chosen.against is None else COMPARED)]
    before, result = conditions(), dict[str, Rows]()
    if not chosen.json:
        print_rows("conditions", [before])
    try:
        with contextlib.ExitStack() as stack:
            run = Run(
                publications=QUICK_PUBLICATIONS if chosen.quick else chosen.publications,
                rounds=1 if chosen.quick else chosen.rounds,
                seconds=0.2 if chosen.quick else chosen.seconds,
                is_quick=chosen.quick,
                tree="paper:fig7" if chosen.quick else chosen.overlay,
                plain=stack.enter_context(plain_source()),
                other=chosen.against and chosen.against.absolute() / "src",
                stack=stack,
            )
            measure(run, names, functools.partial(show, result=result, as_json=chosen.json))
    except (Wrong, OctopiaError) as error:
        sys.exit(f"WRONG: {error}")
    if chosen.json:
        print_json({"conditions": before, "figures": result})


def show(name: str, rows: Rows, *, result: dict[str, Rows], as_json: bool) -> None:
    """Keep the rows of a figure, and print them unless JSON is wanted."""
    result[name] = rows
    if not as_json:
        print_rows(f"{name}: {FIGURES[name][0]}", rows)


if __name__ == "__main__":
    main()
