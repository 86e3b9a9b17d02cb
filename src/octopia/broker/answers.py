"""The answers of a broker to the advertisements of its region: who in its cluster wants them (paper section 8).

In the paper the answer is one bit. Under adaptive routing it is a set of *directions*: the broker's own clients, and
each primary neighbour behind which there is an intersecting subscription. So a host broker can send publications around
a broker of its region. Static and dynamic routing have only one direction, the whole cluster (``HERE``): the set counts
as a bit, and is sent when the bit changes.

A direction is *unknown* while subscriptions behind it may be missing in the PRT. Unknown directions want everything.
Only a restarted broker has any: each of its primary neighbours, until that has sent all subscriptions behind it. A
broker that keeps its state knows every subscription that was ever confirmed, also while a link is down.
"""

from __future__ import annotations

from collections.abc import Iterable

from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.content import Disjunction
from octopia.ids import Peer
from octopia.matching.interface import direction_of
from octopia.protocol.directions import NOWHERE, Directions
from octopia.protocol.duties import HERE
from octopia.protocol.messages import CivSet, CivUnset


def everything(state: State) -> Directions:
    """Return all directions of a cluster, as seen from its broker in this region."""
    if not state.is_adaptive:
        return Directions(here=True)
    return Directions(True, tuple([each.region for each in state.neighbourhood.primary_neighbours]))


def direction_from(state: State, last_hop: Peer) -> str:
    """Return the direction of subscriptions with this last hop."""
    return direction_of(last_hop) if state.is_adaptive else HERE


def unknown(state: State) -> Directions:
    """Return the directions with subscriptions that this broker may not know."""
    if state.is_adaptive:
        return Directions(False, tuple([each.region for each in state.unheard_neighbours]))
    return NOWHERE if state.prt_is_complete else Directions(here=True)


def wanted(state: State, offer: Disjunction) -> Directions:
    """Return the directions that want an advertisement."""
    taken_as_wanted = unknown(state)
    return taken_as_wanted | _interested(state, offer, everything(state) - taken_as_wanted)


def add(state: State, entries: Iterable[CltEntry], direction: str) -> None:
    """Add a direction to our answers to these advertisements, and tell the host brokers of those that it is new to."""
    newly_wanted = [entry for entry in entries if direction not in entry.directions]
    for entry in newly_wanted:
        entry.answer(state.cluster, entry.directions | Directions.of((direction,)))
    state.send_civ_updates(CivSet, newly_wanted)


def clear(state: State, entries: Iterable[CltEntry], asked: Directions) -> None:
    """Remove those of the directions ``asked`` that want these advertisements no longer, and tell the host brokers."""
    asked -= unknown(state)
    no_longer_wanted = []
    for entry in entries:
        doubtful = entry.directions & asked
        interested = _interested(state, entry.offer, doubtful)
        if interested != doubtful:
            entry.answer(state.cluster, entry.directions - (doubtful - interested))
            no_longer_wanted.append(entry)
    state.send_civ_updates(CivUnset, no_longer_wanted)


def _interested(state: State, offer: Disjunction, asked: Directions) -> Directions:
    """Return those of the directions ``asked`` with a known subscription that intersects an advertisement."""
    if not asked:
        return NOWHERE
    if state.is_adaptive:
        return state.prt.intersecting_from(offer, asked)
    return asked if state.prt.any_intersecting(offer) else NOWHERE
