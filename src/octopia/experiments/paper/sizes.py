"""How large the studies were beside the paper's: what was not run at full size says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from octopia.experiments.paper.tables import Tables

BURST_RATES = (40_000, 60_000, 80_000, 100_000)
BURST_PUBLICATIONS = 150_000
"""50,000 of the bursty publisher, and 1,000 of each of the 100 others."""
BURST_SEEDS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class StudySize:
    """What one study ran, and what the paper did."""

    study: str
    ran: str
    paper: str
    full: bool


def sizes_of(tables: Tables) -> dict[str, StudySize]:
    """Return the size of each study by the name of its table."""
    sizes = [
        _counted("publishers", "publishers", [(row.publishers, row.seed) for row in tables.publishers], 100, 500),
        _counted(
            "subscribers", "subscribers", [(row.subscribers, row.seed) for row in tables.subscribers], 1_000, 10_000
        ),
        _counted("delivery", "subscribers", [(row.subscribers, row.seed) for row in tables.delivery], 1_000, 10_000),
        _counted("costs", "subscribers", [(row.subscribers, 0) for row in tables.costs], 1_000, 10_000, seeds=False),
        _bursts(tables),
    ]
    return {size.study: size for size in sizes} | {"sequences": dataclasses.replace(sizes[-1], study="sequences")}


def rate_text(rate: int) -> str:
    """Show a rate as the paper does: 100K."""
    return f"{rate // 1000}K" if rate % 1000 == 0 else f"{rate:,}"


def _counted(
    study: str, what: str, runs: list[tuple[int, int]], low: int, high: int, *, seeds: bool = True
) -> StudySize:
    paper = f"{low:,} to {high:,} {what}"
    if not runs:
        return StudySize(study, "not run", paper, full=False)
    least, most = min(count for count, _ in runs), max(count for count, _ in runs)
    ran = f"{least:,} {what}" if least == most else f"{least:,} to {most:,} {what}"
    if seeds:
        ran += f", {some(len({seed for _, seed in runs}), 'seed')}"
    return StudySize(study, ran, paper, full=least <= low and most >= high)


def _bursts(tables: Tables) -> StudySize:
    paper = f"{_rates(BURST_RATES)} a minute, {BURST_PUBLICATIONS:,} publications, {BURST_SEEDS} seeds"
    if not tables.bursts:
        return StudySize("bursts", "not run", paper, full=False)
    rates = sorted({row.rate_per_minute for row in tables.bursts})
    seeds = len({row.seed for row in tables.bursts})
    fewest = min(row.publications for row in tables.bursts)
    ran = f"{_rates(rates)} a minute, {fewest:,} publications, {some(seeds, 'seed')}"
    full = set(rates) >= set(BURST_RATES) and fewest >= BURST_PUBLICATIONS and seeds >= BURST_SEEDS
    return StudySize("bursts", ran, paper, full)


def _rates(rates: Iterable[int]) -> str:
    return ", ".join(rate_text(rate) for rate in rates)


def some(count: int, noun: str) -> str:
    """Show a number of things."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
