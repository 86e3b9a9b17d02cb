"""From traces to the tables behind the figures of the paper's section "Evaluation".

Each function takes rows of ``TRACE``, of one run or of many, and returns one table with a row or more for each run.
They need a trace of level ``hops``, or ``all`` for sizes of tables and lengths of queues; delays of publications come
from any level. Nothing is sorted. ``METRICS`` names them all for the command line.

Times are rounded to nanoseconds, in which virtual time is counted: sums of floats that Spark adds in another order
agree to that. Percentiles and medians are values that occur, the smallest with at least that share of all at or below
it. Above 10,000 values they are approximate: at most one value in 10,000 away from their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from octopia.broker.interface import Event
from octopia.errors import UsageError
from octopia.ids import LinkKind
from octopia.protocol import MessageKind

CALM_MS = 1000.0
"""What the paper takes for a short delay."""
GROUP = 5000
"""So many deliveries are one point of the paper's Figs. 17-20."""

_RUN = ("run_id", "algorithm")
_DECIMALS = 6
_ACCURACY = 10_000
_BUCKET_MS = 100.0


# Advertisements and subscriptions, Figs. 7 and 10.


def advertisement_delay(trace: DataFrame) -> DataFrame:
    """How long each advertisement spreads, in ms (Fig. 7)."""
    return _spreading(trace, MessageKind.ADVERTISEMENT)


def subscription_delay(trace: DataFrame) -> DataFrame:
    """How long each subscription spreads, in ms (Fig. 10)."""
    return _spreading(trace, MessageKind.SUBSCRIPTION)


def _spreading(trace: DataFrame, kind: MessageKind) -> DataFrame:
    """Measure from the moment at which the host broker had a message, which is 0 if nobody else gets it.

    ``delay_ms`` goes to the last time that any broker received it. ``reach_ms`` goes to the moment at which the last
    broker had it for the first time: copies that come again, as in the floods of TID-based routing, do not count.
    """
    from_client = F.when(F.col("link") == LinkKind.CLIENT.value, F.col("time_ms"))
    times = F.min(from_client).alias("issued"), F.min("time_ms").alias("first"), F.max("time_ms").alias("last")
    return (
        _of(trace, Event.RECEIVE)
        .filter(F.col("kind") == kind.value)
        .groupBy(*_RUN, "message_id", "broker")
        .agg(*times)
        .groupBy(*_RUN, "message_id")
        .agg(F.min("issued").alias("issued"), F.max("first").alias("reached"), F.max("last").alias("last"))
        .filter(F.col("issued").isNotNull())
        .select(
            *_RUN,
            "message_id",
            _rounded(F.col("last") - F.col("issued")).alias("delay_ms"),
            _rounded(F.col("reached") - F.col("issued")).alias("reach_ms"),
        )
    )


# Publications, Figs. 13, 14 and 16.


def publication_delay(trace: DataFrame) -> DataFrame:
    """How long deliveries took from publisher to subscriber in each run, in ms (Fig. 13)."""
    shares = (0.5, 0.95, 0.99)
    delay = F.col("delay_ms")
    return (
        _deliveries(trace)
        .groupBy(*_RUN)
        .agg(
            F.count("*").alias("deliveries"),
            _rounded(F.avg(delay)).alias("delay_ms_mean"),
            F.percentile_approx(delay, list(shares), _ACCURACY).alias("at"),
            _rounded(F.max(delay)).alias("delay_ms_max"),
            (F.count_if(delay < CALM_MS) / F.count("*")).alias("share_below_1000_ms"),
        )
        .select(
            *_RUN,
            "deliveries",
            "delay_ms_mean",
            *(_rounded(F.col("at")[place]).alias(f"delay_ms_p{share * 100:.0f}") for place, share in enumerate(shares)),
            "delay_ms_max",
            "share_below_1000_ms",
        )
    )


def matching_delay(trace: DataFrame, per: Sequence[str] = ()) -> DataFrame:
    """How long brokers took to match a publication, in µs (Fig. 14); also ``per`` other columns, such as the link."""
    return _cost(trace, "match_us", per)


def path_selection_delay(trace: DataFrame, per: Sequence[str] = ()) -> DataFrame:
    """How long brokers took to choose links, in µs (Fig. 16); also ``per`` other columns, such as the link."""
    return _cost(trace, "select_us", per)


