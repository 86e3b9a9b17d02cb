"""Formulas for messages, tables and paths at any size, from the definition of each system.

``Counts`` are totals of a workload, exact for links that all take the same time: nothing is congested, and the floods
of TID-based routing draw trees of shortest paths. A path between two brokers of a SCOT is as long as the path between
their regions, plus one if their clusters differ; OctopiA, TID-based routing and a flood all reach this minimum.

Messages per request, for r regions and k clusters (V = r k brokers, E links):

=============  ==============  ==========================================================
system         advertisement   subscription
=============  ==============  ==========================================================
OctopiA        k - 1           r - 1, and messages that set bits: see ``_bit_messages``
TID            2 E - (V - 1)   the distance to each publisher that it matches
flood          none            none; each publication takes 2 E - (V - 1)
=============  ==============  ==========================================================
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from octopia.experiments.scale.names import System
from octopia.experiments.scale.workload import Interest, Workload
from octopia.ids import BrokerId


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """The size of an overlay."""

    regions: int
    clusters: int

    @property
    def brokers(self) -> int:
        """The number of brokers, V."""
        return self.regions * self.clusters

    @property
    def links(self) -> int:
        """The number of links, E: aLinks and iLinks."""
        return self.clusters * (self.regions - 1) + self.regions * self.clusters * (self.clusters - 1) // 2

    @property
    def flood(self) -> int:
        """The messages of a flood: over every link both ways, except back over the links that it came by."""
        return 2 * self.links - (self.brokers - 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """Totals of a workload; ``publication_messages`` is None where they depend on which shortest paths trees took."""

    advertisement_messages: int
    advertisement_entries: int
    subscription_messages: int
    subscription_entries: int
    bit_messages: int
    publication_messages: int | None
    false_positives: int
    deliveries: int
    hops: int
    """The hops of all deliveries together."""


def messages_per_advertisement(system: System, shape: Shape) -> int:
    """Return the messages between brokers for one advertisement."""
    match system:
        case System.STATIC | System.ADAPTIVE:
            return shape.clusters - 1
        case System.TID:
            return shape.flood
        case System.FLOOD:
            return 0
        case _:
            assert_never(system)


def entries_per_advertisement(system: System, shape: Shape) -> int:
    """Return the brokers that store an advertisement; under a flood, its publisher's host broker."""
    match system:
        case System.STATIC | System.ADAPTIVE:
            return shape.clusters
        case System.TID:
            return shape.brokers
        case System.FLOOD:
            return 1
        case _:
            assert_never(system)


@dataclasses.dataclass(frozen=True, slots=True)
class CrashCounts:
    """The messages of OctopiA after a broker crashed and restarted; digests and confirmations come on top."""

    subscription_messages: int
    unsubscription_messages: int
    gap_messages: int


def count_crash(shape: Shape, alinks: int, entries: int, local: int) -> CrashCounts:
    """Return the messages after the crash of a broker with so many aLinks.

    ``entries`` is the size of its PRT before, and ``local`` the part that its own clients issued. It fetches the rest
    from its neighbours, and passes each entry on to its other primary neighbours, which know it. Its clients subscribe
    again, which costs as much as at first. What they had issued before is withdrawn: its neighbours know that from its
    digest, and notify all others. Its neighbours also notify every other broker that publications may be missing.
    """
    neighbours = alinks + shape.clusters - 1
    return CrashCounts(
        subscription_messages=(entries - local) * alinks + local * (shape.regions - 1),
        unsubscription_messages=local * (shape.regions - 1 - alinks),
        gap_messages=shape.brokers - 1 - neighbours,
    )


def count(workload: Workload, system: System) -> Counts:
    """Return the totals of a workload under a system."""
    shape, offers = shape_of(workload), len(workload.offers)
    subscription_messages, subscription_entries = _subscriptions(workload, system, shape)
    publications = _Publications(workload)
    return Counts(
        advertisement_messages=offers * messages_per_advertisement(system, shape),
        advertisement_entries=offers * entries_per_advertisement(system, shape),
        subscription_messages=subscription_messages,
        subscription_entries=subscription_entries,
        bit_messages=_bit_messages(workload, system) if system.is_octopia else 0,
        publication_messages=_publication_messages(publications, system, shape, len(workload.events)),
        false_positives=publications.false_positives if system.is_octopia else 0,
        deliveries=publications.deliveries,
        hops=publications.hops,
    )


def shape_of(workload: Workload) -> Shape:
    """Return the size of a workload's overlay."""
    return Shape(len(workload.scot.regions), workload.scot.clusters)


@dataclasses.dataclass(frozen=True, slots=True)
class Rooted:
    """The tree as seen from one region: for each region its distance, its parent, and the neighbour it lies behind."""

    distance: Mapping[str, int]
    parent: Mapping[str, str]
    branch: Mapping[str, str]


