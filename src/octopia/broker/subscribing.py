"""The subscription broadcast process (paper sections 7 and 8, Alg. 2).

A subscription is known in the host cluster of its subscriber and nowhere else: it floods the cluster, which is a tree.
On its way it sets the bits of the advertisements that it intersects, wherever the cluster meets their host regions.
"""

from __future__ import annotations

from octopia.broker.messages import CivSet, CivUnset, Subscribe, Unsubscribe
from octopia.broker.state import State
from octopia.broker.tables import CltEntry, PrtEntry
from octopia.content import Disjunction
from octopia.ids import BrokerId, ClientId, Peer, SubscriptionId


def subscribe_for_client(state: State, subscriber: ClientId, interest: Disjunction) -> SubscriptionId:
    """Name a local subscriber's subscription and spread it."""
    subscription = state.mint_subscription()
    _store_and_spread(state, subscriber, Subscribe(subscription, interest))
    return subscription


def unsubscribe_for_client(state: State, subscriber: ClientId, subscription: SubscriptionId) -> None:
    """Withdraw a local subscriber's subscription throughout the cluster."""
    _remove_and_spread(state, subscriber, Unsubscribe(subscription))


def on_subscribe(state: State, sender: BrokerId, message: Subscribe) -> None:
    """Store a subscription of this cluster and pass it on."""
    if message.id not in state.prt:
        _store_and_spread(state, sender, message)


def on_unsubscribe(state: State, sender: BrokerId, message: Unsubscribe) -> None:
    """Forget a subscription of this cluster and pass that on, if it came from the sender."""
    entry = state.prt.get(message.id)
    if entry is not None and entry.last_hop == sender:
        _remove_and_spread(state, sender, message)


def _store_and_spread(state: State, last_hop: Peer, message: Subscribe) -> None:
    state.prt.add(PrtEntry(message.id, message.interest, last_hop))
    _to_other_primary_neighbours(state, last_hop, message)
    newly_wanted = [
        entry for entry in _of_secondary_neighbours(state, message.interest) if state.cluster not in entry.civ
    ]
    for entry in newly_wanted:
        entry.civ = entry.civ.with_bit(state.cluster)
    state.send_civ_updates(CivSet, newly_wanted)


def _remove_and_spread(state: State, last_hop: Peer, message: Unsubscribe) -> None:
    removed = state.prt.remove(message.id)
    _to_other_primary_neighbours(state, last_hop, message)
    no_longer_wanted = [
        entry
        for entry in _of_secondary_neighbours(state, removed.interest)
        if state.cluster in entry.civ and not state.prt.any_intersecting(entry.offer)
    ]
    for entry in no_longer_wanted:
        entry.civ = entry.civ.without_bit(state.cluster)
    state.send_civ_updates(CivUnset, no_longer_wanted)


def _to_other_primary_neighbours(state: State, last_hop: Peer, message: Subscribe | Unsubscribe) -> None:
    for neighbour in state.neighbourhood.primary_neighbours:
        if neighbour != last_hop:
            state.send(neighbour, message)


def _of_secondary_neighbours(state: State, interest: Disjunction) -> list[CltEntry]:
    """Return the entries received over iLinks that ``interest`` intersects."""
    return [entry for entry in state.clt.intersected_by(interest) if not entry.is_hosted_here]