def _cost(trace: DataFrame, column: str, per: Sequence[str]) -> DataFrame:
    return (
        _of(trace, Event.RECEIVE)
        .filter(F.col(column).isNotNull())
        .groupBy(*_RUN, *per)
        .agg(
            F.count("*").alias("receives"),
            _rounded(F.avg(column)).alias(f"{column}_mean"),
            F.percentile_approx(column, 0.5, _ACCURACY).alias(f"{column}_median"),
            F.max(column).alias(f"{column}_max"),
        )
    )


# Messages and tables, Figs. 8, 9, 11, 12 and 15.


def messages(trace: DataFrame) -> DataFrame:
    """How many messages of each kind went between brokers, a count (Figs. 9, 12 and 15)."""
    # A row that names no peer is a total, as large runs tell it.
    counted = F.when(F.col("peer").isNull(), F.col("value")).otherwise(F.lit(1.0))
    return _of(trace, Event.SEND).groupBy(*_RUN, "kind").agg(F.sum(counted).cast("long").alias("messages"))


def table_sizes(trace: DataFrame) -> DataFrame:
    """How many entries each table of each broker has in the end; a broker that never had one is not in the list.

    A trace does not tell the order of rows of the same moment. Where the last moment has several sizes, a table that
    was larger before has shrunk to the smallest of them, and any other has grown to the largest.
    """
    table = Window.partitionBy(*_RUN, "broker", "kind").orderBy(F.desc("time_ms"))
    has_shrunk = F.lead("smallest").over(table) >= F.col("largest")
    return (
        _of(trace, Event.TABLE)
        .groupBy(*_RUN, "broker", "kind", "time_ms")
        .agg(F.min("value").alias("smallest"), F.max("value").alias("largest"))
        .select(
            *_RUN,
            "broker",
            "kind",
            F.when(has_shrunk, F.col("smallest")).otherwise(F.col("largest")).cast("long").alias("size"),
            F.row_number().over(table).alias("place"),
        )
        .filter(F.col("place") == 1)
        .drop("place")
    )


def mean_table_size(trace: DataFrame, brokers: int) -> DataFrame:
    """How many entries tables of a kind have in the end: mean and max over all ``brokers`` (Figs. 8 and 11)."""
    if brokers < 1:
        raise UsageError(f"expected at least one broker, got {brokers}")
    return (
        table_sizes(trace)
        .groupBy(*_RUN, "kind")
        .agg((F.sum("size") / brokers).alias("size_mean"), F.max("size").alias("size_max"))
    )


# Queues.


def queue_lengths(trace: DataFrame, window_ms: float = 1000.0) -> DataFrame:
    """How many publications waited in queues to aLinks and to iLinks, window by window, a count.

    A length is noted whenever a copy is put into a queue, itself included, or a window of Eq. 3 is found closed.
    """
    if window_ms <= 0:
        raise UsageError(f"expected a window above 0 ms, got {window_ms}")
    begin = (F.floor(F.col("time_ms") / window_ms) * window_ms).alias("window_ms")
    return (
        _queues(trace).groupBy(*_RUN, "link", begin).agg(F.count("*").alias("samples"), *_mean_and_max("queue_length"))
    )


def mean_queue_length(trace: DataFrame) -> DataFrame:
    """How many publications waited in a queue: the mean over all links that were used, each by its own mean."""
    return (
        _queues(trace)
        .groupBy(*_RUN, "broker", "peer")
        .agg(*_mean_and_max("queue_length"))
        .groupBy(*_RUN)
        .agg(
            F.count("*").alias("links"),
            _rounded(F.avg("queue_length_mean")).alias("queue_length_mean"),
            F.max("queue_length_max").alias("queue_length_max"),
        )
    )


# Bursts, Figs. 17-20.


def delay_sequence(trace: DataFrame, group: int = GROUP) -> DataFrame:
    """How long deliveries took, in ms: one row for each ``group`` that arrived one after another (Figs. 17-20).

    Deliveries of the same moment go by publication.
    """
    if group < 1:
        raise UsageError(f"expected groups of at least one delivery, got {group}")
    start, end = F.col("start"), F.col("start") + F.col("copies")
    sequence = F.col("sequence")
    # A batch at the end of one group may reach into the next, or over several of them.
    inside = F.least(end, (sequence + 1) * group) - F.greatest(start, sequence * group)
    first, last = F.floor(start / group), F.floor((end - 1) / group)
    return (
        _numbered(_batches(trace))
        .withColumn("sequence", F.explode(F.sequence(first, last)))
        .withColumn("inside", inside)
        .groupBy(*_RUN, "sequence")
        .agg(
            F.sum("inside").alias("deliveries"),
            _rounded(F.max("delay_ms")).alias("delay_ms_max"),
            _rounded(F.sum(F.col("delay_ms") * F.col("inside")) / F.sum("inside")).alias("delay_ms_mean"),
            F.min("published_ms").alias("published_ms_first"),
            F.min("time_ms").alias("time_ms_first"),
            F.max("time_ms").alias("time_ms_last"),
        )
    )


