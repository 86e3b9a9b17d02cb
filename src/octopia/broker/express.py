"""The express way of publications: most find every link free, and take their static paths.

Plain Python that Cython compiles (``express.pxd`` has the C types), since every publication passes here. It does what
``publishing`` and ``placing`` do, in the case that needs no decision: a plain copy from a neighbour or the publication
of a client, nothing that waits ahead of it, room in all queues. Everything else is left to them.

A *road* is what follows from the links that match: the queues of all links except the one that the copy came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from octopia.broker.interface import Delivered, DeliveryPlan
from octopia.broker.queues import OutputQueue
from octopia.content import Publication
from octopia.ids import AdvertisementId, BrokerId, SubscriptionId
from octopia.matching.matched import Match
from octopia.protocol.duties import Duties
from octopia.protocol.transit import Publish, PublishRequest, first_copy, further

MOST_ROADS = 4096
"""The number of roads that are cached per link; a full cache is cleared."""


MOST_PLANS = 4096
"""The number of delivery plans that are cached per link from one batch to the next."""

NO_VERSION = -1
"""The version of subscriptions while clients leave: what is found holds for one batch only."""


class Road:
    """The queues that a plain copy joins, with their links, and the duties it has in them under adaptive routing."""

    __slots__ = ("batch", "duties", "is_free", "is_used", "links", "queues")

    def __init__(self, links: tuple[BrokerId, ...], queues: list[OutputQueue], duties: Duties | None):
        self.links = links
        self.queues = queues
        self.duties = duties
        self.batch = 0
        self.is_free = True
        self.is_used = False


class Roads:
    """The roads of the publications that come over one link.

    ``reached`` collects the links that got copies, in order. ``unwanted`` counts the publications that nobody wants
    here.
    """

    __slots__ = (
        "_batch",
        "_duties",
        "_hop_limit",
        "_now_ms",
        "_roads",
        "_source",
        "_view",
        "deliveries",
        "queues",
        "reached",
        "unwanted",
    )

    def __init__(
        self,
        source: BrokerId,
        queues: dict[BrokerId, OutputQueue],
        hop_limit: int,
        duties: Duties | None,
        deliveries: Deliveries,
    ):
        self._source = source
        self.queues = queues
        self._hop_limit = hop_limit
        self._duties = duties
        self._roads: dict[Sequence[BrokerId], Road] = {}
        self._batch = 0
        self._now_ms = 0.0
        self._view: Any = None
        self.deliveries = deliveries
        self.unwanted = 0
        self.reached: dict[BrokerId, None] = {}

    def begin(self, now_ms: float, view: Any, entries: list[Any], version: int) -> None:
        """Begin a batch; ``entries`` takes the deliveries to local clients.

        Under adaptive routing, ``view`` has the verdicts on links that the publications of the batch share. Plans of
        deliveries hold as long as ``version`` stays the same.
        """
        self._batch += 1
        self._now_ms = now_ms
        self._view = view
        self.deliveries.begin(entries, version)
        self.unwanted = 0
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
        if not road.is_used:
            road.is_used = True
            self.reached.update(dict.fromkeys(road.links))
        if match.numbers:
            self.deliveries.add(publication, match.numbers)
        elif not links:
            self.unwanted += 1
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
            road.is_used = False
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


class Deliveries:
    """The deliveries to local clients: an entry per publication, with the plan of its recipients.

    Plans are looked up once per set of subscriptions, until subscriptions change; ``plan_for`` finds them by the
    numbers of a match. ``delivered`` counts the deliveries of a batch, one per subscription.
    """

    __slots__ = ("_entries", "_plan_for", "_plans", "_version", "delivered")

    def __init__(
        self,
        entries: list[Any],
        plan_for: Callable[[bytes], tuple[tuple[SubscriptionId, ...], DeliveryPlan] | None],
    ):
        self._entries = entries
        self._plan_for = plan_for
        self._plans: dict[bytes, Any] = {}
        self._version = NO_VERSION
        self.delivered = 0

    def begin(self, entries: list[Any], version: int) -> None:
        """Begin a batch with a list for its entries; plans of another version, or of none, are forgotten."""
        self._entries = entries
        self.delivered = 0
        if self._version != version or version == NO_VERSION or len(self._plans) >= MOST_PLANS:
            self._version = version
            self._plans.clear()

    def add(self, copy: Publish, numbers: bytes) -> None:
        """Add a publication for the subscriptions with these numbers."""
        plan = self._plans.get(numbers, self)
        if plan is self:
            plan = self._plans[numbers] = self._plan_for(numbers)
        if plan is not None:
            self.delivered += len(plan[0])
            self._entries.append(Delivered(copy, plan[0], plan[1]))


class Entrance:
    """The way of a client's publications into the overlay: they conform to an advertisement, and get a number.

    ``next_number`` is the number of the next one. ``reached`` collects the links that got copies, in order.
    """

    __slots__ = (
        "_audience_of",
        "_audiences",
        "_conforming",
        "_gate_to",
        "_gates",
        "_host",
        "_incarnation",
        "_now_ms",
        "deliveries",
        "next_number",
        "reached",
    )

    def __init__(self, host: BrokerId, incarnation: int, next_number: int, now_ms: float):
        self._host = host
        self._incarnation = incarnation
        self._now_ms = now_ms
        self._audiences: dict[AdvertisementId, int] = {}
        self._gates: dict[tuple[Sequence[BrokerId], int], Gate] = {}
        self.next_number = next_number
        self.reached: dict[BrokerId, None] = {}

    def ask(
        self,
        conforming: Callable[[Publication], list[AdvertisementId]],
        audience_of: Callable[[AdvertisementId], int],
        gate_to: Callable[[Sequence[BrokerId], int], Gate],
        deliveries: Deliveries,
    ) -> None:
        """Set whom to ask for the advertisements of a publication, for their targets, and for the gate to these.

        ``audience_of`` returns the bits of the clusters that want an advertisement, or -1 if its publications are not
        for here.
        """
        self._conforming = conforming
        self._audience_of = audience_of
        self._gate_to = gate_to
        self.deliveries = deliveries

    def pass_on(self, requests: list[Any], matches: list[Match], at: int) -> int:
        """Queue the copies of requests from an index on, and return the index of the first that is not for here."""
        size = len(requests)
        while at < size and self._pass(requests[at], matches[at]):
            at += 1
        return at

    def _pass(self, request: PublishRequest, match: Match) -> bool:
        """Queue the copies of a publication, and return whether that was possible."""
        targets = self._targets(request.publication)
        if targets < 0:
            return False
        key = (match.links, targets)
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = self._gate_to(match.links, targets)
        if not gate.is_open(self._now_ms):
            return False
        if not gate.is_used:
            gate.is_used = True
            self.reached.update(dict.fromkeys(gate.links))
        publication = first_copy(request, self._host, self._incarnation, self.next_number)
        self.next_number += 1
        if match.numbers:
            self.deliveries.add(publication, match.numbers)
        if gate.queues:
            copy = further(publication, 1)
            for index in range(len(gate.queues)):
                queue = gate.queues[index]
                queue.put_data(copy, 0, self._now_ms, gate.duties[index])
        return True

    def _targets(self, publication: Publication) -> int:
        """Return the bits of the clusters that want a publication, or -1 if it is not for here."""
        targets = 0
        advertisements = self._conforming(publication)
        if not advertisements:
            return -1
        for advertisement in advertisements:
            audience = self._audiences.get(advertisement)
            if audience is None:
                audience = self._audiences[advertisement] = self._audience_of(advertisement)
            if audience < 0:
                return -1
            targets |= audience
        return targets


class Gate:
    """The queues that copies of a client's publication join, and the duties that they have in each.

    Those of ``watched`` must not be congested. A gate that is not ``is_free`` stays closed.
    """

    __slots__ = ("duties", "is_free", "is_used", "links", "queues", "watched")

    def __init__(
        self,
        links: tuple[BrokerId, ...],
        queues: list[OutputQueue],
        duties: list[Duties | None],
        watched: list[OutputQueue],
        is_free: bool,
    ):
        self.links = links
        self.queues = queues
        self.duties = duties
        self.watched = watched
        self.is_free = is_free
        self.is_used = False

    def is_open(self, now_ms: float) -> bool:
        """Return whether copies may join all queues now."""
        if not self.is_free:
            return False
        for queue in self.queues:
            if not queue.has_room(0) or queue._rerouted:
                return False
        for queue in self.watched:  # noqa: SIM110 (a loop in C)
            if queue.congested(now_ms):
                return False
        return True


def contents_of(publications: list[Any]) -> list[Publication]:
    """Return the contents of publications or requests."""
    return [publication.publication for publication in publications]


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
