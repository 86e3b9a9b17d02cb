"""Measure Spark as a source and a sink: rows per second, and the delay from a publication to its row.

The source reads a spool, as a table and as a stream; the sink fills an outbox. Rows have seven attributes, of which two
become columns. The delay is from the time of publication, over a broker and a spool on this machine, to the moment at
which ``foreachBatch`` has the row in Python. Beside it stands the time of a micro-batch of Spark's own source with a
row per second, in the same run: less is not possible.

All rows are counted and summed; the benchmark fails if one is missing or comes twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import octopia
from octopia.content import Publication
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.spark_session import HERE, make_session
from octopia.records.outgoing import Outgoing
from octopia.records.recording import Recording, record
from octopia.records.rows import SCHEMA
from octopia.records.spool import SpoolReader, open_spool
from octopia.wire.encoding import prepare

BLOCK = 10_000
COLUMNS = "n bigint, price double"
WARM_UP_ROWS = 5
FEWEST = 3


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows to read and to write")
    parser.add_argument("--rate", type=float, default=100.0, help="publications per second, for the delay")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of the measurement of the delay")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args(arguments)
    spark = make_session(PipelineSettings(master=HERE))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        found = {
            "rows": options.rows,
            **measure_source(spark, folder, options.rows),
            **measure_sink(spark, folder, options.rows),
            **asyncio.run(measure_delay(spark, folder, options.rate, options.seconds)),
        }
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:28} {value:14,.1f}")


def check(is_right: bool, what: str) -> None:
    if not is_right:
        sys.exit(f"WRONG: {what}")


# The source.


def fill_spool(folder: Path, rows: int) -> None:
    """Write rows of seven attributes."""
    with open_spool(folder, "n >= 0") as spool:
        for start in range(0, rows, BLOCK):
            numbers = range(start, min(rows, start + BLOCK))
            spool.append(batch_of(numbers), f"p{start}")


def batch_of(numbers: Sequence[int]) -> pa.RecordBatch:
    encoded = [
        prepare(
            Publication(
                {"symbol": "IBM", "date": 20180207, "open": 1.5, "high": 2.5, "low": 0.5, "price": n / 2, "n": n}
            )
        )
        for n in numbers
    ]
    count = len(numbers)
    nothing = [None] * count
    columns: list[Sequence[Any]] = [["publication"] * count, ["a.0"] * count, [1] * count, numbers, [2] * count]
    columns += [[float(n) for n in numbers]] * 2 + [encoded, [b""] * count, nothing, nothing]
    arrays = [pa.array(each, kind) for each, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def measure_source(spark: SparkSession, folder: Path, rows: int) -> dict[str, float]:
    spool = folder / "spool"
    fill_spool(spool, rows)
    fill_spool(folder / "few", 100)
    few = spark.read.format("octopia").schema(COLUMNS).load(str(folder / "few"))
    few.agg(F.count("n"), F.sum("n")).collect()  # Starts workers and compiles the query, which is not measured.
    table = spark.read.format("octopia").schema(COLUMNS).load(str(spool))
    begin_s = time.perf_counter()
    count, total = table.agg(F.count("n"), F.sum("n")).collect()[0]
    table_s = time.perf_counter() - begin_s
    check((count, total) == (rows, rows * (rows - 1) // 2), f"the table has {count} rows with the sum {total}")
    begin_s = time.perf_counter()
    frame = spark.readStream.format("octopia").schema(COLUMNS).load(str(spool))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "source"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    stream_s = time.perf_counter() - begin_s
    count = sum(each["numInputRows"] for each in query.recentProgress)
    check(count == rows, f"the stream has {count} rows")
    return {"table_rows_per_s": rows / table_s, "table_s": table_s, "stream_rows_per_s": rows / stream_s}


# The sink.


def measure_sink(spark: SparkSession, folder: Path, rows: int) -> dict[str, float]:
    outbox = folder / "outbox"
    frame = spark.range(0, rows, 1, 4).selectExpr("id AS n", "id / 2 AS price", "'IBM' AS symbol")
    begin_s = time.perf_counter()
    frame.write.format("octopia").mode("append").save(str(outbox))
    seconds = time.perf_counter() - begin_s
    outgoing = Outgoing(outbox)
    staged = [batch for each in outgoing.manifests() for batch in outgoing.read(each, 0)]
    different = len({each for batch in staged for each in batch.column("attributes").to_pylist()})
    check(different == sum(map(len, staged)) == rows, f"the outbox has {different} different rows")
    return {"sink_rows_per_s": rows / seconds, "sink_s": seconds}


# The delay.


class Arrivals:
    """The delays of rows, noted in each micro-batch."""

    def __init__(self) -> None:
        self.delays_ms: dict[int, float] = {}

    def take(self, frame: DataFrame, _: int) -> None:
        """Note the rows of a micro-batch."""
        rows = frame.collect()
        now_ms = time.time() * 1000.0
        for row in rows:
            check(row["n"] not in self.delays_ms, f"the row {row['n']} came twice")
            self.delays_ms[row["n"]] = now_ms - row["published_ms"]


async def measure_delay(spark: SparkSession, folder: Path, rate: float, seconds: float) -> dict[str, float]:
    spool, arrivals, stop, is_ready = folder / "live", Arrivals(), asyncio.Event(), asyncio.Event()
    async with octopia.Overlay.local("path:2", 1) as overlay, overlay.connect("a.0") as client:
        recording = asyncio.create_task(
            record(overlay.url("b.0"), Recording("n >= 0", spool), stop, lambda _: is_ready.set())
        )
        await is_ready.wait()
        await client.advertise("n >= 0", ordered=True)
        for n in range(WARM_UP_ROWS):
            await client.publish({"n": n})
        frame = spark.readStream.format("octopia").schema("n bigint, published_ms double").load(str(spool))
        query = await asyncio.to_thread(start, frame, arrivals, folder / "delay")
        while len(arrivals.delays_ms) < WARM_UP_ROWS:
            await asyncio.sleep(0.05)
        count = WARM_UP_ROWS + max(1, round(rate * seconds))
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        for n in range(WARM_UP_ROWS, count):
            await asyncio.sleep(max(0.0, begin_s + (n - WARM_UP_ROWS) / rate - loop.time()))
            await client.publish({"n": n})
        while len(arrivals.delays_ms) < count:
            check(query.isActive, f"the stream ended: {query.exception()}")
            await asyncio.sleep(0.05)
        await asyncio.to_thread(stop_idle, query)
        stop.set()
        await recording
    check(SpoolReader(spool).end_offset == count, "the spool has other rows")
    delays = sorted(delay for n, delay in arrivals.delays_ms.items() if n >= WARM_UP_ROWS)
    empty = await asyncio.to_thread(measure_empty, spark, folder / "empty", min(seconds, 10.0))
    return {
        "delay_ms_p50": share(delays, 0.5),
        "delay_ms_p95": share(delays, 0.95),
        "empty_batch_ms_p50": share(empty, 0.5),
        "empty_batch_ms_p95": share(empty, 0.95),
    }


def start(frame: DataFrame, arrivals: Arrivals, checkpoint: Path) -> Any:
    return frame.writeStream.foreachBatch(arrivals.take).option("checkpointLocation", str(checkpoint)).start()


def stop_idle(query: Any) -> None:
    """Stop a query between two batches: Spark prints a stack trace if a Python function is interrupted."""
    while query.status["isTriggerActive"]:
        time.sleep(0.01)
    query.stop()


def measure_empty(spark: SparkSession, checkpoint: Path, seconds: float) -> list[float]:
    """Return the times of micro-batches with a row or two of Spark's own source."""
    frame = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    query = start(frame, _Nobody(), checkpoint)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s or sum(each["numInputRows"] > 0 for each in query.recentProgress) < FEWEST:
        check(query.isActive, f"the stream ended: {query.exception()}")
        time.sleep(0.05)
    stop_idle(query)
    # The first batch has the start of everything in it.
    batches = [each for each in query.recentProgress[1:] if each["numInputRows"]]
    return sorted(float(each["durationMs"]["triggerExecution"]) for each in batches)


class _Nobody(Arrivals):
    """Collects rows and forgets them."""

    def take(self, frame: DataFrame, _: int) -> None:
        """Collect the rows."""
        frame.collect()


def share(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


if __name__ == "__main__":
    main()
