"""The specification of a workload: its overlay, clients, rates and selectivity.

This module needs no Spark, so commands and experiment files can describe a workload without starting it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.overlay import Scot
from octopia.overlay.files import overlay_from_text
from octopia.overlay.trees import default_clusters

SYMBOLS_EACH = 5
"""The maximum number of symbols of one publisher."""
SYMBOLS_NAMED = 60
"""The maximum number of symbols in a filter: filters have at most 200 tokens, and a burst's filter has two parts."""


class Meaning(enum.StrEnum):
    """The meaning of selectivity: a share of all publications or, as in the paper, of all publishers."""

    PUBLICATIONS = "publications"
    PUBLISHERS = "publishers"


class HostKind(enum.StrEnum):
    """The kind of broker that hosts the publisher of a burst: any, as the seed has it, or an inner or edge broker."""

    ANY = "any"
    INNER = "inner"
    EDGE = "edge"


@dataclasses.dataclass(frozen=True, slots=True)
class Burst:
    """A high-rate publisher in addition to the others, at a ``host`` broker of some kind.

    A ``share`` of the subscriptions matches its publications. They are spread over all clusters, so every cluster is a
    target, and none is at its host broker.
    """

    publications: int = 50_000
    per_minute: float = 100_000.0
    start_ms: float = 10_000.0
    share: float = 0.001
    host: HostKind = HostKind.ANY


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload in numbers; ``publications`` is the number per publisher, 0 for one per bar.

    The defaults are the paper's: every publisher sends between 100 and 120 publications per minute.
    """

    tree: str = "paper:se"
    clusters: int | None = None
    publishers: int = 100
    publications: int = 1000
    subscribers: int = 1000
    selectivity: float = 0.02
    meaning: Meaning = Meaning.PUBLICATIONS
    per_minute_min: float = 100.0
    per_minute_max: float = 120.0
    burst: Burst | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse invalid numbers and overlays."""
        scot = self.scot()
        self._check(self.publishers >= 1, "publishers", "at least 1", self.publishers)
        self._check(self.publications >= 0, "publications of each publisher", "0 or more", self.publications)
        self._check(self.subscribers >= 0, "subscribers", "0 or more", self.subscribers)
        self._check(0 < self.selectivity <= 1, "a selectivity", "above 0 and at most 1", self.selectivity)
        self._check(self.per_minute_min > 0, "a rate", "above 0", self.per_minute_min)
        is_range = self.per_minute_min <= self.per_minute_max
        self._check(is_range, "a highest rate", f"at least {self.per_minute_min:g}", self.per_minute_max)
        if self.burst is not None:
            self._check(self.burst.publications >= 1, "publications of a burst", "at least 1", self.burst.publications)
            self._check(self.burst.per_minute > 0, "a burst's rate", "above 0", self.burst.per_minute)
            self._check(0 < self.burst.share <= 1, "a burst's share", "above 0 and at most 1", self.burst.share)
            self._check(self.burst.start_ms >= 0, "a burst's start", "0 or later", self.burst.start_ms)
            fewest = scot.clusters
            self._check(self.subscribers >= fewest, "subscribers", f"at least {fewest} with a burst", self.subscribers)
            self._check(len(scot.brokers) > 1, "brokers", "at least 2 with a burst", len(scot.brokers))
            self._check(bool(self.burst_hosts), "a burst's host", "a kind of broker that the overlay has",
                        self.burst.host)  # fmt: skip

    @staticmethod
    def _check(holds: bool, what: str, wanted: str, got: object) -> None:
        if not holds:
            raise UsageError(f"expected {what}: {wanted}, got {got}")

    def scot(self) -> Scot:
        """Return the overlay whose brokers the clients are placed on."""
        return _scot(self.tree, self.clusters)

    @property
    def publishers_each(self) -> int:
        """The number of publishers that a subscription matches, if selectivity is a share of publishers."""
        return max(1, round(self.selectivity * self.publishers))

    @property
    def burst_subscribers(self) -> int:
        """The number of subscriptions that match a burst: its share, but at least one per cluster."""
        if self.burst is None:
            return 0
        return min(self.subscribers, max(self.scot().clusters, round(self.burst.share * self.subscribers)))

    @property
    def burst_hosts(self) -> tuple[BrokerId, ...]:
        """The brokers that may host the publisher of a burst, by id."""
        scot, kind = self.scot(), HostKind.ANY if self.burst is None else self.burst.host
        if kind is HostKind.ANY:
            return scot.brokers
        return tuple(each for each in scot.brokers if scot.neighbourhood(each).is_edge == (kind is HostKind.EDGE))

    def symbols_each(self, symbols: int) -> int:
        """Return the number of symbols per publisher, given the number of all symbols."""
        if symbols < self.publishers:
            raise UsageError(f"expected at least one symbol for each of {self.publishers} publishers, got {symbols}")
        named = SYMBOLS_NAMED // self.publishers_each if self.meaning is Meaning.PUBLISHERS else SYMBOLS_EACH
        return max(1, min(SYMBOLS_EACH, symbols // self.publishers, named))

    @property
    def gap_s(self) -> float:
        """The mean time between two publications of one ordinary publisher."""
        return (60 / self.per_minute_min + 60 / self.per_minute_max) / 2

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain data."""
        return dataclasses.asdict(self)


@functools.lru_cache(maxsize=8)
def _scot(tree: str, clusters: int | None) -> Scot:
    """Return an overlay; it is cached, since every subscription needs it."""
    chosen = 4 if clusters is None and default_clusters(tree) is None else clusters
    return overlay_from_text(tree, chosen).scot
