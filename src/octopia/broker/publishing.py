"""The routing of a publication at one broker (paper section 9).

Local subscribers are served first. Then the routing algorithm decides which links get copies, and these are queued.
Only the host broker uses advertisements: it ORs the CIVs of those that the publication conforms to. All other brokers
use the publication's own header.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from octopia.broker import adapting, losses
from octopia.broker.adapting import Outgoing
from octopia.broker.adaptive_routing import AdaptiveDecision, Arrival, published, route_adaptively
from octopia.broker.audience import audience_of
from octopia.broker.clients import advertised_by, refuse
from octopia.broker.deliveries import deliver_to
from octopia.broker.dynamic_routing import route_dynamically
from octopia.broker.interface import Decision, Detail, LinkView, Routed
from octopia.broker.state import State
from octopia.broker.static_routing import RoutingView, Wanted, route_statically
from octopia.broker.tables import CltEntry
from octopia.content.nonconformance import explain_nonconformance
from octopia.ids import BrokerId, ClientId, LinkKind, Peer
from octopia.matching import Match
from octopia.protocol import ClusterIndexVector
from octopia.protocol.messages import Publish, PublishRequest
from octopia.settings import Algorithm

Router: TypeAlias = Callable[[Wanted, RoutingView], Decision]

_ALL = Detail.ALL

ROUTERS: dict[Algorithm, Router] = {Algorithm.STATIC: route_statically, Algorithm.DYNAMIC: route_dynamically}


class View:
    """The read-only view of a broker for routing."""

    __slots__ = ("_state",)

    def __init__(self, state: State):
        self._state = state

    def ilink(self, cluster: int) -> BrokerId:
        """Return the secondary neighbour in a cluster."""
        return self._state.neighbourhood.secondary_neighbour(cluster)

    def congested(self, link: BrokerId) -> bool:
        """Apply Eq. 3 to the queue of a link."""
        return self._state.queues[link].congested(self._state.now_ms)

    def queue_length(self, link: BrokerId) -> int:
        """Return the length of a queue as routing sees it."""
        return self._state.queues[link].length


def router_for(state: State, source: Peer) -> Callable[[Any, Match], list[Outgoing]]:
    """Return the function that delivers and routes publications from one link, and returns the copies of each."""
    if not isinstance(source, BrokerId):
        return functools.partial(_route_from_client, state, View(state), source)
    if state.is_adaptive:
        return functools.partial(_adapt_from_broker, state, adapting.View(state), source)
    return functools.partial(_route_from_broker, state, View(state), source)


def _route_from_broker(
    state: State, view: View, sender: BrokerId, publication: Publish, match: Match
) -> list[Outgoing]:
    if match.numbers:
        deliver_to(state, publication, state.prt.named(match.numbers))
    elif not match.links and state.kind_of(sender) is LinkKind.ILINK:
        state.counters.false_positives += 1  # D6
    wanted = wanted_beyond(state, match, sender, publication.publication_civ)
    if not wanted.alinks and not wanted.targets.bits and state.settings.detail is not _ALL:
        return []  # No other link wants it, and the trace does not record the decision.
    router = route_statically if publication.ordered else ROUTERS[state.settings.routing.algorithm]
    return _decide(state, view, sender, publication, wanted, router, match, ())


def _adapt_from_broker(
    state: State, view: adapting.View, sender: BrokerId, publication: Publish, match: Match
) -> list[Outgoing]:
    """Route a copy by its duties; an ordered one takes its static path."""
    if publication.ordered:
        return _route_from_broker(state, View(state), sender, publication, match)
    return _adapt(state, view, sender, publication, adapting.arrival_of(state, sender, publication), match, ())


def _adapt(
    state: State,
    view: adapting.View,
    source: Peer,
    publication: Publish,
    arrival: Arrival,
    match: Match,
    advertisements: Sequence[CltEntry],
) -> list[Outgoing]:
    """Deliver a publication if it enters this cluster, and make the copies that adaptive routing asks for."""
    decision = route_adaptively(arrival, adapting.interested(state, match.links), view)
    if decision.delivers and isinstance(source, BrokerId):
        if match.numbers:
            deliver_to(state, publication, state.prt.named(match.numbers))
        elif not match.links and source.cluster != state.cluster:
            state.counters.false_positives += 1  # D6
    if state.settings.detail is _ALL:
        wanted = Wanted(match.links, ClusterIndexVector(arrival.duties.enter, state.neighbourhood.clusters))
        told = _story(state, source, publication, wanted, Decision(()), match, advertisements, decision)
        state.facts.append(told)
    for duties in decision.waiting:
        adapting.wait(state, publication, duties)
    return adapting.copies_of(state, publication, decision.dispatches) if decision.dispatches else []


def _route_from_client(
    state: State, view: View, publisher: ClientId, request: PublishRequest, match: Match
) -> list[Outgoing]:
    """Route a local client's publication; one that conforms to none of its advertisements is refused."""
    advertisements = state.clt.conforming(request.publication, publisher)
    if not advertisements:
        own = (entry.offer for each in advertised_by(state, publisher) if (entry := state.clt.get(each)))
        reason = explain_nonconformance(own, request.publication)
        refuse(state, publisher, Publish.kind, request.sequence, reason)
        return []
    ordered = any(entry.ordered for entry in advertisements)
    publication = Publish(state.mint_publication(), request.publication, None, 0, request.published_ms, ordered=ordered)
    state.trace_request(publisher, Publish.kind, publication.id, request.sequence, request.published_ms)
    if match.numbers:
        deliver_to(state, publication, state.prt.named(match.numbers))
    if not ordered and state.is_adaptive:
        arrival = published(state.cluster, audience_of(state, advertisements))
        return _adapt(state, adapting.View(state), publisher, publication, arrival, match, advertisements)
    wanted = wanted_at_host(state, match, advertisements)
    if not wanted.alinks and not wanted.targets.bits and state.settings.detail is not _ALL:
        return []  # No link wants it, and the trace does not record the decision.
    router = route_statically if ordered else ROUTERS[state.settings.routing.algorithm]
    return _decide(state, view, publisher, publication, wanted, router, match, advertisements)


