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
from octopia.broker.adaptive_routing import AdaptiveDecision, Arrival, Reason, published, route_adaptively
from octopia.broker.audience import audience_of
from octopia.broker.clients import advertised_by, refuse
from octopia.broker.deliveries import deliver_to, still_served
from octopia.broker.dynamic_routing import route_dynamically
from octopia.broker.express import Deliveries, Entrance, Gate, Roads
from octopia.broker.interface import Decision, DeliveryPlan, Detail, LinkView, Routed
from octopia.broker.state import State
from octopia.broker.static_routing import RoutingView, Wanted, route_statically
from octopia.broker.tables import CltEntry
from octopia.content.nonconformance import explain_nonconformance
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.matching import Match
from octopia.protocol import ClusterIndexVector
from octopia.protocol.duties import Duties, clusters_of
from octopia.protocol.messages import Publish, PublishRequest
from octopia.protocol.transit import further
from octopia.settings import Algorithm

Router: TypeAlias = Callable[[Wanted, RoutingView], Decision]

_ALL = Detail.ALL

SHARED = 16
"""The number of publications of a batch that share a decision of adaptive routing."""

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


def router_for(state: State, source: Peer, view: adapting.View | None) -> Callable[[Any, Match], list[Outgoing]]:
    """Return the function that delivers and routes publications from one link, and returns the copies of each."""
    if state.is_adaptive:
        adapt: Callable[..., list[Outgoing]] = (
            _adapt_from_broker if isinstance(source, BrokerId) else _adapt_from_client
        )
        return functools.partial(adapt, state, view, source, adapting.plain_duties(state, source))
    route: Callable[..., list[Outgoing]] = _route_from_broker if isinstance(source, BrokerId) else _route_from_client
    return functools.partial(route, state, View(state), source)


def make_roads(state: State, source: BrokerId) -> Roads:
    """Make the express ways of publications from a neighbour."""
    duties = adapting.plain_duties(state, source) if state.is_adaptive else None
    limit, deliveries = state.settings.hop_limit, _deliveries_of(state)
    roads = state.roads[source] = Roads(source, state.queues, limit, duties, deliveries)
    return roads


def count_unwanted(state: State, source: Peer, roads: Roads) -> None:
    """Count the publications that entered this cluster, and that nobody wants here (D6)."""
    if isinstance(source, BrokerId) and source.cluster != state.cluster:
        state.counters.false_positives += roads.unwanted
    roads.unwanted = 0


def _deliveries_of(state: State) -> Deliveries:
    return Deliveries(state.for_clients, functools.partial(_plan_for, state))


def _plan_for(state: State, numbers: bytes) -> tuple[tuple[SubscriptionId, ...], DeliveryPlan] | None:
    """Return the local subscriptions with these numbers, and the plan of their delivery; None if all have left."""
    subscriptions = state.prt.named(numbers)
    if state.backlog:
        subscriptions = still_served(state, subscriptions)
    return (subscriptions, state.plans.of(subscriptions, state.plan_delivery)) if subscriptions else None


def entrance_for(state: State, publisher: ClientId, view: adapting.View | None) -> Entrance:
    """Return the express way of a client's publications, for one batch."""
    entrance = Entrance(state.id, state.incarnation, state.next_publication, state.now_ms)
    entrance.ask(
        state.clt.conformity_with(publisher),
        functools.partial(_targets_of, state),
        functools.partial(_gate_to, state, publisher, view),
        _deliveries_of(state),
    )
    return entrance


def _targets_of(state: State, advertisement: AdvertisementId) -> int:
    """Return the other clusters that want an advertisement as bits, or -1 if its publications are ordered."""
    entry = state.clt[advertisement]
    if entry.ordered:
        return -1
    if state.is_adaptive:
        return audience_of(state, (entry,)).targets
    return entry.routing_civ.without_bit(state.cluster).bits


def _gate_to(
    state: State, publisher: ClientId, view: adapting.View | None, alinks: tuple[BrokerId, ...], targets: int
) -> Gate:
    """Return the queues that lead to aLinks and target clusters, and which of them routing asks about."""
    ilinks = tuple([state.neighbourhood.secondary_neighbour(cluster) for cluster in clusters_of(targets)])
    links = (*alinks, *ilinks)
    queues = [state.queues[link] for link in links]
    if view is not None:
        plain = adapting.plain_duties(state, publisher)
        duties: list[Duties | None] = [plain] * len(alinks)
        duties += [adapting.entering(link.cluster) for link in ilinks]
        return Gate(links, queues, duties, [], not any(map(view.congested, links)))
    is_static = ROUTERS[state.algorithm] is route_statically
    watched = [] if is_static else queues[len(alinks) :]
    return Gate(links, queues, [None] * len(links), watched, state.settings.hop_limit > 0)


