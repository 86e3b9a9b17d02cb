r"""Filter expressions as conditions in Spark SQL, independent of the brokers' matching.

A condition has the three-valued result of ``octopia.content.evaluate``: true, false or null. It is made from the tree
that the parser returns, not from the normal form, and leaves AND, OR and NOT to Spark. A null in an attribute's column
means that the publication does not carry it; no publication carries an attribute without a column. No publication
carries NaN.

Conditions are SQL text, since Spark parses text faster than Python builds a tree call by call. Strings with unusual
characters are written in hexadecimal, since Spark replaces ``${…}`` and reads backslashes in one of two ways, depending
on the session's settings. Numbers are compared exactly: a bound is converted to the column's type, and the column is
never cast.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, assert_never

from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType

from octopia.content.expressions import And, Constant, Expression, Not, Or, check_size
from octopia.content.predicates import Operator, Predicate, bounds, elements, scalar
from octopia.content.values import INTEGER_MAX, INTEGER_MIN, Value, ValueType, value_type
from octopia.errors import InvalidData


class SqlColumn(NamedTuple):
    """The column of an attribute: its reference in SQL, and its type."""

    reference: str
    kind: DataType


SqlColumns: TypeAlias = Mapping[str, SqlColumn]
Write: TypeAlias = Callable[[int | float | str], str]
"""Writes a bound in SQL: as a literal, or as a reference to a column."""

_UNKNOWN = "CAST(NULL AS BOOLEAN)"
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9 .,:;/_%+-]*")
_VALUE_TYPES: dict[type[DataType], ValueType] = {
    StringType: ValueType.STRING,
    LongType: ValueType.NUMBER,
    DoubleType: ValueType.NUMBER,
    BooleanType: ValueType.BOOLEAN,
}
_COMPARISONS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: operator.eq,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}
_NEGATED = {
    Operator.NE: Operator.EQ,
    Operator.NOT_IN: Operator.IN,
    Operator.NOT_PREFIX: Operator.PREFIX,
    Operator.NOT_SUFFIX: Operator.SUFFIX,
    Operator.NOT_CONTAINS: Operator.CONTAINS,
    Operator.NOT_LIKE: Operator.LIKE,
    Operator.ABSENT: Operator.EXISTS,
}


def literal(value: int | float | str) -> str:
    """Return a value as a SQL literal."""
    if isinstance(value, str):
        return f"'{value}'" if _PLAIN_TEXT.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, int):
        return f"{value}L"
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    return f"{value!r}D".upper()


def condition_of(expression: Expression, columns: SqlColumns, write: Write = literal) -> str:
    """Return an expression as a condition in SQL, over columns that passed ``check_columns``."""
    check_size(expression)
    return _condition(expression, columns, write)


def check_columns(columns: SqlColumns) -> None:
    """Raise an error for columns of types that no attribute has."""
    for name, column in columns.items():
        if type(column.kind) not in _VALUE_TYPES:
            got = column.kind.simpleString()
            raise InvalidData(f"expected the attribute {name} as a string, bigint, double or boolean, got {got}")


def quoted(name: str) -> str:
    """Return the name of a column, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


def _condition(expression: Expression, columns: SqlColumns, write: Write) -> str:
    match expression:
        case Predicate():
            return _predicate(expression, columns.get(expression.attribute), write)
        case And(operands):
            return "(" + " AND ".join(_condition(each, columns, write) for each in operands) + ")"
        case Or(operands):
            return "(" + " OR ".join(_condition(each, columns, write) for each in operands) + ")"
        case Not(operand):
            return f"(NOT {_condition(operand, columns, write)})"
        case Constant(value):
            return "TRUE" if value else "FALSE"
        case _:
            assert_never(expression)


def _predicate(predicate: Predicate, column: SqlColumn | None, write: Write) -> str:
    asked = predicate.operator
    if asked in _NEGATED:
        return f"(NOT {_positive(predicate, _NEGATED[asked], column, write)})"
    return _positive(predicate, asked, column, write)


def _positive(predicate: Predicate, asked: Operator, column: SqlColumn | None, write: Write) -> str:
    if asked is Operator.EXISTS:
        return f"({column.reference} IS NOT NULL)" if column else "FALSE"
    if column is None:
        return _UNKNOWN
    if asked in _COMPARISONS:
        return _comparison(column, asked, scalar(predicate), write)
    if asked is Operator.BETWEEN:
        low, high = bounds(predicate)
        return f"({_comparison(column, Operator.GE, low, write)} AND {_comparison(column, Operator.LE, high, write)})"
    if asked is Operator.IN:
        # Not Spark's IN: with many elements it compares bits, by which 0.0 and -0.0 differ.
        return "(" + " OR ".join(_comparison(column, Operator.EQ, each, write) for each in elements(predicate)) + ")"
    return _text_condition(column, asked, str(predicate.operand))


def _text_condition(column: SqlColumn, asked: Operator, text: str) -> str:
    if _VALUE_TYPES[type(column.kind)] is not ValueType.STRING:
        return _UNKNOWN
    name, written = column.reference, literal(text)
    match asked:
        case Operator.PREFIX:
            return f"startswith({name}, {written})"
        case Operator.SUFFIX:
            return f"endswith({name}, {written})"
        case Operator.CONTAINS:
            return f"contains({name}, {written})"
    # As here, Spark escapes with a backslash, its _ is one code point, and % and _ match line breaks.
    return f"({name} LIKE {written})"


def _comparison(column: SqlColumn, asked: Operator, bound: Value, write: Write) -> str:
    if value_type(bound) is not _VALUE_TYPES[type(column.kind)]:
        return _UNKNOWN
    name = column.reference
    if isinstance(bound, str):
        return f"({name} {asked.value} {write(bound)})"
    if isinstance(bound, bool):
        return f"({name} {asked.value} {bound})"
    if isinstance(column.kind, LongType):
        return _whole_comparison(name, asked, bound, write)
    return _double_comparison(name, asked, bound, write)


def _whole_comparison(column: str, asked: Operator, bound: int | float, write: Write) -> str:
    whole = bound
    if isinstance(bound, float) and not math.isinf(bound):
        whole = math.floor(bound) if asked in (Operator.LE, Operator.GT) else math.ceil(bound)
        if asked is Operator.EQ and whole != bound:
            return _unless_absent(column, False)
    if not INTEGER_MIN <= whole <= INTEGER_MAX:
        # All integers compare the same with a bound outside their range.
        return _unless_absent(column, _COMPARISONS[asked](0, whole))
    return f"({column} {asked.value} {write(whole)})"


def _double_comparison(column: str, asked: Operator, bound: int | float, write: Write) -> str:
    nearest = float(bound)
    if nearest != bound:
        # The bound is an integer between two doubles: no double equals it, so the nearest one replaces it.
        match asked, nearest < bound:
            case Operator.EQ, _:
                return _unless_absent(column, False)
            case Operator.LT | Operator.LE, is_below:
                asked = Operator.LE if is_below else Operator.LT
            case _, is_below:
                asked = Operator.GT if is_below else Operator.GE
    return f"({column} {asked.value} {write(nearest)})"


def _unless_absent(column: str, answer: bool) -> str:
    """Return a condition with a constant answer, or unknown where the attribute is missing."""
    return f"({column} IS NOT NULL OR {_UNKNOWN})" if answer else f"({column} IS NULL AND {_UNKNOWN})"
