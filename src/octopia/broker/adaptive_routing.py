"""Adaptive routing: every link is another way.

The paper's dynamic routing avoids congested iLinks. It cannot avoid a congested or dead aLink, nor a dead broker, since
a tree has one path. The overlay has more: every cluster has the tree edge x-z, so a copy may go from (x,i) over an
iLink to (x,c), cross the edge there, and return to cluster i later. For that, a copy carries *duties* in its header
(``octopia.protocol.duties``).

Theory of operation
-------------------

A routing step replaces the duties of a copy by a partition of them. Congestion, queue lengths and reported statuses
only select *which* partition. So they decide how fast a publication arrives, and never whether or how often it does,
even if they are wrong or old.

1. The broker's own cluster: deliver here, and cross to the primary regions with matching subscriptions.
2. If no link that is needed is congested or down, the copies are exactly those of static routing. This is the common
   case, for which the broker has a short cut (``adapting.static_copies``).
3. A cluster whose broker in this region cannot be reached is *lost* here: other regions enter it, and one copy for the
   clients of the lost broker waits.
4. At the host broker, clusters without subscribers in this region need not be entered here: they only cross.
5. Free aLinks get their copies. One more copy takes everything else over the best *way*: over the aLinks here after
   all, or over one iLink, to a broker that then decides again.

Termination: a copy never goes back to the region it came from, and after ``2k`` iLinks within a region it goes directly
or waits. So it makes at most ``(2k + 1) * (diameter + 1) + diameter`` hops between two stays in the waiting room.

A broker knows its own links and, as told, those of its secondary neighbours. It knows nothing of the links between
brokers to which its own links are down, and counts them as up. So a copy may relay several times, and a cluster is
lost only at a broker that knows better, or after ``2k`` iLinks.

The broker around it
--------------------

- A queued copy keeps its duties as in its ``Dispatch``, until it is written. When its link goes down, it is taken back
  and routed again (``octopia.broker.rerouting``). Ordered copies stay.
- Copies whose duties are all for the receiver's cluster use the plain lane of a link, and others the rerouted lane. If
  the rerouted lane is full, a copy is split into static parts. So rerouted copies wait for plain lanes only, and plain
  lanes wait along trees only: there is no cycle, and everything drains.
- What can go nowhere waits in a room that blocks no lane. It is routed again when a link comes up here or, as told, at
  a secondary neighbour. What only a full lane has refused is routed again when there is room, and keeps its ``ilinks``.

Left out: ways that turn back in the tree. Ordered publications are routed by ``route_statically`` at every broker.

Routing decides and changes nothing: an arrival and a read-only view in, a decision out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from octopia.broker.statuses import AlinkStatus
from octopia.ids import BrokerId
from octopia.protocol.directions import Directions
from octopia.protocol.duties import Duties, Entered, Origin, clusters_of, crossings, regions_beyond


class AdaptiveView(Protocol):
    """Everything that adaptive routing may know about its broker.

    ``work`` (W) is the length of a queue, in copies or in time; ``copy_work`` is that of one copy.
    """

    @property
    def broker(self) -> BrokerId:
        """The broker itself."""

    @property
    def clusters(self) -> int:
        """The number of clusters, k."""

    @property
    def primary_regions(self) -> Sequence[str]:
        """The regions of the primary neighbours, sorted."""

    @property
    def copy_work(self) -> float:
        """The work of one copy on a usual link."""

    def alink(self, region: str) -> BrokerId:
        """Return the primary neighbour in ``region``."""

    def ilink(self, cluster: int) -> BrokerId:
        """Return the secondary neighbour in ``cluster``."""

    def is_up(self, link: BrokerId) -> bool:
        """Return whether the link to a neighbour is up."""

    def congested(self, link: BrokerId) -> bool:
        """Return whether the link to a neighbour is congested or down."""

    def work(self, link: BrokerId) -> float:
        """Return the work that waits for the link to a neighbour, which is up."""

    def told(self, cluster: int, region: str) -> AlinkStatus:
        """Return the last reported status of the aLink to ``region`` at the broker of ``cluster`` in this region."""

    def linked(self, cluster: int, other: int) -> bool:
        """Return whether the broker of ``cluster`` has, as last reported, an iLink to that of ``other``."""


class Audience(msgspec.Struct, frozen=True, gc=False):
    """The clusters that want a publication, as the host broker knows them from CIV updates.

    ``targets`` has the bits of all other clusters with any direction. ``counted`` has the directions of each; a pending
    cluster counts as wanting everything. ``held`` has the last directions that each cluster has sent, pending or not; a
    cluster that never sent any is missing there.
    """

    targets: int
    counted: Mapping[int, Directions]
    held: Mapping[int, Directions]


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A copy to be routed: its duties here, the neighbour that sent it over an iLink, and its audience at the host."""

    duties: Duties
    ilink: BrokerId | None = None
    audience: Audience | None = None


