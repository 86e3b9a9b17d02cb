"""The audience of a publication: what its host broker knows of the clusters that want it (adaptive routing).

It follows from the answers of the secondary brokers to the advertisements that the publication conforms to. Answers
change rarely, so the audience of an advertisement is computed once per change.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from octopia.broker import answers
from octopia.broker.adaptive_routing import Audience
from octopia.broker.state import State
from octopia.broker.tables import CltEntry
from octopia.protocol.directions import NOWHERE, Directions

MOST_KEPT = 4096
"""The number of unions that are cached; a full cache is cleared, since frequent ones return soon."""


def audience_of(state: State, advertisements: Sequence[CltEntry]) -> Audience:
    """Return the audience of a publication that conforms to these advertisements, at least one, all hosted here."""
    if len(advertisements) == 1:
        return advertisements[0].audience or _compute(state, advertisements[0])
    parts = tuple([entry.audience or _compute(state, entry) for entry in advertisements])
    key = tuple([entry.id for entry in advertisements])
    known = state.unions.get(key)
    if known is not None and all(map(operator.is_, known[0], parts)):
        return known[1]
    if len(state.unions) >= MOST_KEPT:
        state.unions.clear()
    union = _union(parts)
    state.unions[key] = (parts, union)
    return union


def _compute(state: State, entry: CltEntry) -> Audience:
    """Compute the audience of one advertisement; secondary brokers that are pending or unknown want everything (D4)."""
    counted: dict[int, Directions] = {}
    held: dict[int, Directions] = {}
    targets = 0
    for secondary in state.neighbourhood.secondary_neighbours:
        cluster = secondary.cluster
        is_pending = secondary in entry.pending
        directions = entry.held.get(secondary)
        if directions is None and not state.confirms and cluster not in entry.civ:
            directions = NOWHERE  # Without confirmations, no answer is the answer 0.
        if directions is not None:
            held[cluster] = directions
        if is_pending or directions is None:
            counted[cluster] = answers.everything(state)
        elif directions:
            counted[cluster] = directions
        targets |= (cluster in counted) << cluster
    entry.audience = Audience(targets, counted, held)
    return entry.audience


def _union(parts: Sequence[Audience]) -> Audience:
    """Return the union of audiences; a cluster must have answered all advertisements to be in ``held``."""
    counted: dict[int, Directions] = {}
    held: dict[int, Directions] = {}
    targets = 0
    for part in parts:
        targets |= part.targets
        for cluster, directions in part.counted.items():
            counted[cluster] = counted.get(cluster, NOWHERE) | directions
        for cluster, directions in part.held.items():
            if all(cluster in each.held for each in parts):
                held[cluster] = held.get(cluster, NOWHERE) | directions
    return Audience(targets, counted, held)
