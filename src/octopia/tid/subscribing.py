"""The binding of subscriptions to the trees of advertisements (paper section 2).

The edge broker stores a subscription as it was issued. For every advertisement that it intersects, now or later, a copy
bound to the TID travels up the tree to the publisher's host broker. Each broker on the way stores the copy. So one
broker may store a subscription many times, under different TIDs and from different hops: these are the other paths that
dynamic routing may take.
"""

from __future__ import annotations

from octopia.content import Disjunction
from octopia.errors import ProtocolViolation
from octopia.ids import BrokerId, ClientId, Peer, SubscriptionId
from octopia.protocol.messages import SubscribeRequest
from octopia.tid.messages import TidSubscribe, TidUnsubscribe
from octopia.tid.state import TidState
from octopia.tid.tables import BoundCopy, SrtEntry, UnboundSubscription


def subscribe_for_client(state: TidState, subscriber: ClientId, request: SubscribeRequest) -> SubscriptionId:
    """Mint an id for a local subscriber's subscription, and bind it to all intersecting advertisements."""
    subscription = state.mint_subscription()
    state.unbound.add(UnboundSubscription(subscription, request.interest, subscriber))
    for entry in state.srt.intersected_by(request.interest):
        bind(state, subscriber, subscription, request.interest, entry)
    return subscription


def confirm_again_for_client(
    state: TidState, subscriber: ClientId, subscription: SubscriptionId, request: SubscribeRequest
) -> bool:
    """Return whether a request repeats a subscription; there is nothing to confirm."""
    known = state.unbound.get(subscription)
    return known is not None and (known.interest, known.subscriber) == (request.interest, subscriber)


def unsubscribe_for_client(state: TidState, subscriber: ClientId, subscription: SubscriptionId) -> None:
    """Withdraw a local subscriber's subscription, and all its copies."""
    state.unbound.remove(subscription)
    _withdraw(state, subscriber, subscription)


def on_subscribe(state: TidState, sender: BrokerId, message: TidSubscribe) -> None:
    """Store a bound copy and pass it on towards the publisher.

    It stops where its advertisement has just been withdrawn: the withdrawal reaches every broker that stored the copy.
    """
    entry = state.srt.get(message.tid)
    if entry is None:
        return
    if entry.last_hop == sender:
        raise ProtocolViolation(
            f"{message.id} cannot come from {sender}, which is nearer to the publisher of {message.tid}"
        )
    bind(state, sender, message.id, message.interest, entry)


def on_unsubscribe(state: TidState, sender: BrokerId, message: TidUnsubscribe) -> None:
    """Remove all copies of a subscription that came from ``sender``, and pass that on."""
    _withdraw(state, sender, message.id)


def bind(state: TidState, last_hop: Peer, subscription: SubscriptionId, interest: Disjunction, entry: SrtEntry) -> None:
    """Store a copy of a subscription bound to an advertisement's TID, and send it up the tree, unless it is stored."""
    if (subscription, entry.tid) in state.prt:
        return
    state.prt.add(BoundCopy(subscription, entry.tid, interest, last_hop))
    if isinstance(entry.last_hop, BrokerId):
        state.send(entry.last_hop, TidSubscribe(subscription, interest, entry.tid))


def _withdraw(state: TidState, last_hop: Peer, subscription: SubscriptionId) -> None:
    """Remove the copies from one hop, and tell each neighbour that got some of them once."""
    removed = state.prt.remove_from(subscription, last_hop)
    went_to = {state.srt[copy.tid].last_hop: None for copy in removed}
    for neighbour in sorted(peer for peer in went_to if isinstance(peer, BrokerId)):
        state.send(neighbour, TidUnsubscribe(subscription))
