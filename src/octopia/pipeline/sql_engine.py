"""The SQL engine of the truth: matches found by Spark SQL alone.

Spark compiles every expression, which takes tens of milliseconds for a filter with a few predicates: too long for ten
thousand filters. But most filters differ in their bounds only. So filters of one *shape*, the same condition with
different bounds, become a table of bounds, which is joined with the publications on the condition. Filters of rare
shapes are written out, several per select.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from octopia.content.expressions import Expression
from octopia.content.language import parse_expression
from octopia.errors import InvalidData, InvalidFilter
from octopia.pipeline.schemas import MATCHES
from octopia.pipeline.sql_conditions import SqlColumns, condition_of
from octopia.pipeline.vectorised import KEY

COMMON = 8
"""The minimum number of filters of one shape for a join."""
RARE_CHUNK = 16
"""The number of filters of rare shapes per select; with many more, Spark fails to compile the code."""

Bound: TypeAlias = int | float | str
Shape: TypeAlias = tuple[str, tuple[type, ...]]
"""A condition over columns of publications and of bounds, and the types of the bounds."""
_T = TypeVar("_T")
_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string()}
_PUBLICATION, _SUBSCRIPTION = MATCHES.names


@dataclass(frozen=True, slots=True)
class Shaped:
    """A subscription, its shape and its bounds."""

    number: int
    expression: Expression
    shape: Shape
    bounds: Sequence[Bound]


def shape_of(number: int, text: str, columns: SqlColumns) -> Shaped:
    """Parse a filter, and separate its condition from its bounds."""
    bounds: list[Bound] = []

    def write(bound: Bound) -> str:
        bounds.append(bound)
        return f"b{len(bounds) - 1}"

    try:
        expression = parse_expression(text)
    except InvalidFilter as error:
        raise InvalidData(f"expected a filter in the subscription {number}, got: {error}") from None
    condition = condition_of(expression, columns, write)
    return Shaped(number, expression, (condition, tuple(map(type, bounds))), bounds)


def pairs_of(frame: DataFrame, subscriptions: Sequence[Shaped], columns: SqlColumns, chunk: int) -> DataFrame:
    """Return the pairs that match; ``frame`` has the number of each publication, and the given columns."""
    groups: dict[Shape, list[Shaped]] = {}
    for each in subscriptions:
        groups.setdefault(each.shape, []).append(each)
    common = [group for group in groups.values() if len(group) >= COMMON]
    rare = [each for group in groups.values() if len(group) < COMMON for each in group]
    found = [_joined(frame, each) for group in common for each in _chunks(group, chunk)]
    found += [_selected(frame, each, columns) for each in _chunks(rare, min(chunk, RARE_CHUNK))]
    return functools.reduce(DataFrame.unionAll, found or [_selected(frame, [], columns)])


def _joined(frame: DataFrame, subscriptions: Sequence[Shaped]) -> DataFrame:
    """Return the pairs of subscriptions of one shape."""
    condition, types = subscriptions[0].shape
    values = {_SUBSCRIPTION: pa.array([each.number for each in subscriptions], pa.int64())}
    for at, kind in enumerate(types):
        values[f"b{at}"] = pa.array([each.bounds[at] for each in subscriptions], _TYPES[kind])
    bounds = F.broadcast(frame.sparkSession.createDataFrame(pa.table(values)))
    pairs = frame.join(bounds, on=F.expr(condition), how="inner")
    return pairs.select(F.col(KEY).alias(_PUBLICATION), _SUBSCRIPTION)


def _selected(frame: DataFrame, subscriptions: Sequence[Shaped], columns: SqlColumns) -> DataFrame:
    """Return the pairs of subscriptions of any shape."""
    cases = [f"CASE WHEN {condition_of(each.expression, columns)} THEN {each.number}L END" for each in subscriptions]
    found = F.expr(f"array_compact(array({', '.join(cases) or 'CAST(NULL AS BIGINT)'}))")
    arrays = frame.select(F.col(KEY).alias(_PUBLICATION), found.alias(_SUBSCRIPTION))
    # Not explode: Spark would add a test for empty arrays, and compute each array twice.
    pairs = arrays.select(_PUBLICATION, F.explode_outer(_SUBSCRIPTION).alias(_SUBSCRIPTION))
    return pairs.where(F.col(_SUBSCRIPTION).isNotNull())


def _chunks(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
