"""The paper's Figs. 7 to 20 from our tables, as PNG and SVG.

A figure has one panel per model under which its study differs, and in bursts one row per kind of host broker. A line is
the mean over seeds, with a band from the least to the most where there are several seeds. In bursts a line is the
median, thin lines are the seeds, and vertical lines are the bounds of ``bounds``. The same tables give the same bytes.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from octopia.experiments.charts import FigureFile, drawing, frame, panels, save_as
from octopia.experiments.paper import columns
from octopia.experiments.paper.columns import Column
from octopia.experiments.paper.names import Model, Scale
from octopia.experiments.paper.plots import (
    draw_bars,
    draw_bounds,
    draw_curves,
    draw_lines,
    draw_recoveries,
    scale_lines,
    start_at_zero,
)
from octopia.experiments.paper.rows import BurstRow, CostRow, PublisherRow, SequenceRow, SubscriberRow, Tables
from octopia.experiments.paper.sizes import rate_text


@dataclasses.dataclass(frozen=True, slots=True)
class _Chart:
    """A line chart of one column over the size of runs."""

    number: int
    name: str
    title: str
    column: Column[Any]
    across: str
    up: str
    note: str


_CHARTS = (
    _Chart(7, "advertisement-delay", "Advertisement delay", columns.ADVERTISEMENT_DELAY_MS, "publishers",
           "delay (ms)", "OctopiA's advertisements cross one link, TID's the whole overlay."),
    _Chart(8, "table-size", "Size of CLTs and SRTs", columns.ADVERTISEMENT_TABLE_SIZE, "publishers",
           "entries per broker, mean", "Tables grow with publishers, OctopiA's 14 times more slowly by design."),
    _Chart(9, "advertisement-messages", "Messages for advertisements", columns.ADVERTISEMENT_MESSAGES, "publishers",
           "messages between brokers", "By design TID sends 217 messages where OctopiA sends 3."),
    _Chart(10, "subscription-delay", "Subscription delay", columns.SUBSCRIPTION_DELAY_MS, "subscribers",
           "delay (ms)", "In the paper OctopiA is below TID by a third."),
    _Chart(11, "prt-size", "Size of PRTs", columns.PRT_SIZE, "subscribers",
           "entries per broker, mean", "In the paper TID is below OctopiA by a third."),
    _Chart(12, "subscription-messages", "Messages for subscriptions", columns.SUBSCRIPTION_MESSAGES, "subscribers",
           "messages between brokers", "In the paper OctopiA is above TID by a third."),
    _Chart(13, "publication-delay", "Publication delay on static paths", columns.PUBLICATION_DELAY_MS, "subscribers",
           "delay (ms)",
           "Static and dynamic routing should coincide; in the paper OctopiA is below TID by a quarter."),
    _Chart(14, "matching-delay", "Matching delay", columns.MATCH_US, "subscribers", "time at a broker (µs)",
           "In the paper OctopiA is a little above TID, and less so with more subscribers."),
    _Chart(15, "publication-messages", "Messages for publications", columns.PUBLICATION_MESSAGES, "subscribers",
           "messages between brokers",
           "In the paper OctopiA is a little below TID, and less so with more subscribers."),
)  # fmt: skip

_PATHS = "Only TID-D should stand out: it searches all stored subscriptions for another path."
_BURST = (
    "An algorithm has overcome the burst where its line comes down to the floor. With several seeds, a thick line is "
    "their median and thin ones are the seeds. Vertical lines are the least times in which links can carry the burst: "
    "over the static paths of SPR, and over any paths."
)
_RECOVERY = (
    "The time from the start of the burst until delays are normal again; a thin line is the spread over seeds. "
    "A run that ends before that is not part of the mean, and its bar has an arrowhead. "
    "Horizontal lines are the least times in which links can carry the burst: over the static paths of SPR, and over "
    "any paths. TID's paths are others, and may be faster than SPR's."
)
_BURST_FIGURES = {100_000: 17, 80_000: 18, 60_000: 19, 40_000: 20}
MAIN = (
    "fig07-advertisement-delay",
    "fig12-subscription-messages",
    "fig13-publication-delay",
    "fig17-burst",
    "recovery",
)
"""The main figures, which the documentation shows."""


def draw_all(tables: Tables, folder: Path) -> list[FigureFile]:
    """Draw every figure whose table is not empty, in the paper's order."""
    with drawing():
        return [
            *_charts(tables, folder),
            *_path_selection(tables, folder),
            *_bursts(tables, folder),
            *_recovery(tables, folder),
        ]