class Roots:
    """The tree as seen from the regions that were asked for."""

    def __init__(self, adjacency: Mapping[str, Sequence[str]]):
        self._adjacency = adjacency
        self.at = functools.cache(self._at)

    def _at(self, root: str) -> Rooted:
        distance, parent, branch = {root: 0}, {root: root}, {root: root}
        waiting = deque([root])
        while waiting:
            region = waiting.popleft()
            for near in self._adjacency[region]:
                if near not in distance:
                    distance[near] = distance[region] + 1
                    parent[near] = region
                    branch[near] = near if region == root else branch[region]
                    waiting.append(near)
        return Rooted(distance, parent, branch)


def distance(rooted: Rooted, one: BrokerId, other: BrokerId) -> int:
    """Return the links between two brokers, the first one in the region at the root."""
    return rooted.distance[other.region] + (one.cluster != other.cluster)


def _subscriptions(workload: Workload, system: System, shape: Shape) -> tuple[int, int]:
    """Return the messages and the entries of all subscriptions."""
    subscriptions = workload.point.subscriptions
    match system:
        case System.STATIC | System.ADAPTIVE:
            return subscriptions * (shape.regions - 1), subscriptions * shape.regions
        case System.TID:
            roots, hosts = _roots(workload), _hosts_by_symbol(workload)
            messages = entries = 0
            for offer in workload.offers:
                rooted = roots.at(offer.host.region)
                for host, several in hosts.get(offer.symbol, {}).items():
                    away = distance(rooted, offer.host, host)
                    messages += several * away
                    entries += several * (away + 1)
            return messages, entries
        case System.FLOOD:
            return 0, subscriptions
        case _:
            assert_never(system)


def _bit_messages(workload: Workload, system: System) -> int:
    """Return the messages that set bits, if all publishers advertise before the first subscription.

    One message goes over an iLink to the host broker of advertisements of a symbol: from each other cluster when its
    first subscription to the symbol arrives, and under adaptive routing for each direction that it arrives from.
    """
    roots, hosts = _roots(workload), _hosts_by_symbol(workload)
    messages = 0
    for advertised, symbol in dict.fromkeys(workload.offers):
        rooted = roots.at(advertised.region)
        directions = {
            (host.cluster, rooted.branch[host.region] if system is System.ADAPTIVE else "")
            for host in hosts.get(symbol, {})
            if host.cluster != advertised.cluster
        }
        messages += len(directions)
    return messages


def _publication_messages(publications: _Publications, system: System, shape: Shape, events: int) -> int | None:
    match system:
        case System.STATIC | System.ADAPTIVE:
            return publications.messages
        case System.TID:
            return None
        case System.FLOOD:
            return events * shape.flood
        case _:
            assert_never(system)


class _Publications:
    """The paths of all publications under OctopiA's static routing, and their deliveries under any system."""

    def __init__(self, workload: Workload):
        self.messages = self.false_positives = self.deliveries = self.hops = 0
        roots, hosts = _roots(workload), _hosts_by_symbol(workload)
        clusters = {symbol: {host.cluster for host in brokers} for symbol, brokers in hosts.items()}
        market = _Market(workload.interests)
        for event in workload.events:
            offer = workload.offers[event.publisher]
            self._publish(
                roots.at(offer.host.region),
                offer.host,
                clusters.get(offer.symbol, set()) - {offer.host.cluster},
                list(market.wanting(offer.symbol, event.price)),
            )

    def _publish(self, rooted: Rooted, host: BrokerId, targets: set[int], wanted: Sequence[BrokerId]) -> None:
        """Count one publication: a copy per target cluster, then the edges of each cluster's part of the tree."""
        self.messages += len(targets)
        self.false_positives += len(targets - {each.cluster for each in wanted})
        self.deliveries += len(wanted)
        self.hops += sum(distance(rooted, host, each) for each in wanted)
        visited: set[tuple[int, str]] = set()
        for cluster, region in ((each.cluster, each.region) for each in wanted):
            while rooted.distance[region] and (cluster, region) not in visited:
                visited.add((cluster, region))
                region = rooted.parent[region]
        self.messages += len(visited)


class _Market:
    """The subscriptions of each symbol by price; all ranges have the same width, up to rounding."""

    def __init__(self, interests: Iterable[Interest]):
        self._by_symbol: dict[int, list[Interest]] = {}
        self._width = 0.0
        for each in interests:
            self._by_symbol.setdefault(each.symbol, []).append(each)
            self._width = max(self._width, each.high - each.low)
        for several in self._by_symbol.values():
            several.sort(key=lambda each: each.low)

    def wanting(self, symbol: int, price: float) -> Iterator[BrokerId]:
        """Yield the host broker of each subscription that wants a publication."""
        several = self._by_symbol.get(symbol, [])
        first = bisect.bisect_left(several, price - self._width - 1e-6, key=lambda each: each.low)
        for each in several[first:]:
            if each.low > price:
                return
            if price <= each.high:
                yield each.host


def _roots(workload: Workload) -> Roots:
    return Roots(workload.scot.tree.adjacency())


def _hosts_by_symbol(workload: Workload) -> Mapping[int, Counter[BrokerId]]:
    """Return, for each symbol, how many subscriptions each broker hosts."""
    hosts: dict[int, Counter[BrokerId]] = {}
    for each in workload.interests:
        hosts.setdefault(each.symbol, Counter())[each.host] += 1
    return hosts
