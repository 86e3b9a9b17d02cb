"""The rate at which one client may publish: token buckets that delay credit instead of refusing publications.

A bucket holds the tokens of one second. Publications that were already on their way are accepted and take it below
zero, so the average rate holds; the client gets credit again once the bucket has recovered.
"""

from __future__ import annotations

import dataclasses

from octopia.settings import Limit, ResourceLimits

WINDOW_S = 0.1
"""The time for which the window of a client lasts at its rate: what is on its way is beyond control."""
PUBLICATION_BYTES = 128
"""The size of a small publication, to make a window of a number of publications."""


@dataclasses.dataclass(slots=True)
class Bucket:
    """A token bucket; ``rate`` is in tokens per second."""

    rate: float
    tokens: float
    since_ms: float

    def spend(self, amount: float, now_ms: float) -> None:
        """Take tokens, also those that are not there yet."""
        refilled = self.tokens + (now_ms - self.since_ms) * self.rate / 1000.0
        self.tokens = min(refilled, max(self.rate, 1.0)) - amount
        self.since_ms = now_ms

    @property
    def recovered_ms(self) -> float:
        """The time at which there is a token again."""
        return self.since_ms + max(0.0, 1.0 - self.tokens) * 1000.0 / self.rate


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """A time without credit, and the limit that caused it."""

    limit: Limit
    until_ms: float


class PublishingRate:
    """The buckets of one client: publications and bytes."""

    def __init__(self, limits: ResourceLimits, now_ms: float):
        rates = {limit: limit.of(limits) for limit in (Limit.PUBLICATION_RATE, Limit.BYTE_RATE)}
        self._buckets = {limit: Bucket(rate, max(rate, 1.0), now_ms) for limit, rate in rates.items() if rate}

    def spend(self, publications: int, size_bytes: int, now_ms: float) -> Limit | None:
        """Count publications, and return the limit that they have exhausted, if any."""
        for limit, bucket in self._buckets.items():
            bucket.spend(publications if limit is Limit.PUBLICATION_RATE else size_bytes, now_ms)
        return next((limit for limit, bucket in self._buckets.items() if bucket.recovered_ms > now_ms), None)

    @property
    def recovered_ms(self) -> float:
        """The time at which the client may publish again."""
        return max(bucket.recovered_ms for bucket in self._buckets.values())


def window_for(limits: ResourceLimits, window_bytes: int) -> int:
    """Return the window of a client, which is smaller than usual if its rate is low."""
    rates = limits.publications_per_second_per_client * PUBLICATION_BYTES, limits.bytes_per_second_per_client
    return max(1, min([window_bytes, *(int(rate * WINDOW_S) for rate in rates if rate)]))
