"""Statuses: what brokers of a region tell each other about their links, for adaptive routing.

A broker tells its secondary neighbours how much work waits for each of its congested aLinks, and which of its links are
down. It tells it once per window if it changed, and at once if a link went down or came up. A broker that never told
anything counts as having all links up and free, so nothing is sent while nothing is congested or down.

Statuses only help to choose among ways that are all right. They may be late or lost.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from octopia.markers import Timed


class AlinkStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of an aLink of another broker; ``work`` is 0 if it is free."""

    is_up: bool = True
    work: float = 0.0


_FREE = AlinkStatus()
_DOWN = AlinkStatus(is_up=False)


class Status(msgspec.Struct, frozen=True, gc=False):
    """The status of all links of one broker: the work of congested aLinks by region, and the links that are down.

    ``down_ilinks`` has the bits of clusters. The default says that everything is up and free.
    """

    congested: tuple[tuple[str, float], ...] = ()
    down_alinks: tuple[str, ...] = ()
    down_ilinks: int = 0

    def has_same_links(self, other: Status) -> bool:
        """Return whether the same links are down."""
        return self.down_alinks == other.down_alinks and self.down_ilinks == other.down_ilinks

    def alink(self, region: str) -> AlinkStatus:
        """Return the status of the aLink to a region."""
        if region in self.down_alinks:
            return _DOWN
        for each, work in self.congested:
            if each == region:
                return AlinkStatus(work=work)
        return _FREE

    def is_linked(self, cluster: int) -> bool:
        """Return whether the iLink to a cluster is up."""
        return not self.down_ilinks >> cluster & 1


ALL_FREE = Status()


def make_status(works: Mapping[str, float], down_alinks: tuple[str, ...], down_ilinks: int) -> Status:
    """Return the canonical status of a broker; ``works`` has the work of its congested aLinks, which are up."""
    return Status(tuple(sorted(works.items())), tuple(sorted(down_alinks)), down_ilinks)


class StatusSender:
    """The last status that a broker has told its secondary neighbours, in which window, and when it looks again."""

    __slots__ = ("next_look_ms", "told", "window")

    next_look_ms: Timed[float]
    window: Timed[int]

    def __init__(self) -> None:
        self.told = ALL_FREE
        self.window = -1
        self.next_look_ms = 0.0

    def due(self, current: Status, window: int) -> Status | None:
        """Return the status to tell all secondary neighbours now, or None; it then counts as told.

        The status of a window is told once. A change of links is told at once.
        """
        if current == self.told or (window == self.window and current.has_same_links(self.told)):
            return None
        self.told = current
        self.window = window
        return current

    def for_new_ilink(self) -> Status | None:
        """Return the status to tell a secondary neighbour whose iLink came up, or None: it starts from ``ALL_FREE``."""
        return None if self.told == ALL_FREE else self.told


class StatusTable:
    """The last status of each secondary neighbour, by cluster (``all``)."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: dict[int, Status] = {}

    def store(self, cluster: int, status: Status) -> bool:
        """Store a status, and return whether it tells of a link that came up."""
        before = self.all.get(cluster, ALL_FREE)
        self.all[cluster] = status
        return bool(before.down_ilinks & ~status.down_ilinks) or not set(before.down_alinks) <= set(status.down_alinks)

    def forget(self, cluster: int) -> None:
        """Forget a status when the iLink comes up: the neighbour then tells everything again."""
        self.all.pop(cluster, None)

    def told(self, cluster: int, region: str) -> AlinkStatus:
        """Return the status of the aLink to ``region`` at the broker of ``cluster``."""
        return self.all.get(cluster, ALL_FREE).alink(region)

    def linked(self, cluster: int, other: int) -> bool:
        """Return whether the broker of ``cluster`` has an iLink to that of ``other``."""
        return self.all.get(cluster, ALL_FREE).is_linked(other)
