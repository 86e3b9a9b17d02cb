"""The operators of predicates as tests: one small function per operator and operand.

A test takes the value of its attribute, or ``None`` if the publication does not carry it, and answers in three-valued
logic: ``None`` is unknown. Tests check the exact Python type of the value first, because ``True == 1`` in Python and a
boolean must never compare with a number. They run for every predicate of every publication, so each is a closure that
only has to look at the value.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from octopia.content.patterns import compile_pattern, compile_substring
from octopia.content.values import Value, ValueType, value_type

Test: TypeAlias = Callable[[Value | None], bool | None]
"""A function from the value of an attribute to the three-valued answer of a predicate."""


def _typed(operand: Value, holds: Callable[[Any], bool]) -> Test:
    """Return a test that calls ``holds`` for values of the operand's type; of others the answer is unknown."""
    kind = value_type(operand)
    if kind is ValueType.NUMBER:

        def test_number(value: Value | None) -> bool | None:
            # Reading the type twice is faster than storing it; floats are the most common.
            return holds(value) if type(value) is float or type(value) is int else None

        return test_number
    exact = str if kind is ValueType.STRING else bool
    return lambda value: holds(value) if type(value) is exact else None


def _comparison(swapped: Callable[[Any, Any], bool]) -> Callable[[Any], Test]:
    """Return the factory of a comparing test; Python compares ints with floats exactly.

    The comparison has its sides swapped, so that ``partial`` can fix the operand, which is cheaper to call than a
    Python function.
    """
    return lambda operand: _typed(operand, functools.partial(swapped, operand))


equal = _comparison(operator.eq)
unequal = _comparison(operator.ne)
less = _comparison(operator.gt)
at_most = _comparison(operator.ge)
greater = _comparison(operator.lt)
at_least = _comparison(operator.le)


def between(bounds: Sequence[Any]) -> Test:
    """Test for a value from the first bound to the second, both included."""
    low, high = bounds
    return _typed(low, lambda value: bool(low <= value <= high))


def member(elements: Sequence[Value]) -> Test:
    """Test for a value equal to some element; unknown if none is and some element has another type."""
    hits: dict[ValueType, frozenset[Value]] = {
        kind: frozenset(each for each in elements if value_type(each) is kind) for kind in ValueType
    }
    numbers, strings, booleans = hits[ValueType.NUMBER], hits[ValueType.STRING], hits[ValueType.BOOLEAN]
    miss = False if len({value_type(each) for each in elements}) == 1 else None

    def test(value: Value | None) -> bool | None:
        kind = type(value)
        same = strings if kind is str else booleans if kind is bool else numbers
        if value is None or not same:
            return None
        return True if value in same else miss

    return test


def not_member(elements: Sequence[Value]) -> Test:
    """Test for the opposite of ``member``; unknown stays unknown."""
    return _negated(member(elements))


def prefix(text: str) -> Test:
    """Test for a string that begins with the text."""
    return _typed(text, lambda value: value.startswith(text))


def suffix(text: str) -> Test:
    """Test for a string that ends with the text."""
    return _typed(text, lambda value: value.endswith(text))


def contains(text: str) -> Test:
    """Test for a string with the text in it."""
    return _typed(text, compile_substring(text))


def like(pattern: str) -> Test:
    """Test for a string that matches a canonical pattern."""
    return _typed(pattern, compile_pattern(pattern))


def not_prefix(text: str) -> Test:
    """Test for a string that does not begin with the text."""
    return _typed(text, lambda value: not value.startswith(text))


def not_suffix(text: str) -> Test:
    """Test for a string that does not end with the text."""
    return _typed(text, lambda value: not value.endswith(text))


def not_contains(text: str) -> Test:
    """Test for a string without the text in it."""
    return _negated(contains(text))


def not_like(pattern: str) -> Test:
    """Test for a string that does not match a canonical pattern."""
    return _negated(like(pattern))


def exists(_: None) -> Test:
    """Test for any value at all."""
    return lambda value: value is not None


def absent(_: None) -> Test:
    """Test for a missing attribute."""
    return lambda value: value is None


def _negated(test: Test) -> Test:
    def opposite(value: Value | None) -> bool | None:
        answer = test(value)
        return None if answer is None else not answer

    return opposite
