"""A reference world for adaptive routing: an overlay made only of the pure functions, with subscriptions as sets.

Verdicts, queue lengths and statuses are given by a *view* for every routing step, and may be anything. Links go down
and come back, brokers lose everything they hold, and lanes are bounded. A world knows what is owed to whom, so after
every step it can tell whether all copies together still owe exactly that.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from octopia.broker import adaptive_routing, rerouting
from octopia.broker.adaptive_routing import AdaptiveDecision, AdaptiveView, Arrival, Audience, Directions, Dispatch
from octopia.broker.statuses import AlinkStatus
from octopia.ids import BrokerId
from octopia.overlay import Scot, parse_tree
from octopia.protocol.duties import Duties, Lane, Origin, clusters_of, lane_of

at = BrokerId.parse

Link: TypeAlias = tuple[BrokerId, BrokerId]
Copy: TypeAlias = tuple[int, Duties]
"""The number of a publication, and the duties of one copy of it."""
Place: TypeAlias = tuple[Any, ...]
"""Where copies are: ``("out", sender, receiver, lane)``, ``("in", …)``, ``("placing", *place of the input)``,
``("room", broker)``, ``("refused", broker)``, ``("again", broker)`` and ``("client", broker)``. The waiting room has
two parts: copies in "room" have no way, and those in "refused" only found a full lane."""


def link_of(text: str) -> Link:
    """Parse a link, ``a.0-a.1``."""
    one, other = map(at, text.split("-"))
    return (one, other) if one < other else (other, one)


class Ground:
    """An overlay with subscribers: everything that does not change."""

    def __init__(self, tree: str, clusters: int, subscribers: str | Iterable[BrokerId] | None = None):
        self.scot = Scot(parse_tree(tree), clusters)
        self.clusters = clusters
        self.brokers = self.scot.brokers
        self.adjacency = self.scot.tree.adjacency()
        if isinstance(subscribers, str):
            subscribers = map(at, subscribers.split())
        self.wanted = frozenset(self.brokers if subscribers is None else subscribers)
        self._bit = {broker: 1 << number for number, broker in enumerate(self.brokers)}
        self.owed_in_all = self.bits_of(self.wanted)
        self._owed: dict[tuple[BrokerId, Duties], int] = {}
        self.links = sorted({*self.scot.alinks, *self.scot.ilinks})
        self._behind: dict[tuple[str, str], frozenset[str]] = {}

    def bits_of(self, brokers: Iterable[BrokerId]) -> int:
        return sum(self._bit[each] for each in set(brokers))

    def names_of(self, bits: int) -> str:
        return " ".join(str(each) for each in self.brokers if self._bit[each] & bits)

    def behind(self, region: str, beyond: str) -> frozenset[str]:
        """Return the regions on the side of ``beyond`` of the tree edge between the two."""
        known = self._behind.get((region, beyond))
        if known is None:
            known = self._behind[region, beyond] = frozenset(self._walk(beyond, region))
        return known

    def _walk(self, region: str, origin: str) -> Iterator[str]:
        yield region
        for each in self.adjacency[region]:
            if each != origin:
                yield from self._walk(each, region)

    def wants(self, regions: Iterable[str], cluster: int) -> bool:
        return any(BrokerId(each, cluster) in self.wanted for each in regions)

    @functools.cache  # noqa: B019 - a ground lives as long as its test.
    def interested(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """Return the primary last hops of matching subscriptions."""
        return tuple(
            BrokerId(region, broker.cluster)
            for region in self.adjacency[broker.region]
            if self.wants(self.behind(broker.region, region), broker.cluster)
        )

    def directions(self, region: str, cluster: int) -> Directions:
        """Return the parts of a cluster that want the publication, as seen from a region."""
        regions = [each for each in self.adjacency[region] if self.wants(self.behind(region, each), cluster)]
        return Directions(BrokerId(region, cluster) in self.wanted, tuple(regions))

    @functools.cache  # noqa: B019 - a ground lives as long as its test.
    def audience(self, host: BrokerId) -> Audience:
        held = {each: self.directions(host.region, each) for each in range(self.clusters) if each != host.cluster}
        counted = {cluster: each for cluster, each in held.items() if each.here or each.regions}
        return Audience(sum(1 << cluster for cluster in counted), counted, held)

    def owed(self, broker: BrokerId, duties: Duties) -> int:
        """Return the bits of the subscribers to whom duties at a broker owe the publication."""
        known = self._owed.get((broker, duties))
        if known is None:
            known = self._owed[broker, duties] = self.bits_of(self._owed_by(broker, duties))
        return known

    def _owed_by(self, broker: BrokerId, duties: Duties) -> Iterator[BrokerId]:
        region = broker.region
        found = []
        for cluster in clusters_of(duties.enter):
            found.append(BrokerId(region, cluster))
            if duties.origin is Origin.LOCAL:
                continue
            for each in self.adjacency[region]:
                if each != duties.origin:
                    found += [BrokerId(far, cluster) for far in self.behind(region, each)]
        for beyond, bits in duties.cross:
            assert beyond != duties.origin, f"{broker} owes something to where it came from: {duties}"
            found += [BrokerId(far, each) for each in clusters_of(bits) for far in self.behind(region, beyond)]
        assert len(found) == len(set(found)), f"{broker} owes something twice: {duties}"
        return iter([each for each in found if each in self.wanted])


@dataclasses.dataclass(frozen=True, slots=True)
class Glance:
    """Everything that routing sees of a broker, made up; whatever is not given is up, free and empty."""

    broker: BrokerId
    clusters: int
    primary_regions: tuple[str, ...]
    down: frozenset[BrokerId] = frozenset()
    full: frozenset[BrokerId] = frozenset()
    works: Mapping[BrokerId, float] = dataclasses.field(default_factory=dict)
    statuses: Mapping[tuple[int, str], AlinkStatus] = dataclasses.field(default_factory=dict)
    unlinked: frozenset[tuple[int, int]] = frozenset()
    copy_work: float = 1.0

    def alink(self, region: str) -> BrokerId:
        return BrokerId(region, self.broker.cluster)

    def ilink(self, cluster: int) -> BrokerId:
        return BrokerId(self.broker.region, cluster)

    def is_up(self, link: BrokerId) -> bool:
        return link not in self.down

    def congested(self, link: BrokerId) -> bool:
        return link in self.full or link in self.down

    def work(self, link: BrokerId) -> float:
        assert link not in self.down
        return self.works.get(link, 0.0)

    def told(self, cluster: int, region: str) -> AlinkStatus:
        return self.statuses.get((cluster, region), AlinkStatus())

    def linked(self, cluster: int, other: int) -> bool:
        return (cluster, other) not in self.unlinked


Route: TypeAlias = Callable[[Arrival, Iterable[BrokerId], AdaptiveView], AdaptiveDecision]
Fallback: TypeAlias = tuple[tuple[Dispatch, ...], Duties]
Outcome: TypeAlias = tuple[bool, tuple[Dispatch, ...], tuple[Duties, ...], tuple[Fallback, ...]]
"""A decision, with the fallback of each of its copies."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The functions that a world is made of; tests plant faults by replacing one."""

    route: Route = adaptive_routing.route_adaptively
    merge: Callable[[Dispatch, Dispatch], Dispatch | None] = rerouting.merged
    fallback: Callable[[Dispatch, AdaptiveView], tuple[list[Dispatch], Duties]] | None = rerouting.static_parts
    lane: Callable[[Duties, int], Lane] = lane_of
    again: Callable[[Duties], Arrival] = adaptive_routing.taken_back


