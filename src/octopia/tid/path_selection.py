"""The choice of the next links and TIDs of a publication (paper section 2; Li, Muthusamy and Jacobsen).

Static routing (TID-S) keeps to the tree: a copy goes to the last hop of every bound copy that matched. Dynamic routing
(TID-D) does the same while these links are free. For a subscription behind a congested link, it looks at the other
copies of that subscription stored here, bound to other TIDs. If one of them came over a better link, the publication
changes to its tree. Such a tree need not belong to the same publisher.

Two subscriptions behind one congested link may take different trees, and the new tree may serve subscriptions that are
already served. So there can be several copies, one per next hop and TID, and two of them may reach the same
subscription. PADRES keeps one copy per next hop (``one_per_hop``): the tree of the first subscription behind a link.
Other subscriptions behind that link which are not bound to this tree further on miss the publication.

Like all routing, this decides and changes no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from octopia.ids import BrokerId, ClientId, Peer, SubscriptionId
from octopia.settings import TidCopies
from octopia.tid.messages import Tid
from octopia.tid.tables import BoundCopy


class Path(msgspec.Struct, frozen=True, order=True):
    """One copy of a publication: the neighbour it goes to, and the TID that it carries."""

    next_hop: BrokerId
    tid: Tid


class LinkView(Protocol):
    """Everything that path selection may know about the links of its broker."""

    def congested(self, link: BrokerId) -> bool:
        """Return whether the link to a neighbour is congested now."""

    def queue_length(self, link: BrokerId) -> int:
        """Return the length of the output queue to a neighbour."""


class PathView(LinkView, Protocol):
    """Everything that path selection may know about its broker."""

    def copies_of(self, subscriptions: Sequence[SubscriptionId]) -> Mapping[SubscriptionId, Sequence[BoundCopy]]:
        """Return all bound copies of the subscriptions that are stored here, each by TID."""


def paths_of(matched: Sequence[BoundCopy], came_from: Peer) -> dict[SubscriptionId, Path]:
    """Return the path to each matching subscription, except local ones and those behind ``came_from``."""
    return {
        copy.subscription: Path(copy.last_hop, copy.tid)
        for copy in matched
        if isinstance(copy.last_hop, BrokerId) and copy.last_hop != came_from
    }


def select_statically(matched: Sequence[BoundCopy], came_from: Peer) -> list[Path]:
    """Keep to the tree; one copy per next hop."""
    return distinct(paths_of(matched, came_from))


def select_dynamically(
    matched: Sequence[BoundCopy], came_from: Peer, at: PathView, copies: TidCopies = TidCopies.PER_TREE
) -> list[Path]:
    """Keep to the tree where its links are free, and change to other trees where their links are better."""
    paths = paths_of(matched, came_from)
    held_up = [subscription for subscription, path in paths.items() if at.congested(path.next_hop)]
    if held_up:
        found = at.copies_of(held_up)
        for subscription in held_up:
            in_tree = paths[subscription]
            paths[subscription] = best(in_tree, _others(in_tree, found[subscription], came_from), at)
    return one_per_hop(paths) if copies is TidCopies.PER_HOP else distinct(paths)


def distinct(paths: Mapping[SubscriptionId, Path]) -> list[Path]:
    """Return each path once, by next hop and TID: subscriptions share copies."""
    return sorted(dict.fromkeys(paths.values()))


def one_per_hop(paths: Mapping[SubscriptionId, Path]) -> list[Path]:
    """Return one path per next hop, that of the first subscription by id: PADRES takes whichever it meets first."""
    first: dict[BrokerId, Path] = {}
    for subscription in sorted(paths):
        path = paths[subscription]
        first.setdefault(path.next_hop, path)
    return sorted(first.values())


def best(chosen: Path, others: Sequence[Path], at: LinkView) -> Path:
    """Return a free path with the shortest queue, or one with a shorter queue than the chosen one, or that one."""
    free = [path for path in others if not at.congested(path.next_hop)]
    shorter = [path for path in others if at.queue_length(path.next_hop) < at.queue_length(chosen.next_hop)]
    return min(free or shorter or [chosen], key=lambda path: (at.queue_length(path.next_hop), path))


def _others(chosen: Path, copies: Sequence[BoundCopy], came_from: Peer) -> list[Path]:
    """Return the paths over other links, except back to ``came_from``."""
    return [
        Path(copy.last_hop, copy.tid)
        for copy in copies
        if not isinstance(copy.last_hop, ClientId) and copy.last_hop not in (chosen.next_hop, came_from)
    ]
