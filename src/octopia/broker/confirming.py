"""Confirmations (D5): what makes ``subscribe`` and ``advertise`` mean something.

A broker confirms a subscription to the hop it came from when every primary neighbour that it was forwarded to has
confirmed it, and when the host broker of every intersecting advertisement holds our bit. A wait for a bit names a
version: an acknowledgement of that or of a later one ends it. An advertisement is confirmed when every secondary
neighbour has answered it. What is waited for over a link that was lost is waited for again; the exchange at link up
renews it.

Confirmations of what is no longer known are ignored everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from octopia.broker.state import Confirming, Request, State
from octopia.broker.tables import CltEntry
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.protocol import MessageKind
from octopia.protocol.messages import CivAck, Confirm, Confirmed, Subscribe, Unconfirmed


def begin(
    state: State, last_hop: Peer, message: Subscribe, neighbours: Sequence[BrokerId], intersected: Sequence[CltEntry]
) -> None:
    """Wait for what the confirmation of a new subscription needs."""
    bits = {entry.id: entry.sent for entry in intersected if entry.awaits_ack and entry.sent is not None}
    state.confirming[message.id] = Confirming(message.interest, last_hop, dict.fromkeys(neighbours), bits)
    # A client's request is noted right after its subscription was spread, and settled then.
    if isinstance(last_hop, BrokerId):
        _settle(state, message.id)


def await_request(
    state: State,
    client: ClientId,
    kind: MessageKind,
    named: SubscriptionId | AdvertisementId,
    handle: int,
    timeout_ms: float,
) -> None:
    """Remember whom to tell when a client's request is confirmed, or when that takes too long."""
    if not state.confirms:
        return
    deadline_ms = state.now_ms + timeout_ms if timeout_ms else None
    state.requests[named] = Request(client, kind, handle, deadline_ms)
    if isinstance(named, SubscriptionId):
        _settle(state, named)
    elif (entry := state.clt.get(named)) is not None:
        advertisement_settled(state, entry)


def on_confirm(state: State, sender: BrokerId, message: Confirm) -> None:
    """Note that a primary neighbour has confirmed subscriptions."""
    for subscription in message.subscriptions:
        waiting = state.confirming.get(subscription)
        if waiting is not None:
            waiting.neighbours.pop(sender, None)
            _settle(state, subscription)


def on_civ_ack(state: State, host_broker: BrokerId, message: CivAck) -> None:
    """Note which versions of our bits a host broker holds."""
    for advertisement, version in message.stored:
        entry = state.clt.get(advertisement)
        if entry is None or entry.last_hop != host_broker:
            continue
        if entry.acked is None or entry.acked < version:
            entry.acked = version
        for subscription, waiting in list(state.confirming.items()):
            if advertisement in waiting.bits and waiting.bits[advertisement] <= version:
                del waiting.bits[advertisement]
                _settle(state, subscription)


def confirm_again(state: State, neighbour: BrokerId, subscriptions: Sequence[SubscriptionId]) -> None:
    """Repeat the confirmation of subscriptions that are in force here; others will be confirmed in their time."""
    in_force = [each for each in subscriptions if each in state.prt and each not in state.confirming]
    if in_force and state.confirms:
        state.send(neighbour, Confirm(tuple(in_force)))


def forget(state: State, subscription: SubscriptionId) -> None:
    """Wait no longer for a subscription that was withdrawn."""
    state.confirming.pop(subscription, None)
    state.requests.pop(subscription, None)


def release(state: State, advertisement: AdvertisementId) -> None:
    """Wait no longer for the bit of an advertisement that was withdrawn."""
    for subscription, waiting in list(state.confirming.items()):
        if waiting.bits.pop(advertisement, None) is not None:
            _settle(state, subscription)


def link_lost(state: State, peer: BrokerId) -> None:
    """Make all that was confirmed over a link pending again, for requests that are still under way."""
    if not state.confirms:
        return
    for entry in state.clt:
        if entry.is_hosted_here and peer in state.neighbourhood.secondary_neighbours:
            entry.pending[peer] = None
        elif entry.last_hop == peer:
            entry.acked = None
    for waiting in state.confirming.values():
        if peer in state.neighbourhood.primary_neighbours and peer != waiting.last_hop:
            waiting.neighbours[peer] = None
        for entry in state.clt.intersected_by(waiting.interest):
            if entry.last_hop == peer and entry.sent is not None:
                waiting.bits[entry.id] = entry.sent


def settle_all(state: State) -> None:
    """Confirm whatever can be: something that held all confirmations back is over."""
    for subscription in sorted(state.confirming):
        _settle(state, subscription)


def advertisement_settled(state: State, entry: CltEntry) -> None:
    """Tell the publisher once all secondary neighbours have answered."""
    if not entry.pending and entry.id in state.requests:
        _tell_confirmed(state, entry.id)


def next_deadline_ms(state: State) -> float | None:
    """Return when the first client will have waited long enough, or None."""
    deadlines = [each.deadline_ms for each in state.requests.values() if each.deadline_ms is not None]
    return min(deadlines, default=None)


def expire(state: State) -> None:
    """Tell clients that have waited long enough which brokers are missing; what they asked for stays in force."""
    for named, request in list(state.requests.items()):
        if request.deadline_ms is not None and request.deadline_ms <= state.now_ms:
            del state.requests[named]
            state.tell(request.client, Unconfirmed(request.kind, request.handle, _missing(state, named)))


def _missing(state: State, named: SubscriptionId | AdvertisementId) -> tuple[BrokerId, ...]:
    if isinstance(named, AdvertisementId):
        entry = state.clt.get(named)
        return tuple(sorted(entry.pending)) if entry else ()
    waiting = state.confirming.get(named)
    if waiting is None:
        return ()
    hosts = {advertisement.host_broker: None for advertisement in waiting.bits}
    return tuple(sorted(waiting.neighbours | hosts | dict.fromkeys(_unmet(state))))


def _settle(state: State, subscription: SubscriptionId) -> None:
    waiting = state.confirming.get(subscription)
    if waiting is None or waiting.neighbours or waiting.bits or _unmet(state):
        return
    del state.confirming[subscription]
    if isinstance(waiting.last_hop, BrokerId):
        state.send(waiting.last_hop, Confirm((subscription,)))
    elif subscription in state.requests:
        _tell_confirmed(state, subscription)


def _unmet(state: State) -> list[BrokerId]:
    """Return the secondary neighbours whose advertisements this broker does not know yet, but still waits for."""
    recovery = state.recovery
    if recovery is None or recovery.grace_passed:
        return []
    return [each for each in state.neighbourhood.secondary_neighbours if not recovery.has_met(each)]


def _tell_confirmed(state: State, named: SubscriptionId | AdvertisementId) -> None:
    request = state.requests.pop(named)
    state.tell(request.client, Confirmed(request.kind, request.handle))
