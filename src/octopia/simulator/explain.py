"""Explanations of the path of a publication, and of missing deliveries.

``explain_publication`` runs a scenario again and records every routing decision about one publication. For each broker
it prints the subscriptions behind each link, the bit of each cluster, the congested links and the case that was taken,
or, under adaptive routing, which duty of the copy went where and why. At the end it prints the subscriptions that
received the publication, and for all others the predicate that failed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from octopia.broker import Broker, Case, OctopiaBroker, Routed
from octopia.broker.adaptive_routing import AdaptiveDecision
from octopia.broker.interface import Delivered, Detail, Fact
from octopia.broker.queues import LONGER_THAN_ANY
from octopia.content import Disjunction, Filter, Publication, conforms, explain_mismatch, format_filter, matches
from octopia.errors import UsageError
from octopia.ids import AdvertisementId, BrokerId, PublicationId, SubscriptionId
from octopia.protocol import ClusterIndexVector
from octopia.protocol.messages import ClientReply
from octopia.scenario import Scenario
from octopia.simulator.adaptive_story import describe_congestion, tell
from octopia.simulator.run import Run, run_scenario
from octopia.simulator.whereabouts import waiting_copies


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
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


class _Listener:
    """A recorder of every routing decision of a run."""

    def __init__(self) -> None:
        self.steps: dict[PublicationId, list[_Step]] = {}

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Record a decision and the subscriptions behind it."""
        if isinstance(fact, Routed) and isinstance(broker, OctopiaBroker):
            self.steps.setdefault(fact.publication, []).append(_observe(broker, fact))

    def on_reply(self, client: str, broker: BrokerId, reply: ClientReply, now_ms: float) -> None:
        """Ignore replies to clients: the recorder keeps them."""

    def on_delivered(self, broker: BrokerId, delivered: Delivered, now_ms: float) -> None:
        """Ignore deliveries."""


def explain_publication(scenario: Scenario, number: int, seed: int | None = None) -> list[str]:
    """Return the explanation of publication ``number`` (from 0) of a scenario, line by line."""
    listener = _Listener()
    run = run_scenario(scenario, seed=seed, detail=Detail.ALL, observers=[listener])
    attempted = run.ledger.attempted
    if not attempted:
        raise UsageError(f"expected a scenario with publications, got {scenario.name}, which has none")
    if not 0 <= number < attempted:
        raise UsageError(f"expected a publication from 0 to {attempted - 1}, got {number}")
    steps = next((each for key, each in listener.steps.items() if run.names.publication(key) == number), [])
    return [*_opening(run, number), *_journey(run, steps), *_ending(run, number)]


def _observe(broker: OctopiaBroker, routed: Routed) -> _Step:
    """Read from the tables which subscriptions are behind the links of a decision; routing changes no table."""
    wanted_by: dict[BrokerId, list[SubscriptionId]] = {}
    for entry in sorted(broker.state.prt, key=lambda entry: entry.id):
        if isinstance(entry.last_hop, BrokerId) and matches(entry.interest, routed.content):
            wanted_by.setdefault(entry.last_hop, []).append(entry.id)
    entries = [broker.state.clt.get(each) for each in routed.advertisements]
    return _Step(broker.id, routed, wanted_by, {entry.id: entry.civ for entry in entries if entry is not None})


def _opening(run: Run, number: int) -> Iterator[str]:
    client, publication = run.ledger.publication(number)
    content = ", ".join(f"{name} = {value!r}" for name, value in publication.attributes.items())
    yield f"publication {number} by {client}: {content}"
    for refusal in run.recorder.refused:
        if refusal.publication == number:
            yield f"  refused: {refusal.reason}"
            if not any(conforms(offer, publication) for _, offer in run.ledger.offers_at(number)):
                yield from _offers(run, number, publication)


def _offers(run: Run, number: int, publication: Publication) -> Iterator[str]:
    """Yield, for each advertisement of the publisher, why the publication does not conform to it, filter by filter."""
    for name, offer in run.ledger.offers_at(number):
        reasons = "; or ".join(", ".join(_objections(each, publication)) for each in offer.filters)
        yield f"    {name} ({format_filter(offer)}): {reasons or 'it allows nothing'}"


def _objections(declared: Filter, publication: Publication) -> Iterator[str]:
    """Yield the attributes that a filter does not declare, and its predicates that fail on the others."""
    for attribute in publication.attributes:
        predicates = [each for each in declared.predicates if each.attribute == attribute]
        if not predicates:
            yield f"it does not declare {attribute}"
        for predicate in predicates:
            yield from map(str, explain_mismatch(Disjunction((Filter((predicate,)),)), publication))