def published(cluster: int, audience: Audience) -> Arrival:
    """Return the arrival of a client's publication at its host broker, which is of ``cluster``."""
    return Arrival(Duties(audience.targets | 1 << cluster), None, audience)


def over_alink(sender: BrokerId, enter: int) -> Arrival:
    """Return the arrival of a copy over an aLink; its header has only the clusters to enter."""
    return Arrival(Duties(enter, (), sender.region))


def over_ilink(sender: BrokerId, duties: Duties) -> Arrival:
    """Return the arrival of a copy over an iLink."""
    return Arrival(duties, sender)


def taken_back(duties: Duties) -> Arrival:
    """Return the arrival of a copy that was taken out of the queue of a link."""
    return Arrival(duties)


def from_waiting_room(duties: Duties) -> Arrival:
    """Return the arrival of a copy that waited here until a way opened; its iLinks count from 0 again."""
    return Arrival(msgspec.structs.replace(duties, ilinks=0))


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """One copy: the link it takes, and its duties.

    Over an aLink the header has only ``enter``. The queue keeps the sender's ``origin`` and ``ilinks``, in case the
    copy is taken back.
    """

    link: BrokerId
    duties: Duties


class Reason(enum.StrEnum):
    """The reasons why duties go where they go."""

    STATIC = "all links that it needs are free"
    FREE = "the aLink is free"
    THROUGH = "the copy came here to cross"
    BEST = "it is the best way"
    TIRED = "the copy has crossed too many iLinks"
    LOST = "the broker cannot be reached from this region"
    ELSEWHERE = "nobody in this region wants it"
    DOWN = "the link is down"
    NOWHERE = "there is no way"


class Way(msgspec.Struct, frozen=True, gc=False):
    """A way that was compared: over an iLink, or over the aLinks here if ``link`` is None; the smallest key is best."""

    link: BrokerId | None
    key: tuple[int, float]


class Step(msgspec.Struct, frozen=True, gc=False):
    """A part of a decision: some duties, their link (None: they wait or are replaced), the reason, and all ways.

    With ``Reason.ELSEWHERE``, and with ``Reason.LOST`` if nothing waits, the duties are the new ones: clusters that
    cross instead of being entered here.
    """

    duties: Duties
    link: BrokerId | None
    reason: Reason
    ways: tuple[Way, ...] = ()


class AdaptiveDecision(msgspec.Struct, frozen=True, gc=False):
    """The copies, aLinks first, each by broker id; the duties that wait here; and whether clients here get it.

    ``steps`` tell why, in order. There are none if all copies take their static paths.
    """

    dispatches: tuple[Dispatch, ...]
    waiting: tuple[Duties, ...] = ()
    delivers: bool = False
    steps: tuple[Step, ...] = ()


