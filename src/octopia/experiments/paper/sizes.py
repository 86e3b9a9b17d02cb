"""The size of each study beside the paper's; a study that was not run at full size says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from octopia.experiments.paper import rows
from octopia.experiments.paper.rows import RunRow, Tables, key_of

NOT_RUN = "not run"
DELIVERY_PUBLICATIONS = 10_000
"""Our choice: the paper does not give the number."""
BURST_RATES = (40_000, 60_000, 80_000, 100_000)
BURST_PUBLICATIONS = 150_000
"""50,000 by the bursty publisher, and 1,000 by each of the 100 others."""
BURST_SEEDS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class StudySize:
    """The size of one study, ours and the paper's."""

    study: str
    ran: str
    paper: str
    full_runs: bool
    """True if each run was as large as the paper's."""
    full: bool
    """True if all runs of the paper were run at that size."""

    @property
    def note(self) -> str:
        """A note on the size for the places that give a number; empty if all is as in the paper."""
        if self.full:
            return ""
        if self.ran == NOT_RUN:
            return NOT_RUN
        return "at full size, but not all were run" if self.full_runs else "not at full size"


def sizes_of(tables: Tables) -> dict[type[object], StudySize]:
    """Return the size of each study by the type of its rows."""
    bursts = _bursts(tables)
    return {
        rows.PublisherRow: _counted("publishers", "publishers", tables.publishers, 100, 500),
        rows.SubscriberRow: _counted("subscribers", "subscribers", tables.subscribers, 1_000, 10_000),
        rows.DeliveryRow: _delivery(tables),
        rows.CostRow: _counted("costs", "subscribers", tables.costs, 1_000, 10_000),
        rows.BurstRow: bursts,
        rows.SequenceRow: bursts,
    }


def rate_text(rate: int) -> str:
    """Return a rate as the paper prints it: 100K."""
    return f"{rate // 1000}K" if rate % 1000 == 0 else f"{rate:,}"


def _counted(study: str, what: str, runs: Sequence[RunRow], low: int, high: int) -> StudySize:
    """Return the size of a study that varies the number of clients; the paper's goes from low to high."""
    paper, keys = f"{low:,} to {high:,} {what}", [key_of(row) for row in runs]
    if not keys:
        return StudySize(study, NOT_RUN, paper, full_runs=False, full=False)
    least, most = min(keys)[0], max(keys)[0]
    ran = f"{least:,} {what}" if least == most else f"{least:,} to {most:,} {what}"
    ran += f", {some(len({seed for _, seed, _ in keys}), 'seed')}"
    return StudySize(study, ran, paper, full_runs=least >= low, full=least == low and most >= high)


def _delivery(tables: Tables) -> StudySize:
    size = _counted("delivery", "subscribers", tables.delivery, 1_000, 10_000)
    paper = f"{size.paper}; ours at full size has {DELIVERY_PUBLICATIONS:,} publications"
    if not tables.delivery:
        return dataclasses.replace(size, paper=paper)
    fewest = min(row.publications for row in tables.delivery)
    is_enough = fewest >= DELIVERY_PUBLICATIONS
    return StudySize(
        size.study, f"{size.ran}, {fewest:,} publications", paper, size.full_runs and is_enough, size.full and is_enough
    )


def _bursts(tables: Tables) -> StudySize:
    paper = f"{_rates(BURST_RATES)} per minute, {BURST_PUBLICATIONS:,} publications, {BURST_SEEDS} seeds"
    if not tables.bursts:
        return StudySize("bursts", NOT_RUN, paper, full_runs=False, full=False)
    rates = sorted({row.rate_per_minute for row in tables.bursts})
    seeds = len({row.seed for row in tables.bursts})
    fewest = min(row.publications for row in tables.bursts)
    ran = f"{_rates(rates)} per minute, {fewest:,} publications, {some(seeds, 'seed')}"
    full_runs = fewest >= BURST_PUBLICATIONS
    full = full_runs and set(rates) >= set(BURST_RATES) and seeds >= BURST_SEEDS
    return StudySize("bursts", ran, paper, full_runs, full)


def _rates(rates: Iterable[int]) -> str:
    return ", ".join(rate_text(rate) for rate in rates)


def some(count: int, noun: str) -> str:
    """Return a number with a noun in its singular or plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
