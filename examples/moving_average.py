"""A moving average per symbol, computed by Spark and published back into the overlay that the prices come from."""

import asyncio
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import octopia
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.spark_session import open_session
from octopia.records.dispatching import Dispatching, dispatch
from octopia.records.recording import Recording, record
from octopia.records.spool import SpoolReader

SYMBOLS = {"IBM": 100.0, "SAP": 200.0}
QUOTES = [
    {"symbol": name, "price": base + second, "second": second} for second in range(6) for name, base in SYMBOLS.items()
]


def run_stream(spark: SparkSession, folder: Path) -> None:
    """Write the average price of the last three seconds, every second, from the spool into the outbox."""
    spark.createDataFrame([], "n int")  # Binds the session to this thread, where Spark looks for the sink.
    source = spark.readStream.format("octopia").schema("symbol string, price double, second bigint")
    quotes = source.option("consumer", "averages").load(str(folder / "spool"))
    timed = quotes.withColumn("at", F.timestamp_seconds("second")).withWatermark("at", "0 seconds")
    means = timed.groupBy("symbol", F.window("at", "3 seconds", "1 second")).agg(F.avg("price").alias("average"))
    rows = means.select("symbol", "average", F.unix_timestamp("window.end").alias("until"))
    sink = rows.writeStream.format("octopia").option("path", str(folder / "outbox"))
    sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


async def main(spark: SparkSession, folder: Path) -> None:
    """Publish and spool prices, average them with Spark, and receive the averages."""
    async with octopia.Overlay.local("path:2", 2) as overlay, overlay.connect("a.0") as client:
        is_ready, stop = asyncio.Event(), asyncio.Event()
        wanted = Recording("price > 0", folder / "spool")
        recording = asyncio.create_task(record(overlay.url("b.1"), wanted, stop, lambda _: is_ready.set()))
        await is_ready.wait()
        await client.advertise("symbol IS NOT NULL AND price > 0 AND second >= 0", ordered=True)
        await client.publish_many(QUOTES)
        while SpoolReader(folder / "spool").end_offset < len(QUOTES):
            await asyncio.sleep(0.01)
        stop.set()
        await recording
        await asyncio.to_thread(run_stream, spark, folder)
        subscription = await client.subscribe("average > 0 AND until BETWEEN 3 AND 5")
        await dispatch(overlay.url("b.0"), Dispatching(folder / "outbox", until_empty=True), asyncio.Event())
        found = [await subscription.next(timeout=5) for _ in range(6)]
        for each in sorted(found, key=lambda one: (one["symbol"], one["until"])):
            print(f"{each['symbol']}: {each['average']:.1f} in the three seconds before {each['until']}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, open_session(PipelineSettings()) as session:
        asyncio.run(main(session, Path(place)))
