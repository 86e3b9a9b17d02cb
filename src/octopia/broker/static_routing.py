"""Static publication routing, SPR (paper section 9.1, Alg. 3).

A publication goes to every interested primary neighbour, and from its host broker to every target cluster at once, over
the iLink that leads there. Within a cluster the overlay is a tree, so paths are as short as the tree allows.

Routing reads and decides; it changes no table. That shows in its signature: what is wanted and a read-only view in, a
decision out.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from octopia.broker.interface import Decision, Forward
from octopia.ids import BrokerId
from octopia.protocol import ClusterIndexVector


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """Where a publication is wanted: interested primary neighbours by id, and clusters still to be reached."""

    alinks: tuple[BrokerId, ...]
    targets: ClusterIndexVector


class RoutingView(Protocol):
    """All that routing may know about the broker it runs at."""

    def ilink(self, cluster: int) -> BrokerId:
        """Return the secondary neighbour in ``cluster``."""

    def congested(self, link: BrokerId) -> bool:
        """Tell whether the link to a neighbour is congested now."""

    def queue_length(self, link: BrokerId) -> int:
        """Return the length of the output queue to a neighbour."""


def route_statically(wanted: Wanted, at: RoutingView) -> Decision:
    """Send plain copies to all interested primary neighbours and over the iLinks of all targets."""
    alinks = tuple(map(Forward, wanted.alinks))
    if not wanted.targets.bits:
        return Decision(alinks)
    return Decision((*alinks, *[Forward(at.ilink(cluster)) for cluster in wanted.targets]))