def _journey(run: Run, steps: Sequence[_Step]) -> Iterator[str]:
    for step in steps:
        routed = step.routed
        yield f"  at {step.broker}, {'again' if routed.source == step.broker else f'from {routed.source}'}:"
        for advertisement, civ in step.civs.items():
            yield f"    conforms to {run.names.known_as(advertisement)}, whose advertisement_civ is {civ}"
        for subscription in step.delivered:
            yield f"    for {run.names.known_as(subscription)} here"
        yield from _targets(step)
        yield from _forwards(run, step) if routed.adaptive is None else _adaptive_forwards(run, step, routed.adaptive)
        if not step.goes_on and not step.delivered:
            entered = isinstance(routed.source, BrokerId) and routed.source.cluster != step.broker.cluster
            yield "    nobody wants it here or beyond" + (": a false positive" if entered else "")


def _targets(step: _Step) -> Iterator[str]:
    routed = step.routed
    if routed.adaptive is not None and not routed.adaptive.delivers and routed.source != step.broker:
        yield f"    passes through: it does not enter cluster {step.broker.cluster} here"
    # Under adaptive routing, the targets have the cluster of the broker itself, too.
    targets = routed.targets if routed.adaptive is None else routed.targets.without_bit(step.broker.cluster)
    if targets:
        clusters = ", ".join(str(cluster) for cluster in targets)
        yield f"    clusters still to be reached: {clusters} (bits {targets})"
    congested = [view for view in routed.links if view.congested]
    down = [str(view.link) for view in congested if view.queue_length == LONGER_THAN_ANY]
    busy = [f"{v.link} ({describe_congestion(v)})" for v in congested if v.queue_length != LONGER_THAN_ANY]
    for word, links in (("congested", busy), ("down", down)):
        if links:
            yield f"    {word}: {', '.join(links)}"
    if routed.decision.case is not None:
        yield f"    case {routed.decision.case}: {_CASES[routed.decision.case]}"


_CASES = {
    Case.ONE: "some target iLinks are free; the one with the shortest queue carries the rest",
    Case.TWO: "no target iLink is free; the free aLink with the shortest queue carries them",
    Case.THREE: "everything is congested; the target iLink with the shortest queue carries the rest",
}


def _forwards(run: Run, step: _Step) -> Iterator[str]:
    for forward in step.routed.decision.forwards:
        carried = f", carrying {forward.publication_civ}" if forward.publication_civ else ""
        if forward.link.cluster == step.broker.cluster:
            names = ", ".join(run.names.known_as(each) for each in step.wanted_by[forward.link])
            yield f"    > {forward.link} over the aLink, wanted by {names}{carried}"
        else:
            yield f"    > {forward.link} over the iLink, for bit {forward.link.cluster}{carried}"


def _adaptive_forwards(run: Run, step: _Step, decision: AdaptiveDecision) -> Iterator[str]:
    wanted_by = {link: ", ".join(map(run.names.known_as, each)) for link, each in step.wanted_by.items()}
    yield from (f"    {line}" for line in tell(decision, step.broker, wanted_by, step.routed.links))


def _ending(run: Run, number: int) -> Iterator[str]:
    received = [each for each in run.recorder.deliveries if each.publication == number]
    for each in received:
        path = " > ".join(each.path)
        yield f"  {each.client} received it for {each.subscription} over {path} in {each.delay_ms:g} ms"
    delivered = {each.subscription: None for each in received}
    _, publication = run.ledger.publication(number)
    for name, interest, in_force in run.ledger.subscriptions_at(number):
        if name in delivered:
            continue
        reasons = "; or ".join(str(each) for each in explain_mismatch(interest, publication))
        if not in_force:
            reasons = "it was not in force when the publication was made"
        elif not reasons:
            reasons = _why_not(run, number, name)
        yield f"  {name} did not get it: {reasons}"


def _why_not(run: Run, number: int, subscription: str) -> str:
    """Return why a matching subscription did not get a publication."""
    if any(refusal.publication == number for refusal in run.recorder.refused):
        return "it matches, but the publication was refused"
    client = run.ledger.subscriber(subscription)
    [home] = [each.broker for each in run.scenario.clients if each.name == client]
    waiting = [str(each) for each in waiting_copies(run, number) if each.may_reach(home)]
    if waiting:
        return f"it matches, but a copy {waiting[0]}"
    if run.ledger.under_way or run.losses():
        return "it matches, but the publication was lost or is still under way: something was down or too slow"
    return "it matches, but the subscription or the advertisement had not reached all brokers yet"
