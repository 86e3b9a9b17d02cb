"""Laws of adaptive routing for one step, on any overlay, with any duties and any view; whole journeys follow from them.

Every step partitions its duties, never goes back, and uses up iLinks. So nothing is owed twice or missed, whatever
routing sees, and every copy arrives or waits after a bounded number of hops.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adaptive_world import Glance, Ground, Scene, World, travel
from octopia.broker.adaptive_routing import (
    AdaptiveDecision,
    Arrival,
    Audience,
    Directions,
    Dispatch,
    over_alink,
    over_ilink,
    published,
    route_adaptively,
    taken_back,
)
from octopia.broker.rerouting import duties_taken_back, merged, static_parts
from octopia.broker.static_routing import Wanted, route_statically
from octopia.broker.statuses import AlinkStatus
from octopia.ids import BrokerId
from octopia.protocol import ClusterIndexVector
from octopia.protocol.duties import Duties, Lane, Origin, clusters_of, lane_of, regions_beyond

TREES = ["a", "a-b", "a-b, b-c", "a-b, b-c, b-d", "a-b, b-c, c-d", "paper:fig3"]

_GROUNDS: dict[tuple[str, int], Ground] = {}


def ground_of(tree: str, clusters: int) -> Ground:
    """Return an overlay in which everybody subscribes; it is made once."""
    if (tree, clusters) not in _GROUNDS:
        _GROUNDS[tree, clusters] = Ground(tree, clusters)
    return _GROUNDS[tree, clusters]


grounds = st.builds(ground_of, st.sampled_from(TREES), st.integers(1, 5))


@st.composite
def glances(draw: st.DrawFn, ground: Ground, broker: BrokerId) -> Glance:
    """Draw anything that routing may see at a broker."""
    regions = ground.adjacency[broker.region]
    clusters = [each for each in range(ground.clusters) if each != broker.cluster]
    links = [BrokerId(each, broker.cluster) for each in regions] + [BrokerId(broker.region, each) for each in clusters]
    some = st.sets(st.sampled_from(links)) if links else st.just(set())
    aside = [(cluster, region) for cluster in clusters for region in regions]
    pairs = [(one, other) for one in clusters for other in clusters if one != other]
    status = st.builds(AlinkStatus, st.booleans(), st.sampled_from([0.0, 1.0, 30.0]))
    return Glance(
        broker,
        ground.clusters,
        tuple(regions),
        frozenset(draw(some)),
        frozenset(draw(some)),
        draw(st.dictionaries(st.sampled_from(links), st.sampled_from([0.0, 1.0, 2.0, 30.0])) if links else st.just({})),
        draw(st.dictionaries(st.sampled_from(aside), status) if aside else st.just({})),
        frozenset(draw(st.sets(st.sampled_from(pairs)) if pairs else st.just(set()))),
    )


@st.composite
def duties_at(draw: st.DrawFn, ground: Ground, broker: BrokerId, *, own: bool = True) -> Duties:
    """Draw duties that a copy may have at a broker: each cluster is to be entered, or crosses to some regions."""
    regions = ground.adjacency[broker.region]
    origin = draw(st.sampled_from([Origin.HOST, Origin.LOCAL, *regions]))
    enter, cross = 0, dict.fromkeys(regions_beyond(origin, regions), 0)
    for cluster in range(ground.clusters):
        if draw(st.booleans()) and (own or cluster != broker.cluster):
            enter |= 1 << cluster
        else:
            for region in cross:
                cross[region] |= draw(st.booleans()) << cluster
    ilinks = draw(st.sampled_from([0, 1, 2 * ground.clusters - 1, 2 * ground.clusters, 2 * ground.clusters + 1]))
    return Duties(enter, tuple((key, bits) for key, bits in sorted(cross.items()) if bits), origin, ilinks)


@st.composite
def arrivals(draw: st.DrawFn, ground: Ground, broker: BrokerId) -> Arrival:
    """Draw a copy that arrives at a broker in any way."""
    duties = draw(duties_at(ground, broker))
    others = [each for each in range(ground.clusters) if each != broker.cluster]
    ways = ["client", "again"]
    if others:
        ways.append("ilink")
    if isinstance(duties.origin, str) and duties.enter:
        ways.append("alink")
    match draw(st.sampled_from(ways)):
        case "client":
            return published(broker.cluster, draw(audiences(ground, broker)))
        case "alink":
            return over_alink(BrokerId(str(duties.origin), broker.cluster), duties.enter)
        case "ilink":
            return over_ilink(BrokerId(broker.region, draw(st.sampled_from(others))), duties)
        case _:
            return taken_back(draw(duties_at(ground, broker, own=False)))


@st.composite
def audiences(draw: st.DrawFn, ground: Ground, host: BrokerId) -> Audience:
    """Draw an audience in which everybody wants everything, some clusters are pending, and some never answered."""
    others = [each for each in range(ground.clusters) if each != host.cluster]
    held = {each: ground.directions(host.region, each) for each in others if draw(st.booleans())}
    everything = Directions(here=True, regions=tuple(ground.adjacency[host.region]))
    return Audience(sum(1 << each for each in others), dict.fromkeys(others, everything), held)


def owed_after(ground: Ground, broker: BrokerId, decision: AdaptiveDecision) -> list[int]:
    """Return what each part of a decision owes."""
    owed = [ground.owed(broker, each) for each in decision.waiting]
    owed += [ground.owed(broker, duties_taken_back(each, broker)) for each in decision.dispatches]
    return [*owed, ground.bits_of([broker])] if decision.delivers else owed


def is_partition(whole: int, parts: list[int]) -> bool:
    united = 0
    for part in parts:
        if united & part:
            return False
        united |= part
    return united == whole


@settings(max_examples=300)
@given(st.data())
def test_every_step_partitions_what_is_owed(data: st.DataObject) -> None:
    ground = data.draw(grounds)
    broker = data.draw(st.sampled_from(ground.brokers))
    arrival = data.draw(arrivals(ground, broker))
    view = data.draw(glances(ground, broker))
    decision = route_adaptively(arrival, ground.interested(broker), view)
    assert is_partition(ground.owed(broker, arrival.duties), owed_after(ground, broker, decision))
    assert decision.delivers == bool(arrival.duties.enter >> broker.cluster & 1)
    check_copies(arrival, decision, view)


def check_copies(arrival: Arrival, decision: AdaptiveDecision, view: Glance) -> None:
    links = [each.link for each in decision.dispatches]
    assert links == sorted(links, key=lambda link: (link.region == view.broker.region, link))
    assert len(links) == len(set(links))
    limit = 2 * view.clusters
    for each in decision.dispatches:
        assert each.duties
        assert view.is_up(each.link)
        assert not each.duties.enter >> view.broker.cluster & 1 or each.link.cluster == view.broker.cluster
        if each.link.region == view.broker.region:
            assert each.duties.ilinks == arrival.duties.ilinks + 1
            # Beyond the limit it only enters a cluster, which it then never leaves over an iLink.
            assert arrival.duties.ilinks < limit or lane_of(each.duties, each.link.cluster) is Lane.PLAIN
        else:
            assert each.link.region != arrival.duties.origin
            assert not each.duties.cross
    assert all(decision.waiting)


def every_duty(ground: Ground, broker: BrokerId) -> Iterator[Duties]:
    """Yield all duties that a copy may have at a broker, before and after the last iLink."""
    regions = ground.adjacency[broker.region]
    for origin in (Origin.HOST, Origin.LOCAL, *regions):
        beyond = regions_beyond(origin, regions)
        # A cluster is to be entered, or crosses to some of the regions.
        fates = [None, *itertools.product((0, 1), repeat=len(beyond))]
        for chosen in itertools.product(fates, repeat=ground.clusters):
            enter = sum(1 << cluster for cluster, fate in enumerate(chosen) if fate is None)
            cross = [
                (region, sum(fate[index] << cluster for cluster, fate in enumerate(chosen) if fate is not None))
                for index, region in enumerate(beyond)
            ]
            for ilinks in (0, 2 * ground.clusters):
                yield Duties(enter, tuple((region, bits) for region, bits in cross if bits), origin, ilinks)


def every_arrival(ground: Ground, broker: BrokerId) -> Iterator[Arrival]:
    yield published(broker.cluster, ground.audience(broker))
    for duties in every_duty(ground, broker):
        for cluster in range(ground.clusters):
            if cluster != broker.cluster:
                yield over_ilink(BrokerId(broker.region, cluster), duties)
        if not duties.enter >> broker.cluster & 1:
            yield taken_back(duties)
        if isinstance(duties.origin, str) and not duties.cross and not duties.ilinks:
            yield over_alink(BrokerId(duties.origin, broker.cluster), duties.enter)


def check_every_view(ground: Ground, broker: BrokerId) -> int:
    """Check a step for all arrivals and all views of a broker, and return how many there were."""
    world, views = World(ground), []
    links = [link for link in ground.links if broker in link]
    for count in range(len(links) + 1):
        for down in itertools.combinations(links, count):
            views += list(world.every_glance(dataclasses.replace(world.start(), down=frozenset(down)), broker))
    interested, checked = ground.interested(broker), 0
    for arrival in every_arrival(ground, broker):
        owed = ground.owed(broker, arrival.duties)
        decisions = {}
        for view in views:
            checked += 1
            decision = route_adaptively(arrival, interested, view)
            outcome = (decision.dispatches, decision.waiting, view.down)
            if outcome not in decisions:
                decisions[outcome] = decision
                assert is_partition(owed, owed_after(ground, broker, decision))
                check_copies(arrival, decision, view)
    return checked


def test_every_view_of_the_smallest_overlay() -> None:
    assert check_every_view(Ground("a-b", 2), BrokerId("a", 0)) > 3_000


@pytest.mark.soak
@pytest.mark.parametrize(
    ("tree", "clusters", "broker"), [("a-b", 3, "a.0"), ("a-b, b-c", 2, "b.0"), ("a-b", 3, "b.2"), ("a", 4, "a.1")]
)
def test_every_view(tree: str, clusters: int, broker: str) -> None:
    checked = check_every_view(Ground(tree, clusters), BrokerId.parse(broker))
    print(f"{tree} x {clusters}: {checked} views")
    assert checked > 100_000


@given(st.data())
def test_the_fallback_partitions_a_copy_into_plain_ones(data: st.DataObject) -> None:
    ground = data.draw(grounds)
    broker = data.draw(st.sampled_from(ground.brokers))
    arrival = data.draw(arrivals(ground, broker))
    view = data.draw(glances(ground, broker))
    for copy in route_adaptively(arrival, ground.interested(broker), view).dispatches:
        other = dataclasses.replace(data.draw(glances(ground, broker)), down=view.down)
        parts, rest = static_parts(copy, other)
        owed = [ground.owed(broker, duties_taken_back(each, broker)) for each in parts]
        assert is_partition(ground.owed(broker, duties_taken_back(copy, broker)), [*owed, ground.owed(broker, rest)])
        for each in parts:
            assert lane_of(each.duties, each.link.cluster) is Lane.PLAIN
            assert other.is_up(each.link)
            assert all(other.told(each.link.cluster, region).is_up for region, _ in each.duties.cross)


@given(st.data())
def test_what_is_taken_back_is_what_would_have_arrived(data: st.DataObject) -> None:
    ground = data.draw(grounds)
    broker = data.draw(st.sampled_from(ground.brokers))
    arrival = data.draw(arrivals(ground, broker))
    for copy in route_adaptively(arrival, ground.interested(broker), data.draw(glances(ground, broker))).dispatches:
        back = duties_taken_back(copy, broker)
        over_an_alink = copy.link.cluster == broker.cluster
        arrived = over_alink(broker, copy.duties.enter) if over_an_alink else over_ilink(broker, copy.duties)
        assert ground.owed(broker, back) == ground.owed(copy.link, arrived.duties)
        assert (back.origin, back.ilinks) == (arrival.duties.origin, arrival.duties.ilinks)


@given(st.data())
def test_parts_of_a_copy_can_be_joined_again(data: st.DataObject) -> None:
    ground = data.draw(grounds)
    broker = data.draw(st.sampled_from(ground.brokers))
    duties = data.draw(duties_at(ground, broker))
    one, other = duties.partition(data.draw(st.integers(0, 2**ground.clusters - 1)))
    assert one.union(other) == duties
    regions = ground.adjacency[broker.region]
    pieces = duties.pieces(regions)
    assert sorted(one.pieces(regions) + other.pieces(regions)) == sorted(pieces)
    assert len(pieces) == len(set(pieces))
    joined = merged(Dispatch(broker, one), Dispatch(broker, other))
    may_join = duties.origin is not Origin.LOCAL and lane_of(one, broker.cluster) is Lane.REROUTED
    assert joined == (Dispatch(broker, duties) if may_join else None)


@settings(max_examples=200)
@given(st.data())
def test_a_journey_ends_and_reaches_everybody_once(data: st.DataObject) -> None:
    """Nobody is told the truth, but all links are up."""
    everybody = data.draw(grounds)
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    subscribers = [each for each in everybody.brokers if chance.random() < 0.6]
    ground = Ground(str_of(everybody), everybody.clusters, subscribers)
    host = chance.choice(ground.brokers)
    world = World(ground)
    start = world.start(str(host))

    def see(broker: BrokerId) -> Glance:
        view = world.truth(start, broker)
        clusters = [each for each in range(ground.clusters) if each != broker.cluster]
        statuses = {
            (cluster, region): AlinkStatus(chance.random() < 0.7, float(chance.randrange(9)))
            for cluster in clusters
            for region in view.primary_regions
        }
        pairs = [(one, other) for one in clusters for other in clusters]
        return dataclasses.replace(
            view,
            full=frozenset(each for each in view.works if chance.random() < 0.7),
            works={each: float(chance.randrange(9)) for each in view.works},
            statuses=statuses,
            unlinked=frozenset(each for each in pairs if chance.random() < 0.3),
        )

    journey = travel(ground, host, see)
    assert sorted(journey.delivered) == sorted(ground.wanted)
    assert not journey.waiting
    diameter = ground.scot.diameter
    longest = (2 * ground.clusters + 1) * (diameter + 1) + diameter
    assert all(hop.number <= longest for hop in journey.hops)


def str_of(ground: Ground) -> str:
    edges = ground.scot.tree.edges
    return ", ".join(f"{one}-{other}" for one, other in edges) or ground.scot.tree.regions[0]


@settings(max_examples=300)
@given(st.data())
def test_where_nothing_is_congested_it_is_static_routing(data: st.DataObject) -> None:
    everybody = data.draw(grounds)
    subscribers = data.draw(st.sets(st.sampled_from(everybody.brokers)))
    ground = Ground(str_of(everybody), everybody.clusters, subscribers)
    host = data.draw(st.sampled_from(ground.brokers))
    lengths = {f"{one}>{other}": data.draw(st.integers(0, 9)) for one, other in ground.links[:5]}
    journey = Scene(ground, queues=lengths).publish(str(host))
    assert [(hop.sender, hop.receiver) for hop in journey.hops] == static_hops(ground, host)
    for hop in journey.hops:
        assert lane_of(hop.duties, hop.receiver.cluster) is Lane.PLAIN
        assert not hop.duties.cross


def static_hops(ground: Ground, host: BrokerId) -> list[tuple[BrokerId, BrokerId]]:
    """Return the hops of the paper's static routing."""
    hops: list[tuple[BrokerId, BrokerId]] = []
    todo = [(host, host, ground.audience(host).targets)]
    for broker, sender, targets in todo:
        alinks = tuple(each for each in ground.interested(broker) if each != sender)
        wanted = Wanted(alinks, ClusterIndexVector(targets, ground.clusters))
        for each in route_statically(wanted, Scene(ground).see(broker)).forwards:  # type: ignore[arg-type]
            hops.append((broker, each.link))
            todo.append((each.link, broker, 0))
    return hops


def test_clusters_and_regions_in_order() -> None:
    assert list(clusters_of(0b10110)) == [1, 2, 4]
    assert regions_beyond("b", ["a", "b", "c"]) == ["a", "c"]
    assert regions_beyond(Origin.HOST, ["a", "b"]) == ["a", "b"]
    assert regions_beyond(Origin.LOCAL, ["a", "b"]) == []
