"""Explanations of the path of a publication, and of missing deliveries.

``explain_publication`` runs a scenario again and records every routing decision about one publication. For each broker
it prints the subscriptions behind each link, the bit of each cluster, the congested links and the case that was taken,
or, under adaptive routing, which duty of the copy went where and why. At the end it prints the subscriptions that
received the publication, and for all others the predicate that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from octopia.broker import Broker, OctopiaBroker, Routed
from octopia.broker.interface import Delivered, Detail, Fact
from octopia.broker.story import RoutingStep, observe, tell_step
from octopia.content import Disjunction, Filter, Publication, conforms, explain_mismatch, format_filter
from octopia.errors import UsageError
from octopia.ids import BrokerId, PublicationId
from octopia.protocol.messages import ClientReply
from octopia.scenario import Scenario
from octopia.simulator.run import Run, run_scenario
from octopia.simulator.whereabouts import waiting_copies


class _Listener:
    """A recorder of every routing decision of a run."""

    def __init__(self) -> None:
        self.steps: dict[PublicationId, list[RoutingStep]] = {}

    def on_fact(self, broker: Broker, fact: Fact | Routed, now_ms: float) -> None:
        """Record a decision and the subscriptions behind it."""
        if isinstance(fact, Routed) and isinstance(broker, OctopiaBroker):
            self.steps.setdefault(fact.publication, []).append(observe(broker, fact))

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


def _journey(run: Run, steps: Sequence[RoutingStep]) -> Iterator[str]:
    for step in steps:
        yield from (f"  {line}" for line in tell_step(step, run.names.known_as))


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
