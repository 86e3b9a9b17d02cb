"""The archive as a process: killed under load, it has each publication once; history finds them."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from recorders import PATIENCE_S, Feed, kill, nobody_is_left_behind, start_command, until

import octopia
from octopia.records.archive import read_commits, spool_of
from octopia.records.spool import SpoolReader
from records_samples import found_in, numbers_of

__all__ = ["nobody_is_left_behind"]


async def start(url: str, folder: Path) -> asyncio.subprocess.Process:
    return await start_command(b"archiving", "archive", "n >= 0", "--to", str(folder), "--url", url, "--roll", "0.05")


async def killed_under_load(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    async with octopia.Overlay.local("path:2", 2) as overlay, overlay.connect("a.0") as publisher:
        await publisher.advertise("n >= 0", ordered=True)
        url = overlay.url("b.1")
        process = await start(url, folder)
        reader = SpoolReader(spool_of(folder))
        feed = Feed(publisher, lambda: reader.end_offset, chance)
        async with feed.running():
            for _ in range(kills):
                before = len(read_commits(folder))
                await until(lambda before=before: len(read_commits(folder)) > before)
                target = reader.end_offset + chance.randrange(1, 500)
                await until(lambda target=target: reader.end_offset >= target)
                await kill(process)
                assert numbers_of(found_in(folder)) == list(range(reader.end_offset))
                process = await start(url, folder)
        published = feed.published
        await until(lambda: reader.end_offset == published)
        process.terminate()
        out, _ = await process.communicate()
    told = json.loads(out)
    assert (told["end_offset"], told["in_files"], told["gaps"], told["lost"]) == (published, published, 0, 0)
    assert numbers_of(found_in(folder)) == list(range(published))
    assert read_commits(folder)[-1].end == published


def test_an_archive_under_load_ends_on_a_signal_with_all_its_rows_in_files(tmp_path: Path) -> None:
    async def run() -> None:
        folder = tmp_path / "archive"
        async with octopia.Overlay.local("path:1", 1) as overlay, overlay.connect("a.0") as publisher:
            await publisher.advertise("n >= 0", ordered=True)
            process = await start(overlay.url("a.0"), folder)
            reader = SpoolReader(spool_of(folder))
            feed = Feed(publisher, lambda: reader.end_offset, random.Random(3))
            async with feed.running(beat_s=0.0):
                await until(lambda: reader.end_offset >= 500)
                process.terminate()
                async with asyncio.timeout(PATIENCE_S):
                    out, _ = await process.communicate()
        told = json.loads(out)
        assert (process.returncode, told["in_files"]) == (0, told["end_offset"])
        assert numbers_of(found_in(folder)) == list(range(told["end_offset"]))

    asyncio.run(run())


def test_an_archive_that_is_killed_under_load_has_every_publication_once(tmp_path: Path) -> None:
    asyncio.run(killed_under_load(tmp_path / "archive", kills=2, seed=1))


@pytest.mark.soak
def test_an_archive_that_is_killed_very_often(tmp_path: Path) -> None:
    asyncio.run(killed_under_load(tmp_path / "archive", kills=50, seed=2))
