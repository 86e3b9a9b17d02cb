"""The contents of a file of rows, described as an advertisement, by which a reader finds the files that it needs.

Every row of the file conforms to the description: it names all attributes that occur, with the range of their numbers
or strings, or with their values if these are few. A filter that does not intersect it matches no row of the file; that
is the relation by which brokers find out which subscriptions an advertisement concerns.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from octopia.content import Disjunction, Filter, Operator, Predicate, Value, format_filter, intersects, parse_filter
from octopia.errors import InvalidFilter

ATTRIBUTES_MAX = 24
"""The number of attributes beyond which a file is not described, since filters are limited in size."""
_VALUES_MAX = 8
_TEXT_MAX = 40
_NUMBERS = {int, float}

_decode = msgspec.msgpack.Decoder(dict[str, bool | int | float | str]).decode


def describe(encoded: Iterable[bytes | None]) -> str:
    """Return a filter that describes rows by their encoded attributes, or an empty string if there is none."""
    columns: dict[str, list[Value]] = {}
    for each in encoded:
        if each is not None:
            for name, value in _decode(each).items():
                columns.setdefault(name, []).append(value)
    if not 0 < len(columns) <= ATTRIBUTES_MAX:
        return ""
    declared = Filter(tuple(_predicate(name, columns[name]) for name in sorted(columns)))
    try:
        text = format_filter(Disjunction((declared,)))
        parse_filter(text)
    except InvalidFilter:
        return ""  # It is beyond the limits, or has an infinite number.
    return text


def may_match(contents: str, interest: Disjunction) -> bool:
    """Return whether a file may have rows that match a filter; it may if it is not described."""
    return not contents or intersects(parse_filter(contents), interest)


def _predicate(name: str, values: list[Value]) -> Predicate:
    kinds = set(map(type, values))
    if kinds <= _NUMBERS:
        return Predicate(name, Operator.BETWEEN, (min(values), max(values)))
    texts = {each for each in values if isinstance(each, str)}
    if kinds != {str} or max(map(len, texts)) > _TEXT_MAX:
        return Predicate(name, Operator.EXISTS)
    if len(texts) <= _VALUES_MAX:
        return Predicate(name, Operator.IN, tuple(sorted(texts)))
    return Predicate(name, Operator.BETWEEN, (min(texts), max(texts)))
