"""The values that a filter accepts for one attribute, as the index stores them.

A value set says for each kind of value whether any can satisfy the predicates, and, where possible, which ones do: the
numbers between two doubles, or certain strings. The bounds are exact for every number that is a double: a bound that is
not (an integer beyond 2**53) becomes the nearest double on its inner side, and a strict bound the next double.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from octopia.content import Filter, Operator, Predicate, Value, ValueType
from octopia.content.costs import length_of
from octopia.content.predicates import values_of
from octopia.matching.layout import ABSENT, NOT_FALSE, NOT_NUMBER, NOT_STRING, NOT_TRUE

_LOWER = (Operator.GT, Operator.GE)
_UPPER = (Operator.LT, Operator.LE)
_BEYOND_INTERVALS = (Operator.NE, Operator.IN, Operator.NOT_IN)
_ORDERED = (Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.BETWEEN)
_FINITE = (Operator.EQ, Operator.IN)
_CACHED_PREDICATES_MAX = 8
_CACHED_LENGTH_MAX = 128


class ValueSet(NamedTuple):
    """The values that satisfy the predicates on one attribute.

    ``texts`` are the only strings that do, or None if they cannot be listed; ``asks_string`` is true if the predicates
    constrain strings. ``is_exact`` means that ``low`` and ``high`` describe the numbers fully. ``fails`` has the bits
    of the fixed rows of a block in which the predicates fail (``layout``).
    """

    takes_number: bool
    low: float
    high: float
    is_exact: bool
    takes_string: bool
    asks_string: bool
    texts: tuple[str, ...] | None
    takes_false: bool
    takes_true: bool
    fails: int

    @property
    def is_about_numbers(self) -> bool:
        """True if only numbers are in the set."""
        return self.takes_number and not (self.takes_string or self.takes_false or self.takes_true)

    @property
    def is_clear(self) -> bool:
        """True if rows and intervals describe the set fully when it is compared with another filter.

        They do if the set is one interval of numbers, one string, or all values.
        """
        if self.is_about_numbers:
            return self.is_exact
        return self.only_text is not None or (self.takes_anything and not self.asks_string)

    @property
    def takes_anything(self) -> bool:
        """True if values of every kind are in the set."""
        return self.takes_number and self.takes_string and self.takes_false and self.takes_true

    @property
    def only_text(self) -> str | None:
        """The string that is the only value of the set, or None."""
        others = self.takes_number or self.takes_false or self.takes_true
        return self.texts[0] if self.texts is not None and len(self.texts) == 1 and not others else None


class Question(NamedTuple):
    """A whole filter as a question: the value set of every attribute that it requires, and whether it is plain."""

    is_plain: bool
    value_sets: dict[str, ValueSet]


def question_of(asked: Filter) -> Question:
    """Return a filter as a question; cached if it is small, since every broker on a path asks the same questions."""
    predicates = asked.predicates
    if len(predicates) > _CACHED_PREDICATES_MAX or length_of(predicates) > _CACHED_LENGTH_MAX:
        return _make_question(asked)
    return _cached_question(asked)


@functools.lru_cache(maxsize=1024)
def _cached_question(asked: Filter) -> Question:
    return _make_question(asked)


def _make_question(asked: Filter) -> Question:
    value_sets = {name: value_set_of(predicates) for name, predicates in asked.required.items()}
    return Question(is_plain(asked.predicates), value_sets)


def value_set_of(predicates: tuple[Predicate, ...]) -> ValueSet:
    """Return the values that satisfy all of some predicates on one attribute."""
    if len(predicates) == 1 and predicates[0].operator in _ORDERED and type(_first(predicates[0])) is not str:
        return _range(predicates[0])
    if len(predicates) > _CACHED_PREDICATES_MAX or length_of(predicates) > _CACHED_LENGTH_MAX:
        return _general_value_set(predicates)
    return _cached_value_set(predicates)


@functools.lru_cache(maxsize=1024)
def _cached_value_set(predicates: tuple[Predicate, ...]) -> ValueSet:
    """Return the value set of small predicates, since every broker on a path asks for the same; at most some 4 MB."""
    return _general_value_set(predicates)


def _general_value_set(predicates: tuple[Predicate, ...]) -> ValueSet:
    """Return the value set of predicates of any kind."""
    needing = tuple(each for each in predicates if each.operator is not Operator.ABSENT)
    possible = len(needing) == len(predicates)
    low, high = _interval(needing)
    texts = _texts(needing)
    takes_number = possible and _take(needing, ValueType.NUMBER) and low <= high
    takes_string = possible and _take(needing, ValueType.STRING) and texts != ()
    takes_false = possible and all(each.test(False) for each in needing)
    takes_true = possible and all(each.test(True) for each in needing)
    return ValueSet(
        takes_number=takes_number,
        low=low,
        high=high,
        is_exact=not any(each.operator in _BEYOND_INTERVALS for each in needing),
        takes_string=takes_string,
        asks_string=any(each.operator is not Operator.EXISTS for each in needing),
        texts=texts,
        takes_false=takes_false,
        takes_true=takes_true,
        fails=_rows(bool(needing), takes_number, takes_string, takes_false, takes_true),
    )


def _rows(requires: bool, number: bool, string: bool, false: bool, true: bool) -> int:
    """Return the bits of the rows in which predicates that accept these kinds of value fail."""
    return (
        requires << ABSENT
        | (not number) << NOT_NUMBER
        | (not string) << NOT_STRING
        | (not false) << NOT_FALSE
        | (not true) << NOT_TRUE
    )


def _range(predicate: Predicate) -> ValueSet:
    """Return the value set of a single comparison of numbers, the most common kind of predicate."""
    low, high = _interval((predicate,))
    rows = _rows(True, low <= high, False, False, False)
    return ValueSet(low <= high, low, high, True, False, True, None, False, False, rows)


def _first(predicate: Predicate) -> Value | None:
    operand = predicate.operand
    return operand[0] if isinstance(operand, tuple) else operand


def _take(predicates: tuple[Predicate, ...], kind: ValueType) -> bool:
    return all(kind in each.value_types for each in predicates)


def _texts(predicates: tuple[Predicate, ...]) -> tuple[str, ...] | None:
    """Return the strings that satisfy all predicates, if one of the predicates lists all values that it accepts."""
    for each in predicates:
        if each.operator in _FINITE:
            listed = [text for text in values_of(each) if isinstance(text, str)]
            return tuple(dict.fromkeys(text for text in listed if all(other.test(text) for other in predicates)))
    return None


def _interval(predicates: tuple[Predicate, ...]) -> tuple[float, float]:
    """Return a closed interval of doubles that holds all numbers that satisfy the predicates.

    It is the smallest such interval unless IN, NOT IN or <> are among them.
    """
    low, high = -math.inf, math.inf
    for each in predicates:
        for bound in _bounds(each):
            low = max(low, bound[0])
            high = min(high, bound[1])
    return low, high


def is_plain(predicates: Iterable[Predicate]) -> bool:
    """Return whether rows and intervals represent a filter, so that it can be compared with other filters.

    They do not if an attribute must be absent, nor if a bound lies beyond 2**53: the interval then leaves out integers
    next to the bound.
    """
    return not any(
        each.operator is Operator.ABSENT or any(_is_beyond_doubles(number) for number in _numbers(each))
        for each in predicates
    )


def _is_beyond_doubles(number: float) -> bool:
    return abs(number) > 2**53 and not (isinstance(number, float) and math.isinf(number))


def _bounds(predicate: Predicate) -> Iterator[tuple[float, float]]:
    operator, numbers = predicate.operator, _numbers(predicate)
    if not numbers:
        return
    if _is_beyond_all(operator, numbers[0]):
        yield math.inf, -math.inf
    elif operator in _LOWER:
        yield _at_least(numbers[0], strict=operator is Operator.GT), math.inf
    elif operator in _UPPER:
        yield -math.inf, _at_most(numbers[0], strict=operator is Operator.LT)
    elif operator is Operator.BETWEEN:
        yield _at_least(numbers[0]), _at_most(numbers[1])
    elif operator in _FINITE:
        yield _at_least(min(numbers)), _at_most(max(numbers))


def _is_beyond_all(operator: Operator, bound: float) -> bool:
    """Return whether a strict bound is infinite, so that no number lies beyond it."""
    return (operator is Operator.GT and bound == math.inf) or (operator is Operator.LT and bound == -math.inf)


def _numbers(predicate: Predicate) -> list[int | float]:
    return [each for each in values_of(predicate) if not isinstance(each, bool | str)]


def _at_least(bound: float, *, strict: bool = False) -> float:
    """Return the lowest double that is at least a bound, or above it if ``strict``."""
    nearest = float(bound)
    return math.nextafter(nearest, math.inf) if nearest < bound or (strict and nearest == bound) else nearest


def _at_most(bound: float, *, strict: bool = False) -> float:
    """Return the highest double that is at most a bound, or below it if ``strict``."""
    nearest = float(bound)
    return math.nextafter(nearest, -math.inf) if nearest > bound or (strict and nearest == bound) else nearest
