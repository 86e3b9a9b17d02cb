"""Adaptive routing at one broker: what arrives becomes duties, and duties become copies in lanes or wait.

``adaptive_routing`` decides; here its decisions are carried out. A copy that finds a rerouted copy of the same
publication waiting for its link is merged with it. A rerouted copy whose lane is full leaves in static parts over plain
lanes. What can go nowhere waits in the waiting room and is routed again when a way may have opened.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from octopia.broker import losses
from octopia.broker.adaptive_routing import (
    AdaptiveDecision,
    Arrival,
    Dispatch,
    from_waiting_room,
    over_alink,
    over_ilink,
    route_adaptively,
    taken_back,
)
from octopia.broker.congestion import LEAST_COPY_MS, Rule, work_of
from octopia.broker.interface import Decision, Detail, LinkView, Routed, Verdict
from octopia.broker.queues import usual_copy_ms
from octopia.broker.rerouting import duties_taken_back, merged, static_parts
from octopia.broker.state import State
from octopia.broker.statuses import AlinkStatus, Status, make_status
from octopia.broker.waiting_room import Place, Waiting
from octopia.errors import ProtocolViolation
from octopia.ids import BrokerId, Peer
from octopia.protocol import ClusterIndexVector
from octopia.protocol.duties import Duties, Lane, Origin, clusters_of, lane_of
from octopia.protocol.messages import Detour, LinkStatuses, Publish
from octopia.protocol.transit import further
from octopia.settings import Algorithm

Outgoing: TypeAlias = tuple[BrokerId, Publish, Duties | None]
"""A copy of a publication, the link that it is for, and under adaptive routing its duties."""


class View:
    """The read-only view of a broker for adaptive routing, for the publications that arrive together.

    They share the verdicts on links. So a large batch that finds a queue empty does not make its own link congested:
    only copies that still wait when the next batch arrives do. ``decisions`` are those that they may share, each with
    the number of publications that may still do so.
    """

    __slots__ = ("_state", "_usual_at_ms", "_usual_ms", "_verdicts", "decisions")

    def __init__(self, state: State):
        self._state = state
        self._verdicts: dict[BrokerId, bool] = {}
        self.decisions: dict[Hashable, tuple[AdaptiveDecision, int]] = {}
        self._usual_ms: float | None = None
        self._usual_at_ms = -1.0

    @property
    def broker(self) -> BrokerId:
        """The broker itself."""
        return self._state.id

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return self._state.neighbourhood.clusters

    @property
    def primary_regions(self) -> Sequence[str]:
        """The regions of the primary neighbours, sorted."""
        return [each.region for each in self._state.neighbourhood.primary_neighbours]

    @property
    def copy_work(self) -> float:
        """The work of one copy on a usual link."""
        usual_ms = self._usual()
        return 1.0 if usual_ms is None else max(LEAST_COPY_MS, usual_ms)

    def alink(self, region: str) -> BrokerId:
        """Return the primary neighbour in ``region``."""
        return BrokerId(region, self._state.cluster)

    def ilink(self, cluster: int) -> BrokerId:
        """Return the secondary neighbour in ``cluster``."""
        return self._state.neighbourhood.secondary_neighbour(cluster)

    def is_up(self, link: BrokerId) -> bool:
        """Return whether the link to a neighbour is up and takes publications."""
        return self._state.carries_data(link)

    def congested(self, link: BrokerId) -> bool:
        """Return whether the link to a neighbour is congested, closed or down."""
        verdict = self._verdicts.get(link)
        if verdict is None:
            queue = self._state.queues[link]
            if self._state.neighbourhood.secondary_neighbours:
                verdict = queue.congested(self._state.now_ms, self._common_ms)
                if not self._avoids_congested(link):
                    verdict = not self._state.carries_data(link)  # Whatever waits, copies take their static paths.
            else:
                verdict = not self._state.carries_data(link)  # With one cluster there is no other way.
            self._verdicts[link] = verdict
        return verdict

    def _avoids_congested(self, link: BrokerId) -> bool:
        """Return whether routing goes around a link because of congestion; see ``switching``."""
        algorithm = self._state.algorithm
        if algorithm is Algorithm.DYNAMIC:
            return link.region == self._state.id.region
        return algorithm is Algorithm.ADAPTIVE

    def queue_length(self, link: BrokerId) -> int:
        """Return the length of a queue as routing sees it."""
        return self._state.queues[link].length

    def look_at(self, link: BrokerId) -> LinkView:
        """Return the state of a link with the rule that made it congested, for explanations."""
        state = self._state
        queue, congested = state.queues[link], self.congested(link)
        if not congested:
            return LinkView(link, queue.length, congested=False)
        if queue.verdict is not Verdict.AUTO:
            return LinkView(link, queue.length, congested=True, rule=Rule.FORCED)
        if queue.is_down:
            return LinkView(link, queue.length, congested=True, rule=Rule.DOWN)
        rule, rule_ms = queue.hold.rule(queue.load(state.now_ms), state.now_ms, self._common_ms())
        return LinkView(link, queue.length, congested=True, rule=rule, rule_ms=rule_ms)

    def work(self, link: BrokerId) -> float:
        """Return the work that waits for the link to a neighbour."""
        return work_of(self._state.queues[link].load(self._state.now_ms), self._usual())

    def told(self, cluster: int, region: str) -> AlinkStatus:
        """Return the last reported status of the aLink to ``region`` at the broker of ``cluster`` in this region."""
        return self._state.statuses.told(cluster, region)

    def linked(self, cluster: int, other: int) -> bool:
        """Return whether the broker of ``cluster`` has, as last reported, an iLink to that of ``other``."""
        return self._state.statuses.linked(cluster, other)

    def _common_ms(self) -> float:
        """Return the time that a copy takes on most links; one that has carried nothing counts as free."""
        return usual_copy_ms(self._state.queues.values(), self._state.now_ms)

    def _usual(self) -> float | None:
        """Return the time that a copy usually takes here: the median, which one slow link does not spoil."""
        now_ms = self._state.now_ms
        if self._usual_at_ms != now_ms:
            paces = [queue.pace.copy_ms(now_ms) for queue in self._state.queues.values()]
            known = [each for each in paces if each is not None]
            self._usual_ms = statistics.median_low(known) if known else None
            self._usual_at_ms = now_ms
        return self._usual_ms


# Copies.


def arrival_of(state: State, sender: BrokerId, publication: Publish) -> Arrival:
    """Return what a copy from a neighbour owes here."""
    civ, detour = publication.publication_civ, publication.detour
    enter = 1 << state.cluster if civ is None else civ.bits
    if sender.cluster == state.cluster:
        return over_alink(sender, enter)
    if detour is None:
        return over_ilink(sender, Duties(enter, (), Origin.HOST, 1))
    return over_ilink(sender, Duties(enter, detour.cross, detour.origin, detour.ilinks))


def check_detour(state: State, sender: BrokerId, publication: Publish, detour: Detour) -> None:
    """Raise ProtocolViolation for a header that this broker cannot have been sent."""
    duties = arrival_of(state, sender, publication).duties
    regions = {each.region for each in state.neighbourhood.primary_neighbours}
    is_alink = sender.cluster == state.cluster
    problem = ""
    if not state.is_adaptive:
        problem = "routing is not adaptive here"
    elif is_alink and detour != Detour(detour.lane):
        problem = "over an aLink it has nothing but clusters to enter"
    elif duties.clusters >> state.neighbourhood.clusters:
        problem = "it names an unknown cluster"
    elif not duties:
        problem = "it owes nothing"
    elif not regions.issuperset(region for region, _ in duties.cross):
        problem = "it is to cross to a region that is no neighbour"
    elif isinstance(duties.origin, str) and (duties.origin not in regions or duties.origin in dict(duties.cross)):
        problem = "it cannot have come from there"
    elif duties.origin is not Origin.LOCAL and any(bits & duties.enter for _, bits in duties.cross):
        problem = "it owes a cluster twice"
    elif detour.lane is not lane_of(duties, state.cluster):
        problem = "it is in the wrong lane"
    if problem:
        raise ProtocolViolation(f"{publication.id} came from {sender} with {detour}: {problem}")


def plain_duties(state: State, source: Peer) -> Duties:
    """Return the duties of a plain copy from a link, or of a client's publication without targets."""
    own = 1 << state.cluster
    if not isinstance(source, BrokerId):
        return Duties(own)
    if source.cluster == state.cluster:
        return Duties(own, (), source.region)
    return Duties(own, (), Origin.HOST, 1)


