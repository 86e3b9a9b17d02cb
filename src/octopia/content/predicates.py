"""Predicates: ``attribute operator operand``, the leaves of every filter.

A predicate is checked when it is built. Each meaning has one form: a LIKE that is equivalent to an equality, a prefix,
a suffix or a substring cannot be built as LIKE, and the empty prefix means "any string", so that SUFFIX and CONTAINS
have no empty operand. ``like``, ``suffix`` and ``contains`` choose that form. Two predicates are equal only if their
operands have the same Python types: ``x = 1`` and ``x = TRUE`` differ.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from octopia.content import operators
from octopia.content.limits import DECODED_ITEMS_MAX, OPERAND_LENGTH_MAX, OPERAND_VALUES_MAX, PATTERN_LENGTH_MAX
from octopia.content.patterns import (
    ESCAPE,
    Wildcard,
    has_inner_wildcard,
    is_canonical,
    read_pattern,
    write_pattern,
)
from octopia.content.values import Value, ValueType, check_name, check_value, same_value, shorten, value_type
from octopia.errors import FilterTooLarge, InvalidFilter


class Operator(enum.Enum):
    """The operator of a predicate; the values are part of the wire format and never change.

    ``test`` answers for an operand and a value of the attribute, or None if it is missing.
    """

    test: operators.OperandTest

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    BETWEEN = "between"
    IN = "in"
    NOT_IN = "not in"
    PREFIX = "prefix"
    NOT_PREFIX = "not prefix"
    SUFFIX = "suffix"
    NOT_SUFFIX = "not suffix"
    CONTAINS = "contains"
    NOT_CONTAINS = "not contains"
    LIKE = "like"
    NOT_LIKE = "not like"
    EXISTS = "exists"
    ABSENT = "absent"


_Elements: TypeAlias = Annotated[tuple[int | float | str | bool, ...], Meta(max_length=DECODED_ITEMS_MAX)]
Operand: TypeAlias = int | float | str | bool | _Elements | None
"""A value; two bounds for BETWEEN; elements for IN; a canonical pattern for LIKE; nothing for EXISTS and ABSENT."""


class Predicate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A condition on one attribute: true, false or unknown of a publication.

    There are very many predicates and they are never part of a cycle, so the garbage collector ignores them.
    """

    attribute: str
    operator: Operator
    operand: Operand = None

    def __post_init__(self) -> None:
        check_name(self.attribute, "in a predicate", InvalidFilter)
        if not isinstance(self.operator, Operator):
            raise InvalidFilter(f"expected an Operator, got {type(self.operator).__qualname__} for {self.attribute}")
        _CHECKS[self.operator](self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Predicate)
            and self.attribute == other.attribute
            and self.operator is other.operator
            and same_value(self.operand, other.operand)
        )

    def __hash__(self) -> int:
        return hash((self.attribute, self.operator.value, self.operand))

    def test(self, value: Value | None) -> bool | None:
        """Return the answer for a value of the attribute, or for None if it is missing."""
        return self.operator.test(self.operand, value)

    def prepared_test(self) -> operators.Test | None:
        """Return a function that answers as ``test`` does, and faster; None if there is nothing to prepare."""
        prepare = _PREPARED_TESTS.get(self.operator)
        return None if prepare is None else prepare(self.operand)

    @property
    def value_types(self) -> tuple[ValueType, ...]:
        """The types of value that can satisfy the predicate."""
        return _value_types(self)

    def evaluate(self, attributes: Mapping[str, Value]) -> bool | None:
        """Return whether the predicate is true of a publication's attributes; None is unknown."""
        return self.operator.test(self.operand, attributes.get(self.attribute))


def like(attribute: str, pattern: str, escape: str = "", *, negated: bool = False) -> Predicate:
    """Return the predicate for LIKE: EQ, PREFIX, SUFFIX or CONTAINS if the pattern is equivalent to one."""
    operator, operand = _classify(pattern, escape)
    positive = Predicate(attribute, operator, operand)
    return Predicate(attribute, _NEGATIONS[operator], operand) if negated else positive


def suffix(attribute: str, text: str) -> Predicate:
    """Return the predicate for strings that end with the text; every string ends with the empty text."""
    return Predicate(attribute, Operator.SUFFIX if text else Operator.PREFIX, text)


def contains(attribute: str, text: str) -> Predicate:
    """Return the predicate for strings that contain the text; every string contains the empty text."""
    return Predicate(attribute, Operator.CONTAINS if text else Operator.PREFIX, text)