def route_adaptively(arrival: Arrival, interested: Sequence[BrokerId], at: AdaptiveView) -> AdaptiveDecision:
    """Partition the duties of a copy over the links of a broker.

    ``interested`` are the primary last hops of matching subscriptions, by id; they are read only if the copy enters
    the cluster of this broker.
    """
    duties = arrival.duties
    own = 1 << at.broker.cluster
    delivers = duties.enter & own != 0
    alinks = _alinks_beyond(duties.origin, interested) if delivers else ()
    others = duties.enter & ~own
    if not duties.cross and not _any_congested(alinks, others, at):
        return AdaptiveDecision(_static_copies(own, alinks, others, duties, at), (), delivers)
    plan = _Plan(others, dict(duties.cross), duties.origin, duties.ilinks, at)
    for link in alinks:
        plan.cross[link.region] = plan.cross.get(link.region, 0) | own
    _reroute(plan, arrival, transit=arrival.ilink is not None and not delivers)
    return AdaptiveDecision(plan.sorted_dispatches(), tuple(plan.waiting), delivers, tuple(plan.steps))


def _alinks_beyond(origin: Entered, interested: Sequence[BrokerId]) -> Sequence[BrokerId]:
    if origin is Origin.HOST:
        return interested
    if origin is Origin.LOCAL:
        return ()
    return [link for link in interested if link.region != origin]


def _any_congested(alinks: Iterable[BrokerId], enter: int, at: AdaptiveView) -> bool:
    for link in alinks:
        if at.congested(link):
            return True
    while enter:
        lowest = enter & -enter
        if at.congested(at.ilink(lowest.bit_length() - 1)):
            return True
        enter ^= lowest
    return False


def _static_copies(
    own: int, alinks: Sequence[BrokerId], others: int, duties: Duties, at: AdaptiveView
) -> tuple[Dispatch, ...]:
    """Return the copies of static routing; those over aLinks share their duties."""
    origin, ilinks = duties.origin, duties.ilinks
    onward = Duties(own, (), origin, ilinks)
    copies = [Dispatch(link, onward) for link in alinks]
    copies += [Dispatch(at.ilink(each), Duties(1 << each, (), origin, ilinks + 1)) for each in clusters_of(others)]
    return tuple(copies)


class _Plan:
    """The duties that are still to be placed (``enter`` and ``cross``), and those that are."""

    __slots__ = ("at", "cross", "dispatches", "enter", "ilinks", "origin", "steps", "waiting")

    def __init__(self, enter: int, cross: dict[str, int], origin: Entered, ilinks: int, at: AdaptiveView):
        self.enter = enter
        self.cross = cross
        self.origin = origin
        self.ilinks = ilinks
        self.at = at
        self.dispatches: list[Dispatch] = []
        self.waiting: list[Duties] = []
        self.steps: list[Step] = []

    @property
    def is_tired(self) -> bool:
        """True if the copy has crossed as many iLinks of this region as it may."""
        return self.ilinks >= 2 * self.at.clusters

    def send_across(self, region: str, reason: Reason, ways: Sequence[Way] = ()) -> None:
        """Send what is to cross to a region over the aLink here."""
        duties = Duties(self.cross.pop(region), (), self.origin, self.ilinks)
        self._send(self.at.alink(region), duties, reason, ways)

    def send_directly(self, cluster: int, reason: Reason) -> None:
        """Send a plain copy over the iLink of a cluster that is to be entered."""
        self.enter ^= 1 << cluster
        self._send(self.at.ilink(cluster), Duties(1 << cluster, (), self.origin, self.ilinks + 1), reason)

    def send_everything(self, link: BrokerId, ways: Sequence[Way]) -> None:
        """Send all remaining duties over one iLink."""
        duties = Duties(self.enter, crossings(self.cross), self.origin, self.ilinks + 1)
        self.enter, self.cross = 0, {}
        self._send(link, duties, Reason.BEST, ways)

    def wait(self, duties: Duties, reason: Reason) -> None:
        """Leave duties in the waiting room."""
        if duties:
            self.waiting.append(duties)
            self.steps.append(Step(duties, None, reason))

    def wait_with_rest(self, reason: Reason) -> None:
        """Leave all remaining duties in the waiting room."""
        self.wait(Duties(self.enter, crossings(self.cross), self.origin, self.ilinks), reason)
        self.enter, self.cross = 0, {}

    def cross_instead(self, cluster: int, regions: Iterable[str]) -> None:
        """Enter a cluster in other regions instead of this one."""
        self.enter ^= 1 << cluster
        for region in regions:
            self.cross[region] = self.cross.get(region, 0) | 1 << cluster

    def note_crossing(self, cross: dict[str, int], reason: Reason) -> None:
        """Record why clusters cross to other regions instead of being entered here."""
        self.steps.append(Step(Duties(0, crossings(cross), self.origin, self.ilinks), None, reason))

    def sorted_dispatches(self) -> tuple[Dispatch, ...]:
        """Return the copies, aLinks first, each by broker id."""
        region = self.at.broker.region
        return tuple(sorted(self.dispatches, key=lambda each: (each.link.region == region, each.link)))

    def _send(self, link: BrokerId, duties: Duties, reason: Reason, ways: Sequence[Way] = ()) -> None:
        self.dispatches.append(Dispatch(link, duties))
        self.steps.append(Step(duties, link, reason, tuple(ways)))


