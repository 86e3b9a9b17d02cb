"""Adaptive routing as a pure function, one rule at a time."""

from __future__ import annotations

from typing import Any

from adaptive_world import Glance, at
from octopia.broker.adaptive_routing import (
    AdaptiveDecision,
    Arrival,
    Audience,
    Directions,
    Reason,
    from_waiting_room,
    over_alink,
    over_ilink,
    published,
    route_adaptively,
    taken_back,
)
from octopia.broker.statuses import AlinkStatus
from octopia.protocol.duties import Duties, Origin

HOST, LOCAL = Origin.HOST, Origin.LOCAL
DOWN = AlinkStatus(is_up=False)


def view(broker: str = "b.3", down: str = "", full: str = "", works: str = "", **others: Any) -> Glance:
    """Make the view of a broker of the path a-b-c with 4 clusters; works are given as ``b.0=3``."""
    return Glance(
        at(broker),
        4,
        ("a", "c"),
        frozenset(map(at, down.split())),
        frozenset(map(at, full.split())),
        {at(each.split("=")[0]): float(each.split("=")[1]) for each in works.split()},
        **others,
    )


def audience(**directions: str) -> Audience:
    """Make an audience: ``c1="here a"`` is a cluster with subscribers here and behind a."""
    held = {
        int(key[1:]): Directions("here" in text, tuple(each for each in text.split() if each != "here"))
        for key, text in directions.items()
    }
    return Audience(sum(1 << each for each in held), held, held)


def copies(decision: AdaptiveDecision) -> list[str]:
    """Write copies as ``b.1[0010 c:0001]``, all bits given."""
    return [
        f"{each.link}[{' '.join([f'{each.duties.enter:04b}', *(f'{z}:{bits:04b}' for z, bits in each.duties.cross)])}]"
        for each in decision.dispatches
    ]


def route(arrival: Arrival, interested: str, glance: Glance) -> AdaptiveDecision:
    return route_adaptively(arrival, tuple(map(at, interested.split())), glance)


class TestStaticPaths:
    def test_at_the_host_broker(self):
        decision = route(published(3, audience(c0="here", c1="c")), "a.3 c.3", view(works="a.3=9"))
        assert copies(decision) == ["a.3[1000]", "c.3[1000]", "b.0[0001]", "b.1[0010]"]
        assert [each.duties.ilinks for each in decision.dispatches] == [0, 0, 1, 1]
        assert {each.duties.origin for each in decision.dispatches} == {HOST}
        assert decision.delivers
        assert not decision.steps

    def test_along_a_cluster_never_back(self):
        decision = route(over_alink(at("a.3"), 0b1000), "a.3 c.3", view())
        assert copies(decision) == ["c.3[1000]"]
        assert decision.dispatches[0].duties.origin == "a"

    def test_a_copy_for_the_clients_of_a_broker_goes_no_further(self):
        decision = route(over_ilink(at("b.0"), Duties(0b1000, (), LOCAL, 1)), "a.3 c.3", view(full="a.3"))
        assert decision == AdaptiveDecision((), (), delivers=True)

    def test_clusters_of_the_header_are_entered_where_the_copy_is(self):
        decision = route(over_alink(at("a.3"), 0b1001), "c.3", view())
        assert copies(decision) == ["c.3[1000]", "b.0[0001]"]
        assert {each.duties.origin for each in decision.dispatches} == {"a"}

    def test_links_that_are_not_needed_do_not_matter(self):
        decision = route(over_alink(at("a.3"), 0b1000), "c.3", view(full="a.3 b.0 b.1", down="b.2"))
        assert copies(decision) == ["c.3[1000]"]

    def test_a_copy_that_enters_elsewhere_delivers_nothing(self):
        decision = route(over_ilink(at("b.0"), Duties(0, (("c", 0b0001),), "a", 1)), "a.3 c.3", view())
        assert copies(decision) == ["c.3[0001]"]
        assert not decision.delivers


class TestCongestedAlink:
    def test_ties_go_here_then_to_the_lower_cluster(self):
        arrival = over_alink(at("a.3"), 0b1000)
        assert copies(route(arrival, "c.3", view(full="c.3", works="c.3=2"))) == ["c.3[1000]"]
        assert copies(route(arrival, "c.3", view(full="c.3", works="c.3=3"))) == ["b.0[0000 c:1000]"]

    def test_a_cluster_that_is_carried_saves_one_copy(self):
        arrival = over_ilink(at("b.1"), Duties(0b1000, (("c", 0b0100),), "a", 1))
        assert copies(route(arrival, "c.3", view(full="c.3", works="c.3=9"))) == ["b.2[0000 c:1100]"]

    def test_the_work_at_the_other_broker_counts(self):
        arrival = over_alink(at("a.3"), 0b1000)
        told = {(0, "c"): AlinkStatus(work=5.0), (1, "c"): DOWN}
        assert copies(route(arrival, "c.3", view(full="c.3", works="c.3=9", statuses=told))) == ["b.2[0000 c:1000]"]

    def test_a_broker_where_more_edges_are_up_is_better(self):
        arrival = published(3, audience())
        told = {(0, "c"): DOWN, (1, "c"): DOWN, (1, "a"): DOWN}
        glance = view(down="a.3 c.3", works="b.2=50", statuses=told)
        assert copies(route(arrival, "a.3 c.3", glance)) == ["b.2[0000 a:1000 c:1000]"]

    def test_what_came_to_cross_crosses(self):
        arrival = over_ilink(at("b.1"), Duties(0, (("c", 0b0010),), "a", 1))
        decision = route(arrival, "", view(full="c.3", works="c.3=99"))
        assert copies(decision) == ["c.3[0010]"]
        assert [each.reason for each in decision.steps] == [Reason.THROUGH]

    def test_edges_that_are_down_here_go_elsewhere_after_the_others(self):
        arrival = published(3, audience())
        glance = view(
            down="c.3", full="a.3", works="a.3=1 b.0=5 b.1=5 b.2=5", statuses={(each, "a"): DOWN for each in range(3)}
        )
        assert copies(route(arrival, "a.3 c.3", glance)) == ["a.3[1000]", "b.0[0000 c:1000]"]


