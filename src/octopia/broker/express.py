"""The express way of publications: most find every link free, and take their static paths.

Plain Python that Cython compiles (``express.pxd`` has the C types), since every publication passes here. It does what
``publishing`` and ``placing`` do, in the case that needs no decision: a plain copy from a neighbour, nothing that waits
ahead of it, room in all queues. Everything else is left to them.

A *road* is what follows from the links that match: the queues of all links except the one that the copy came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from octopia.broker.queues import OutputQueue
from octopia.ids import BrokerId
from octopia.matching.matched import Match
from octopia.protocol.duties import Duties
from octopia.protocol.transit import Publish, further

MOST_ROADS = 4096
"""The number of roads that are cached per link; a full cache is cleared."""


class Road:
    """The queues that a plain copy joins, with their links, and the duties it has in them under adaptive routing."""

    __slots__ = ("batch", "duties", "is_free", "links", "queues")

    def __init__(self, links: tuple[BrokerId, ...], queues: list[OutputQueue], duties: Duties | None):
        self.links = links
        self.queues = queues
        self.duties = duties
        self.batch = 0
        self.is_free = True


class Roads:
    """The roads of the publications that come over one link.

    ``reached`` collects the links that got copies, in order.
    """

    __slots__ = (
        "_batch",
        "_deliver",
        "_duties",
        "_hop_limit",
        "_now_ms",
        "_roads",
        "_source",
        "_view",
        "queues",
        "reached",
    )

    def __init__(self, source: BrokerId, queues: dict[BrokerId, OutputQueue], hop_limit: int, duties: Duties | None):
        self._source = source
        self.queues = queues
        self._hop_limit = hop_limit
        self._duties = duties
        self._roads: dict[Sequence[BrokerId], Road] = {}
        self._batch = 0
        self._now_ms = 0.0
        self._view: Any = None
        self._deliver: Callable[[Publish, Match], None]
        self.reached: dict[BrokerId, None] = {}

    def begin(self, now_ms: float, view: Any, deliver: Callable[[Publish, Match], None]) -> None:
        """Begin a batch; ``deliver`` delivers to local clients.

        Under adaptive routing, ``view`` has the verdicts on links that the publications of the batch share.
        """
        self._batch += 1
        self._now_ms = now_ms
        self._view = view
        self._deliver = deliver
        self.reached = {}

    def pass_on(self, publications: list[Any], matches: list[Match], at: int) -> int:
        """Queue the copies of publications from an index on, and return the index of the first that is not for here."""
        size = len(publications)
        while at < size and self._pass(publications[at], matches[at]):
            at += 1
        return at

    def _pass(self, publication: Publish, match: Match) -> bool:
        """Queue the copies of a publication, and return whether that was possible."""
        if publication.clusters or publication.detour is not None or publication.ordered:
            return False
        links = match.links
        if publication.hop >= self._hop_limit:
            return False
        road = self._roads.get(links)
        if road is None:
            road = self._make(links)
        if not self._can_use(road):
            return False
        if match.numbers or not links:
            self._deliver(publication, match)
        if road.queues:
            copy = further(publication, 1)
            for queue in road.queues:
                queue.put_data(copy, 0, self._now_ms, road.duties)
        return True

    def _can_use(self, road: Road) -> bool:
        """Return whether all links of a road are free, as far as routing asks, and have room."""
        if road.batch != self._batch:
            road.batch = self._batch
            view = self._view
            road.is_free = view is None or not any(map(view.congested, road.links))
            if road.is_free:
                self.reached.update(dict.fromkeys(road.links))
        if not road.is_free:
            return False
        for queue in road.queues:  # noqa: SIM110 (a loop in C)
            if not queue.has_room(0) or queue._rerouted:
                return False
        return True

    def _make(self, links: tuple[BrokerId, ...]) -> Road:
        if len(self._roads) >= MOST_ROADS:
            self._roads.clear()
        onward = tuple([link for link in links if link != self._source])
        road = self._roads[links] = Road(onward, [self.queues[link] for link in onward], self._duties)
        return road


def gather(batch: list[Any], at: int, run: list[Any]) -> bool:
    """Append the publications of a batch from an index on, up to another message; return whether all are plain."""
    is_plain = True
    size = len(batch)
    while at < size:
        message = batch[at]
        if type(message) is not Publish:
            break
        publication = message
        if publication.clusters or publication.detour is not None:
            is_plain = False
        run.append(publication)
        at += 1
    return is_plain
