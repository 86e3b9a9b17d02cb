"""The story of a routing step, for explanations: subscriptions, obstacles, and the chosen links with reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import TypeAlias

from octopia.broker.adaptive_routing import AdaptiveDecision
from octopia.broker.adaptive_story import describe_congestion, tell
from octopia.broker.core import OctopiaBroker
from octopia.broker.interface import Case, Routed
from octopia.broker.queues import LONGER_THAN_ANY
from octopia.content import matches
from octopia.ids import AdvertisementId, BrokerId, SubscriptionId
from octopia.protocol import ClusterIndexVector

Name: TypeAlias = Callable[[AdvertisementId | SubscriptionId], str]
"""A function that returns the name by which people know an advertisement or a subscription."""


@dataclasses.dataclass(frozen=True, slots=True)
class RoutingStep:
    """The routing decision of one broker, with the relevant contents of its tables."""

    broker: BrokerId
    routed: Routed
    wanted_by: dict[BrokerId, list[SubscriptionId]]
    civs: dict[AdvertisementId, ClusterIndexVector]

    @property
    def delivered(self) -> tuple[SubscriptionId, ...]:
        """The local subscriptions that this copy is for; under adaptive routing it may only pass through."""
        adaptive = self.routed.adaptive
        return self.routed.local if adaptive is None or adaptive.delivers else ()

    @property
    def goes_on(self) -> bool:
        """True if copies leave for other brokers, or wait to leave."""
        adaptive = self.routed.adaptive
        return bool(self.routed.decision.forwards or (adaptive and (adaptive.dispatches or adaptive.waiting)))


def observe(broker: OctopiaBroker, routed: Routed) -> RoutingStep:
    """Read from the tables which subscriptions are behind the links of a decision; routing changes no table."""
    wanted_by: dict[BrokerId, list[SubscriptionId]] = {}
    for entry in sorted(broker.state.prt, key=lambda entry: entry.id):
        if isinstance(entry.last_hop, BrokerId) and matches(entry.interest, routed.content):
            wanted_by.setdefault(entry.last_hop, []).append(entry.id)
    entries = [broker.state.clt.get(each) for each in routed.advertisements]
    return RoutingStep(broker.id, routed, wanted_by, {entry.id: entry.civ for entry in entries if entry is not None})


def tell_step(step: RoutingStep, name: Name) -> Iterator[str]:
    """Yield the story of a step, line by line; the first names the broker."""
    routed = step.routed
    yield f"at {step.broker}, {'again' if routed.source == step.broker else f'from {routed.source}'}:"
    for advertisement, civ in step.civs.items():
        yield f"  conforms to {name(advertisement)}, whose advertisement_civ is {civ}"
    for subscription in step.delivered:
        yield f"  for {name(subscription)} here"
    yield from _targets(step)
    yield from _forwards(step, name) if routed.adaptive is None else _adaptive_forwards(step, routed.adaptive, name)
    if not step.goes_on and not step.delivered:
        entered = isinstance(routed.source, BrokerId) and routed.source.cluster != step.broker.cluster
        yield "  nobody wants it here or beyond" + (": a false positive" if entered else "")


def _targets(step: RoutingStep) -> Iterator[str]:
    routed = step.routed
    if routed.adaptive is not None and not routed.adaptive.delivers and routed.source != step.broker:
        yield f"  passes through: it does not enter cluster {step.broker.cluster} here"
    # Under adaptive routing, the targets have the cluster of the broker itself, too.
    targets = routed.targets if routed.adaptive is None else routed.targets.without_bit(step.broker.cluster)
    if targets:
        clusters = ", ".join(str(cluster) for cluster in targets)
        yield f"  clusters still to be reached: {clusters} (bits {targets})"
    congested = [view for view in routed.links if view.congested]
    down = [str(view.link) for view in congested if view.queue_length == LONGER_THAN_ANY]
    busy = [f"{v.link} ({describe_congestion(v)})" for v in congested if v.queue_length != LONGER_THAN_ANY]
    for word, links in (("congested", busy), ("down", down)):
        if links:
            yield f"  {word}: {', '.join(links)}"
    if routed.decision.case is not None:
        yield f"  case {routed.decision.case}: {_CASES[routed.decision.case]}"


_CASES = {
    Case.ONE: "some target iLinks are free; the one with the shortest queue carries the rest",
    Case.TWO: "no target iLink is free; the free aLink with the shortest queue carries them",
    Case.THREE: "everything is congested; the target iLink with the shortest queue carries the rest",
}


def _forwards(step: RoutingStep, name: Name) -> Iterator[str]:
    for forward in step.routed.decision.forwards:
        carried = f", carrying {forward.publication_civ}" if forward.publication_civ else ""
        if forward.link.cluster == step.broker.cluster:
            names = ", ".join(name(each) for each in step.wanted_by[forward.link])
            yield f"  > {forward.link} over the aLink, wanted by {names}{carried}"
        else:
            yield f"  > {forward.link} over the iLink, for bit {forward.link.cluster}{carried}"


def _adaptive_forwards(step: RoutingStep, decision: AdaptiveDecision, name: Name) -> Iterator[str]:
    wanted_by = {link: ", ".join(map(name, each)) for link, each in step.wanted_by.items()}
    yield from (f"  {line}" for line in tell(decision, step.broker, wanted_by, step.routed.links))
