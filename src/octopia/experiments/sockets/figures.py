"""One figure per case: measured numbers beside predicted ones, a panel per overlay.

Filled marks are measured, open ones predicted. A line through an open mark goes from the least to the most prediction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from octopia.experiments.charts import INK, LOOKS, drawing, save, side_by_side
from octopia.experiments.page import Picture
from octopia.experiments.sockets.cases import ALGORITHMS, CASES, Case, Quantity
from octopia.experiments.sockets.rows import SocketRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = "figures"
_LIFT = 0.24
"""The distance of measured and predicted marks from the middle of a line."""
_STAGGER = 0.14
"""The distance between the marks of two workloads."""
_DECADES_FROM = 20.0


def draw_cases(rows: Sequence[SocketRow], out: Path) -> list[Picture]:
    """Draw every case that was run, as PNG and SVG; the addresses are relative to the folder."""
    (out / FIGURES).mkdir(parents=True, exist_ok=True)
    with drawing():
        return [_draw(case, mine, out) for case in CASES if (mine := [row for row in rows if row.case is case.name])]


def _draw(case: Case, rows: Sequence[SocketRow], out: Path) -> Picture:
    picture = picture_of(case)
    sizes = sorted({row.brokers for row in rows})
    is_share = case.judged_by is Quantity.SHARE
    figure, all_axes = side_by_side(
        [f"{size} brokers" for size in sizes],
        "delivered, % of what live subscribers were owed" if is_share else "delay of deliveries",
    )
    for size, axes in zip(sizes, all_axes, strict=True):
        mine = [row for row in rows if row.brokers == size]
        _mark_shares(axes, mine) if is_share else _mark_delays(axes, mine)
        _name_lines(axes)
    if is_share:
        for axes in all_axes:
            axes.set_xlim(0, 103)
    else:
        _scale_delays(all_axes, rows)
    _add_legend_marks(all_axes[0], is_share=is_share)
    save(figure, all_axes[0], case.title, out / picture.png, out / picture.svg)
    return picture


def picture_of(case: Case) -> Picture:
    """Return the place of a case's figure, and its title and note."""
    note = (
        "The share of deliveries to live subscribers, one mark per run, workloads from top to bottom."
        if case.judged_by is Quantity.SHARE
        else "The mean and the 99th percentile over all deliveries, one mark per run, workloads from top to bottom."
    )
    name = f"sockets-{case.name}"
    lines = "A line shows the least and the most prediction. Measured by the clock."
    return Picture(f"{case.title}, measured and predicted", f"{FIGURES}/{name}.png", f"{FIGURES}/{name}.svg",
                   f"{note} {lines}")  # fmt: skip


def _heights(rows: Sequence[SocketRow]) -> Iterator[tuple[SocketRow, float, float]]:
    """Yield each row with the heights of its measured and its predicted marks: one per workload, first on top."""
    seeds = list(dict.fromkeys(row.seed for row in rows))
    for row in rows:
        middle = ALGORITHMS.index(row.algorithm) + (seeds.index(row.seed) - (len(seeds) - 1) / 2) * _STAGGER
        yield row, middle - _LIFT, middle + _LIFT


def _mark_delays(axes: Axes, rows: Sequence[SocketRow]) -> None:
    for row, up, down in _heights(rows):
        colour = LOOKS[row.algorithm].colour
        _mark(axes, row.delay_ms_mean / 1000, up, "o", colour, is_filled=True)
        _mark(axes, row.delay_ms_p99 / 1000, up, "D", colour, is_filled=True)
        spread_s = row.predicted_delay_ms_least / 1000, row.predicted_delay_ms_most / 1000
        axes.plot(spread_s, (down, down), color=colour, linewidth=1.5, zorder=2)
        _mark(axes, row.predicted_delay_ms_mean / 1000, down, "o", colour, is_filled=False)
        _mark(axes, row.predicted_delay_ms_p99 / 1000, down, "D", colour, is_filled=False)


def _mark_shares(axes: Axes, rows: Sequence[SocketRow]) -> None:
    for row, up, down in _heights(rows):
        colour = LOOKS[row.algorithm].colour
        _mark(axes, 100 * row.share, up, "o", colour, is_filled=True)
        spread = 100 * row.predicted_share_least, 100 * row.predicted_share_most
        axes.plot(spread, (down, down), color=colour, linewidth=1.5, zorder=2)
        _mark(axes, 100 * row.predicted_share, down, "o", colour, is_filled=False)


def _mark(axes: Axes, x: float, y: float, marker: str, colour: str, *, is_filled: bool) -> None:
    size = 5.0 if marker == "o" else 4.2
    # A white edge around a filled mark, which looks as large as an open one, keeps the marks of runs apart.
    edge, edge_colour = (0.6, "white") if is_filled else (1.4, colour)
    axes.plot([x], [y], marker, color=colour if is_filled else "white", markersize=size + 1.8 * is_filled,
              markeredgecolor=edge_colour, markeredgewidth=edge, zorder=3)  # fmt: skip


def _add_legend_marks(axes: Axes, *, is_share: bool) -> None:
    """Add marks without a place, for the legend: colours are named by the lines."""
    names = {"o": "measured"} if is_share else {"o": "mean, measured", "D": "99th percentile, measured"}
    for marker, name in names.items():
        for face, label in ((INK, name), ("white", name.replace("measured", "predicted"))):
            axes.plot([], [], marker, color=INK, markerfacecolor=face, markeredgecolor=INK, label=label,
                      markersize=5.0 if marker == "o" else 4.2)  # fmt: skip


def _name_lines(axes: Axes) -> None:
    axes.set_yticks(range(len(ALGORITHMS)), [LOOKS[each].label for each in ALGORITHMS])
    axes.set_ylim(len(ALGORITHMS) - 0.5, -0.5)
    axes.grid(False, axis="y")
    for between in range(1, len(ALGORITHMS)):
        axes.axhline(between - 0.5, color="#d9dee3", linewidth=0.7)


def _scale_delays(all_axes: Sequence[Axes], rows: Sequence[SocketRow]) -> None:
    """Use a logarithmic axis if delays span more than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    values_s = [value / 1000 for row in rows for value in (row.delay_ms_mean, row.delay_ms_p99,
                row.predicted_delay_ms_least, row.predicted_delay_ms_p99)]  # fmt: skip
    is_log = max(values_s) > _DECADES_FROM * min(values_s)
    for axes in all_axes:
        if is_log:
            axes.set_xscale("log")
            axes.set_xlim(min(values_s) / 1.6, max(values_s) * 1.6)
            axes.xaxis.set_major_locator(LogLocator(subs=(1,)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel(f"{axes.get_xlabel()}, log scale")
        else:
            axes.set_xlim(0, max(values_s) * 1.08)
        axes.xaxis.set_major_formatter(FuncFormatter(_in_units))


def _in_units(delay_s: float, _: int | None = None) -> str:
    return f"{delay_s:g} s" if delay_s >= 1 or not delay_s else f"{1000 * delay_s:g} ms"
