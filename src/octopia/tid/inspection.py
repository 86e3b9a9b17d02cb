"""The contents of a TID broker's tables, for reports to people."""

from __future__ import annotations

from collections.abc import Iterator

from octopia.broker.inspection import KnownAdvertisement, KnownSubscription, client_of
from octopia.content import Publication, matches
from octopia.tid.state import TidState


def subscriptions_in(state: TidState) -> Iterator[KnownSubscription]:
    """Yield each subscription once, with the last hop of its first copy."""
    seen = set()
    for copy in state.prt:
        if copy.subscription not in seen:
            seen.add(copy.subscription)
            yield KnownSubscription(copy.subscription, copy.interest, copy.last_hop, client_of(copy.last_hop))


def advertisements_in(state: TidState) -> Iterator[KnownAdvertisement]:
    """Yield the advertisements of the overlay, in the order in which they came."""
    for entry in state.srt:
        yield KnownAdvertisement(entry.tid, entry.offer, entry.last_hop, client_of(entry.last_hop))


def is_wanted(state: TidState, publication: Publication) -> bool:
    """Return whether a subscription that is bound to some tree matches a publication."""
    return any(matches(each.interest, publication) for each in subscriptions_in(state))
