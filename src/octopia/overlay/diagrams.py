"""Diagrams of an overlay in the style of the paper's Fig. 3: clusters are rows, regions are columns.

aLinks are solid and iLinks dashed. A link that would cross a third broker is bent around it. Drawn with matplotlib,
which is imported only when a diagram is drawn. The same overlay gives the same bytes of SVG.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.overlay.column_order import column_order
from octopia.overlay.scot import Link, Scot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_BROKERS_DRAWN = 1_000
"""Larger diagrams would be illegible and take too long."""

_FORMATS = (".svg", ".png")
_PIXELS_PER_INCH = 150
_MOST_PIXELS = 60_000  # per side; the limit of the renderer is 65,535

# Lengths are in inches, also on the axes, so that circles are round at every size.
_COLUMN = 1.05
_ROW = 1.15
_RADIUS = 0.22
_MARGIN = 0.62
_LEGEND = 0.38
_LEGEND_ROW = 0.27

_TINTS = ("#e8f0fa", "#e9f5e9", "#fdf2e2", "#f6ebf5", "#fbeaea", "#e6f4f4")
_FILLS = ("#bcd3ee", "#bfe0bf", "#f7d7a4", "#e0c3de", "#f0c0c0", "#b5dcdc")
_INK = "#22303c"
_FAINT = "#5d6b78"
_HIGHLIGHT = "#d1351f"

_RC: dict[Any, Any] = {
    "svg.hashsalt": "octopia",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "path.simplify": False,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Callouts:
    """Labels of highlighted links, highlighted and dead brokers, and the legend entries of all."""

    links: Mapping[Link, str] = dataclasses.field(default_factory=dict)
    links_are: str = "highlighted links"
    brokers: Collection[BrokerId] = ()
    brokers_are: str = "highlighted brokers"
    dead: Collection[BrokerId] = ()
    dead_are: str = "dead brokers"


def draw(
    scot: Scot, path: Path, *, highlight: Collection[Link] = (), title: str = "", callouts: Callouts | None = None
) -> None:
    """Write a diagram of the overlay as .svg or .png; ``highlight`` lists links in either direction."""
    callouts = callouts or Callouts()
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise UsageError(f"expected a file name that ends in {' or '.join(_FORMATS)}, got {path.name}")
    if len(scot.brokers) > MOST_BROKERS_DRAWN:
        raise UsageError(f"expected at most {MOST_BROKERS_DRAWN} brokers in a diagram, got {len(scot.brokers)}")
    texts = {(min(link), max(link)): text for link, text in callouts.links.items()}
    marked = [*((min(link), max(link)) for link in highlight), *texts]
    for link in marked:
        scot.link_kind(*link)
    callouts = dataclasses.replace(
        callouts,
        links=texts,
        brokers=[scot.broker(each) for each in callouts.brokers],
        dead=[scot.broker(each) for each in callouts.dead],
    )
    try:
        import matplotlib
    except ImportError:
        raise UsageError('expected matplotlib for drawing, got none: pip install ".[plot]" in the checkout') from None
    with matplotlib.rc_context(_RC):
        figure = _figure(_Grid.of(scot), marked, title, callouts)
        _save(figure, path, suffix)


@dataclasses.dataclass(frozen=True, slots=True)
class _Grid:
    """The positions of brokers: x by region, y by cluster, cluster 0 on top."""

    scot: Scot
    columns: dict[str, int]
    half_width: float
    """Of a broker; more than its half height if names are long."""

    @classmethod
    def of(cls, scot: Scot) -> _Grid:
        columns = {region: number for number, region in enumerate(column_order(scot.tree))}
        longest = max(len(str(broker)) for broker in scot.brokers)
        return cls(scot, columns, max(_RADIUS, 0.05 * longest))

    @property
    def column(self) -> float:
        return _COLUMN + 2 * (self.half_width - _RADIUS)

    @property
    def margin(self) -> float:
        return _MARGIN + self.half_width - _RADIUS

    def at(self, broker: BrokerId) -> tuple[float, float]:
        return self.columns[broker.region] * self.column, -broker.cluster * _ROW

    def span(self, link: Link) -> int:
        """Return the number of columns or rows that a link crosses; 1 if its ends are adjacent."""
        one, other = link
        return abs(self.columns[one.region] - self.columns[other.region]) + abs(one.cluster - other.cluster)

    @property
    def right(self) -> float:
        return (len(self.columns) - 1) * self.column

    @property
    def bottom(self) -> float:
        return -(self.scot.clusters - 1) * _ROW


def _figure(grid: _Grid, marked: list[Link], title: str, callouts: Callouts) -> Figure:
    from matplotlib.figure import Figure

    below = _legend_below(callouts)
    widest = max((0.7 + 0.075 * len(text) for text in below), default=0.0)
    legend = _LEGEND + _LEGEND_ROW * len(below)
    left = -grid.margin
    right = max(grid.right + grid.margin + 0.35, 5.25 if marked and not below else 3.6, left + widest)
    bottom, top = grid.bottom - _MARGIN - 0.3 - legend, _MARGIN + (0.35 if title else 0.0)
    figure = Figure(figsize=(right - left, top - bottom), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_axis_off()
    _draw_rows(axes, grid)
    _draw_columns(axes, grid)
    for link in grid.scot.alinks:
        _draw_alink(axes, grid, link, link in marked)
    for link in grid.scot.ilinks:
        _draw_ilink(axes, grid, link, link in marked)
    for broker in grid.scot.brokers:
        _draw_broker(axes, grid, broker, broker in callouts.brokers)
    for broker in callouts.dead:
        _draw_cross(axes, *grid.at(broker))
    for link, text in callouts.links.items():
        _draw_text(axes, grid, link, text)
    _draw_legend(axes, left + 0.2, bottom + legend - _LEGEND + 0.24, highlighted=bool(marked) and not below)
    for number, (text, mark) in enumerate(reversed(below.items())):
        _draw_legend_below(axes, left + 0.2, bottom + 0.24 + _LEGEND_ROW * number, text, mark)
    if title:
        _draw_title(axes, left + 0.14, top - 0.2, title, room=right - left)
    return figure


def _draw_title(axes: Axes, x: float, y: float, title: str, *, room: float) -> None:
    fitting = int(room / 0.13)
    shown = title if len(title) <= fitting else title[: fitting - 1] + "…"
    # A dollar sign in a name does not start a formula.
    axes.text(x, y, shown, ha="left", va="center", fontsize=12, color=_INK, weight="bold", parse_math=False)


def _draw_rows(axes: Axes, grid: _Grid) -> None:
    from matplotlib.patches import Rectangle

    for cluster in range(grid.scot.clusters):
        low = -cluster * _ROW - _ROW / 2
        width = grid.right + 2 * (grid.margin - 0.14)
        tint = _TINTS[cluster % len(_TINTS)]
        axes.add_patch(
            Rectangle((-grid.margin + 0.14, low), width, _ROW, facecolor=tint, edgecolor="white", lw=1.5, zorder=0)
        )
        axes.text(
            grid.right + grid.margin + 0.08,
            -cluster * _ROW,
            f"$C_{{{cluster}}}$",
            ha="center",
            va="center",
            fontsize=13,
            color=_INK,
        )


def _draw_columns(axes: Axes, grid: _Grid) -> None:
    for region in grid.columns:
        x, _ = grid.at(BrokerId(region, 0))
        label = region.replace("_", r"\_")
        axes.text(
            x, grid.bottom - _ROW / 2 - 0.2, f"$R_{{{label}}}$", ha="center", va="center", fontsize=13, color=_INK
        )


def _draw_alink(axes: Axes, grid: _Grid, link: Link, marked: bool) -> None:
    start, end = sorted(grid.at(end) for end in link)
    _draw_curve(axes, start, end, _alink_bulge(grid, link), marked, dashed=False)


def _alink_bulge(grid: _Grid, link: Link) -> tuple[float, float]:
    """Return how far an aLink bends upwards: more the longer it is, but never into the row above."""
    span = grid.span(link)
    return 0.0, 0.0 if span == 1 else min(0.34 + 0.035 * (span - 2), _ROW / 2 - 0.04)


def _draw_ilink(axes: Axes, grid: _Grid, link: Link, marked: bool) -> None:
    low, high = link
    _draw_curve(axes, grid.at(low), grid.at(high), _ilink_bulge(grid, link), marked, dashed=True)


def _ilink_bulge(grid: _Grid, link: Link) -> tuple[float, float]:
    """Return how far an iLink bends sideways: left and right alternately, so that iLinks do not overlap."""
    low, high = link
    span = high.cluster - low.cluster
    width = 0.0 if span == 1 else min(grid.half_width + 0.09 + 0.13 * (span - 2), grid.column / 2 - 0.03)
    return (-1.0 if low.cluster % 2 == 0 else 1.0) * width, 0.0


def _draw_text(axes: Axes, grid: _Grid, link: Link, text: str) -> None:
    """Write a label next to a link: above an aLink, or beyond the bend of an iLink, between two rows."""
    one, other = link
    (x0, y0), (x1, y1) = grid.at(one), grid.at(other)
    is_ilink = one.region == other.region
    dx, dy = _ilink_bulge(grid, link) if is_ilink else _alink_bulge(grid, link)
    x, y = (x0 + x1) / 2 + dx, (y0 + y1) / 2 + dy
    side = "center"
    if is_ilink:
        side = "right" if dx < 0 else "left"
        x += -0.06 if dx < 0 else 0.06
        y += _ROW / 2 if grid.span(link) % 2 == 0 else 0.0
    else:
        y += 0.14
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    axes.text(x, y, text, ha=side, va="center", fontsize=9, color=_HIGHLIGHT, weight="bold", bbox=box, zorder=5)


def _draw_curve(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    bulge: tuple[float, float],
    marked: bool,
    *,
    dashed: bool,
) -> None:
    """Draw a cubic curve whose middle is ``bulge`` away from the straight line."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    # A cubic reaches three quarters of the way to its control points.
    dx, dy = bulge[0] / 0.75, bulge[1] / 0.75
    along = 0.22
    first = (start[0] + along * (end[0] - start[0]) + dx, start[1] + along * (end[1] - start[1]) + dy)
    second = (end[0] - along * (end[0] - start[0]) + dx, end[1] - along * (end[1] - start[1]) + dy)
    codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
    axes.add_patch(
        PathPatch(
            Curve([start, first, second, end], codes),
            facecolor="none",
            edgecolor=_HIGHLIGHT if marked else (_FAINT if dashed else _INK),
            linewidth=2.6 if marked else (1.0 if dashed else 1.4),
            linestyle=(0, (4, 2.5)) if dashed else "solid",
            capstyle="butt",
            zorder=2 if marked else 1,
        )
    )