def _reroute(plan: _Plan, arrival: Arrival, *, transit: bool) -> None:
    """Place all duties; a link that they need may be congested or down."""
    changed = _give_up_lost(plan, arrival.audience)
    if plan.is_tired or ((changed or arrival.duties.cross) and _all_free(plan)):
        _go_directly(plan)
        return
    if arrival.audience is not None:
        _cross_early(plan, arrival.audience)
    _send_over_alinks(plan, transit=transit)
    while plan.enter or plan.cross:
        ways = _ways(plan, arrival, transit=transit)
        if not ways:
            plan.wait_with_rest(Reason.NOWHERE)
            return
        best = min(ways, key=lambda way: way.key)
        if best.link is not None:
            plan.send_everything(best.link, ways)
            return
        for region in sorted(plan.cross):
            if plan.at.is_up(plan.at.alink(region)):
                plan.send_across(region, Reason.BEST, ways)


def _all_free(plan: _Plan) -> bool:
    return not _any_congested(map(plan.at.alink, plan.cross), plan.enter, plan.at)


def _give_up_lost(plan: _Plan, audience: Audience | None) -> bool:
    """Enter lost clusters in other regions, and return whether there are any.

    What is for the clients of a lost broker waits.
    """
    at, before = plan.at, plan.enter
    for cluster in clusters_of(before):
        if not _is_lost(cluster, plan):
            continue
        held = audience.held.get(cluster) if audience is not None else None
        regions = regions_beyond(plan.origin, at.primary_regions) if held is None else held.regions
        plan.cross_instead(cluster, regions)
        if held is None or held.here:
            plan.wait(Duties(1 << cluster, (), Origin.LOCAL, plan.ilinks), Reason.LOST)
        else:
            plan.note_crossing(dict.fromkeys(regions, 1 << cluster), Reason.LOST)
    return plan.enter != before


def _is_lost(cluster: int, plan: _Plan) -> bool:
    at = plan.at
    if at.is_up(at.ilink(cluster)):
        return False
    return plan.is_tired or not _guides(at)


def _go_directly(plan: _Plan) -> None:
    """Send plain copies, as static routing does; what is for a link that is down waits."""
    at, reason = plan.at, Reason.TIRED if plan.is_tired else Reason.STATIC
    for region in sorted(plan.cross):
        if at.is_up(at.alink(region)):
            plan.send_across(region, reason)
    for cluster in clusters_of(plan.enter):
        if at.is_up(at.ilink(cluster)):
            plan.send_directly(cluster, reason)
    plan.wait_with_rest(Reason.DOWN)


def _cross_early(plan: _Plan, audience: Audience) -> None:
    """Enter clusters without subscribers in the host region only in the regions that want the publication."""
    moved: dict[str, int] = {}
    for cluster in clusters_of(plan.enter):
        directions = audience.counted[cluster]
        if not directions.here:
            plan.cross_instead(cluster, directions.regions)
            for region in directions.regions:
                moved[region] = moved.get(region, 0) | 1 << cluster
    if moved:
        plan.note_crossing(moved, Reason.ELSEWHERE)


