"""Attributes on a command line: ``NAME=VALUE``, and ``NAME:TYPE=VALUE`` where the type must not be guessed."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable

from octopia.content import Publication, Value
from octopia.content.values import INTEGER_MAX, INTEGER_MIN
from octopia.errors import InvalidPublication, UsageError

_INTEGER_LENGTH_MAX = len(str(INTEGER_MIN))
_NUMBER = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A number on the command line, without leading zeros: 007 is more often a code than a number."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_TYPES = ("str", "int", "float", "bool")


def read_attributes(texts: Iterable[str]) -> dict[str, Value]:
    """Return the attributes of several NAME=VALUE; the last of two with one name counts."""
    return dict(map(read_attribute, texts))


def read_attribute(text: str) -> tuple[str, Value]:
    """Return the name and the value of a NAME=VALUE or a NAME:TYPE=VALUE."""
    label, equals, value = text.partition("=")
    name, colon, kind = label.rpartition(":")
    if not equals or not label or (colon and not name):
        raise UsageError(f"expected NAME=VALUE, such as price=101.5, got {text!r}")
    if not colon:
        return label, read_value(value)
    if kind not in _TYPES:
        raise UsageError(
            f"expected a type of {', '.join(_TYPES)} after the colon, such as zip:str=01234, got {kind!r} in {text!r}: "
            "a name that has a colon itself needs its type, or JSON with --stdin"
        )
    return name, _of_type(kind, value, text)


def _of_type(kind: str, value: str, text: str) -> Value:
    match kind:
        case "str":
            return value
        case "int" if _INTEGER.fullmatch(value):
            return _integer(value)
        case "float":
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if not math.isnan(number):
                return number
        case "bool" if value in ("true", "false"):
            return value == "true"
    expected = {"int": "an integer", "float": "a number", "bool": "true or false"}[kind]
    raise UsageError(f"expected {expected} after =, got {value!r} in {text!r}")


def read_value(text: str) -> Value:
    """Return the value of a NAME=VALUE: a number, a boolean or a string."""
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    if not _NUMBER.fullmatch(text):
        return text
    if text.lstrip("-").isdecimal():
        return _integer(text)
    number = float(text)
    if math.isinf(number):
        raise UsageError(f"expected a number in the range of a double, got {text}: put text in single quotes")
    return number


def _integer(text: str) -> int:
    if len(text) > _INTEGER_LENGTH_MAX or not INTEGER_MIN <= int(text) <= INTEGER_MAX:
        raise UsageError(f"expected a signed 64-bit integer, got {text[:40]}: put text in single quotes")
    return int(text)


def show_value(value: Value) -> str:
    """Return a value as ``read_value`` accepts it: with quotes around text that would be read as another value."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    is_plain = value not in ("true", "false") and not _NUMBER.fullmatch(value) and not value.startswith("'")
    return value if is_plain else f"'{value}'"


def read_line(number: int, line: str, payload: bytes) -> Publication:
    """Return the publication of one line of input: a JSON object, or NAME=VALUE separated by spaces."""
    try:
        if line.lstrip()[:1] in ("{", "["):
            return Publication(_object(line), payload)
        return Publication(read_attributes(shlex.split(line)), payload)
    except ValueError as error:  # a quote that is not closed
        raise InvalidPublication(f"line {number}: expected NAME=VALUE..., got {_excerpt(line)}: {error}") from None
    except UsageError as error:
        raise InvalidPublication(f"line {number}: {error}") from None


def _object(line: str) -> dict[str, Value]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"expected one JSON object per line, got {_excerpt(line)}: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f"expected one JSON object per line, got {_excerpt(line)}")
    return found


def _excerpt(line: str) -> str:
    return repr(line.strip()[:60])