def _route_from_broker(
    state: State, view: RoutingView, sender: BrokerId, publication: Publish, match: Match
) -> list[Outgoing]:
    _deliver_from_broker(state, sender, publication, match)
    wanted = wanted_beyond(state, match, sender, publication.publication_civ)
    if not wanted.alinks and not wanted.targets.bits and state.settings.detail is not _ALL:
        return []  # No other link wants it, and the trace does not record the decision.
    router = route_statically if publication.ordered else ROUTERS[state.algorithm]
    return _decide(state, view, sender, publication, wanted, router, match, ())


def _route_from_client(
    state: State, view: RoutingView, publisher: ClientId, request: PublishRequest, match: Match
) -> list[Outgoing]:
    """Route a local client's publication; one that conforms to none of its advertisements is refused."""
    admitted = _admit(state, publisher, request, match)
    if admitted is None:
        return []
    return _route_at_host(state, view, publisher, *admitted, match)


def _route_at_host(
    state: State,
    view: RoutingView,
    publisher: ClientId,
    publication: Publish,
    advertisements: Sequence[CltEntry],
    match: Match,
) -> list[Outgoing]:
    wanted = wanted_at_host(state, match, advertisements)
    if not wanted.alinks and not wanted.targets.bits and state.settings.detail is not _ALL:
        return []  # No link wants it, and the trace does not record the decision.
    router = route_statically if publication.ordered else ROUTERS[state.algorithm]
    return _decide(state, view, publisher, publication, wanted, router, match, advertisements)


def _deliver_from_broker(state: State, sender: BrokerId, publication: Publish, match: Match) -> None:
    """Deliver a publication that enters this cluster to local subscribers."""
    if match.numbers:
        deliver_to(state, publication, state.prt.named(match.numbers))
    elif not match.links and sender.cluster != state.cluster:
        state.counters.false_positives += 1  # D6


def _admit(
    state: State, publisher: ClientId, request: PublishRequest, match: Match
) -> tuple[Publish, Sequence[CltEntry]] | None:
    """Number and deliver a local client's publication, and return it with its advertisements; None if refused."""
    advertisements = state.clt.conforming(request.publication, publisher)
    if not advertisements:
        own = (entry.offer for each in advertised_by(state, publisher) if (entry := state.clt.get(each)))
        reason = explain_nonconformance(own, request.publication)
        refuse(state, publisher, Publish.kind, request.sequence, reason)
        return None
    ordered = any(entry.ordered for entry in advertisements)
    name = state.mint_publication()
    publication = Publish(name, request.publication, None, 0, request.published_ms, ordered=ordered)
    state.trace_request(publisher, Publish.kind, name, request.sequence, request.published_ms)
    if match.numbers:
        deliver_to(state, publication, state.prt.named(match.numbers))
    return publication, advertisements


def _adapt_from_broker(
    state: State, view: adapting.View, sender: BrokerId, plain: Duties, publication: Publish, match: Match
) -> list[Outgoing]:
    """Route a copy by its duties, which are ``plain`` for most; an ordered one takes its static path."""
    if publication.ordered:
        return _route_from_broker(state, view, sender, publication, match)
    interested = adapting.interested(state, match.links)
    if publication.publication_civ is None and publication.detour is None and state.settings.detail is not _ALL:
        alinks = [link for link in interested if link != sender] if sender in interested else interested
        copies = adapting.static_copies(state, view, publication, plain, alinks, 0)
        if copies is not None:
            _deliver_from_broker(state, sender, publication, match)
            return copies
    arrival = adapting.arrival_of(state, sender, publication)
    decision = _decide_adaptively(state, arrival, interested, view)
    if decision.delivers:
        _deliver_from_broker(state, sender, publication, match)
    return _carry_out(state, view, sender, publication, arrival, decision, match, ())


