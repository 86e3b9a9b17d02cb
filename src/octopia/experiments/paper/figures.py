"""The paper's Figs. 7 to 20 from our tables, as PNG and SVG.

Lines are means over seeds, with a band from the least to the most where there are several; in bursts a line is the
median, and thin lines are the seeds. The same tables give the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from octopia.experiments.charts import drawing, frame, save
from octopia.experiments.paper.plots import draw_bars, draw_curves, draw_lines
from octopia.experiments.paper.rows import Run, Tables
from octopia.experiments.paper.sizes import rate_text


@dataclasses.dataclass(frozen=True, slots=True)
class FigureFile:
    """A figure that was drawn; ``note`` is one sentence on what to see in it."""

    name: str
    title: str
    png: Path
    svg: Path
    note: str
    by_clock: bool = False
    """Whether it shows what a clock measured, and so is never twice the same."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Chart:
    """A line chart of one column over the size of runs."""

    number: int
    name: str
    title: str
    study: str
    column: str
    across: str
    up: str
    note: str


_CHARTS = (
    _Chart(7, "advertisement-delay", "Advertisement delay", "publishers", "advertisement_delay_ms", "publishers",
           "delay (ms)", "OctopiA's advertisements cross one link, TID's the whole overlay."),
    _Chart(8, "table-size", "Size of CLTs and SRTs", "publishers", "table_size_mean", "publishers",
           "entries a broker, mean", "Tables grow with publishers, OctopiA's 14 times more slowly by design."),
    _Chart(9, "advertisement-messages", "Messages for advertisements", "publishers", "advertisement_messages",
           "publishers", "messages between brokers", "By design TID sends 217 messages where OctopiA sends 3."),
    _Chart(10, "subscription-delay", "Subscription delay", "subscribers", "subscription_delay_ms", "subscribers",
           "delay (ms)", "The paper has OctopiA below TID by a third."),
    _Chart(11, "prt-size", "Size of PRTs", "subscribers", "prt_size_mean", "subscribers",
           "entries a broker, mean", "The paper has TID below OctopiA by a third."),
    _Chart(12, "subscription-messages", "Messages for subscriptions", "subscribers", "subscription_messages",
           "subscribers", "messages between brokers", "The paper has OctopiA above TID by a third."),
    _Chart(13, "publication-delay", "Publication delay on static paths", "delivery", "publication_delay_ms",
           "subscribers", "delay (ms)",
           "Static and dynamic routing should lie on each other; the paper has OctopiA below TID by a quarter."),
    _Chart(14, "matching-delay", "Matching delay", "costs", "match_us", "subscribers", "time at a broker (µs)",
           "The paper has OctopiA a little above TID, and less so with more subscribers."),
    _Chart(15, "publication-messages", "Messages for publications", "delivery", "publication_messages", "subscribers",
           "messages between brokers", "The paper has OctopiA a little below TID, and less so with more subscribers."),
)  # fmt: skip

_PATHS = "Only TID-D should stand out: it searches all stored subscriptions for another path."
_BURST = "Where a line comes down to the floor, that algorithm has overcome the burst."
_BURST_FIGURES = {100_000: 17, 80_000: 18, 60_000: 19, 40_000: 20}


def draw_all(tables: Tables, folder: Path) -> list[FigureFile]:
    """Draw every figure whose table is not empty, in the paper's order."""
    with drawing():
        return [*_charts(tables, folder), *_path_selection(tables, folder), *_bursts(tables, folder)]


def _charts(tables: Tables, folder: Path) -> list[FigureFile]:
    drawn = []
    for chart in _CHARTS:
        rows: Sequence[Run] = getattr(tables, chart.study)
        if rows:
            figure, axes = frame(chart.across, chart.up)
            draw_lines(axes, rows, chart.column)
            file = _file(
                folder, f"fig{chart.number:02}-{chart.name}", f"Fig. {chart.number}: {chart.title}", chart.note
            )
            drawn.append(dataclasses.replace(file, by_clock=chart.study == "costs"))
            save(figure, axes, drawn[-1].title, drawn[-1].png, drawn[-1].svg)
    return drawn


def _path_selection(tables: Tables, folder: Path) -> list[FigureFile]:
    if not tables.costs:
        return []
    title = "Fig. 16: Path selection delay"
    figure, axes = frame("subscribers", "time at a broker (µs)")
    draw_bars(axes, tables.costs)
    file = dataclasses.replace(_file(folder, "fig16-path-selection-delay", title, _PATHS), by_clock=True)
    save(figure, axes, title, file.png, file.svg)
    return [file]


def _bursts(tables: Tables, folder: Path) -> list[FigureFile]:
    drawn = []
    for rate in sorted({row.rate_per_minute for row in tables.sequences}, reverse=True):
        number = _BURST_FIGURES.get(rate)
        title = f"{'Figs. 17-20' if number is None else f'Fig. {number}'}: A burst of {rate_text(rate)} a minute"
        figure, axes = frame("time since the burst began (s)", "maximum delay (s)")
        draw_curves(axes, [row for row in tables.sequences if row.rate_per_minute == rate])
        name = f"burst-{rate}-a-minute" if number is None else f"fig{number}-burst-{rate}-a-minute"
        drawn.append(_file(folder, name, title, _BURST))
        save(figure, axes, drawn[-1].title, drawn[-1].png, drawn[-1].svg)
    return drawn


def _file(folder: Path, name: str, title: str, note: str) -> FigureFile:
    return FigureFile(name, title, folder / f"{name}.png", folder / f"{name}.svg", note)