@dataclasses.dataclass(slots=True)
class Moment:
    """The state of a world: the copies at each place, what was delivered, lost in crashes, and which links are down."""

    places: dict[Place, tuple[Copy, ...]]
    delivered: tuple[int, ...]
    lost: tuple[int, ...]
    down: frozenset[Link] = frozenset()
    troubles: int = 0

    @property
    def key(self) -> Any:
        return (frozenset(self.places.items()), self.delivered, self.lost, self.down, self.troubles)

    def copy(self) -> Moment:
        return dataclasses.replace(self, places=dict(self.places))

    def add(self, place: Place, copy: Any) -> None:
        self.places[place] = (*self.places.get(place, ()), copy)

    def set(self, place: Place, copies: Sequence[Any]) -> None:
        if copies:
            self.places[place] = tuple(copies)
        else:
            self.places.pop(place, None)


class World:
    """The steps of a world; ``capacity`` bounds every lane, 0 for no bound."""

    def __init__(self, ground: Ground, rules: Rules | None = None, capacity: int = 0):
        self.ground = ground
        self.rules = rules or Rules()
        self.capacity = capacity
        self._outcomes: dict[Any, list[Outcome]] = {}
        self._views: dict[tuple[BrokerId, frozenset[Link]], list[Glance]] = {}

    def start(self, *hosts: str, down: Iterable[str] = (), troubles: int = 0) -> Moment:
        """Return the first moment: one publication waits at each of the hosts."""
        moment = Moment({}, (0,) * len(hosts), (0,) * len(hosts), frozenset(map(link_of, down)), troubles)
        for number, host in enumerate(hosts):
            moment.add(("client", at(host)), (number, Duties(0)))
        return moment

    def is_up(self, moment: Moment, one: BrokerId, other: BrokerId) -> bool:
        return ((one, other) if one < other else (other, one)) not in moment.down

    # Views.

    def truth(self, moment: Moment, broker: BrokerId, full: frozenset[BrokerId] = frozenset()) -> Glance:
        """Return what is so: links, and queues as they are."""
        ground, region = self.ground, broker.region
        regions = ground.adjacency[region]
        near = [BrokerId(each, broker.cluster) for each in regions]
        near += [BrokerId(region, each) for each in range(ground.clusters) if each != broker.cluster]
        statuses, unlinked = {}, set()
        for cluster in range(ground.clusters):
            other = BrokerId(region, cluster)
            for each in regions:
                if not self.is_up(moment, other, BrokerId(each, cluster)):
                    statuses[cluster, each] = AlinkStatus(is_up=False)
            unlinked |= {
                (cluster, each)
                for each in range(ground.clusters)
                if each != cluster and not self.is_up(moment, other, BrokerId(region, each))
            }
        return Glance(
            broker,
            ground.clusters,
            tuple(regions),
            frozenset(each for each in near if not self.is_up(moment, broker, each)),
            full,
            {each: float(self._queued(moment, broker, each)) for each in near},
            statuses,
            frozenset(unlinked),
        )

    def _queued(self, moment: Moment, broker: BrokerId, link: BrokerId) -> int:
        return sum(len(moment.places.get(("out", broker, link, lane), ())) for lane in Lane)

    def every_glance(self, moment: Moment, broker: BrokerId) -> Iterator[Glance]:
        """Yield every combination of verdicts, of long and short queues, and of statuses, right or wrong."""
        base = self.truth(moment, broker)
        others = [each for each in range(base.clusters) if each != broker.cluster]
        up = [each for each in base.works if base.is_up(each)]
        known = [each for each in others if base.is_up(base.ilink(each))]
        aside = [(cluster, region) for cluster in known for region in base.primary_regions]
        pairs = [(one, other) for one in known for other in others if one != other]
        told = [AlinkStatus(), AlinkStatus(work=3.0), AlinkStatus(is_up=False)]
        for full in _subsets(up):
            for long in _subsets(up):
                works = {each: 4.0 if each in long else 0.0 for each in up}
                for statuses in itertools.product(told, repeat=len(aside)):
                    for unlinked in _subsets(pairs):
                        yield dataclasses.replace(
                            base,
                            full=full,
                            works=works,
                            statuses=dict(zip(aside, statuses, strict=True)),
                            unlinked=unlinked,
                        )

    # Steps.

    def arrivals(self, moment: Moment) -> Iterator[tuple[Place, BrokerId, Arrival]]:
        """Yield the copies that can be routed: the first of each input that does not wait for room."""
        for place, copies in moment.places.items():
            kind = place[0]
            if ("placing", *place) in moment.places:
                continue
            duties = copies[0][1]
            if kind == "in":
                yield place, place[2], self._arrival(place[1], place[2], duties)
            elif kind == "client":
                audience = self.ground.audience(place[1])
                yield place, place[1], adaptive_routing.published(place[1].cluster, audience)
            elif kind == "again":
                yield place, place[1], self.rules.again(duties)

    def _arrival(self, sender: BrokerId, receiver: BrokerId, duties: Duties) -> Arrival:
        if sender.cluster == receiver.cluster:
            return adaptive_routing.over_alink(sender, duties.enter)
        return adaptive_routing.over_ilink(sender, duties)

    def outcome(self, broker: BrokerId, arrival: Arrival, view: AdaptiveView, *, fallbacks: bool) -> Outcome:
        decision = self.rules.route(arrival, self.ground.interested(broker), view)
        fallen: list[tuple[tuple[Dispatch, ...], Duties]] = []
        if fallbacks and self.rules.fallback is not None:
            for each in decision.dispatches:
                parts, rest = self.rules.fallback(each, view)
                fallen.append((tuple(parts), rest))
        return decision.delivers, decision.dispatches, decision.waiting, tuple(fallen)

    def every_outcome(self, moment: Moment, broker: BrokerId, arrival: Arrival) -> list[Outcome]:
        """Return every different outcome of a routing step, whatever the view."""
        fallbacks = self.capacity > 0 and any(
            place[0] == "out" and place[1] == broker and place[3] is Lane.REROUTED and len(copies) >= self.capacity
            for place, copies in moment.places.items()
        )
        down = frozenset(link for link in moment.down if broker in link)
        key = (broker, arrival.duties, arrival.ilink, arrival.audience is None, down, fallbacks)
        known = self._outcomes.get(key)
        if known is None:
            views = self._views.get((broker, down))
            if views is None:
                views = self._views[broker, down] = list(self.every_glance(moment, broker))
            found = dict.fromkeys(self.outcome(broker, arrival, view, fallbacks=fallbacks) for view in views)
            known = self._outcomes[key] = list(found)
        return known

    def routed(self, moment: Moment, place: Place, broker: BrokerId, outcome: Outcome) -> Moment:
        """Return the moment after the first copy at a place was routed."""
        delivers, dispatches, waiting, fallbacks = outcome
        after = moment.copy()
        copies = after.places[place]
        number = copies[0][0]
        if delivers and broker in self.ground.wanted:
            self._deliver(after, number, broker)
        for duties in waiting:
            after.add(("room", broker), (number, duties))
        for index, each in enumerate(dispatches):
            self._place(after, place, broker, number, each, fallbacks[index] if fallbacks else None)
        if ("placing", *place) not in after.places:
            after.set(place, copies[1:])
        return after

    def _deliver(self, moment: Moment, number: int, broker: BrokerId) -> None:
        bit = self.ground.bits_of([broker])
        assert not moment.delivered[number] & bit, f"publication {number} was delivered twice at {broker}"
        moment.delivered = tuple(each | bit if index == number else each for index, each in enumerate(moment.delivered))

    def _place(
        self,
        moment: Moment,
        place: Place,
        broker: BrokerId,
        number: int,
        copy: Dispatch,
        fallback: tuple[tuple[Dispatch, ...], Duties] | None,
    ) -> None:
        if self._merge(moment, broker, number, copy):
            return
        lane = self.rules.lane(copy.duties, copy.link.cluster)
        if self._has_room(moment, broker, copy.link, lane):
            moment.add(("out", broker, copy.link, lane), (number, copy.duties))
        elif lane is Lane.REROUTED and fallback is not None:
            parts, rest = fallback
            for part in parts:
                self._place(moment, place, broker, number, part, None)
            if rest:
                moment.add(("refused", broker), (number, rest))
        elif place[0] == "again":
            # It has no input that could wait for room.
            moment.add(("refused", broker), (number, rerouting.duties_taken_back(copy, broker)))
        else:
            moment.add(("placing", *place), (number, copy.link, lane, copy.duties))

    def _merge(self, moment: Moment, broker: BrokerId, number: int, copy: Dispatch) -> bool:
        place = ("out", broker, copy.link, Lane.REROUTED)
        waiting = moment.places.get(place, ())
        for index, (each, duties) in enumerate(waiting):
            joined = self.rules.merge(Dispatch(copy.link, duties), copy) if each == number else None
            if joined is not None:
                moment.places[place] = (*waiting[:index], (number, joined.duties), *waiting[index + 1 :])
                return True
        return False

    def _has_room(self, moment: Moment, broker: BrokerId, link: BrokerId, lane: Lane) -> bool:
        return not self.capacity or len(moment.places.get(("out", broker, link, lane), ())) < self.capacity

    def carriable(self, moment: Moment) -> Iterator[Place]:
        """Yield the output lanes whose first copy can cross its link."""
        for place in moment.places:
            if place[0] == "out" and self.is_up(moment, place[1], place[2]):
                waiting = moment.places.get(("in", *place[1:]), ())
                if not self.capacity or len(waiting) < self.capacity:
                    yield place

    def carried(self, moment: Moment, place: Place) -> Moment:
        """Return the moment after the first copy of an output lane has crossed its link."""
        after = moment.copy()
        first, *rest = after.places[place]
        after.set(place, rest)
        after.add(("in", *place[1:]), first)
        self._use_room(after, place[1])
        return after

    def _use_room(self, moment: Moment, broker: BrokerId) -> None:
        """Place copies that waited for room at a broker, and try again what lanes refused."""
        for place in [each for each in moment.places if each[0] == "placing"]:
            input_place = place[1:]
            if _holder(place) != broker:
                continue
            left = []
            for number, link, lane, duties in moment.places[place]:
                if self._has_room(moment, broker, link, lane):
                    moment.add(("out", broker, link, lane), (number, duties))
                else:
                    left.append((number, link, lane, duties))
            moment.set(place, left)
            if not left:
                moment.set(input_place, moment.places[input_place][1:])
        self._try_refused(moment, broker)

    def _try_refused(self, moment: Moment, broker: BrokerId) -> None:
        for copy in moment.places.pop(("refused", broker), ()):
            # It keeps its iLinks, and what found no way stays: otherwise copies with wrong statuses move for ever.
            moment.add(("again", broker), copy)

    def _leave_room(self, moment: Moment, broker: BrokerId) -> None:
        """Route everything in the waiting room of a broker again."""
        for number, duties in (*moment.places.pop(("room", broker), ()), *moment.places.pop(("refused", broker), ())):
            moment.add(("again", broker), (number, adaptive_routing.from_waiting_room(duties).duties))

    def cut(self, moment: Moment, link: Link) -> Moment:
        """Return the moment after a link went down: copies that wait for it are taken back."""
        after = moment.copy()
        after.down |= {link}
        for sender, receiver in (link, link[::-1]):
            for lane in Lane:
                for number, duties in after.places.pop(("out", sender, receiver, lane), ()):
                    self._take_back(after, sender, receiver, number, duties)
            for place in [each for each in after.places if each[0] == "placing"]:
                if _holder(place) == sender:
                    self._stop_placing(after, place, sender, receiver)
            self._use_room(after, sender)
        return after

    def _stop_placing(self, moment: Moment, place: Place, sender: BrokerId, receiver: BrokerId) -> None:
        left = []
        for number, link, lane, duties in moment.places[place]:
            if link == receiver:
                self._take_back(moment, sender, receiver, number, duties)
            else:
                left.append((number, link, lane, duties))
        moment.set(place, left)
        if not left:
            moment.set(place[1:], moment.places[place[1:]][1:])

    def _take_back(self, moment: Moment, sender: BrokerId, receiver: BrokerId, number: int, duties: Duties) -> None:
        duties = rerouting.duties_taken_back(Dispatch(receiver, duties), sender)
        moment.add(("again", sender), (number, duties))

    def healed(self, moment: Moment, link: Link) -> Moment:
        """Return the moment after a link came up: all who hear of it try again what waits."""
        after = moment.copy()
        after.down -= {link}
        for broker in [*link, *self.ground.brokers]:
            if broker.region in (link[0].region, link[1].region):
                self._leave_room(after, broker)
        return after

    def crashed(self, moment: Moment, broker: BrokerId) -> Moment:
        """Return the moment after a broker died with everything it held: all its links are down."""
        after = moment.copy()
        lost = list(after.lost)
        for holder, number, duties, _ in self.copies(after):
            if holder == broker:
                lost[number] |= self.ground.owed(holder, duties)
        for place in list(after.places):
            if _holder(place) == broker:
                del after.places[place]
        after.lost = tuple(lost)
        for link in self.ground.links:
            if broker in link and link not in after.down:
                after = self.cut(after, link)
        return after

    # Checks.

    def copies(self, moment: Moment) -> Iterator[tuple[BrokerId, int, Duties, Place]]:
        """Yield every copy, with the broker whose duties it has and its duties there."""
        for place, copies in moment.places.items():
            match place:
                case ("out", sender, receiver, _):
                    for number, duties in copies:
                        yield sender, number, rerouting.duties_taken_back(Dispatch(receiver, duties), sender), place
                case ("in", sender, receiver, _):
                    first = 1 if ("placing", *place) in moment.places else 0
                    for number, duties in copies[first:]:
                        yield receiver, number, self._arrival(sender, receiver, duties).duties, place
                case ("placing", *_):
                    broker = _holder(place)
                    for number, link, _, duties in copies:  # type: ignore[misc]
                        yield broker, number, rerouting.duties_taken_back(Dispatch(link, duties), broker), place
                case ("client", broker):
                    first = 1 if ("placing", *place) in moment.places else 0
                    for number, _ in copies[first:]:
                        targets = self.ground.audience(broker).targets
                        yield broker, number, Duties(targets | 1 << broker.cluster), place
                case (_, broker):
                    for number, duties in copies:
                        yield broker, number, duties, place

    def check(self, moment: Moment) -> None:
        """Assert that all copies together owe exactly what was neither delivered nor lost."""
        owed = [one | other for one, other in zip(moment.delivered, moment.lost, strict=True)]
        for index, (delivered, lost) in enumerate(zip(moment.delivered, moment.lost, strict=True)):
            assert not delivered & lost, f"publication {index} was lost and delivered: {delivered & lost}"
        for broker, number, duties, place in self.copies(moment):
            more = self.ground.owed(broker, duties)
            assert not owed[number] & more, (
                f"publication {number} is owed twice to {self.ground.names_of(owed[number] & more)}, by {place}"
            )
            owed[number] |= more
        for number, each in enumerate(owed):
            missing = self.ground.owed_in_all & ~each
            assert not missing, f"publication {number} is owed no more to {self.ground.names_of(missing)}"

    def is_at_rest(self, moment: Moment) -> bool:
        return next(self.arrivals(moment), None) is None and next(self.carriable(moment), None) is None

    def check_rest(self, moment: Moment) -> None:
        """Assert that nothing is stuck where nothing moves: everything that is left is in waiting rooms."""
        stuck = [place for place in moment.places if place[0] != "room"]
        assert not stuck, f"deadlock: copies wait for ever at {stuck}"

    def check_patience(self, moment: Moment) -> None:
        """Assert that, once everybody is told the truth, nothing waits that could still go within its region."""
        moment = moment.copy()
        for broker in self.ground.brokers:
            self._leave_room(moment, broker)
        moment = self.settle(moment)
        for broker, number, duties, _ in self.copies(moment):
            within = self._reachable(moment, broker)
            entered = [each for each in within if duties.enter >> each.cluster & 1]
            assert not entered, f"publication {number} waits at {broker}, though {entered[0]} can be reached: {duties}"
            for region, _ in duties.cross:
                over = [each for each in within if self.is_up(moment, each, BrokerId(region, each.cluster))]
                assert not over, f"publication {number} waits at {broker}, though it can cross at {over[0]}: {duties}"

    def _reachable(self, moment: Moment, broker: BrokerId) -> list[BrokerId]:
        """Return the brokers of a region that can be reached over its iLinks."""
        reached = [broker]
        for one in reached:
            for cluster in range(self.ground.clusters):
                other = BrokerId(broker.region, cluster)
                if other not in reached and self.is_up(moment, one, other):
                    reached.append(other)
        return reached

    def finish(self, moment: Moment) -> Moment:
        """Heal everything and settle; return the last moment, in which everything has arrived."""
        for link in sorted(moment.down):
            moment = self.healed(moment, link)
        for broker in self.ground.brokers:
            self._leave_room(moment, broker)
        moment = self.settle(moment)
        assert not moment.places, f"copies are left: {moment.places}"
        return moment

    def settle(self, moment: Moment, see: Callable[[Moment, BrokerId], AdaptiveView] | None = None) -> Moment:
        """Carry and route, first come first served, until nothing moves."""
        see = see or self.truth
        for _ in range(100_000):
            place = next(self.carriable(moment), None)
            if place is not None:
                moment = self.carried(moment, place)
                continue
            arrived = next(self.arrivals(moment), None)
            if arrived is None:
                self.check_rest(moment)
                return moment
            place, broker, arrival = arrived
            moment = self.routed(
                moment, place, broker, self.outcome(broker, arrival, see(moment, broker), fallbacks=True)
            )
        raise AssertionError("it never ends")