def wanted_at_host(state: State, match: Match, advertisements: Sequence[CltEntry]) -> Wanted:
    """Return the destinations at the host broker: interested aLinks, and all clusters in the advertisements' CIVs."""
    advertisement_civ = advertisements[0].routing_civ
    for entry in advertisements[1:]:
        advertisement_civ |= entry.routing_civ
    return Wanted(match.links, advertisement_civ.without_bit(state.cluster))


def wanted_beyond(state: State, match: Match, sender: BrokerId, carried: ClusterIndexVector | None) -> Wanted:
    """Return the next destinations of a copy: never its sender, and only the clusters named in its header."""
    alinks = match.links
    if sender in alinks:
        alinks = tuple([link for link in alinks if link != sender])
    if carried is None:
        return Wanted(alinks, ClusterIndexVector(0, state.neighbourhood.clusters))
    return Wanted(alinks, carried.without_bit(state.cluster))


def _decide(
    state: State,
    view: View,
    source: Peer,
    publication: Publish,
    wanted: Wanted,
    router: Router,
    match: Match,
    advertisements: Sequence[CltEntry],
) -> list[Outgoing]:
    """Run the routing algorithm, and make the copies it asks for."""
    decision = router(wanted, view)
    if state.settings.detail is _ALL:
        state.facts.append(_story(state, source, publication, wanted, decision, match, advertisements))
    if decision.case is not None:
        state.counters.cases[decision.case] += 1
    if not decision.forwards:
        return []
    if publication.hop >= state.settings.hop_limit:
        _drop_at_hop_limit(state, source, publication, len(decision.forwards))
        return []
    plain = _copy(publication, None)
    copies: list[Outgoing] = []
    for each in decision.forwards:
        carried = each.publication_civ
        copies.append((each.link, plain if carried is None else _copy(publication, carried), None))
    return copies


def _copy(publication: Publish, publication_civ: ClusterIndexVector | None) -> Publish:
    """Return a copy of a publication for its next hop."""
    return Publish(
        publication.id,
        publication.publication,
        publication_civ,
        publication.hop + 1,
        publication.published_ms,
        None,
        publication.ordered,
    )


def _drop_at_hop_limit(state: State, source: Peer, publication: Publish, copies: int) -> None:
    losses.beyond_hop_limit(state, source, publication, copies)
    limit = state.settings.hop_limit
    state.trace_drop(publication, None, copies, f"its {copies} copies would go beyond the hop limit of {limit}")


def _story(
    state: State,
    source: Peer,
    publication: Publish,
    wanted: Wanted,
    decision: Decision,
    match: Match,
    advertisements: Sequence[CltEntry],
    adaptive: AdaptiveDecision | None = None,
) -> Routed:
    targets = [cluster for cluster in wanted.targets if cluster != state.cluster]
    considered = (*wanted.alinks, *map(state.neighbourhood.secondary_neighbour, targets))
    views = tuple(
        LinkView(link, state.queues[link].length, congested=state.queues[link].congested(state.now_ms))
        for link in considered
    )
    return Routed(
        publication.id,
        publication.publication,
        source,
        tuple(entry.id for entry in advertisements),
        wanted.alinks,
        tuple(sorted(state.prt.named(match.numbers))),
        wanted.targets,
        views,
        decision,
        adaptive,
    )
