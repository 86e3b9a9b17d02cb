"""The spool as a process: killed, it goes on where it was; nothing is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from recorders import PATIENCE_S, Feed, kill, nobody_is_left_behind, start_command, until
from recorders import start as start_program
from ticking import ticks

import octopia
from octopia.protocol import Cause
from octopia.records.rows import Row, RowKind, to_rows
from octopia.records.spool import SpoolReader

__all__ = ["nobody_is_left_behind"]


async def start(url: str, folder: Path) -> asyncio.subprocess.Process:
    return await start_command(
        b"recording", "spool", "n >= 0", "--dir", str(folder), "--url", url, "--segment-mib", "0.01"
    )


def rows_in(folder: Path) -> list[Row]:
    return [row for _, batch in SpoolReader(folder).read(0, 10**9) for row in to_rows(batch)]


def numbers_in(folder: Path) -> list[object]:
    return [row.publication.attributes["n"] for row in rows_in(folder) if row.publication is not None]


async def until_recorded(folder: Path, count: int) -> None:
    reader = SpoolReader(folder)
    await until(lambda: reader.end_offset >= count)


async def killed_under_load(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    async with octopia.Overlay.local("path:2", 2) as overlay, overlay.connect("a.0") as publisher:
        await publisher.advertise("n >= 0", ordered=True)
        url = overlay.url("b.1")
        spool = await start(url, folder)
        reader = SpoolReader(folder)
        feed = Feed(publisher, lambda: reader.end_offset, chance)
        async with feed.running():
            for _ in range(kills):
                await until_recorded(folder, reader.end_offset + chance.randrange(1, 500))
                await kill(spool)
                spool = await start(url, folder)
        await until_recorded(folder, feed.published)
        spool.terminate()
        out, _ = await spool.communicate()
        assert numbers_in(folder) == list(range(feed.published))
        told = json.loads(out)
        assert (told["end_offset"], told["gaps"], told["lost"]) == (feed.published, 0, 0)


def test_a_spool_that_is_killed_under_load_has_every_publication_once(tmp_path: Path) -> None:
    asyncio.run(killed_under_load(tmp_path / "spool", kills=2, seed=1))


@pytest.mark.soak
def test_a_spool_that_is_killed_very_often(tmp_path: Path) -> None:
    asyncio.run(killed_under_load(tmp_path / "spool", kills=50, seed=2))


def test_a_spool_under_load_ends_on_a_signal_and_the_next_one_has_the_rest(tmp_path: Path) -> None:
    async def run() -> None:
        folder = tmp_path / "spool"
        async with octopia.Overlay.local("path:1", 1) as overlay, overlay.connect("a.0") as publisher:
            await publisher.advertise("n >= 0", ordered=True)
            spool = await start(overlay.url("a.0"), folder)
            feed = Feed(publisher, lambda: SpoolReader(folder).end_offset, random.Random(3))
            async with feed.running(beat_s=0.0):
                await until_recorded(folder, 500)
                spool.terminate()
                async with asyncio.timeout(PATIENCE_S):
                    out, _ = await spool.communicate()
            assert (spool.returncode, json.loads(out)["end_offset"]) == (0, SpoolReader(folder).end_offset)
            again = await start(overlay.url("a.0"), folder)
            await until_recorded(folder, feed.published)
            again.terminate()
            await again.communicate()
        assert numbers_in(folder) == list(range(feed.published))

    asyncio.run(run())


_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from octopia.cli import main
main()
"""


def test_a_spool_that_cannot_write_says_so_in_one_sentence(tmp_path: Path) -> None:
    async def run() -> None:
        folder = tmp_path / "spool"
        async with octopia.Overlay.local("path:1", 1) as overlay, overlay.connect("a.0") as publisher:
            await publisher.advertise("n >= 0", ordered=True)
            words = ["spool", "n >= 0", "--dir", str(folder), "--url", overlay.url("a.0")]
            spool = await start_program(["-c", _LIMITED, *words], b"recording")
            await publisher.publish({"n": 0}, payload=b"small")
            await until_recorded(folder, 1)
            await publisher.publish({"n": 1}, payload=bytes(30_000))
            async with asyncio.timeout(PATIENCE_S):
                out, problem = await spool.communicate()
            assert (spool.returncode, out) == (1, b"")
            assert b"Traceback" not in problem
            assert problem.splitlines()[-1] == b"octopia: the system reported an error: File too large"
            # The broker still has what could not be written.
            again = await start(overlay.url("a.0"), folder)
            await until_recorded(folder, 2)
            again.terminate()
            await again.communicate()
            assert numbers_in(folder) == [0, 1]

    asyncio.run(run())


def test_a_broker_that_dies_leaves_a_gap_in_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        folder = tmp_path / "spool"
        async with octopia.Overlay.local("path:2", 1) as overlay, overlay.connect("a.0") as publisher:
            await publisher.advertise("n >= 0")
            spool = await start(overlay.url("b.0"), folder)
            await publisher.publish({"n": 0})
            await until_recorded(folder, 1)
            overlay.crash("b.0")
            await overlay.restart("b.0")
            await until_recorded(folder, 2)
            async with asyncio.timeout(PATIENCE_S):
                async for _ in ticks(0.05):
                    await publisher.publish({"n": 1})
                    if len(numbers_in(folder)) > 1:
                        break
            await kill(spool)
        kinds = [row.kind for row in rows_in(folder)]
        assert kinds[:2] == [RowKind.PUBLICATION, RowKind.GAP]
        assert rows_in(folder)[1].cause == Cause.NEW_SESSION

    asyncio.run(run())
