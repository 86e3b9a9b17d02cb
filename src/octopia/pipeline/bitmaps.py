"""Bitmaps of predicates: all predicates on one attribute, evaluated together on a batch of publications.

The bitmap of a predicate is the difference (XOR) of two rows of an attribute's table of bits (see ``ranks``), so
evaluating it means finding the numbers of these rows. For an interval they are the positions of its bounds among the
distinct values; the bounds of all predicates are located together. Additional rows have all publications, and the
results of predicates that are no interval (IN, LIKE and others), which are evaluated on each distinct value.

Only "true" matters here. A predicate on values of another type than the column's has two equal rows: it is never true.
Bounds are converted to exact ones of the column's type; strings are ordered by code point.
"""

from __future__ import annotations

import bisect
import enum
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from octopia.content.predicates import Operator, Predicate, bounds, elements, scalar
from octopia.content.values import INTEGER_MAX, INTEGER_MIN, Value, ValueType, value_type
from octopia.pipeline.ranks import Kind, Mask, Positions, Ranked, Words, kind_of, packed, threshold_bits


class Side(enum.Enum):
    """The side of a cut: before all values that are equal to its own, or after them."""

    BEFORE = "left"
    AFTER = "right"


_VALUE_TYPES = {
    Kind.TEXT: ValueType.STRING,
    Kind.WHOLE: ValueType.NUMBER,
    Kind.DOUBLE: ValueType.NUMBER,
    Kind.YES_NO: ValueType.BOOLEAN,
}
_TEXT_TESTS: dict[Operator, Callable[[pa.Array, str], pa.Array]] = {
    Operator.PREFIX: pc.starts_with,
    Operator.SUFFIX: pc.ends_with,
    Operator.CONTAINS: pc.match_substring,
    Operator.LIKE: pc.match_like,
}
_NEGATED = {
    Operator.NE: Operator.EQ,
    Operator.NOT_IN: Operator.IN,
    Operator.NOT_PREFIX: Operator.PREFIX,
    Operator.NOT_SUFFIX: Operator.SUFFIX,
    Operator.NOT_CONTAINS: Operator.CONTAINS,
    Operator.NOT_LIKE: Operator.LIKE,
}
_BOTTOM, _TOP, _ALL = range(3)
"""The cuts below and above all values, and the row of all publications; the numbers of other cuts follow."""


@dataclass(frozen=True, slots=True)
class Bitmaps:
    """The bitmap of each predicate on a batch: rows ``first`` and ``second`` of ``bits``, to be XORed."""

    bits: Words
    first: Positions
    second: Positions


class PredicateSet:
    """All distinct predicates on one attribute, numbered."""

    def __init__(self) -> None:
        self._numbers: dict[Predicate, int] = {}
        self._prepared: dict[Kind, _Prepared] = {}

    def add(self, predicate: Predicate) -> int:
        """Return the number of a predicate."""
        self._prepared.clear()
        return self._numbers.setdefault(predicate, len(self._numbers))

    def evaluate(self, column: pa.Array) -> Bitmaps:
        """Evaluate all predicates on a column."""
        kind = kind_of(column.type)
        if kind not in self._prepared:
            self._prepared[kind] = _Prepared(kind, self._numbers)
        return self._prepared[kind].evaluate(column)


@dataclass(frozen=True, slots=True)
class _Odd:
    """A predicate that is no interval: evaluated on each distinct value, by spans between cuts or a string test."""

    spans: Sequence[tuple[int, int]] = ()
    test: Callable[[pa.Array], pa.Array] | None = None
    is_negated: bool = False


@dataclass(slots=True)
class _Cuts:
    """The distinct bounds on one side, and the number of the cut at each."""

    numbers: dict[Any, int] = field(default_factory=dict)
    values: Any = ()
    places: Positions = field(default_factory=lambda: np.empty(0, dtype=np.intp))


