"""Measure the matching index, and compare it with other ways to find the same matches.

Four workloads: W1, a symbol with Zipf popularity over 500 symbols and 6 ranges, 2% selectivity; W2, 7 ranges, 2%; W3,
7 ranges, 0.1%; W4, strings with prefix, contains and IN, and 4 ranges. For each size it prints

- *ids_per_s*: publications per second of CPU time if all matching subscriptions are wanted (those of local clients),
  as an array of numbers. The aim is what the best peer, a C++ index, did on a machine like this. *tuples_per_s* is the
  same with a tuple of Python integers.
- *links_per_s*, *batched_links_per_s*: the same if only links are wanted (8 links), and in batches of 64,
- *inserts_per_s*, *deletes_per_s* and *longest_insert_ms*, the longest single insertion,
- *index_bytes*: bytes per subscription of rows and intervals, and *memory_bytes*: the growth of the process while the
  index was built, without the filters, which exist before,
- *to_scan*: the ratio of *ids_per_s* to the reference matcher, which evaluates every filter,
- *to_columns*: to NumPy comparing whole columns of bounds with a publication (for W4: without its strings),
- *ids_to_and*, *links_to_and*: to a bare ``bitwise_and.reduce`` over one bitmap row per attribute, always the same
  rows, so that they stay in the cache: the limit of any bitmap index,
- *ids_to_cold_and*, *links_to_cold_and*: to the same over rows drawn at random from 256 per attribute, as in a real
  index.

All figures of a size are measured in one process, in turns, with the garbage collector off; rates are those of the
fastest of three rounds. Every answer is compared with that of the columns (up to 200 million comparisons of a filter
with a publication; not for W4, whose strings they leave out), and a sample of answers with the evaluation of every
filter. The benchmark fails if they differ. A million subscriptions take some minutes and gigabytes per workload.
Publications are matched as a broker has them, with their encoded attributes.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, contains, matches
from octopia.experiments.gc_pause import gc_paused
from octopia.ids import BrokerId, ClientId, SubscriptionId
from octopia.matching import INDEX, IS_COMPILED, IndexSubscriptions
from octopia.wire import prepare
from tables import conditions, print_json, print_rows, verdict_at_least

HERE = BrokerId("a", 0)
LOCAL = ClientId("c")
LINKS = [BrokerId(region, 0) for region in "bcdefghi"]
SYMBOLS = [f"S{number}" for number in range(500)]
WEIGHTS = [1 / rank for rank in range(1, 501)]
WORKLOADS = ("W1", "W2", "W3", "W4")
CHECKED = 20
MOST_CHECKS = 2_000_000
MOST_COLUMN_CHECKS = 200_000_000
BATCH = 64
AIMS_PER_S = {("W1", 10_000): 197_000, ("W2", 10_000): 280_000, ("W1", 100_000): 35_000, ("W2", 100_000): 38_000}
QUICK_SIZES, QUICK_PUBLICATIONS = [300, 1_000], 128
NAMES = ("workload", "subscriptions")
COSTS = ("inserts_per_s", "deletes_per_s", "longest_insert_ms", "index_bytes", "memory_bytes")
ONLY_IN_JSON = ("compiled", "scan_per_s", "columns_per_s", "and_per_s", "cold_and_per_s")


class Wrong(Exception):
    """The index found other matches than the evaluation of every filter."""


class Workload:
    """Subscriptions and publications of one workload, drawn from a seed."""

    def __init__(self, name: str, size: int, publications: int, seed: int):
        self.chance = random.Random(seed)
        self.name = name
        self.ranges = {"W1": 6, "W2": 7, "W3": 7, "W4": 4}[name]
        self.width = _width(name, self.ranges)
        self.low = np.empty((size, self.ranges))
        self.symbols = np.empty(size if name == "W1" else 0, dtype="U4")
        self.filters = [self._filter(number) for number in range(size)]
        self.publications = [self._publication() for _ in range(publications)]

    @property
    def attributes(self) -> int:
        """The number of attributes of a publication."""
        return self.ranges + {"W1": 1, "W4": 2}.get(self.name, 0)

    def _filter(self, number: int) -> Disjunction:
        predicates = self._strings()
        if self.name == "W1":
            self.symbols[number] = predicates[0].operand
        for each in range(self.ranges):
            low = self.chance.uniform(-self.width, 1)  # all values are equally likely to be covered
            self.low[number, each] = low
            predicates.append(Predicate(f"a{each}", Operator.BETWEEN, (low, low + self.width)))
        return Disjunction((Filter(tuple(predicates)),))

    def _strings(self) -> list[Predicate]:
        chance = self.chance
        if self.name == "W1":
            return [Predicate("symbol", Operator.EQ, chance.choices(SYMBOLS, WEIGHTS)[0])]
        if self.name != "W4":
            return []
        kind = chance.randrange(3)
        if kind == 0:
            return [Predicate("symbol", Operator.PREFIX, f"S{chance.randint(1, 9)}")]
        if kind == 1:
            return [contains("text", chance.choice(("alpha", "beta", "gamma", "delta")))]
        return [Predicate("symbol", Operator.IN, tuple(chance.sample(SYMBOLS, 20)))]

    def _publication(self) -> Publication:
        chance = self.chance
        values: dict[str, Any] = {f"a{each}": chance.random() for each in range(self.ranges)}
        if self.name in ("W1", "W4"):
            values["symbol"] = chance.choices(SYMBOLS, WEIGHTS)[0]
        if self.name == "W4":
            values["text"] = " ".join(chance.sample(("alpha", "beta", "gamma", "delta", "omega"), 2))
        publication = Publication(values)
        prepare(publication)
        return publication

    @property
    def checks_by_columns(self) -> list[Publication]:
        """The publications whose answers are checked by columns."""
        return [] if self.name == "W4" else self.publications[: MOST_COLUMN_CHECKS // len(self.filters)]

    def in_columns(self, publication: Publication) -> npt.NDArray[np.int64]:
        """Return the subscriptions that match by whole columns of bounds, in order."""
        point = np.array([publication.attributes[f"a{column}"] for column in range(self.ranges)])
        wanted = ((self.low <= point) & (point <= self.low + self.width)).all(axis=1)
        if self.name == "W1":
            wanted &= self.symbols == publication.attributes["symbol"]
        return np.nonzero(wanted)[0]


def _width(name: str, ranges: int) -> float:
    """Return the approximate width of ranges for the selectivity of a workload."""
    if name == "W1":
        total = sum(WEIGHTS)
        share = 0.02 / sum((weight / total) ** 2 for weight in WEIGHTS)
    else:
        share = {"W2": 0.02, "W3": 0.001, "W4": 0.1}[name]
    each: float = min(0.99, share ** (1 / ranges))
    return each / (1 - each)


def measure(name: str, size: int, publications: int, seed: int) -> dict[str, Any]:
    """Measure one workload at one size; in a process of its own, so that its memory can be read off the process."""
    work = Workload(name, size, publications, seed)
    gc.collect()
    before = _memory_bytes()
    local, inserts_per_s, longest_s = _build(work, lambda number: LOCAL)
    memory = _memory_bytes() - before
    linked, _, _ = _build(work, lambda number: LINKS[number % len(LINKS)])
    selectivity = _check(work, local, linked)
    found: dict[str, Any] = {"workload": name, "subscriptions": size, "compiled": IS_COMPILED}
    found["selectivity"] = f"{selectivity:.2%}"
    found["ids_per_s"] = _rate(work.publications, local.match)
    if (name, size) in AIMS_PER_S:
        aim = AIMS_PER_S[name, size]
        found |= {"aim": aim, "verdict": verdict_at_least(found["ids_per_s"], aim)}
    found["tuples_per_s"] = _rate(work.publications, lambda each: local.match(each).local)
    found["links_per_s"] = _rate(work.publications, linked.match)
    batches = [work.publications[start : start + BATCH] for start in range(0, publications, BATCH)]
    found["batched_links_per_s"] = BATCH * _rate(batches, linked.match_many)
    few = work.publications[: max(2, 20_000 // size)]
    found["scan_per_s"] = _rate(few, lambda each: [matches(interest, each) for interest in work.filters], repeats=1)
    found["columns_per_s"] = _columns_rate(work)
    found["and_per_s"] = _and_rate(work.attributes, size)
    found["cold_and_per_s"] = _cold_and_rate(work.attributes, size)
    found |= {"to_scan": found["ids_per_s"] / found["scan_per_s"]}
    found |= {"to_columns": found["ids_per_s"] / found["columns_per_s"]}
    for limit in ("and", "cold_and"):
        found |= {f"{each}_to_{limit}": found[f"{each}_per_s"] / found[f"{limit}_per_s"] for each in ("ids", "links")}
    found |= {"inserts_per_s": inserts_per_s, "longest_insert_ms": longest_s * 1000}
    found |= {"index_bytes": local.size_bytes() / size, "memory_bytes": memory / size}
    found["deletes_per_s"] = _delete_rate(local, size)
    return found


def _memory_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _build(work: Workload, link_of: Callable[[int], Any]) -> tuple[IndexSubscriptions, float, float]:
    """Return an index, insertions per second, and the longest single one in seconds."""
    matcher = INDEX.subscriptions()
    assert isinstance(matcher, IndexSubscriptions)
    longest, begin = 0.0, time.process_time()
    for number, interest in enumerate(work.filters):
        before = time.process_time()
        matcher.add(SubscriptionId(HERE, 1, number), interest, link_of(number))
        longest = max(longest, time.process_time() - before)
    return matcher, len(work.filters) / (time.process_time() - begin), longest


def _checked(work: Workload) -> list[Publication]:
    return work.publications[: max(2, min(CHECKED, MOST_CHECKS // len(work.filters)))]


def _check(work: Workload, local: IndexSubscriptions, linked: IndexSubscriptions) -> float:
    """Compare answers with columns, and some with the evaluation of every filter; return the share that matches."""
    counts = []
    for publication in work.checks_by_columns:
        found = work.in_columns(publication).tolist()
        _compare(work, local, linked, publication, found)
        counts.append(len(found))
    for publication in _checked(work):
        expected = [number for number, interest in enumerate(work.filters) if matches(interest, publication)]
        _compare(work, local, linked, publication, expected)
        counts.append(len(expected))
    return statistics.fmean(counts) / len(work.filters)


def _compare(
    work: Workload,
    local: IndexSubscriptions,
    linked: IndexSubscriptions,
    publication: Publication,
    expected: list[int],
) -> None:
    got = sorted(local.match(publication).local)
    links = sorted({LINKS[number % len(LINKS)] for number in expected})
    if got != expected or list(linked.match(publication).links) != links:
        raise Wrong(f"{work.name}: expected {len(expected)} matches, got {len(got)} or other links")


def _rate(items: Sequence[Any], action: Callable[[Any], Any], repeats: int = 3) -> float:
    """Return the number of items per second of CPU time of an action, in the fastest round."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        for item in items:
            action(item)
        best = min(best, time.process_time() - begin)
    return len(items) / best