def _draw_broker(axes: Axes, grid: _Grid, broker: BrokerId, marked: bool) -> None:
    from matplotlib.patches import Ellipse

    fill = _INK if marked else _FILLS[broker.cluster % len(_FILLS)]
    size = (2 * grid.half_width, 2 * _RADIUS)
    axes.add_patch(Ellipse(grid.at(broker), *size, facecolor=fill, edgecolor=_INK, linewidth=1.2, zorder=3))
    colour, weight = ("white", "bold") if marked else (_INK, "normal")
    axes.text(
        *grid.at(broker), str(broker), ha="center", va="center", fontsize=9, color=colour, weight=weight, zorder=4
    )


def _draw_cross(axes: Axes, x: float, y: float, reach: float = 1.25 * _RADIUS) -> None:
    for slope in (-1.0, 1.0):
        ends = [x - reach, x + reach], [y - slope * reach, y + slope * reach]
        axes.plot(*ends, color=_HIGHLIGHT, linewidth=2.6, solid_capstyle="round", zorder=3.5)


def _draw_legend(axes: Axes, x: float, y: float, *, highlighted: bool) -> None:
    entries = [("aLink (within a cluster)", _INK, "solid", 1.4), ("iLink (within a region)", _FAINT, "dashed", 1.0)]
    if highlighted:
        entries.append(("highlighted", _HIGHLIGHT, "solid", 2.6))
    for label, colour, style, width in entries:
        axes.plot([x, x + 0.4], [y, y], color=colour, linestyle=style, linewidth=width)
        axes.text(x + 0.48, y, label, ha="left", va="center", fontsize=8.5, color=_INK)
        x += 2.15


