"""A load of publications on a running overlay, sent and received by ordinary clients.

All clients share this process. Every subscriber wants every publication, so that each must receive every publication
exactly once; deliveries are counted. The number of deliveries in flight is bounded: without a rate, the next
publication is sent when an earlier one has arrived. So neither brokers nor subscribers are overrun, and the result is
the rate that the overlay and these clients carry together.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from octopia.client import Client, Received, connect
from octopia.content import Publication, Value
from octopia.errors import UsageError
from octopia.experiments.local_overlay import percentile

PROGRESS_S = 0.1
SILENCE_S = 10.0
"""After this long without a delivery, missing deliveries count as lost."""
REST_S = 0.2
"""The time to wait for duplicates in the end."""
_BAR: dict[str, Value] = {
    "symbol": "IBM",
    "open": 15.07,
    "high": 15.12,
    "low": 14.63,
    "price": 14.75,
    "volume": 8_407_500,
}

OnProgress = Callable[[int, int], None]
"""Called with the number of deliveries so far, and the number expected."""


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The load; a rate of 0 is as fast as deliveries arrive, with at most ``window`` deliveries in flight."""

    publications: int = 20_000
    publishers: int = 1
    subscribers: int = 1
    rate: float = 0.0
    payload_bytes: int = 20
    window: int = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """The results of a load; publishers and subscribers share the clock by which delays are measured."""

    publications: int
    expected: int
    delivered: int
    lost: int
    doubled: int
    seconds: float
    published_per_s: float
    delivered_per_s: float
    p50_ms: float
    p99_ms: float
    hops: int

    @property
    def is_exact(self) -> bool:
        """True if every delivery came exactly once."""
        return not self.lost and not self.doubled

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return dataclasses.asdict(self)


async def run_load(
    publish_at: Sequence[str], subscribe_at: Sequence[str], load: Load, on_progress: OnProgress
) -> Result:
    """Connect clients, spread over the brokers at these URLs, publish, and wait for all deliveries."""
    if load.publications < load.publishers:
        raise UsageError(f"expected at least one publication per publisher, got {load.publications}")
    name = secrets.token_hex(4)
    tally = _Tally(load.publications * load.subscribers, load.window)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(load.subscribers):
            client = await stack.enter_async_context(connect(subscribe_at[number % len(subscribe_at)]))
            await client.subscribe(f"bench = '{name}'", callback=functools.partial(tally.take, number))
        publishers = []
        for number in range(load.publishers):
            client = await stack.enter_async_context(connect(publish_at[number % len(publish_at)]))
            await client.advertise(_offer(name))
            publishers.append(client)
        telling = asyncio.create_task(_tell(tally, on_progress))
        begin = time.perf_counter()
        try:
            published = await asyncio.gather(
                *(_publish(client, number, name, load, tally) for number, client in enumerate(publishers))
            )
            accepted_s = time.perf_counter() - begin
            await tally.wait()
        finally:
            telling.cancel()
        on_progress(len(tally.delays_ms), tally.expected)
        return tally.result(sum(published), accepted_s, begin)


def _offer(name: str) -> str:
    return f"bench = '{name}' AND n >= 0 AND " + " AND ".join(f"{each} IS NOT NULL" for each in _BAR)


async def _publish(client: Client, publisher: int, name: str, load: Load, tally: _Tally) -> int:
    numbers = range(publisher, load.publications, load.publishers)
    payload = bytes(load.payload_bytes)

    async def paced() -> AsyncIterator[Publication]:
        begin = time.perf_counter()
        for number in numbers:
            if load.rate:
                wait_s = begin + number / load.rate - time.perf_counter()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            else:
                await tally.room(load.subscribers)
            yield Publication({"bench": name, "n": number, **_BAR}, payload)

    return await client.publish_many(paced())


async def _tell(tally: _Tally, on_progress: OnProgress) -> None:
    while True:
        on_progress(len(tally.delays_ms), tally.expected)
        await asyncio.sleep(PROGRESS_S)


class _Tally:
    """The publications sent, and the deliveries so far."""

    def __init__(self, expected: int, window: int):
        self.expected = expected
        self.delays_ms: list[float] = []
        self._seen: set[tuple[int, object]] = set()
        self._hops = 0
        self._last_s = time.perf_counter()
        self._sent = 0
        self._window = window
        self._news = asyncio.Event()

    def take(self, subscriber: int, received: Received) -> None:
        """Count a delivery."""
        self.delays_ms.append(received.received_ms - received.published_ms)
        self._seen.add((subscriber, received["n"]))
        self._hops = max(self._hops, received.hops)
        self._last_s = time.perf_counter()
        self._news.set()

    async def room(self, deliveries: int) -> None:
        """Wait until one more publication, with this number of deliveries, may be in flight."""
        while self._sent and self._sent + deliveries - len(self.delays_ms) > self._window and not self._is_silent:
            await self._some_news()
        self._sent += deliveries

    async def wait(self) -> None:
        """Wait for all deliveries, or until they stop."""
        while len(self._seen) < self.expected and not self._is_silent:
            await self._some_news()
        last_s = self._last_s
        await asyncio.sleep(REST_S)
        self._last_s = max(last_s, self._last_s if len(self.delays_ms) > self.expected else last_s)

    @property
    def _is_silent(self) -> bool:
        return time.perf_counter() - self._last_s > SILENCE_S

    async def _some_news(self) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), SILENCE_S)

    def result(self, published: int, accepted_s: float, begin: float) -> Result:
        """Return the results."""
        seconds = max(self._last_s - begin, 1e-9)
        return Result(
            publications=published,
            expected=self.expected,
            delivered=len(self.delays_ms),
            lost=self.expected - len(self._seen),
            doubled=len(self.delays_ms) - len(self._seen),
            seconds=round(seconds, 3),
            published_per_s=round(published / max(accepted_s, 1e-9), 1),
            delivered_per_s=round(len(self.delays_ms) / seconds, 1),
            p50_ms=round(percentile(self.delays_ms, 50), 3),
            p99_ms=round(percentile(self.delays_ms, 99), 3),
            hops=self._hops,
        )
