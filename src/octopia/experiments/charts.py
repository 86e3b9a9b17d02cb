"""The look of charts: named axes, a legend above the data, and the same colours everywhere.

A system or algorithm has the same colour in all charts, from the palette of Okabe and Ito, which colour-blind people
can tell apart. OctopiA is blue and TID is orange; static routing is light and dashed. Matplotlib is imported only when
something is drawn, and its global state is not used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.errors import MissingDependency, UsageError
from octopia.settings import Algorithm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# In print, a figure is at most twice as large as here: 3.5 inches for one column of a page and 7.2 for both.
_INCHES = (5.0, 3.4)
_PANEL_INCHES = (4.2, 3.6)
_PANEL = (2.6, 2.2)
_ONE_LINE = 3
"""The most entries of a legend that always stand in one line."""
_LEGEND_ENTRY = 1.6
"""The width of an entry of a legend, in inches."""
_DPI = 200
INK = "#22303c"
_GRID = "#d9dee3"
_LOG_FROM = 20
"""The axis is logarithmic if the largest value is more than this many times the smallest."""

_RC: dict[Any, Any] = {
    "svg.hashsalt": "octopia",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "path.simplify": False,
}
_DASHED = (0, (2.4, 2.0))


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """The label and the style of one system or algorithm."""

    label: str
    colour: str
    line: Any
    marker: str
    size: float
    order: int
    """Higher ones are drawn over lower ones; dashed lines go on top, because they leave visible what is below."""


LOOKS: dict[str, Look] = {
    "OctopiA": Look("OctopiA", "#0072B2", "solid", "o", 6.5, 2),
    "TID": Look("TID", "#D55E00", "solid", "s", 6.5, 2),
    Algorithm.STATIC: Look("SPR, static", "#56B4E9", _DASHED, "^", 4.5, 3),
    Algorithm.DYNAMIC: Look("IDR, dynamic", "#0072B2", "solid", "o", 6.5, 2),
    Algorithm.ADAPTIVE: Look("adaptive", "#009E73", (0, (4.0, 1.5)), "D", 4.0, 4),
    Algorithm.TID_STATIC: Look("TID-S", "#E69F00", _DASHED, "v", 4.5, 3),
    Algorithm.TID_DYNAMIC: Look("TID-D", "#D55E00", "solid", "s", 6.5, 2),
    "tid-dynamic-per-hop": Look("TID-D, one copy per hop", "#CC79A7", (0, (5.0, 1.5, 1.2, 1.5)), "P", 5.0, 4),
}


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

    def addresses(self, folder: Path) -> tuple[str, str]:
        """Return the places of both files as a page in the folder links to them."""
        png, svg = (Path(os.path.relpath(each, folder)).as_posix() for each in (self.png, self.svg))
        return png, svg


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Draw within this block, so that the same data give the same bytes under any user settings."""
    try:
        import matplotlib
    except ImportError:
        wanted = 'expected matplotlib for drawing, got none: pip install ".[plot]" in the checkout'
        raise MissingDependency(wanted) from None
    with matplotlib.rc_context(_RC):
        yield


def frame(across: str, up: str) -> tuple[Figure, Axes]:
    """Return a figure with empty, named axes."""
    figure = _figure(_INCHES)
    axes = figure.add_subplot()
    _style(axes, across)
    axes.set_ylabel(up, color=INK)
    _count(axes)
    return figure, axes


def panels(
    across: str, up: str, columns: Sequence[str], rows: Sequence[str] = ("",)
) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure with a grid of empty axes that share their scales, row by row; each column has a name."""
    figure = _figure((max(_INCHES[0], _PANEL[0] * len(columns)), 1.2 + _PANEL[1] * len(rows)))
    grid: list[list[Axes]] = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False).tolist()
    for line, name in zip(grid, rows, strict=True):
        line[0].set_ylabel(f"{name}\n{up}" if name else up, color=INK)
        for axes in line:
            _style(axes, "")
            _count(axes, 8 if len(columns) == 1 else 5)
    for axes, name in zip(grid[0], columns, strict=True):
        axes.set_title(name, fontsize=10, color=INK)
    for axes in grid[-1]:
        axes.set_xlabel(across, color=INK)
    return figure, grid


def _count(axes: Axes, most: int = 8) -> None:
    """Let both axes show plain numbers, and the horizontal one whole ones, in a number of steps that fits its width."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=most, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    axes.yaxis.set_major_formatter(FuncFormatter(_number))


def side_by_side(titles: Sequence[str], across: str) -> tuple[Figure, list[Axes]]:
    """Return a figure with empty axes side by side, one for each title, with the same lines."""
    figure = _figure((_PANEL_INCHES[0] * max(len(titles), 1.5), _PANEL_INCHES[1]))
    found: list[Axes] = list(figure.subplots(1, len(titles), sharey=True, squeeze=False)[0])
    for title, axes in zip(titles, found, strict=True):
        _style(axes, across)
        axes.set_title(title, fontsize=10, color=INK)
    return figure, found


def _figure(inches: tuple[float, float]) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    return Figure(figsize=inches, facecolor="white", layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))


def _style(axes: Axes, across: str) -> None:
    axes.set_xlabel(across, color=INK)
    axes.grid(True, color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)


def scale_up(axes: Axes, values: Sequence[float]) -> None:
    """Start the axis at zero, or make it logarithmic where small values would be invisible."""
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


def save_as(
    figure: Figure, axes: Sequence[Axes], folder: Path, name: str, title: str, note: str, *, by_clock: bool = False
) -> FigureFile:
    """Write a figure into a folder under its name, and return its files."""
    file = FigureFile(name, title, folder / f"{name}.png", folder / f"{name}.svg", note, by_clock)
    save(figure, axes, title, file.png, file.svg)
    return file


def save(figure: Figure, axes: Axes | Sequence[Axes], title: str, png: Path, svg: Path) -> None:
    """Put title and legend above the axes, and write both files."""
    # Lines come first in the legend, other marks last; panels share their entries.
    order = [look.label for look in LOOKS.values()]
    labelled: dict[str, Any] = {}
    for each in axes if isinstance(axes, Sequence) else [axes]:
        for handle, label in zip(*each.get_legend_handles_labels(), strict=True):
            labelled.setdefault(label, handle)
    entries = sorted(labelled.items(), key=lambda each: order.index(each[0]) if each[0] in order else len(order))
    widest = max(1, int(figure.get_figwidth() / _LEGEND_ENTRY)) if len(entries) > _ONE_LINE else len(entries)
    legend = figure.legend([each[1] for each in entries], [each[0] for each in entries], loc="outside upper left",
                  ncols=max(widest, 1), frameon=False, fontsize=9, labelcolor=INK, columnspacing=1.4,
                  handlelength=2.2, borderpad=0.2, title=title, alignment="left",
                  title_fontproperties={"size": 11, "weight": "bold"})  # fmt: skip
    legend.get_title().set_color(INK)
    try:
        png.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(png, format="png", dpi=_DPI, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "OctopiA"})
    except OSError as error:
        raise UsageError(f"expected to write a figure to {png.parent}, got: {error.strerror}") from None