@functools.cache
def entering(cluster: int) -> Duties:
    """Return the duties of a plain copy that enters a cluster from the host broker."""
    return Duties(1 << cluster, (), Origin.HOST, 1)


def static_copies(
    state: State, view: View, publication: Publish, duties: Duties, alinks: Sequence[BrokerId], targets: int
) -> list[Outgoing] | None:
    """Return the copies that take their static paths, or None if a link that they need is congested.

    ``duties`` are ``plain_duties``, and only a client's publication has ``targets``. This is what ``route_adaptively``
    and ``copies_of`` do if nothing is congested, for most publications and in a fraction of the time.
    """
    for link in alinks:
        if view.congested(link):
            return None
    ilinks = [view.ilink(cluster) for cluster in clusters_of(targets)] if targets else []
    for link in ilinks:
        if view.congested(link):
            return None
    if not alinks and not ilinks:
        return []
    plain = _plain_copy(state, publication)
    copies: list[Outgoing] = [(link, plain, duties) for link in alinks]
    if ilinks:
        copies += [(link, plain, entering(link.cluster)) for link in ilinks]
    return copies


def _plain_copy(state: State, publication: Publish) -> Publish:
    """Return a copy with an empty header for the next hop; beyond the hop bound, it is counted."""
    if publication.hop >= state.settings.hop_limit:
        state.counters.beyond_hop_bound += 1
    return further(publication, 1)


