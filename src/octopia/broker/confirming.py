"""Confirmations of subscriptions and advertisements (D5).

A broker confirms a subscription to its last hop under two conditions. Every primary neighbour that it was forwarded to
must have confirmed it, and the host broker of every intersecting advertisement must hold our bit. A wait for a bit
names a version, and ends with the acknowledgement of that version or a later one. An advertisement is confirmed when
every secondary neighbour has answered it. When a link is lost, everything expected over it becomes pending again; the
exchange at link up renews it.

Confirmations of unknown subscriptions and advertisements are ignored.
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
    """Start to wait for everything that the confirmation of a new subscription needs."""
    bits = {entry.id: entry.sent for entry in intersected if entry.awaits_ack and entry.sent is not None}
    state.confirming[message.id] = Confirming(message.interest, last_hop, dict.fromkeys(neighbours), bits)
    # For a client's subscription, the request is registered next, and settled there.
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
    """Register a client's request, to be answered when it is confirmed or when it times out."""
    if not state.confirms:
        return
    deadline_ms = state.now_ms + timeout_ms if timeout_ms else None
    state.requests[named] = Request(client, kind, handle, deadline_ms)
    if isinstance(named, SubscriptionId):
        _settle(state, named)
    elif (entry := state.clt.get(named)) is not None:
        advertisement_settled(state, entry)


def on_confirm(state: State, sender: BrokerId, message: Confirm) -> None:
    """Record that a primary neighbour has confirmed subscriptions."""
    for subscription in message.subscriptions:
        waiting = state.confirming.get(subscription)
        if waiting is not None:
            waiting.neighbours.pop(sender, None)
            _settle(state, subscription)


def on_civ_ack(state: State, host_broker: BrokerId, message: CivAck) -> None:
    """Record the versions of our bits that a host broker holds."""
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
    """Repeat the confirmation of subscriptions that are in force here; the others are confirmed later."""
    in_force = [each for each in subscriptions if each in state.prt and each not in state.confirming]
    if in_force and state.confirms:
        state.send(neighbour, Confirm(tuple(in_force)))


def forget(state: State, subscription: SubscriptionId) -> None:
    """Stop waiting for the confirmation of a withdrawn subscription."""
    state.confirming.pop(subscription, None)
    state.requests.pop(subscription, None)


def release(state: State, advertisement: AdvertisementId) -> None:
    """Stop waiting for the bit of a withdrawn advertisement."""
    for subscription, waiting in list(state.confirming.items()):
        if waiting.bits.pop(advertisement, None) is not None:
            _settle(state, subscription)


def link_lost(state: State, peer: BrokerId) -> None:
    """Make everything confirmed over a link pending again, for requests that are not settled yet."""
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
    """Confirm everything that can be confirmed, after recovery no longer holds it back."""
    for subscription in sorted(state.confirming):
        _settle(state, subscription)


def advertisement_settled(state: State, entry: CltEntry) -> None:
    """Confirm an advertisement to its publisher once all secondary neighbours have answered."""
    if not entry.pending and entry.id in state.requests:
        _tell_confirmed(state, entry.id)


def next_deadline_ms(state: State) -> float | None:
    """Return the earliest deadline of a client's request, or None."""
    deadlines = [each.deadline_ms for each in state.requests.values() if each.deadline_ms is not None]
    return min(deadlines, default=None)


def expire(state: State) -> None:
    """Answer requests that timed out with the brokers that are missing; the requests stay in force."""
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
    """Return the secondary neighbours whose advertisements this broker does not know yet and still waits for."""
    recovery = state.recovery
    if recovery is None or recovery.grace_passed:
        return []
    return [each for each in state.neighbourhood.secondary_neighbours if not recovery.has_met(each)]


def _tell_confirmed(state: State, named: SubscriptionId | AdvertisementId) -> None:
    request = state.requests.pop(named)
    state.tell(request.client, Confirmed(request.kind, request.handle))
