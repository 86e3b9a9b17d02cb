"""What a workload should be: how many publish and subscribe, how much, and how choosy they are.

This module needs no Spark, so that commands and experiment files can say what they want without starting one.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

from octopia.errors import UsageError
from octopia.overlay import Scot
from octopia.overlay.files import overlay_from_text
from octopia.overlay.trees import default_clusters

SYMBOLS_EACH = 5
"""The most symbols that one publisher publishes about."""
SYMBOLS_NAMED = 60
"""The most symbols that one filter names: the filter language allows 200 tokens, and a burst's filter has two parts."""


class Meaning(enum.StrEnum):
    """What selectivity is a share of: of all publications, or, as in the paper, of all publishers."""

    PUBLICATIONS = "publications"
    PUBLISHERS = "publishers"


@dataclasses.dataclass(frozen=True, slots=True)
class Burst:
    """A high-rate publisher beside the others.

    A ``share`` of the subscriptions matches its publications. They are spread over all clusters, so that every cluster
    is a target, and none is at its host broker.
    """

    publications: int = 50_000
    per_minute: float = 100_000.0
    start_ms: float = 10_000.0
    share: float = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload in numbers; ``publications`` are those of each publisher, 0 for one of every bar.

    The defaults are the paper's: every publisher sends between 100 and 120 publications a minute.
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
        """Refuse what makes no workload, and an overlay that cannot be."""
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

    @staticmethod
    def _check(holds: bool, what: str, wanted: str, got: object) -> None:
        if not holds:
            raise UsageError(f"expected {what}: {wanted}, got {got}")

    def scot(self) -> Scot:
        """Return the overlay on whose brokers the clients are placed."""
        return _scot(self.tree, self.clusters)

    @property
    def publishers_each(self) -> int:
        """How many publishers a subscription asks for, where selectivity is a share of publishers."""
        return max(1, round(self.selectivity * self.publishers))

    @property
    def burst_subscribers(self) -> int:
        """How many subscriptions match a burst: the share, and one for each cluster at least."""
        if self.burst is None:
            return 0
        return min(self.subscribers, max(self.scot().clusters, round(self.burst.share * self.subscribers)))

    def symbols_each(self, symbols: int) -> int:
        """Return how many of so many symbols each publisher gets."""
        if symbols < self.publishers:
            raise UsageError(f"expected at least one symbol for each of {self.publishers} publishers, got {symbols}")
        named = SYMBOLS_NAMED // self.publishers_each if self.meaning is Meaning.PUBLISHERS else SYMBOLS_EACH
        return max(1, min(SYMBOLS_EACH, symbols // self.publishers, named))

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return dataclasses.asdict(self)


@functools.lru_cache(maxsize=8)
def _scot(tree: str, clusters: int | None) -> Scot:
    """Make an overlay once: every subscription asks about it."""
    chosen = 4 if clusters is None and default_clusters(tree) is None else clusters
    return overlay_from_text(tree, chosen).scot
