"""Summaries of runs for the studies: several metrics in one row per run.

Traces are given by the names of files, run folders or sweep folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from octopia.broker.interface import Event
from octopia.pipeline import metrics
from octopia.pipeline.jobs import Workspace
from octopia.pipeline.schedule import BURST
from octopia.pipeline.traces import read_traces

_RUN = "run_id"


def spreading(workspace: Workspace, traces: Sequence[str], brokers: int) -> dict[str, dict[str, Any]]:
    """Return, per run, the cost of advertisements and subscriptions: delays, messages and table sizes."""
    trace = read_traces(workspace.spark, workspace.storage, *traces).persist()
    try:
        found = _mean_reach(metrics.advertisement_delay(trace), "advertisement_delay_ms", "advertisements")
        _merge(found, _mean_reach(metrics.subscription_delay(trace), "subscription_delay_ms", "subscriptions"))
        _merge(found, _messages(trace))
        sizes = metrics.mean_table_size(trace, brokers).collect()
        _merge(found, _by_run([(row.run_id, f"{row.kind}_size_mean", row.size_mean) for row in sizes]))
        return found
    finally:
        trace.unpersist()


def delivering(workspace: Workspace, traces: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return, per run, the delays of deliveries and the numbers of messages."""
    return _delivering(read_traces(workspace.spark, workspace.storage, *traces))


def _delivering(trace: DataFrame) -> dict[str, dict[str, Any]]:
    delays = metrics.publication_delay(trace).collect()
    found = {row.run_id: row.asDict() for row in delays}
    _merge(found, _messages(trace))
    return found


def bursting(
    workspace: Workspace, traces: Sequence[str], group: int
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return, per run, delays, messages, the time of the burst and the queues since; and the longest delays.

    The longest delays are in sequence, one per ``group`` of deliveries of a run.
    """
    trace = read_traces(workspace.spark, workspace.storage, *traces)
    found = _delivering(trace)
    _merge(found, _span(trace))
    _merge(found, _waiting(trace, {run: values["burst_ms"] for run, values in found.items()}))
    sequence = metrics.delay_sequence(trace, group).select(_RUN, "sequence", "delay_ms_max", "time_ms_last")
    return found, [row.asDict() for row in sequence.orderBy(_RUN, "sequence").collect()]


def _span(trace: DataFrame) -> dict[str, dict[str, Any]]:
    """Return the times of the burst's first publication and of the last delivery."""
    event, time_ms = F.col("event"), F.col("time_ms")
    is_burst = (event == Event.RECEIVE.value) & (F.col("client") == BURST) & F.col("publication").isNotNull()
    is_delivery = event == Event.DELIVER.value
    found = (
        trace.where(is_burst | is_delivery)
        .groupBy(_RUN)
        .agg(
            F.min(F.when(is_burst, time_ms)).alias("burst_ms"),
            F.max(F.when(is_delivery, time_ms)).alias("last_ms"),
        )
    )
    return {row.run_id: row.asDict() for row in found.collect()}


def _waiting(trace: DataFrame, burst_ms: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Return the queued publications since the burst, summed over queues and samples.

    ``shrinking_ms`` has the times at which the longest queue was getting shorter (CE < 1).
    """
    # A sample has at most one row per link, so there are few rows.
    sampled = (
        trace.where(F.col("event") == Event.WINDOW.value)
        .groupBy(_RUN, "time_ms")
        .agg(
            F.sum("queue_length").alias("waited"),
            F.max(F.struct("queue_length", F.col("value").alias("ce"))).alias("longest"),
        )
        .orderBy(_RUN, "time_ms")
    )
    found: dict[str, dict[str, Any]] = {run: {"waited": 0, "shrinking_ms": []} for run in burst_ms}
    for row in sampled.collect():
        if row.time_ms >= burst_ms[row.run_id]:
            found[row.run_id]["waited"] += row.waited
            if row.longest.ce < 1:
                found[row.run_id]["shrinking_ms"].append(row.time_ms)
    return found


def _mean_reach(delays: DataFrame, name: str, count: str) -> dict[str, dict[str, Any]]:
    means = delays.groupBy(_RUN).agg(F.avg("reach_ms").alias(name), F.count(F.lit(1)).alias(count))
    return {row.run_id: row.asDict() for row in means.collect()}


def _messages(trace: DataFrame) -> dict[str, dict[str, Any]]:
    counted = metrics.messages(trace).collect()
    return _by_run([(row.run_id, f"{row.kind}_messages", row.messages) for row in counted])


def _by_run(cells: list[tuple[str, str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for run, name, value in cells:
        found.setdefault(run, {})[name] = value
    return found


def _merge(into: dict[str, dict[str, Any]], more: dict[str, dict[str, Any]]) -> None:
    for run, values in more.items():
        into.setdefault(run, {}).update(values)
