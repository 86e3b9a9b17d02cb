"""What clients ask of their host broker, carried out or refused.

A refusal goes to the client that asked and changes nothing; it is an answer, not an exception.
"""

from __future__ import annotations

from octopia.broker.advertising import advertise_for_client, unadvertise_for_client
from octopia.broker.interface import Detail, Event, Fact
from octopia.broker.messages import (
    AdvertiseRequest,
    ClientRequest,
    MessageKind,
    PublishRequest,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.broker.state import State
from octopia.broker.subscribing import subscribe_for_client, unsubscribe_for_client
from octopia.ids import ClientId, LinkKind

_KINDS: dict[type[ClientRequest], MessageKind] = {
    AdvertiseRequest: MessageKind.ADVERTISEMENT,
    UnadvertiseRequest: MessageKind.UNADVERTISEMENT,
    SubscribeRequest: MessageKind.SUBSCRIPTION,
    UnsubscribeRequest: MessageKind.UNSUBSCRIPTION,
    PublishRequest: MessageKind.PUBLICATION,
}


def on_advertise_request(state: State, client_id: ClientId, request: AdvertiseRequest) -> None:
    """Advertise for a client, unless the handle is taken."""
    client = state.clients[client_id]
    if request.handle in client.advertisements:
        refuse(state, client_id, request, request.handle, "its handle names another advertisement of this client")
        return
    advertisement = advertise_for_client(state, client_id, request.offer, request.ordered)
    client.advertisements[request.handle] = advertisement
    state.trace_request(client_id, MessageKind.ADVERTISEMENT, advertisement, request.handle)


def on_unadvertise_request(state: State, client_id: ClientId, request: UnadvertiseRequest) -> None:
    """Withdraw an advertisement of a client, unless it has no such."""
    advertisement = state.clients[client_id].advertisements.pop(request.handle, None)
    if advertisement is None:
        refuse(state, client_id, request, request.handle, "this client has no such advertisement")
        return
    state.trace_request(client_id, MessageKind.UNADVERTISEMENT, advertisement, request.handle)
    unadvertise_for_client(state, advertisement)


def on_subscribe_request(state: State, client_id: ClientId, request: SubscribeRequest) -> None:
    """Subscribe for a client, unless the handle is taken."""
    client = state.clients[client_id]
    if request.handle in client.subscriptions:
        refuse(state, client_id, request, request.handle, "its handle names another subscription of this client")
        return
    subscription = subscribe_for_client(state, client_id, request.interest)
    client.subscriptions[request.handle] = subscription
    client.handles[subscription] = request.handle
    state.trace_request(client_id, MessageKind.SUBSCRIPTION, subscription, request.handle)


def on_unsubscribe_request(state: State, client_id: ClientId, request: UnsubscribeRequest) -> None:
    """Withdraw a subscription of a client, unless it has no such."""
    client = state.clients[client_id]
    subscription = client.subscriptions.pop(request.handle, None)
    if subscription is None:
        refuse(state, client_id, request, request.handle, "this client has no such subscription")
        return
    del client.handles[subscription]
    state.trace_request(client_id, MessageKind.UNSUBSCRIPTION, subscription, request.handle)
    unsubscribe_for_client(state, client_id, subscription)


def withdraw_everything(state: State, client_id: ClientId) -> None:
    """Withdraw all that a client issued, as if it had asked for it, in the order in which it was issued."""
    client = state.clients[client_id]
    for subscription in list(client.subscriptions.values()):
        unsubscribe_for_client(state, client_id, subscription)
    for advertisement in list(client.advertisements.values()):
        unadvertise_for_client(state, advertisement)
    client.subscriptions.clear()
    client.handles.clear()
    client.advertisements.clear()


def refuse(state: State, client_id: ClientId, request: ClientRequest, number: int, reason: str) -> None:
    """Tell a client that its request was not carried out, and why."""
    kind = _KINDS[type(request)]
    state.counters.refused += 1
    state.tell(client_id, Refused(kind, number, reason))
    if state.settings.detail >= Detail.DELIVERIES:
        state.facts.append(Fact(Event.REFUSE, kind, peer=client_id, link=LinkKind.CLIENT, value=number, reason=reason))
