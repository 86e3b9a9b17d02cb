"""The operators of predicates as tests of the value of an attribute.

A test takes an operand and the value of its attribute, or ``None`` if the publication does not carry it, and answers in
three-valued logic: ``None`` is unknown. Tests check the exact Python type of the value first, because ``True == 1`` in
Python and a boolean must never compare with a number.

Lists and patterns are *prepared*: a set or a compiled pattern is made from the operand, and the test closes over it.
Whoever stores many predicates stores the prepared tests too (``octopia.content.prepared``). For all others, the latest
ones are cached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from octopia.content.patterns import compile_pattern, compile_substring
from octopia.content.values import Value, ValueType, value_type

Test: TypeAlias = Callable[[Value | None], bool | None]
"""A function from the value of an attribute to the three-valued answer of a predicate."""

OperandTest: TypeAlias = Callable[[Any, Value | None], bool | None]
"""A function from an operand and a value to the three-valued answer of a predicate."""

_NUMBER_LENGTH = 8
_RECENT_LENGTH_MAX = 64 * 1024
"""The limit of cached tests per operator: the length of their operands. A value that is not a string counts as 8."""


def _are_numbers(one: object, other: object) -> bool:
    return (type(one) is float or type(one) is int) and (type(other) is float or type(other) is int)


def equal(operand: Any, value: Any) -> bool | None:
    """Test for a value that equals the operand; Python compares ints with floats exactly."""
    if type(value) is type(operand) or _are_numbers(value, operand):
        return bool(value == operand)
    return None


def unequal(operand: Any, value: Any) -> bool | None:
    """Test for a value that differs from the operand."""
    if type(value) is type(operand) or _are_numbers(value, operand):
        return bool(value != operand)
    return None


def less(operand: Any, value: Any) -> bool | None:
    """Test for a value below the operand."""
    if type(value) is type(operand) or _are_numbers(value, operand):
        return bool(value < operand)
    return None


def at_most(operand: Any, value: Any) -> bool | None:
    """Test for a value that does not exceed the operand."""
    if type(value) is type(operand) or _are_numbers(value, operand):
        return bool(value <= operand)
    return None


def greater(operand: Any, value: Any) -> bool | None:
    """Test for a value above the operand."""
    if type(value) is type(operand) or _are_numbers(value, operand):
        return bool(value > operand)
    return None


def at_least(operand: Any, value: Any) -> bool | None:
    """Test for a value that is not below the operand."""
    if type(value) is type(operand) or _are_numbers(value, operand):
        return bool(value >= operand)
    return None


def between(bounds: Sequence[Any], value: Any) -> bool | None:
    """Test for a value from the first bound to the second, both included."""
    low, high = bounds
    if type(value) is type(low) or _are_numbers(value, low):
        return bool(low <= value <= high)
    return None


def prefix(text: str, value: Any) -> bool | None:
    """Test for a string that begins with the text."""
    return value.startswith(text) if type(value) is str else None


def suffix(text: str, value: Any) -> bool | None:
    """Test for a string that ends with the text."""
    return value.endswith(text) if type(value) is str else None


def not_prefix(text: str, value: Any) -> bool | None:
    """Test for a string that does not begin with the text."""
    return not value.startswith(text) if type(value) is str else None


def not_suffix(text: str, value: Any) -> bool | None:
    """Test for a string that does not end with the text."""
    return not value.endswith(text) if type(value) is str else None


def exists(_: None, value: Any) -> bool | None:
    """Test for any value at all."""
    return value is not None


def absent(_: None, value: Any) -> bool | None:
    """Test for a missing attribute."""
    return value is None


# Prepared tests.


class _Member(msgspec.Struct, frozen=True, gc=False):
    """The test for a value equal to some element: ``hit`` if one is, otherwise ``miss``.

    Elements are the keys of dictionaries: the garbage collector ignores those, and reads every set.
    """

    numbers: dict[Value, None]
    strings: dict[Value, None]
    booleans: dict[Value, None]
    hit: bool
    miss: bool | None

    def __call__(self, value: Value | None) -> bool | None:
        kind = type(value)
        same = self.strings if kind is str else self.booleans if kind is bool else self.numbers
        if value is None or not same:
            return None
        return self.hit if value in same else self.miss


def member(elements: Sequence[Value]) -> Test:
    """Prepare the test for a value equal to some element; unknown if none is and some element has another type."""
    return _member(elements, hit=True)


def not_member(elements: Sequence[Value]) -> Test:
    """Prepare the opposite of ``member``; unknown stays unknown."""
    return _member(elements, hit=False)


def _member(elements: Sequence[Value], *, hit: bool) -> Test:
    kinds = [value_type(each) for each in elements]
    numbers, strings, booleans = (
        dict.fromkeys(each for each, its_kind in zip(elements, kinds, strict=True) if its_kind is kind)
        for kind in (ValueType.NUMBER, ValueType.STRING, ValueType.BOOLEAN)
    )
    return _Member(numbers, strings, booleans, hit, None if len(dict.fromkeys(kinds)) > 1 else not hit)


def contains(text: str) -> Test:
    """Prepare the test for a string with the text in it."""
    return _TextTest(compile_substring(text), True)


def like(pattern: str) -> Test:
    """Prepare the test for a string that matches a canonical pattern."""
    return _TextTest(compile_pattern(pattern), True)


def not_contains(text: str) -> Test:
    """Prepare the test for a string without the text in it."""
    return _TextTest(compile_substring(text), False)


def not_like(pattern: str) -> Test:
    """Prepare the test for a string that does not match a canonical pattern."""
    return _TextTest(compile_pattern(pattern), False)


class _TextTest(msgspec.Struct, frozen=True, gc=False):
    """The test for a string for which a function answers ``hit``."""

    holds: Callable[[str], bool]
    hit: bool

    def __call__(self, value: Value | None) -> bool | None:
        return self.holds(value) is self.hit if type(value) is str else None


def recently_prepared(prepare: Callable[[Any], Test]) -> OperandTest:
    """Return a test that prepares each operand when it is first used, and keeps the latest ones.

    A test is kept with its operand: while that is alive, no other object has its identity.
    """
    recent: dict[int, tuple[object, Test]] = {}
    room = _RECENT_LENGTH_MAX

    def test(operand: Any, value: Value | None) -> bool | None:
        nonlocal room
        known = recent.get(id(operand))
        if known is None:
            length = len(operand) if type(operand) is str else sum(map(_length, operand))
            if length > room:
                recent.clear()
                room = _RECENT_LENGTH_MAX
            room -= length
            known = recent[id(operand)] = operand, prepare(operand)
        return known[1](value)

    return test


def _length(element: Value) -> int:
    return len(element) if type(element) is str else _NUMBER_LENGTH
