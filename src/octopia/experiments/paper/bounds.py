"""The least time in which an overlay can carry a burst, by arithmetic.

A sender that serves μ copies per second, and gets λ of ordinary traffic, carries N copies of a burst in N / (μ - λ)
seconds, while the ordinary traffic lasts. There are two bounds.

With one path per publication, as in static routing, the copies of each sender are known. An inner broker sends the
whole burst to an edge broker over one link, on which almost all ordinary publications travel as well. In the burst
study this is 50,000 / (333.3 - 168.8) = 304 s.

With any paths, a burst must cross every cut between its host broker and a subscriber, and the ordinary publications
that are wanted beyond the cut must cross it once. An overlay of k clusters has every tree edge k times, and an edge
broker has k links: one aLink, k - 1 iLinks. So a cut has k senders, 50,000 / (4 x 333.3 - 178.5) = 43.3 s. No routing
can do better, and a routing that reaches it needs perfect knowledge.

These are the times until queues are empty again: the burst and all publications since its start have been carried.
Delays are below one second up to μ / (μ - λ) seconds earlier, about two over static paths.

Loads are expectations: they follow from the rates, the brokers of clients and the selectivity, not from a run. If the
sender belongs to a broker, the bound for any paths counts one sender per broker on the near side of a cut.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import networkx

from octopia.experiments.paper.names import Model
from octopia.experiments.paper.rows import BoundRow
from octopia.experiments.paper.studies import Point
from octopia.ids import BrokerId
from octopia.overlay.scot import Link
from octopia.pipeline.spec import Burst, WorkloadSpec
from octopia.simulator.profiles import find_profile

_T = TypeVar("_T")
_US_PER_S = 1e6


@dataclasses.dataclass(frozen=True, slots=True)
class Senders:
    """The rate of one sender in copies per second, and whether a broker has one or one per link."""

    per_second: float
    per_broker: bool = False

    @classmethod
    def of(cls, model: Model) -> Senders:
        """Return the senders of a model."""
        return cls(_US_PER_S / find_profile(model.profile).send_us, model is Model.BROKER_SENDER)

    def count(self, links: Collection[Link]) -> int:
        """Return the number of senders that serve these links."""
        return len({link[0] for link in links} if self.per_broker else links)


def drain_s(copies: float, per_second: float, load_per_second: float, lasting_s: float = math.inf) -> float:
    """Return the time to carry some copies beside a load that lasts for a while; infinite if they never get through."""
    spare = per_second - load_per_second
    if spare > 0 and copies / spare <= lasting_s:
        return copies / spare
    return (copies + load_per_second * lasting_s) / per_second if math.isfinite(lasting_s) else math.inf


def bound_rows(point: Point, models: Iterable[Model]) -> Iterator[BoundRow]:
    """Yield the bounds of a workload with a burst under each model."""
    burst = point.workload.burst
    if burst is None:
        return
    load = Load.of(point.workload)
    for model in models:
        senders = Senders.of(model)
        yield BoundRow(
            round(point.value),
            model,
            burst.host,
            point.seed,
            one_path_ms=1000 * one_path_s(load, burst, senders),
            any_path_ms=1000 * any_path_s(load, burst, senders),
        )


def burst_ends(spec: WorkloadSpec) -> tuple[BrokerId, list[BrokerId]]:
    """Return the host broker of a burst, and the brokers of its subscribers."""
    from octopia.pipeline.placement import Placement
    from octopia.pipeline.schedule import BURST

    placement, scot = Placement.of(spec), spec.scot()
    hosts = [scot.broker(placement.subscriber(number)) for number in range(spec.burst_subscribers)]
    return scot.broker(placement.publisher(BURST)), hosts


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The ordinary traffic of a workload, and the ends of its burst."""

    spec: WorkloadSpec
    host: BrokerId
    targets: Sequence[BrokerId]
    publishers: Mapping[BrokerId, int]
    subscribers: Mapping[BrokerId, int]

    @classmethod
    def of(cls, spec: WorkloadSpec) -> Load:
        """Return the load of a workload with a burst."""
        from octopia.pipeline.placement import Placement
        from octopia.pipeline.schedule import publisher_name

        placement, scot = Placement.of(spec), spec.scot()
        publishers, subscribers = dict.fromkeys(scot.brokers, 0), dict.fromkeys(scot.brokers, 0)
        for number in range(spec.publishers):
            publishers[scot.broker(placement.publisher(publisher_name(number)))] += 1
        for number in range(spec.subscribers):
            subscribers[scot.broker(placement.subscriber(number))] += 1
        return cls(spec, *burst_ends(spec), publishers, subscribers)

    def lasting_s(self, burst: Burst) -> float:
        """Return the duration of ordinary traffic after the start of the burst."""
        return max(0.0, self.spec.publications * self.spec.gap_s - burst.start_ms / 1000)

    def between(self, sources: Iterable[BrokerId], wanting: Iterable[BrokerId]) -> float:
        """Return how many publications per second some brokers publish that some subscriber at others wants."""
        share = self.spec.publishers_each / self.spec.publishers
        subscribers = sum(self.subscribers[each] for each in wanting)
        rate = sum(self.publishers[each] for each in sources) / self.spec.gap_s
        return rate * (1 - (1 - share) ** subscribers)


