"""Filters that Spark pushes down, as filters of OctopiA and as times.

Spark evaluates every filter again, so what is made here need not be exact, but it must keep every row that Spark would
keep. A column is null where a publication carries another type, and comparisons with null keep nothing; so comparisons
with an attribute's column keep no more than the same comparison with the attribute.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructType

from octopia.content import (
    And,
    Expression,
    Operator,
    Predicate,
    contains,
    format_filter,
    normalise,
    parse_expression,
    suffix,
)
from octopia.errors import UsageError
from octopia.pipeline.spark_columns import attribute_of
from octopia.records.rows import RowKind
from octopia.records.selection import Question

_COMPARISONS: Mapping[type[Filter], Operator] = {
    EqualTo: Operator.EQ,
    EqualNullSafe: Operator.EQ,
    GreaterThan: Operator.GT,
    GreaterThanOrEqual: Operator.GE,
    LessThan: Operator.LT,
    LessThanOrEqual: Operator.LE,
}
_PYTHON_TYPES: Mapping[type[DataType], type] = {StringType: str, LongType: int, DoubleType: float, BooleanType: bool}


def narrowed(question: Question, filters: Iterable[Filter], schema: StructType) -> Question:
    """Return a narrower question, which still covers every row that the filters keep."""
    fields = {each.name: each for each in schema.fields}
    for each in filters:
        path: tuple[str, ...] = getattr(each, "attribute", ())
        field = fields.get(path[0]) if len(path) == 1 else None
        if field is None:
            continue
        name = attribute_of(field)
        if name is None:
            question = _by_row_column(question, field.name, each)
        else:
            question = _by_attribute(question, name, field.dataType, each)
    return question


def _by_row_column(question: Question, name: str, asked: Filter) -> Question:
    value = getattr(asked, "value", None)
    if name == "kind" and isinstance(asked, EqualTo) and value == RowKind.PUBLICATION:
        return dataclasses.replace(question, has_notices=False)
    if name != "published_ms" or type(value) is not float or math.isnan(value):
        return question
    first, after = -math.inf, math.inf
    match asked:
        case GreaterThan() | GreaterThanOrEqual():
            first = value
        case LessThan() | LessThanOrEqual():
            after = math.nextafter(value, math.inf)
        case EqualTo() | EqualNullSafe():
            first, after = value, math.nextafter(value, math.inf)
    from_ms, to_ms = max(question.from_ms, first), min(question.to_ms, after)
    return dataclasses.replace(question, from_ms=from_ms, to_ms=to_ms)


def _by_attribute(question: Question, name: str, kind: DataType, asked: Filter) -> Question:
    try:
        predicate = _predicate(name, kind, asked)
        if predicate is None:
            return question
        both = And((parse_expression(question.interest), predicate))
        # A gap has no attributes, so no comparison with one keeps it.
        return dataclasses.replace(question, interest=format_filter(normalise(both)), has_notices=False)
    except UsageError:
        return question  # It is more than a filter can have; Spark evaluates it alone.


def _predicate(name: str, kind: DataType, asked: Filter) -> Expression | None:
    expected = _PYTHON_TYPES[type(kind)]
    value = getattr(asked, "value", None)
    if type(asked) in _COMPARISONS and _is_fit(value, expected):
        return Predicate(name, _COMPARISONS[type(asked)], value)
    match asked:
        case IsNotNull():
            return Predicate(name, Operator.EXISTS)
        case In():
            wanted = [each for each in asked.value if each is not None]
            if wanted and all(_is_fit(each, expected) for each in wanted):
                return Predicate(name, Operator.IN, tuple(wanted))
        case StringStartsWith():
            return Predicate(name, Operator.PREFIX, asked.value)
        case StringEndsWith():
            return suffix(name, asked.value)
        case StringContains():
            return contains(name, asked.value)
    return None


def _is_fit(value: object, expected: type) -> bool:
    """Return whether an operand has the type of its column; NaN is no operand of a filter."""
    return type(value) is expected and value == value
