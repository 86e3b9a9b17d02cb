"""The audit: deliveries compared with the truth, for missing, unwanted and duplicate ones.

The truth has every pair of a publication and a subscription that matches, for all publications of a workload. A run
owes the pairs whose publication a host broker accepted. Those are the ``receive`` rows from clients, which a trace has
at every level if a workload was run, and otherwise from level ``hops`` on. Publications that were refused, or not
published in this run, are not owed. The truth ignores time: the audit is for runs whose subscriptions are all active
before the first publication, and stay active.

A pair may have two faults: one that was delivered twice and not owed is ``unwanted`` and ``duplicate``.

Comparing every pair requires sorting them all. So large audits first add up, per publication of a run, a hash of every
subscription that is owed and of every one that was delivered (``doubtful``). If counts and sums agree, the chance of a
fault is one in 2**64. Only the other publications are compared pair by pair.
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
"""The key of a delivery; numbers come first, since they make sorting for joins faster."""
_PUBLICATION = ["publication", "run_id"]
_BY_RUN = ["run_id", "algorithm"]
_SUMS = ["count", "low", "high"]
_HALF = 2**32 - 1
_STAND_INS = 2**62
_NAMED_IN_ERRORS = 3
_NO_FAULTS = Row(missing=0, unwanted=0, duplicates=0)


def doubtful(trace: DataFrame, truth: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return the publications, by run, whose deliveries differ from those that were owed."""
    owed = _accepted(trace).join(_sums(truth, "publication"), on="publication", how="left")
    delivered = _sums(_numbered(trace, subscriptions), *_PUBLICATION)
    both = owed.alias("owed").join(delivered.alias("delivered"), on=_PUBLICATION, how="full_outer")
    differs = [
        F.coalesce(f"owed.{column}", F.lit(0)) != F.coalesce(f"delivered.{column}", F.lit(0)) for column in _SUMS
    ]
    return both.filter(functools.reduce(operator.or_, differs)).select(*_PUBLICATION)


def audit(trace: DataFrame, truth: DataFrame, subscriptions: DataFrame, *, only: DataFrame | None = None) -> DataFrame:
    """Return the faults (``FAULTS``) of a trace (``TRACE``) against the truth (``MATCHES``, each pair once).

    ``subscriptions`` (``ISSUED``) maps the ids in the trace to numbers. Deliveries to an id that is not in it are
    unwanted, and their number is null. ``copies`` is the number of times that a pair was delivered. ``activity`` checks
    that the trace has what is owed. With ``only`` (see ``doubtful``), other publications are left out.
    """
    owed = truth.join(_accepted(trace), on="publication", how="inner")
    delivered = _numbered(trace, subscriptions)
    if only is not None:
        owed = owed.join(only, on=_PUBLICATION, how="left_semi")
        delivered = delivered.join(only, on=_PUBLICATION, how="left_semi")
    # A full outer join is an anti-join in both directions, in one pass.
    compared = owed.select(*_PAIR, F.lit(True).alias("is_owed")).join(
        # After grouping, rows are already partitioned for the join.
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
    """Return, per run, the numbers of publications that host brokers accepted, of deliveries, and of refusals.

    ``first`` and ``last`` are the least and the greatest number of an accepted publication. Raise an error for a trace
    that has deliveries but no accepted publications.
    """
    # Deliveries are by far the most rows. The files of a trace keep them apart, and their number needs one column only.
    delivered = trace.filter(_is_delivery()).groupBy(*_BY_RUN).agg(F.count("*").alias("deliveries"))
    number, is_accepted = F.col("publication"), _is_accepted()
    requested = (
        trace.filter(~_is_delivery())
        .groupBy(*_BY_RUN)
        .agg(
            F.count_distinct(F.when(is_accepted, number)).alias("publications"),
            F.min(F.when(is_accepted, number)).alias("first"),
            F.max(F.when(is_accepted, number)).alias("last"),
            F.count_if(_is_refusal()).alias("refused"),
        )
    )
    counted = requested.join(delivered, on=_BY_RUN, how="full_outer").na.fill(
        0, ["publications", "deliveries", "refused"]
    )
    done = sorted(counted.collect(), key=lambda run: run["run_id"])
    silent = [run["run_id"] for run in done if run["deliveries"] and not run["publications"]]
    if silent:
        raise InvalidData(
            f"expected publications that host brokers accepted in the trace of {', '.join(silent[:_NAMED_IN_ERRORS])}, "
            "got deliveries only: was it traced at level hops or all?"
        )
    return done


def published(truth: DataFrame, done: Sequence[Row]) -> DataFrame:
    """Return the truth from the first to the last publication of all runs; other files are not read."""
    ends = [run[name] for run in done for name in ("first", "last") if run[name] is not None]
    return truth.where(F.col("publication").between(min(ends), max(ends))) if ends else truth.limit(0)


def summary(done: Sequence[Row], faults: DataFrame) -> list[dict[str, Any]]:
    """Return, per run, its activity (see ``activity``) and the numbers of faults that ``audit`` found.

    ``publications`` were accepted by host brokers, ``refused`` were not; ``duplicates`` are copies beyond the first.
    So ``deliveries`` equals ``owed - missing + unwanted + duplicates``. Persist or write the faults before this call,
    or they are computed again.
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


def _accepted(trace: DataFrame) -> DataFrame:
    """Return the publications that host brokers accepted, by run."""
    return trace.filter(_is_accepted()).select(*_PUBLICATION).distinct()


def _sums(pairs: DataFrame, *by: str) -> DataFrame:
    """Return counts of subscriptions and sums of both halves of their hashes, which do not depend on order."""
    hashed = F.xxhash64("subscription")
    return pairs.groupBy(*by).agg(
        F.count("*").alias("count"),
        F.sum(hashed.bitwiseAND(_HALF)).alias("low"),
        F.sum(F.shiftrightunsigned(hashed, 32)).alias("high"),
    )


def _numbered(trace: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return the deliveries of a trace with the numbers of their subscriptions."""
    numbers = subscriptions.select(F.col("id").alias("name"), F.col("number"))
    # A negative number, made from the name, distinguishes subscriptions without a number.
    stand_in = -1 - F.pmod(F.xxhash64("name"), F.lit(_STAND_INS))
    return (
        trace.filter(_is_delivery())
        .select("publication", F.col("subscription").alias("name"), "run_id")
        .join(numbers, on="name", how="left")
        .select("publication", F.coalesce("number", stand_in).alias("subscription"), "run_id")
    )


def _is_accepted() -> Column:
    return (
        (F.col("event") == Event.RECEIVE.value)
        & (F.col("kind") == MessageKind.PUBLICATION.value)
        & (F.col("link") == LinkKind.CLIENT.value)
    )


def _is_delivery() -> Column:
    return F.col("event") == Event.DELIVER.value


def _is_refusal() -> Column:
    return (F.col("event") == Event.REFUSE.value) & (F.col("kind") == MessageKind.PUBLICATION.value)