def copy_main(figures: Sequence[FigureFile], folder: Path, scale: Scale) -> None:
    """Copy the pictures of the main figures that were drawn into a folder, named by scale."""
    prefix = "full-size" if scale is Scale.PAPER else "evaluation"
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        if figure.name in MAIN:
            shutil.copyfile(figure.png, folder / f"{prefix}-{figure.name}.png")


def _charts(tables: Tables, folder: Path) -> Iterator[FigureFile]:
    for chart in _CHARTS:
        rows = tables.of(chart.column.row_type)
        if rows:
            models = _models(tables, chart)
            names = [each.value for each in models] if len(models) > 1 else [""]
            figure, (line,) = panels(chart.across, chart.up, names)
            for axes, model in zip(line, models, strict=True):
                draw_lines(axes, tables.under(model).of(chart.column.row_type), chart.column)
            scale_lines(line[0], rows, chart.column)
            name, title = f"fig{chart.number:02}-{chart.name}", f"Fig. {chart.number}: {chart.title}"
            by_clock = chart.column.row_type is CostRow
            yield save_as(figure, line, folder, name, title, chart.note, by_clock=by_clock)


def _models(tables: Tables, chart: _Chart) -> list[Model]:
    """Return the models under which a chart differs; times by the clock do not depend on one."""
    if chart.column.row_type is CostRow:
        return [Model.LINKS]
    same = (Model.BROKER_SENDER,) if chart.column.row_type in (PublisherRow, SubscriberRow) else ()
    return [each for each in tables.models_of(chart.column.row_type) if each not in same]


def _path_selection(tables: Tables, folder: Path) -> Iterator[FigureFile]:
    if tables.costs:
        figure, axes = frame("subscribers", "time at a broker (µs)")
        draw_bars(axes, tables.costs)
        name, title = "fig16-path-selection-delay", "Fig. 16: Path selection delay"
        yield save_as(figure, [axes], folder, name, title, _PATHS, by_clock=True)


def _bursts(tables: Tables, folder: Path) -> Iterator[FigureFile]:
    for rate in sorted({row.rate_per_minute for row in tables.sequences}, reverse=True):
        number = _BURST_FIGURES.get(rate)
        title = f"{'Figs. 17-20' if number is None else f'Fig. {number}'}: A burst of {rate_text(rate)} per minute"
        name = f"burst-{rate}" if number is None else f"fig{number}-burst"
        models = tables.models_of(SequenceRow)
        hosts = tables.hosts
        rows = [f"{each} host" for each in hosts]
        figure, grid = panels("time since the burst began (s)", "maximum delay (s)", [*models], rows)
        for line, host in zip(grid, hosts, strict=True):
            for axes, model in zip(line, models, strict=True):
                here = tables.under(model, host)
                draw_curves(axes, [row for row in here.sequences if row.rate_per_minute == rate])
                draw_bounds(axes, here.bounds_at(rate))
        everywhere = [axes for line in grid for axes in line]
        start_at_zero(everywhere)
        yield save_as(figure, everywhere, folder, name, title, _BURST)


def _recovery(tables: Tables, folder: Path) -> Iterator[FigureFile]:
    rates = {row.rate_per_minute for row in tables.bursts}
    if not rates:
        return
    rate = max(rates)
    groups = {}
    for model in tables.models_of(BurstRow):
        for host in tables.hosts:
            here = tables.under(model, host)
            rows = [row for row in here.bursts if row.rate_per_minute == rate]
            if rows:
                groups[f"{model}\n{host} host"] = rows, here.bounds_at(rate)
    figure, ((axes,),) = panels("", "time until stable (s)", [""])
    figure.set_size_inches(7.6, 3.6)
    draw_recoveries(axes, groups)
    title = f"Time to overcome a burst of {rate_text(rate)} per minute"
    yield save_as(figure, [axes], folder, "recovery", title, _RECOVERY)
