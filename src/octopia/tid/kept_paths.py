"""Path selection for sets of copies that are matched again and again.

``path_selection`` looks at every matching copy of every publication. Publications of one publisher often match the same
copies, and many subscriptions have the same choice: the same next hop in the tree of the publication, and the same
links in other trees. Both are found once per set of copies (``Choices``). Selecting then takes one look at each
distinct choice, and gives the same paths and the same counts of entries read as ``path_selection`` with a lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from octopia.ids import BrokerId, Peer, SubscriptionId
from octopia.settings import TidCopies
from octopia.tid.path_selection import LinkView, Path, best, select_statically
from octopia.tid.tables import BoundCopy

CopiesOf = Callable[[SubscriptionId], Sequence[BoundCopy]]
"""Returns all bound copies of a subscription that are stored here, by TID."""


class Choice(msgspec.Struct, frozen=True):
    """Subscriptions with the same path in their tree and the same other paths.

    Of the other trees over one link, only the one with the lowest TID is ever chosen, so ``others`` has one path per
    neighbour. ``entries`` is the number of bound copies of the subscriptions.
    """

    in_tree: Path
    others: tuple[Path, ...]
    entries: int


class Choices:
    """The choices for one set of matching copies, valid until the table of bound copies changes."""

    __slots__ = ("_copies_of", "_distinct", "_matched", "_static")

    def __init__(self, matched: Sequence[BoundCopy], copies_of: CopiesOf):
        self._matched = matched
        self._copies_of = copies_of
        self._static: dict[Peer, list[Path]] = {}
        self._distinct: list[Choice] | None = None

    def select_statically(self, came_from: Peer) -> list[Path]:
        """Keep to the tree; one copy per next hop."""
        paths = self._static.get(came_from)
        if paths is None:
            paths = self._static[came_from] = select_statically(self._matched, came_from)
        return paths

    def select_dynamically(self, came_from: Peer, at: LinkView, copies: TidCopies) -> tuple[list[Path], int | None]:
        """Return the paths, and the number of entries read in search of others, or None if there was no search."""
        if self._distinct is None:
            self._distinct = _distinct_choices(self._matched, self._copies_of)
        chosen: list[Path] = []
        read: int | None = None
        for choice in self._distinct:
            path = choice.in_tree
            if path.next_hop == came_from:
                continue
            if at.congested(path.next_hop):
                read = (read or 0) + choice.entries
                path = best(path, [other for other in choice.others if other.next_hop != came_from], at)
            chosen.append(path)
        if copies is TidCopies.PER_HOP:
            return _first_per_hop(chosen), read
        return sorted(dict.fromkeys(chosen)), read


def _distinct_choices(matched: Sequence[BoundCopy], copies_of: CopiesOf) -> list[Choice]:
    """Return the choices of the subscriptions of other brokers, in order of the lowest subscription of each."""
    remote = {copy.subscription: copy for copy in matched if isinstance(copy.last_hop, BrokerId)}
    found: dict[tuple[Path, tuple[Path, ...]], int] = {}
    for subscription in sorted(remote):
        copy, copies = remote[subscription], copies_of(subscription)
        assert isinstance(copy.last_hop, BrokerId)
        choice = Path(copy.last_hop, copy.tid), _others(copies, copy.last_hop)
        found[choice] = found.get(choice, 0) + len(copies)
    return [Choice(*choice, entries) for choice, entries in found.items()]


def _others(copies: Sequence[BoundCopy], next_hop: BrokerId) -> tuple[Path, ...]:
    """Return the path with the lowest TID over each link to a broker, except over ``next_hop``."""
    lowest: dict[BrokerId, Path] = {}
    for copy in copies:
        if isinstance(copy.last_hop, BrokerId) and copy.last_hop != next_hop:
            lowest.setdefault(copy.last_hop, Path(copy.last_hop, copy.tid))
    return tuple(sorted(lowest.values()))


def _first_per_hop(chosen: Sequence[Path]) -> list[Path]:
    first: dict[BrokerId, Path] = {}
    for path in chosen:
        first.setdefault(path.next_hop, path)
    return sorted(first.values())
