"""Comparisons of two systems or algorithms: runs are paired by key, then averaged.

A ratio is the mean of one side over the mean of the other, over the runs that both sides have. A run without its
counterpart is left out and counted. A comparison gives none where nothing was run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TypeVar

from octopia.experiments.paper.columns import BURST_DELAY_MS, BURST_STABLE_MS, Column
from octopia.experiments.paper.measurements import CALM_MS
from octopia.experiments.paper.names import Contender
from octopia.experiments.paper.rows import BurstRow, RunRow, SequenceRow, Side, Tables, key_of, side_of

SAME_DELAY = 0.01
"""Two runs perform the same if their mean delays differ by less than this share of the larger."""
SAME_MAXIMUM = 0.1
"""Two maximum delays are the same if they differ by less than this share of the larger."""
SAME_MOMENT_S = 0.05
"""Two runs are stable at the same time if the moments differ by less than this."""
SHRINKING = 0.1
"""A difference shrinks if it loses at least this share of itself."""
NO_DIFFERENCE = 5e-6
"""Two means do not differ if they differ by less than this share."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ours:
    """Our result for a claim: as text, as a number, and with a comment."""

    text: str
    value: float
    comment: str = ""
    caveat: str = ""
    """The runs that the result leaves out, if any."""
    sides: tuple[float, float] = (0.0, 0.0)
    """Both sides of a ratio."""
    runs: int = 0
    """The number of pairs of runs that a share of runs counts."""


