"""The rows of a run, from the summary of its trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from octopia.experiments.paper.names import System
from octopia.experiments.paper.rows import BurstRow, DeliveryRow, PublisherRow, SequenceRow, SubscriberRow
from octopia.experiments.paper.studies import PlannedRun
from octopia.protocol import MessageKind

if TYPE_CHECKING:
    from octopia.pipeline.summaries import BurstSummary, DeliverySummary, SetupSummary

CALM_MS = 1000.0
"""Delays up to this are normal."""


def publisher_row(planned: PlannedRun, summary: SetupSummary) -> PublisherRow:
    """Return the row of a run of the publisher study."""
    workload, is_tid = planned.point.workload, planned.run.algorithm.is_tid
    messages = summary.messages[MessageKind.ADVERTISEMENT]
    # A flood needs one message per other broker; brokers discard the rest.
    needed = summary.advertisements.count * (len(workload.scot().brokers) - 1)
    return PublisherRow(
        publishers=workload.publishers,
        system=_system(planned),
        seed=planned.point.seed,
        advertisements=summary.advertisements.count,
        advertisement_delay_ms=summary.advertisements.delay_ms_mean,
        table_size_mean=summary.table_size_mean["srt" if is_tid else "clt"],
        advertisement_messages=messages,
        confirmation_messages=summary.messages[MessageKind.CONFIRMATION],
        duplicate_share=max(0, messages - needed) / messages if is_tid else 0.0,
    )


def subscriber_row(planned: PlannedRun, summary: SetupSummary) -> SubscriberRow:
    """Return the row of a run of the subscriber study."""
    return SubscriberRow(
        subscribers=planned.point.workload.subscribers,
        system=_system(planned),
        seed=planned.point.seed,
        subscriptions=summary.subscriptions.count,
        subscription_delay_ms=summary.subscriptions.delay_ms_mean,
        prt_size_mean=summary.table_size_mean["prt"],
        # A subscription sets bits of cluster index vectors, which takes messages of their own.
        subscription_messages=summary.messages[MessageKind.SUBSCRIPTION] + summary.messages[MessageKind.CIV_SET],
        confirmation_messages=summary.messages[MessageKind.CONFIRMATION],
    )


def delivery_row(planned: PlannedRun, summary: DeliverySummary) -> DeliveryRow:
    """Return the row of a run of the delivery study."""
    return DeliveryRow(
        subscribers=planned.point.workload.subscribers,
        algorithm=planned.run.algorithm,
        seed=planned.point.seed,
        publications=planned.point.publications,
        deliveries=summary.count,
        publication_delay_ms=summary.delay_ms_mean,
        publication_messages=summary.messages[MessageKind.PUBLICATION],
    )


def burst_rows(planned: PlannedRun, summary: BurstSummary, seconds: float) -> Iterator[BurstRow | SequenceRow]:
    """Yield the rows of a run of the burst study, which took this long by the clock: its points, then the run."""
    rate, algorithm, seed = round(planned.point.value), planned.run.algorithm, planned.point.seed
    sequence = [
        SequenceRow(rate, algorithm, seed, each.sequence, each.delay_ms_max, each.time_ms_last - summary.start_ms)
        for each in summary.delays
    ]
    yield from sequence
    stable, deliveries = stable_ms(sequence), summary.deliveries
    yield BurstRow(
        rate_per_minute=rate,
        algorithm=algorithm,
        seed=seed,
        publications=planned.point.publications,
        deliveries=deliveries.count,
        publication_delay_ms=deliveries.delay_ms_mean,
        share_below_1s=deliveries.share_below_1s,
        stable_ms=stable,
        queue_length_mean=_queue_length_mean(planned, summary),
        publication_messages=deliveries.messages[MessageKind.PUBLICATION],
        shrinking_ms=None if stable is None else _shrinking_ms(planned, summary, stable),
        seconds=seconds,
    )


def stable_ms(sequence: Sequence[SequenceRow]) -> float | None:
    """Return the time from the start of the burst until delays were normal for good; none if they never were."""
    late = [row for row in sequence if row.delay_ms_max > CALM_MS]
    if not late:
        return 0.0
    return None if late[-1] is sequence[-1] else late[-1].time_ms


def _system(planned: PlannedRun) -> System:
    return System.TID if planned.run.algorithm.is_tid else System.OCTOPIA


def _queue_length_mean(planned: PlannedRun, summary: BurstSummary) -> float:
    samples = max(1.0, (summary.last_delivery_ms - summary.start_ms) / planned.run.sample_ms)
    scot = planned.point.workload.scot()
    queues = 2 * (len(scot.alinks) + len(scot.ilinks))
    return summary.queue_length_sum / samples / queues


def _shrinking_ms(planned: PlannedRun, summary: BurstSummary, stable: float) -> float:
    """Return the time, before delays were normal, in which the longest queue was getting shorter."""
    until_ms = summary.start_ms + stable
    return planned.run.sample_ms * sum(at_ms <= until_ms for at_ms in summary.shrinking_at_ms)
