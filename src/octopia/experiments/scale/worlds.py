"""The worlds of the study: an overlay with one client per broker, which issues the requests of a workload.

Links carry a publication in 3 ms, as in the profile ``paper``, and brokers take no time. There is no jitter, so that
floods draw shortest paths and the formulas are exact. Everything a world counts is a difference of two totals.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from octopia.algorithms import hop_limit_of
from octopia.broker import BrokerSettings, Detail
from octopia.experiments.scale.names import System
from octopia.experiments.scale.workload import Event, Workload
from octopia.ids import BrokerId
from octopia.link import LinkSettings
from octopia.protocol import Frame, Item, MessageKind
from octopia.protocol.messages import AdvertiseRequest, PublishRequest, SubscribeRequest
from octopia.settings import RoutingSettings
from octopia.simulator.agenda import to_ns
from octopia.simulator.driver import Observer
from octopia.simulator.links import FaultyLinks, FrameFaults, Links
from octopia.simulator.profiles import PAPER, Profile
from octopia.simulator.world import Environment, World
from octopia.wire import encode

PROFILE = Profile(
    "scale",
    "links as in the profile paper, without jitter; brokers take no time",
    link_delay_ms=PAPER.link_delay_ms,
    same_machine_delay_ms=PAPER.link_delay_ms,
    client_delay_ms=PAPER.client_delay_ms,
    send_us=PAPER.send_us,
)
_TOGETHER = 1000
"""The number of subscriptions that are issued at one moment."""


class MeteredLinks(FaultyLinks):
    """Links that can fail, and that add up the size of the frames they are given."""

    bytes = 0

    def carry(self, source: BrokerId, target: BrokerId, items: Sequence[Item]) -> None:
        """Carry items."""
        self.bytes += sum(len(encode(item)) for item in items if isinstance(item, Frame))
        super().carry(source, target, items)


class MeteredWorld(World):
    """A world whose links can fail and are metered."""

    def _make_links(self, sessions: LinkSettings | None, faults: FrameFaults) -> Links:
        plain = super()._make_links(sessions, faults)
        assert isinstance(plain, FaultyLinks)
        assert sessions is not None
        return MeteredLinks(self.driver, plain._wires, sessions, faults)

    @property
    def bytes(self) -> int:
        """The size of all frames so far."""
        assert isinstance(self.links, MeteredLinks)
        return self.links.bytes


def make_world(workload: Workload, system: System, observers: Sequence[Observer], detail: Detail) -> World:
    """Return a world with links that never fail, and with one client per broker."""
    environment = Environment(PROFILE, whole=True)
    return _with_clients(World(workload.scot, _settings(workload, system, detail), environment, observers))


def make_metered_world(workload: Workload, system: System) -> MeteredWorld:
    """Return a world with links that can fail, and with one client per broker."""
    environment = Environment(PROFILE, LinkSettings(), whole=True)
    world = MeteredWorld(workload.scot, _settings(workload, system, Detail.OFF), environment)
    _with_clients(world)
    world.run()
    return world


def _settings(workload: Workload, system: System, detail: Detail) -> BrokerSettings:
    routing = RoutingSettings(system.algorithm)
    return BrokerSettings(routing, hop_limit=hop_limit_of(workload.scot, system.algorithm), detail=detail)


def _with_clients(world: World) -> World:
    for broker in world.scot.brokers:
        world.attach(str(broker), broker)
    return world


def advertise(world: World, workload: Workload, only: BrokerId | None = None) -> None:
    """Issue all advertisements, or those of one broker's client; handles are the numbers of publishers."""
    for number, offer in enumerate(workload.offers):
        if only is None or offer.host == only:
            world.request(str(offer.host), AdvertiseRequest(number, offer.filter(), False))
    world.run()


def subscribe(world: World, workload: Workload, only: BrokerId | None = None) -> None:
    """Issue all subscriptions, or those of one broker's client, a thousand at a time."""
    first, issued = len(workload.offers), 0
    for number, interest in enumerate(workload.interests, start=first):
        if only is None or interest.host == only:
            world.request(str(interest.host), SubscribeRequest(number, interest.filter()))
            issued += 1
            if issued % _TOGETHER == 0:
                world.run()
    world.run()


def publish(world: World, workload: Workload) -> None:
    """Publish everything at its time."""
    start_ns = world.agenda.now_ns

    def publish_one(numbered: tuple[int, Event]) -> None:
        number, event = numbered
        host = workload.offers[event.publisher].host
        world.request(str(host), PublishRequest(number, workload.publication(event), world.agenda.now_ms))

    for numbered in enumerate(workload.events):
        world.at(start_ns + to_ns(numbered[1].at_ms), publish_one, numbered)
    world.run()


def sent(world: World) -> Counter[MessageKind]:
    """Return the messages between brokers so far, by kind."""
    total: Counter[MessageKind] = Counter()
    for each in world.counters():
        total.update(each.sent)
    return total


@dataclasses.dataclass(frozen=True, slots=True)
class Tables:
    """The entries of all brokers together."""

    advertisements: int
    subscriptions: int


def tables(world: World) -> Tables:
    """Return the sizes of the routing tables of all brokers."""
    sizes = [broker.table_sizes() for broker in world.brokers.values()]
    return Tables(sum(each["clt"] + each["srt"] for each in sizes), sum(each["prt"] for each in sizes))


def memory_bytes(peak: bool = False) -> int:
    """Return the resident memory of this process, or its peak; 0 where Linux's /proc is missing."""
    key = "VmHWM:" if peak else "VmRSS:"
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), 0)