@dataclasses.dataclass(frozen=True, slots=True)
class Hop:
    """A copy that crossed a link, and how many links it and those before it have crossed."""

    sender: BrokerId
    receiver: BrokerId
    duties: Duties
    number: int

    def text(self, clusters: int) -> str:
        """Write the hop as the worked examples do: ``b.3>b.1[0000 c:1010]``."""
        sent = self.duties
        over_alink = self.sender.cluster == self.receiver.cluster
        words = [format(sent.enter, f"0{clusters}b")]
        words += [f"{region}:{bits:0{clusters}b}" for region, bits in sent.cross]
        plain = sent.enter == 1 << self.receiver.cluster and not sent.cross
        assert not (over_alink and sent.cross)
        return f"{self.sender}>{self.receiver}" + ("" if plain else f"[{' '.join(words)}]")


@dataclasses.dataclass(slots=True)
class Journey:
    """The way of one publication through a world without queues."""

    hops: list[Hop] = dataclasses.field(default_factory=list)
    delivered: list[BrokerId] = dataclasses.field(default_factory=list)
    waiting: list[tuple[BrokerId, Duties]] = dataclasses.field(default_factory=list)

    def texts(self, clusters: int) -> list[str]:
        return [hop.text(clusters) for hop in self.hops]


def travel(
    ground: Ground, host: BrokerId, see: Callable[[BrokerId], AdaptiveView], rules: Rules | None = None
) -> Journey:
    """Publish at a host broker, and follow all copies until the last one has arrived or waits."""
    rules = rules or Rules()
    journey = Journey()
    todo = [(host, adaptive_routing.published(host.cluster, ground.audience(host)), 0)]
    for broker, arrival, number in todo:
        decision = rules.route(arrival, ground.interested(broker), see(broker))
        if decision.delivers and broker in ground.wanted:
            journey.delivered.append(broker)
        journey.waiting += [(broker, each) for each in decision.waiting]
        for each in decision.dispatches:
            journey.hops.append(Hop(broker, each.link, each.duties, number + 1))
            if each.link.cluster == broker.cluster:
                arriving = adaptive_routing.over_alink(broker, each.duties.enter)
            else:
                arriving = adaptive_routing.over_ilink(broker, each.duties)
            todo.append((each.link, arriving, number + 1))
    return journey


