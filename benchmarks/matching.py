"""Measure the matching index, and compare it with other ways to find the same matches.

Four workloads: W1, a symbol with Zipf popularity over 500 symbols and 6 ranges, 2% selectivity; W2, 7 ranges, 2%; W3, 7
ranges, 0.1%; W4, strings with prefix, contains and IN, and 4 ranges. For each size it prints publications per second if
all matching subscriptions are wanted (those of local clients, as numbers), if only links are wanted (8
links), and for links in batches of 64. It also prints insertions and removals per second, the longest single insertion,
bytes per subscription (rows and intervals only), and the ratio to

- (scan) the reference matcher, which evaluates every filter,
- (columns) NumPy comparing whole columns of bounds with a publication (for W4: without its strings),
- (and) a bare ``bitwise_and.reduce`` over one bitmap row per attribute, always the same rows, so that they stay in the
  cache: the limit of any bitmap index,
- (cold) the same over rows drawn at random from 256 per attribute, as in a real index.

All are measured in one process, in turns, with the garbage collector off. Matches are checked against the evaluation of
every filter, for some publications at every size; the benchmark fails if they differ. A million subscriptions take some
minutes and gigabytes per workload. Publications are matched as a broker has them, with their encoded attributes.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, contains, matches
from octopia.experiments.gc_pause import gc_paused
from octopia.ids import BrokerId, ClientId, SubscriptionId
from octopia.matching import INDEX, IS_COMPILED, IndexSubscriptions
from octopia.wire import prepare

HERE = BrokerId("a", 0)
LOCAL = ClientId("c")
LINKS = [BrokerId(region, 0) for region in "bcdefghi"]
SYMBOLS = [f"S{number}" for number in range(500)]
WEIGHTS = [1 / rank for rank in range(1, 501)]
WORKLOADS = ("W1", "W2", "W3", "W4")
CHECKED = 20
MOST_CHECKS = 2_000_000
BATCH = 64


class Workload:
    """Subscriptions and publications of one workload, drawn from a seed."""

    def __init__(self, name: str, size: int, publications: int, seed: int):
        self.chance = random.Random(seed)
        self.name = name
        self.ranges = {"W1": 6, "W2": 7, "W3": 7, "W4": 4}[name]
        self.width = _width(name, self.ranges)
        self.low = np.empty((size, self.ranges))
        self.filters = [self._filter(number) for number in range(size)]
        self.publications = [self._publication() for _ in range(publications)]

    @property
    def attributes(self) -> int:
        """The number of attributes of a publication."""
        return self.ranges + {"W1": 1, "W4": 2}.get(self.name, 0)

    def _filter(self, number: int) -> Disjunction:
        predicates = self._strings()
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


def _width(name: str, ranges: int) -> float:
    """Return the approximate width of ranges for the selectivity of a workload."""
    if name == "W1":
        total = sum(WEIGHTS)
        share = 0.02 / sum((weight / total) ** 2 for weight in WEIGHTS)
    else:
        share = {"W2": 0.02, "W3": 0.001, "W4": 0.1}[name]
    each = min(0.99, share ** (1 / ranges))
    return each / (1 - each)


def measure(name: str, size: int, publications: int, seed: int) -> dict[str, Any]:
    """Measure one workload at one size."""
    work = Workload(name, size, publications, seed)
    local, inserted, pause = _build(work, lambda number: LOCAL)
    linked, _, _ = _build(work, lambda number: LINKS[number % len(LINKS)])
    matched = _check(work, local, linked)
    found: dict[str, Any] = {"workload": name, "subscriptions": size, "compiled": IS_COMPILED}
    found["selectivity"] = matched / (len(_checked(work)) * size)
    found["ids_per_s"] = _rate(work.publications, local.match)
    found["links_per_s"] = _rate(work.publications, linked.match)
    batches = [work.publications[start : start + BATCH] for start in range(0, publications, BATCH)]
    found["batched_links_per_s"] = BATCH * _rate(batches, linked.match_many)
    few = work.publications[: max(2, 20_000 // size)]
    found["scan_per_s"] = _rate(few, lambda each: [matches(interest, each) for interest in work.filters], repeats=1)
    found["columns_per_s"] = _columns_rate(work)
    found["and_per_s"] = _and_rate(work.attributes, size)
    found["cold_and_per_s"] = _cold_and_rate(work.attributes, size)
    found["inserts_per_s"], found["longest_insert_ms"] = inserted, pause * 1000
    found["bytes_per_subscription"] = local.size_bytes() / size
    found["deletes_per_s"] = _delete_rate(local, size)
    return found


def _build(work: Workload, link_of: Callable[[int], Any]) -> tuple[IndexSubscriptions, float, float]:
    matcher = INDEX.subscriptions()
    assert isinstance(matcher, IndexSubscriptions)
    longest, begin = 0.0, time.perf_counter()
    for number, interest in enumerate(work.filters):
        before = time.perf_counter()
        matcher.add(SubscriptionId(HERE, 1, number), interest, link_of(number))
        longest = max(longest, time.perf_counter() - before)
    return matcher, len(work.filters) / (time.perf_counter() - begin), longest


def _checked(work: Workload) -> list[Publication]:
    return work.publications[: max(2, min(CHECKED, MOST_CHECKS // len(work.filters)))]


def _check(work: Workload, local: IndexSubscriptions, linked: IndexSubscriptions) -> int:
    """Compare some results with the evaluation of every filter, and return the number of matches."""
    total = 0
    for publication in _checked(work):
        expected = [number for number, interest in enumerate(work.filters) if matches(interest, publication)]
        got = sorted(local.match(publication).local)
        links = sorted({LINKS[number % len(LINKS)] for number in expected})
        if got != expected or list(linked.match(publication).links) != links:
            raise SystemExit(f"WRONG: {work.name}: expected {len(expected)} matches, got {len(got)} or other links")
        total += len(expected)
    return total


def _rate(items: Sequence[Any], action: Callable[[Any], Any], repeats: int = 3) -> float:
    """Return the number of items per second of an action, in the fastest round."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        for item in items:
            action(item)
        best = min(best, time.perf_counter() - begin)
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
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="(default: all)")
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=int,
        default=[1_000, 2_500, 10_000, 100_000, 1_000_000],
        help="(default: %(default)s)",
    )
    parser.add_argument("--publications", type=int, default=1024, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args(arguments)
    if not options.json:
        print(f"kernel: {'compiled' if IS_COMPILED else 'plain Python'}")
        print("      subscr.  select.  ids/s     links/s   batched/s  x scan  x columns  x and (ids, links)  "
              "x cold (ids, links)  ins/s    del/s    longest  bytes")  # fmt: skip
    with gc_paused():
        for name in options.workloads:
            for size in options.sizes:
                with Console(stderr=True).status(f"{name} with {size:,} subscriptions"):
                    found = measure(name, size, options.publications, options.seed)
                print(json.dumps(found) if options.json else _line(found), flush=True)
                gc.collect()


def _line(found: dict[str, Any]) -> str:
    bare, cold = found["and_per_s"], found["cold_and_per_s"]
    return (
        f"{found['workload']}  {found['subscriptions']:>9,}  {found['selectivity']:6.2%}  {found['ids_per_s']:>8,.0f}  "
        f"{found['links_per_s']:>8,.0f}  {found['batched_links_per_s']:>9,.0f}  "
        f"{found['ids_per_s'] / found['scan_per_s']:>6,.0f}  {found['ids_per_s'] / found['columns_per_s']:>9.1f}  "
        f"{found['ids_per_s'] / bare:>6.2f} {found['links_per_s'] / bare:>8.2f}        "
        f"{found['ids_per_s'] / cold:>6.2f} {found['links_per_s'] / cold:>8.2f}        "
        f"{found['inserts_per_s']:>7,.0f}  {found['deletes_per_s']:>7,.0f}  {found['longest_insert_ms']:>5.1f} ms  "
        f"{found['bytes_per_subscription']:>5,.0f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
