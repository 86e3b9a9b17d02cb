"""Summaries of runs for the paper's studies: metrics of a trace side by side, one summary per run.

Traces are named by files, by the folders of runs, or by those of sweeps. Summaries are returned by run id.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from octopia.broker.interface import Event
from octopia.errors import JobFailed
from octopia.pipeline import metrics
from octopia.pipeline.jobs import Workspace
from octopia.pipeline.schedule import BURST
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.pipeline.traces import read_traces

_RUN = "run_id"


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Advertisements or subscriptions: their number, and the mean time until the last broker had them."""

    count: int = 0
    delay_ms_mean: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class SetupSummary:
    """Advertisements and subscriptions of a run, the messages that they took and the tables that they filled."""

    advertisements: Spread
    subscriptions: Spread
    messages: Counter[str]
    """By kind."""
    table_size_mean: Mapping[str, float]
    """By kind of table, over all brokers."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeliverySummary:
    """Deliveries of a run."""

    count: int
    delay_ms_mean: float
    share_below_1s: float
    messages: Counter[str]
    """By kind."""
    path_length_mean: float = 0.0
    """In links between brokers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Promptness:
    """Deliveries of some publications of a run, and the share of publications that all subscribers got in a second."""

    count: int
    delay_ms_mean: float
    share_below_1s: float
    publications_below_1s: float
    late_until_ms: float | None
    """The time of the last delivery that took a second or more, if there is one."""


@dataclasses.dataclass(frozen=True, slots=True)
class DelayPoint:
    """The longest delay among consecutive deliveries, and the time of the last of them."""

    sequence: int
    delay_ms_max: float
    time_ms_last: float


@dataclasses.dataclass(frozen=True, slots=True)
class BurstSummary:
    """A run with a burst; queues are those between brokers, sampled from the start of the burst on."""

    deliveries: Promptness
    of_burst: Promptness
    messages: Counter[str]
    """By kind."""
    start_ms: float
    last_delivery_ms: float
    queue_length_sums: Mapping[tuple[str, str], int]
    """The length of each queue that was not always empty, by broker and peer, summed over samples."""
    shrinking_at_ms: tuple[float, ...]
    """The times of the samples in which the longest queue was getting shorter (CE < 1)."""
    delays: tuple[DelayPoint, ...]