def copies_of(state: State, publication: Publish, dispatches: Sequence[Dispatch]) -> list[Outgoing]:
    """Return the copies of a decision, each with the header for its next hop."""
    plain = _plain_copy(state, publication)
    return [(each.link, _header(state, plain, each), each.duties) for each in dispatches]


def _header(state: State, plain: Publish, dispatch: Dispatch) -> Publish:
    """Return a copy with its header; that of a plain copy, which has nothing to say, is empty."""
    link, duties = dispatch.link, dispatch.duties
    is_own = duties.enter == 1 << link.cluster
    if link.cluster == state.cluster:
        if is_own:
            return plain
        detour = Detour(lane_of(duties, link.cluster))
    elif is_own and not duties.cross and duties.origin is Origin.HOST and duties.ilinks == 1:
        return plain
    else:
        detour = Detour(lane_of(duties, link.cluster), duties.ilinks, duties.origin, duties.cross)
    civ = None if is_own and not duties.cross else ClusterIndexVector(duties.enter, state.neighbourhood.clusters)
    return plain.copy(civ, detour, 0)


def join(state: State, link: BrokerId, copy: Publish, duties: Duties) -> bool:
    """Merge a copy with a rerouted one of the same publication that waits for the same link, if there is one."""
    queue, new = state.queues[link], Dispatch(link, duties)
    for waiting in queue.rerouted(copy.id):
        both = merged(Dispatch(link, waiting), new)
        if both is not None:
            plain = further(copy, 0)
            queue.replace(copy.id, waiting, _header(state, plain, both), both.duties)
            return True
    return False


def joined(state: State, link: BrokerId, copy: Publish, one: Duties, other: Duties) -> tuple[Publish, Duties]:
    """Return one copy for two static parts of one publication on one link: they have the same origin and cluster."""
    both = one.union(other)
    plain = further(copy, 0)
    return _header(state, plain, Dispatch(link, both)), both


def fall_back(state: State, link: BrokerId, copy: Publish, duties: Duties) -> list[Outgoing]:
    """Return the static parts of a rerouted copy whose lane is full; the rest goes to the waiting room."""
    publication = _not_sent(copy)
    parts, rest = static_parts(Dispatch(link, duties), View(state))
    if rest:
        wait(state, publication, rest, refused_by=(link, Lane.REROUTED))
    return copies_of(state, publication, parts)


