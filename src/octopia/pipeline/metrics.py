"""Metrics of traces: the tables behind the figures of the paper's section "Evaluation".

Each function takes rows of ``TRACE``, of one or more runs, and returns an unsorted table with at least one row per run.
Most need a trace of level ``hops``, or ``all`` for table sizes and queue lengths; delays of publications work with any
level. ``METRICS`` lists them for the command line. Metrics of the same rows of a trace are views of one table
(``SHARED``), for which these rows are scanned once.

Times are rounded to nanoseconds, the unit of virtual time, so results do not depend on the order in which Spark adds
floats. Percentiles and medians are values that occur: the smallest one with at least that share of all values at or
below it. Above 10,000 values they are approximate, with a rank error of at most 1 in 10,000.
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
"""The upper limit of what the paper calls a short delay."""
GROUP = 5000
"""The number of deliveries per point of the paper's Figs. 17-20."""

_RUN = ("run_id", "algorithm")
_DECIMALS = 6
_ACCURACY = 10_000
_BUCKET_MS = 100.0
_COSTS = ("match_us", "select_us")


# Advertisements and subscriptions, Figs. 7 and 10.


def advertisement_delay(trace: DataFrame) -> DataFrame:
    """Time to spread each advertisement, in ms (Fig. 7)."""
    return advertisements_of(spreading(trace))


def subscription_delay(trace: DataFrame) -> DataFrame:
    """Time to spread each subscription, in ms (Fig. 10)."""
    return subscriptions_of(spreading(trace))


def spreading(trace: DataFrame) -> DataFrame:
    """Time to spread each advertisement and subscription, with the kind of message, in ms.

    Delays begin when the host broker receives a message, and are 0 if no other broker receives it.

    ``delay_ms`` ends with the last copy that any broker received. ``reach_ms`` ends when the last broker had received
    its first copy, so repeated copies, as in the floods of TID-based routing, do not count.
    """
    from_client = F.when(F.col("link") == LinkKind.CLIENT.value, F.col("time_ms"))
    times = F.min(from_client).alias("issued"), F.min("time_ms").alias("first"), F.max("time_ms").alias("last")
    return (
        _of(trace, Event.RECEIVE)
        .filter(F.col("kind").isin(MessageKind.ADVERTISEMENT.value, MessageKind.SUBSCRIPTION.value))
        .groupBy(*_RUN, "kind", "message_id", "broker")
        .agg(*times)
        .groupBy(*_RUN, "kind", "message_id")
        .agg(F.min("issued").alias("issued"), F.max("first").alias("reached"), F.max("last").alias("last"))
        .filter(F.col("issued").isNotNull())
        .select(
            *_RUN,
            "kind",
            "message_id",
            _rounded(F.col("last") - F.col("issued")).alias("delay_ms"),
            _rounded(F.col("reached") - F.col("issued")).alias("reach_ms"),
        )
    )


def advertisements_of(spread: DataFrame) -> DataFrame:
    """Return the advertisements of ``spreading``."""
    return spread.filter(F.col("kind") == MessageKind.ADVERTISEMENT.value).drop("kind")


def subscriptions_of(spread: DataFrame) -> DataFrame:
    """Return the subscriptions of ``spreading``."""
    return spread.filter(F.col("kind") == MessageKind.SUBSCRIPTION.value).drop("kind")


# Publications, Figs. 13, 14 and 16.


def publication_delay(trace: DataFrame) -> DataFrame:
    """Delay of deliveries from publisher to subscriber per run, in ms (Fig. 13)."""
    return delays_of(deliveries(trace))


def path_length(trace: DataFrame) -> DataFrame:
    """Number of links between brokers that a delivery has crossed: the mean per run."""
    return path_lengths_of(deliveries(trace))


def deliveries(trace: DataFrame) -> DataFrame:
    """Delay of deliveries in ms, and the number of links that they have crossed, per run."""
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
            _rounded(F.avg("hop")).alias("path_length_mean"),
        )
        .select(
            *_RUN,
            "deliveries",
            "delay_ms_mean",
            *(_rounded(F.col("at")[place]).alias(f"delay_ms_p{share * 100:.0f}") for place, share in enumerate(shares)),
            "delay_ms_max",
            "share_below_1000_ms",
            "path_length_mean",
        )
    )


