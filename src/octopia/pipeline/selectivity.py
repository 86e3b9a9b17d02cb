"""How selective the subscriptions of a workload are, measured and not only wanted.

Two shares are told: of publications, and of publishers (those of which a subscription gets at least one publication).
At size, every so many subscriptions are measured, against all publications. Of a burst it is asked how many of all
subscriptions want it, by a few of its publications.
"""

from __future__ import annotations

import dataclasses

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from octopia.pipeline.publishing import BURST

SAMPLE = 400
"""How many subscriptions are measured, at most."""
BURST_SAMPLE = 20
"""How many publications of a burst are looked at."""


@dataclasses.dataclass(frozen=True, slots=True)
class Selectivity:
    """Mean shares over the measured subscriptions; ``of_burst`` is the share of subscriptions that want the burst."""

    measured: int
    of_publications: float
    of_publishers: float
    of_burst: float | None


def sampled(subscriptions: int) -> range:
    """Return the numbers of every so many subscriptions, so that at most ``SAMPLE`` are left."""
    return range(0, subscriptions, max(1, -(-subscriptions // SAMPLE)))


def burst_sample(publications: DataFrame) -> DataFrame:
    """Return a few publications of the burst: they are all alike."""
    return publications.where(F.col("publisher") == BURST).orderBy("number").limit(BURST_SAMPLE)


def matched(matches: DataFrame, publications: DataFrame) -> tuple[int, int]:
    """Return how many pairs match, and how many of publisher and subscription, those of a burst left aside."""
    ordinary = publications.where(F.col("publisher") != BURST).select(F.col("number").alias("publication"), "publisher")
    pairs = (
        matches.join(ordinary, on="publication", how="inner")
        .groupBy("subscription", "publisher")
        .agg(F.count(F.lit(1)).alias("publications"))
        .agg(F.coalesce(F.sum("publications"), F.lit(0)).alias("matched"), F.count(F.lit(1)).alias("publishers"))
    )
    found = pairs.first()
    assert found is not None
    return found.matched, found.publishers
