"""Deliveries to local clients, bounded for those that are too slow."""

from __future__ import annotations

from octopia.broker.common import Client, CommonState
from octopia.broker.interface import Overflow
from octopia.broker.messages import Copy, CutOff, Deliver
from octopia.ids import ClientId, SubscriptionId


def deliver_to(state: CommonState, publication: Copy, subscriptions: dict[SubscriptionId, ClientId]) -> None:
    """Queue one delivery for each client, naming all of its subscriptions among those given."""
    handles_by_client: dict[ClientId, list[int]] = {}
    for subscription, client in subscriptions.items():
        handles_by_client.setdefault(client, []).append(state.clients[client].handles[subscription])
    for client in sorted(handles_by_client):
        handles = tuple(handles_by_client[client])
        delivery = Deliver(publication.id, publication.publication, handles, publication.hop, publication.published_ms)
        _deliver(state, client, delivery)


def tell_cut_off(state: CommonState, client_id: ClientId) -> None:
    """Leave a cut-off client its last message: how many deliveries it lost."""
    state.tell(client_id, CutOff(state.clients[client_id].lost))


def _deliver(state: CommonState, client_id: ClientId, delivery: Deliver) -> None:
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


def _cut_off(state: CommonState, client_id: ClientId, client: Client, delivery: Deliver) -> None:
    """Drop all that waits for a client; the tables are cleaned after the batch, which still needs them."""
    queue = state.queues[client_id]
    for waiting in (*queue.waiting(), delivery):
        if isinstance(waiting, Deliver):
            _lose(state, client_id, client, waiting)
    queue.clear()
    client.is_cut_off = True
    state.effects.cut_off.append(client_id)


def _lose(state: CommonState, client_id: ClientId, client: Client, delivery: Deliver) -> None:
    client.lost += 1
    state.counters.lost_by_slow_clients += 1
    state.trace_drop(delivery, client_id, 1, "the client is too slow")
