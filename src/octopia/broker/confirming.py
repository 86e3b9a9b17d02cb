"""Confirmations of subscriptions and advertisements (D5).

A broker confirms a subscription to its last hop under two conditions. Every primary neighbour that it was forwarded to
must have confirmed it, and the host broker of every intersecting advertisement must hold our bit. A wait for a bit
names a version, and ends with the acknowledgement of that version or a later one. An advertisement is confirmed when
every secondary neighbour has answered it. When a link is lost, everything expected over it becomes pending again; the
exchange at link up renews it.

Confirmations of unknown subscriptions and advertisements are ignored.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from octopia.broker.state import Confirming, Request, State, Task
from octopia.broker.tables import CltEntry
from octopia.ids import AdvertisementId, BrokerId, ClientId, Peer, SubscriptionId
from octopia.protocol import MessageKind
from octopia.protocol.messages import CivAck, Confirm, Confirmed, Subscribe, Unconfirmed

_DEADLINES_MIN = 64
"""The number of deadlines of settled requests that are always left in the heap."""


def begin(
    state: State, last_hop: Peer, message: Subscribe, neighbours: Sequence[BrokerId], intersected: Sequence[CltEntry]
) -> None:
    """Start to wait for everything that the confirmation of a new subscription needs."""
    waiting = Confirming(message.interest, last_hop, dict.fromkeys(neighbours), {})
    state.confirming[message.id] = waiting
    _await_bits(state, message.id, waiting, intersected)
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
    if deadline_ms is not None:
        heapq.heappush(state.deadlines, (deadline_ms, kind.value, named))
        if len(state.deadlines) > 2 * len(state.requests) + _DEADLINES_MIN:
            state.deadlines = [each for each in state.deadlines if each[2] in state.requests]
            heapq.heapify(state.deadlines)
    if isinstance(named, SubscriptionId):
        _settle(state, named)
    elif (entry := state.clt.get(named)) is not None:
        advertisement_settled(state, entry)


def answer_again(state: State, client: ClientId, subscription: SubscriptionId, handle: int, timeout_ms: float) -> None:
    """Answer a request that repeats a subscription: at once if it is confirmed, otherwise when it is."""
    if subscription in state.confirming:
        await_request(state, client, MessageKind.SUBSCRIPTION, subscription, handle, timeout_ms)
    elif state.confirms:
        state.tell(client, Confirmed(MessageKind.SUBSCRIPTION, handle))


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
        release(state, advertisement)


def confirm_again(state: State, neighbour: BrokerId, subscriptions: Sequence[SubscriptionId]) -> None:
    """Repeat the confirmation of subscriptions that are in force here; the others are confirmed later."""
    in_force = [each for each in subscriptions if each in state.prt and each not in state.confirming]
    if in_force and state.confirms:
        state.confirmed.setdefault(neighbour, []).extend(in_force)


def forget(state: State, subscription: SubscriptionId) -> None:
    """Stop waiting for the confirmation of a withdrawn subscription."""
    waiting = state.confirming.pop(subscription, None)
    state.requests.pop(subscription, None)
    for advertisement in waiting.bits if waiting is not None else ():
        state.waits.get(advertisement, {}).pop(subscription, None)


def release(state: State, advertisement: AdvertisementId) -> None:
    """Settle what waited for the bit of an advertisement, which was acknowledged or withdrawn."""
    released = state.waits.pop(advertisement, None)
    if released:
        state.put_off(Task.SETTLE, state.id, released)


def link_lost(state: State, peer: BrokerId) -> None:
    """Make everything confirmed over a link pending again, for requests that are not settled yet."""
    if not state.confirms:
        return
    if peer in state.neighbourhood.primary_neighbours:
        for waiting in state.confirming.values():
            if peer != waiting.last_hop:
                waiting.neighbours[peer] = None
        return
    for entry in state.clt:
        if entry.is_hosted_here:
            entry.await_answer(peer)
        elif entry.last_hop == peer:
            entry.acked = None
    for waiting in state.confirming.values():
        waiting.lost_bits = True


def settle_all(state: State) -> None:
    """Confirm everything that can be confirmed, after recovery no longer holds it back."""
    if state.confirming:
        state.put_off(Task.SETTLE, state.id, state.confirming)


def settle(state: State, subscriptions: Iterable[SubscriptionId]) -> None:
    """Confirm those subscriptions that have nothing left to wait for."""
    for subscription in subscriptions:
        _settle(state, subscription)


def send_confirmations(state: State) -> None:
    """Send what was confirmed during an input, in one message per neighbour."""
    for neighbour, subscriptions in state.confirmed.items():
        state.send(neighbour, Confirm(tuple(subscriptions)))
    state.confirmed.clear()


def advertisement_settled(state: State, entry: CltEntry) -> None:
    """Confirm an advertisement to its publisher once all secondary neighbours have answered."""
    if not entry.pending and entry.id in state.requests:
        _tell_confirmed(state, entry.id)


def next_deadline_ms(state: State) -> float | None:
    """Return the earliest deadline of a client's request, or None."""
    deadlines = state.deadlines
    while deadlines and deadlines[0][2] not in state.requests:
        heapq.heappop(deadlines)
    return deadlines[0][0] if deadlines else None


