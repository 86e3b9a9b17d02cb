"""The bounds of a burst: the formula, and its place in the overlay of the paper."""

import math

import pytest

from octopia.experiments.paper.bounds import Load, Senders, any_path_s, bound_rows, drain_s, one_path_s
from octopia.experiments.paper.names import Model, Scale, StudyName
from octopia.experiments.paper.studies import Extent, load_study
from octopia.pipeline.spec import Burst, HostKind, Meaning, WorkloadSpec

pytest.importorskip("pyspark")

PER_SECOND = 1000 / 3
"""A link that takes 3 ms per copy."""
ORDINARY = 100 / 0.55
"""100 publishers with gaps of 0.5 to 0.6 s."""


def test_the_formula_gives_the_times_of_the_burst_study():
    # All regions but one of 14 publish what crosses the last aLink; all brokers but one what an edge broker gets.
    assert drain_s(50_000, PER_SECOND, ORDINARY * 13 / 14) == pytest.approx(304, abs=0.5)
    assert drain_s(50_000, 4 * PER_SECOND, ORDINARY * 55 / 56) == pytest.approx(43.3, abs=0.05)


def test_a_load_that_ends_leaves_the_whole_rate():
    assert drain_s(100, 10, 5, lasting_s=1000) == 20
    # 10 s at 5 per second, and the remaining 50 at 10 per second.
    assert drain_s(100, 10, 5, lasting_s=10) == 15
    assert drain_s(100, 10, 10) == math.inf
    assert drain_s(100, 10, 20, lasting_s=5) == 20


def test_a_shared_sender_is_counted_once():
    links = [("a", "b"), ("a", "c"), ("d", "c")]
    assert (Senders(1.0).count(links), Senders(1.0, per_broker=True).count(links)) == (3, 2)


def spec(host: HostKind, seed: int = 0) -> tuple[Load, Burst]:
    burst = Burst(host=host)
    workload = WorkloadSpec(subscribers=10_000, selectivity=0.04, meaning=Meaning.PUBLISHERS, burst=burst, seed=seed)
    return Load.of(workload), burst


@pytest.mark.parametrize("seed", range(3))
def test_with_a_sender_per_link_the_host_does_not_matter(seed: int):
    senders = Senders(PER_SECOND)
    inner, edge = (one_path_s(*spec(host, seed), senders) for host in (HostKind.INNER, HostKind.EDGE))
    assert inner == pytest.approx(edge, rel=1e-6)
    # Publishers are not spread evenly over regions.
    assert inner == pytest.approx(315, rel=0.06)
    for host in (HostKind.INNER, HostKind.EDGE):
        assert any_path_s(*spec(host, seed), senders) == pytest.approx(43.3, rel=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_sender_per_broker_an_inner_host_takes_longer(seed: int):
    senders = Senders(4 * PER_SECOND, per_broker=True)
    inner, edge = (one_path_s(*spec(host, seed), senders) for host in (HostKind.INNER, HostKind.EDGE))
    assert inner > 1.3 * edge
    # The host broker must send every publication once.
    assert any_path_s(*spec(HostKind.EDGE, seed), senders) == pytest.approx(37.5, rel=0.01)


def test_a_burst_cannot_be_over_before_it_is_published():
    load, _ = spec(HostKind.EDGE)
    slow = Burst(publications=100, per_minute=60.0, host=HostKind.EDGE)
    assert one_path_s(load, slow, Senders(PER_SECOND)) == any_path_s(load, slow, Senders(PER_SECOND)) == 100


def test_there_is_a_row_per_model():
    point = load_study(StudyName.BURST, Extent(Scale.TINY)).points[0]
    rows = list(bound_rows(point, Model))
    assert [(row.model, row.host) for row in rows] == [(model, "inner") for model in Model]
    assert all(row.any_path_ms <= row.one_path_ms for row in rows)
    quiet = load_study(StudyName.DELIVERY, Extent(Scale.TINY)).points[0]
    assert list(bound_rows(quiet, Model)) == []