class _Prepared:
    """The predicates on one attribute, prepared for columns of one type."""

    def __init__(self, kind: Kind, predicates: Iterable[Predicate]):
        self._kind = kind
        self._cuts = {side: _Cuts() for side in Side}
        self._count = _ALL + 1
        self._odd: list[_Odd] = []
        intervals = [self._interval(each) for each in predicates]
        # The numbers of odd predicates follow those of the cuts.
        low = [_BOTTOM if isinstance(each, int) else each[0] for each in intervals]
        high = [self._count + each if isinstance(each, int) else each[1] for each in intervals]
        self._low, self._high = np.array(low, dtype=np.intp), np.array(high, dtype=np.intp)
        for cuts in self._cuts.values():
            _sort(cuts, kind)

    def evaluate(self, column: pa.Array) -> Bitmaps:
        ranked = Ranked.of(column, self._kind)
        places = self._locate(ranked)
        bits = threshold_bits(ranked, len(self._odd))
        for row, odd in enumerate(self._odd, len(ranked.values) + 2):
            bits[row] = packed(self._mask(odd, ranked, places)[ranked.ranks])
        second = places[self._low]
        return Bitmaps(bits, np.maximum(places[self._high], second), second)

    def _locate(self, ranked: Ranked) -> Positions:
        """Return the row of each cut, then of each odd predicate."""
        size = len(ranked.values)
        places = np.empty(self._count + len(self._odd), dtype=np.intp)
        places[_BOTTOM], places[_TOP], places[_ALL] = 0, size, size + 1
        places[self._count :] = np.arange(size + 2, size + 2 + len(self._odd))
        for side, cuts in self._cuts.items():
            places[cuts.places] = _count_below(ranked.values, cuts.values, side, self._kind)
        return places

    def _mask(self, odd: _Odd, ranked: Ranked, places: Positions) -> Mask:
        """Return a mask of the distinct values for which a predicate is true; it is false for null, the last one."""
        mask = np.zeros(len(ranked.values) + 1, dtype=np.bool_)
        for low, high in odd.spans:
            mask[places[low] : places[high]] = True
        if odd.test is not None:
            mask[:-1] = np.asarray(odd.test(pa.array(ranked.values, pa.string())))
        if odd.is_negated:
            mask[:-1] = ~mask[:-1]
        return mask

    # From predicates to cuts.

    def _interval(self, predicate: Predicate) -> tuple[int, int] | int:
        """Return the cuts that enclose the values for which a predicate is true, or the number of an odd predicate."""
        never, kinds = (_BOTTOM, _BOTTOM), predicate.value_types
        if predicate.operator is Operator.ABSENT:
            return _TOP, _ALL
        if _VALUE_TYPES[self._kind] not in kinds:
            return never
        match predicate.operator:
            case Operator.EXISTS:
                return _BOTTOM, _TOP
            case Operator.BETWEEN:
                low, high = bounds(predicate)
                return self._cut(low, Side.BEFORE), self._cut(high, Side.AFTER)
            case Operator.EQ:
                return self._span(scalar(predicate))
            case Operator.LT:
                return _BOTTOM, self._cut(scalar(predicate), Side.BEFORE)
            case Operator.LE:
                return _BOTTOM, self._cut(scalar(predicate), Side.AFTER)
            case Operator.GT:
                return self._cut(scalar(predicate), Side.AFTER), _TOP
            case Operator.GE:
                return self._cut(scalar(predicate), Side.BEFORE), _TOP
        self._odd.append(self._odd_of(predicate))
        return len(self._odd) - 1

    def _odd_of(self, predicate: Predicate) -> _Odd:
        operator = _NEGATED.get(predicate.operator, predicate.operator)
        is_negated = operator is not predicate.operator
        if operator in _TEXT_TESTS:
            text = str(predicate.operand)
            return _Odd(test=lambda values: _TEXT_TESTS[operator](values, text), is_negated=is_negated)
        several = (scalar(predicate),) if operator is Operator.EQ else elements(predicate)
        same = [each for each in several if value_type(each) is _VALUE_TYPES[self._kind]]
        return _Odd(spans=[self._span(each) for each in same], is_negated=is_negated)

    def _span(self, value: Value) -> tuple[int, int]:
        return self._cut(value, Side.BEFORE), self._cut(value, Side.AFTER)

    def _cut(self, value: Value, side: Side) -> int:
        exact, side = _exact(value, side, self._kind)
        numbers = self._cuts[side].numbers
        if exact not in numbers:
            numbers[exact] = self._count
            self._count += 1
        return numbers[exact]


def _exact(value: Value, side: Side, kind: Kind) -> tuple[Value, Side]:
    """Return a cut at a value of the column's type that separates the same values."""
    if kind is Kind.WHOLE and isinstance(value, float):
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            return (INTEGER_MIN, Side.BEFORE) if value < 0 else (INTEGER_MAX, Side.AFTER)
        below = math.floor(value)
        return (below, side) if below == value else (below, Side.AFTER)
    if kind is Kind.DOUBLE and isinstance(value, int):
        nearest = float(value)
        if nearest != value:
            return nearest, Side.AFTER if nearest < value else Side.BEFORE
        return nearest, side
    return value, side


def _sort(cuts: _Cuts, kind: Kind) -> None:
    """Sort the bounds of one side, which makes them faster to locate."""
    ordered = sorted(cuts.numbers)
    cuts.places = np.array([cuts.numbers[each] for each in ordered], dtype=np.intp)
    types = {Kind.WHOLE: np.int64, Kind.DOUBLE: np.float64, Kind.YES_NO: np.int8}
    cuts.values = ordered if kind is Kind.TEXT else np.array(ordered, dtype=types[kind])


def _count_below(values: Any, bounds_: Any, side: Side, kind: Kind) -> Positions:
    """Return, for each bound in order, the number of distinct values before its cut."""
    if kind is not Kind.TEXT:
        return cast(Positions, np.searchsorted(values, bounds_, side=side.value))
    # There are fewer values than bounds: locate each value among the bounds, and count the values up to each bound.
    place = functools.partial(bisect.bisect_right if side is Side.BEFORE else bisect.bisect_left, bounds_)
    placed = np.array([place(each) for each in values], dtype=np.intp)
    return np.searchsorted(placed, np.arange(len(bounds_)), side="right")
