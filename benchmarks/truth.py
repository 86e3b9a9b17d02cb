"""Measure both engines of the truth, and check that they agree.

Publications are bars of seven attributes. Each subscription is a box around a random publication and its nearest ones
(by the ranks of their values), as many as the selectivity requires. Both engines count all pairs and XOR their hashes,
so a single different pair is detected. On a sample of subscriptions the pairs themselves are compared. The benchmark
fails if anything differs, or if the fast engine is not at least twice as fast at the default size.

The time of the fast engine includes the parsing of all filters, once to check them and once per worker; that of the SQL
engine includes it once. The peak memory is that of the largest Python worker.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.progress import Stages
from octopia.pipeline.schemas import ATTRIBUTES, ISSUED, PUBLICATIONS
from octopia.pipeline.spark_session import make_session
from octopia.pipeline.storage import Storage
from octopia.pipeline.truth import check_filters, matches, matches_by_sql

DEFAULT_PUBLICATIONS = 100_000
DEFAULT_SUBSCRIPTIONS = 10_000
LEAST_RATIO = 2.0
NEIGHBOURS_AMONG = 5_000
SYMBOLS = 500


def make_publications(count: int, chance: np.random.Generator) -> pa.Table:
    """Return bars of stocks: prices of a day lie close together, and the volume falls with the price."""
    symbol = chance.integers(0, SYMBOLS, count)
    price = np.exp(chance.normal(3, 1, count)) * (1 + symbol / SYMBOLS)
    day = chance.uniform(0.97, 1.03, (4, count))
    prices = np.round(price * np.sort(day, axis=0), 2)
    volume = (np.exp(chance.normal(12, 1, count)) / np.sqrt(price)).astype(np.int64)
    year, month, date = chance.integers(2010, 2020, count), chance.integers(1, 13, count), chance.integers(1, 29, count)
    return pa.table(
        {
            "number": np.arange(count),
            "at_ms": np.arange(count, dtype=np.float64),
            "publisher": [f"p{each % 100}" for each in range(count)],
            "symbol": [f"S{each:03}" for each in symbol],
            "date": year * 10_000 + month * 100 + date,
            "open": prices[1],
            "high": prices[3],
            "low": prices[0],
            "close": prices[2],
            "volume": volume,
        }
    )


def make_filters(publications: pa.Table, count: int, selectivity: float, chance: np.random.Generator) -> list[str]:
    """Return boxes that each match about the given share of publications."""
    among = publications.take(chance.permutation(publications.num_rows)[:NEIGHBOURS_AMONG])
    columns = [among[name].to_numpy(zero_copy_only=False) for name in ATTRIBUTES]
    ranks = np.stack([np.argsort(np.argsort(each, kind="stable")) for each in columns]).astype(np.int32)
    wanted = max(1, round(selectivity * among.num_rows))
    texts = []
    for centre in chance.integers(0, among.num_rows, count):
        distance = np.abs(ranks - ranks[:, [centre]]).max(axis=0)
        nearest = np.argpartition(distance, wanted - 1)[:wanted]
        sides = zip(ATTRIBUTES, (each[nearest] for each in columns), strict=True)
        texts.append(
            " AND ".join(f"{name} BETWEEN {_text(some.min())} AND {_text(some.max())}" for name, some in sides)
        )
    return texts


def _text(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def issued(texts: Sequence[str]) -> pa.Table:
    """Return a table of subscriptions."""
    return pa.table(
        {
            "number": np.arange(len(texts)),
            "id": [f"b.0#{number}" for number in range(len(texts))],
            "client": ["c"] * len(texts),
            "broker": ["b.0"] * len(texts),
            "filter": list(texts),
            "is_burst": [False] * len(texts),
        }
    )


def measure(spark: SparkSession, folder: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run both engines on the same data and compare them."""
    stages, storage = Stages(spark), Storage(folder)
    chance = np.random.default_rng(options.seed)
    with stages.stage("making the data"):
        table = make_publications(options.publications, chance)
        texts = make_filters(table, options.subscriptions, options.selectivity, chance)
        storage.write(spark.createDataFrame(table, PUBLICATIONS).repartition(options.partitions), "publications")
        storage.write(spark.createDataFrame(issued(texts), ISSUED), "subscriptions")
        _warm_up(spark, table, texts, storage)
    publications, path = storage.read(spark, "publications"), storage.path("subscriptions")
    subscriptions = storage.read(spark, "subscriptions", ISSUED)
    numbered = list(enumerate(texts))
    with stages.stage("fast engine") as tell:
        fast, fast_s = _timed(lambda: _checked_matches(publications, subscriptions, path))
        tell(f"{fast_s:.1f} s")
    with stages.stage("SQL engine") as tell:
        sql, sql_s = _timed(lambda: matches_by_sql(publications, numbered))
        tell(f"{sql_s:.1f} s")
    if fast != sql:
        raise SystemExit(f"WRONG: the fast engine found (count, hash) {fast}, the SQL engine {sql}")
    with stages.stage("comparing a sample pair by pair"):
        step = max(1, len(texts) // options.sample)
        compared = _compare(publications, path, numbered[::step])
    pairs = fast[0]
    return {
        "publications": options.publications,
        "subscriptions": options.subscriptions,
        "pairs": pairs,
        "selectivity": pairs / (options.publications * options.subscriptions),
        "fast_s": fast_s,
        "sql_s": sql_s,
        "ratio": sql_s / fast_s,
        "fast_pairs_per_s": pairs / fast_s,
        "sql_pairs_per_s": pairs / sql_s,
        "pairs_compared": compared,
        "worker_peak_mb": _worker_peak_mb(spark, options.partitions),
    }


def _warm_up(spark: SparkSession, table: pa.Table, texts: Sequence[str], storage: Storage) -> None:
    """Start workers and let Spark compile the code of both engines, so that neither is charged for it."""
    few = spark.createDataFrame(table.slice(0, 100), PUBLICATIONS)
    storage.write(spark.createDataFrame(issued(texts[:10]), ISSUED), "few")
    matches(few, storage.path("few")).count()
    matches_by_sql(few, list(enumerate(texts[:10]))).count()


def _checked_matches(publications: DataFrame, subscriptions: DataFrame, path: str) -> DataFrame:
    check_filters(subscriptions)
    return matches(publications, path)


def _timed(find: Any) -> tuple[tuple[int, int], float]:
    begin = time.perf_counter()
    found: DataFrame = find()
    told = found.agg(F.count("*"), F.bit_xor(F.xxhash64("publication", "subscription"))).first()
    assert told is not None
    return (told[0], told[1] or 0), time.perf_counter() - begin


def _compare(publications: DataFrame, path: str, some: Sequence[tuple[int, str]]) -> int:
    wanted = F.col("subscription").isin([number for number, _ in some])
    fast = _pairs(matches(publications, path).where(wanted))
    sql = _pairs(matches_by_sql(publications, some))
    if not np.array_equal(fast, sql):
        raise SystemExit(f"WRONG: on a sample the fast engine found {len(fast)} pairs, the SQL engine {len(sql)}")
    return len(fast)


def _pairs(found: DataFrame) -> Any:
    table = found.toArrow()
    pairs = np.stack([table["publication"].to_numpy(), table["subscription"].to_numpy()], axis=1)
    return pairs[np.lexsort(pairs.T)]


def _worker_peak_mb(spark: SparkSession, partitions: int) -> float:
    """Return the peak memory of the workers, which are still the same processes."""

    def peak(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield pa.record_batch({"mb": pa.array([most] * min(1, batch.num_rows), pa.float64())})

    told = spark.range(partitions, numPartitions=partitions).mapInArrow(peak, "mb double").agg(F.max("mb")).first()
    return float(told[0]) if told else 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, default=DEFAULT_PUBLICATIONS, help="(default: %(default)s)")
    parser.add_argument("--subscriptions", type=int, default=DEFAULT_SUBSCRIPTIONS, help="(default: %(default)s)")
    parser.add_argument("--selectivity", type=float, default=0.02, help="(default: %(default)s)")
    parser.add_argument("--partitions", type=int, default=2 * (os.cpu_count() or 1), help="(default: %(default)s)")
    parser.add_argument(
        "--sample",
        type=int,
        default=50,
        help="the number of subscriptions compared pair by pair (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--master", default="local[*]", help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    options = parser.parse_args(arguments)
    active = SparkSession.getActiveSession()
    # An existing session is used as it is: making one would change its settings.
    spark = active or make_session(PipelineSettings(master=options.master), "octopia benchmark of the truth")
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(spark, folder, options)
    finally:
        if active is None:
            spark.stop()
    print(json.dumps(found) if options.json else _lines(found))
    is_full = options.publications * options.subscriptions >= DEFAULT_PUBLICATIONS * DEFAULT_SUBSCRIPTIONS
    if is_full and found["ratio"] < LEAST_RATIO:
        raise SystemExit(f"TOO SLOW: expected {LEAST_RATIO} times the speed of SQL, got {found['ratio']:.1f} times")


def _lines(found: dict[str, Any]) -> str:
    return (
        f"{found['publications']:,} publications x {found['subscriptions']:,} subscriptions: "
        f"{found['pairs']:,} pairs ({found['selectivity']:.2%}), the same by both engines\n"
        f"fast  {found['fast_s']:8.1f} s  {found['fast_pairs_per_s']:>12,.0f} pairs/s\n"
        f"SQL   {found['sql_s']:8.1f} s  {found['sql_pairs_per_s']:>12,.0f} pairs/s\n"
        f"ratio {found['ratio']:8.1f}; {found['pairs_compared']:,} pairs compared one by one; "
        f"peak memory of a worker {found['worker_peak_mb']:,.0f} MB"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
