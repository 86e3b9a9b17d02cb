"""Recording over a real socket: it stops at once under load, and what it has not acknowledged stays with the broker."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fake_broker import FakeBroker
from octopia.protocol.messages import SubscribeRequest
from octopia.records.archive import Archive, Rolled
from octopia.records.archiving import Archiving, archive
from octopia.records.recording import Recorded, Recording, record
from octopia.records.rows import to_rows
from octopia.records.spool import SpoolReader

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
