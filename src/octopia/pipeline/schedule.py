"""The schedule of publications: which publisher sends which bars, and when.

Symbols are dealt to publishers. Each publishes the bars of its symbols by date, and starts over when it has no more.
Times are whole microseconds until the end, so sums do not depend on the order of addition.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from octopia.errors import InvalidData, UsageError
from octopia.pipeline.randomness import drawn, shuffled
from octopia.pipeline.schemas import ATTRIBUTES, PUBLICATIONS
from octopia.pipeline.spec import SYMBOLS_EACH, WorkloadSpec
from octopia.workloads.workload import BURST_PUBLISHER

BURST = BURST_PUBLISHER
"""The name of the high-rate publisher."""
_US_PER_MINUTE = 60_000_000
_BUCKET_US = 1_000_000


def publisher_name(number: int) -> str:
    """Return the name of an ordinary publisher."""
    return f"p{number}"


def deal(symbols: Sequence[str], spec: WorkloadSpec) -> dict[str, str]:
    """Return the publisher of each symbol that is published.

    A burst has the last symbols in order, so no range of other symbols contains them.
    """
    ordered = sorted(symbols)
    if not ordered:
        raise InvalidData("expected bars of at least one symbol, got none")
    left = ordered
    dealt: dict[str, str] = {}
    if spec.burst is not None:
        count = max(0, min(SYMBOLS_EACH, len(ordered) - spec.publishers))
        if not count:
            raise UsageError(
                f"expected a symbol for each of {spec.publishers} publishers and the burst, got {len(ordered)}"
            )
        left, of_burst = ordered[:-count], ordered[-count:]
        dealt = dict.fromkeys(of_burst, BURST)
    each = spec.symbols_each(len(left))
    for place, symbol in enumerate(shuffled(spec.seed, "symbols", left)[: each * spec.publishers]):
        dealt[symbol] = publisher_name(place % spec.publishers)
    return dealt


def publications(bars: DataFrame, dealt: dict[str, str], spec: WorkloadSpec) -> DataFrame:
    """Return the publications of a workload (``PUBLICATIONS``), numbered by time."""
    spark = bars.sparkSession
    table = spark.createDataFrame(sorted(dealt.items()), "symbol string, publisher string")
    owned = bars.join(table, on="symbol", how="inner")
    timed = _with_times(_repeated(owned, spec), spec)
    numbered = _numbered_by_time(timed)
    return numbered.select(*(numbered[field.name].cast(field.dataType) for field in PUBLICATIONS.fields))


def _repeated(owned: DataFrame, spec: WorkloadSpec) -> DataFrame:
    """Return the bars of every publisher in order, repeated until there are enough; ``turn`` counts from 0."""
    by_publisher = Window.partitionBy("publisher")
    placed = owned.select(
        "publisher",
        *ATTRIBUTES,
        (F.row_number().over(by_publisher.orderBy("date", "symbol")) - 1).alias("place"),
        F.count(F.lit(1)).over(by_publisher).alias("bars"),
    )
    rounds = F.ceil(_wanted(spec) / F.col("bars")).cast("int")
    again = placed.select("*", F.explode(F.sequence(F.lit(0), rounds - 1)).alias("round"))
    turn = F.col("round") * F.col("bars") + F.col("place")
    return again.select("publisher", *ATTRIBUTES, turn.alias("turn")).where(turn < _wanted(spec))


def _wanted(spec: WorkloadSpec) -> Column:
    """Return the number of publications of a row's publisher."""
    of_others = F.lit(spec.publications) if spec.publications else F.col("bars")
    if spec.burst is None:
        return of_others
    return F.when(F.col("publisher") == BURST, F.lit(spec.burst.publications)).otherwise(of_others)


def _with_times(turns: DataFrame, spec: WorkloadSpec) -> DataFrame:
    """Add the time of every publication: random gaps, or constant ones in a burst."""
    longest, shortest = round(_US_PER_MINUTE / spec.per_minute_min), round(_US_PER_MINUTE / spec.per_minute_max)
    chance = drawn(spec.seed, "gaps", F.col("publisher"), F.col("turn"))
    gap = F.lit(shortest) + F.floor(chance * (longest - shortest + 1))
    # Without an offset, all publishers would start at about the same time.
    offset = F.floor(drawn(spec.seed, "offsets", F.col("publisher")) * longest)
    so_far = Window.partitionBy("publisher").orderBy("turn").rowsBetween(Window.unboundedPreceding, 0)
    # The offset stands in for the first gap.
    at_us = offset + F.sum(F.when(F.col("turn") == 0, F.lit(0)).otherwise(gap)).over(so_far)
    if spec.burst is not None:
        of_burst = F.lit(round(spec.burst.start_ms * 1000)) + F.floor(
            F.col("turn") * F.lit(_US_PER_MINUTE) / F.lit(spec.burst.per_minute)
        )
        at_us = F.when(F.col("publisher") == BURST, of_burst).otherwise(at_us)
    return turns.select("*", at_us.cast("long").alias("at_us"))


def _numbered_by_time(timed: DataFrame) -> DataFrame:
    """Number the rows from 0 by time, then by publisher; no task sorts more than one second of publications."""
    bucketed = timed.select("*", F.floor(F.col("at_us") / _BUCKET_US).alias("bucket"))
    counts = bucketed.groupBy("bucket").agg(F.count(F.lit(1)).alias("rows"))
    # No bucket is negative, so these few rows form one partition, without the warning that Spark gives for none.
    so_far = Window.partitionBy(F.col("bucket") < 0).orderBy("bucket").rowsBetween(Window.unboundedPreceding, 0)
    before = counts.select("bucket", (F.sum("rows").over(so_far) - F.col("rows")).alias("before"))
    within = F.row_number().over(Window.partitionBy("bucket").orderBy("at_us", "publisher", "turn"))
    return bucketed.join(F.broadcast(before), on="bucket", how="inner").select(
        (F.col("before") + within - 1).alias("number"),
        (F.col("at_us") / F.lit(1000.0)).alias("at_ms"),
        "publisher",
        *(name for name in ATTRIBUTES if name != "date"),
        _as_number(F.col("date")).alias("date"),
    )


def _as_number(date: Column) -> Column:
    """Return a date as a readable number such as 20180207."""
    return F.year(date) * 10_000 + F.month(date) * 100 + F.dayofmonth(date)


def symbols_of(bars: DataFrame) -> list[str]:
    """Return the distinct symbols of bars, sorted."""
    return sorted(row.symbol for row in bars.select("symbol").distinct().collect())
