"""A join of live and historic data: each live price compared with the average of its symbol in an archive."""

import asyncio
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import octopia
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.spark_session import open_session
from octopia.records.archiving import Archiving, archive
from octopia.records.recording import Recording, record

PAST = [("IBM", 100.0), ("IBM", 110.0), ("SAP", 200.0), ("SAP", 220.0)]
LIVE = [("IBM", 126.0), ("SAP", 189.0)]


async def kept(overlay: octopia.Overlay, keep, wanted, quotes: list[tuple[str, float]]) -> None:
    """Publish quotes while they are recorded or archived."""
    states, stop = asyncio.Queue(), asyncio.Event()
    keeping = asyncio.create_task(keep(overlay.url("b.0"), wanted, stop, lambda state: states.put_nowait(state.rows)))
    await states.get()
    async with overlay.connect("a.0") as client:
        await client.advertise("symbol IS NOT NULL AND price > 0", ordered=True)
        await client.publish_many({"symbol": symbol, "price": price} for symbol, price in quotes)
        while await states.get() < len(quotes):
            pass
        stop.set()
        await keeping


def compare(spark: SparkSession, folder: Path) -> None:
    """Print live prices relative to the average of past prices."""
    columns = "symbol string, price double"
    past = spark.read.format("octopia").schema(columns).load(str(folder / "archive"))
    usual = past.groupBy("symbol").agg(F.avg("price").alias("usual"))
    live = spark.readStream.format("octopia").schema(columns).load(str(folder / "spool"))
    beside = live.join(usual, on="symbol", how="left").select(
        "symbol", (F.col("price") / F.col("usual")).alias("ratio")
    )
    query = beside.writeStream.format("memory").queryName("beside").trigger(availableNow=True).start()
    query.awaitTermination()
    for row in spark.table("beside").orderBy("symbol").collect():
        print(f"{row['symbol']} is at {row['ratio']:.0%} of its usual price")


async def main(spark: SparkSession, folder: Path) -> None:
    """Archive past prices, spool live prices, and compare them."""
    async with octopia.Overlay.local("path:2", 1) as overlay:
        await kept(overlay, archive, Archiving("price > 0", folder / "archive"), PAST)
        await kept(overlay, record, Recording("price > 0", folder / "spool"), LIVE)
        await asyncio.to_thread(compare, spark, folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, open_session(PipelineSettings()) as session:
        asyncio.run(main(session, Path(place)))
