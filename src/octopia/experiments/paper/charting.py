"""How charts are drawn: lines over sizes, bars, and curves over time, with a legend above the data.

The same system or algorithm has the same colour everywhere, from the palette of Okabe and Ito, which colour-blind
people can tell apart; OctopiA is blue and TID is orange, static routing is light and dashed. Matplotlib is imported
only when something is drawn, and without its global state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from octopia.errors import MissingDependency, UsageError
from octopia.experiments.paper.tables import (
    ALGORITHMS,
    DYNAMIC,
    OCTOPIA,
    STATIC,
    SYSTEMS,
    TID,
    TID_DYNAMIC,
    TID_STATIC,
    CostRow,
    Run,
    SequenceRow,
    key_of,
    side_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES = (6.4, 4.0)
_DPI = 200
_INK = "#22303c"
_GRID = "#d9dee3"
_LOG_FROM = 20
"""A logarithmic axis is used where the largest value is this many times the smallest."""

_RC: dict[Any, Any] = {
    "svg.hashsalt": "octopia",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "path.simplify": False,
}


_DASHED = (0, (2.4, 2.0))


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    label: str
    colour: str
    line: Any
    marker: str
    size: float
    order: int
    """Later ones are drawn over earlier ones; dashes leave to be seen what is below them."""


_LOOKS = {
    OCTOPIA: _Look("OctopiA", "#0072B2", "solid", "o", 6.5, 2),
    TID: _Look("TID", "#D55E00", "solid", "s", 6.5, 2),
    STATIC: _Look("SPR, static", "#56B4E9", _DASHED, "^", 4.5, 3),
    DYNAMIC: _Look("IDR, dynamic", "#0072B2", "solid", "o", 6.5, 2),
    TID_STATIC: _Look("TID-S", "#E69F00", _DASHED, "v", 4.5, 3),
    TID_DYNAMIC: _Look("TID-D", "#D55E00", "solid", "s", 6.5, 2),
}


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Draw within this, so that the same data give the same bytes whatever the user has set."""
    try:
        import matplotlib
    except ImportError:
        wanted = 'expected matplotlib for drawing, got none; pip install "octopia[plot]" brings it'
        raise MissingDependency(wanted) from None
    with matplotlib.rc_context(_RC):
        yield


