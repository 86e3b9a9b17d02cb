"""The cost of predicates: their length, and the time of one evaluation on the worst publication.

Most predicates take a fraction of a microsecond. The exceptions are patterns that begin with ``%``, or have one inside,
because they search strings of up to ``STRING_LENGTH_MAX`` characters. The figures are upper bounds for CPython 3.11 on
a processor of 3 GHz; ``benchmarks/filters.py`` compares them with measured times.

Compiling is not included: a broker compiles patterns when it stores them, which takes up to 0.8 ms per pattern, and
26 ms for the longest patterns that one filter may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from octopia.content.limits import STRING_LENGTH_MAX
from octopia.content.patterns import nanoseconds_per_character, searched_cores
from octopia.content.predicates import Operator, Predicate

_NUMBER_LENGTH = 9
_EVALUATION_US = 0.1
_CHARACTER_US = 0.001
_SEGMENT_US = 0.5
_LITERAL_US = nanoseconds_per_character("") * STRING_LENGTH_MAX / 1000


def length_of(predicates: Iterable[Predicate]) -> int:
    """Return the length of all names and values; one that is not a string counts as 9, as in the wire format."""
    length = 0
    for each in predicates:
        operand = each.operand
        length += len(each.attribute)
        for value in operand if type(operand) is tuple else (operand,):
            length += len(value) if type(value) is str else _NUMBER_LENGTH
    return length


def cost_us(predicates: Sequence[Predicate]) -> float:
    """Return an upper bound for the time of one evaluation of all predicates, in microseconds."""
    searches = sum(_search_us(each.operator, each.operand) for each in predicates if type(each.operand) is str)
    return _EVALUATION_US * len(predicates) + _CHARACTER_US * length_of(predicates) + searches


def _search_us(operator: Operator, text: str) -> float:
    """Return the time to search the longest string for the segments of a pattern that are not anchored."""
    if operator is Operator.CONTAINS or operator is Operator.NOT_CONTAINS:
        return _SEGMENT_US + _LITERAL_US
    if operator is not Operator.LIKE and operator is not Operator.NOT_LIKE:
        return 0.0
    searched = searched_cores(text)
    # The segments are found one after another, so each character is read for one of them.
    rate = max(map(nanoseconds_per_character, searched), default=0.0)
    return _SEGMENT_US * (2 + len(searched)) + rate * STRING_LENGTH_MAX / 1000
