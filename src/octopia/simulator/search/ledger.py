"""The actions of clients and the replies to them: the part of a state that no broker knows.

A publication is *owed* to a client if a matching subscription was confirmed to the client before the publication was
accepted. It is owed until it is delivered, or until the client is told that it may have missed something: a client that
was told nothing has missed nothing. A client whose broker does not know it any more knows that by itself. No client may
get the same publication twice, or one that it does not want at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from octopia.content import Publication, matches
from octopia.protocol import MessageKind
from octopia.protocol.messages import (
    AdvertiseRequest,
    ClientRequest,
    Confirmed,
    CutOff,
    Deliver,
    Gap,
    Lost,
    Message,
    PublishRequest,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.simulator.search.scenarios import Client, Scenario

Receipt: TypeAlias = tuple[int, int, int]
"""A publication by number, a client by index, and its subscription by handle."""


class Ledger(NamedTuple):
    """Confirmed requests, as (client, 1 for subscriptions, handle), deliveries, and those still owed, each in order."""

    confirmed: tuple[tuple[int, int, int], ...] = ()
    delivered: tuple[Receipt, ...] = ()
    owed: tuple[Receipt, ...] = ()


class InForce(NamedTuple):
    """The requests that a client has in force, by handle, in the order in which it issued them."""

    advertisements: Mapping[int, AdvertiseRequest]
    subscriptions: Mapping[int, SubscribeRequest]

    @property
    def requests(self) -> tuple[ClientRequest, ...]:
        """All requests that it would issue again at a broker that does not know it."""
        return (*self.advertisements.values(), *self.subscriptions.values())


class Witness:
    """The rules that keep the ledger of one scenario."""

    def __init__(self, scenario: Scenario):
        self._clients = scenario.clients
        self._in_force = [list(_in_force_after_each(client)) for client in scenario.clients]
        self._names = {client.name: index for index, client in enumerate(scenario.clients)}

    def index_of(self, name: str) -> int:
        """Return the index of a client."""
        return self._names[name]

    def in_force(self, client: int, done: int) -> InForce:
        """Return the requests that a client has in force after ``done`` actions of its script."""
        return self._in_force[client][done]

    def is_confirmed(self, ledger: Ledger, client: int, done: int) -> bool:
        """Return whether all requests that a client has in force are confirmed."""
        held = self._in_force[client][done]
        needed = [(client, 0, each) for each in held.advertisements] + [
            (client, 1, each) for each in held.subscriptions
        ]
        return all(each in ledger.confirmed for each in needed)

    def acted(self, ledger: Ledger, client: int, request: ClientRequest) -> Ledger:
        """Record a client's request: what it withdraws is no longer confirmed or owed."""
        match request:
            case UnsubscribeRequest():
                owed = tuple(each for each in ledger.owed if each[1:] != (client, request.handle))
                return _withdrawn(ledger, (client, 1, request.handle))._replace(owed=owed)
            case UnadvertiseRequest():
                return _withdrawn(ledger, (client, 0, request.handle))
            case _:
                return ledger

    def accepted(self, ledger: Ledger, scripts: Sequence[int], publication: PublishRequest) -> Ledger:
        """Record an accepted publication: it is owed to all clients with a confirmed matching subscription."""
        number = publication.sequence
        owed = [
            (number, client, handle)
            for client, is_subscription, handle in ledger.confirmed
            if is_subscription and self._wants(client, scripts[client], handle, publication.publication)
        ]
        missing = [each for each in owed if each not in ledger.delivered]
        return ledger._replace(owed=tuple(sorted({*ledger.owed, *missing})))

    def interrupted(self, ledger: Ledger, clients: Sequence[int]) -> Ledger:
        """Record that clients lost their sessions: they must be confirmed again, and are owed nothing."""
        confirmed = tuple(each for each in ledger.confirmed if each[0] not in clients)
        return ledger._replace(confirmed=confirmed, owed=tuple(each for each in ledger.owed if each[1] not in clients))

    def told(self, ledger: Ledger, scripts: Sequence[int], name: str, reply: Message) -> tuple[Ledger, str]:
        """Record a reply to a client, and return the violation it causes, or an empty text."""
        client = self._names[name]
        match reply:
            case Confirmed():
                entry = (client, int(reply.request == MessageKind.SUBSCRIPTION), reply.number)
                return ledger._replace(confirmed=tuple(sorted({*ledger.confirmed, entry}))), ""
            case Deliver():
                return self._delivered(ledger, scripts, client, reply)
            case Gap() | Lost() | CutOff():
                return ledger._replace(owed=tuple(each for each in ledger.owed if each[1] != client)), ""
            case Refused() if reply.request != MessageKind.PUBLICATION:
                return ledger, f"{name} was refused a {reply.request}: {reply.reason}"
            case _:
                return ledger, ""

    def _delivered(self, ledger: Ledger, scripts: Sequence[int], client: int, delivery: Deliver) -> tuple[Ledger, str]:
        number = int(delivery.publication.payload)
        receipts = [(number, client, handle) for handle in delivery.handles]
        name = self._clients[client].name
        for receipt in receipts:
            wanted_by = f"subscription {receipt[2]} of {name}"
            if receipt in ledger.delivered:
                return ledger, f"publication {number} was delivered twice to {wanted_by}"
            if not self._wants(client, scripts[client], receipt[2], delivery.publication):
                return ledger, f"publication {number} was delivered to {wanted_by}, which does not want it"
        delivered = tuple(sorted({*ledger.delivered, *receipts}))
        owed = tuple(each for each in ledger.owed if each not in receipts)
        return ledger._replace(delivered=delivered, owed=owed), ""

    def _wants(self, client: int, done: int, handle: int, publication: Publication) -> bool:
        wanted = self._in_force[client][done].subscriptions.get(handle)
        return wanted is not None and matches(wanted.interest, publication)


def _in_force_after_each(client: Client) -> Iterator[InForce]:
    """Yield the requests that a client has in force before its first action, and after each."""
    advertisements: dict[int, AdvertiseRequest] = {}
    subscriptions: dict[int, SubscribeRequest] = {}
    yield InForce({}, {})
    for action in client.actions:
        match action:
            case AdvertiseRequest():
                advertisements[action.handle] = action
            case SubscribeRequest():
                subscriptions[action.handle] = action
            case UnadvertiseRequest():
                del advertisements[action.handle]
            case UnsubscribeRequest():
                del subscriptions[action.handle]
            case PublishRequest():
                pass
        yield InForce(dict(advertisements), dict(subscriptions))


def _withdrawn(ledger: Ledger, gone: tuple[int, int, int]) -> Ledger:
    return ledger._replace(confirmed=tuple(each for each in ledger.confirmed if each != gone))
