"""The rows of a run, from the summary of its trace."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import networkx

from octopia.experiments.paper.names import System
from octopia.experiments.paper.rows import BurstRow, DeliveryRow, PublisherRow, SequenceRow, SubscriberRow
from octopia.experiments.paper.studies import PlannedRun
from octopia.ids import BrokerId
from octopia.overlay import Scot
from octopia.overlay.scot import Link
from octopia.protocol import MessageKind
from octopia.trace import DISTINCT_SUBSCRIPTIONS

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
        model=planned.model,
        system=System.of(planned.run.algorithm),
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
        model=planned.model,
        system=System.of(planned.run.algorithm),
        seed=planned.point.seed,
        subscriptions=summary.subscriptions.count,
        subscription_delay_ms=summary.subscriptions.delay_ms_mean,
        prt_size_mean=summary.table_size_mean["prt"],
        prt_subscriptions_mean=summary.table_size_mean[DISTINCT_SUBSCRIPTIONS],
        # A subscription sets bits of cluster index vectors, which takes messages of their own.
        subscription_messages=summary.messages[MessageKind.SUBSCRIPTION] + summary.messages[MessageKind.CIV_SET],
        confirmation_messages=summary.messages[MessageKind.CONFIRMATION],
    )


def delivery_row(planned: PlannedRun, summary: DeliverySummary) -> DeliveryRow:
    """Return the row of a run of the delivery study."""
    return DeliveryRow(
        subscribers=planned.point.workload.subscribers,
        model=planned.model,
        algorithm=planned.contender,
        seed=planned.point.seed,
        publications=planned.point.publications,
        deliveries=summary.count,
        publication_delay_ms=summary.delay_ms_mean,
        path_length_mean=summary.path_length_mean,
        publication_messages=summary.messages[MessageKind.PUBLICATION],
    )


def burst_rows(
    planned: PlannedRun, summary: BurstSummary, targets: Collection[Link], seconds: float
) -> Iterator[BurstRow | SequenceRow]:
    """Yield the rows of a run of the burst study, which took this long by the clock: its points, then the run.

    ``targets`` are the links on static paths from the bursty publisher to its subscribers.
    """
    point, start_ms = planned.point, summary.start_ms
    about = (round(point.value), planned.model, point.host, planned.contender, point.seed)
    sequence = [
        SequenceRow(*about, each.sequence, each.delay_ms_max, each.time_ms_last - start_ms) for each in summary.delays
    ]
    yield from sequence
    stable, all_, burst = stable_ms(sequence), summary.deliveries, summary.of_burst
    yield BurstRow(
        *about,
        publications=point.publications,
        deliveries=all_.count,
        publication_delay_ms=all_.delay_ms_mean,
        share_below_1s=all_.share_below_1s,
        publications_below_1s=all_.publications_below_1s,
        burst_deliveries=burst.count,
        burst_delay_ms=burst.delay_ms_mean,
        burst_share_below_1s=burst.share_below_1s,
        burst_publications_below_1s=burst.publications_below_1s,
        stable_ms=stable,
        burst_late_ms=0.0 if burst.late_until_ms is None else burst.late_until_ms - start_ms,
        queue_length_mean=_queue_length_mean(planned, summary, _links(planned)),
        target_queue_length_mean=_queue_length_mean(planned, summary, targets),
        publication_messages=summary.messages[MessageKind.PUBLICATION],
        shrinking_ms=None if stable is None else _shrinking_ms(planned, summary, stable),
        seconds=seconds,
    )


def stable_ms(sequence: Sequence[SequenceRow]) -> float | None:
    """Return the time from the start of the burst until delays were and stayed normal; none if they never did."""
    late = [row for row in sequence if row.delay_ms_max > CALM_MS]
    if not late:
        return 0.0
    return None if late[-1] is sequence[-1] else late[-1].time_ms


def target_links(scot: Scot, host: BrokerId, subscribers: Iterable[BrokerId]) -> list[Link]:
    """Return the links on static paths from a host broker to brokers with subscribers.

    A publication crosses to a cluster in the host broker's region, and follows the tree there.
    """
    found: dict[Link, None] = {}
    tree = networkx.Graph(scot.tree.edges)
    for broker in subscribers:
        regions = networkx.shortest_path(tree, host.region, broker.region)
        path = [host, *(BrokerId(region, broker.cluster) for region in regions)]
        found |= dict.fromkeys((one, other) for one, other in itertools.pairwise(path) if one != other)
    return list(found)


def _links(planned: PlannedRun) -> list[Link]:
    scot = planned.point.workload.scot()
    return [both for low, high in (*scot.alinks, *scot.ilinks) for both in ((low, high), (high, low))]


def _queue_length_mean(planned: PlannedRun, summary: BurstSummary, links: Collection[Link]) -> float:
    samples = max(1.0, (summary.last_delivery_ms - summary.start_ms) / planned.run.sample_ms)
    sums = summary.queue_length_sums
    return sum(sums.get((str(one), str(other)), 0) for one, other in links) / samples / max(1, len(links))


def _shrinking_ms(planned: PlannedRun, summary: BurstSummary, stable: float) -> float:
    """Return the time, before delays were normal, in which the longest queue was getting shorter."""
    until_ms = summary.start_ms + stable
    return planned.run.sample_ms * sum(at_ms <= until_ms for at_ms in summary.shrinking_at_ms)
