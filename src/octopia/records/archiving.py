"""Archiving: a client that records a subscription, and rolls its rows into the files of an archive."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from octopia.content import format_filter, parse_filter
from octopia.records.archive import Archive, spool_of
from octopia.records.recording import KEEP_S, Recorded, Recording, record

ROLL_S = 60.0
"""The time after which recorded rows are moved into files."""
ROLL_ROWS = 250_000
"""The number of recorded rows at which they are moved into files early."""
_SEGMENT_BYTES = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Archiving:
    """The settings of an archive."""

    interest: str
    folder: Path
    name: str | None = None
    keep_s: float = KEEP_S
    sync_ms: float = 0.0
    roll_s: float = ROLL_S
    roll_rows: int = ROLL_ROWS


@dataclasses.dataclass(slots=True)
class Archived:
    """The progress of an archive; ``end_offset`` counts all rows, ``in_files`` those in files."""

    rows: int = 0
    gaps: int = 0
    lost: int = 0
    end_offset: int = 0
    in_files: int = 0
    files: int = 0
    removed: int = 0


async def archive(
    url: str | Sequence[str] | None,
    wanted: Archiving,
    stop: asyncio.Event,
    on_progress: Callable[[Archived], object] = lambda _: None,
    timeout: float = 5.0,
) -> Archived:
    """Archive until ``stop`` is set; raise Unavailable if no broker answers within ``timeout`` seconds."""
    interest = format_filter(parse_filter(wanted.interest))
    with Archive(wanted.folder, interest) as writer:
        roller = _Roller(writer, wanted, on_progress)
        recording = Recording(
            interest, spool_of(wanted.folder), wanted.name, wanted.keep_s, wanted.sync_ms, segment_bytes=_SEGMENT_BYTES
        )
        recorded = asyncio.ensure_future(record(url, recording, stop, roller.recorded, timeout))
        rolling = asyncio.ensure_future(roller.run())
        try:
            await asyncio.wait([recorded, rolling], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.set()
            rolling.cancel()
            await asyncio.wait([recorded, rolling])
        if not rolling.cancelled():
            rolling.result()
        recorded.result()
        await roller.roll()
        return roller.state


class _Roller:
    """Rolls recorded rows when there are many, or when ``roll_s`` has passed."""

    def __init__(self, writer: Archive, wanted: Archiving, on_progress: Callable[[Archived], object]):
        self._writer = writer
        self._wanted = wanted
        self._on_progress = on_progress
        self._are_many = asyncio.Event()
        self.state = Archived(in_files=writer.end, removed=writer.removed)

    def recorded(self, state: Recorded) -> None:
        """Note the progress of the recording."""
        known = self.state
        known.rows, known.gaps, known.lost, known.end_offset = state.rows, state.gaps, state.lost, state.end_offset
        if known.end_offset - known.in_files >= self._wanted.roll_rows:
            self._are_many.set()
        self._on_progress(known)

    async def run(self) -> None:
        """Roll until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._wanted.roll_s):
                    await self._are_many.wait()
            self._are_many.clear()
            if self.state.end_offset > self.state.in_files:
                await self.roll()

    async def roll(self) -> None:
        """Roll all recorded rows in another thread; a cancelled call waits for its end."""
        rolling = asyncio.ensure_future(asyncio.to_thread(self._writer.roll))
        try:
            await asyncio.shield(rolling)
        except asyncio.CancelledError:
            await asyncio.wait([rolling])
            raise
        finally:
            if rolling.done() and rolling.exception() is None:
                self.state.files += rolling.result().files
                self.state.in_files = rolling.result().end
        self._on_progress(self.state)