def expire(state: State) -> None:
    """Answer requests that timed out with the brokers that are missing; the requests stay in force.

    One input answers a limited number of them.
    """
    for _ in range(state.settings.slice_max):
        due_ms = next_deadline_ms(state)
        if due_ms is None or due_ms > state.now_ms:
            break
        named = heapq.heappop(state.deadlines)[2]
        request = state.requests.pop(named)
        state.tell(request.client, Unconfirmed(request.kind, request.handle, _missing(state, named)))


def _missing(state: State, named: SubscriptionId | AdvertisementId) -> tuple[BrokerId, ...]:
    if isinstance(named, AdvertisementId):
        entry = state.clt.get(named)
        return tuple(sorted(entry.pending)) if entry else ()
    waiting = state.confirming.get(named)
    if waiting is None:
        return ()
    _recall_bits(state, named, waiting)
    hosts = {advertisement.host_broker: None for advertisement in waiting.bits}
    unmet: list[BrokerId] = []
    if state.recovery is not None and not state.knows_region:
        unmet = [each for each in state.neighbourhood.secondary_neighbours if not state.recovery.has_met(each)]
    return tuple(sorted(waiting.neighbours | hosts | dict.fromkeys(unmet)))


def _settle(state: State, subscription: SubscriptionId) -> None:
    waiting = state.confirming.get(subscription)
    if waiting is None:
        return
    _drop_held_bits(state, subscription, waiting)
    if waiting.neighbours or waiting.bits or not state.knows_region:
        return
    _recall_bits(state, subscription, waiting)
    if waiting.bits:
        return
    del state.confirming[subscription]
    if isinstance(waiting.last_hop, BrokerId):
        state.confirmed.setdefault(waiting.last_hop, []).append(subscription)
    elif subscription in state.requests:
        _tell_confirmed(state, subscription)


def _await_bits(
    state: State, subscription: SubscriptionId, waiting: Confirming, intersected: Iterable[CltEntry]
) -> None:
    """Wait for all intersected advertisements whose host broker has not acknowledged our last update."""
    for entry in intersected:
        if entry.awaits_ack and entry.sent is not None:
            waiting.bits[entry.id] = entry.sent
            state.waits.setdefault(entry.id, {})[subscription] = None


def _drop_held_bits(state: State, subscription: SubscriptionId, waiting: Confirming) -> None:
    """Stop waiting for bits that are acknowledged or no longer needed."""
    for advertisement, version in list(waiting.bits.items()):
        entry = state.clt.get(advertisement)
        if entry is None or (entry.acked is not None and version <= entry.acked):
            del waiting.bits[advertisement]
        else:
            state.waits.setdefault(advertisement, {})[subscription] = None


def _recall_bits(state: State, subscription: SubscriptionId, waiting: Confirming) -> None:
    """Wait again for the bits that went over a lost link; this compares the subscription with all advertisements."""
    if waiting.lost_bits:
        waiting.lost_bits = False
        _await_bits(state, subscription, waiting, state.clt.intersected_by(waiting.interest))


def _tell_confirmed(state: State, named: SubscriptionId | AdvertisementId) -> None:
    request = state.requests.pop(named)
    state.tell(request.client, Confirmed(request.kind, request.handle))
