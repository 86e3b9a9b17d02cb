"""The kinds of plot in the paper's evaluation: lines over sizes, bars, and curves over time."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from octopia.experiments.charts import INK, LOOKS, scale_up
from octopia.experiments.paper.columns import C, Column
from octopia.experiments.paper.names import Contender, System
from octopia.experiments.paper.rows import BoundRow, BurstRow, CostRow, SequenceRow, Side, side_of, size_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_lines(axes: Axes, rows: Iterable[C], column: Column[C]) -> None:
    """Draw the mean of a column over the size of runs, one line per side."""
    values: dict[Side, dict[int, list[float]]] = {}
    for row in rows:
        values.setdefault(side_of(row), {}).setdefault(size_of(row), []).append(column.value(row) or 0.0)
    for side in _in_order(values):
        look, sizes = LOOKS[side], sorted(values[side])
        found = [values[side][size] for size in sizes]
        axes.plot(sizes, [fmean(each) for each in found], color=look.colour, label=look.label, linestyle=look.line,
                  marker=look.marker, markersize=look.size, linewidth=1.8, zorder=look.order)  # fmt: skip
        if any(len(each) > 1 for each in found):
            lows, highs = [min(each) for each in found], [max(each) for each in found]
            axes.fill_between(sizes, lows, highs, color=look.colour, alpha=0.18, linewidth=0)
    _mark_sizes(axes, sorted({size for sizes in values.values() for size in sizes}))


def scale_lines(axes: Axes, rows: Iterable[C], column: Column[C]) -> None:
    """Choose the scale of the vertical axis for the values of a column."""
    scale_up(axes, [column.value(row) or 0.0 for row in rows])


def draw_bars(axes: Axes, rows: Sequence[CostRow]) -> None:
    """Draw the time to select paths; a mark shows the time while no link is congested."""
    sizes = sorted({row.subscribers for row in rows})
    sides = _in_order({row.algorithm for row in rows})
    width = 0.8 / len(sides)
    free: list[tuple[float, float]] = []
    for number, side in enumerate(sides):
        shift = (number - (len(sides) - 1) / 2) * width
        mine = [(sizes.index(row.subscribers) + shift, row) for row in rows if row.algorithm == side]
        heights = [row.path_selection_us for _, row in mine]
        look = LOOKS[side]
        axes.bar([x for x, _ in mine], heights, width * 0.92, color=look.colour, label=look.label)
        free += [(x, row.select_us) for x, row in mine if row.algorithm.algorithm.is_dynamic]
    if free:
        axes.plot([x for x, _ in free], [y for _, y in free], "D", color="white", markeredgecolor=INK, markersize=4.5,
                  label="no link congested")  # fmt: skip
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axes.grid(False, axis="x")
    scale_up(axes, [value for row in rows for value in (row.path_selection_us, row.select_us)])


def draw_recoveries(axes: Axes, groups: Mapping[str, tuple[Sequence[BurstRow], Sequence[BoundRow]]]) -> None:
    """Draw the time until a run is stable, one bar per algorithm in each group, with the bounds of the group.

    A bar is the mean over seeds, with a line from the least to the most. Runs that are never stable are not part of
    the mean; the line of their bar goes to the top, with an arrowhead.
    """
    stable_s = [row.stable_ms / 1000 for rows, _ in groups.values() for row in rows if row.stable_ms is not None]
    bounds_s = [bound.value(row) / 1000 for _, rows in groups.values() for row in rows for bound in BOUNDS]
    top_s = 1.08 * max([*stable_s, *bounds_s], default=1.0)
    endless: list[tuple[float, float]] = []
    sides = _in_order({row.algorithm for rows, _ in groups.values() for row in rows})
    width = 0.8 / max(1, len(sides))
    for place, (rows, bounds) in enumerate(groups.values()):
        for number, side in enumerate(sides):
            mine = [row for row in rows if row.algorithm == side]
            if mine:
                look, shift = LOOKS[side], (number - (len(sides) - 1) / 2) * width
                each_s = [row.stable_ms / 1000 for row in mine if row.stable_ms is not None]
                height_s = fmean(each_s) if each_s else top_s
                axes.bar(place + shift, height_s, width * 0.92, color=look.colour, label=look.label)
                if not height_s:
                    # A bar without height would look as if nothing had been run.
                    axes.plot(place + shift, 0, "s", color=look.colour, markersize=5, clip_on=False, zorder=3)
                if len(each_s) < len(mine):
                    endless.append((place + shift, top_s))
                    each_s.append(top_s)
                if len(each_s) > 1:
                    axes.vlines(place + shift, min(each_s), max(each_s), color=INK, linewidth=1.0)
        for bound in BOUNDS if bounds else ():
            level_s = fmean(bound.value(row) for row in bounds) / 1000
            axes.plot([place - 0.45, place + 0.45], [level_s, level_s], color=INK, linewidth=1.2,
                      linestyle=bound.line, label=bound.name)  # fmt: skip
    if endless:
        axes.plot([x for x, _ in endless], [y for _, y in endless], "^", color=INK, markersize=6,
                  label="a run was never stable")  # fmt: skip
    axes.set_xticks(range(len(groups)), list(groups))
    axes.grid(False, axis="x")
    axes.set_ylim(bottom=0)


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """One of the two bounds of a burst, with its look."""

    name: str
    value: Callable[[BoundRow], float]
    line: Any


BOUNDS = (
    Bound("bound for SPR", lambda row: row.one_path_ms, (0, (4, 2))),
    Bound("bound for any routing", lambda row: row.any_path_ms, "solid"),
)


def draw_bounds(axes: Axes, rows: Sequence[BoundRow]) -> None:
    """Mark the bounds of a burst on the axis of time."""
    for bound in BOUNDS if rows else ():
        at_s = fmean(bound.value(row) for row in rows) / 1000
        axes.axvline(at_s, color=INK, linewidth=1.0, linestyle=bound.line, label=bound.name, zorder=1)


def draw_curves(axes: Axes, rows: Sequence[SequenceRow]) -> None:
    """Draw the maximum delay over time, one line per algorithm."""
    for side in _in_order({row.algorithm for row in rows}):
        look = LOOKS[side]
        mine = sorted((row for row in rows if row.algorithm == side), key=lambda row: (row.seed, row.sequence))
        seeds = sorted({row.seed for row in mine})
        faint = min(0.4, 3 / len(seeds))
        for seed in seeds if len(seeds) > 1 else []:
            points = _points([row for row in mine if row.seed == seed])
            axes.plot(*points, color=look.colour, linewidth=0.6, alpha=faint)
        axes.plot(*_medians(mine), color=look.colour, label=look.label, linestyle=look.line, linewidth=1.8,
                  zorder=look.order)  # fmt: skip


def start_at_zero(panels: Iterable[Axes]) -> None:
    """Start both axes at zero; panels share their scales, so this comes after everything is drawn."""
    for axes in panels:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)


def _points(rows: Sequence[SequenceRow]) -> tuple[list[float], list[float]]:
    return [row.time_ms / 1000 for row in rows], [row.delay_ms_max / 1000 for row in rows]


def _medians(rows: Sequence[SequenceRow]) -> tuple[list[float], list[float]]:
    """Return the median time and delay of each sequence over the seeds."""
    sequences: dict[int, list[SequenceRow]] = {}
    for row in rows:
        sequences.setdefault(row.sequence, []).append(row)
    points = [_points(sequences[number]) for number in sorted(sequences)]
    return [median(times_s) for times_s, _ in points], [median(delays_s) for _, delays_s in points]


def _in_order(sides: Collection[Side]) -> list[Side]:
    # Adaptive routing is a system and an algorithm, of the same name.
    order: tuple[Side, ...] = tuple(System if any(isinstance(side, System) for side in sides) else Contender)
    return [side for side in order if side in sides]


def _mark_sizes(axes: Axes, sizes: Sequence[int]) -> None:
    """Put a tick at every size, unless their labels would overlap."""
    gaps = [after - before for before, after in itertools.pairwise(sizes)]
    if not gaps or min(gaps) >= 0.08 * (sizes[-1] - sizes[0]):
        axes.set_xticks(sizes)