def _adapt_from_client(
    state: State, view: adapting.View, publisher: ClientId, plain: Duties, request: PublishRequest, match: Match
) -> list[Outgoing]:
    """Route a local client's publication by its audience; an ordered one takes its static path."""
    admitted = _admit(state, publisher, request, match)
    if admitted is None:
        return []
    publication, advertisements = admitted
    if publication.ordered:
        return _route_at_host(state, view, publisher, publication, advertisements, match)
    audience, interested = audience_of(state, advertisements), adapting.interested(state, match.links)
    if state.settings.detail is not _ALL:
        copies = adapting.static_copies(state, view, publication, plain, interested, audience.targets)
        if copies is not None:
            return copies
    arrival = published(state.cluster, audience)
    decision = _decide_adaptively(state, arrival, interested, view)
    return _carry_out(state, view, publisher, publication, arrival, decision, match, advertisements)


def _decide_adaptively(
    state: State, arrival: Arrival, interested: Sequence[BrokerId], view: adapting.View
) -> AdaptiveDecision:
    """Run adaptive routing; publications that arrive together share decisions, as they share verdicts.

    A decision holds for ``SHARED`` of them, so that a large batch is still divided among the ways. A trace of decisions
    has each of its own.
    """
    if state.settings.detail is _ALL:
        return route_adaptively(arrival, interested, view)
    key = (arrival.duties, arrival.ilink, id(arrival.audience), tuple(interested))
    known = view.decisions.get(key)
    if known is not None and known[1]:
        view.decisions[key] = (known[0], known[1] - 1)
        return known[0]
    decision = route_adaptively(arrival, interested, view)
    view.decisions[key] = (decision, SHARED - 1)
    return decision


def _carry_out(
    state: State,
    view: adapting.View,
    source: Peer,
    publication: Publish,
    arrival: Arrival,
    decision: AdaptiveDecision,
    match: Match,
    advertisements: Sequence[CltEntry],
) -> list[Outgoing]:
    """Make the copies that adaptive routing asks for, and let the rest wait."""
    if state.settings.detail is _ALL:
        wanted = Wanted(match.links, ClusterIndexVector(arrival.duties.enter, state.neighbourhood.clusters))
        links = adapting.look_at_links(view, arrival, decision)
        told = _story(state, links, source, publication, wanted, Decision(()), match, advertisements, decision)
        state.facts.append(told)
    if decision.steps and _leaves_path(arrival, decision):
        state.counters.detours += 1
    for duties in decision.waiting:
        adapting.wait(state, publication, duties)
    return adapting.copies_of(state, publication, decision.dispatches) if decision.dispatches else []


def _leaves_path(arrival: Arrival, decision: AdaptiveDecision) -> bool:
    """Return whether a copy is rerouted here, and not merely on a detour that was chosen before."""
    return not arrival.duties.cross or any(step.reason in (Reason.BEST, Reason.LOST) for step in decision.steps)


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
    view: RoutingView,
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
        targets = [cluster for cluster in wanted.targets if cluster != state.cluster]
        considered = (*wanted.alinks, *map(state.neighbourhood.secondary_neighbour, targets))
        links = tuple(LinkView(link, view.queue_length(link), congested=view.congested(link)) for link in considered)
        state.facts.append(_story(state, links, source, publication, wanted, decision, match, advertisements))
    if decision.case is not None:
        state.counters.cases[decision.case] += 1
    if not decision.forwards:
        return []
    if publication.hop >= state.settings.hop_limit:
        _drop_at_hop_limit(state, source, publication, len(decision.forwards))
        return []
    plain = further(publication, 1)
    copies: list[Outgoing] = []
    for each in decision.forwards:
        carried = each.publication_civ
        copies.append((each.link, plain if carried is None else plain.copy(carried, None, 0), None))
    return copies


def _drop_at_hop_limit(state: State, source: Peer, publication: Publish, copies: int) -> None:
    losses.beyond_hop_limit(state, source, publication, copies)
    limit = state.settings.hop_limit
    state.trace_drop(publication, None, copies, f"its {copies} copies would go beyond the hop limit of {limit}")


def _story(
    state: State,
    links: tuple[LinkView, ...],
    source: Peer,
    publication: Publish,
    wanted: Wanted,
    decision: Decision,
    match: Match,
    advertisements: Sequence[CltEntry],
    adaptive: AdaptiveDecision | None = None,
) -> Routed:
    return Routed(
        publication.id,
        publication.publication,
        source,
        tuple(entry.id for entry in advertisements),
        wanted.alinks,
        tuple(sorted(state.prt.named(match.numbers))),
        wanted.targets,
        links,
        decision,
        adaptive,
    )
