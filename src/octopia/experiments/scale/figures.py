"""The figures of the study, as PNG and SVG: logarithmic axes, filled marks for runs, hollow ones for formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from octopia.experiments.charts import INK, LOOKS, FigureFile, Look, drawing, frame, save_as
from octopia.experiments.scale.names import Fault, Series, Source, System
from octopia.experiments.scale.rows import FailureRow, GrowthRow, MemoryRow, Tables
from octopia.settings import Algorithm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINEAR_MAX, _FEW_TICKS_FROM = 8, 300
"""The ratios of the largest to the smallest value up to which an axis is linear, and from which it has few ticks."""

_FLOOD = Look("flood", "#8a8f94", (0, (1, 1.6)), "x", 5.5, 1)
_Point = tuple[float, float, Source]
_LOST = dataclasses.replace(LOOKS[Algorithm.TID_STATIC], label="TID-S, entries lost")


@dataclasses.dataclass(frozen=True, slots=True)
class _Chart:
    """A chart of one quantity over one series."""

    name: str
    title: str
    series: Series
    across: str
    x: Callable[[GrowthRow], float]
    up: str
    y: Callable[[GrowthRow], float | None]
    note: str


_CHARTS = (
    _Chart("subscription-messages", "Messages per subscription, more regions", Series.REGIONS, "brokers",
           lambda row: row.brokers, "messages per subscription", lambda row: row.messages_per_subscription,
           "OctopiA: one to each other broker of the cluster, r - 1. TID: the distance to each of four publishers. "
           "Trees are binary."),
    _Chart("advertisement-messages", "Messages per advertisement, more clusters", Series.CLUSTERS, "clusters",
           lambda row: row.clusters, "messages per advertisement", lambda row: row.messages_per_advertisement,
           "OctopiA: k - 1. TID floods: twice the links, less the brokers."),
    _Chart("publication-messages", "Messages per publication, more regions", Series.REGIONS, "brokers",
           lambda row: row.brokers, "messages per publication", lambda row: row.messages_per_publication,
           "Twenty subscriptions want each publication, wherever they are; a flood visits every broker. Trees are "
           "binary."),
    _Chart("publication-messages-clusters", "Messages per publication, more clusters", Series.CLUSTERS,
           "clusters", lambda row: row.clusters, "messages per publication",
           lambda row: row.messages_per_publication,
           "With more clusters than interested ones, OctopiA enters clusters that want nothing of it."),
    _Chart("prt-size", "Size of PRTs, more subscriptions", Series.SUBSCRIPTIONS, "subscriptions",
           lambda row: row.subscriptions, "entries per broker, mean", lambda row: row.subscription_entries,
           "Every broker of a cluster stores all its subscriptions; under a flood, only the host broker does."),
    _Chart("prt-size-regions", "Size of PRTs, more regions", Series.REGIONS, "brokers",
           lambda row: row.brokers, "entries per broker, mean", lambda row: row.subscription_entries,
           "More brokers do not make OctopiA's tables smaller: the subscriptions of a cluster are at all its brokers."),
    _Chart("busiest-link", "Copies on the busiest link, more clusters", Series.CLUSTERS, "clusters",
           lambda row: row.clusters, "copies per publication", lambda row: row.busiest_link,
           "The link with this share limits the rate of the whole overlay; a flood is drawn at its bound of one."),
    _Chart("delay", "Delay at 100 publications per second, more regions", Series.REGIONS, "brokers",
           lambda row: row.brokers, "mean delay (ms)", lambda row: row.delay_ms,
           "Paths grow with the diameter of the tree, and all systems have shortest paths. A flood is drawn idle."),
    _Chart("publishers-per-subscription", "Messages per subscription, more publishers", Series.PUBLISHERS,
           "publishers that a subscription matches", lambda row: row.publishers_per_symbol,
           "messages per subscription", lambda row: row.messages_per_subscription,
           "TID pays for each publisher that a subscription matches, OctopiA only once."),
)  # fmt: skip


def draw_all(tables: Tables, folder: Path) -> list[FigureFile]:
    """Draw every figure that has rows."""
    with drawing():
        return [*_growth(tables.growth, folder), *_failures(tables.failures, folder), *_memory(tables.memory, folder)]


def _growth(rows: Sequence[GrowthRow], folder: Path) -> Iterator[FigureFile]:
    for chart in _CHARTS:
        mine = [row for row in rows if row.series is chart.series and (chart.y(row) or 0) > 0]
        if mine:
            figure, axes = frame(chart.across, chart.up)
            lines = {
                _look(system): sorted(
                    (chart.x(row), chart.y(row) or 0.0, row.source)
                    for row in mine
                    if row.system is system and _is_of_line(row, mine)
                )
                for system in System
            }
            _lines(axes, lines)
            _scale(axes, [chart.x(row) for row in mine], [chart.y(row) or 0.0 for row in mine])
            yield save_as(figure, [axes], folder, chart.name, chart.title, chart.note)


def _is_of_line(row: GrowthRow | FailureRow, rows: Sequence[GrowthRow] | Sequence[FailureRow]) -> bool:
    """Return whether a row belongs to its line: where two trees have the same size, only the generated one does."""
    rivals = [each for each in rows if each.system is row.system and each.brokers == row.brokers]
    return row.series is not Series.REGIONS or len(rivals) == 1 or not row.tree.startswith("paper:")


def _failures(rows: Sequence[FailureRow], folder: Path) -> Iterator[FigureFile]:
    mine = [row for row in rows if row.series is Series.REGIONS and row.fault is Fault.INNER_CRASH and row.messages]
    if mine:
        figure, axes = frame("brokers", "messages between brokers")
        lines: dict[Look, Sequence[_Point]] = {}
        for system in System:
            found = [
                (row.brokers, row.messages, row.source)
                for row in mine
                if row.system is system and _is_of_line(row, mine)
            ]
            lines[_LOST if system is System.TID else _look(system)] = sorted(found)
        _lines(axes, lines)
        _scale(axes, [row.brokers for row in mine], [row.messages for row in mine])
        note = "Gap notices reach every broker; the rest is the restored table. TID restores nothing: what it lost."
        yield save_as(figure, [axes], folder, "crash-messages", "Messages after the crash of an inner broker", note)


def _memory(rows: Sequence[MemoryRow], folder: Path) -> Iterator[FigureFile]:
    if rows:
        figure, axes = frame("entries of the PRT", "bytes per entry")
        lines = {
            _look(system): sorted(
                (row.entries, row.bytes_per_entry, Source.SIMULATED) for row in rows if row.system is system
            )
            for system in System
        }
        _lines(axes, lines)
        _scale(axes, [row.entries for row in rows], [row.bytes_per_entry for row in rows])
        note = "Resident memory of the process of one broker."
        yield save_as(figure, [axes], folder, "memory", "Memory of a broker", note, by_clock=True)


def _look(system: System) -> Look:
    return _FLOOD if system is System.FLOOD else LOOKS[system.algorithm]


def _lines(axes: Axes, lines: Mapping[Look, Sequence[_Point]]) -> None:
    """Draw one line per look, if it has points; points by formula have hollow marks, which the legend explains."""
    any_hollow = False
    for look, points in lines.items():
        if points:
            xs, ys = [point[0] for point in points], [point[1] for point in points]
            axes.plot(xs, ys, color=look.colour, linestyle=look.line, linewidth=1.8, zorder=look.order,
                      label=look.label, marker=look.marker, markersize=look.size)  # fmt: skip
        hollow = [(x, y) for x, y, source in points if source is Source.FORMULA]
        if hollow and look is not _FLOOD:
            any_hollow = True
            axes.plot([x for x, _ in hollow], [y for _, y in hollow], linestyle="none", color=look.colour,
                      marker=look.marker, markersize=look.size, markerfacecolor="white",
                      zorder=look.order + 1)  # fmt: skip
    if any_hollow:
        axes.plot([], [], linestyle="none", color=INK, marker="o", markersize=5, markerfacecolor="white",
                  label="hollow: by formula")  # fmt: skip


def _scale(axes: Axes, xs: Iterable[float], ys: Collection[float]) -> None:
    """Make the axes logarithmic, the vertical one only if values differ much, with a tick at every size."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_xscale("log")
    sizes = sorted(set(xs))
    axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    spread = max(ys) / min(ys)
    if spread <= _LINEAR_MAX:
        axes.set_ylim(bottom=0)
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if spread < _FEW_TICKS_FROM else (1.0,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
