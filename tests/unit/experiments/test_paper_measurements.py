"""Rows from summaries made by hand."""

from collections import Counter

import pytest

pytest.importorskip("pyspark")

from octopia.experiments.paper.measurements import burst_rows, delivery_row, publisher_row, stable_ms, subscriber_row
from octopia.experiments.paper.names import Scale, StudyName, System
from octopia.experiments.paper.rows import BurstRow, DeliveryRow, PublisherRow, SequenceRow, SubscriberRow
from octopia.experiments.paper.studies import Extent, PlannedRun, load_study
from octopia.pipeline.summaries import BurstSummary, DelayPoint, DeliverySummary, SetupSummary, Spread
from octopia.settings import Algorithm

SETUP = SetupSummary(
    advertisements=Spread(100, 2.5),
    subscriptions=Spread(500, 3.5),
    messages=Counter(advertisement=21_700, subscription=1_000, civ_set=200),
    table_size_mean={"clt": 7.0, "srt": 100.0, "prt": 40.0},
)
DELIVERIES = DeliverySummary(1_000, 12.5, 0.75, Counter(publication=4_000))


def planned(name: StudyName, algorithm: Algorithm) -> PlannedRun:
    point = load_study(name, Extent(Scale.TINY)).points[0]
    return PlannedRun(point, next(run for run in point.runs if run.algorithm is algorithm), "")


def test_a_publisher_row_has_the_table_of_its_system():
    tid = publisher_row(planned(StudyName.PUBLISHERS, Algorithm.TID_STATIC), SETUP)
    assert tid == PublisherRow(100, System.TID, 0, 100, 2.5, 100.0, 21_700, 0, 162 / 217)
    octopia = publisher_row(planned(StudyName.PUBLISHERS, Algorithm.DYNAMIC), SETUP)
    assert (octopia.system, octopia.table_size_mean, octopia.duplicate_share) == (System.OCTOPIA, 7.0, 0.0)


def test_a_subscriber_row_counts_messages_that_set_bits():
    row = subscriber_row(planned(StudyName.SUBSCRIBERS, Algorithm.DYNAMIC), SETUP)
    assert row == SubscriberRow(500, System.OCTOPIA, 0, 500, 3.5, 40.0, 1_200, 0)


def test_a_delivery_row_has_all_publications_of_its_workload():
    row = delivery_row(planned(StudyName.DELIVERY, Algorithm.STATIC), DELIVERIES)
    assert row == DeliveryRow(500, Algorithm.STATIC, 0, 500, 1_000, 12.5, 4_000)


def test_burst_rows_are_counted_from_the_start_of_the_burst():
    run = planned(StudyName.BURST, Algorithm.DYNAMIC)
    points = DelayPoint(0, 1500.0, 2_500.0), DelayPoint(1, 20.0, 3_500.0)
    # Two samples of 500 ms from the burst at 500 ms; the longest queue shrank in three, the last after recovery.
    summary = BurstSummary(DELIVERIES, 500.0, 1_500.0, 2 * 434 * 3, (1_000.0, 2_500.0, 3_000.0), points)
    first, second, burst = burst_rows(run, summary, 61.5)
    assert first == SequenceRow(100_000, Algorithm.DYNAMIC, 0, 0, 1500.0, 2_000.0)
    assert (second.sequence, second.time_ms) == (1, 3_000.0)
    assert isinstance(burst, BurstRow)
    scot = run.point.workload.scot()
    queues = 2 * (len(scot.alinks) + len(scot.ilinks))
    assert burst.queue_length_mean == pytest.approx(2 * 434 * 3 / 2 / queues)
    assert (burst.publications, burst.stable_ms, burst.shrinking_ms, burst.seconds) == (1_800, 2_000.0, 1_000.0, 61.5)


def sequence_of(*delays_ms: float) -> list[SequenceRow]:
    return [
        SequenceRow(60_000, Algorithm.STATIC, 0, number, delay_ms, 100.0 * number)
        for number, delay_ms in enumerate(delays_ms)
    ]


def test_a_run_is_stable_after_its_last_late_group():
    assert stable_ms(sequence_of(5.0, 1000.0, 7.0)) == 0.0
    assert stable_ms(sequence_of(5.0, 1500.0, 9.0, 2000.0, 7.0)) == 300.0
    assert stable_ms(sequence_of(5.0, 1500.0)) is None