def _not_sent(copy: Publish) -> Publish:
    """Return the publication of a copy that did not make its next hop."""
    return further(copy, -1)


def interested(state: State, links: Sequence[BrokerId]) -> Sequence[BrokerId]:
    """Return the primary neighbours that want a publication, with those whose subscriptions are not all known."""
    if state.recovery is None or not state.unheard_neighbours:
        return links
    return sorted({*links, *state.unheard_neighbours})


# Copies without an input: taken back from a link, or from the waiting room.


def wait(
    state: State,
    publication: Publish,
    duties: Duties,
    *,
    refused_by: Place | None = None,
    since_ms: float | None = None,
) -> None:
    """Let duties wait for a way."""
    state.room.put(Waiting(publication, duties, state.now_ms if since_ms is None else since_ms, refused_by))


def take_back(state: State, link: BrokerId, copy: Publish, duties: Duties) -> None:
    """Route a copy again that was for a link and did not leave over it."""
    arrival = taken_back(duties_taken_back(Dispatch(link, duties), state.id))
    _route_again(state, _not_sent(copy), arrival, state.now_ms)


def take_back_unsent(state: State, link: BrokerId, copy: Publish) -> None:
    """Route a copy again that had left its queue and was not written: its header tells its duties."""
    if copy.ordered:
        state.forward(link, copy, copy.traffic_class)
        return
    civ, detour = copy.publication_civ, copy.detour
    enter = 1 << link.cluster if civ is None else civ.bits
    if detour is None or link.cluster == state.cluster:
        duties = Duties(enter, (), Origin.HOST, int(link.cluster != state.cluster))
    else:
        duties = Duties(enter, detour.cross, detour.origin, detour.ilinks)
    take_back(state, link, copy, duties)


def retry_all(state: State) -> None:
    """Let everything that waits be routed again: a link has come up or was opened, here or as told."""
    state.room.make_all_due()


def retry_due(state: State) -> None:
    """Route a slice of what is to be routed again."""
    for _ in range(state.settings.slice_max):
        each = state.room.take_due()
        if each is None:
            return
        _route_again(state, each.publication, from_waiting_room(each.duties), each.since_ms)


def retry_refused(state: State, by: Place) -> None:
    """Route again what a lane refused, as long as it has room or if its link is closed or down.

    The iLinks of these copies still count, or they could go back and forth for ever.
    """
    link, traffic_class = by
    while not state.carries_data(link) or (by not in state.blocked and state.queues[link].has_room(traffic_class)):
        each = state.room.take_refused(by)
        if each is None:
            return
        _route_again(state, each.publication, taken_back(each.duties), each.since_ms)


def _route_again(state: State, publication: Publish, arrival: Arrival, since_ms: float) -> None:
    view = View(state)
    decision = route_adaptively(arrival, (), view)
    if decision.steps:
        state.counters.detours += 1
    if state.settings.detail is Detail.ALL:
        state.facts.append(_story(state, view, publication, arrival, decision))
    for each in decision.waiting:
        wait(state, publication, each, since_ms=since_ms)
    copies = copies_of(state, publication, decision.dispatches)
    while copies:
        link, copy, duties = copies.pop(0)
        assert duties is not None
        place = (link, copy.traffic_class)
        if join(state, link, copy, duties):
            continue
        if place not in state.blocked and state.queues[link].has_room(copy.traffic_class):
            state.forward(link, copy, copy.traffic_class, duties)
        elif copy.traffic_class == Lane.REROUTED:
            copies += fall_back(state, link, copy, duties)
        else:
            rest = duties_taken_back(Dispatch(link, duties), state.id)
            wait(state, publication, rest, refused_by=place, since_ms=since_ms)


