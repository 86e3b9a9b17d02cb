"""Deliveries against the truth: what is missing, what nobody wanted, and what came more than once.

The truth knows every pair of a publication and a subscription that matches, for all publications there are. A run owes
those pairs whose publication one of its host brokers took: a trace tells so in its ``receive`` rows from clients, at
every level if a workload was played, and else from level ``hops`` on. What was refused, or never published in this run,
is not owed. The truth knows no time: the audit is for runs whose subscriptions are all in force before the first
publication, and stay so.

A pair may have two faults: what was delivered twice and not owed is ``unwanted`` and ``duplicate``.

To compare every pair takes sorting all of them. So large audits first add up, for each publication of a run, a hash of
every subscription that is owed and of every one that was delivered (``doubtful``): where count and sums are the same,
nothing can be wrong but by a chance of one in 2**64. Only the other publications are compared pair by pair.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from octopia.broker.interface import Event
from octopia.errors import InvalidData
from octopia.ids import LinkKind
from octopia.pipeline.schemas import FAULTS
from octopia.pipeline.storage import with_columns_of
from octopia.protocol import MessageKind

MISSING = "missing"
UNWANTED = "unwanted"
DUPLICATE = "duplicate"

_PAIR = ["publication", "subscription", "run_id"]
"""What a delivery is known by; numbers go first, since joins sort by the first column that tells rows apart."""
_PUBLICATION = ["publication", "run_id"]
_SUMS = ["count", "low", "high"]
_HALF = 2**32 - 1
_STAND_INS = 2**62
_NAMED_IN_ERRORS = 3
_NO_FAULTS = Row(missing=0, unwanted=0, duplicates=0)


def doubtful(trace: DataFrame, truth: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return the publications, by run, for which other subscriptions were owed than those that were delivered."""
    owed = _taken(trace).join(_sums(truth, "publication"), on="publication", how="left")
    delivered = _sums(_numbered(trace, subscriptions), *_PUBLICATION)
    both = owed.alias("owed").join(delivered.alias("delivered"), on=_PUBLICATION, how="full_outer")
    differs = [
        F.coalesce(f"owed.{column}", F.lit(0)) != F.coalesce(f"delivered.{column}", F.lit(0)) for column in _SUMS
    ]
    return both.filter(functools.reduce(operator.or_, differs)).select(*_PUBLICATION)


def audit(trace: DataFrame, truth: DataFrame, subscriptions: DataFrame, *, only: DataFrame | None = None) -> DataFrame:
    """Compare deliveries (rows of TRACE) with the truth (MATCHES, each pair once); the schema is FAULTS.

    ``subscriptions`` (ISSUED) tells which number a subscription of the trace has. One that is not in there has none:
    what it got is unwanted, and its number is null. ``copies`` is how often a pair was delivered. Whether the
    trace tells what is owed is for ``activity`` to find out. With ``only``, see ``doubtful``, other publications are
    left out.
    """
    owed = truth.join(_taken(trace), on="publication", how="inner")
    delivered = _numbered(trace, subscriptions)
    if only is not None:
        owed = owed.join(only, on=_PUBLICATION, how="left_semi")
        delivered = delivered.join(only, on=_PUBLICATION, how="left_semi")
    # A full outer join is an anti-join both ways, in one pass over both sides.
    compared = owed.select(*_PAIR, F.lit(True).alias("is_owed")).join(
        # Counted, rows are already where the join wants them.
        delivered.groupBy(*_PAIR).agg(F.count("*").alias("copies")),
        on=_PAIR,
        how="full_outer",
    )
    copies = F.coalesce("copies", F.lit(0))
    faults = F.array_compact(
        F.array(
            F.when(copies == 0, F.lit(MISSING)),
            F.when(F.col("is_owed").isNull(), F.lit(UNWANTED)),
            F.when(copies > 1, F.lit(DUPLICATE)),
        )
    )
    subscription = F.when(F.col("subscription") >= 0, F.col("subscription")).alias("subscription")
    found = compared.select(
        F.explode(faults).alias("fault"), "run_id", "publication", subscription, copies.alias("copies")
    )
    return with_columns_of(FAULTS, found, "an audit")


