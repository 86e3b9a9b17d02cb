"""The advertisement broadcast process (paper sections 6 and 8, Alg. 1).

An advertisement is known only in the host region of its publisher. The host broker stores it and sends it to its
secondary neighbours. They store it too, and answer with their cluster's bit if their cluster has an intersecting
subscription. With confirmations (D5) they always answer, and count as interested until they do. Under adaptive routing
an answer also has the directions within the cluster (``answers``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from octopia.broker import answers, confirming
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.errors import ProtocolViolation
from octopia.ids import AdvertisementId, BrokerId, ClientId
from octopia.protocol.directions import NOWHERE, Directions
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
    entry.answer(state.cluster, answers.wanted(state, message.offer))
    if entry.directions:
        state.send_civ_updates(CivSet, [entry])
    elif state.confirms:
        state.send_civ_updates(CivNone, [entry])
    elif _is_recovered(state, host_broker, message.id):  # The host broker may hold our bit of an earlier incarnation.
        state.send_civ_updates(CivUnset, [entry])


def _is_recovered(state: State, host_broker: BrokerId, advertisement: AdvertisementId) -> bool:
    """Return whether an advertisement is one that this broker lost in a restart and has fetched."""
    recovery = state.recovery
    return recovery is not None and advertisement in recovery.awaited_advertisements.get(host_broker, ())


def on_unadvertise(state: State, message: Unadvertise) -> None:
    """Forget an advertisement of this region."""
    forget(state, message.id)


def forget(state: State, advertisement: AdvertisementId) -> None:
    """Remove an entry received from a secondary neighbour, and release the subscriptions that wait for it."""
    if advertisement in state.clt:
        state.clt.remove(advertisement)
        confirming.release(state, advertisement)


def on_civ_update(state: State, secondary: BrokerId, message: CivUpdate) -> None:
    """Store at the host broker whether the sender's cluster wants these advertisements, and acknowledge it.

    An update names no cluster: its bit is that of the neighbour that sent it, so nobody sets that of another cluster.
    """
    _check_host(state, secondary, message)
    stored: list[tuple[AdvertisementId, Version]] = []
    for advertisement, directions in list(_answers_in(state, secondary, message)):
        entry = state.clt.get(advertisement)
        # An unknown advertisement needs no answer: its withdrawal is on its way to the sender.
        if entry is not None and entry.is_hosted_here:
            _update(state, entry, secondary, message.version, directions)
            stored.append((advertisement, entry.versions[secondary]))
            confirming.advertisement_settled(state, entry)
    if stored and state.confirms:
        state.send(secondary, CivAck(tuple(stored)))


def _check_host(state: State, secondary: BrokerId, message: CivUpdate) -> None:
    """Raise ProtocolViolation for an update of advertisements that are hosted elsewhere."""
    named = (*message.wanted, *message.unwanted) if isinstance(message, CivState) else message.advertisements
    for advertisement in named:
        if advertisement.host_broker != state.neighbourhood.broker:
            raise ProtocolViolation(
                f"{secondary} may set the bit of cluster {secondary.cluster} in advertisements of this broker only, "
                f"got {advertisement}"
            )


def drop_answers(state: State, secondary: BrokerId, advertisements: Iterable[AdvertisementId] | None = None) -> None:
    """Drop the answers of a secondary neighbour that has lost these advertisements, by default all of them.

    Until it answers again it confirms subscriptions without them, so its last answers may lack directions.
    """
    entries = state.clt if advertisements is None else filter(None, map(state.clt.get, advertisements))
    for entry in entries:
        if entry.held.pop(secondary, None) is not None:
            entry.audience = None


def _answers_in(state: State, secondary: BrokerId, message: CivUpdate) -> Iterator[tuple[AdvertisementId, Directions]]:
    """Yield the advertisements that an update speaks of, each with the directions that want it."""
    match message:
        case CivState():
            yield from _zip(state, secondary, message.wanted, message.directions, answers.everything(state))
            yield from zip(message.unwanted, itertools.repeat(NOWHERE))
        case CivSet():
            yield from _zip(state, secondary, message.advertisements, message.directions, answers.everything(state))
        case CivUnset():
            yield from _zip(state, secondary, message.advertisements, message.directions, NOWHERE)
        case CivNone():
            yield from zip(message.advertisements, itertools.repeat(NOWHERE))


def _zip(
    state: State,
    secondary: BrokerId,
    advertisements: Sequence[AdvertisementId],
    directions: Sequence[Directions],
    default: Directions,
) -> Iterator[tuple[AdvertisementId, Directions]]:
    """Return pairs of advertisements and directions; without directions, each has the ``default``."""
    if not directions:
        return zip(advertisements, itertools.repeat(default))
    if len(directions) != len(advertisements):
        raise ProtocolViolation(
            f"{secondary} sent {len(directions)} sets of directions for {len(advertisements)} advertisements"
        )
    possible = answers.everything(state)
    for each in directions:
        if each != Directions.of(each) & possible:
            raise ProtocolViolation(f"expected directions among {list(possible)} from {secondary}, got {list(each)}")
    return zip(advertisements, directions, strict=True)


def _update(state: State, entry: CltEntry, secondary: BrokerId, version: Version, directions: Directions) -> None:
    """Apply D4: an older version changes nothing, an equal one only ends a pending state."""
    stored = entry.versions.get(secondary)
    if stored is not None and version < stored:
        return
    entry.pending.pop(secondary, None)
    entry.audience = None
    if stored is None or version > stored:
        entry.versions[secondary] = version
        bit = secondary.cluster
        entry.civ = entry.civ.with_bit(bit) if directions else entry.civ.without_bit(bit)
        if state.is_adaptive:
            entry.held[secondary] = directions
