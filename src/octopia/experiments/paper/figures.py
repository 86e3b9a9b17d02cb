"""The paper's Figs. 7 to 20 from our tables, as PNG and SVG.

A line is the mean over seeds, with a band from the least to the most where there are several seeds. In bursts a line is
the median, and thin lines are the seeds. The same tables give the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.charts import drawing, frame, save
from octopia.experiments.paper import columns
from octopia.experiments.paper.columns import Column
from octopia.experiments.paper.plots import draw_bars, draw_curves, draw_lines
from octopia.experiments.paper.rows import CostRow, Tables
from octopia.experiments.paper.sizes import rate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, slots=True)
class FigureFile:
    """A figure that was drawn; ``note`` is one sentence about what it shows."""

    name: str
    title: str
    png: Path
    svg: Path
    note: str
    by_clock: bool = False
    """True if it shows measurements by a clock, which differ from run to run."""


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
_BURST = "An algorithm has overcome the burst where its line comes down to the floor."
_BURST_FIGURES = {100_000: 17, 80_000: 18, 60_000: 19, 40_000: 20}


def draw_all(tables: Tables, folder: Path) -> list[FigureFile]:
    """Draw every figure whose table is not empty, in the paper's order."""
    with drawing():
        return [*_charts(tables, folder), *_path_selection(tables, folder), *_bursts(tables, folder)]


def _charts(tables: Tables, folder: Path) -> Iterator[FigureFile]:
    for chart in _CHARTS:
        rows = tables.of(chart.column.row_type)
        if rows:
            figure, axes = frame(chart.across, chart.up)
            draw_lines(axes, rows, chart.column)
            name, title = f"fig{chart.number:02}-{chart.name}", f"Fig. {chart.number}: {chart.title}"
            by_clock = chart.column.row_type is CostRow
            yield _saved(figure, axes, folder, name, title, chart.note, by_clock=by_clock)


def _path_selection(tables: Tables, folder: Path) -> Iterator[FigureFile]:
    if tables.costs:
        figure, axes = frame("subscribers", "time at a broker (µs)")
        draw_bars(axes, tables.costs)
        name, title = "fig16-path-selection-delay", "Fig. 16: Path selection delay"
        yield _saved(figure, axes, folder, name, title, _PATHS, by_clock=True)


def _bursts(tables: Tables, folder: Path) -> Iterator[FigureFile]:
    for rate in sorted({row.rate_per_minute for row in tables.sequences}, reverse=True):
        number = _BURST_FIGURES.get(rate)
        title = f"{'Figs. 17-20' if number is None else f'Fig. {number}'}: A burst of {rate_text(rate)} per minute"
        name = f"burst-{rate}-a-minute" if number is None else f"fig{number}-burst-{rate}-a-minute"
        figure, axes = frame("time since the burst began (s)", "maximum delay (s)")
        draw_curves(axes, [row for row in tables.sequences if row.rate_per_minute == rate])
        yield _saved(figure, axes, folder, name, title, _BURST)


def _saved(
    figure: Figure, axes: Axes, folder: Path, name: str, title: str, note: str, *, by_clock: bool = False
) -> FigureFile:
    file = FigureFile(name, title, folder / f"{name}.png", folder / f"{name}.svg", note, by_clock)
    save(figure, axes, title, file.png, file.svg)
    return file
