"""The subscription broadcast process (paper sections 7 and 8, Alg. 2).

A subscription is known only in the host cluster of its subscriber: it floods the cluster, which is a tree. On its way
it sets the bits of intersecting advertisements at each broker of the cluster that is in their host region.
"""

from __future__ import annotations

from octopia.broker import answers, confirming
from octopia.broker.state import State, Task
from octopia.broker.tables import CltEntry, PrtEntry
from octopia.content import Disjunction
from octopia.ids import BrokerId, ClientId, Peer, SubscriptionId
from octopia.protocol.directions import Directions
from octopia.protocol.messages import Subscribe, SubscribeRequest, Unsubscribe


def subscribe_for_client(state: State, subscriber: ClientId, request: SubscribeRequest) -> SubscriptionId:
    """Mint an id for a local subscriber's subscription, and spread it."""
    subscription = state.mint_subscription()
    message = Subscribe(subscription, request.interest)
    _store_and_spread(state, subscriber, message)
    confirming.await_request(state, subscriber, message.kind, subscription, request.handle, request.timeout_ms)
    return subscription


def confirm_again_for_client(
    state: State, subscriber: ClientId, subscription: SubscriptionId, request: SubscribeRequest
) -> bool:
    """Confirm a subscription that a request repeats; return False if the request has another filter."""
    entry = state.prt.get(subscription)
    if entry is None or entry.interest != request.interest:
        return False
    confirming.answer_again(state, subscriber, subscription, request.handle, request.timeout_ms)
    return True


def unsubscribe_for_client(state: State, subscriber: ClientId, subscription: SubscriptionId) -> None:
    """Withdraw a local subscriber's subscription throughout the cluster."""
    remove_and_spread(state, subscriber, subscription)


def on_subscribe(state: State, sender: BrokerId, message: Subscribe) -> None:
    """Store a subscription of this cluster and pass it on; a known one is only confirmed again."""
    if message.id in state.prt:
        state.backlog.get((Task.REMOVE, sender), {}).pop(message.id, None)
        confirming.confirm_again(state, sender, [message.id])
    else:
        _store_and_spread(state, sender, message)


def on_unsubscribe(state: State, sender: BrokerId, message: Unsubscribe) -> None:
    """Remove a subscription of this cluster and pass that on, if it came from the sender."""
    entry = state.prt.get(message.id)
    if entry is not None and entry.last_hop == sender:
        remove_and_spread(state, sender, message.id)


def _store_and_spread(state: State, last_hop: Peer, message: Subscribe) -> None:
    state.prt.add(PrtEntry(message.id, message.interest, last_hop))
    neighbours = _other_primary_neighbours(state, last_hop)
    for neighbour in neighbours:
        state.send(neighbour, message)
    intersected = of_secondary_neighbours(state, message.interest)
    answers.add(state, intersected, answers.direction_from(state, last_hop))
    if state.confirms:
        confirming.begin(state, last_hop, message, neighbours, intersected)


def remove_and_spread(state: State, last_hop: Peer, subscription: SubscriptionId) -> None:
    """Remove a subscription, tell all primary neighbours except its last hop, and clear bits that nobody needs."""
    removed = state.prt.remove(subscription)
    confirming.forget(state, subscription)
    for neighbour in _other_primary_neighbours(state, last_hop):
        state.send(neighbour, Unsubscribe(subscription))
    direction = answers.direction_from(state, last_hop)
    if direction not in answers.unknown(state):
        answers.clear(state, of_secondary_neighbours(state, removed.interest), Directions.of((direction,)))


def of_secondary_neighbours(state: State, interest: Disjunction) -> list[CltEntry]:
    """Return the entries received over iLinks that ``interest`` intersects."""
    return [entry for entry in state.clt.intersected_by(interest) if not entry.is_hosted_here]


def _other_primary_neighbours(state: State, last_hop: Peer) -> list[BrokerId]:
    return [neighbour for neighbour in state.neighbourhood.primary_neighbours if neighbour != last_hop]