class TestCongestedIlink:
    def test_a_free_ilink_of_a_target_takes_everything(self):
        decision = route(published(3, audience(c0="here", c1="here")), "", view(full="b.0", works="b.1=9"))
        assert copies(decision) == ["b.1[0011]"]

    def test_without_a_free_one_the_shortest_queue(self):
        decision = route(published(3, audience(c0="here", c1="here")), "", view(full="b.0 b.1", works="b.0=9 b.1=7"))
        assert copies(decision) == ["b.2[0011]"]
        decision = route(published(3, audience(c0="here", c1="here")), "", view(full="b.0 b.1", works="b.0=1 b.1=7"))
        assert copies(decision) == ["b.0[0011]"]

    def test_a_relay_must_have_a_link_to_a_target(self):
        unlinked = frozenset({(1, 0)})
        decision = route(published(3, audience(c0="here")), "", view(full="b.0", works="b.0=9", unlinked=unlinked))
        assert copies(decision) == ["b.2[0001]"]

    def test_a_copy_in_transit_does_not_relay_again(self):
        arrival = over_ilink(at("b.1"), Duties(0b0001, (), HOST, 1))
        assert copies(route(arrival, "", view(full="b.0", works="b.0=99"))) == ["b.0[0001]"]

    def test_a_relay_is_never_the_sender(self):
        arrival = over_ilink(at("b.1"), Duties(0b1001, (), HOST, 1))
        glance = view(full="b.0", works="b.0=99 b.2=5")
        assert copies(route(arrival, "", glance)) == ["b.2[0001]"]

    def test_both_exceptions_end_where_all_targets_are_cut_off(self):
        arrival = over_ilink(at("b.1"), Duties(0b0001, (), HOST, 1))
        assert copies(route(arrival, "", view(down="b.0", works="b.2=5"))) == ["b.1[0001]"]

    def test_clusters_without_subscribers_in_the_host_region_only_cross(self):
        decision = route(published(3, audience(c0="c", c1="a c", c2="here a")), "c.3", view(full="b.0"))
        assert copies(decision) == ["a.3[0010]", "c.3[1011]", "b.2[0100]"]

    def test_elsewhere_nothing_is_known_of_directions(self):
        assert copies(route(over_alink(at("a.3"), 0b1001), "c.3", view(full="b.0", works="b.0=1"))) == [
            "c.3[1000]",
            "b.0[0001]",
        ]


class TestLostBrokers:
    UNLINKED = frozenset({(1, 0), (2, 0)})

    def test_other_regions_enter_the_cluster(self):
        decision = route(over_alink(at("a.3"), 0b1001), "", view(down="b.0", unlinked=self.UNLINKED))
        assert copies(decision) == ["c.3[0001]"]
        assert decision.waiting == (Duties(0b0001, (), LOCAL),)

    def test_at_the_host_broker_the_last_directions_count(self):
        glance = view(down="b.0", unlinked=self.UNLINKED)
        everything = Directions(here=True, regions=("a", "c"))
        held = Audience(0b0001, {0: everything}, {0: Directions(here=False, regions=("c",))})
        decision = route(published(3, held), "", glance)
        assert copies(decision) == ["c.3[0001]"]
        assert not decision.waiting
        never = Audience(0b0001, {0: everything}, {})
        decision = route(published(3, never), "", glance)
        assert copies(decision) == ["a.3[0001]", "c.3[0001]"]
        assert decision.waiting == (Duties(0b0001, (), LOCAL),)

    def test_a_copy_for_its_clients_alone_waits_again(self):
        decision = route(from_waiting_room(Duties(0b0001, (), LOCAL, 7)), "", view(down="b.0", unlinked=self.UNLINKED))
        assert decision.dispatches == ()
        assert decision.waiting == (Duties(0b0001, (), LOCAL),)

    def test_a_neighbour_with_a_link_to_it_is_a_relay(self):
        decision = route(over_alink(at("a.3"), 0b1001), "", view(down="b.0", unlinked=frozenset({(1, 0)})))
        assert copies(decision) == ["b.2[0001]"]
        assert not decision.waiting


class TestTermination:
    def test_after_2k_ilinks_a_copy_goes_directly(self):
        arrival = over_ilink(at("b.1"), Duties(0b0001, (("c", 0b0110),), HOST, 8))
        decision = route(arrival, "", view(full="b.0 c.3", works="b.0=99 c.3=99"))
        assert copies(decision) == ["c.3[0110]", "b.0[0001]"]
        assert {each.reason for each in decision.steps} == {Reason.TIRED}

    def test_or_it_waits(self):
        arrival = over_ilink(at("b.1"), Duties(0b0001, (("c", 0b0110),), "a", 8))
        decision = route(arrival, "", view(down="b.0 c.3"))
        assert decision.dispatches == ()
        assert decision.waiting == (Duties(0b0001, (), LOCAL, 8), Duties(0, (("c", 0b0111),), "a", 8))

    def test_a_copy_that_is_taken_back_keeps_its_ilinks(self):
        assert taken_back(Duties(1, (), "a", 3)).duties.ilinks == 3
        assert from_waiting_room(Duties(1, (), "a", 3)).duties == Duties(1, (), "a", 0)