def delays_of(delivered: DataFrame) -> DataFrame:
    """Return the delays of ``deliveries``."""
    return delivered.drop("path_length_mean")


def path_lengths_of(delivered: DataFrame) -> DataFrame:
    """Return the path lengths of ``deliveries``."""
    return delivered.select(*_RUN, "path_length_mean")


def promptness(trace: DataFrame, burst: str) -> DataFrame:
    """Delays of deliveries by run, of all publications and of those of one publisher, named ``burst``, in ms.

    A publication is prompt if its last delivery takes less than ``CALM_MS``. ``late_until_ms`` is the time of the last
    delivery that took longer, null without any. ``last_ms`` is the time of the last delivery of the run.
    """
    return promptness_of(delivery_batches(trace), trace, burst)


def promptness_of(batches: DataFrame, trace: DataFrame, burst: str) -> DataFrame:
    """Return the ``promptness`` of a trace from its ``delivery_batches``."""
    delay, copies = F.col("delay_ms"), F.col("copies")
    by_publication = batches.groupBy(*_RUN, "publication").agg(
        F.sum(copies).alias("deliveries"),
        F.sum(delay * copies).alias("delay_ms_sum"),
        F.coalesce(F.sum(F.when(delay < CALM_MS, copies)), F.lit(0)).alias("prompt"),
        F.max(delay).alias("delay_ms_max"),
        F.max(F.when(delay >= CALM_MS, F.col("time_ms"))).alias("late_until_ms"),
        F.max("time_ms").alias("last_ms"),
    )
    published = _of(trace, Event.RECEIVE).filter((F.col("client") == burst) & F.col("publication").isNotNull())
    of_burst = published.select("run_id", "publication", F.lit(True).alias("of_burst")).distinct()
    marked = by_publication.join(of_burst, on=["run_id", "publication"], how="left")
    return marked.groupBy(*_RUN).agg(
        F.max("last_ms").alias("last_ms"),
        *_promptness(F.lit(True), ""),
        *_promptness(F.coalesce(F.col("of_burst"), F.lit(False)), "burst_"),
    )


def _promptness(counts: Column, prefix: str) -> list[Column]:
    def total(column: str) -> Column:
        return F.sum(F.when(counts, F.col(column)))

    deliveries = total("deliveries")
    return [
        F.coalesce(deliveries, F.lit(0)).alias(f"{prefix}deliveries"),
        _rounded(F.coalesce(total("delay_ms_sum") / deliveries, F.lit(0.0))).alias(f"{prefix}delay_ms_mean"),
        F.coalesce(total("prompt") / deliveries, F.lit(0.0)).alias(f"{prefix}share_below_1s"),
        F.coalesce(F.avg(F.when(counts, (F.col("delay_ms_max") < CALM_MS).cast("double"))), F.lit(0.0)).alias(
            f"{prefix}publications_below_1s"
        ),
        F.max(F.when(counts, F.col("late_until_ms"))).alias(f"{prefix}late_until_ms"),
    ]


def matching_delay(trace: DataFrame, per: Sequence[str] = ()) -> DataFrame:
    """Time to match a publication at a broker, in µs (Fig. 14); also ``per`` other columns, such as the link."""
    return _cost(costs(trace, per), "match_us")


def path_selection_delay(trace: DataFrame, per: Sequence[str] = ()) -> DataFrame:
    """Time to choose links at a broker, in µs (Fig. 16); also ``per`` other columns, such as the link."""
    return _cost(costs(trace, per), "select_us")


def costs(trace: DataFrame, per: Sequence[str] = ()) -> DataFrame:
    """Times to match a publication and to choose links at a broker, in µs; nulls do not count."""
    is_timed = F.coalesce(*_COSTS).isNotNull()
    return (
        _of(trace, Event.RECEIVE)
        .filter(is_timed)
        .groupBy(*_RUN, *per)
        .agg(*(each for column in _COSTS for each in _cost_columns(column)))
    )


