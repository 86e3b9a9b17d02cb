"""Inter-cluster dynamic routing, Alg. 4 as ruled in D7 to D9, as a pure function."""

import pytest

from octopia.broker import Case, Decision
from octopia.broker.dynamic_routing import route_dynamically
from octopia.broker.static_routing import Wanted, route_statically
from octopia.protocol import ClusterIndexVector
from support import FakeView, at


def wanted(alinks: str, targets: str) -> Wanted:
    return Wanted(tuple(map(at, alinks.split())), ClusterIndexVector(int(targets, 2), len(targets)))


def route(alinks: str, targets: str, *full: str, **lengths: int) -> Decision:
    """Route where the links ``full`` are congested; queue lengths are given as ``b0=3``."""
    return route_dynamically(
        wanted(alinks, targets), FakeView({f"{key[0]}.{key[1:]}": value for key, value in lengths.items()}, full)
    )


def copies(decision: Decision) -> list[str]:
    return [
        f"{each.link}" + (f"[{each.publication_civ}]" if each.publication_civ else "") for each in decision.forwards
    ]


class TestNoTargetCongested:
    def test_it_is_static_routing(self):
        view = FakeView({"b.0": 99})
        assert route_dynamically(wanted("a.3", "0011"), view) == route_statically(wanted("a.3", "0011"), view)

    def test_congested_alinks_alone_change_nothing(self):
        decision = route("a.3 c.3", "0001", "a.3", "c.3")
        assert copies(decision) == ["a.3", "c.3", "b.0"]
        assert decision.case is None

    def test_links_that_are_no_target_do_not_matter(self):
        decision = route("a.3", "0001", "b.1", "b.2", "c.3")
        assert copies(decision) == ["a.3", "b.0"]
        assert decision.case is None


class TestCaseOne:
    """Some target iLinks are free: the one with the shortest queue carries the rest."""

    def test_fig_7b_at_the_host_broker(self):
        decision = route("a.3 c.3", "0111", "b.0", b1=1, b2=2)
        assert copies(decision) == ["a.3", "c.3", "b.1[0001]", "b.2"]
        assert decision.case is Case.ONE

    def test_the_shortest_queue_is_looked_for_among_free_ilinks_only(self):
        assert copies(route("a.3", "0111", "b.0", b0=0, b1=5, b2=4, a3=0)) == ["a.3", "b.1", "b.2[0001]"]

    def test_a_tie_goes_to_the_lower_broker_id(self):
        assert copies(route("", "0111", "b.0", b1=3, b2=3)) == ["b.1[0001]", "b.2"]

    def test_a_tie_is_broken_by_the_cluster_as_a_number(self):
        assert copies(route("", "1" + "0" * 7 + "101", "b.0")) == ["b.2[00000000001]", "b.10"]

    def test_several_waiting_clusters_travel_together_in_one_copy(self):
        assert copies(route("", "1111", "b.0", "b.1", "b.3")) == ["b.2[1011]"]

    def test_it_makes_alpha_plus_theta_copies(self):
        decision = route("a.4 c.4", "01111", "b.0", "b.1", "a.4")
        assert len(decision.forwards) == 2 + 2
        assert decision.case is Case.ONE


class TestCaseTwo:
    """All target iLinks are congested, but an interested aLink is free."""

    def test_fig_7c_at_the_host_broker(self):
        decision = route("a.3 c.3", "0101", "b.0", "b.2", a3=2, c3=1)
        assert copies(decision) == ["a.3", "c.3[0101]"]
        assert decision.case is Case.TWO

    def test_a_congested_alink_gets_its_copy_but_carries_nothing(self):
        assert copies(route("a.3 c.3", "0101", "b.0", "b.2", "a.3", a3=0, c3=9)) == ["a.3", "c.3[0101]"]

    def test_a_tie_goes_to_the_lower_broker_id(self):
        assert copies(route("a.3 c.3", "0001", "b.0")) == ["a.3[0001]", "c.3"]

    def test_it_makes_alpha_copies(self):
        decision = route("a.3 c.3 d.3", "0111", "b.0", "b.1", "b.2", "d.3")
        assert len(decision.forwards) == 3
        assert decision.case is Case.TWO


class TestCaseThree:
    """Everything is congested: the target iLink with the shortest queue is taken (D7)."""

    def test_fig_7d_at_the_host_broker(self):
        decision = route("c.3", "0111", "b.0", "b.1", "b.2", "c.3", b0=22, b1=21, b2=20, c3=0)
        assert copies(decision) == ["c.3", "b.2[0011]"]
        assert decision.case is Case.THREE

    def test_the_last_waiting_cluster_is_reached_by_a_plain_copy(self):
        decision = route("", "0010", "b.1")
        assert copies(decision) == ["b.1"]
        assert decision.forwards[0].publication_civ is None
        assert decision.case is Case.THREE

    def test_a_tie_goes_to_the_lower_broker_id(self):
        assert copies(route("", "0110", "b.1", "b.2", b1=7, b2=7)) == ["b.1[0100]"]

    def test_it_makes_alpha_plus_1_copies(self):
        decision = route("a.3 c.3", "0111", "b.0", "b.1", "b.2", "a.3", "c.3")
        assert len(decision.forwards) == 2 + 1
        assert decision.case is Case.THREE


@pytest.mark.parametrize("full_ilinks", range(16))
@pytest.mark.parametrize("full_alinks", range(4))
def test_every_target_cluster_is_entered_or_carried_exactly_once(full_ilinks: int, full_alinks: int):
    alinks, targets = ["a.4", "c.4"], ClusterIndexVector(0b1111, 5)
    full = [f"b.{each}" for each in range(4) if full_ilinks >> each & 1]
    full += [link for number, link in enumerate(alinks) if full_alinks >> number & 1]
    decision = route_dynamically(Wanted(tuple(map(at, alinks)), targets), FakeView({}, tuple(full)))
    assert [str(each.link) for each in decision.forwards][:2] == alinks
    entered = [each.link.cluster for each in decision.forwards[2:]]
    assert entered == sorted(entered)
    carriers = [each.publication_civ for each in decision.forwards if each.publication_civ is not None]
    assert len(carriers) <= 1
    carried = [cluster for civ in carriers for cluster in civ]
    assert sorted(entered + carried) == [0, 1, 2, 3]
    assert (decision.case is None) == (full_ilinks == 0)
