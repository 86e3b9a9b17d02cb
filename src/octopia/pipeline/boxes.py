"""Boxes: the filters of generated advertisements and subscriptions, with a range for every attribute.

A *box* has a range for each number, and a range or a list for the symbol. This module uses no Spark: arrays and rows
in, filters out.

A box with a given selectivity is found in *rank space*. Every attribute of a pool of publications is replaced by its
rank. The box encloses the k publications nearest to an anchor, by the largest difference of ranks, and no others except
ties. So the share of the pool inside is known in advance, however the attributes are correlated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import pyarrow

from octopia.content import Disjunction, Filter, Operator, Predicate, format_filter

SYMBOL = "symbol"
_ATTEMPTS = 4
_CLOSE_ENOUGH = 1.05
"""A box may hold up to this many times the wanted publications, because of ties."""


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """Ranges of numbers, with both bounds included, and the symbols: a list, or the first and last of a range."""

    ranges: Mapping[str, tuple[Any, Any]]
    symbols: tuple[str, ...] = ()
    first_symbol: str = ""
    last_symbol: str = ""

    def predicates(self) -> tuple[Predicate, ...]:
        """Return the predicates of the box, the symbol first."""
        numbers = [Predicate(name, Operator.BETWEEN, bounds) for name, bounds in self.ranges.items()]
        return (self._symbol(), *numbers)

    def _symbol(self) -> Predicate:
        if not self.symbols:
            return Predicate(SYMBOL, Operator.BETWEEN, (self.first_symbol, self.last_symbol))
        if len(self.symbols) == 1:
            return Predicate(SYMBOL, Operator.EQ, self.symbols[0])
        return Predicate(SYMBOL, Operator.IN, self.symbols)


def filter_text(*boxes: Box) -> str:
    """Return the text of a filter that matches publications inside any of the boxes."""
    return format_filter(Disjunction(tuple(Filter(each.predicates()) for each in boxes)))


def hull(boxes: Sequence[Box]) -> Box:
    """Return the smallest box that contains boxes with lists of symbols."""
    names = boxes[0].ranges
    ranges = {
        name: (min(each.ranges[name][0] for each in boxes), max(each.ranges[name][1] for each in boxes))
        for name in names
    }
    return Box(ranges, tuple(sorted({symbol for each in boxes for symbol in each.symbols})))


class RankSpace:
    """A pool of publications, with the rank of every attribute."""

    def __init__(self, pool: pyarrow.Table):
        self.size = pool.num_rows
        self._columns = {name: _values(pool.column(name)) for name in pool.column_names}
        self._ranks = numpy.stack([_ranks(each) for each in self._columns.values()])

    def box(self, anchor: int, wanted: int) -> Box:
        """Return a box around publication ``anchor`` that holds about ``wanted`` publications of the pool."""
        wanted = max(1, min(wanted, self.size))
        distance = numpy.abs(self._ranks - self._ranks[:, anchor : anchor + 1]).max(axis=0)
        # Distinct keys make the choice among equally near publications deterministic.
        keys = distance.astype(numpy.int64) * self.size + numpy.arange(self.size)
        taken = wanted
        for _ in range(_ATTEMPTS):
            nearest = numpy.argpartition(keys, taken - 1)[:taken]
            inside = self._count_inside(nearest)
            if inside <= wanted * _CLOSE_ENOUGH or taken == 1:
                break
            taken = max(1, taken * wanted // inside)
        return self._around(nearest)

    def _count_inside(self, members: numpy.ndarray[Any, Any]) -> int:
        ranks = self._ranks
        low, high = ranks[:, members].min(axis=1, keepdims=True), ranks[:, members].max(axis=1, keepdims=True)
        return int(((ranks >= low) & (ranks <= high)).all(axis=0).sum())

    def _around(self, members: numpy.ndarray[Any, Any]) -> Box:
        ranges = {name: _bounds(values[members]) for name, values in self._columns.items()}
        first, last = ranges.pop(SYMBOL)
        return Box(ranges, first_symbol=first, last_symbol=last)


def _values(column: pyarrow.ChunkedArray) -> numpy.ndarray[Any, Any]:
    return numpy.asarray(column.to_numpy())


def _ranks(values: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """Return, for each value, the number of smaller values."""
    _distinct, positions, counts = numpy.unique(values, return_inverse=True, return_counts=True)
    before = numpy.cumsum(counts) - counts
    return before[positions].astype(numpy.int32)


def _bounds(values: numpy.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Return the least and the greatest value as Python objects, as predicates require."""
    low, high = values.min(), values.max()
    return (low, high) if isinstance(low, str) else (low.item(), high.item())
