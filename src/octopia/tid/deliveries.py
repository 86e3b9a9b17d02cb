"""Deliveries to local clients, once for each subscription.

Under dynamic routing several copies of one publication may reach an edge broker, in different trees and for different
subscriptions. Each subscription gets the first; the others are dropped and counted. What a broker remembers for that is
bounded: a copy that comes after very many other publications counts as new.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from octopia.broker.deliveries import deliver_to
from octopia.ids import ClientId, SubscriptionId
from octopia.tid.messages import TidPublish
from octopia.tid.state import TidState
from octopia.tid.tables import BoundCopy

REMEMBERED_PUBLICATIONS = 65_536
"""For how many publications at least an edge broker knows which of its subscriptions got them; at most for twice."""


def deliver_locally(state: TidState, publication: TidPublish, matched: tuple[BoundCopy, ...]) -> None:
    """Queue one delivery for each interested client, naming all of its matching subscriptions that lack it."""
    local = state.kept_local.of(matched, local_of)
    if state.is_dynamic and local:
        local = _note_delivered(state, publication, local)
    deliver_to(state, publication, local)


def local_of(matched: Sequence[BoundCopy]) -> tuple[SubscriptionId, ...]:
    """Return those of the subscriptions that are of local clients, by id."""
    return tuple(sorted(copy.subscription for copy in matched if isinstance(copy.last_hop, ClientId)))


def _note_delivered(
    state: TidState, publication: TidPublish, subscriptions: tuple[SubscriptionId, ...]
) -> tuple[SubscriptionId, ...]:
    """Return those of the subscriptions that have not had the publication yet, and note that now they have."""
    before = state.delivered.get(publication.id, ())
    new = tuple([each for each in subscriptions if each not in before]) if before else subscriptions
    state.counters.duplicate_deliveries_dropped += len(subscriptions) - len(new)
    if new:
        state.delivered[publication.id] = (*before, *new)
    if len(state.delivered) >= 2 * REMEMBERED_PUBLICATIONS:
        # Many at once: finding the first key of a dictionary takes the longer the more were removed before it.
        for oldest in list(itertools.islice(state.delivered, REMEMBERED_PUBLICATIONS)):
            del state.delivered[oldest]
    return new