def negate(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return predicates whose OR is true exactly if the given one is false."""
    attribute, operand = predicate.attribute, predicate.operand
    if predicate.operator is Operator.BETWEEN:
        low, high = bounds(predicate)
        return Predicate(attribute, Operator.LT, low), Predicate(attribute, Operator.GT, high)
    return (Predicate(attribute, _NEGATIONS[predicate.operator], operand),)


def values_of(predicate: Predicate) -> tuple[Value, ...]:
    """Return the values of an operand of any kind."""
    operand = predicate.operand
    if operand is None:
        return ()
    return operand if isinstance(operand, tuple) else (operand,)


def elements(predicate: Predicate) -> tuple[Value, ...]:
    """Return the values of an operand that is a tuple."""
    assert isinstance(predicate.operand, tuple), predicate
    return predicate.operand


def scalar(predicate: Predicate) -> Value:
    """Return an operand that is a single value."""
    assert isinstance(predicate.operand, int | float | str), predicate
    return predicate.operand


def bounds(predicate: Predicate) -> tuple[Value, Value]:
    """Return the two bounds of a BETWEEN."""
    low, high = elements(predicate)
    return low, high


def _classify(pattern: str, escape: str) -> tuple[Operator, str]:
    """Return the simplest operator and operand that are equivalent to LIKE with this pattern."""
    check_value(pattern, "as a pattern", InvalidFilter)
    pieces = read_pattern(pattern, escape)
    begins_open = pieces[:1] == (Wildcard.ANY,)
    ends_open = pieces[-1:] == (Wildcard.ANY,)
    inner = pieces[begins_open : len(pieces) - ends_open]
    if any(isinstance(piece, Wildcard) for piece in inner):
        return Operator.LIKE, write_pattern(pieces)
    text = write_pattern(inner, escape="")
    if not text:
        # '' matches only the empty string, and % any string (begins_open and ends_open are then the same piece).
        return (Operator.PREFIX if begins_open else Operator.EQ), text
    if begins_open:
        return (Operator.CONTAINS if ends_open else Operator.SUFFIX), text
    return (Operator.PREFIX if ends_open else Operator.EQ), text


def _value_types(predicate: Predicate) -> tuple[ValueType, ...]:
    only = _TYPE_OF_SCALAR.get(type(predicate.operand))
    if only is not None:
        return only
    match predicate.operator:
        case Operator.EXISTS:
            return tuple(ValueType)
        case Operator.ABSENT:
            return ()
        case Operator.IN:
            kinds = [value_type(each) for each in elements(predicate)]
            return tuple(kind for kind in ValueType if kind in kinds)
        case Operator.NOT_IN:
            # An element of another type makes NOT IN unknown, so it is never true with mixed types.
            kinds = [value_type(each) for each in elements(predicate)]
            return (kinds[0],) if kinds.count(kinds[0]) == len(kinds) else ()
    return (value_type(elements(predicate)[0]),)  # The bounds of BETWEEN are of one type.


def _check_any_value(predicate: Predicate) -> None:
    _check_operand(predicate, predicate.operand)


def _check_operand(predicate: Predicate, value: object) -> None:
    if type(value) is str:
        _check_length(predicate, value, OPERAND_LENGTH_MAX)
    check_value(value, f"in {_place(predicate)}", InvalidFilter)


def _check_length(predicate: Predicate, text: str, limit: int) -> None:
    if len(text) > limit:
        raise FilterTooLarge(f"expected at most {limit} characters in {_place(predicate)}, got {len(text)}")


def _check_ordered_value(predicate: Predicate) -> None:
    _check_any_value(predicate)
    _refuse_boolean(predicate, predicate.operand)


def _check_bounds(predicate: Predicate) -> None:
    _check_elements(predicate)
    if len(elements(predicate)) != 2:
        raise InvalidFilter(f"expected two bounds in {_place(predicate)}, got {len(elements(predicate))}")
    low, high = map(value_type, elements(predicate))
    if low is not high:
        raise InvalidFilter(f"expected two bounds of one type in {_place(predicate)}, got {low.value} and {high.value}")
    _refuse_boolean(predicate, elements(predicate)[0])


def _check_elements(predicate: Predicate) -> None:
    if type(predicate.operand) is not tuple or not predicate.operand:
        kind = "an empty tuple" if predicate.operand == () else type(predicate.operand).__qualname__
        raise InvalidFilter(f"expected a tuple of values in {_place(predicate)}, got {kind}")
    if len(predicate.operand) > OPERAND_VALUES_MAX:
        raise FilterTooLarge(
            f"expected at most {OPERAND_VALUES_MAX} values in {_place(predicate)}, got {len(predicate.operand)}"
        )
    for each in predicate.operand:
        _check_operand(predicate, each)


def _check_text(predicate: Predicate) -> None:
    _check_any_value(predicate)
    if not isinstance(predicate.operand, str):
        raise InvalidFilter(f"expected a string in {_place(predicate)}, got {shorten(predicate.operand)}")


def _check_some_text(predicate: Predicate) -> None:
    _check_text(predicate)
    if not predicate.operand:
        raise InvalidFilter(f"expected a non-empty string in {_place(predicate)} (PREFIX '' is any string), got ''")


def _check_substring(predicate: Predicate) -> None:
    _check_some_text(predicate)
    _check_length(predicate, str(predicate.operand), PATTERN_LENGTH_MAX)


def _check_pattern(predicate: Predicate) -> None:
    _check_text(predicate)
    _check_length(predicate, str(predicate.operand), PATTERN_LENGTH_MAX)
    if is_canonical(str(predicate.operand)) and has_inner_wildcard(str(predicate.operand)):
        return
    operator, operand = _classify(str(predicate.operand), ESCAPE)
    if operator is not Operator.LIKE:
        raise InvalidFilter(
            f"expected a pattern with inner wildcards in {_place(predicate)}, "
            f"got one that is equivalent to {operator.name} {shorten(operand)}"
        )
    raise InvalidFilter(
        f"expected the canonical pattern {shorten(operand)} in {_place(predicate)} (use like()), "
        f"got {shorten(predicate.operand)}"
    )


def _check_nothing(predicate: Predicate) -> None:
    if predicate.operand is not None:
        raise InvalidFilter(f"expected no operand in {_place(predicate)}, got {shorten(predicate.operand)}")


def _refuse_boolean(predicate: Predicate, value: object) -> None:
    if type(value) is bool:
        got = str(value).upper()
        raise InvalidFilter(f"expected a number or a string in {_place(predicate)} (booleans have no order), got {got}")


def _place(predicate: Predicate) -> str:
    return f"{predicate.attribute} {predicate.operator.value.upper()}"


_TYPE_OF_SCALAR: dict[type, tuple[ValueType, ...]] = {
    int: (ValueType.NUMBER,),
    float: (ValueType.NUMBER,),
    str: (ValueType.STRING,),
    bool: (ValueType.BOOLEAN,),
}

_NEGATIONS = {
    Operator.EQ: Operator.NE,
    Operator.LT: Operator.GE,
    Operator.LE: Operator.GT,
    Operator.IN: Operator.NOT_IN,
    Operator.PREFIX: Operator.NOT_PREFIX,
    Operator.SUFFIX: Operator.NOT_SUFFIX,
    Operator.CONTAINS: Operator.NOT_CONTAINS,
    Operator.LIKE: Operator.NOT_LIKE,
    Operator.EXISTS: Operator.ABSENT,
}
_NEGATIONS |= {negation: operator for operator, negation in _NEGATIONS.items()}

_CHECKS: dict[Operator, Callable[[Predicate], None]] = {
    Operator.EQ: _check_any_value,
    Operator.NE: _check_any_value,
    Operator.LT: _check_ordered_value,
    Operator.LE: _check_ordered_value,
    Operator.GT: _check_ordered_value,
    Operator.GE: _check_ordered_value,
    Operator.BETWEEN: _check_bounds,
    Operator.IN: _check_elements,
    Operator.NOT_IN: _check_elements,
    Operator.PREFIX: _check_text,
    Operator.NOT_PREFIX: _check_text,
    Operator.SUFFIX: _check_some_text,
    Operator.NOT_SUFFIX: _check_some_text,
    Operator.CONTAINS: _check_substring,
    Operator.NOT_CONTAINS: _check_substring,
    Operator.LIKE: _check_pattern,
    Operator.NOT_LIKE: _check_pattern,
    Operator.EXISTS: _check_nothing,
    Operator.ABSENT: _check_nothing,
}

_TESTS: dict[Operator, operators.OperandTest] = {
    Operator.EQ: operators.equal,
    Operator.NE: operators.unequal,
    Operator.LT: operators.less,
    Operator.LE: operators.at_most,
    Operator.GT: operators.greater,
    Operator.GE: operators.at_least,
    Operator.BETWEEN: operators.between,
    Operator.PREFIX: operators.prefix,
    Operator.NOT_PREFIX: operators.not_prefix,
    Operator.SUFFIX: operators.suffix,
    Operator.NOT_SUFFIX: operators.not_suffix,
    Operator.EXISTS: operators.exists,
    Operator.ABSENT: operators.absent,
}

_PREPARED_TESTS: dict[Operator, Callable[[Any], operators.Test]] = {
    Operator.IN: operators.member,
    Operator.NOT_IN: operators.not_member,
    Operator.CONTAINS: operators.contains,
    Operator.NOT_CONTAINS: operators.not_contains,
    Operator.LIKE: operators.like,
    Operator.NOT_LIKE: operators.not_like,
}

for _operator in Operator:
    # An attribute of a member is found much faster than an entry of a dictionary by member.
    _operator.test = _TESTS.get(_operator) or operators.recently_prepared(_PREPARED_TESTS[_operator])
