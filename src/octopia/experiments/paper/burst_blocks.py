"""Bursts in the report: the times until they are overcome, with their bounds, and the load of links before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from octopia.experiments.charts import LOOKS
from octopia.experiments.page import Block, Cell, Grid, Heading, Paragraph, capital, cells
from octopia.experiments.paper.names import Contender, Model
from octopia.experiments.paper.plots import BOUNDS
from octopia.experiments.paper.prose import ON_BOUNDS
from octopia.experiments.paper.rows import BurstRow, LoadRow, Tables
from octopia.experiments.paper.sizes import some
from octopia.pipeline.spec import HostKind


def recovery_blocks(tables: Tables) -> Iterator[Block]:
    """Yield the times until bursts are overcome, with the bounds and the delays."""
    yield Heading("Adaptive routing and the bounds")
    yield Paragraph(ON_BOUNDS)
    if not tables.bursts:
        yield Paragraph("Not run.")
        return
    settings = [(model, host) for model in tables.models_of(BurstRow) for host in tables.hosts]
    rates = sorted({row.rate_per_minute for row in tables.bursts}, reverse=True)
    yield Paragraph("Time until a run is stable: the mean, with the minimum and the maximum over several seeds.")
    yield _stable_grid([(rate, setting) for rate in rates for setting in settings], tables)
    yield Paragraph("The same with delays. Burst over after is the last delivery of the burst above one second.")
    rows = [
        line
        for rate in rates
        for model, host in settings
        for line in _recovery_rows(tables.under(model, host), rate, f"{model}, {host} host")
    ]
    header = ("Rate per minute", "Model", "Algorithm", "Stable after", "Burst over after", "Mean delay, all",
              "Mean delay, burst", "Mean delay, ordinary", "Within 1 s: publications, deliveries, burst")  # fmt: skip
    yield Grid(header, rows)


def _stable_grid(keys: Sequence[tuple[int, tuple[Model, HostKind]]], tables: Tables) -> Grid:
    """Return one line per rate, model and kind of host broker, with one column per algorithm."""
    contenders = [each for each in Contender if any(row.algorithm == each for row in tables.bursts)]
    rows = []
    for rate, (model, host) in keys:
        here = tables.under(model, host)
        mine = [row for row in here.bursts if row.rate_per_minute == rate]
        bounds = here.bounds_at(rate)
        stable_ms = [[row.stable_ms for row in mine if row.algorithm == each] for each in contenders]
        seeds = len({row.seed for row in mine})
        found = [_range_s(each) + ("" if len(each) == seeds else f", {some(len(each), 'seed')}") if each else ""
                 for each in stable_ms]  # fmt: skip
        limits = [_range_s([bound.value(row) for row in bounds]) if bounds else "" for bound in BOUNDS]
        if mine:
            rows.append(cells(rate, model, host, seeds, *found, *limits))
    labels = [LOOKS[each].label for each in contenders]
    return Grid(("Rate", "Model", "Host", "Seeds", *labels, *(capital(bound.name) for bound in BOUNDS)), rows)


def _recovery_rows(tables: Tables, rate: int, setting: str) -> Iterator[list[Cell]]:
    for contender in Contender:
        rows = [row for row in tables.bursts if row.rate_per_minute == rate and row.algorithm == contender]
        if rows:
            stable_ms = [row.stable_ms for row in rows]
            yield cells(
                rate,
                setting,
                LOOKS[contender].label,
                _range_s(stable_ms),
                _range_s([row.burst_late_ms for row in rows]),
                _range_s([row.publication_delay_ms for row in rows]),
                _range_s([row.burst_delay_ms for row in rows]),
                _range_s([row.ordinary_delay_ms for row in rows]),
                f"{fmean(row.publications_below_1s for row in rows):.1%}, "
                f"{fmean(row.share_below_1s for row in rows):.1%}, "
                f"{fmean(row.burst_share_below_1s for row in rows):.1%}",
            )
    bounds = tables.bounds_at(rate)
    for bound in BOUNDS if bounds else ():
        yield cells(rate, setting, bound.name, _range_s([bound.value(row) for row in bounds]), "", "", "", "", "")


def _range_s(values_ms: Sequence[float | None]) -> str:
    """Return times in seconds: one, or the mean with the least and the most over the seeds."""
    known = [value / 1000 for value in values_ms if value is not None]
    if not known:
        return "never"
    if all(value == 0 for value in values_ms):
        return "never above 1 s"
    digits = 0 if max(known) >= 100 else 1 if max(known) >= 20 else 2
    mean = f"{fmean(known):.{digits}f} s"
    spread = f" ({min(known):.{digits}f} to {max(known):.{digits}f})" if len(known) > 1 else ""
    return mean + spread + ("" if len(known) == len(values_ms) else f", {len(values_ms) - len(known)} never")


def load_blocks(rows: Sequence[LoadRow]) -> Iterator[Block]:
    """Yield the load of the busiest links before a burst."""
    yield Heading("Ordinary load of links")
    if not rows:
        yield Paragraph("Not run.")
        return
    yield Paragraph(
        "Publications per second on the busiest links before a burst, in a run without congestion. TID's trees use "
        "iLinks where OctopiA uses aLinks, and so spread the same traffic over more links. This leaves their busiest "
        "link more room for a burst."
    )
    yield Grid(
        ("Model", "System", "Seed", "Publications", "Busiest aLink", "Busiest iLink", "Copies over iLinks"),
        [
            cells(row.model, row.system, row.seed, row.publications, f"{row.alink_per_s_max:.0f} per second",
                  f"{row.ilink_per_s_max:.0f} per second", f"{row.ilink_share:.1%}")
            for row in rows
        ],
    )  # fmt: skip
