"""The requests of clients to their host broker, for every kind of broker.

A refusal is an answer to the client, not an exception, and changes nothing. Each kind of broker supplies its own
``Verbs`` for advertisements and subscriptions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar, assert_never

from octopia.broker.common import CommonState, Subscriber, Task
from octopia.broker.interface import Detail, Event, Fact, LimitReached
from octopia.ids import AdvertisementId, ClientId, LinkKind, SubscriptionId
from octopia.protocol import MessageKind
from octopia.protocol.messages import (
    AdvertiseRequest,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.settings import Limit

S = TypeVar("S", bound=CommonState)


@dataclasses.dataclass(frozen=True, slots=True)
class Verbs(Generic[S]):
    """The functions with which one kind of broker advertises, subscribes and withdraws for a client.

    ``confirm_again`` answers a request that repeats a subscription, and returns False if its filter is another one.
    """

    advertise: Callable[[S, ClientId, AdvertiseRequest], AdvertisementId]
    unadvertise: Callable[[S, ClientId, AdvertisementId], None]
    subscribe: Callable[[S, ClientId, SubscribeRequest], SubscriptionId]
    unsubscribe: Callable[[S, ClientId, SubscriptionId], None]
    confirm_again: Callable[[S, ClientId, SubscriptionId, SubscribeRequest], bool]


ControlRequest = AdvertiseRequest | UnadvertiseRequest | SubscribeRequest | UnsubscribeRequest


def on_request(state: S, verbs: Verbs[S], client_id: ClientId, request: ControlRequest) -> None:
    """Carry out or refuse a client's request."""
    match request:
        case AdvertiseRequest():
            _on_advertise(state, verbs, client_id, request)
        case UnadvertiseRequest():
            _on_unadvertise(state, verbs, client_id, request)
        case SubscribeRequest():
            _on_subscribe(state, verbs, client_id, request)
        case UnsubscribeRequest():
            _on_unsubscribe(state, verbs, client_id, request)
        case _:
            assert_never(request)


def remove(state: CommonState, client_id: ClientId) -> None:
    """Remove a client; its subscriptions and then its advertisements are withdrawn in the order of issue."""
    client = state.clients.pop(client_id)
    for issued in (client.subscriptions, client.advertisements):
        if issued:
            state.put_off(Task.LEAVE, client_id, issued.values())


def withdraw(
    state: S, verbs: Verbs[S], client_id: ClientId, issued: Iterable[SubscriptionId | AdvertisementId]
) -> None:
    """Withdraw subscriptions and advertisements of a client that has left."""
    for each in issued:
        if isinstance(each, SubscriptionId):
            del state.subscribers[each]
            verbs.unsubscribe(state, client_id, each)
        else:
            verbs.unadvertise(state, client_id, each)


def advertised_by(state: CommonState, client_id: ClientId) -> Iterable[AdvertisementId]:
    """Return the advertisements of a client, in the order of issue; none if it has left."""
    client = state.clients.get(client_id)
    return () if client is None else client.advertisements.values()


def refuse(state: CommonState, client_id: ClientId, kind: MessageKind, number: int, reason: str) -> None:
    """Refuse a client's request, and give the reason."""
    state.counters.refused += 1
    state.tell(client_id, Refused(kind, number, reason))
    if state.settings.detail >= Detail.DELIVERIES:
        state.facts.append(Fact(Event.REFUSE, kind, peer=client_id, link=LinkKind.CLIENT, value=number, reason=reason))


def _is_beyond(
    state: CommonState, client_id: ClientId, limit: Limit, used: int, kind: MessageKind, handle: int
) -> bool:
    """Return whether a request is beyond a limit, after refusing it."""
    limits = state.settings.limits
    if limit.allows(limits, used):
        return False
    refuse(state, client_id, kind, handle, limit.refusal(limits))
    state.effects.limits_reached += (LimitReached(client_id, limit),)
    return True


def _on_advertise(state: S, verbs: Verbs[S], client_id: ClientId, request: AdvertiseRequest) -> None:
    client, kind, handle = state.clients[client_id], MessageKind.ADVERTISEMENT, request.handle
    if handle in client.advertisements:
        refuse(state, client_id, kind, handle, "this client already uses the handle for another advertisement")
        return
    if _is_beyond(state, client_id, Limit.ADVERTISEMENTS, len(client.advertisements), kind, handle):
        return
    client.advertisements[handle] = verbs.advertise(state, client_id, request)
    state.trace_request(client_id, kind, client.advertisements[handle], handle)


def _on_unadvertise(state: S, verbs: Verbs[S], client_id: ClientId, request: UnadvertiseRequest) -> None:
    kind, handle = MessageKind.UNADVERTISEMENT, request.handle
    advertisement = state.clients[client_id].advertisements.pop(handle, None)
    if advertisement is None:
        refuse(state, client_id, kind, handle, "this client has no such advertisement")
        return
    state.trace_request(client_id, kind, advertisement, handle)
    verbs.unadvertise(state, client_id, advertisement)


def _on_subscribe(state: S, verbs: Verbs[S], client_id: ClientId, request: SubscribeRequest) -> None:
    client, kind, handle = state.clients[client_id], MessageKind.SUBSCRIPTION, request.handle
    known = client.subscriptions.get(handle)
    if known is not None:
        if not verbs.confirm_again(state, client_id, known, request):
            refuse(state, client_id, kind, handle, "this client already uses the handle for another subscription")
        return
    if _is_beyond(state, client_id, Limit.SUBSCRIPTIONS, len(client.subscriptions), kind, handle):
        return
    subscription = verbs.subscribe(state, client_id, request)
    client.subscriptions[handle] = subscription
    state.subscribers[subscription] = Subscriber.of(client_id, handle)
    state.trace_request(client_id, kind, subscription, handle)


def _on_unsubscribe(state: S, verbs: Verbs[S], client_id: ClientId, request: UnsubscribeRequest) -> None:
    client, kind, handle = state.clients[client_id], MessageKind.UNSUBSCRIPTION, request.handle
    subscription = client.subscriptions.pop(handle, None)
    if subscription is None:
        refuse(state, client_id, kind, handle, "this client has no such subscription")
        return
    del state.subscribers[subscription]
    state.trace_request(client_id, kind, subscription, handle)
    verbs.unsubscribe(state, client_id, subscription)
