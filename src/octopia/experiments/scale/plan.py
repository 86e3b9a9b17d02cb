"""The sizes of the study at each scale, and which of them are simulated.

Trees beyond the paper's S_e (``paper:se``) are made by the generator ``binary``: complete binary trees. In the series
*regions* they grow while there are four clusters; in the series *clusters* there are the 14 regions of S_e. A run is
simulated if its formulas predict no more messages for its requests, and no more table entries, than the scale allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import msgspec

from octopia.experiments.scale.formulas import Shape, messages_per_advertisement
from octopia.experiments.scale.names import Scale, Series, Source, System
from octopia.experiments.scale.tasks import Failures, Growth, Memory, Task
from octopia.experiments.scale.workload import Point
from octopia.overlay import parse_tree

_SE = "paper:se"
_ENTRY_BYTES, _BROKER_BYTES = 1_200, 250_000
"""Upper estimates for a table entry and a broker in the simulator, whose brokers share filters."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The sizes of a scale; ``entries_max`` limits what is simulated."""

    trees: Sequence[str]
    clusters: Sequence[int]
    subscriptions: Sequence[int]
    per_symbol: Sequence[int]
    base_tree: str
    base_clusters: int
    base_subscriptions: int
    """The subscriptions where something else grows."""
    failure_subscriptions: int
    failure_growth: Sequence[int]
    """The subscriptions of the series in which failures cost more because there are more of them."""
    memory_entries: Sequence[int]
    publishers: int
    publications: int
    entries_max: int
    failure_entries_max: int
    failure_links_max: int
    """Links with sessions send heartbeats, which a run with faults simulates."""


_BINARY = ("binary:14", "binary:56", "binary:250", "binary:1250")
EXTENTS = {
    Scale.TINY: Extent(
        trees=("path:2", "binary:4"),
        clusters=(2, 3),
        subscriptions=(40, 4000),
        per_symbol=(1, 2),
        base_tree="path:3",
        base_clusters=2,
        base_subscriptions=30,
        failure_subscriptions=30,
        failure_growth=(60,),
        memory_entries=(400,),
        publishers=8,
        publications=40,
        entries_max=2_000,
        failure_entries_max=2_000,
        failure_links_max=1_000,
    ),
    Scale.LAPTOP: Extent(
        trees=(_SE, *_BINARY),
        clusters=(4, 8, 16, 32, 64),
        subscriptions=(10_000, 30_000, 100_000, 300_000, 1_000_000),
        per_symbol=(1, 2, 4, 8, 20),
        base_tree=_SE,
        base_clusters=4,
        base_subscriptions=400,
        failure_subscriptions=100,
        failure_growth=(1_000,),
        memory_entries=(1_000, 10_000, 100_000),
        publishers=40,
        publications=500,
        entries_max=600_000,
        failure_entries_max=130_000,
        failure_links_max=15_000,
    ),
    Scale.FULL: Extent(
        trees=(_SE, *_BINARY),
        clusters=(4, 8, 16, 32, 64),
        subscriptions=(10_000, 30_000, 100_000, 300_000, 1_000_000),
        per_symbol=(1, 2, 4, 8, 20),
        base_tree=_SE,
        base_clusters=4,
        base_subscriptions=2_000,
        failure_subscriptions=400,
        failure_growth=(1_000, 10_000),
        memory_entries=(1_000, 10_000, 100_000, 1_000_000),
        publishers=40,
        publications=2_000,
        entries_max=15_000_000,
        failure_entries_max=600_000,
        failure_links_max=50_000,
    ),
}


def plan(extent: Extent) -> list[Task]:
    """Return all tasks, the small ones first."""
    tasks: list[Task] = []
    for point in points(extent):
        tasks += [Growth(point, system, _source(point, system, extent.entries_max)) for system in System]
    for point in _failure_points(extent):
        links = _shape(point).links
        if links <= extent.failure_links_max and _work(point, System.STATIC) <= extent.failure_entries_max:
            tasks += [Failures(point, system) for system in (System.STATIC, System.ADAPTIVE)]
        if _work(point, System.TID) <= extent.entries_max:
            tasks.append(Failures(point, System.TID))
    tasks += [Memory(system, entries) for entries in extent.memory_entries for system in (System.STATIC, System.TID)]
    return sorted(tasks, key=_cost)


def points(extent: Extent) -> Iterator[Point]:
    """Yield the points of all series."""
    base = Point(
        Series.REGIONS,
        extent.base_tree,
        extent.base_clusters,
        extent.base_subscriptions,
        publishers=extent.publishers,
        publications=extent.publications,
    )
    for tree in extent.trees:
        yield _changed(base, tree=tree)
    for clusters in extent.clusters:
        yield _changed(base, series=Series.CLUSTERS, clusters=clusters)
    for subscriptions in extent.subscriptions:
        yield _changed(base, series=Series.SUBSCRIPTIONS, subscriptions=subscriptions)
    for several in extent.per_symbol:
        yield _changed(base, series=Series.PUBLISHERS, publishers_per_symbol=several)


def _failure_points(extent: Extent) -> Iterator[Point]:
    for point in points(extent):
        if point.series in (Series.REGIONS, Series.CLUSTERS):
            yield _changed(point, subscriptions=extent.failure_subscriptions)
    for subscriptions in extent.failure_growth:
        first = next(points(extent))
        yield _changed(first, series=Series.SUBSCRIPTIONS, tree=extent.base_tree, subscriptions=subscriptions)


def _changed(point: Point, **changes: object) -> Point:
    return msgspec.structs.replace(point, **changes)


def _source(point: Point, system: System, entries_max: int) -> Source:
    fits = system is not System.FLOOD and _work(point, system) <= entries_max
    return Source.SIMULATED if fits else Source.FORMULA


def _work(point: Point, system: System) -> int:
    """Return the messages of all requests, roughly; there is about one table entry per message."""
    shape = _shape(point)
    advertisements = point.publishers * messages_per_advertisement(system, shape)
    if system is System.TID:
        # A subscription climbs a tree of shortest paths to each publisher: a few links each.
        return advertisements + point.subscriptions * point.publishers_per_symbol * 5
    return advertisements + point.subscriptions * shape.regions


def _shape(point: Point) -> Shape:
    return Shape(len(parse_tree(point.tree).regions), point.clusters)


def memory_bytes_of(task: Task) -> int:
    """Return the memory that a task takes, roughly and rather too much."""
    match task:
        case Growth() | Failures():
            return _ENTRY_BYTES * _cost(task) + _BROKER_BYTES * _shape(task.point).brokers
        case Memory():
            return 2 * _ENTRY_BYTES * task.entries


def _cost(task: Task) -> int:
    match task:
        case Growth():
            is_formula = task.source is Source.FORMULA
            return task.point.subscriptions // 4 if is_formula else _work(task.point, task.system)
        case Failures():
            return 2 * _work(task.point, task.system)
        case Memory():
            return task.entries
