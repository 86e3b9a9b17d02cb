"""Warnings about filters that are valid but nearly always a mistake.

Values of different types are never compared, so ``price > '100'`` is true of no publication whose price is a number.
Each warning is a sentence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from octopia.content.filters import Disjunction, Filter
from octopia.content.formatting import show_expression
from octopia.content.literals import format_name
from octopia.content.predicates import Operator, Predicate
from octopia.content.values import ValueType

_TEXT = (
    Operator.EQ,
    Operator.PREFIX,
    Operator.NOT_PREFIX,
    Operator.SUFFIX,
    Operator.NOT_SUFFIX,
    Operator.CONTAINS,
    Operator.NOT_CONTAINS,
    Operator.LIKE,
    Operator.NOT_LIKE,
)
_COMPARISONS = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)
SENTENCES_MAX = 5
"""The maximum number of warnings about one filter."""


def types_of(predicate: Predicate) -> tuple[ValueType, ...]:
    """Return the types of values that can satisfy a predicate, or none if all types can."""
    types = predicate.value_types
    return () if len(types) == len(ValueType) else types


def doubts_about(interest: Disjunction, advertisements: Iterable[Disjunction] = ()) -> list[str]:
    """Return warnings about a filter, by itself and compared with advertisements, at most ``SENTENCES_MAX``."""
    found = [*_contradictions(interest), *_stars(interest), *_other_types(interest, advertisements)]
    return list(dict.fromkeys(found))[:SENTENCES_MAX]


def _contradictions(interest: Disjunction) -> Iterator[str]:
    """Yield warnings about attributes that one conjunction compares with values of several types."""
    for each in interest.filters:
        for name, predicates in each.by_attribute.items():
            typed = [(predicate, types_of(predicate)) for predicate in predicates if types_of(predicate)]
            for (one, types), (other, others) in itertools.pairwise(typed):
                if not set(types).intersection(others):
                    yield (
                        f"{show_expression(one)} AND {show_expression(other)} is never true: it compares "
                        f"{format_name(name)} with a {types[0].value} and with a {others[0].value}"
                    )


def _stars(interest: Disjunction) -> Iterator[str]:
    """Yield warnings about patterns with a star, which is an ordinary character."""
    for each in _predicates(interest):
        if each.operator in _TEXT and "*" in str(each.operand):
            yield (
                f"{show_expression(each)} has a star, which is an ordinary character: "
                "in LIKE, % stands for any characters and _ for one"
            )


def _other_types(interest: Disjunction, advertisements: Iterable[Disjunction]) -> Iterator[str]:
    """Yield warnings about predicates whose type no advertisement of the attribute has."""
    offered = _offered(advertisements)
    for each in _predicates(interest):
        wanted, (known, offer) = types_of(each), offered.get(each.attribute, ((), None))
        if offer is not None and wanted and known and not set(wanted).intersection(known):
            yield (
                f"{show_expression(each)} compares with a {wanted[0].value}, but {format_name(each.attribute)} is a "
                f"{known[0].value} in the advertisement ({show_expression(offer)}){_rewritten(each, known[0])}"
            )


def _offered(advertisements: Iterable[Disjunction]) -> dict[str, tuple[tuple[ValueType, ...], Predicate | None]]:
    """Return the types that advertisements give each attribute, with the first predicate that does; () is any type."""
    offered: dict[str, tuple[tuple[ValueType, ...], Predicate | None]] = {}
    for filter_ in (each for advertisement in advertisements for each in advertisement.filters):
        for name, types, predicate in _declared(filter_):
            known, first = offered.get(name, (types, predicate))
            merged = tuple(dict.fromkeys((*known, *types))) if known and types else ()
            offered[name] = (merged, first)
    return offered


def _declared(filter_: Filter) -> Iterator[tuple[str, tuple[ValueType, ...], Predicate | None]]:
    for name, predicates in filter_.by_attribute.items():
        typed = [each for each in predicates if types_of(each)]
        yield name, types_of(typed[0]) if typed else (), typed[0] if typed else None


def _rewritten(predicate: Predicate, wanted: ValueType) -> str:
    """Return the remedy for a number in quotes, or nothing."""
    operand = predicate.operand
    if wanted is not ValueType.NUMBER or not isinstance(operand, str) or predicate.operator not in _COMPARISONS:
        return ""
    try:
        number = float(operand)
    except ValueError:
        return ""
    if not math.isfinite(number):
        return ""
    plain = int(number) if number.is_integer() and "." not in operand else number
    return f": write {format_name(predicate.attribute)} {predicate.operator.value} {plain}"


def _predicates(interest: Disjunction) -> Iterator[Predicate]:
    for each in interest.filters:
        yield from each.predicates