class Scene:
    """A world in which links are down, congested or have queues as given in text, and everybody is told the truth."""

    def __init__(
        self,
        ground: Ground,
        down: str = "",
        dead: str = "",
        congested: str = "",
        queues: Mapping[str, int] | None = None,
    ):
        self.ground = ground
        gone = set(map(at, dead.split()))
        self.down = frozenset(
            {link_of(each) for each in down.split()} | {link for link in ground.links if gone & set(link)}
        )
        self.full = {tuple(map(at, each.split(">"))) for each in congested.split()}
        self.queues = {tuple(map(at, key.split(">"))): length for key, length in (queues or {}).items()}
        self._world = World(ground)

    def see(self, broker: BrokerId) -> Glance:
        truth = self._world.truth(Moment({}, (), (), self.down), broker)
        full = frozenset(link for link in truth.works if (broker, link) in self.full)
        works = {link: float(self.queues.get((broker, link), 0)) for link in truth.works}
        statuses = dict(truth.statuses)
        for sender, receiver in self.full:
            if sender.cluster == receiver.cluster and sender.region == broker.region:
                work = float(self.queues.get((sender, receiver), 0))
                statuses.setdefault((sender.cluster, receiver.region), AlinkStatus(work=work))
        return dataclasses.replace(truth, full=full, works=works, statuses=statuses)

    def publish(self, host: str, rules: Rules | None = None) -> Journey:
        return travel(self.ground, at(host), self.see, rules)


def _holder(place: Place) -> BrokerId:
    """Return the broker that holds the copies at a place."""
    if place[0] == "placing":
        return _holder(place[1:])
    holder: BrokerId = place[2] if place[0] == "in" else place[1]
    return holder


def _subsets(items: Sequence[Any]) -> Iterator[frozenset[Any]]:
    for size in range(len(items) + 1):
        for each in itertools.combinations(items, size):
            yield frozenset(each)
