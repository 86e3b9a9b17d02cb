"""Values and attribute names of publications and predicates.

A value is an int, a float, a str or a bool, of exactly that Python type. Ints and floats are one type, numbers; bools
are a separate type, although ``True == 1`` in Python. Infinities are values, without a literal in the filter language.
NaN is not a value, since it would break the order that routing relies on.
"""

from __future__ import annotations

import enum
import math
import re
from typing import TypeAlias

from octopia.content.limits import NAME_LENGTH_MAX
from octopia.errors import InvalidFilter, InvalidPublication

Value: TypeAlias = int | float | str | bool
"""A value of an attribute."""

Refusal: TypeAlias = type[InvalidFilter] | type[InvalidPublication]
"""The error that a check raises; filters and publications have the same rules."""

INTEGER_MIN = -(1 << 63)
INTEGER_MAX = (1 << 63) - 1

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
"""A name that needs no quotes: identifiers joined by dots."""


class ValueType(enum.Enum):
    """The types of values; values of different types are never compared."""

    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"


_TYPES = {int: ValueType.NUMBER, float: ValueType.NUMBER, str: ValueType.STRING, bool: ValueType.BOOLEAN}


def value_type(value: Value) -> ValueType:
    """Return the type of a legal value; a bool is never a number."""
    return _TYPES[type(value)]


def same_value(left: object, right: object) -> bool:
    """Return whether two values or tuples of values are equal and of the same Python types: 1, 1.0 and True differ."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same_value, left, right))
    return type(left) is type(right) and left == right


def check_value(value: object, where: str, refusal: Refusal) -> None:
    """Raise the given error unless this is a legal value; ``where`` ends the message."""
    # Exact types: a numpy scalar or an enum member would pass isinstance() and behave differently later.
    if type(value) is str:
        check_unicode(value, where, refusal)
    elif type(value) is int:
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise refusal(f"expected a signed 64-bit integer, got {shorten(value)} {where}")
    elif type(value) is float:
        if math.isnan(value):
            raise refusal(f"expected a number, got NaN {where}")
    elif type(value) is not bool:
        raise refusal(f"expected a plain int, float, str or bool, got {type(value).__qualname__} {where}")


def check_name(name: object, where: str, refusal: Refusal) -> None:
    """Raise the given error unless this is a legal attribute name."""
    if type(name) is not str:
        raise refusal(f"expected an attribute name as a str, got {type(name).__qualname__} {where}")
    if not 1 <= len(name) <= NAME_LENGTH_MAX:
        raise refusal(f"expected an attribute name of 1 to {NAME_LENGTH_MAX} characters, got {len(name)} {where}")
    check_unicode(name, where, refusal)


def check_unicode(text: str, where: str, refusal: Refusal) -> None:
    """Raise the given error if the text has lone surrogates, which no encoding can carry."""
    # isascii() is cheap and true of nearly every text.
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            surrogate = f"U+{ord(text[error.start]):04X}"
            raise refusal(f"expected valid Unicode, got the lone surrogate {surrogate} {where}") from None


def shorten(value: object) -> str:
    """Return a value for an error message, shortened if it is long."""
    # Python refuses to print integers of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
