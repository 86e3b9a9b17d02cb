"""Rates and delays from snapshots: counters that grow become publications per second.

Rates are those of the last two seconds. Delays are those of the last minute, from histograms that grow.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from octopia.http.snapshot import Snapshot
from octopia.runtime.latency import BUCKETS, percentile_ms

RATE_MS = 2_000.0
"""The period over which rates are computed."""
DELAY_MS = 60_000.0
"""The period over which delays are collected."""
POINT_MS = 5_000.0
"""The period of the delays in one point of a curve."""


@dataclasses.dataclass(frozen=True, slots=True)
class LinkRate:
    """One direction of a link now: its traffic per second, its queue and its state.

    ``congested`` is the share of the time for which it was congested, and ``limit`` its rate if it is throttled.
    """

    source: str
    target: str
    sent: float = 0.0
    rerouted: float = 0.0
    congested: float = 0.0
    queue: int = 0
    limit: float | None = None
    is_up: bool = True
    is_cut: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Delays:
    """Percentiles of delivery delays; None without deliveries."""

    p50_ms: float | None
    p99_ms: float | None
    count: int

    def to_json(self) -> dict[str, Any]:
        """Return the percentiles as the feed has them."""
        return {"p50_ms": _rounded(self.p50_ms), "p99_ms": _rounded(self.p99_ms), "count": self.count}


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """The current state of an overlay: rates, missing brokers and routing algorithms."""

    links: Sequence[LinkRate] = ()
    published: float = 0.0
    delivered: float = 0.0
    missing: Sequence[str] = ()
    routing: Sequence[str] = ()


class Meter:
    """The snapshots of the last seconds, and the histograms of the last minute."""

    def __init__(self) -> None:
        self._recent: deque[Snapshot] = deque()
        self._delays: deque[tuple[float, list[int]]] = deque()

    def add(self, snapshot: Snapshot) -> None:
        """Add a snapshot, which is later than all before."""
        self._recent.append(snapshot)
        while len(self._recent) > 2 and snapshot.at_ms - self._recent[1].at_ms >= RATE_MS:
            self._recent.popleft()
        before = self._recent[-2] if len(self._recent) > 1 else None
        self._delays.append((snapshot.at_ms, _new_delays(before, snapshot)))
        while snapshot.at_ms - self._delays[0][0] > DELAY_MS:
            self._delays.popleft()

    def scene(self, missing: Sequence[str] = ()) -> Scene:
        """Return the state of the overlay now; ``missing`` are the brokers that do not run."""
        now, before = self._recent[-1], self._recent[0]
        elapsed_ms = now.at_ms - before.at_ms
        earlier = before.links
        links = [_link_rate(ends, link, earlier.get(ends), elapsed_ms) for ends, link in now.links.items()]
        published = sum(_grown(now, before, broker, "published") for broker in now.reports)
        delivered = sum(_grown(now, before, broker, "delivered") for broker in now.reports)
        routing = sorted({report["routing"] for report in now.reports.values()})
        per_second = 1000.0 / elapsed_ms if elapsed_ms else 0.0
        return Scene(links, published * per_second, delivered * per_second, missing, routing)

    def delays(self, period_ms: float = DELAY_MS) -> Delays:
        """Return the delays of the last period."""
        end_ms = self._delays[-1][0] if self._delays else 0.0
        return _percentiles(counts for at_ms, counts in self._delays if end_ms - at_ms < period_ms)

    def curve(self) -> list[tuple[float, float | None, float | None]]:
        """Return the median and the 99th percentile of the last minute, one point per second."""
        points = list[tuple[float, float | None, float | None]]()
        last_ms = float("-inf")
        for end_ms, _ in self._delays:
            if end_ms - last_ms < 950.0:
                continue
            last_ms = end_ms
            found = _percentiles(counts for at_ms, counts in self._delays if 0.0 <= end_ms - at_ms < POINT_MS)
            points.append((round(end_ms), _rounded(found.p50_ms), _rounded(found.p99_ms)))
        return points


def _link_rate(
    ends: tuple[str, str], link: dict[str, Any], before: dict[str, Any] | None, elapsed_ms: float
) -> LinkRate:
    def per_second(name: str) -> float:
        if before is None or not elapsed_ms:
            return 0.0
        return max(0.0, float(link[name] - before[name])) * 1000.0 / elapsed_ms

    return LinkRate(
        *ends,
        sent=per_second("sent"),
        rerouted=per_second("rerouted"),
        congested=min(1.0, per_second("congested_ms") / 1000.0),
        queue=link["queue"],
        limit=link["rate"],
        is_up=link["up"],
        is_cut=link["cut"],
    )


def _grown(now: Snapshot, before: Snapshot, broker: str, name: str) -> int:
    """Return the growth of a counter, which is 0 if the broker restarted and its counter shrank."""
    earlier = before.reports.get(broker)
    return 0 if earlier is None else max(0, now.reports[broker][name] - earlier[name])


def _new_delays(before: Snapshot | None, now: Snapshot) -> list[int]:
    """Return the delays that were added since the last snapshot."""
    total = [0] * BUCKETS
    for broker, report in now.reports.items():
        earlier = before.reports.get(broker) if before is not None else None
        if earlier is None:
            continue
        pairs = itertools.zip_longest(report["delays"]["counts"], earlier["delays"]["counts"], fillvalue=0)
        for bucket, (count, known) in enumerate(pairs):
            total[bucket] += max(0, count - known)
    return total


def _percentiles(histograms: Iterable[list[int]]) -> Delays:
    total = [0] * BUCKETS
    for counts in histograms:
        for bucket, count in enumerate(counts):
            total[bucket] += count
    return Delays(percentile_ms(total, 0.5), percentile_ms(total, 0.99), sum(total))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