@contextlib.contextmanager
def _named_errors(traces: Sequence[str]) -> Iterator[None]:
    """Turn an error of Spark into one that names the traces."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise JobFailed(f"the summary of {', '.join(traces)} failed: {spark_message(error)}") from error


def summarise_setup(workspace: Workspace, traces: Sequence[str], brokers: int) -> dict[str, SetupSummary]:
    """Summarise advertisements and subscriptions on an overlay with this number of brokers."""
    with _named_errors(traces):
        return _setup(read_traces(workspace.spark, workspace.storage, *traces).persist(), brokers)


def summarise_deliveries(workspace: Workspace, traces: Sequence[str]) -> dict[str, DeliverySummary]:
    """Summarise delays of deliveries, and messages."""
    with _named_errors(traces):
        return _deliveries(read_traces(workspace.spark, workspace.storage, *traces))


def summarise_bursts(workspace: Workspace, traces: Sequence[str], group: int) -> dict[str, BurstSummary]:
    """Summarise deliveries and queues, with one point per ``group`` of consecutive deliveries."""
    with _named_errors(traces):
        return _bursts(read_traces(workspace.spark, workspace.storage, *traces), group)


def _setup(trace: DataFrame, brokers: int) -> dict[str, SetupSummary]:
    try:
        spread = metrics.spreading(trace)
        advertisements = _spread(metrics.advertisements_of(spread))
        subscriptions = _spread(metrics.subscriptions_of(spread))
        messages = _messages(trace)
        sizes: dict[str, dict[str, float]] = {}
        for row in metrics.mean_table_size(trace, brokers).collect():
            sizes.setdefault(row.run_id, {})[row.kind] = row.size_mean
    finally:
        trace.unpersist()
    return {
        run: SetupSummary(spread, subscriptions.get(run, Spread()), messages.get(run, Counter()), sizes.get(run, {}))
        for run, spread in advertisements.items()
    }


def _bursts(trace: DataFrame, group: int) -> dict[str, BurstSummary]:
    messages, start_ms = _messages(trace), _starts(trace)
    lengths, shrinking = _queue_lengths(trace, start_ms), _shrinking(trace, start_ms)
    batches = metrics.delivery_batches(trace).persist()
    try:
        prompt = {row.run_id: row.asDict() for row in metrics.promptness_of(batches, trace, BURST).collect()}
        delays = _delays(batches, group)
    finally:
        batches.unpersist()
    return {
        run: BurstSummary(
            deliveries=_promptness(of_run, ""),
            of_burst=_promptness(of_run, "burst_"),
            messages=messages.get(run, Counter()),
            start_ms=start_ms[run],
            last_delivery_ms=of_run["last_ms"],
            queue_length_sums=lengths.get(run, {}),
            shrinking_at_ms=shrinking.get(run, ()),
            delays=delays[run],
        )
        for run, of_run in prompt.items()
    }


def _promptness(row: Mapping[str, Any], prefix: str) -> Promptness:
    names = ("deliveries", "delay_ms_mean", "share_below_1s", "publications_below_1s", "late_until_ms")
    return Promptness(*(row[f"{prefix}{name}"] for name in names))


def _deliveries(trace: DataFrame) -> dict[str, DeliverySummary]:
    messages = _messages(trace)
    return {
        row.run_id: DeliverySummary(
            row.deliveries,
            row.delay_ms_mean,
            row.share_below_1000_ms,
            messages.get(row.run_id, Counter()),
            row.path_length_mean,
        )
        for row in metrics.deliveries(trace).collect()
    }


def _starts(trace: DataFrame) -> dict[str, float]:
    """Return the time at which the burst began."""
    event, time_ms = F.col("event"), F.col("time_ms")
    published = trace.where((event == Event.RECEIVE.value) & F.col("publication").isNotNull())
    found = published.where(F.col("client") == BURST).groupBy(_RUN).agg(F.min(time_ms).alias("start_ms"))
    return {row.run_id: row.start_ms for row in found.collect()}


def _queue_lengths(trace: DataFrame, start_ms: Mapping[str, float]) -> dict[str, dict[tuple[str, str], int]]:
    """Return the length of each queue, summed over the samples since the burst began."""
    started = F.create_map(*(F.lit(each) for pair in start_ms.items() for each in pair))
    sampled = (
        trace.where((F.col("event") == Event.WINDOW.value) & (F.col("time_ms") >= started[F.col(_RUN)]))
        .groupBy(_RUN, "broker", "peer")
        .agg(F.sum("queue_length").alias("length"))
    )
    found: dict[str, dict[tuple[str, str], int]] = {}
    for row in sampled.collect():
        found.setdefault(row.run_id, {})[row.broker, row.peer] = row.length
    return found


def _shrinking(trace: DataFrame, start_ms: Mapping[str, float]) -> dict[str, tuple[float, ...]]:
    """Return the times at which the longest queue was getting shorter, since the burst began."""
    # A sample has at most one row per link, so that these are few.
    sampled = (
        trace.where(F.col("event") == Event.WINDOW.value)
        .groupBy(_RUN, "time_ms")
        .agg(F.max(F.struct("queue_length", F.col("value").alias("ce"))).alias("longest"))
        .orderBy(_RUN, "time_ms")
    )
    return {
        run: tuple(row.time_ms for row in rows if row.time_ms >= start_ms[run] and row.longest.ce < 1)
        for run, rows in itertools.groupby(sampled.collect(), lambda row: str(row.run_id))
    }


def _delays(batches: DataFrame, group: int) -> dict[str, tuple[DelayPoint, ...]]:
    sequence = metrics.delay_sequence_of(batches, group).select(_RUN, "sequence", "delay_ms_max", "time_ms_last")
    rows = sequence.orderBy(_RUN, "sequence").collect()
    return {
        run: tuple(DelayPoint(row.sequence, row.delay_ms_max, row.time_ms_last) for row in of_run)
        for run, of_run in itertools.groupby(rows, lambda row: str(row.run_id))
    }


def _spread(delays: DataFrame) -> dict[str, Spread]:
    means = delays.groupBy(_RUN).agg(F.avg("reach_ms").alias("mean"), F.count(F.lit(1)).alias("number"))
    return {row.run_id: Spread(row.number, row["mean"]) for row in means.collect()}


def _messages(trace: DataFrame) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for row in metrics.messages(trace).collect():
        found.setdefault(row.run_id, Counter())[row.kind] = row.messages
    return found