C = TypeVar("C", bound=RunRow)
Show = Callable[[float, float], str]
Sides = tuple[Side, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A function from tables to a result, with the type of row that it compares, and the sides."""

    row_type: type[object]
    compute: Callable[[Tables], Ours | None]
    sides: Sides


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """Both sides of a comparison in runs of the same key; none where a side has no number."""

    key: tuple[int, int, str]
    subject: float | None
    base: float | None


def pairs_of(tables: Tables, column: Column[C], subjects: Sides, bases: Sides) -> tuple[list[Pair], int]:
    """Return the pairs in the order of their keys, and the number of keys that lacked a side."""
    cells: dict[tuple[int, int, str], dict[Side, float | None]] = {}
    for row in tables.of(column.row_type):
        if side_of(row) in (*subjects, *bases):
            cells.setdefault(key_of(row), {})[side_of(row)] = column.value(row)
    whole = {key: sides for key, sides in sorted(cells.items()) if all(side in sides for side in (*subjects, *bases))}
    pairs = [Pair(key, _mean_of(sides, subjects), _mean_of(sides, bases)) for key, sides in whole.items()]
    return pairs, len(cells) - len(whole)


def ratio(column: Column[C], subjects: Sides, bases: Sides, show: Show) -> Comparison:
    """Compare the means of a column: the subjects over the bases."""

    def compute(tables: Tables) -> Ours | None:
        pairs, alone = pairs_of(tables, column, subjects, bases)
        known = [(pair.subject, pair.base) for pair in pairs if pair.subject is not None and pair.base is not None]
        if not known:
            return None
        subject, base = fmean(each[0] for each in known), fmean(each[1] for each in known)
        value = 1.0 if is_no_difference(subject, base) else _over(subject, base)
        return Ours(show(subject, base), value, _spread(known, show), _left_out(alone), (subject, base))

    return Comparison(column.row_type, compute, (*subjects, *bases))


def shrinking(column: Column[C], larger: Sides, smaller: Sides) -> Comparison:
    """Compare the difference at the most clients with that at the fewest; positive if it is less."""

    def compute(tables: Tables) -> Ours | None:
        pairs, _ = pairs_of(tables, column, larger, smaller)
        sizes = sorted({pair.key[0] for pair in pairs})
        if len(sizes) < 2:
            return None
        first, last = (_gap([pair for pair in pairs if pair.key[0] == size]) for size in (sizes[0], sizes[-1]))
        text = f"{percent(first)} at {sizes[0]:,}, {percent(last)} at {sizes[-1]:,}"
        return Ours(text, min(first, (1 - SHRINKING) * first - abs(last)))

    return Comparison(column.row_type, compute, (*larger, *smaller))


def seconds_before(earlier: Sides, later: Sides, column: Column[BurstRow] = BURST_STABLE_MS) -> Comparison:
    """Compare the moments at which two sides are stable, in seconds; infinite where the later side never is."""

    def compute(tables: Tables) -> Ours | None:
        pairs, alone = pairs_of(tables, column, earlier, later)
        if not pairs:
            return None
        both = [pair.base - pair.subject for pair in pairs if pair.subject is not None and pair.base is not None]
        only_earlier = sum(pair.subject is not None and pair.base is None for pair in pairs)
        only_later = sum(pair.subject is None and pair.base is not None for pair in pairs)
        counts = ""
        if len(both) < len(pairs) > 1:
            counts = f"of {len(pairs)} pairs both were stable in {len(both)}, only the first in {only_earlier}, "
            counts += f"only the second in {only_later}"
        if not both:
            return _one_sided(only_earlier - only_later, counts)
        caveat = _joined(counts, _left_out(alone))
        mean_s = fmean(both) / 1000
        if abs(mean_s) < SAME_MOMENT_S:
            return Ours("at the same time", 0.0, caveat=caveat)
        text = f"{mean_s:.1f} s before" if mean_s > 0 else f"{-mean_s:.1f} s after"
        return Ours(text, mean_s, caveat=caveat)

    return Comparison(BurstRow, compute, (*earlier, *later))


def same_maximum_s(one: Contender, other: Contender) -> Comparison:
    """Measure how long the maximum delays of two algorithms stay the same, in seconds."""

    def compute(tables: Tables) -> Ours | None:
        curves: dict[tuple[int, int, str], dict[Side, dict[int, SequenceRow]]] = {}
        for row in tables.sequences:
            curves.setdefault(key_of(row), {}).setdefault(row.algorithm, {})[row.sequence] = row
        both = [sides for _, sides in sorted(curves.items()) if one in sides and other in sides]
        if not both:
            return None
        parted_s = [_parted_ms(sides[one], sides[other]) / 1000 for sides in both]
        comment = f"maxima within {SAME_MAXIMUM:.0%} count as the same"
        return Ours(f"{fmean(parted_s):.1f} s", fmean(parted_s), comment)

    return Comparison(SequenceRow, compute, (one, other))


def shrinking_s(algorithm: Contender) -> Comparison:
    """Measure how long the longest queue was getting shorter before delays were normal, in seconds."""

    def compute(tables: Tables) -> Ours | None:
        rows = [row for row in tables.bursts if row.algorithm == algorithm]
        if not rows:
            return None
        known_s = [row.shrinking_ms / 1000 for row in rows if row.shrinking_ms is not None]
        if not known_s:
            return Ours("never stable", 0.0)
        never = len(rows) - len(known_s)
        caveat = f"{never} of {len(rows)} never stable" if never else ""
        return Ours(f"{fmean(known_s):.1f} s", fmean(known_s), caveat=caveat)

    return Comparison(BurstRow, compute, (algorithm,))


def share_of_runs(wins: Callable[[float, float], bool], one: Contender, other: Contender) -> Comparison:
    """Measure the share of burst runs in which ``wins`` holds for the mean delays of two algorithms."""

    def compute(tables: Tables) -> Ours | None:
        pairs, alone = pairs_of(tables, BURST_DELAY_MS, (one,), (other,))
        if not pairs:
            return None
        won = sum(wins(pair.subject or 0.0, pair.base or 0.0) for pair in pairs)
        comment = f"{won} of {len(pairs)} runs; delays within {SAME_DELAY:.0%} count as the same"
        share = won / len(pairs)
        return Ours(f"{share:.0%} of runs", share, comment, _left_out(alone), runs=len(pairs))

    return Comparison(BurstRow, compute, (one, other))


def is_less(one: float, other: float) -> bool:
    """Return whether one delay is less than the other, and they do not count as the same."""
    return one < other and not is_same(one, other)


def is_same(one: float, other: float) -> bool:
    """Return whether two delays count as the same."""
    return abs(one - other) <= SAME_DELAY * max(one, other)


def is_no_difference(one: float, other: float) -> bool:
    """Return whether two means are too close to call them different."""
    return abs(_over(one, other) - 1) < NO_DIFFERENCE


def change(more: str, less: str) -> Show:
    """Return a function that shows a ratio as a change: 12.5% more, 3% less."""

    def show(subject: float, base: float) -> str:
        value = _over(subject, base) - 1
        if math.isinf(value):
            return f"{subject:g} against 0"
        if is_no_difference(subject, base):
            return "no difference"
        return f"{percent(abs(value))} {more if value > 0 else less}"

    return show


HIGHER = change("higher", "lower")
MORE = change("more", "less")


def times(subject: float, base: float) -> str:
    """Return a ratio as text: 72.3 times."""
    return f"{_over(subject, base):.1f} times"


def shares(subject: float, base: float) -> str:
    """Return two shares side by side as text."""
    return f"{percent(subject)} against {percent(base)}"


def percent(share: float) -> str:
    """Return a share in percent with about three digits, even if it is very small."""
    value = abs(share) * 100
    digits = 0 if value >= 99.95 or not value else 1 if value >= 1 else 2 if value >= 0.1 else 3
    return f"{share * 100:.{digits}f}%"


def _over(subject: float, base: float) -> float:
    if base:
        return subject / base
    return math.inf if subject else 1.0


def _mean_of(sides: Mapping[Side, float | None], wanted: Sides) -> float | None:
    values = [sides[side] for side in wanted]
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _gap(pairs: Sequence[Pair]) -> float:
    return _over(fmean(pair.subject or 0.0 for pair in pairs), fmean(pair.base or 0.0 for pair in pairs)) - 1


def _spread(known: Sequence[tuple[float, float]], show: Show) -> str:
    if len(known) == 1:
        return "1 pair of runs"
    low, *_, high = (show(*each) for each in sorted(known, key=lambda each: _over(*each)))
    return f"{len(known)} pairs of runs, {'all the same' if low == high else f'from {low} to {high}'}"


def _left_out(alone: int) -> str:
    return f"{alone} without a counterpart left out" if alone else ""


def _one_sided(lead: int, counts: str) -> Ours:
    """Return the result where both sides were stable in no pair."""
    if not lead:
        return Ours("neither became stable first", 0.0, caveat=counts)
    text = "only the first became stable" if lead > 0 else "only the second became stable"
    return Ours(text, math.copysign(math.inf, lead), caveat=counts)


def _parted_ms(one: Mapping[int, SequenceRow], other: Mapping[int, SequenceRow]) -> float:
    """Return the time from the burst's start until two curves part; the end of the shorter one if they never do.

    A single point apart does not count, unless it is the last. Normal delays count as the same.
    """
    last_ms, is_apart = 0.0, False
    for sequence in sorted(one.keys() & other.keys()):
        time_ms = min(one[sequence].time_ms, other[sequence].time_ms)
        low, high = sorted((one[sequence].delay_ms_max, other[sequence].delay_ms_max))
        if time_ms < 0 or high <= CALM_MS or high - low <= SAME_MAXIMUM * high:
            last_ms, is_apart = max(last_ms, time_ms), False
        elif is_apart:
            break
        else:
            is_apart = True
    return last_ms


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
