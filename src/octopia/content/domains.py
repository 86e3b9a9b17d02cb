"""The values that can satisfy several predicates on one attribute.

``intersects`` and ``covers`` are built on this. ``possible`` may say yes although no value exists (for two string
patterns), but never says no although one does: a wrong no would lose publications. It says no in three cases: no value
of the type can satisfy one of the predicates; or the number of candidates is finite (from =, IN, booleans, or a range
of a single point) and none satisfies all predicates; or the range is empty, lies within a negated prefix, or the string
predicates contradict each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from octopia.content.patterns import literal_head
from octopia.content.predicates import Operator, Predicate, bounds, elements, negate, scalar
from octopia.content.values import Value, ValueType, value_type


def satisfiable(predicates: Sequence[Predicate]) -> bool:
    """Return whether a present attribute may satisfy all predicates; False is always right."""
    finite = _finite(predicates)
    if finite:
        return _some_passes(finite, predicates)
    return any(possible(predicates, kind) for kind in ValueType)


def implied(predicate: Predicate, given: Sequence[Predicate]) -> bool:
    """Return whether the predicate is true of every value that satisfies the given ones; True is always right.

    The attribute is present: at least one of the given predicates is not ABSENT.
    """
    return not any(possible((*given, failure), kind) for kind in ValueType for failure in _failures(predicate, kind))


def possible(predicates: Sequence[Predicate], kind: ValueType) -> bool:
    """Return whether some value of this type may satisfy all predicates; False is always right."""
    if any(kind not in each.value_types for each in predicates):
        return False
    if kind is ValueType.BOOLEAN:
        return _some_passes((False, True), predicates)
    finite = _finite(predicates)
    if finite:
        return _some_passes([each for each in finite if value_type(each) is kind], predicates)
    span = _span(predicates, kind)
    if span.is_point():
        return _some_passes((span.low[0],), predicates)
    return not (span.is_empty() or (kind is ValueType.STRING and _texts_contradict(predicates, span)))


def _finite(predicates: Sequence[Predicate]) -> tuple[Value, ...]:
    """Return the only values that can satisfy the predicates, if an equality or IN lists them."""
    for each in predicates:
        if each.operator is Operator.EQ:
            return (scalar(each),)
        if each.operator is Operator.IN:
            return elements(each)
    return ()


def _some_passes(candidates: Sequence[Value], predicates: Sequence[Predicate]) -> bool:
    return any(all(each.test(value) for each in predicates) for value in candidates)


def _failures(predicate: Predicate, kind: ValueType) -> tuple[Predicate, ...]:
    """Return predicates that together are true of exactly the values of this type that the given one does not accept.

    The given predicate may be false or unknown of them, so its negation is not enough if it accepts other types.
    """
    if predicate.operator is Operator.EXISTS:
        return ()
    if kind not in predicate.value_types:
        return (Predicate(predicate.attribute, Operator.EXISTS),)
    if predicate.operator is Operator.IN:
        same = tuple(each for each in elements(predicate) if value_type(each) is kind)
        return (Predicate(predicate.attribute, Operator.NOT_IN, same),)
    return negate(predicate)


@dataclass(frozen=True, slots=True)
class _Span:
    """A range of numbers, or of strings by code point.

    ``low`` is (bound, is open) and ``high`` is (bound, is closed), so that the stricter of two lower bounds is the
    greater, and the stricter of two upper bounds the lesser. There is no greatest string, so ``high`` may be None.
    """

    low: tuple[Any, bool]
    high: tuple[Any, bool] | None

    def narrowed(self, low: tuple[Any, bool] | None = None, high: tuple[Any, bool] | None = None) -> _Span:
        stricter_low = self.low if low is None else max(self.low, low)
        highs = [each for each in (self.high, high) if each is not None]
        return _Span(stricter_low, min(highs, default=None))

    def is_point(self) -> bool:
        return self.high is not None and self.low[0] == self.high[0] and self.high[1] and not self.low[1]

    def is_empty(self) -> bool:
        if self.high is None:
            return False
        if self.low[0] < self.high[0]:
            is_open = self.low[1] and not self.high[1]
            return is_open and _are_neighbours(self.low[0], self.high[0])
        return not self.is_point()

    def lies_within(self, other: _Span) -> bool:
        if self.low < other.low:
            return False
        return other.high is None or (self.high is not None and self.high <= other.high)


def _are_neighbours(low: Any, high: Any) -> bool:
    """Return whether no integer or double lies between two numbers, or no string between two strings."""
    if isinstance(low, str):
        return bool(high == low + "\0")
    above = float(low)
    if above <= low:
        above = math.nextafter(above, math.inf)
    return bool(above >= high and (math.isinf(low) or math.floor(low) + 1 >= high))


_WIDEST = {
    ValueType.NUMBER: _Span((float("-inf"), False), (float("inf"), True)),
    ValueType.STRING: _Span(("", False), None),
}


def _span(predicates: Sequence[Predicate], kind: ValueType) -> _Span:
    """Return the narrowest range that satisfies the predicates, whose operands are all of this type."""
    span = _WIDEST[kind]
    for each in predicates:
        match each.operator:
            case Operator.GT | Operator.GE:
                span = span.narrowed(low=(each.operand, each.operator is Operator.GT))
            case Operator.LT | Operator.LE:
                span = span.narrowed(high=(each.operand, each.operator is Operator.LE))
            case Operator.BETWEEN:
                low, high = bounds(each)
                span = span.narrowed((low, False), (high, True))
            case Operator.PREFIX:
                prefixed = _prefix_span(_text(each))
                span = span.narrowed(prefixed.low, prefixed.high)
            case Operator.LIKE:
                prefixed = _prefix_span(literal_head(_text(each)))
                span = span.narrowed(prefixed.low, prefixed.high)
            case _:
                pass
    return span


def _prefix_span(prefix: str) -> _Span:
    """Return the range that holds exactly the strings with this prefix."""
    # The first string after them ends in the next character; the last code point has no next one.
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return _Span((prefix, False), None)
    following = ord(stem[-1]) + 1
    # Surrogates are not characters.
    successor = chr(0xE000 if following == 0xD800 else following)
    return _Span((prefix, False), (stem[:-1] + successor, False))


def _texts_contradict(predicates: Sequence[Predicate], span: _Span) -> bool:
    """Return whether a negated string predicate excludes what another predicate requires."""
    suffixes = _operands(predicates, Operator.SUFFIX)
    parts = suffixes + _operands(predicates, Operator.PREFIX) + _operands(predicates, Operator.CONTAINS)
    patterns = _operands(predicates, Operator.LIKE)
    return (
        any(span.lies_within(_prefix_span(each)) for each in _operands(predicates, Operator.NOT_PREFIX))
        or any(held.endswith(each) for each in _operands(predicates, Operator.NOT_SUFFIX) for held in suffixes)
        or any(not each.test(held) for each in predicates if each.operator is Operator.NOT_CONTAINS for held in parts)
        or any(each in patterns for each in _operands(predicates, Operator.NOT_LIKE))
        or any(not (one.endswith(other) or other.endswith(one)) for one in suffixes for other in suffixes)
    )


def _operands(predicates: Sequence[Predicate], operator: Operator) -> list[str]:
    return [_text(each) for each in predicates if each.operator is operator]


def _text(predicate: Predicate) -> str:
    assert isinstance(predicate.operand, str), predicate
    return predicate.operand
