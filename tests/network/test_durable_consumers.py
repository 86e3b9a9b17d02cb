"""Consumers that store what they receive, die, and go on in another process: nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from recorders import kill, nobody_is_left_behind, start, until

import octopia

__all__ = ["nobody_is_left_behind"]

OFFER = "n >= 0"

CONSUMER = """
import asyncio, os, pathlib, sys
import octopia

async def main(url, file):
    store = pathlib.Path(file)
    point = None
    if store.exists():
        # Only whole lines were stored; the resume point is the end of the last one.
        whole = store.read_text().rpartition("\\n")[0]
        point = whole.rpartition("\\n")[2].partition(" ")[2] or None
        store.write_text(whole + "\\n" if whole else "")
    name = None if point else "consumer"
    async with octopia.connect(url, name=name, resume=point) as client:
        subscription = await client.subscribe("n >= 0", ack="manual", keep_s=60)
        print("ready", flush=True)
        with store.open("a") as out:
            async for batch in subscription.batches():
                numbers = ",".join(str(each["n"]) for each in batch)
                out.write(f"{numbers} {subscription.resume_point(batch[-1])}\\n")
                out.flush()
                os.fsync(out.fileno())
                subscription.acknowledge(batch[-1])
                if subscription.gaps or subscription.lost:
                    print("gap", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def stored(file: Path) -> list[int]:
    """Return the numbers that were stored in whole lines."""
    lines = file.read_text().rpartition("\n")[0].split("\n") if file.exists() else []
    return [int(number) for line in lines if line for number in line.partition(" ")[0].split(",")]


async def begin(url: str, file: Path) -> asyncio.subprocess.Process:
    return await start(["-c", CONSUMER, url, str(file)], b"ready", on_stderr=False)


async def kill_often(file: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    async with octopia.Overlay.local("path:2", 2) as overlay, overlay.connect("a.0") as publisher:
        await publisher.advertise(OFFER, ordered=True)
        url, published = overlay.url("b.1"), 0
        consumer = await begin(url, file)
        for _ in range(kills):
            wanted = published + chance.randrange(1, 300)
            while published < wanted:
                size = min(wanted - published, chance.randrange(1, 50))
                await publisher.publish_many({"n": published + index} for index in range(size))
                published += size
            # It is killed anywhere in its work: some of these publications are stored, others are not.
            target = max(0, published - chance.randrange(100))
            await until(lambda target=target: len(stored(file)) >= target)
            await kill(consumer)
            await publisher.publish_many({"n": published + index} for index in range(20))
            published += 20
            consumer = await begin(url, file)
        await until(lambda: len(stored(file)) >= published)
        consumer.terminate()
        await consumer.wait()
        assert stored(file) == list(range(published))
        assert consumer.stdout is not None
        assert await consumer.stdout.read() == b""


def test_a_consumer_that_is_killed_goes_on_where_its_store_ends(tmp_path: Path) -> None:
    asyncio.run(kill_often(tmp_path / "store", kills=4, seed=1))


@pytest.mark.soak
def test_a_consumer_that_is_killed_very_often(tmp_path: Path) -> None:
    asyncio.run(kill_often(tmp_path / "store", kills=100, seed=2))
