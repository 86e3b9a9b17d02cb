"""Names and values in filter texts."""

from __future__ import annotations

import math

from octopia.content.values import PLAIN_NAME, Value
from octopia.errors import InvalidFilter

KEYWORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")
"""The words, in any case, that must be quoted to be attribute names."""


def format_value(value: Value) -> str:
    """Return the literal of a value, which parses to the same value of the same Python type."""
    if isinstance(value, float) and math.isinf(value):
        raise InvalidFilter(f"expected a finite number, got {value}: infinities cannot be written in a filter text")
    return show_value(value)


def show_value(value: Value) -> str:
    """Return a value for people to read; unlike ``format_value`` it accepts infinities."""
    if isinstance(value, str):
        return format_string(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    # repr() of a float always has a point or an exponent, and is exact.
    return repr(value)


def format_string(text: str) -> str:
    """Return a string in single quotes, with quotes inside it doubled."""
    return "'" + text.replace("'", "''") + "'"


def format_name(name: str) -> str:
    """Return an attribute name, in double quotes if it is a keyword or not a dotted identifier."""
    if PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
