"""Replaying: publishing the rows of an archive or a spool again, in their order and with their spacing."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from octopia.client import Client
from octopia.content import Disjunction, Publication
from octopia.records.dispatching import Advertiser
from octopia.records.history import Records
from octopia.records.rows import Row, RowKind, to_rows
from octopia.records.selection import Question

AS_FAST_AS_POSSIBLE = 0.0
"""A speed of 0: rows are published without their spacing."""
CHUNK = 1_000
"""The number of rows that are decoded together, in another thread, and after which progress is reported."""
_TURN = 500
"""The number of publications after which other tasks get a turn."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replaying:
    """The settings of a replay; a speed of 10 publishes in a tenth of the time.

    ``offer`` is the advertisement; by default, the attributes of each row are advertised, with any value.
    """

    folder: Path
    question: Question = Question()  # noqa: RUF009 (it is frozen)
    speed: float = 1.0
    count: int | None = None
    offer: Disjunction | None = None


@dataclasses.dataclass(slots=True)
class Replayed:
    """The progress of a replay; ``late_ms_max`` is its largest delay behind schedule."""

    rows: int = 0
    notices: int = 0
    seconds: float = 0.0
    late_ms_max: float = 0.0


async def replay(
    client: Client,
    wanted: Replaying,
    stop: asyncio.Event,
    on_progress: Callable[[Replayed], object] = lambda _: None,
) -> Replayed:
    """Publish until all rows are accepted, or until ``stop`` is set."""
    state = Replayed()
    begin_s = asyncio.get_running_loop().time()
    player = _Player(client, wanted, stop, state, on_progress)
    await client.publish_many(player.due())
    state.seconds = asyncio.get_running_loop().time() - begin_s
    return state


class _Player:
    """Yields publications when they are due."""

    def __init__(
        self,
        client: Client,
        wanted: Replaying,
        stop: asyncio.Event,
        state: Replayed,
        on_progress: Callable[[Replayed], object],
    ):
        self._wanted = wanted
        self._advertiser = Advertiser(client, wanted.offer)
        self._stop = stop
        self._state = state
        self._on_progress = on_progress
        self._begin_s = 0.0
        self._first_ms: float | None = None

    async def due(self) -> AsyncIterator[Publication]:
        """Yield each publication at its time, after its attributes are advertised."""
        state = self._state
        async for rows in self._chunks():
            for row in rows:
                if row.kind is not RowKind.PUBLICATION or row.publication is None:
                    state.notices += 1
                    continue
                await self._advertiser.advertise(row.publication)
                await self._wait_until_due(row.published_ms)
                if self._stop.is_set():
                    return
                yield row.publication
                state.rows += 1
                if state.rows == self._wanted.count:
                    return
            self._on_progress(state)

    async def _chunks(self) -> AsyncIterator[list[Row]]:
        """Yield rows in chunks, which are read and decoded in another thread."""
        chunks = _decoded(Records(self._wanted.folder).batches(self._wanted.question))
        while chunk := await asyncio.to_thread(next, chunks, None):
            yield chunk

    async def _wait_until_due(self, published_ms: float) -> None:
        """Wait as long as the publisher did, divided by the speed; a late publication does not wait."""
        if self._wanted.speed == AS_FAST_AS_POSSIBLE:
            if self._state.rows % _TURN == 0:
                await asyncio.sleep(0)
            return
        now_s = asyncio.get_running_loop().time()
        if self._first_ms is None:
            self._begin_s, self._first_ms, self._latest_ms = now_s, published_ms, published_ms
        is_in_time = published_ms >= self._latest_ms
        self._latest_ms = max(self._latest_ms, published_ms)
        due_s = self._begin_s + (published_ms - self._first_ms) / self._wanted.speed / 1000.0
        if due_s > now_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_s - now_s):
                    await self._stop.wait()
        elif is_in_time:
            self._state.late_ms_max = max(self._state.late_ms_max, (now_s - due_s) * 1000.0)


def _decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Row]]:
    for batch in batches:
        for at in range(0, batch.num_rows, CHUNK):
            yield to_rows(batch.slice(at, CHUNK))
