"""Recording: a client that writes its publications into a spool, and acknowledges them when they are durable.

Writing and waiting for the disk happen in another thread. Publications keep arriving in the meantime, so the slower
the disk, the more of them become durable at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec

from octopia.client import Subscription, connect
from octopia.content import format_filter, parse_filter
from octopia.protocol import Overflow
from octopia.records.rows import Event, merge, to_batch
from octopia.records.spool import SEGMENT_BYTES, Retention, Spool, open_spool

KEEP_S = 3600.0
"""The time for which brokers keep the session of a spool that is disconnected."""
TIDY_S = 60.0
"""The time after which rows that are no longer needed are removed."""
_ROWS_AT_ONCE = 10_000
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """The settings of a recording.

    ``sync_ms`` is the minimum time between two waits for the disk; with 0, there is one after every write. In any case,
    only durable rows are acknowledged.
    """

    interest: str
    folder: Path
    name: str | None = None
    keep_s: float = KEEP_S
    sync_ms: float = 0.0
    retention: Retention = Retention()  # noqa: RUF009 (it is frozen)
    segment_bytes: int = SEGMENT_BYTES
    tidy_s: float = TIDY_S


@dataclasses.dataclass(slots=True)
class Recorded:
    """The progress of a recording."""

    rows: int = 0
    gaps: int = 0
    lost: int = 0
    end_offset: int = 0
    cut_bytes: int = 0


async def record(
    url: str | Sequence[str] | None,
    wanted: Recording,
    stop: asyncio.Event,
    on_progress: Callable[[Recorded], object] = lambda _: None,
    timeout: float = 5.0,
    clock: Callable[[], float] = time.time,
) -> Recorded:
    """Record until ``stop`` is set; raise Unavailable if no broker answers within ``timeout`` seconds.

    The broker keeps the session, so that the next call continues where this one ends. ``clock`` returns the time in
    seconds, by which old rows are removed.
    """
    interest = format_filter(parse_filter(wanted.interest))
    with open_spool(wanted.folder, interest, wanted.retention, wanted.segment_bytes) as spool:
        point = spool.resume_point or None
        name = wanted.name if point is None else None
        client = await connect(url, name=name, overflow=Overflow.DROP_OLDEST, resume=point, timeout=timeout)
        try:
            subscription = await client.subscribe(interest, ack="manual", keep_s=wanted.keep_s)
            if point is None:
                # From now on the broker keeps everything for this spool, even if this process dies before a row.
                spool.append(to_batch([], 0.0), subscription.resume_point())
                spool.sync()
            state = Recorded(end_offset=spool.end_offset, cut_bytes=spool.cut_bytes)
            on_progress(state)
            tidying = _Tidying(spool, wanted.tidy_s, clock)
            while events := await _events(subscription, stop, tidying):
                await _keep(subscription, spool, events)
                state.rows += len(events)
                state.end_offset, state.gaps, state.lost = spool.end_offset, subscription.gaps, subscription.lost
                on_progress(state)
                if wanted.sync_ms:
                    await _pause(stop, wanted.sync_ms / 1000.0)
            return state
        finally:
            await client.close(keep=True)


class _Tidying:
    """Tidies a spool now and then."""

    def __init__(self, spool: Spool, every_s: float, clock: Callable[[], float]):
        self.every_s = every_s
        self._spool = spool
        self._clock = clock
        self._last_s = clock()

    async def when_due(self) -> None:
        """Tidy if the last time is long ago."""
        now_s = self._clock()
        if now_s - self._last_s >= self.every_s:
            self._last_s = now_s
            await _in_thread(self._spool.tidy, now_s)


async def _events(subscription: Subscription, stop: asyncio.Event, tidying: _Tidying) -> list[Event]:
    """Wait for new events and return them; return none at the end, or if ``stop`` is set.

    Events that arrive together with ``stop`` are dropped: the broker keeps them, since they are not acknowledged.
    """
    arriving, stopping = asyncio.ensure_future(subscription.next_events()), asyncio.ensure_future(stop.wait())
    try:
        while not (arriving.done() or stop.is_set()):
            ends: list[asyncio.Future[Any]] = [arriving, stopping]
            await asyncio.wait(ends, timeout=tidying.every_s, return_when=asyncio.FIRST_COMPLETED)
            await tidying.when_due()
        events = merge(*arriving.result()) if arriving.done() else []
        return [] if stop.is_set() else events
    finally:
        arriving.cancel()
        stopping.cancel()


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait for some time, or until ``stop`` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


async def _keep(subscription: Subscription, spool: Spool, events: Sequence[Event]) -> None:
    """Write events, wait until they are durable, and acknowledge them."""
    parts = [events[at : at + _ROWS_AT_ONCE] for at in range(0, len(events), _ROWS_AT_ONCE)]
    points = [subscription.resume_point(part[-1][0]) for part in parts]
    await _in_thread(_write, spool, parts, points)
    subscription.acknowledge(events[-1][0])


async def _in_thread(function: Callable[P, object], *arguments: P.args, **options: P.kwargs) -> None:
    """Call a function in another thread; a cancelled call waits for its end, since the thread uses the spool."""
    calling = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **options))
    try:
        await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait([calling])
        raise


def _write(spool: Spool, parts: Sequence[Sequence[Event]], points: Sequence[str]) -> None:
    now_ms = time.time() * 1000.0
    for part, point in zip(parts, points, strict=True):
        spool.append(to_batch(part, now_ms), point)
    spool.sync()
