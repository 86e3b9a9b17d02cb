"""Rows from summaries made by hand."""

from collections import Counter

import pytest

pytest.importorskip("pyspark")

import paper_rows as make

from octopia.experiments.paper.measurements import (
    burst_rows,
    delivery_row,
    publisher_row,
    stable_ms,
    subscriber_row,
    target_links,
)
from octopia.experiments.paper.names import Contender, Model, Scale, StudyName, System
from octopia.experiments.paper.rows import BurstRow, DeliveryRow, PublisherRow, SequenceRow, SubscriberRow
from octopia.experiments.paper.studies import Extent, PlannedRun, load_study
from octopia.overlay.files import overlay_from_text
from octopia.pipeline.summaries import BurstSummary, DelayPoint, DeliverySummary, Promptness, SetupSummary, Spread
from octopia.settings import Algorithm

SETUP = SetupSummary(
    advertisements=Spread(100, 2.5),
    subscriptions=Spread(500, 3.5),
    messages=Counter(advertisement=21_700, subscription=1_000, civ_set=200),
    table_size_mean={"clt": 7.0, "srt": 100.0, "prt": 40.0, "subscriptions": 30.0},
)
DELIVERIES = DeliverySummary(1_000, 12.5, 0.75, Counter(publication=4_000), 3.5)


def planned(name: StudyName, algorithm: Algorithm) -> PlannedRun:
    point = load_study(name, Extent(Scale.TINY)).points[0]
    return PlannedRun(point, next(run for run in point.runs if run.algorithm is algorithm), "")


def test_a_publisher_row_has_the_table_of_its_system():
    tid = publisher_row(planned(StudyName.PUBLISHERS, Algorithm.TID_STATIC), SETUP)
    assert tid == PublisherRow(100, Model.LINKS, System.TID, 0, 100, 2.5, 100.0, 21_700, 0, 162 / 217)
    octopia = publisher_row(planned(StudyName.PUBLISHERS, Algorithm.DYNAMIC), SETUP)
    assert (octopia.system, octopia.table_size_mean, octopia.duplicate_share) == (System.OCTOPIA, 7.0, 0.0)


def test_a_subscriber_row_counts_messages_that_set_bits():
    row = subscriber_row(planned(StudyName.SUBSCRIBERS, Algorithm.DYNAMIC), SETUP)
    assert row == SubscriberRow(500, Model.LINKS, System.OCTOPIA, 0, 500, 3.5, 40.0, 30.0, 1_200, 0)


def test_a_delivery_row_has_all_publications_of_its_workload():
    row = delivery_row(planned(StudyName.DELIVERY, Algorithm.STATIC), DELIVERIES)
    assert row == DeliveryRow(500, Model.LINKS, Contender.STATIC, 0, 500, 1_000, 12.5, 3.5, 4_000)


def test_adaptive_routing_is_a_system_of_its_own():
    row = publisher_row(planned(StudyName.PUBLISHERS, Algorithm.ADAPTIVE), SETUP)
    assert (row.system, row.table_size_mean) == (System.ADAPTIVE, 7.0)


def test_burst_rows_are_counted_from_the_start_of_the_burst():
    run = planned(StudyName.BURST, Algorithm.DYNAMIC)
    points = DelayPoint(0, 1500.0, 2_500.0), DelayPoint(1, 20.0, 3_500.0)
    # Two samples of 500 ms from the burst at 500 ms; the longest queue shrank in three, the last after recovery.
    summary = BurstSummary(
        deliveries=Promptness(1_000, 12.5, 0.75, 0.5, 2_400.0),
        of_burst=Promptness(200, 50.0, 0.25, 0.125, 2_300.0),
        messages=Counter(publication=4_000),
        start_ms=500.0,
        last_delivery_ms=1_500.0,
        queue_length_sums={("A.0", "A.1"): 600, ("A.1", "A.0"): 8},
        shrinking_at_ms=(1_000.0, 2_500.0, 3_000.0),
        delays=points,
    )
    a0, a1, a2 = (overlay_from_text("paper:se", 4).scot.broker(f"A.{cluster}") for cluster in range(3))
    first, second, burst = burst_rows(run, summary, [(a0, a1), (a0, a2)], 61.5)
    about = (100_000, Model.LINKS, "inner", Contender.DYNAMIC, 0)
    assert first == SequenceRow(*about, 0, 1500.0, 2_000.0)
    assert (second.sequence, second.time_ms) == (1, 3_000.0)
    assert isinstance(burst, BurstRow)
    scot = run.point.workload.scot()
    queues = 2 * (len(scot.alinks) + len(scot.ilinks))
    assert burst.queue_length_mean == pytest.approx(608 / 2 / queues)
    assert burst.target_queue_length_mean == pytest.approx(600 / 2 / 2)
    assert (burst.publications, burst.stable_ms, burst.shrinking_ms, burst.seconds) == (2_000, 2_000.0, 1_000.0, 61.5)
    assert (burst.burst_delay_ms, burst.burst_late_ms, burst.publications_below_1s) == (50.0, 1_800.0, 0.5)


def test_target_links_are_those_of_static_paths():
    scot = overlay_from_text("path:3", 2).scot
    a0, b0, c0, a1, b1 = (scot.broker(name) for name in ("a.0", "b.0", "c.0", "a.1", "b.1"))
    assert target_links(scot, a0, [c0, b0, b1]) == [(a0, b0), (b0, c0), (a0, a1), (a1, b1)]


def sequence_of(*delays_ms: float) -> list[SequenceRow]:
    return [
        make.sequence(Contender.STATIC, number, delay_ms, 100.0 * number) for number, delay_ms in enumerate(delays_ms)
    ]


def test_a_run_is_stable_after_its_last_late_group():
    assert stable_ms(sequence_of(5.0, 1000.0, 7.0)) == 0.0
    assert stable_ms(sequence_of(5.0, 1500.0, 9.0, 2000.0, 7.0)) == 300.0
    assert stable_ms(sequence_of(5.0, 1500.0)) is None