def _send_over_alinks(plan: _Plan, *, transit: bool) -> None:
    """Send over free aLinks; a copy that came here to cross also takes congested ones."""
    at, through = plan.at, transit and not plan.enter
    for region in sorted(plan.cross):
        link = at.alink(region)
        if not at.congested(link):
            plan.send_across(region, Reason.FREE)
        elif through and at.is_up(link):
            plan.send_across(region, Reason.THROUGH)


def _ways(plan: _Plan, arrival: Arrival, *, transit: bool) -> list[Way]:
    """Return the ways for the rest: here first, then by cluster, so that the first of equal keys is taken."""
    back = arrival.ilink
    if plan.enter:
        return _ways_in(plan, back, transit=transit) or _far_ways_in(plan, back)
    return _ways_across(plan) or _far_ways_across(plan, back)


def _ways_in(plan: _Plan, back: BrokerId | None, *, transit: bool) -> list[Way]:
    """Return the ways to clusters that are still to be entered: their own iLinks, and relays."""
    at, enter = plan.at, plan.enter
    cut_off = not any(at.is_up(at.ilink(cluster)) for cluster in clusters_of(enter))
    ways = []
    for cluster in _neighbours(at):
        link = at.ilink(cluster)
        if enter >> cluster & 1:
            ways.append(Way(link, (int(at.congested(link)), at.work(link))))
        elif (cut_off or (not transit and link != back)) and _is_linked(cluster, enter, at):
            ways.append(Way(link, (1, at.work(link) + at.copy_work)))
    return ways


def _far_ways_in(plan: _Plan, back: BrokerId | None) -> list[Way]:
    """Return the ways over several relays, if there are no others; back to the sender only if nothing else is left."""
    at = plan.at
    return [Way(link, (2 + (link == back), at.work(link) + 2 * at.copy_work)) for link in _guides(at)]


def _ways_across(plan: _Plan) -> list[Way]:
    """Return the ways over tree edges: the aLinks here, and those of other clusters."""
    at, cross = plan.at, plan.cross
    links = [at.alink(region) for region in cross]
    works = [at.work(link) for link in links if at.is_up(link)]
    ways = [Way(None, (len(cross) - len(works), max(works)))] if works else []
    carried = 0
    for bits in cross.values():
        carried |= bits
    for cluster in _neighbours(at):
        told = [at.told(cluster, region) for region in cross]
        works = [status.work for status in told if status.is_up]
        if works:
            detour = at.copy_work if carried >> cluster & 1 else 2 * at.copy_work
            work = at.work(at.ilink(cluster)) + detour + max(works)
            ways.append(Way(at.ilink(cluster), (len(cross) - len(works), work)))
    return ways


def _far_ways_across(plan: _Plan, back: BrokerId | None) -> list[Way]:
    """Return the ways to brokers of which nothing is known, if no edge is up at any other; never back to the sender."""
    at = plan.at
    work = [(link, at.work(link) + 2 * at.copy_work) for link in _guides(at) if link != back]
    return [Way(link, (len(plan.cross), each)) for link, each in work]


def _other_clusters(at: AdaptiveView) -> Iterator[int]:
    return (cluster for cluster in range(at.clusters) if cluster != at.broker.cluster)


def _neighbours(at: AdaptiveView) -> Iterator[int]:
    """Yield the clusters whose iLink is up, lowest first."""
    return (cluster for cluster in _other_clusters(at) if at.is_up(at.ilink(cluster)))


def _guides(at: AdaptiveView) -> list[BrokerId]:
    """Return the neighbours that have, as told, a link to a broker to which this one has none.

    This broker knows nothing of the links between such brokers, so they count as up: a guide may lead to any of them.
    """
    cut_off = sum(1 << cluster for cluster in _other_clusters(at) if not at.is_up(at.ilink(cluster)))
    return [at.ilink(cluster) for cluster in _neighbours(at) if _is_linked(cluster, cut_off, at)]


def _is_linked(cluster: int, targets: int, at: AdaptiveView) -> bool:
    return any(at.linked(cluster, target) for target in clusters_of(targets))
