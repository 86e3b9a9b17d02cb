"""The worked examples of adaptive routing, and the traps that were found while it was designed."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from adaptive_world import Ground, Journey, Scene, World, at, link_of, travel
from octopia.broker.adaptive_routing import Dispatch, Reason, from_waiting_room, published, route_adaptively
from octopia.broker.rerouting import merged, static_parts
from octopia.ids import BrokerId
from octopia.protocol.duties import Duties, Lane, Origin, lane_of

FIG_7 = "a-b, b-c"


def hops(journey: Journey, clusters: int = 4) -> str:
    return ", ".join(journey.texts(clusters))


def both_ways(text: str) -> str:
    """Write congestion in both directions: ``b.3-b.0`` becomes ``b.3>b.0 b.0>b.3``."""
    pairs = [each.split("-") for each in text.split()]
    return " ".join(f"{one}>{other} {other}>{one}" for one, other in pairs)


class TestWorkedExamples:
    def test_a_congested_alink_is_avoided_over_another_cluster(self):
        ground = Ground(FIG_7, 4, "a.3 c.3 c.1")
        scene = Scene(ground, congested="b.3>c.3", queues={"b.3>c.3": 20})
        journey = scene.publish("b.3")
        assert hops(journey) == "b.3>a.3, b.3>b.1[0000 c:1010], b.1>c.1[1010], c.1>c.3"
        assert len(Scene(ground).publish("b.3").hops) == 4

    def test_the_ways_of_the_first_example(self):
        ground = Ground(FIG_7, 4, "a.3 c.3 c.1")
        scene = Scene(ground, congested="b.3>c.3", queues={"b.3>c.3": 20})
        host = at("b.3")
        decision = route_adaptively(published(3, ground.audience(host)), ground.interested(host), scene.see(host))
        [step] = [each for each in decision.steps if each.reason is Reason.BEST]
        keys = {str(way.link or "here"): way.key for way in step.ways}
        assert keys == {"here": (0, 20.0), "b.0": (0, 2.0), "b.1": (0, 1.0), "b.2": (0, 2.0)}
        assert next(iter(keys)) == "here"

    def test_fig_7b(self):
        ground = Ground(FIG_7, 4, "c.0 c.1 a.3 c.3 c.2")
        scene = Scene(ground, congested=both_ways("b.3-b.0 b.1-b.0"), queues={"b.3>b.1": 1, "b.3>b.2": 2})
        assert hops(scene.publish("b.3")) == "b.3>a.3, b.3>c.3[1111], c.3>c.0, c.3>c.1, c.3>c.2"
        assert len(Scene(ground).publish("b.3").hops) == 8

    def test_fig_7c(self):
        ground = Ground(FIG_7, 4, "c.0 a.0 a.3 c.3 c.2")
        scene = Scene(ground, congested=both_ways("b.3-b.0 b.3-b.2"), queues={"b.3>c.3": 1, "b.3>a.3": 2})
        assert hops(scene.publish("b.3")) == "b.3>a.3[1001], b.3>c.3[1101], a.3>a.0, c.3>c.0, c.3>c.2"
        assert len(Scene(ground).publish("b.3").hops) == 7

    def test_fig_7d(self):
        ground = Ground(FIG_7, 4, "a.0 c.1 c.3 c.2")
        congested = both_ways("b.3-b.0 b.3-b.1 b.3-b.2 b.3-c.3 b.1-b.2 b.0-b.1 a.0-a.1")
        queues = {"b.3>b.2": 20, "b.3>b.0": 30, "b.3>b.1": 30, "b.3>c.3": 40}
        journey = Scene(ground, congested=congested, queues=queues).publish("b.3")
        assert hops(journey) == "b.3>a.3[0001], b.3>b.2[0000 c:1110], a.3>a.0, b.2>c.2[1110], c.2>c.1, c.2>c.3"
        assert len(Scene(ground).publish("b.3").hops) == 7

    def test_a_dead_broker(self):
        ground = Ground(FIG_7, 4, "a.2 b.2 c.0 c.2")
        journey = Scene(ground, dead="b.0").publish("a.0")
        assert hops(journey) == "a.0>a.2[0100 b:0001], a.2>b.2[0101], b.2>c.2[0101], c.2>c.0"
        assert sorted(map(str, journey.delivered)) == ["a.2", "b.2", "c.0", "c.2"]
        assert journey.waiting == [(at("b.2"), Duties(0b0001, (), Origin.LOCAL))]


class TestTraps:
    def test_a_copy_for_one_broker_alone_is_never_joined(self):
        everything, local = Duties(0b100, (), "w", 1), Duties(0b010, (), Origin.LOCAL, 1)
        two = Duties(0b011, (), Origin.LOCAL, 1)
        link = at("a.2")
        for one, other in itertools.product((everything, local, two), repeat=2):
            if Origin.LOCAL in (one.origin, other.origin):
                assert merged(Dispatch(link, one), Dispatch(link, other)) is None

    def test_a_copy_for_one_broker_alone_goes_nowhere_else(self):
        """A link of a-b x 3 goes down and comes up while a copy for the clients of a.1 relays over a.2."""
        world = World(Ground("a-b", 3))
        moment = world.start("a.0", down=["a.0-a.1", "a.1-a.2"])
        moment = world.settle(moment)
        [(number, local)] = moment.places["room", at("a.0")]
        assert local == Duties(0b010, (), Origin.LOCAL)
        # It relays over a.2, whose link to a.1 has come up, and goes down while the copy is on its way.
        moment = world.healed(moment, link_of("a.1-a.2"))
        [(place, broker, arrival)] = world.arrivals(moment)
        outcome = world.outcome(broker, arrival, world.truth(moment, broker), fallbacks=False)
        moment = world.routed(moment, place, broker, outcome)
        relayed = Duties(0b010, (), Origin.LOCAL, 1)
        assert moment.places == {("out", at("a.0"), at("a.2"), Lane.REROUTED): ((number, relayed),)}
        moment = world.carried(moment, next(world.carriable(moment)))
        moment = world.settle(world.cut(moment, link_of("a.1-a.2")))
        world.check(moment)
        # Once more the copy waits, wherever it is, for the clients of a.1 alone.
        [(place, [(_, duties)])] = moment.places.items()
        assert place[0] == "room"
        assert (duties.enter, duties.cross, duties.origin) == (0b010, (), Origin.LOCAL)
        world.check(world.finish(moment))

    def test_a_waiting_copy_takes_any_way_that_opens(self):
        world = World(Ground("a-b", 2))
        moment = world.settle(world.start("a.0", down=["a.0-b.0", "a.0-a.1"]))
        assert [str(each[1]) for each in moment.places if each[0] == "room"] == ["a.0"]
        moment = world.settle(world.healed(moment, link_of("a.0-a.1")))
        assert not moment.places
        assert moment.delivered == (world.ground.owed_in_all,)

    def test_the_fallback_never_takes_a_dead_way(self):
        """The dead broker of the third example, with the rerouted lane b.2>c.2 full."""
        ground = Ground(FIG_7, 4, "a.2 b.2 c.0 c.2")
        view = Scene(ground, dead="b.0").see(at("b.2"))
        parts, rest = static_parts(Dispatch(at("c.2"), Duties(0b0101, (), "a")), view)
        assert parts == [Dispatch(at("c.2"), Duties(0b0100, (), "a"))]
        assert rest == Duties(0, (("c", 0b0001),), "a")
        # When the lane has room, the rest goes the same way again.
        decision = route_adaptively(from_waiting_room(rest), (), view)
        [copy] = decision.dispatches
        assert (str(copy.link), copy.duties.cross) in {("b.1", (("c", 1),)), ("b.3", (("c", 1),)), ("c.2", ())}

    def test_the_fallback_in_a_whole_world_reaches_everybody(self):
        ground = Ground(FIG_7, 4, "a.2 b.2 c.0 c.2")
        dead = [f"{one}-{other}" for one, other in ground.links if at("b.0") in (one, other)]
        world = World(ground, capacity=1)
        moment = world.start("a.0", "a.0", "a.0", "a.0", down=dead)
        moment = world.settle(moment)
        assert {place[0] for place in moment.places} == {"room"}
        alive = ground.bits_of(map(at, ["a.2", "b.2", "c.0", "c.2"]))
        assert moment.delivered == (alive,) * 4

    def test_ordered_publications_keep_to_static_paths(self):
        """Copies of ordered publications are plain, so no rule of this module moves them."""
        for receiver, duties in ((at("c.2"), Duties(0b0100, (), "a")), (at("b.0"), Duties(0b0001, (), Origin.HOST, 1))):
            assert lane_of(duties, receiver.cluster) is Lane.PLAIN
            assert merged(Dispatch(receiver, duties), Dispatch(receiver, duties)) is None


class TestSecondRelay:
    """A broker does not know of links between two others to which it has none."""

    DOWN = "a.0-a.1 a.0-a.3 a.1-a.2"

    def test_the_only_way_has_two_relays(self):
        journey = Scene(Ground("a", 4, "a.1"), down=self.DOWN).publish("a.0")
        assert hops(journey) == "a.0>a.2[0010], a.2>a.3[0010], a.3>a.1"
        assert not journey.waiting

    def test_a_relay_that_knows_better_gives_up(self):
        journey = Scene(Ground("a", 4, "a.1"), down=f"{self.DOWN} a.1-a.3").publish("a.0")
        assert hops(journey) == "a.0>a.2[0010]"
        assert [(str(broker), duties.enter, duties.origin) for broker, duties in journey.waiting] == [
            ("a.2", 0b0010, Origin.LOCAL)
        ]

    def test_an_edge_may_be_two_relays_away(self):
        down = "a.0-b.0 a.1-b.1 a.2-b.2 a.0-a.1 a.0-a.3"
        journey = Scene(Ground("a-b", 4, "b.0"), down=down).publish("a.0")
        assert hops(journey) == "a.0>a.2[0000 b:0001], a.2>a.3[0000 b:0001], a.3>b.3[0001], b.3>b.0"

    @pytest.mark.parametrize("clusters", [2, 3, 4, 5, pytest.param(6, marks=pytest.mark.soak)])
    def test_every_broker_of_a_region_that_is_connected_is_reached(self, clusters: int):
        """Any links of a region are down, and everybody is told the truth."""
        ground = Ground("a", clusters)
        for count in range(len(ground.links) + 1):
            for down in itertools.combinations(ground.links, count):
                scene = Scene(ground, " ".join(f"{one}-{other}" for one, other in down))
                journey = scene.publish("a.0")
                assert sorted(journey.delivered) == connected(ground, scene.down, at("a.0")), scene.down
                assert max((hop.number for hop in journey.hops), default=0) <= 2 * clusters + 1


def connected(ground: Ground, down: frozenset[tuple[BrokerId, BrokerId]], start: BrokerId) -> list[BrokerId]:
    reached = [start]
    for broker in reached:
        for link in ground.links:
            if broker in link and link not in down:
                [other] = [each for each in link if each != broker]
                if other not in reached:
                    reached.append(other)
    return sorted(reached)


def test_told_wrongly_a_copy_stops_after_2k_ilinks_and_loses_nothing():
    """Everybody swears that a.1 can be reached over somebody else."""
    ground = Ground("a-b", 4, "a.1 b.1")
    scene = Scene(ground, down="a.0-a.1 a.2-a.1 a.3-a.1")

    def see(broker: BrokerId):
        return dataclasses.replace(scene.see(broker), unlinked=frozenset())

    journey = travel(ground, at("a.0"), see)
    assert [str(each) for each in journey.delivered] == ["b.1"]
    assert [duties.origin for _, duties in journey.waiting] == [Origin.LOCAL]
    assert max(hop.number for hop in journey.hops) <= (2 * 4 + 1) * 2 + 1
