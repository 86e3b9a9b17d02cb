"""The advertisement flood, which builds the tree of each advertisement (paper section 2).

The host broker floods an advertisement through the overlay. Every broker passes the first copy on and discards the
others. The link of the first copy joins the tree, so trees depend on the load at that moment and need not be short. A
flood costs 2E - (V - 1) messages; V - 1 of them make the tree.

A withdrawal floods the same way and stops where the advertisement is unknown. It cannot overtake the advertisement:
links keep the order of control messages, and every broker passes on the advertisement first. A late second copy cannot
restore a withdrawn advertisement either, since a broker remembers which ones it has seen.
"""

from __future__ import annotations

from octopia.ids import BrokerId, ClientId, Peer
from octopia.protocol.messages import AdvertiseRequest
from octopia.tid.messages import Tid, TidAdvertise, TidUnadvertise
from octopia.tid.state import TidState
from octopia.tid.subscribing import bind
from octopia.tid.tables import SrtEntry


def advertise_for_client(state: TidState, publisher: ClientId, request: AdvertiseRequest) -> Tid:
    """Mint an id for a local publisher's advertisement, and flood it."""
    tid = state.mint_advertisement()
    _store_and_flood(state, publisher, TidAdvertise(tid, request.offer, request.ordered))
    return tid


def unadvertise_for_client(state: TidState, publisher: ClientId, tid: Tid) -> None:
    """Withdraw a local publisher's advertisement everywhere."""
    _remove_and_flood(state, publisher, TidUnadvertise(tid))


def on_advertise(state: TidState, sender: BrokerId, message: TidAdvertise) -> None:
    """Store an advertisement and pass it on, unless this is a second copy."""
    if state.srt.has_seen(message.id):
        state.counters.duplicates_discarded += 1
    else:
        _store_and_flood(state, sender, message)


def on_unadvertise(state: TidState, sender: BrokerId, message: TidUnadvertise) -> None:
    """Remove an advertisement and pass the withdrawal on, unless this is a second copy."""
    if message.id not in state.srt:
        state.counters.duplicates_discarded += 1
    else:
        _remove_and_flood(state, sender, message)


def _store_and_flood(state: TidState, last_hop: Peer, message: TidAdvertise) -> None:
    entry = SrtEntry(message.id, message.offer, last_hop, message.ordered)
    state.srt.add(entry)
    state.flood(last_hop, message)
    for subscription in state.unbound.intersecting(message.offer):
        bind(state, subscription.subscriber, subscription.id, subscription.interest, entry)


def _remove_and_flood(state: TidState, last_hop: Peer, message: TidUnadvertise) -> None:
    state.srt.remove(message.id)
    state.prt.remove_tree(message.id)
    state.flood(last_hop, message)
