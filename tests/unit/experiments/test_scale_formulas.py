"""The formulas of the scale study give what the simulator counts, for any tree, number of clusters and workload."""

import itertools
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.experiments.scale import growth
from octopia.experiments.scale.failures import places, simulate_failures
from octopia.experiments.scale.formulas import CrashCounts, Shape, count, count_crash, messages_per_advertisement
from octopia.experiments.scale.growth import predict, simulate
from octopia.experiments.scale.names import Fault, Series, Source, System
from octopia.experiments.scale.workload import Point, Workload
from octopia.overlay.trees import region_names

SIMULATED = [System.STATIC, System.ADAPTIVE, System.TID]


@pytest.fixture(scope="module", autouse=True)
def no_collections() -> Iterator[None]:
    """Do not collect garbage before memory is measured: that takes long in a process with many modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "gc", SimpleNamespace(collect=lambda: 0))
        yield


@st.composite
def points(draw) -> Point:
    """Any tree of up to seven regions, each joined to one before it."""
    regions = list(itertools.islice(region_names(), draw(st.integers(1, 7))))
    parents = [draw(st.integers(0, number - 1)) for number in range(1, len(regions))]
    edges = [f"{regions[parent]}-{regions[number]}" for number, parent in enumerate(parents, start=1)]
    return Point(
        Series.REGIONS,
        ", ".join(edges) or regions[0],
        draw(st.integers(1, 4)),
        draw(st.integers(1, 40)),
        publishers=draw(st.integers(1, 6)),
        publishers_per_symbol=draw(st.integers(1, 3)),
        publications=15,
        wanted_by=draw(st.integers(1, 5)),
        seed=draw(st.integers(0, 1000)),
    )


@pytest.mark.parametrize("system", SIMULATED)
@settings(max_examples=8, deadline=None)
@given(point=points())
def test_every_total_of_a_run_equals_its_formula(system: System, point: Point):
    _compare_with_formulas(system, point)


@pytest.mark.soak
@pytest.mark.parametrize("system", SIMULATED)
@settings(max_examples=100, deadline=None)
@given(point=points())
def test_every_total_of_many_runs_equals_its_formula(system: System, point: Point):
    _compare_with_formulas(system, point)


def _compare_with_formulas(system: System, point: Point) -> None:
    row, checks = simulate(point, system)
    assert row.source is Source.SIMULATED
    assert len(checks) >= 8
    assert [check for check in checks if not check.agrees] == []


@pytest.mark.parametrize("system", [System.STATIC, System.ADAPTIVE])
@settings(max_examples=8, deadline=None)
@given(point=points().filter(lambda point: "-" in point.tree and point.clusters > 1))
def test_the_subscriptions_after_a_crash_equal_their_formula(system: System, point: Point):
    rows, checks = simulate_failures(point, system)
    assert [row.fault for row in rows] == list(Fault)
    assert [check for check in checks if not check.agrees] == []
    assert all(row.bytes for row in rows if row.messages)


def test_the_worked_numbers_of_the_papers_overlay():
    shape = Shape(14, 4)
    assert (shape.brokers, shape.links, shape.flood) == (56, 136, 217)
    assert [messages_per_advertisement(system, shape) for system in System] == [3, 3, 217, 0]
    counts = count(Workload(Point(Series.REGIONS, "paper:se", 4, 100)), System.STATIC)
    assert (counts.subscription_messages, counts.subscription_entries) == (1300, 1400)


def test_a_crash_of_an_inner_broker_fetches_its_table_and_echoes_it():
    # 142 entries, 18 of them of its own clients, four aLinks, 14 regions.
    assert count_crash(Shape(14, 4), 4, 142, 18) == CrashCounts(124 * 4 + 18 * 13, 18 * 9, 48)


def test_a_flood_is_by_formula_and_visits_every_link():
    row = predict(Point(Series.REGIONS, "path:3", 2, 50, publications=20), System.FLOOD)
    assert row.source is Source.FORMULA
    assert (row.messages_per_publication, row.messages_per_subscription, row.busiest_link) == (9, 0, 1.0)
    assert row.delay_ms == pytest.approx(0.1 + row.hops * 3.15)


def test_a_flood_reaches_subscribers_over_as_many_links_as_octopia():
    point = Point(Series.REGIONS, "binary:6", 3, 60, publications=20)
    hops = {predict(point, system).hops for system in System}
    assert len(hops) == 1


def test_a_publication_is_wanted_by_the_same_number_at_every_size():
    for subscriptions in (1_000, 20_000):
        row = predict(Point(Series.SUBSCRIPTIONS, "path:3", 2, subscriptions), System.STATIC)
        assert row.deliveries_per_publication == pytest.approx(20, rel=0.1)


def test_faults_strike_where_most_links_meet_or_at_the_edge():
    workload = Workload(Point(Series.REGIONS, "paper:se", 4, 10))
    assert [str(broker) for broker in places(workload, Fault.INNER_CRASH)] == ["I.0", "D.0"]
    assert [str(broker) for broker in places(workload, Fault.EDGE_CRASH)] == ["A.0", "F.0"]
    assert [str(broker) for broker in places(workload, Fault.ILINK_CUT)] == ["I.0", "I.1"]
