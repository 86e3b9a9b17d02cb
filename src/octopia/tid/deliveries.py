"""Deliveries to local clients, once per subscription.

Under dynamic routing, several copies of one publication may reach an edge broker, in different trees and for different
subscriptions. Each subscription gets the first copy; the others are dropped and counted. The memory for this is
bounded: a copy that arrives after very many other publications counts as new.
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
"""The least number of publications whose deliveries an edge broker remembers; it may remember twice as many."""


def deliver_locally(state: TidState, publication: TidPublish, matched: tuple[BoundCopy, ...]) -> None:
    """Queue one delivery per interested client, naming all of its matching subscriptions that have not had it."""
    local = state.kept_local.of(matched, local_of)
    if state.is_dynamic and local:
        local = _note_delivered(state, publication, local)
    deliver_to(state, publication, local)


def local_of(matched: Sequence[BoundCopy]) -> tuple[SubscriptionId, ...]:
    """Return the subscriptions of local clients, by id."""
    return tuple(sorted(copy.subscription for copy in matched if isinstance(copy.last_hop, ClientId)))


def _note_delivered(
    state: TidState, publication: TidPublish, subscriptions: tuple[SubscriptionId, ...]
) -> tuple[SubscriptionId, ...]:
    """Return the subscriptions that have not had the publication, and record that they have it now."""
    before = state.delivered.get(publication.id, ())
    new = tuple([each for each in subscriptions if each not in before]) if before else subscriptions
    state.counters.duplicate_deliveries_dropped += len(subscriptions) - len(new)
    if new:
        state.delivered[publication.id] = (*before, *new)
    if len(state.delivered) >= 2 * REMEMBERED_PUBLICATIONS:
        # Remove many at once: finding the first key of a dictionary takes longer the more were removed before it.
        for oldest in list(itertools.islice(state.delivered, REMEMBERED_PUBLICATIONS)):
            del state.delivered[oldest]
    return new
