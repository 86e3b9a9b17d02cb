"""An archive with late data: a report per trading day that recomputes only the days with new rows."""

import asyncio
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import octopia
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.spark_session import open_session
from octopia.records.archiving import Archived, Archiving, archive

TRADES = [("mon", 10), ("mon", 20), ("tue", 5), ("wed", 7)]
LATE = [("mon", 70), ("wed", 3)]


async def keep(overlay: octopia.Overlay, folder: Path, trades: list[tuple[str, int]]) -> None:
    """Publish trades and archive them; the next call continues where this one ends."""
    is_ready, is_done = asyncio.Event(), asyncio.Event()

    def on_progress(state: Archived) -> None:
        is_ready.set()
        if state.rows == len(trades):
            is_done.set()

    archiving = asyncio.create_task(archive(overlay.url("b.0"), Archiving("volume > 0", folder), is_done, on_progress))
    await is_ready.wait()
    async with overlay.connect("a.0") as client:
        await client.advertise("day IS NOT NULL AND volume > 0", ordered=True)
        await client.publish_many({"day": day, "volume": volume} for day, volume in trades)
        await archiving


def report(spark: SparkSession, folder: Path, since: int) -> dict[str, int]:
    """Return the volume of each day that has rows at or after an offset."""
    trades = spark.read.format("octopia").schema("offset bigint, day string, volume bigint").load(str(folder))
    new_days = trades.where(F.col("offset") >= since).select("day").distinct()
    volumes = trades.join(new_days, on="day", how="left_semi").groupBy("day").agg(F.sum("volume").alias("volume"))
    return {row["day"]: row["volume"] for row in volumes.orderBy("day").collect()}


async def main(spark: SparkSession, folder: Path) -> None:
    """Report the first trades, and then the days that late trades have changed."""
    async with octopia.Overlay.local("path:2", 1) as overlay:
        await keep(overlay, folder, TRADES)
        print("first:", await asyncio.to_thread(report, spark, folder, 0))
        await keep(overlay, folder, LATE)
        print("changed:", await asyncio.to_thread(report, spark, folder, len(TRADES)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, open_session(PipelineSettings()) as session:
        asyncio.run(main(session, Path(place)))
