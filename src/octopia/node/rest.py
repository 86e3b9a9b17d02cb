"""The publications that a node still holds: their number, their size, and whether any of them can still leave."""

from __future__ import annotations

from collections.abc import Collection

from octopia.broker import Broker
from octopia.node.links import ClientLink, NeighbourLink


def waiting(broker: Broker, links: Collection[NeighbourLink]) -> int:
    """Return the number of publications that wait for neighbours, or for a way to them."""
    for_links = sum(broker.waits_for(link.peer) + (link.in_service is not None) for link in links)
    return for_links + broker.unplaced_in_all + broker.stranded


def held_bytes(broker: Broker, links: Collection[NeighbourLink], clients: Collection[ClientLink]) -> int:
    """Return the approximate size of all publications that wait or are not acknowledged."""
    kept = sum(link.session.kept_bytes for link in links if link.session is not None)
    return broker.bytes_waiting + kept + sum(link.held_bytes for link in clients)


def is_at_rest(broker: Broker, links: Collection[NeighbourLink], clients: Collection[ClientLink]) -> bool:
    """Return whether nothing waits that can still leave, and everything written is acknowledged."""
    for link in links:
        # What waits for a broken link leaves when it is back; a neighbour that went down takes nothing more.
        is_needed = link.is_up or not link.has_departed
        unacknowledged = link.session is not None and link.session.awaits_acknowledgement
        if is_needed and (unacknowledged or link.in_service is not None or broker.waits_for(link.peer)):
            return False
    if broker.unplaced_in_all:
        return False
    # What waits for a way may find one when a link of this broker carries publications again.
    if broker.stranded and any(not link.carries_data and not link.has_departed for link in links):
        return False
    return not any(
        link.is_connected
        and (not link.mailbox.is_empty or (link.session is not None and link.session.awaits_acknowledgement))
        for link in clients
    )
