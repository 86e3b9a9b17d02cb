"""Static publication routing, Alg. 3, as a pure function."""

from octopia.broker import Decision, Forward
from octopia.broker.static_routing import Wanted, route_statically
from octopia.protocol import ClusterIndexVector
from support import FakeView, at


def wanted(alinks: str, targets: str) -> Wanted:
    return Wanted(tuple(map(at, alinks.split())), ClusterIndexVector(int(targets, 2), len(targets)))


def test_plain_copies_to_alinks_then_ilinks_each_by_broker_id():
    decision = route_statically(wanted("a.3 c.3", "0101"), FakeView())
    assert decision == Decision((Forward(at("a.3")), Forward(at("c.3")), Forward(at("b.0")), Forward(at("b.2"))))


def test_congestion_and_queues_are_not_looked_at():
    view = FakeView({"b.0": 99, "a.3": 98}, full=("a.3", "b.0"))
    assert route_statically(wanted("a.3", "0001"), view) == route_statically(wanted("a.3", "0001"), FakeView())


def test_it_makes_alpha_plus_beta_copies():
    assert len(route_statically(wanted("a.3 c.3 d.3", "0111"), FakeView()).forwards) == 3 + 3


def test_ilinks_are_ordered_by_cluster_as_a_number():
    decision = route_statically(wanted("", "1" + "0" * 7 + "100"), FakeView())
    assert [str(each.link) for each in decision.forwards] == ["b.2", "b.10"]


def test_nobody_wants_it_nothing_goes():
    assert route_statically(wanted("", "0000"), FakeView()) == Decision(())