def one_path_s(load: Load, burst: Burst, senders: Senders) -> float:
    """Return the time until the slowest sender has carried the burst, if all traffic keeps to static paths."""
    from octopia.experiments.paper.measurements import target_links

    targets = set(target_links(load.spec.scot(), load.host, load.targets))
    loads = _static_loads(load)
    groups: dict[object, list[Link]] = {}
    for link in loads:
        groups.setdefault(link[0] if senders.per_broker else link, []).append(link)
    lasting_s = load.lasting_s(burst)
    times_s = [
        drain_s(burst.publications * copies, senders.per_second, sum(loads[link] for link in links), lasting_s)
        for links in groups.values()
        if (copies := sum(link in targets for link in links))
    ]
    return max([*times_s, _published_s(burst)])


def any_path_s(load: Load, burst: Burst, senders: Senders) -> float:
    """Return the time until the burst has crossed the narrowest cut, whatever the paths."""
    lasting_s = load.lasting_s(burst)
    times_s = [
        drain_s(burst.publications, senders.count(links) * senders.per_second, crossing, lasting_s)
        for links, crossing in _cuts(load)
    ]
    return max([*times_s, _published_s(burst)])


def _published_s(burst: Burst) -> float:
    return burst.publications / burst.per_minute * 60


def _static_loads(load: Load) -> dict[Link, float]:
    """Return the ordinary publications per second on each link under static routing."""
    scot = load.spec.scot()
    loads: dict[Link, float] = {}
    for one, other in _both_ways(scot.ilinks):
        cluster = [each for each in scot.brokers if each.cluster == other.cluster]
        loads[one, other] = load.between([one], cluster)
    for one, other in _both_ways(scot.alinks):
        near, far = _sides(load, one.region, other.region)
        beyond = [each for each in far if each.cluster == other.cluster]
        # Publications enter a cluster in the region where they are published.
        loads[one, other] = load.between(near, beyond)
    return loads


def _cuts(load: Load) -> Iterator[tuple[list[Link], float]]:
    """Yield cuts between the host broker and a subscriber: their links, and the ordinary load that must cross."""
    scot = load.spec.scot()
    everyone = scot.brokers
    neighbours = {each: sorted(scot.graph[each]) for each in everyone}
    others = [each for each in everyone if each != load.host]
    yield [(load.host, each) for each in neighbours[load.host]], load.between([load.host], others)
    for broker in dict.fromkeys(load.targets):
        others = [each for each in everyone if each != broker]
        yield [(each, broker) for each in neighbours[broker]], load.between(others, [broker])
    for one, other in _both_ways(scot.tree.edges):
        near, far = _sides(load, one, other)
        if load.host in near and any(each in far for each in load.targets):
            links = [(BrokerId(one, cluster), BrokerId(other, cluster)) for cluster in range(scot.clusters)]
            yield links, load.between(near, far)


def _sides(load: Load, one: str, other: str) -> tuple[list[BrokerId], list[BrokerId]]:
    """Return the brokers on both sides of a tree edge, that of ``one`` first."""
    tree = networkx.Graph(load.spec.scot().tree.edges)
    tree.remove_edge(one, other)
    beyond = networkx.node_connected_component(tree, other)
    near = [each for each in load.spec.scot().brokers if each.region not in beyond]
    return near, [each for each in load.spec.scot().brokers if each.region in beyond]


def _both_ways(links: Iterable[tuple[_T, _T]]) -> Iterator[tuple[_T, _T]]:
    for low, high in links:
        yield low, high
        yield high, low