def frame(across: str, up: str) -> tuple[Figure, Axes]:
    """Return empty axes with names."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08)
    figure = Figure(figsize=_INCHES, facecolor="white", layout=layout)
    axes = figure.add_subplot()
    axes.set_xlabel(across, color=_INK)
    axes.set_ylabel(up, color=_INK)
    axes.grid(True, color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    axes.yaxis.set_major_formatter(FuncFormatter(_number))
    return figure, axes


def draw_lines(axes: Axes, rows: Sequence[Run], column: str) -> None:
    """Draw the mean of a column over the size of runs, a line for each side."""
    values: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        values.setdefault(side_of(row), {}).setdefault(key_of(row)[0], []).append(getattr(row, column))
    for side in _in_order(values):
        look, sizes = _LOOKS[side], sorted(values[side])
        found = [values[side][size] for size in sizes]
        axes.plot(sizes, [fmean(each) for each in found], color=look.colour, label=look.label, linestyle=look.line,
                  marker=look.marker, markersize=look.size, linewidth=1.8, zorder=look.order)  # fmt: skip
        if any(len(each) > 1 for each in found):
            lows, highs = [min(each) for each in found], [max(each) for each in found]
            axes.fill_between(sizes, lows, highs, color=look.colour, alpha=0.18, linewidth=0)
    _mark_sizes(axes, sorted({size for sizes in values.values() for size in sizes}))
    _scale_up(axes, [value for sizes in values.values() for each in sizes.values() for value in each])


def draw_bars(axes: Axes, rows: Sequence[CostRow]) -> None:
    """Draw how long selecting paths takes; a mark shows it where no link is congested."""
    sizes = sorted({row.subscribers for row in rows})
    sides = _in_order({side_of(row): None for row in rows})
    width = 0.8 / len(sides)
    free: list[tuple[float, float]] = []
    for number, side in enumerate(sides):
        shift = (number - (len(sides) - 1) / 2) * width
        mine = [(sizes.index(row.subscribers) + shift, row) for row in rows if row.algorithm == side]
        heights = [row.path_selection_us for _, row in mine]
        look = _LOOKS[side]
        axes.bar([x for x, _ in mine], heights, width * 0.92, color=look.colour, label=look.label)
        free += [(x, row.select_us) for x, row in mine if side in (DYNAMIC, TID_DYNAMIC)]
    if free:
        axes.plot([x for x, _ in free], [y for _, y in free], "D", color="white", markeredgecolor=_INK, markersize=4.5,
                  label="no link congested")  # fmt: skip
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.grid(False, axis="x")
    _scale_up(axes, [value for row in rows for value in (row.path_selection_us, row.select_us)])


def draw_curves(axes: Axes, rows: Sequence[SequenceRow]) -> None:
    """Draw the maximum delay over time, a line for each algorithm."""
    for side in _in_order({side_of(row): None for row in rows}):
        look = _LOOKS[side]
        mine = sorted((row for row in rows if row.algorithm == side), key=lambda row: (row.seed, row.sequence))
        seeds = sorted({row.seed for row in mine})
        faint = min(0.4, 3 / len(seeds))
        for seed in seeds if len(seeds) > 1 else []:
            axes.plot(
                *_points([row for row in mine if row.seed == seed]), color=look.colour, linewidth=0.6, alpha=faint
            )
        axes.plot(*_medians(mine), color=look.colour, label=look.label, linestyle=look.line, linewidth=1.8,
                  zorder=look.order)  # fmt: skip
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)


def _points(rows: Sequence[SequenceRow]) -> tuple[list[float], list[float]]:
    return [row.time_ms / 1000 for row in rows], [row.delay_ms_max / 1000 for row in rows]


def _medians(rows: Sequence[SequenceRow]) -> tuple[list[float], list[float]]:
    """Return the median time and delay of each sequence over the seeds."""
    sequences = [[row for row in rows if row.sequence == number] for number in sorted({row.sequence for row in rows})]
    points = [_points(each) for each in sequences]
    return [median(times_s) for times_s, _ in points], [median(delays_s) for _, delays_s in points]


def _in_order(sides: dict[str, Any]) -> list[str]:
    return [side for side in (*SYSTEMS, *ALGORITHMS) if side in sides]


def _mark_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """Put a tick at every size, unless their labels would run into each other."""
    gaps = [after - before for before, after in itertools.pairwise(sizes)]
    if not gaps or min(gaps) >= 0.08 * (sizes[-1] - sizes[0]):
        axes.set_xticks(sizes)


def _scale_up(axes: Axes, values: Sequence[float]) -> None:
    """Start at zero, or use a logarithmic axis where small values could not be seen."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if min(values) > 0 and max(values) / min(values) > _LOG_FROM:
        axes.set_yscale("log")
        axes.set_ylim(bottom=10 ** math.floor(math.log10(min(values))), top=max(values) * 1.5)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(_number))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylabel(f"{axes.get_ylabel()}, log scale")
    else:
        axes.set_ylim(bottom=0, top=max(values) * 1.08 or 1.0)


def _number(value: float, _: int | None = None) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def save(figure: Figure, axes: Axes, title: str, png: Path, svg: Path) -> None:
    """Put title and legend above the axes, where no data are, and write both files."""
    # What the lines are comes first, what other marks mean last.
    named = [look.label for look in _LOOKS.values()]
    entries = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda each: each[1] not in named)
    legend = figure.legend([each[0] for each in entries], [each[1] for each in entries], loc="outside upper left",
                  ncols=max(len(entries), 1), frameon=False, fontsize=9, labelcolor=_INK, columnspacing=1.4,
                  handlelength=2.2, borderpad=0.2, title=title, alignment="left",
                  title_fontproperties={"size": 12, "weight": "bold"})  # fmt: skip
    legend.get_title().set_color(_INK)
    try:
        png.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(png, format="png", dpi=_DPI, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "OctopiA"})
    except OSError as error:
        raise UsageError(f"expected to write a figure to {png.parent}, got: {error.strerror}") from None
