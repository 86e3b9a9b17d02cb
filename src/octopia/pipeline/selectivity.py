"""The measured selectivity of a workload's subscriptions.

There are two shares: of publications, and of publishers (those with at least one matching publication). In large
workloads, every n-th subscription is measured, against all publications. The share of subscriptions that match a burst
is measured with a few of its publications.
"""

from __future__ import annotations

import dataclasses

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from octopia.pipeline.schedule import BURST

SAMPLE = 400
"""The maximum number of subscriptions that are measured."""
BURST_SAMPLE = 20
"""The number of publications of a burst that are measured."""


@dataclasses.dataclass(frozen=True, slots=True)
class Selectivity:
    """Mean shares over the measured subscriptions; ``of_burst`` is the share of subscriptions that match the burst."""

    measured: int
    of_publications: float
    of_publishers: float
    of_burst: float | None


def sampled(subscriptions: int) -> range:
    """Return the numbers of every n-th subscription, at most ``SAMPLE`` of them."""
    return range(0, subscriptions, max(1, -(-subscriptions // SAMPLE)))


def burst_sample(publications: DataFrame) -> DataFrame:
    """Return a few publications of the burst; its publications are all alike."""
    return publications.where(F.col("publisher") == BURST).orderBy("number").limit(BURST_SAMPLE)


def matched(matches: DataFrame, publications: DataFrame) -> tuple[int, int]:
    """Return the numbers of matching pairs of publication and subscription, and of publisher and subscription.

    Publications of a burst do not count.
    """
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
