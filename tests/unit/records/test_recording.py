"""Recording over a real socket: it stops at once under load, and what it has not acknowledged stays with the broker."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fake_broker import FakeBroker
from octopia.cli import app
from octopia.cli import spool as spool_command
from octopia.protocol.messages import SubscribeRequest
from octopia.records import recording as recording_module
from octopia.records.archive import Archive, Rolled
from octopia.records.archiving import Archiving, archive
from octopia.records.recording import Recorded, Recording, record
from octopia.records.rows import to_rows
from octopia.records.segments import segments_in
from octopia.records.spool import Retention, SpoolReader, open_spool

PATIENCE_S = 20.0
_WAITING_MAX = 2_000


@contextlib.asynccontextmanager
async def loaded(broker: FakeBroker) -> AsyncIterator[list[int]]:
    """Deliver without a break while the block runs, so that a reader always finds something to read."""
    delivered: list[int] = []

    async def deliver() -> None:
        while True:
            await asyncio.sleep(0)
            is_subscribed = bool(broker.of(SubscribeRequest) and broker.connections)
            if is_subscribed and all(each.unacknowledged < _WAITING_MAX for each in broker.sessions.values()):
                values = range(len(delivered), len(delivered) + 20)
                broker.deliver(values)
                delivered.extend(values)

    delivering = asyncio.create_task(deliver())
    try:
        yield delivered
    finally:
        delivering.cancel()
        await asyncio.wait([delivering])


def values_in(folder: Path) -> list[object]:
    rows = [row for _, batch in SpoolReader(folder).read(0, 10**9) for row in to_rows(batch)]
    return [row.publication.attributes["x"] for row in rows if row.publication is not None]


async def stopped_at(offset: int, broker: FakeBroker, folder: Path, sync_ms: float = 0.0) -> Recorded:
    """Record, and stop when there are so many rows."""
    stop = asyncio.Event()

    def on_progress(state: Recorded) -> None:
        if state.end_offset >= offset:
            stop.set()

    async with asyncio.timeout(PATIENCE_S):
        return await record(broker.url, Recording("x >= 0", folder, sync_ms=sync_ms), stop, on_progress)


@pytest.mark.parametrize("sync_ms", [0.0, 3_600_000.0])
def test_a_recording_under_load_stops_at_once_and_the_next_one_continues(tmp_path: Path, sync_ms: float) -> None:
    async def run() -> None:
        async with FakeBroker() as broker:
            async with loaded(broker) as delivered:
                first = await stopped_at(1, broker, tmp_path, sync_ms)
            assert first.rows < len(delivered), "some were still on their way"
            await stopped_at(len(delivered), broker, tmp_path)
        assert values_in(tmp_path) == delivered

    asyncio.run(run())


def test_a_roll_that_fails_under_load_ends_the_archive_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Archive) -> Rolled:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def run() -> None:
        async with FakeBroker() as broker, loaded(broker), asyncio.timeout(PATIENCE_S):
            await archive(broker.url, Archiving("x >= 0", tmp_path, roll_s=0.01), asyncio.Event())

    monkeypatch.setattr(Archive, "roll", fail)
    with pytest.raises(OSError, match="No space left on device"):
        asyncio.run(run())


def test_old_rows_are_removed_while_nothing_arrives(tmp_path: Path) -> None:
    now_s = time.time()
    settings = Recording("x >= 0", tmp_path, retention=Retention(hours=1.0), tidy_s=0.01)

    async def run() -> None:
        stop, has_rows = asyncio.Event(), asyncio.Event()

        def on_progress(state: Recorded) -> None:
            if state.rows == 3:
                has_rows.set()

        def clock() -> float:
            """Return a time that jumps by ten minutes whenever it is asked for, once there are rows."""
            nonlocal now_s
            now_s += 600.0 * has_rows.is_set()
            if has_rows.is_set() and SpoolReader(tmp_path).first_offset == 3:
                stop.set()
            return now_s

        async with FakeBroker() as broker, asyncio.timeout(PATIENCE_S):
            recording = asyncio.create_task(record(broker.url, settings, stop, on_progress, clock=clock))
            await broker.until(lambda: bool(broker.of(SubscribeRequest)))
            broker.deliver(range(3))
            await recording
            # What follows is recorded after the rows that are gone.
            broker.deliver([3])
            await stopped_at(4, broker, tmp_path)

    asyncio.run(run())
    assert values_in(tmp_path) == [3]


def test_syncs_are_as_far_apart_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def run() -> None:
        stop = asyncio.Event()

        async def pause(stop: asyncio.Event, seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                stop.set()

        monkeypatch.setattr(recording_module, "_pause", pause)
        async with FakeBroker() as broker, loaded(broker), asyncio.timeout(PATIENCE_S):
            await record(broker.url, Recording("x >= 0", tmp_path, sync_ms=20.0), stop)

    asyncio.run(run())
    assert pauses == [0.02] * 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"retention": Retention(), "sync_ms": 0.0}),
        (["--retain-hours", "24"], {"retention": Retention(hours=24.0)}),
        (["--retain-mib", "1.5"], {"retention": Retention(bytes=1_572_864)}),
        (["--sync-ms", "20", "--segment-mib", "2"], {"sync_ms": 20.0, "segment_bytes": 2_097_152}),
    ],
)
def test_the_command_passes_its_options_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], expected: dict[str, object]
) -> None:
    asked: list[Recording] = []

    async def note(_: object, wanted: Recording, *__: object) -> Recorded:
        asked.append(wanted)
        return Recorded()

    monkeypatch.setattr(spool_command, "record", note)
    words = ["spool", "x >= 0", "--dir", str(tmp_path), "--url", "octopia://127.0.0.1:1", *options]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert {name: getattr(asked[0], name) for name in expected} == expected


def test_more_than_the_retained_size_is_removed(tmp_path: Path) -> None:
    settings = Recording("x >= 0", tmp_path, retention=Retention(bytes=20_000), segment_bytes=5_000)

    async def run() -> None:
        stop = asyncio.Event()
        async with FakeBroker() as broker, loaded(broker), asyncio.timeout(PATIENCE_S):
            await record(broker.url, settings, stop, lambda _: SpoolReader(tmp_path).first_offset and stop.set())

    asyncio.run(run())
    with open_spool(tmp_path, "x >= 0", settings.retention, settings.segment_bytes):
        sizes = [each.stat().st_size for each in segments_in(tmp_path)]
    assert len(sizes) == 1 or sum(sizes) <= 20_000
