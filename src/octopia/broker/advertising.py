"""The advertisement broadcast process (paper sections 6 and 8, Alg. 1).

An advertisement is known only in the host region of its publisher. The host broker stores it and sends it to its
secondary neighbours. They store it too, and answer with their cluster's bit if their cluster has an intersecting
subscription. With confirmations (D5) they always answer, and count as interested until they do.
"""

from __future__ import annotations

from octopia.broker import confirming
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.ids import AdvertisementId, BrokerId, ClientId
from octopia.protocol.messages import (
    Advertise,
    AdvertiseRequest,
    CivAck,
    CivNone,
    CivSet,
    CivState,
    CivUnset,
    CivUpdate,
    Unadvertise,
    Version,
)


def advertise_for_client(state: State, publisher: ClientId, request: AdvertiseRequest) -> AdvertisementId:
    """Store a local publisher's advertisement and send it through the host region."""
    advertisement = state.mint_advertisement()
    secondaries = state.neighbourhood.secondary_neighbours
    # D2: the host bit is always set; routing never reads it.
    entry = CltEntry(advertisement, request.offer, publisher, state.civ_of(state.cluster), request.ordered)
    if state.confirms:
        entry.pending = dict.fromkeys(secondaries)
    state.clt.add(entry)
    for secondary in secondaries:
        state.send(secondary, Advertise(advertisement, request.offer))
    confirming.await_request(state, publisher, Advertise.kind, advertisement, request.handle, request.timeout_ms)
    return advertisement


def unadvertise_for_client(state: State, publisher: ClientId, advertisement: AdvertisementId) -> None:
    """Withdraw a local publisher's advertisement throughout the host region; no subscription is touched."""
    state.clt.remove(advertisement)
    state.requests.pop(advertisement, None)
    for secondary in state.neighbourhood.secondary_neighbours:
        state.send(secondary, Unadvertise(advertisement))


def on_advertise(state: State, host_broker: BrokerId, message: Advertise) -> None:
    """Store an advertisement of this region, and answer if this cluster has a subscription for it."""
    if message.id in state.clt:
        return
    entry = CltEntry(message.id, message.offer, host_broker, state.civ_of(host_broker.cluster))
    state.clt.add(entry)
    # A broker must not answer 0 until it knows all subscriptions of its cluster.
    if not state.prt_is_complete or state.prt.any_intersecting(message.offer):
        entry.civ = entry.civ.with_bit(state.cluster)
        state.send_civ_updates(CivSet, [entry])
    elif state.confirms:
        state.send_civ_updates(CivNone, [entry])


def on_unadvertise(state: State, message: Unadvertise) -> None:
    """Forget an advertisement of this region."""
    forget(state, message.id)


def forget(state: State, advertisement: AdvertisementId) -> None:
    """Remove an entry received from a secondary neighbour, and release the subscriptions that wait for it."""
    if advertisement in state.clt:
        state.clt.remove(advertisement)
        confirming.release(state, advertisement)


def on_civ_update(state: State, secondary: BrokerId, message: CivUpdate) -> None:
    """Store at the host broker whether the sender's cluster wants these advertisements, and acknowledge it."""
    match message:
        case CivState():
            wanted, unwanted = message.wanted, message.unwanted
        case CivSet():
            wanted, unwanted = message.advertisements, ()
        case CivUnset() | CivNone():
            wanted, unwanted = (), message.advertisements
    stored: list[tuple[AdvertisementId, Version]] = []
    for index, advertisement in enumerate((*wanted, *unwanted)):
        entry = state.clt.get(advertisement)
        # An unknown advertisement needs no answer: its withdrawal is on its way to the sender.
        if entry is not None and entry.is_hosted_here:
            _update(entry, secondary, message.version, wanted=index < len(wanted))
            stored.append((advertisement, entry.versions[secondary]))
            confirming.advertisement_settled(state, entry)
    if stored and state.confirms:
        state.send(secondary, CivAck(tuple(stored)))


def _update(entry: CltEntry, secondary: BrokerId, version: Version, *, wanted: bool) -> None:
    """Apply D4: an older version changes nothing, an equal one only ends a pending state."""
    stored = entry.versions.get(secondary)
    if stored is not None and version < stored:
        return
    entry.pending.pop(secondary, None)
    if stored is None or version > stored:
        entry.versions[secondary] = version
        bit = secondary.cluster
        entry.civ = entry.civ.with_bit(bit) if wanted else entry.civ.without_bit(bit)
