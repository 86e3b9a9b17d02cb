"""Static publication routing, SPR (paper section 9.1, Alg. 3).

A publication goes to every interested primary neighbour, and from its host broker over an iLink directly to every
target cluster. Within a cluster the overlay is a tree, so paths are as short as the tree allows.

Routing decides and changes no table. Its signature shows that: destinations and a read-only view in, a decision out.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from octopia.broker.interface import Decision, Forward
from octopia.ids import BrokerId
from octopia.protocol import ClusterIndexVector


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """The destinations of a publication: interested primary neighbours by id, and clusters still to be reached."""

    alinks: tuple[BrokerId, ...]
    targets: ClusterIndexVector


class RoutingView(Protocol):
    """Everything that routing may know about its broker."""

    def ilink(self, cluster: int) -> BrokerId:
        """Return the secondary neighbour in ``cluster``."""

    def congested(self, link: BrokerId) -> bool:
        """Return whether the link to a neighbour is congested now."""

    def queue_length(self, link: BrokerId) -> int:
        """Return the length of the output queue to a neighbour."""


def route_statically(wanted: Wanted, at: RoutingView) -> Decision:
    """Send plain copies to all interested primary neighbours and over the iLinks of all targets."""
    alinks = tuple(map(Forward, wanted.alinks))
    if not wanted.targets.bits:
        return Decision(alinks)
    return Decision((*alinks, *[Forward(at.ilink(cluster)) for cluster in wanted.targets]))
