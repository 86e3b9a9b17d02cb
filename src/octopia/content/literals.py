"""Names and values as they stand in a filter's text."""

from __future__ import annotations

import math

from octopia.content.values import PLAIN_NAME, Value
from octopia.errors import InvalidFilter

KEYWORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")
"""The words that are no attribute names unless quoted, in any case."""


def format_value(value: Value) -> str:
    """Return the literal of a value, which reads back as the same value of the same Python type."""
    if isinstance(value, float) and math.isinf(value):
        raise InvalidFilter(f"expected a value that has a literal, got {value}: infinities have none")
    return show_value(value)


def show_value(value: Value) -> str:
    """Return a value for people to read; unlike ``format_value`` it refuses none."""
    if isinstance(value, str):
        return format_string(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    # repr() of a float always has a point or an exponent, and is exact.
    return repr(value)


def format_string(text: str) -> str:
    """Return a string in single quotes, those inside it doubled."""
    return "'" + text.replace("'", "''") + "'"


def format_name(name: str) -> str:
    """Return an attribute name, in double quotes where it is a keyword or no dotted identifier."""
    if PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
