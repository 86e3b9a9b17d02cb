"""What happens to a publication at one broker (paper section 9).

Local subscribers are served first; then the routing algorithm decides where copies go, and they are queued. Only the
host broker looks at advertisements: it ORs the CIVs of those that the publication conforms to. Everybody else goes by
the publication's own header.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from octopia.broker.dynamic_routing import route_dynamically
from octopia.broker.interface import Decision, Detail, Event, Fact, LinkView, Overflow, Routed
from octopia.broker.messages import CutOff, Deliver, Publish, PublishRequest
from octopia.broker.state import Client, State
from octopia.broker.static_routing import RoutingView, Wanted, route_statically
from octopia.broker.tables import CltEntry
from octopia.ids import BrokerId, ClientId, LinkKind, Peer, SubscriptionId
from octopia.matching import Match
from octopia.settings import Algorithm

Router: TypeAlias = Callable[[Wanted, RoutingView], Decision]

ROUTERS: dict[Algorithm, Router] = {Algorithm.STATIC: route_statically, Algorithm.DYNAMIC: route_dynamically}


class _View:
    """The read-only view of a broker that routing gets."""

    __slots__ = ("_state",)

    def __init__(self, state: State):
        self._state = state

    def ilink(self, cluster: int) -> BrokerId:
        return self._state.neighbourhood.secondary_neighbour(cluster)

    def congested(self, link: BrokerId) -> bool:
        return self._state.queues[link].congested(self._state.now_ms)

    def queue_length(self, link: BrokerId) -> int:
        return self._state.queues[link].length


def accept(state: State, publisher: ClientId, request: PublishRequest) -> tuple[Publish, list[CltEntry]] | str:
    """Name a local publisher's publication, with the advertisements it conforms to; or say why it is refused."""
    advertisements = state.clt.conforming(request.publication, publisher)
    if not advertisements:
        return "it conforms to none of its publisher's advertisements"
    publication = Publish(state.mint_publication(), request.publication, None, 0, request.published_ms)
    return publication, advertisements


def route_from_client(
    state: State, publisher: ClientId, publication: Publish, advertisements: list[CltEntry], match: Match
) -> None:
    """Route a publication at its host broker."""
    advertisement_civ = advertisements[0].civ
    for entry in advertisements[1:]:
        advertisement_civ |= entry.civ
    wanted = Wanted(match.links, advertisement_civ.without_bit(state.cluster))
    ordered = any(entry.ordered for entry in advertisements)
    router = route_statically if ordered else ROUTERS[state.settings.routing.algorithm]
    _deliver_locally(state, publication, match.local)
    _forward(state, publisher, publication, wanted, router, match, advertisements)


def route_from_broker(state: State, sender: BrokerId, publication: Publish, match: Match) -> None:
    """Route a publication that came from a neighbour."""
    if not match.links and not match.local and state.kind_of(sender) is LinkKind.ILINK:
        state.counters.false_positives += 1  # D6
    alinks = tuple(link for link in match.links if link != sender)
    carried = publication.publication_civ
    targets = state.civ_of() if carried is None else carried.without_bit(state.cluster)
    _deliver_locally(state, publication, match.local)
    router = ROUTERS[state.settings.routing.algorithm]
    _forward(state, sender, publication, Wanted(alinks, targets), router, match, ())


def _forward(
    state: State,
    source: Peer,
    publication: Publish,
    wanted: Wanted,
    router: Router,
    match: Match,
    advertisements: Sequence[CltEntry],
) -> None:
    decision = router(wanted, _View(state))
    if state.settings.detail >= Detail.ALL:
        state.facts.append(_story(state, source, publication, wanted, decision, match, advertisements))
    if decision.case is not None:
        state.counters.cases[decision.case] += 1
    if not decision.forwards:
        return
    if publication.hop >= state.settings.hop_limit:
        _drop_at_hop_limit(state, publication, len(decision.forwards))
        return
    plain = msgspec.structs.replace(publication, publication_civ=None, hop=publication.hop + 1)
    for forward in decision.forwards:
        civ = forward.publication_civ
        state.forward(forward.link, plain if civ is None else msgspec.structs.replace(plain, publication_civ=civ))


def _drop_at_hop_limit(state: State, publication: Publish, copies: int) -> None:
    state.counters.over_hop_limit += copies
    if state.settings.detail >= Detail.DELIVERIES:
        reason = f"its {copies} copies would go beyond the hop limit of {state.settings.hop_limit}"
        state.facts.append(
            Fact(
                Event.DROP,
                publication.kind,
                publication.id,
                hop=publication.hop,
                published_ms=publication.published_ms,
                value=copies,
                reason=reason,
            )
        )


def _deliver_locally(state: State, publication: Publish, local: Sequence[SubscriptionId]) -> None:
    """Queue one delivery for each interested client, naming all of its matching subscriptions."""
    handles_by_client: dict[ClientId, list[int]] = {}
    for subscription in local:
        client = state.prt[subscription].last_hop
        assert isinstance(client, ClientId)
        handles_by_client.setdefault(client, []).append(state.clients[client].handles[subscription])
    for client in sorted(handles_by_client):
        handles = tuple(handles_by_client[client])
        delivery = Deliver(publication.id, publication.publication, handles, publication.hop, publication.published_ms)
        _deliver(state, client, delivery)


def _deliver(state: State, client_id: ClientId, delivery: Deliver) -> None:
    """Queue a delivery; a client that is too slow loses the oldest or its connection, as it chose."""
    client = state.clients[client_id]
    queue = state.queues[client_id]
    if client.is_cut_off:
        _lose(state, client_id, client, delivery)
        return
    if len(queue) >= state.settings.client_queue_limit:
        if client.overflow is Overflow.DISCONNECT:
            _cut_off(state, client_id, client, delivery)
            return
        oldest = queue.drop_oldest()
        assert isinstance(oldest, Deliver)
        _lose(state, client_id, client, oldest)
    state.deliver(client_id, delivery)


def _cut_off(state: State, client_id: ClientId, client: Client, delivery: Deliver) -> None:
    """Drop all that waits for a client; the tables are cleaned after the batch, which still needs them."""
    queue = state.queues[client_id]
    for waiting in (*queue.waiting(), delivery):
        if isinstance(waiting, Deliver):
            _lose(state, client_id, client, waiting)
    queue.clear()
    client.is_cut_off = True
    state.effects.cut_off.append(client_id)


def _lose(state: State, client_id: ClientId, client: Client, delivery: Deliver) -> None:
    client.lost += 1
    state.counters.lost_by_slow_clients += 1
    if state.settings.detail >= Detail.DELIVERIES:
        state.facts.append(
            Fact(
                Event.DROP,
                Publish.kind,
                delivery.id,
                peer=client_id,
                link=LinkKind.CLIENT,
                hop=delivery.hop,
                published_ms=delivery.published_ms,
                value=1,
                reason="the client is too slow",
            )
        )


def tell_cut_off(state: State, client_id: ClientId) -> None:
    """Leave a cut-off client its last message: how many deliveries it lost."""
    state.tell(client_id, CutOff(state.clients[client_id].lost))


def _story(
    state: State,
    source: Peer,
    publication: Publish,
    wanted: Wanted,
    decision: Decision,
    match: Match,
    advertisements: Sequence[CltEntry],
) -> Routed:
    considered = (*wanted.alinks, *(state.neighbourhood.secondary_neighbour(cluster) for cluster in wanted.targets))
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
        match.local,
        wanted.targets,
        views,
        decision,
    )
