"""A program that sends numbers through everything: overlay, spool, stream, outbox, and the overlay again.

Under load, the spool and the outbox are killed, the stream is stopped and restarted from its checkpoint, the first
attempt of every task of the sink fails after it has staged its rows, and the last batch is replayed. The program prints
counts as JSON. Arguments: a folder, ``classic`` or ``connect``, and the number of kills.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

import octopia
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.spark_session import open_session
from octopia.pipeline.spark_sink import OutboxStreamWriter, stream_of
from octopia.pipeline.spark_source import OctopiaSource
from octopia.records.outgoing import Outgoing
from octopia.records.spool import SpoolReader

sys.path.append(str(Path(__file__).parents[1] / "live"))

import recorders
from recorders import Feed, kill, kill_the_rest, start_command, until

PATIENCE_S = 900.0
"""The time for one step of the chain, which takes seconds unless the machine is very busy."""
HERE = "local[2,3]"
"""Two cores, and three attempts of a task: Spark on one machine repeats none otherwise."""


class FlakySink(OctopiaSource):
    """A sink whose first attempt of each task fails after it has staged its rows."""

    @classmethod
    def name(cls) -> str:
        return "flaky"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FlakyWriter:  # noqa: N802 (Spark's name)
        return FlakyWriter(Path(self.options["path"]), schema, stream_of(self.options), is_overwrite=overwrite)


class FlakyWriter(OutboxStreamWriter):
    def write(self, iterator: object) -> object:
        staged = super().write(iterator)
        if TaskContext.get().attemptNumber() == 0:
            raise OSError("the machine is on fire")
        return staged


class Chain:
    """The parts of the chain in a folder, and the numbers that came out of it."""

    def __init__(self, spark: SparkSession, folder: Path, urls: tuple[str, str]):
        self._spark = spark
        self._folder = folder
        self._urls = urls
        self.received: list[int] = []
        self.replays = 0

    def recorded(self) -> int:
        return SpoolReader(self._folder / "spool").end_offset

    def written(self) -> int:
        manifests = Outgoing(self._folder / "outbox").manifests()
        return manifests[-1].end if manifests else 0

    def has_written(self, before: int, query: StreamingQuery) -> bool:
        """Return whether there are more rows than before; raise the error of a query that has ended."""
        if not query.isActive:
            raise AssertionError(f"the stream has ended: {query.exception()}")
        return self.written() > before

    async def start_spool(self) -> asyncio.subprocess.Process:
        where = ["--dir", str(self._folder / "spool"), "--url", self._urls[0], "--segment-mib", "0.05"]
        return await start_command(b"recording", "spool", "n >= 0", *where)

    async def start_outbox(self) -> asyncio.subprocess.Process:
        return await start_command(b"publishing", "outbox", str(self._folder / "outbox"), "--url", self._urls[1])

    def start_query(self, *, is_last: bool = False) -> StreamingQuery:
        # Spark finds a sink only in a thread that knows the session.
        self._spark.createDataFrame([(1,)], "one int")
        source = self._spark.readStream.format("octopia").option("consumer", "c").option("maxRowsPerBatch", 20_000)
        frame: DataFrame = source.schema("n long").load(str(self._folder / "spool")).withColumnRenamed("n", "m")
        writer = frame.writeStream.format("flaky").option("path", str(self._folder / "outbox"))
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return (writer.trigger(availableNow=True) if is_last else writer).start()

    def finish(self) -> None:
        query = self.start_query(is_last=True)
        query.awaitTermination(int(PATIENCE_S))
        assert not query.isActive

    def replay(self) -> None:
        """Let the last batch happen again: the stream died after the commit of the sink, and before its own."""
        commits = self._folder / "checkpoint" / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink()
        self.finish()
        self.replays += (commits / f"{last}").exists()

    async def receive(self, subscription: octopia.Subscription) -> None:
        async for batch in subscription.batches():
            self.received.extend(int(publication["m"]) for publication in batch)


async def run(spark: SparkSession, folder: Path, kills: int) -> dict[str, object]:
    chance = random.Random(kills)
    async with (
        octopia.Overlay.local("path:2", 2) as overlay,
        overlay.connect("a.0") as publisher,
        overlay.connect("a.1") as subscriber,
    ):
        await publisher.advertise("n >= 0", ordered=True)
        subscription = await subscriber.subscribe("m >= 0", buffer=10**6)
        chain = Chain(spark, folder, (overlay.url("b.1"), overlay.url("b.0")))
        receiving = asyncio.create_task(chain.receive(subscription))
        spool, outbox = await chain.start_spool(), await chain.start_outbox()
        feed = Feed(publisher, chain.recorded, chance)
        async with feed.running(beat_s=0.1):
            for _ in range(kills):
                before = chain.written()
                query = await asyncio.to_thread(chain.start_query)
                await until(lambda before=before, query=query: chain.has_written(before, query))
                await kill(spool)
                await kill(outbox)
                outbox = await chain.start_outbox()
                spool = await chain.start_spool()
                await asyncio.to_thread(query.stop)
        published = feed.published
        await until(lambda: chain.recorded() >= published)
        await asyncio.to_thread(chain.finish)
        await asyncio.to_thread(chain.replay)
        await until(lambda: len(chain.received) >= published)
        for process in (spool, outbox):
            process.terminate()
            await process.communicate()
        # Nothing more comes.
        last = await start_command(b"publishing", "outbox", str(folder / "outbox"), "--url", overlay.url("b.0"),
                                   "--until-empty")  # fmt: skip
        said, _ = await last.communicate()
        receiving.cancel()
    return {
        "published": published,
        "received": len(chain.received),
        "different": len(set(chain.received)),
        "left": json.loads(said)["rows"],
        "replays": chain.replays,
        "java": (Path(os.environ["JAVA_HOME"]) / "bin" / "java").read_text().splitlines()[-1],
    }


def main() -> None:
    folder, kind, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    recorders.PATIENCE_S = PATIENCE_S
    settings = PipelineSettings(partitions=2, **({"remote": HERE} if kind == "connect" else {"master": HERE}))
    with open_session(settings) as spark:
        spark.dataSource.register(FlakySink)
        try:
            print(json.dumps(asyncio.run(run(spark, folder, kills))))
        finally:
            kill_the_rest()


if __name__ == "__main__":
    main()
