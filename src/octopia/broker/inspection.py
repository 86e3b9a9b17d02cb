"""The contents of a broker's tables, for reports to people; nothing here is used for routing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from octopia.broker.common import CommonState
from octopia.broker.state import State
from octopia.content import Disjunction, Publication
from octopia.ids import AdvertisementId, ClientId, Peer, SubscriptionId
from octopia.protocol import ClusterIndexVector


class KnownSubscription(msgspec.Struct, frozen=True):
    """A subscription in a broker's PRT; ``client`` is its subscriber if that is a client of this broker."""

    id: SubscriptionId
    interest: Disjunction
    last_hop: Peer
    client: ClientId | None = None


class KnownAdvertisement(msgspec.Struct, frozen=True):
    """An advertisement in a broker's CLT or SRT.

    At its host broker ``client`` is its publisher, ``civ`` has the clusters that want it, and ``pending`` those that
    have not answered and count as interested. TID-based routing has no CIV.
    """

    id: AdvertisementId
    offer: Disjunction
    last_hop: Peer
    client: ClientId | None = None
    civ: ClusterIndexVector | None = None
    pending: tuple[int, ...] = ()


def client_of(last_hop: Peer) -> ClientId | None:
    """Return the client that a last hop is, or None if it is a neighbour."""
    return last_hop if isinstance(last_hop, ClientId) else None


def issued_by(state: CommonState, client: ClientId) -> tuple[int, int]:
    """Return the numbers of advertisements and of subscriptions that a client has issued here."""
    issued = state.clients.get(client)
    return (0, 0) if issued is None else (len(issued.advertisements), len(issued.subscriptions))


def subscriptions_in(state: State) -> Iterator[KnownSubscription]:
    """Yield the subscriptions of this cluster, in the order in which they came."""
    for entry in state.prt:
        yield KnownSubscription(entry.id, entry.interest, entry.last_hop, client_of(entry.last_hop))


def advertisements_in(state: State) -> Iterator[KnownAdvertisement]:
    """Yield the advertisements of this region, in the order in which they came."""
    for entry in state.clt:
        pending = tuple(sorted(each.cluster for each in entry.pending))
        client = client_of(entry.last_hop)
        yield KnownAdvertisement(entry.id, entry.offer, entry.last_hop, client, entry.civ, pending)


def is_wanted(state: State, publication: Publication) -> bool:
    """Return whether a subscription of this cluster matches a publication."""
    (match,) = state.prt.match_many([publication])
    return bool(match.links or match.numbers)