def activity(trace: DataFrame) -> list[Row]:
    """Count what each run did: publications that host brokers took, deliveries, and refusals.

    A trace that tells of deliveries, but not of what was published, is refused.
    """
    counted = trace.groupBy("run_id", "algorithm").agg(
        F.count_distinct(F.when(_is_taken(), F.col("publication"))).alias("publications"),
        F.count_if(_is_delivery()).alias("deliveries"),
        F.count_if(_is_refusal()).alias("refused"),
    )
    done = sorted(counted.collect(), key=lambda run: run["run_id"])
    silent = [run["run_id"] for run in done if run["deliveries"] and not run["publications"]]
    if silent:
        raise InvalidData(
            f"expected the publications that host brokers took in the trace of {', '.join(silent[:_NAMED_IN_ERRORS])}, "
            "got deliveries only: was it traced at level hops or all?"
        )
    return done


def summary(done: Sequence[Row], faults: DataFrame) -> list[dict[str, Any]]:
    """Put what each run did (see ``activity``) beside the faults that ``audit`` found in it.

    ``publications`` were taken by host brokers, and ``refused`` were not; ``duplicates`` are copies beyond the first.
    So ``deliveries`` are ``owed - missing + unwanted + duplicates``. Persist the faults, or write them, before they are
    counted: otherwise the audit is done again.
    """
    kind = F.col("fault")
    wrong = faults.groupBy("run_id").agg(
        F.count_if(kind == MISSING).alias("missing"),
        F.count_if(kind == UNWANTED).alias("unwanted"),
        F.sum(F.when(kind == DUPLICATE, F.col("copies") - 1).otherwise(0)).alias("duplicates"),
    )
    found = {run["run_id"]: run for run in wrong.collect()}
    return [_summary(run, found.get(run["run_id"], _NO_FAULTS)) for run in done]


def _summary(run: Row, wrong: Row) -> dict[str, Any]:
    return {
        "run_id": run["run_id"],
        "algorithm": run["algorithm"],
        "publications": run["publications"],
        "deliveries": run["deliveries"],
        "owed": run["deliveries"] - wrong["duplicates"] - wrong["unwanted"] + wrong["missing"],
        "missing": wrong["missing"],
        "unwanted": wrong["unwanted"],
        "duplicates": wrong["duplicates"],
        "refused": run["refused"],
    }


def _taken(trace: DataFrame) -> DataFrame:
    """Return the publications that host brokers took, by run."""
    return trace.filter(_is_taken()).select(*_PUBLICATION).distinct()


def _sums(pairs: DataFrame, *by: str) -> DataFrame:
    """Count subscriptions, and add up the halves of their hashes, which no order changes and no repetition hides."""
    hashed = F.xxhash64("subscription")
    return pairs.groupBy(*by).agg(
        F.count("*").alias("count"),
        F.sum(hashed.bitwiseAND(_HALF)).alias("low"),
        F.sum(F.shiftrightunsigned(hashed, 32)).alias("high"),
    )


def _numbered(trace: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return the deliveries of a trace, with the numbers of subscriptions."""
    numbers = subscriptions.select(F.col("id").alias("name"), F.col("number"))
    # Subscriptions that have no number must still be told apart. A number below 0 made of the name will do.
    stand_in = -1 - F.pmod(F.xxhash64("name"), F.lit(_STAND_INS))
    return (
        trace.filter(_is_delivery())
        .select("publication", F.col("subscription").alias("name"), "run_id")
        .join(numbers, on="name", how="left")
        .select("publication", F.coalesce("number", stand_in).alias("subscription"), "run_id")
    )


def _is_taken() -> Column:
    return (
        (F.col("event") == Event.RECEIVE.value)
        & (F.col("kind") == MessageKind.PUBLICATION.value)
        & (F.col("link") == LinkKind.CLIENT.value)
    )


def _is_delivery() -> Column:
    return F.col("event") == Event.DELIVER.value


def _is_refusal() -> Column:
    return (F.col("event") == Event.REFUSE.value) & (F.col("kind") == MessageKind.PUBLICATION.value)