class _Mark(enum.Enum):
    """The marks of callouts in the legend."""

    LINK = enum.auto()
    BROKER = enum.auto()
    DEAD = enum.auto()


def _legend_below(callouts: Callouts) -> dict[str, _Mark]:
    """Return the rows below the legend, each with its mark."""
    entries = {}
    if callouts.links:
        entries[callouts.links_are] = _Mark.LINK
    if callouts.brokers:
        entries[callouts.brokers_are] = _Mark.BROKER
    if callouts.dead:
        entries[callouts.dead_are] = _Mark.DEAD
    return entries


def _draw_legend_below(axes: Axes, x: float, y: float, text: str, mark: _Mark) -> None:
    match mark:
        case _Mark.LINK:
            axes.plot([x, x + 0.4], [y, y], color=_HIGHLIGHT, linestyle="solid", linewidth=2.6)
        case _Mark.BROKER:
            axes.plot([x + 0.2], [y], marker="o", markersize=9, color=_INK)
        case _Mark.DEAD:
            _draw_cross(axes, x + 0.2, y, reach=0.08)
    axes.text(x + 0.48, y, text, ha="left", va="center", fontsize=8.5, color=_INK)


def _save(figure: Figure, path: Path, suffix: str) -> None:
    try:
        if suffix == ".svg":
            figure.savefig(path, format="svg", metadata={"Date": None, "Creator": "OctopiA"})
        else:
            dpi = min(_PIXELS_PER_INCH, int(_MOST_PIXELS / max(figure.get_size_inches())))
            figure.savefig(path, format="png", dpi=dpi, metadata={"Software": "OctopiA"})
    except OSError as error:
        raise UsageError(f"expected to write a diagram to {path}, got: {error.strerror}") from None
