"""Metrics: computed by hand, and compared with the totals of simulated runs."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from trace_frames import by_run, deliver, fact, frame_of, play, table

from octopia.errors import UsageError
from octopia.pipeline import jobs
from octopia.pipeline.jobs import Workspace, compute_metrics
from octopia.pipeline.metrics import (
    METRICS,
    SHARED,
    advertisement_delay,
    costs,
    delay_sequence,
    matching_delay,
    mean_queue_length,
    mean_table_size,
    messages,
    publication_delay,
    queue_lengths,
    subscription_delay,
    table_sizes,
)
from octopia.pipeline.schemas import TRACE
from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.run import Run
from octopia.trace import Row

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = ("run", "static")


def receive(time_ms: float, broker: str, kind: str, message_id: str, link: str, **rest: Any) -> Row:
    return fact("receive", time_ms, broker, kind=kind, message_id=message_id, link=link, **rest)


# By hand.


def test_an_advertisement_spreads_until_the_last_broker_has_it(spark: SparkSession):
    trace = frame_of(
        spark,
        [
            receive(10.0, "a.0", "advertisement", "a.0/1/0", "client"),
            receive(11.0, "a.1", "advertisement", "a.0/1/0", "ilink"),
            receive(12.5, "a.2", "advertisement", "a.0/1/0", "ilink"),
            # A repeated copy, as in a flood.
            receive(14.0, "a.1", "advertisement", "a.0/1/0", "ilink"),
            # No other broker receives it.
            receive(20.0, "a.0", "advertisement", "a.0/1/1", "client"),
            # The time of issue is unknown, as after a restart.
            receive(30.0, "a.1", "advertisement", "b.0/1/0", "ilink"),
            receive(40.0, "a.0", "subscription", "a.0/1/0", "client"),
            receive(41.0, "b.0", "subscription", "a.0/1/0", "alink"),
            receive(99.0, "b.0", "unsubscription", "a.0/1/0", "alink"),
            fact("send", 98.0, "b.0", kind="subscription", message_id="a.0/1/0", link="alink"),
        ],
    )
    assert table(advertisement_delay(trace)) == [(*RUN, "a.0/1/0", 4.0, 2.5), (*RUN, "a.0/1/1", 0.0, 0.0)]
    assert table(subscription_delay(trace)) == [(*RUN, "a.0/1/0", 1.0, 1.0)]


def test_delays_of_publications_and_costs_of_brokers(spark: SparkSession):
    delays = [*range(1, 100), 1000]
    costs = [("client", 1.0), ("alink", 2.0), ("alink", 4.0), ("ilink", 9.0)]
    rows = [deliver(50.0 + delay, number, "s/0", 50.0) for number, delay in enumerate(delays)]
    rows += [receive(1.0, "a.0", "publication", "a.0/1/0", link, match_us=cost) for link, cost in costs]
    trace = frame_of(spark, [*rows, receive(1.0, "a.0", "subscription", "a.0/1/0", "alink")])
    assert table(publication_delay(trace)) == [(*RUN, 100, 59.5, 50.0, 95.0, 99.0, 1000.0, 0.99)]
    assert table(matching_delay(trace)) == [(*RUN, 4, 4.0, 2.0, 9.0)]
    assert table(matching_delay(trace, per=["link"]))[0] == (*RUN, "alink", 2, 3.0, 2.0, 4.0)


def test_sizes_of_tables_in_the_end(spark: SparkSession):
    sizes = {
        ("a.0", "prt"): [(1.0, 1), (2.0, 2), (3.0, 1)],
        # Rows with the same time have no order: the first table has grown, the second has shrunk.
        ("a.1", "prt"): [(1.0, 1), (5.0, 3), (5.0, 2)],
        ("b.0", "prt"): [(1.0, 5), (5.0, 4), (5.0, 3)],
        ("a.0", "clt"): [(0.0, 7), (0.0, 8)],
    }
    rows = [fact("table", at, broker, kind=kind, value=n) for (broker, kind), all_ in sizes.items() for at, n in all_]
    trace = frame_of(spark, rows)
    assert table(table_sizes(trace)) == [
        (*RUN, "a.0", "clt", 8),
        (*RUN, "a.0", "prt", 1),
        (*RUN, "a.1", "prt", 3),
        (*RUN, "b.0", "prt", 3),
    ]
    assert table(mean_table_size(trace, 4)) == [(*RUN, "clt", 2.0, 8), (*RUN, "prt", 1.75, 3)]


def test_lengths_of_queues(spark: SparkSession):
    seen = [
        ("enqueue", 10.0, "b.0", "alink", 2),
        ("window", 99.9, "b.0", "alink", 5),
        ("enqueue", 100.0, "b.0", "alink", 8),
        ("enqueue", 20.0, "a.1", "ilink", 1),
        # Messages that are sent or received are not enqueued.
        ("send", 20.0, "a.1", "ilink", 50),
        ("receive", 20.0, "a.1", "ilink", 50),
    ]
    rows = [fact(event, at, peer=peer, link=link, queue_length=length) for event, at, peer, link, length in seen]
    trace = frame_of(spark, rows)
    assert table(queue_lengths(trace, window_ms=100.0)) == [
        (*RUN, "alink", 0.0, 2, 3.5, 5),
        (*RUN, "alink", 100.0, 1, 8.0, 8),
        (*RUN, "ilink", 0.0, 1, 1.0, 1),
    ]
    assert table(mean_queue_length(trace)) == [(*RUN, 2, 3.0, 8)]


def test_numbers_that_make_no_sense_are_refused(spark: SparkSession):
    trace = frame_of(spark, [])
    wrong: list[Callable[[], DataFrame]] = [
        lambda: mean_table_size(trace, 0),
        lambda: queue_lengths(trace, window_ms=0.0),
        lambda: delay_sequence(trace, group=0),
    ]
    for ask in wrong:
        with pytest.raises(UsageError):
            ask()


def test_every_metric_describes_itself():
    assert all((metric.__doc__ or "").startswith(("Delay", "Number", "Time")) for metric in METRICS.values())


# Compared with the totals of runs.


@dataclasses.dataclass(frozen=True)
class Played:
    """Simulated runs, and their combined trace."""

    runs: dict[tuple[str, str], Run]
    rows: list[Row]
    trace: DataFrame


@pytest.fixture(scope="module")
def played(spark: SparkSession) -> Played:
    runs, rows = {}, []
    for example in ("market", "fig7b", "fig7d"):
        scenario = load_scenario(EXAMPLES / f"{example}.toml")
        for algorithm in (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.TID_STATIC):
            for seed, profile in enumerate(("unit", "paper")):
                run, told = play(scenario, algorithm, profile, seed)
                runs[told[0].run_id, told[0].algorithm] = run
                rows += told
    run, told = play(load_scenario(EXAMPLES / "outage.toml"), Algorithm.DYNAMIC, "unit", 0)
    runs[told[0].run_id, told[0].algorithm] = run
    rows += told
    trace = frame_of(spark, rows).repartition(3).persist()
    return Played(runs, rows, trace)


def test_metrics_of_the_same_rows_are_views_of_one_table(played: Played):
    assert {base.__name__ for base, _ in SHARED.values()} == {"spreading", "deliveries", "costs", "delay_sequence"}
    for name, (base, view) in SHARED.items():
        assert view(base(played.trace)).schema == METRICS[name](played.trace).schema
    # Each has only its own rows and columns.
    timed = costs(played.trace).persist()
    for name, column in (("matching_delay", "match_us"), ("path_selection_delay", "select_us")):
        values = [getattr(row, column) for row in played.rows if row.event == "receive"]
        counts = [row.receives for row in SHARED[name][1](timed).collect()]
        assert sum(counts) == sum(each is not None for each in values) > 0
    timed.unpersist()


def test_messages_are_those_that_brokers_have_counted(played: Played):
    found = by_run(messages(played.trace))
    for key, run in played.runs.items():
        assert dict(found[key]) == {kind: count for kind, count in run.messages().items() if count}, key


def test_delays_are_those_of_the_deliveries(played: Played):
    found = by_run(publication_delay(played.trace))
    for key, run in played.runs.items():
        delays = sorted(each["delay_ms"] for each in run.to_json()["deliveries"])
        ranked = [delays[math.ceil(share * len(delays)) - 1] for share in (0.5, 0.95, 0.99)]
        below = sum(delay < 1000 for delay in delays) / len(delays)
        assert found[key][0] == pytest.approx((len(delays), fmean(delays), *ranked, delays[-1], below), abs=1e-6), key
    assert len(found) == len(played.runs)


def test_tables_are_those_of_the_brokers(played: Played):
    found = by_run(table_sizes(played.trace))
    for key, run in played.runs.items():
        kept = {
            (broker, kind): size
            for broker, sizes in run.to_json()["tables"].items()
            for kind, size in sizes.items()
            if size
        }
        assert {(broker, kind): size for broker, kind, size in found[key] if size} == kept, key


def test_advertisements_reach_all_brokers_or_their_region_only(played: Played):
    found = by_run(advertisement_delay(played.trace))
    # In the unit profile: one link within the region, or the distance to the farthest broker.
    reached = {run: [row[2] for row in rows] for (run, _), rows in found.items()}
    assert reached["market-dynamic-0"] == [1.0]
    assert reached["market-tid-static-0"] == [2.0]


def test_costs_are_those_of_the_profile(played: Played):
    found = by_run(matching_delay(played.trace))
    assert {row[-1] for (run, _), rows in found.items() if run.endswith("-0") for row in rows} == {0.0}
    # 20 µs plus 0.1 µs per subscription: the market has one subscription in each table when the burst comes.
    assert found["market-dynamic-1", "dynamic"][0][-1] == pytest.approx(20.2, abs=0.11)


def test_rows_may_come_in_any_order(spark: SparkSession, played: Played):
    """Tested with the metrics that depend on the order of rows; Spark guarantees it for all others."""
    rows = [row for row in played.rows if row.event in ("table", "deliver")]
    random.Random(7).shuffle(rows)
    by_order: list[Callable[[DataFrame], DataFrame]] = [table_sizes, lambda trace: delay_sequence(trace, group=3)]
    found = []
    for partitions in (1, 2, 8):
        trace = frame_of(spark, rows).repartition(partitions)
        found.append([table(metric(trace)) for metric in by_order])
    assert found[0] == found[1] == found[2]
    assert all(found[0])


def test_metrics_of_the_same_rows_share_their_scans(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    scans = workspace.spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scans.add(1)
        yield from batches

    rows = frame_of(workspace.spark, [deliver(float(n), n, "s", 0.0) for n in range(5)])
    trace = rows.coalesce(1).mapInArrow(count, TRACE)
    monkeypatch.setattr(jobs, "read_traces", lambda *_: trace)
    found = compute_metrics(
        workspace, "trace", ["publication_delay", "path_length", "delay_sequence", "time_to_stability", "messages"]
    )
    assert found["publication_delay"][0][0]["deliveries"] == 5
    # One for deliveries, two for the sequence, which numbers them first, and one for messages. Alone they would be 7.
    assert scans.value == 4
