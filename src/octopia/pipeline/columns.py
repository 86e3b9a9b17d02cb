r"""Expressions as Spark columns: the second opinion on what matches.

``column_of`` gives the three-valued answer of ``octopia.content.evaluate``: true, false or null. It reads the tree that
people wrote, not the normal form, and leaves AND, OR and NOT to Spark. A null in an attribute's column means that the
publication does not carry it; an attribute without a column is carried by none. No publication carries NaN.

The column is written as a text of SQL, since Spark parses one faster than Python builds a tree call by call. So that
a text means the same whatever a session's settings are, strings with anything unusual in them are written in
hexadecimal: Spark would replace ``${…}`` within them and may read backslashes in two ways. Numbers are compared
exactly: a bound becomes one of the column's own type, and the column is never cast.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType

from octopia.content.expressions import And, Constant, Expression, Not, Or, check_size
from octopia.content.predicates import Operator, Predicate, bounds, elements, scalar
from octopia.content.values import INTEGER_MAX, INTEGER_MIN, Value, ValueType, value_type
from octopia.errors import InvalidData


class Place(NamedTuple):
    """Where the values of an attribute are: a column as SQL refers to it, and its type."""

    reference: str
    kind: DataType


Places: TypeAlias = Mapping[str, Place]
Write: TypeAlias = Callable[[int | float | str], str]
"""How a bound is written: as a literal, or as a reference to where it is."""

_UNKNOWN = "CAST(NULL AS BOOLEAN)"
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9 .,:;/_%+-]*")
_SUBSTITUTED = "${"
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
_CONTRARIES = {
    Operator.NE: Operator.EQ,
    Operator.NOT_IN: Operator.IN,
    Operator.NOT_PREFIX: Operator.PREFIX,
    Operator.NOT_SUFFIX: Operator.SUFFIX,
    Operator.NOT_CONTAINS: Operator.CONTAINS,
    Operator.NOT_LIKE: Operator.LIKE,
    Operator.ABSENT: Operator.EXISTS,
}


def column_of(expression: Expression, attributes: Mapping[str, DataType]) -> Column:
    """Return an expression as a column over the given columns: true, false or null."""
    for name in attributes:
        if _SUBSTITUTED in name:
            raise InvalidData(
                f"expected columns without {_SUBSTITUTED} in their names, which Spark replaces, got {name}"
            )
    places = {name: Place(quoted(name), kind) for name, kind in attributes.items()}
    check_places(places)
    return F.expr(condition_of(expression, places))


def literal(value: int | float | str) -> str:
    """Return a value as SQL spells it."""
    if isinstance(value, str):
        return f"'{value}'" if _PLAIN_TEXT.fullmatch(value) else f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, int):
        return f"{value}L"
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE)"
    return f"{value!r}D".upper()


def condition_of(expression: Expression, places: Places, write: Write = literal) -> str:
    """Return an expression as a condition in SQL, over columns that ``check_places`` lets pass."""
    check_size(expression)
    return _condition(expression, places, write)


def check_places(places: Places) -> None:
    """Refuse columns of types that no attribute has."""
    for name, place in places.items():
        if type(place.kind) not in _VALUE_TYPES:
            got = place.kind.simpleString()
            raise InvalidData(f"expected the attribute {name} as a string, bigint, double or boolean, got {got}")


def quoted(name: str) -> str:
    """Return the name of a column as SQL has to spell it, whatever characters are in it."""
    return "`" + name.replace("`", "``") + "`"


def _condition(expression: Expression, places: Places, write: Write) -> str:
    match expression:
        case Predicate():
            return _predicate(expression, places.get(expression.attribute), write)
        case And(operands):
            return "(" + " AND ".join(_condition(each, places, write) for each in operands) + ")"
        case Or(operands):
            return "(" + " OR ".join(_condition(each, places, write) for each in operands) + ")"
        case Not(operand):
            return f"(NOT {_condition(operand, places, write)})"
        case Constant(value):
            return "TRUE" if value else "FALSE"
        case _:
            assert_never(expression)


def _predicate(predicate: Predicate, place: Place | None, write: Write) -> str:
    asked = predicate.operator
    if asked in _CONTRARIES:
        return f"(NOT {_positive(predicate, _CONTRARIES[asked], place, write)})"
    return _positive(predicate, asked, place, write)


def _positive(predicate: Predicate, asked: Operator, place: Place | None, write: Write) -> str:
    if asked is Operator.EXISTS:
        return f"({place.reference} IS NOT NULL)" if place else "FALSE"
    if place is None:
        return _UNKNOWN
    if asked in _COMPARISONS:
        return _comparison(place, asked, scalar(predicate), write)
    if asked is Operator.BETWEEN:
        low, high = bounds(predicate)
        return f"({_comparison(place, Operator.GE, low, write)} AND {_comparison(place, Operator.LE, high, write)})"
    if asked is Operator.IN:
        # Not Spark's IN: with many elements it looks them up by their bits, by which 0.0 and -0.0 differ.
        return "(" + " OR ".join(_comparison(place, Operator.EQ, each, write) for each in elements(predicate)) + ")"
    return _text_condition(place, asked, str(predicate.operand))


def _text_condition(place: Place, asked: Operator, text: str) -> str:
    if _VALUE_TYPES[type(place.kind)] is not ValueType.STRING:
        return _UNKNOWN
    column, written = place.reference, literal(text)
    match asked:
        case Operator.PREFIX:
            return f"startswith({column}, {written})"
        case Operator.SUFFIX:
            return f"endswith({column}, {written})"
        case Operator.CONTAINS:
            return f"contains({column}, {written})"
    # Spark escapes by the backslash as well, its _ is a code point, and % and _ stand for line breaks too.
    return f"({column} LIKE {written})"


def _comparison(place: Place, asked: Operator, bound: Value, write: Write) -> str:
    if value_type(bound) is not _VALUE_TYPES[type(place.kind)]:
        return _UNKNOWN
    column = place.reference
    if isinstance(bound, str):
        return f"({column} {asked.value} {write(bound)})"
    if isinstance(bound, bool):
        return f"({column} {asked.value} {bound})"
    if isinstance(place.kind, LongType):
        return _whole_comparison(column, asked, bound, write)
    return _double_comparison(column, asked, bound, write)


def _whole_comparison(column: str, asked: Operator, bound: int | float, write: Write) -> str:
    whole = bound
    if isinstance(bound, float) and not math.isinf(bound):
        whole = math.floor(bound) if asked in (Operator.LE, Operator.GT) else math.ceil(bound)
        if asked is Operator.EQ and whole != bound:
            return _unless_absent(column, False)
    if not INTEGER_MIN <= whole <= INTEGER_MAX:
        # Beyond the range all integers compare alike.
        return _unless_absent(column, _COMPARISONS[asked](0, whole))
    return f"({column} {asked.value} {write(whole)})"


def _double_comparison(column: str, asked: Operator, bound: int | float, write: Write) -> str:
    nearest = float(bound)
    if nearest != bound:
        # An integer between two doubles: none is equal to it, and the nearest one takes its place on one side.
        match asked, nearest < bound:
            case Operator.EQ, _:
                return _unless_absent(column, False)
            case Operator.LT | Operator.LE, is_below:
                asked = Operator.LE if is_below else Operator.LT
            case _, is_below:
                asked = Operator.GT if is_below else Operator.GE
    return f"({column} {asked.value} {write(nearest)})"


def _unless_absent(column: str, answer: bool) -> str:
    """Return a condition with always the same answer, but unknown where the attribute is missing."""
    return f"({column} IS NOT NULL OR {_UNKNOWN})" if answer else f"({column} IS NULL AND {_UNKNOWN})"
