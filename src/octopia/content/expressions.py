"""Expressions: filters as written, with any nesting of AND, OR and NOT, and their normal form.

Evaluation follows SQL's three-valued logic. The normal form moves NOT to the leaves and distributes AND over OR.
Kleene's logic allows both steps, and the negation of a predicate is true exactly if the predicate is false. So the
normal form matches exactly the publications of which the expression is true. (It does not distinguish false from
unknown, since neither matches.) The size is checked while distributing, not afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TypeAlias, assert_never

import msgspec

from octopia.content.filters import Disjunction, Filter, check_filter_count, check_predicate_count
from octopia.content.limits import EXPRESSION_NODES_MAX, FILTER_DEPTH_MAX
from octopia.content.predicates import Predicate, negate
from octopia.content.values import Value
from octopia.errors import FilterTooLarge, InvalidFilter


class Constant(msgspec.Struct, frozen=True):
    """TRUE or FALSE as a whole condition."""

    value: bool

    def __post_init__(self) -> None:
        if type(self.value) is not bool:
            raise InvalidFilter(f"expected a bool in a constant, got {type(self.value).__qualname__}")


class Not(msgspec.Struct, frozen=True):
    """The negation of an expression."""

    operand: Expression

    def __post_init__(self) -> None:
        _check_operands((self.operand,))


class And(msgspec.Struct, frozen=True):
    """The conjunction of two or more expressions."""

    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_several(self.operands)


class Or(msgspec.Struct, frozen=True):
    """The disjunction of two or more expressions."""

    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        _check_several(self.operands)


Expression: TypeAlias = Predicate | And | Or | Not | Constant
"""A condition on publications."""

TRUE = Constant(True)
FALSE = Constant(False)


def evaluate(expression: Expression, attributes: Mapping[str, Value]) -> bool | None:
    """Return whether the expression is true of a publication's attributes; None is unknown."""
    check_size(expression)
    return _evaluate(expression, attributes)


def _evaluate(expression: Expression, attributes: Mapping[str, Value]) -> bool | None:
    match expression:
        case Predicate():
            return expression.evaluate(attributes)
        case And(operands):
            return _decide((_evaluate(each, attributes) for each in operands), deciding=False)
        case Or(operands):
            return _decide((_evaluate(each, attributes) for each in operands), deciding=True)
        case Not(operand):
            answer = _evaluate(operand, attributes)
            return None if answer is None else not answer
        case Constant(value):
            return value
        case _:
            assert_never(expression)


def _decide(answers: Iterable[bool | None], deciding: bool) -> bool | None:
    """Combine answers as AND does (one false decides) or as OR does (one true decides)."""
    combined: bool | None = not deciding
    for answer in answers:
        if answer is deciding:
            return deciding
        if answer is None:
            combined = None
    return combined


def normalise(expression: Expression) -> Disjunction:
    """Return the disjunction of filters that matches exactly if the expression is true."""
    check_size(expression)
    return Disjunction(tuple(Filter(each) for each in _distribute(expression, negated=False)))


def to_expression(interest: Disjunction) -> Expression:
    """Return a normal form as an expression."""
    return _join(Or, [_join(And, each.predicates, TRUE) for each in interest.filters], FALSE)


def check_size(expression: Expression) -> None:
    """Raise ``FilterTooLarge`` for a tree that is too deep or too large, before any recursion."""
    level: list[Expression] = [expression]
    nodes = 0
    for _ in range(FILTER_DEPTH_MAX + 1):
        nodes += len(level)
        # A subtree that occurs several times counts each time, because it would be walked each time.
        if nodes > EXPRESSION_NODES_MAX:
            raise FilterTooLarge(
                f"expected at most {EXPRESSION_NODES_MAX} nodes in an expression, got more: split the filter"
            )
        level = [below for each in level for below in _operands(each)]
        if not level:
            return
    raise FilterTooLarge(f"expected AND, OR and NOT nested at most {FILTER_DEPTH_MAX} deep, got a deeper tree")


_Conjunction: TypeAlias = tuple[Predicate, ...]
_ALWAYS: tuple[_Conjunction, ...] = ((),)
_NEVER: tuple[_Conjunction, ...] = ()


def _distribute(expression: Expression, negated: bool) -> tuple[_Conjunction, ...]:
    """Return conjunctions whose OR is true exactly if the expression is true (if negated: false)."""
    match expression:
        case Predicate():
            return tuple((each,) for each in (negate(expression) if negated else (expression,)))
        case Constant(value):
            return _NEVER if value is negated else _ALWAYS
        case Not(operand):
            return _distribute(operand, not negated)
        case And(operands) | Or(operands):
            parts = (_distribute(each, negated) for each in operands)
            # De Morgan: a negated AND is the OR of its negated operands.
            if isinstance(expression, And) is not negated:
                return functools.reduce(_product, parts, _ALWAYS)
            return _bounded(conjunction for part in parts for conjunction in part)
        case _:
            assert_never(expression)


def _product(left: tuple[_Conjunction, ...], right: tuple[_Conjunction, ...]) -> tuple[_Conjunction, ...]:
    return _bounded(tuple(dict.fromkeys(one + other)) for one in left for other in right)


def _bounded(conjunctions: Iterable[_Conjunction]) -> tuple[_Conjunction, ...]:
    """Drop repeated conjunctions, and raise ``FilterTooLarge`` at the first one beyond the limits."""
    distinct: dict[frozenset[Predicate], _Conjunction] = {}
    for conjunction in conjunctions:
        if not conjunction:
            # TRUE OR anything is TRUE, even if the rest is unknown.
            return _ALWAYS
        check_predicate_count(len(conjunction))
        distinct.setdefault(frozenset(conjunction), conjunction)
        check_filter_count(len(distinct))
    return tuple(distinct.values())


def _join(join: type[And] | type[Or], operands: Iterable[Expression], empty: Expression) -> Expression:
    several = tuple(operands)
    if len(several) > 1:
        return join(several)
    return several[0] if several else empty


def _operands(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case And(operands) | Or(operands):
            return operands
        case Not(operand):
            return (operand,)
        case _:
            return ()


def _check_several(operands: object) -> None:
    if type(operands) is not tuple or len(operands) < 2:
        raise InvalidFilter("expected a tuple of two or more operands for AND or OR, got fewer or another type")
    _check_operands(operands)


def _check_operands(operands: tuple[object, ...]) -> None:
    for each in operands:
        if not isinstance(each, Predicate | And | Or | Not | Constant):
            raise InvalidFilter(f"expected an expression below AND, OR or NOT, got {type(each).__qualname__}")
