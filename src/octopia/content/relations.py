"""The relations that routing uses: matches, conforms, intersects and covers.

A publication *matches* an interest if some filter of the interest is true of it. It *conforms* to an advertisement if
some filter of the advertisement mentions (declares) every attribute that the publication carries, and each predicate of
that filter on a carried attribute is true; declared attributes may be missing. The empty advertisement filter, TRUE,
declares nothing, so no publication conforms to it: a publication has at least one attribute. ``x IS NULL`` in an
advertisement means that x is not carried.

An advertisement *intersects* a subscription if some publication may conform to the one and match the other; a yes may
be wrong, a no is always right. An interest *covers* another if every publication that matches the other matches it; a
no may be wrong, a yes is always right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from octopia.content.domains import implied, satisfiable
from octopia.content.filters import Disjunction, Filter, check_filter_count
from octopia.content.formatting import show_expression
from octopia.content.literals import format_name, show_value
from octopia.content.predicates import Operator, Predicate, bounds, elements
from octopia.content.publications import Publication
from octopia.content.values import Value, value_type

_TEXTS_MAX = 1024
"""The number of lists of strings that are cached as sets."""


def matches(interest: Disjunction, publication: Publication) -> bool:
    """Return whether some filter of the interest is true of the publication."""
    get = publication.attributes.get
    # The loop of Filter.matches is repeated here because this is the innermost loop of a scanning matcher.
    for each in interest.filters:
        for predicate in each.predicates:
            if not predicate.operator.test(predicate.operand, get(predicate.attribute)):
                break
        else:
            return True
    return False


def conforms(advertisement: Disjunction, publication: Publication) -> bool:
    """Return whether the publication conforms to the advertisement."""
    attributes = publication.attributes
    for each in advertisement.filters:  # noqa: SIM110 (a generator costs as much as the rest)
        if _announces(each, attributes):
            return True
    return False


def intersects(advertisement: Disjunction, subscription: Disjunction) -> bool:
    """Return whether a publication may conform to the advertisement and match the subscription."""
    return intersection_with(subscription)(advertisement)


def intersection_with(subscription: Disjunction) -> Callable[[Disjunction], bool]:
    """Return a function that returns whether an advertisement intersects the subscription, for many advertisements."""
    wanted = [each.required for each in subscription.filters]

    def intersects_it(advertisement: Disjunction) -> bool:
        for declared in advertisement.filters:
            promised = declared.by_attribute
            for required in wanted:
                if _may_meet(promised, required):
                    return True
        return False

    return intersects_it


def covers(wide: Disjunction, narrow: Disjunction) -> bool:
    """Return whether every publication that matches ``narrow`` certainly matches ``wide``."""
    return all(_impossible(each) or any(_implies(each, other) for other in wide.filters) for each in narrow.filters)


def conjoin(one: Disjunction, other: Disjunction) -> Disjunction:
    """Return the filter that matches exactly what both match; raise ``FilterTooLarge`` if it is beyond the limits."""
    check_filter_count(len(one.filters) * len(other.filters))
    return Disjunction(
        tuple([Filter((*each.predicates, *more.predicates)) for each in one.filters for more in other.filters])
    )


class Mismatch(msgspec.Struct, frozen=True):
    """The reason why one filter of an interest does not match: its first predicate that is not true."""

    filter_number: int
    predicate: Predicate
    answer: bool | None
    reason: str

    def __str__(self) -> str:
        answer = "unknown" if self.answer is None else "false"
        return f"{show_expression(self.predicate)} is {answer}: {self.reason}"


def explain_mismatch(interest: Disjunction, publication: Publication) -> tuple[Mismatch, ...]:
    """Return the reason for each filter that does not match; FALSE has no filters, so it has no reasons."""
    return tuple(
        _explain(number, each, publication)
        for number, each in enumerate(interest.filters)
        if not each.matches(publication.attributes)
    )


def explain_filter(failed: Filter, publication: Publication) -> tuple[Mismatch, ...]:
    """Return the reason for each predicate of a filter that is not true."""
    attributes = publication.attributes
    answers = [(each, each.evaluate(attributes)) for each in failed.predicates]
    return tuple(Mismatch(0, each, answer, _reason(each, answer, attributes)) for each, answer in answers if not answer)


def _announces(declared: Filter, attributes: Mapping[str, Value]) -> bool:
    mentioned: dict[str, None] = {}
    for each in declared.predicates:
        value = attributes.get(each.attribute)
        if value is not None:
            if not each.operator.test(each.operand, value):
                return False
            mentioned[each.attribute] = None
    return len(mentioned) == len(attributes)


_Predicates: TypeAlias = Mapping[str, tuple[Predicate, ...]]
"""The predicates of a filter by attribute."""


def _may_meet(declared: _Predicates, required: _Predicates) -> bool:
    """Return whether every required attribute is declared with a value that may satisfy it."""
    for attribute, predicates in required.items():
        promised = declared.get(attribute)
        if promised is None:
            return False
        if len(promised) == len(predicates) == 1:
            answer = _answer_at_once(promised[0], predicates[0])
            if answer is not None:
                if answer:
                    continue
                return False
        # ABSENT in an advertisement never excludes an attribute here.
        values = tuple(each for each in promised if each.operator is not Operator.ABSENT)
        if not satisfiable(values + predicates):
            return False
    return True


def _answer_at_once(one: Predicate, other: Predicate) -> bool | None:
    """Return whether a value satisfies two predicates of common kinds, ranges and lists; None for other kinds.

    Brokers compare every subscription with many advertisements, and the general method (``domains``) takes ten times as
    long.
    """
    if one.operator is Operator.BETWEEN and other.operator is Operator.BETWEEN:
        low: Any
        low2: Any
        (low, high), (low2, high2) = bounds(one), bounds(other)
        if (type(low) is str) is not (type(low2) is str):
            return False
        return bool(low <= high and low2 <= high2 and low <= high2 and low2 <= high)
    if one.operator is Operator.IN and other.operator is Operator.IN:
        texts, texts2 = _texts(elements(one)), _texts(elements(other))
        return None if texts is None or texts2 is None else not texts.isdisjoint(texts2)
    return None


@functools.lru_cache(maxsize=_TEXTS_MAX)
def _texts(values: tuple[Value, ...]) -> frozenset[str] | None:
    """Return a list of strings as a set, or None for a list with other values."""
    texts = frozenset([each for each in values if isinstance(each, str)])
    return texts if all(isinstance(each, str) for each in values) else None


def _impossible(narrow: Filter) -> bool:
    """Return whether the filter certainly matches nothing."""
    # ABSENT with a predicate that requires the attribute is unsatisfiable, since it is false of every value.
    return any(not satisfiable(narrow.by_attribute[attribute]) for attribute in narrow.required)


def _implies(narrow: Filter, wide: Filter) -> bool:
    return all(_implies_predicate(narrow, each) for each in wide.predicates)


def _implies_predicate(narrow: Filter, predicate: Predicate) -> bool:
    given = narrow.by_attribute.get(predicate.attribute, ())
    if predicate.operator is Operator.ABSENT:
        return predicate in given
    return predicate.attribute in narrow.required and implied(predicate, given)


def _explain(number: int, failed: Filter, publication: Publication) -> Mismatch:
    attributes = publication.attributes
    predicate = next(each for each in failed.predicates if not each.evaluate(attributes))
    answer = predicate.evaluate(attributes)
    return Mismatch(number, predicate, answer, _reason(predicate, answer, attributes))


def _reason(predicate: Predicate, answer: bool | None, attributes: Mapping[str, Value]) -> str:
    name = format_name(predicate.attribute)
    if predicate.attribute not in attributes:
        return f"the publication has no {name}"
    value = attributes[predicate.attribute]
    if answer is None:
        return f"{name} is {show_value(value)}, a {value_type(value).value}"
    return f"{name} is {show_value(value)}"
