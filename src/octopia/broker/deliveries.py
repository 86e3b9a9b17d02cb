"""Deliveries to local clients, bounded for those that are too slow."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from octopia.broker.common import Client, CommonState
from octopia.broker.interface import Delivered
from octopia.broker.queues import ClientQueue
from octopia.ids import ClientId, SubscriptionId
from octopia.protocol import Overflow
from octopia.protocol.messages import ClientReply, Copy, CutOff, Deliver

_number_of = operator.attrgetter("number")
_name_of = operator.attrgetter("name")


def deliver_to(state: CommonState, publication: Copy, subscriptions: tuple[SubscriptionId, ...]) -> None:
    """Queue one delivery for each client that has some of these local subscriptions, naming all of them by handle.

    Clients come in order of their ids, handles in order of their subscriptions.
    """
    if state.settings.delivers_together:
        if subscriptions:
            delivered = Delivered(publication.id, publication.hop, publication.published_ms, subscriptions)
            state.effects.delivered.append(delivered)
        return
    owner_of = state.subscribers
    handles: dict[ClientId, tuple[int, ...]] = {}
    for subscription in subscriptions:
        client, handle = owner_of[subscription]
        handles[client] = (handle,)
    if len(handles) < len(subscriptions):
        handles = _gather_handles(state, subscriptions)
    waiting, effects, limit = state.waiting, state.effects, state.settings.client_queue_limit
    content, hop, published_ms = publication.publication, publication.hop, publication.published_ms
    for client in sorted(handles, key=_name_of) if len(handles) > 1 else handles:
        delivery = Deliver(publication.id, content, handles[client], hop, published_ms)
        queue = waiting.get(client)
        if queue is None:
            queue = waiting[client] = ClientQueue()
        # Who was cut off before has no subscriptions any more.
        if len(queue.deliveries) >= limit or client in effects.cut_off:
            _overflow(state, client, delivery)
        else:
            queue.deliveries.append(delivery)
            effects.ready[client] = None


def _gather_handles(state: CommonState, subscriptions: Sequence[SubscriptionId]) -> dict[ClientId, tuple[int, ...]]:
    """Return the handles of each client; this broker has named the subscriptions, so that numbers tell their order."""
    gathered: dict[ClientId, list[int]] = {}
    for subscription in sorted(subscriptions, key=_number_of):
        client, handle = state.subscribers[subscription]
        gathered.setdefault(client, []).append(handle)
    return {client: tuple(handles) for client, handles in gathered.items()}


def tell_cut_off(state: CommonState, client_id: ClientId) -> None:
    """Leave a cut-off client its last message: how many deliveries it lost."""
    state.tell(client_id, CutOff(state.clients[client_id].lost))


def _overflow(state: CommonState, client_id: ClientId, delivery: Deliver) -> None:
    """Deal with a client that is too slow: it loses the oldest or its connection, as it chose."""
    client, queue = state.clients[client_id], state.queue_of(client_id)
    if client.is_cut_off:
        client.lost += 1
        _lose(state, client_id, delivery)
    elif client.overflow is Overflow.DISCONNECT:
        _cut_off(state, client_id, client, delivery)
    else:
        queue.deliveries.append(delivery)
        queue.lost += 1
        _lose(state, client_id, queue.deliveries.pop(0))
        state.effects.ready[client_id] = None


def _cut_off(state: CommonState, client_id: ClientId, client: Client, delivery: Deliver) -> None:
    """Drop all that waits for a client; the tables are cleaned after the batch, which still needs them."""
    deliveries = (*state.waiting.pop(client_id).deliveries, delivery)
    for waiting in deliveries:
        _lose(state, client_id, waiting)
    client.lost = len(deliveries)
    client.is_cut_off = True
    state.effects.cut_off.append(client_id)


def _lose(state: CommonState, client_id: ClientId, delivery: ClientReply) -> None:
    assert isinstance(delivery, Deliver)
    state.counters.lost_by_slow_clients += 1
    state.trace_drop(delivery, client_id, 1, "the client is too slow")