def look_at_links(view: View, arrival: Arrival, decision: AdaptiveDecision) -> tuple[LinkView, ...]:
    """Return the states of the links that a copy needs or takes, aLinks first, each by broker id."""
    here = view.broker
    links = {view.ilink(cluster) for cluster in clusters_of(arrival.duties.enter) if cluster != here.cluster}
    for step in decision.steps:
        links.update(view.alink(region) for region, _ in step.duties.cross)
        if step.link is not None:
            links.add(step.link)
    return tuple(view.look_at(link) for link in sorted(links, key=lambda link: (link.region == here.region, link)))


def _story(state: State, view: View, publication: Publish, arrival: Arrival, decision: AdaptiveDecision) -> Routed:
    """Return the record of a decision about a copy that was already here."""
    targets = ClusterIndexVector(arrival.duties.enter, state.neighbourhood.clusters)
    links = look_at_links(view, arrival, decision)
    return Routed(publication.id, publication.publication, state.id, (), (), (), targets, links, Decision(()), decision)


# Limits (D10).


def enforce(state: State) -> None:
    """Drop what has waited too long in the waiting room, and the oldest of too much."""
    settings = state.settings
    for each in state.room.take_beyond(settings.down_limit_bytes, state.now_ms - settings.down_limit_ms):
        state.trace_drop(each.publication, None, 1, "no way to its subscribers opened in time")
        losses.found_no_way(state, each.duties)


def has_deadlines(state: State) -> bool:
    """Return whether ``next_deadline_ms`` may not be None."""
    return bool(state.room.entries or state.status_sender.told.congested)


def next_deadline_ms(state: State) -> float | None:
    """Return when a copy has waited too long, or when the statuses of links have to be told again."""
    oldest_ms, routing = state.room.oldest_ms, state.settings.routing
    due = [] if oldest_ms is None else [oldest_ms + state.settings.down_limit_ms]
    if any(_may_change(state, region) for region, _ in state.status_sender.told.congested):
        due.append((state.now_ms // routing.window_ms + 1) * routing.window_ms)
    return min(due, default=None)


def _may_change(state: State, region: str) -> bool:
    """Return whether time alone may change the status of an aLink that was told to be congested."""
    queue = state.queues[BrokerId(region, state.cluster)]
    return queue.verdict is Verdict.AUTO and not queue.is_down


# Statuses.


def tell_statuses(state: State) -> None:
    """Send the status of congested and dead links to the other brokers of this region, if it has changed."""
    window_ms, sender = state.settings.routing.window_ms, state.status_sender
    window = int(state.now_ms // window_ms)
    sender.next_look_ms = (window + 1) * window_ms
    state.links_changed = False
    due = sender.due(_status(state), window)
    if due is not None:
        for secondary in state.neighbourhood.secondary_neighbours:
            _tell(state, secondary, due)


def greet(state: State, secondary: BrokerId) -> None:
    """Begin with a secondary neighbour whose iLink came up: neither end remembers what the other has told."""
    state.statuses.forget(secondary.cluster)
    told = state.status_sender.for_new_ilink()
    if told is not None:
        _tell(state, secondary, told)


def on_statuses(state: State, sender: BrokerId, message: LinkStatuses) -> None:
    """Store the statuses of a secondary neighbour's links; one that came up may be a way."""
    status = Status(message.congested, message.down_alinks, message.down_ilinks)
    if state.statuses.store(sender.cluster, status) and len(state.room):
        retry_all(state)


def _tell(state: State, secondary: BrokerId, status: Status) -> None:
    if secondary not in state.down:
        state.send(secondary, LinkStatuses(status.congested, status.down_alinks, status.down_ilinks))


def _status(state: State) -> Status:
    """Return the status of all links; one that is closed counts as down."""
    view, works = View(state), dict[str, float]()
    down, down_ilinks = list[str](), 0
    for link in state.neighbourhood.primary_neighbours:
        if not view.is_up(link):
            down.append(link.region)
        elif view.congested(link):
            works[link.region] = view.work(link)
    for link in state.neighbourhood.secondary_neighbours:
        if not view.is_up(link):
            down_ilinks |= 1 << link.cluster
    return make_status(works, tuple(down), down_ilinks)