def _cost_columns(column: str) -> tuple[Column, ...]:
    return (
        F.count(column).alias(f"{column}_receives"),
        _rounded(F.avg(column)).alias(f"{column}_mean"),
        F.percentile_approx(column, 0.5, _ACCURACY).alias(f"{column}_median"),
        F.max(column).alias(f"{column}_max"),
    )


def _cost(timed: DataFrame, column: str) -> DataFrame:
    """Return one of the ``costs``."""
    others = [name for name in timed.columns if name.startswith(tuple(each for each in _COSTS if each != column))]
    found = timed.filter(F.col(f"{column}_receives") > 0).drop(*others)
    return found.withColumnRenamed(f"{column}_receives", "receives")


# Messages and tables, Figs. 8, 9, 11, 12 and 15.


def messages(trace: DataFrame) -> DataFrame:
    """Number of messages between brokers by kind (Figs. 9, 12 and 15)."""
    # A row without a peer is a total, as in large runs.
    counted = F.when(F.col("peer").isNull(), F.col("value")).otherwise(F.lit(1.0))
    return _of(trace, Event.SEND).groupBy(*_RUN, "kind").agg(F.sum(counted).cast("long").alias("messages"))


def table_sizes(trace: DataFrame) -> DataFrame:
    """Number of entries in each table of each broker at the end; tables that never had an entry are not listed.

    Rows with the same time have no order. If the last time has several sizes, a table that was larger before has shrunk
    to the smallest of them, and any other table has grown to the largest.
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
    """Number of entries in tables of a kind at the end: mean and max over all ``brokers`` (Figs. 8 and 11)."""
    if brokers < 1:
        raise UsageError(f"expected at least one broker, got {brokers}")
    return (
        table_sizes(trace)
        .groupBy(*_RUN, "kind")
        .agg((F.sum("size") / brokers).alias("size_mean"), F.max("size").alias("size_max"))
    )


# Queues.


def queue_lengths(trace: DataFrame, window_ms: float = 1000.0) -> DataFrame:
    """Number of publications queued for aLinks and for iLinks, per window of time.

    A length is recorded when a copy is enqueued, including that copy, and when a window of Eq. 3 closes.
    """
    if window_ms <= 0:
        raise UsageError(f"expected a window above 0 ms, got {window_ms}")
    begin = (F.floor(F.col("time_ms") / window_ms) * window_ms).alias("window_ms")
    return (
        _queues(trace).groupBy(*_RUN, "link", begin).agg(F.count("*").alias("samples"), *_mean_and_max("queue_length"))
    )


def mean_queue_length(trace: DataFrame) -> DataFrame:
    """Number of publications in a queue: the mean of the means of all links that were used."""
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
    """Delay of deliveries, in ms: one row per ``group`` of deliveries in order of arrival (Figs. 17-20).

    Deliveries at the same time are ordered by publication.
    """
    return delay_sequence_of(delivery_batches(trace), group)


def delay_sequence_of(batches: DataFrame, group: int = GROUP) -> DataFrame:
    """Return the ``delay_sequence`` of a trace from its ``delivery_batches``."""
    if group < 1:
        raise UsageError(f"expected groups of at least one delivery, got {group}")
    start, end = F.col("start"), F.col("start") + F.col("copies")
    sequence = F.col("sequence")
    # A batch may extend over several groups.
    inside = F.least(end, (sequence + 1) * group) - F.greatest(start, sequence * group)
    first, last = F.floor(start / group), F.floor((end - 1) / group)
    return (
        _numbered(batches)
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


def delivery_batches(trace: DataFrame) -> DataFrame:
    """Return the deliveries of one publication at one time, with the same delay, as one row with their number.

    There are far fewer of them than deliveries. Where several metrics need them, persist them.
    """
    return (
        _deliveries(trace)
        .groupBy(*_RUN, "time_ms", "publication", "published_ms", "delay_ms")
        .agg(F.count("*").alias("copies"))
    )


def _numbered(batches: DataFrame) -> DataFrame:
    """Add the position of the first delivery of each batch in its run, from 0.

    One task would sort a window over a whole run. Here each bucket of time is a separate window, whose first position
    is the number of deliveries in earlier buckets.
    """
    bucketed = batches.withColumn("bucket", F.floor(F.col("time_ms") / _BUCKET_MS))
    earlier = Window.partitionBy(*_RUN).orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    starts = (
        bucketed.groupBy(*_RUN, "bucket")
        .agg(F.sum("copies").alias("inside"))
        .select(*_RUN, "bucket", F.coalesce(F.sum("inside").over(earlier), F.lit(0)).alias("of_bucket"))
    )
    # The bucket comes first, since rows are sorted by all these columns, and numbers compare faster than names.
    within = Window.partitionBy("bucket", *_RUN).orderBy("time_ms", "publication", "published_ms")
    before = F.sum("copies").over(within.rowsBetween(Window.unboundedPreceding, -1))
    return (
        bucketed.withColumn("before", F.coalesce(before, F.lit(0)))
        .join(starts, on=[*_RUN, "bucket"], how="inner")
        .withColumn("start", F.col("of_bucket") + F.col("before"))
    )


def time_to_stability(sequence: DataFrame, calm_ms: float = CALM_MS) -> DataFrame:
    """Time from the first publication until the last group of a ``delay_sequence`` above ``calm_ms``, in ms.

    It is 0 if no group was above, and null if the last group is. The first publication is the earliest one that was
    delivered.
    """
    is_late = F.col("delay_ms_max") > calm_ms
    never = F.max(F.when(is_late, F.col("sequence"))) == F.max("sequence")
    late_until = F.max(F.when(is_late, F.col("time_ms_last")))
    stable_ms = F.coalesce(_rounded(late_until - F.min("published_ms_first")), F.lit(0.0))
    return sequence.groupBy(*_RUN).agg(F.when(never, F.lit(None)).otherwise(stable_ms).alias("stable_ms"))


def stability(trace: DataFrame) -> DataFrame:
    """Time from the first publication until all later groups of deliveries took at most 1,000 ms, in ms."""
    return time_to_stability(delay_sequence(trace))


METRICS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "advertisement_delay": advertisement_delay,
    "subscription_delay": subscription_delay,
    "publication_delay": publication_delay,
    "path_length": path_length,
    "matching_delay": matching_delay,
    "path_selection_delay": path_selection_delay,
    "messages": messages,
    "table_sizes": table_sizes,
    "queue_lengths": queue_lengths,
    "mean_queue_length": mean_queue_length,
    "delay_sequence": delay_sequence,
    "time_to_stability": stability,
}
"""The metrics that need a trace only; the first line of each docstring describes the metric and its unit."""

View = Callable[[DataFrame], DataFrame]
SHARED: dict[str, tuple[View, View]] = {
    "advertisement_delay": (spreading, advertisements_of),
    "subscription_delay": (spreading, subscriptions_of),
    "publication_delay": (deliveries, delays_of),
    "path_length": (deliveries, path_lengths_of),
    "matching_delay": (costs, lambda timed: _cost(timed, "match_us")),
    "path_selection_delay": (costs, lambda timed: _cost(timed, "select_us")),
    "delay_sequence": (delay_sequence, lambda sequence: sequence),
    "time_to_stability": (delay_sequence, time_to_stability),
}
"""The metrics that are views of a table which others need, too: the table of a trace, and the view."""


def _of(trace: DataFrame, *events: Event) -> DataFrame:
    return trace.filter(F.col("event").isin([event.value for event in events]))


def _deliveries(trace: DataFrame) -> DataFrame:
    delay_ms = (F.col("time_ms") - F.col("published_ms")).alias("delay_ms")
    columns = ("publication", "subscription", "published_ms", "time_ms", "hop")
    return _of(trace, Event.DELIVER).select(*_RUN, *columns, delay_ms)


def _queues(trace: DataFrame) -> DataFrame:
    return _of(trace, Event.ENQUEUE, Event.WINDOW).select(*_RUN, "broker", "peer", "link", "time_ms", "queue_length")


def _mean_and_max(column: str) -> tuple[Column, Column]:
    return _rounded(F.avg(column)).alias(f"{column}_mean"), F.max(column).alias(f"{column}_max")


def _rounded(value: Column) -> Column:
    return F.round(value, _DECIMALS)