def _batches(trace: DataFrame) -> DataFrame:
    """Count deliveries of the same publication at the same moment, which took equally long: they are far fewer."""
    return (
        _deliveries(trace)
        .groupBy(*_RUN, "time_ms", "publication", "published_ms", "delay_ms")
        .agg(F.count("*").alias("copies"))
    )


def _numbered(batches: DataFrame) -> DataFrame:
    """Give each batch the position of its first delivery in its run, from 0.

    A window over a whole run would be sorted by one task. Here each bucket of time is a window of its own, and its
    first position is known from how many there are in the buckets before.
    """
    bucketed = batches.withColumn("bucket", F.floor(F.col("time_ms") / _BUCKET_MS))
    earlier = Window.partitionBy(*_RUN).orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    starts = (
        bucketed.groupBy(*_RUN, "bucket")
        .agg(F.sum("copies").alias("inside"))
        .select(*_RUN, "bucket", F.coalesce(F.sum("inside").over(earlier), F.lit(0)).alias("of_bucket"))
    )
    # The bucket goes first, since rows are sorted by all of this, and numbers tell them apart faster than names.
    within = Window.partitionBy("bucket", *_RUN).orderBy("time_ms", "publication", "published_ms")
    before = F.sum("copies").over(within.rowsBetween(Window.unboundedPreceding, -1))
    return (
        bucketed.withColumn("before", F.coalesce(before, F.lit(0)))
        .join(starts, on=[*_RUN, "bucket"], how="inner")
        .withColumn("start", F.col("of_bucket") + F.col("before"))
    )


def time_to_stability(sequence: DataFrame, calm_ms: float = CALM_MS) -> DataFrame:
    """When the last group of a ``delay_sequence`` above ``calm_ms`` had arrived, in ms from the first publication.

    It is 0 where no group was above, and null where the last one still is. The first publication is the earliest of
    those that were delivered.
    """
    is_late = F.col("delay_ms_max") > calm_ms
    never = F.max(F.when(is_late, F.col("sequence"))) == F.max("sequence")
    late_until = F.max(F.when(is_late, F.col("time_ms_last")))
    stable_ms = F.coalesce(_rounded(late_until - F.min("published_ms_first")), F.lit(0.0))
    return sequence.groupBy(*_RUN).agg(F.when(never, F.lit(None)).otherwise(stable_ms).alias("stable_ms"))


def stability(trace: DataFrame) -> DataFrame:
    """When groups of deliveries no longer took above 1,000 ms, in ms from the first publication."""
    return time_to_stability(delay_sequence(trace))


METRICS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "advertisement_delay": advertisement_delay,
    "subscription_delay": subscription_delay,
    "publication_delay": publication_delay,
    "matching_delay": matching_delay,
    "path_selection_delay": path_selection_delay,
    "messages": messages,
    "table_sizes": table_sizes,
    "queue_lengths": queue_lengths,
    "mean_queue_length": mean_queue_length,
    "delay_sequence": delay_sequence,
    "time_to_stability": stability,
}
"""What can be asked of a trace alone; the first line of each docstring says what it is, and its unit."""


def _of(trace: DataFrame, *events: Event) -> DataFrame:
    return trace.filter(F.col("event").isin([event.value for event in events]))


def _deliveries(trace: DataFrame) -> DataFrame:
    delay_ms = (F.col("time_ms") - F.col("published_ms")).alias("delay_ms")
    return _of(trace, Event.DELIVER).select(*_RUN, "publication", "subscription", "published_ms", "time_ms", delay_ms)


def _queues(trace: DataFrame) -> DataFrame:
    return _of(trace, Event.ENQUEUE, Event.WINDOW).select(*_RUN, "broker", "peer", "link", "time_ms", "queue_length")


def _mean_and_max(column: str) -> tuple[Column, Column]:
    return _rounded(F.avg(column)).alias(f"{column}_mean"), F.max(column).alias(f"{column}_max")


def _rounded(value: Column) -> Column:
    return F.round(value, _DECIMALS)
