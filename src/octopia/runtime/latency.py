"""A sample of the delays of deliveries, as a histogram with logarithmic buckets.

Each turn of a server adds one delivery: the oldest of those written to one client. So all deliveries count while
traffic is light, and the cost does not grow with the number of clients. The publisher and this machine must agree on
the time.
"""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence
from typing import Any

from octopia.protocol import Frame
from octopia.protocol.transit import Deliver

FIRST_MS = 0.1
"""The upper bound of the first bucket."""
PER_DECADE = 10
"""The number of buckets in which delays grow tenfold."""
BUCKETS = 61
"""The number of buckets; the last one has an upper bound of 100 s and takes all longer delays."""


def bucket_of(delay_ms: float) -> int:
    """Return the number of the bucket of a delay."""
    return min(BUCKETS - 1, bisect.bisect_left(_BOUNDS_MS, delay_ms))


def upper_ms(bucket: int) -> float:
    """Return the upper bound of a bucket."""
    bound: float = FIRST_MS * 10.0 ** (bucket / PER_DECADE)
    return bound


_BOUNDS_MS = [upper_ms(bucket) for bucket in range(BUCKETS)]


def percentile_ms(counts: Sequence[int], share: float) -> float | None:
    """Return the upper bound of the bucket below which a share of the delays lies, or None without delays."""
    rank, seen = share * sum(counts), 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return upper_ms(bucket)
    return None


class DelaySample:
    """The delays of sampled deliveries since the start of a broker."""

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_ms = 0.0

    def sample(self, written: Sequence[object]) -> None:
        """Add the first of the items written to a client, if it is a delivery."""
        first = written[0]
        if type(first) is Frame and type(first.message) is Deliver:
            delay_ms = max(0.0, time.time() * 1000.0 - first.message.published_ms)
            self.counts[bucket_of(delay_ms)] += 1
            self.sum_ms += delay_ms

    def to_json(self) -> dict[str, Any]:
        """Return the histogram without its empty end."""
        size = max((bucket + 1 for bucket, count in enumerate(self.counts) if count), default=0)
        return {"counts": self.counts[:size], "sum_ms": round(self.sum_ms, 3)}