def _columns_rate(work: Workload) -> float:
    high = work.low + work.width
    points = [
        np.array([each.attributes[f"a{column}"] for column in range(work.ranges)]) for each in work.publications[:50]
    ]
    return _rate(points, lambda point: np.nonzero(((work.low <= point) & (point <= high)).all(axis=1))[0])


def _and_rate(rows: int, size: int) -> float:
    bitmaps = np.random.default_rng(1).integers(0, 2**63, size=(rows, (size + 63) // 64), dtype=np.uint64)
    return _rate(range(2000), lambda _: np.bitwise_and.reduce(bitmaps))


def _cold_and_rate(rows: int, size: int) -> float:
    chance = np.random.default_rng(1)
    bitmaps = chance.integers(0, 2**63, size=(rows, 256, (size + 63) // 64), dtype=np.uint64)
    picked = [chance.integers(0, 256, size=rows) for _ in range(2000)]
    attributes = range(rows)
    return _rate(picked, lambda each: np.bitwise_and.reduce([bitmaps[row, each[row]] for row in attributes]))


def _delete_rate(matcher: IndexSubscriptions, size: int) -> float:
    names = [SubscriptionId(HERE, 1, number) for number in range(0, size, max(1, size // 5000))]
    return _rate(names, matcher.remove, repeats=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=["W1", "W2"], help="(default: W1 W2)")
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000, 1_000_000], help="(default: %(default)s)"
    )
    parser.add_argument("--publications", type=int, default=1024, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.publications = QUICK_SIZES, QUICK_PUBLICATIONS
    rows = []
    fork = multiprocessing.get_context("fork")
    for name, size in itertools.product(options.workloads, options.sizes):
        with Console(stderr=True).status(f"{name} with {size:,} subscriptions"), gc_paused(), fork.Pool(1) as pool:
            try:
                rows.append(pool.apply(measure, (name, size, options.publications, options.seed)))
            except Wrong as error:
                sys.exit(f"WRONG: {error}")
        if options.json:
            print_json(rows[-1])
    if not options.json:
        show(rows)


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print two tables: rates with aims and ratios, and the costs of keeping subscriptions."""
    print_rows("conditions", [conditions()])
    left_out = {*COSTS, *ONLY_IN_JSON}
    rates = [{key: value for key, value in row.items() if key not in left_out} for row in rows]
    print_rows("publications per second of CPU time; the aim is for ids per s", rates)
    print_rows("cost of subscriptions", [{key: row[key] for key in NAMES + COSTS} for row in rows])


if __name__ == "__main__":
    main(sys.argv[1:])
