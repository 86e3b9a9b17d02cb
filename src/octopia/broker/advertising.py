"""The advertisement broadcast process (paper sections 6 and 8, Alg. 1).

An advertisement is known in the host region of its publisher and nowhere else: the host broker stores it and tells its
secondary neighbours, which store it and answer with their cluster's bit if anybody there might want what it offers.
"""

from __future__ import annotations

from octopia.broker.messages import Advertise, CivSet, CivUnset, Unadvertise
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.content import Disjunction
from octopia.ids import AdvertisementId, BrokerId, ClientId


def advertise_for_client(state: State, publisher: ClientId, offer: Disjunction, ordered: bool) -> AdvertisementId:
    """Store a local publisher's advertisement and send it through the host region."""
    advertisement = state.mint_advertisement()
    # D2: the host bit is always set; routing never reads it.
    advertisement_civ = state.civ_of(state.cluster)
    state.clt.add(CltEntry(advertisement, offer, publisher, advertisement_civ, ordered))
    for secondary in state.neighbourhood.secondary_neighbours:
        state.send(secondary, Advertise(advertisement, offer))
    return advertisement


def unadvertise_for_client(state: State, advertisement: AdvertisementId) -> None:
    """Withdraw a local publisher's advertisement throughout the host region; no subscription is touched."""
    state.clt.remove(advertisement)
    for secondary in state.neighbourhood.secondary_neighbours:
        state.send(secondary, Unadvertise(advertisement))


def on_advertise(state: State, host_broker: BrokerId, message: Advertise) -> None:
    """Store an advertisement of this region, and answer if this cluster has a subscription for it."""
    if message.id in state.clt:
        return
    subscription_civ = state.civ_of(host_broker.cluster)
    entry = CltEntry(message.id, message.offer, host_broker, subscription_civ)
    state.clt.add(entry)
    if state.prt.any_intersecting(message.offer):
        entry.civ = subscription_civ.with_bit(state.cluster)
        state.send_civ_updates(CivSet, [entry])


def on_unadvertise(state: State, message: Unadvertise) -> None:
    """Forget an advertisement of this region."""
    if message.id in state.clt:
        state.clt.remove(message.id)


def on_civ_update(state: State, secondary: BrokerId, message: CivSet | CivUnset) -> None:
    """Note at the host broker whether the sender's cluster wants these advertisements.

    Updates for advertisements that are no longer known, and updates older than what is stored, change nothing (D4).
    """
    for advertisement in message.advertisements:
        entry = state.clt.get(advertisement)
        if entry is None or not entry.is_hosted_here:
            continue
        stored = entry.versions.get(secondary)
        if stored is not None and message.version <= stored:
            continue
        entry.versions[secondary] = message.version
        wanted = isinstance(message, CivSet)
        entry.civ = entry.civ.with_bit(secondary.cluster) if wanted else entry.civ.without_bit(secondary.cluster)
