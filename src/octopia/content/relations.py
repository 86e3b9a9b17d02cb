"""The relations that routing is made of: matches, conforms, intersects and covers.

A publication *matches* an interest if some filter of it is true of the publication. It *conforms* to an advertisement
if, for some filter of the advertisement, the filter mentions (declares) every attribute that the publication carries,
and each of its predicates on a carried attribute is true; declared attributes may be missing. The empty advertisement
filter, TRUE, declares nothing, so no publication conforms to it: a publication has at least one attribute. ``x IS
NULL`` in an advertisement says that x is not carried.

``intersects`` tells whether some publication may conform to an advertisement and match a subscription: it may say yes
wrongly, never no. ``covers`` tells whether everything that matches one interest matches another: it may say no wrongly,
never yes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from octopia.content.domains import implied, satisfiable
from octopia.content.filters import Disjunction, Filter
from octopia.content.formatting import show_expression
from octopia.content.literals import format_name, show_value
from octopia.content.predicates import Operator, Predicate, bounds, elements
from octopia.content.publications import Publication
from octopia.content.values import Value, value_type


def matches(interest: Disjunction, publication: Publication) -> bool:
    """Tell whether some filter of the interest is true of the publication."""
    get = publication.attributes.get
    # The loops of Filter.matches are repeated here because this is the innermost work of a scanning broker.
    for each in interest.filters:
        for attribute, test in each.tests:
            if not test(get(attribute)):
                break
        else:
            return True
    return False


def conforms(advertisement: Disjunction, publication: Publication) -> bool:
    """Tell whether the advertisement announces publications like this one."""
    attributes = publication.attributes
    for each in advertisement.filters:  # noqa: SIM110 (a generator costs as much as the rest)
        if _announces(each, attributes):
            return True
    return False


def intersects(advertisement: Disjunction, subscription: Disjunction) -> bool:
    """Tell whether a publication may conform to the advertisement and match the subscription; never wrongly no."""
    return any(_may_meet(declared, wanted) for wanted in subscription.filters for declared in advertisement.filters)


def covers(wide: Disjunction, narrow: Disjunction) -> bool:
    """Tell whether every publication that matches ``narrow`` matches ``wide``; never wrongly yes."""
    return all(_impossible(each) or any(_implies(each, other) for other in wide.filters) for each in narrow.filters)


class Mismatch(msgspec.Struct, frozen=True):
    """Why one filter of an interest does not match: its first predicate that is not true, and the reason."""

    filter_number: int
    predicate: Predicate
    answer: bool | None
    reason: str

    def __str__(self) -> str:
        answer = "unknown" if self.answer is None else "false"
        return f"{show_expression(self.predicate)} is {answer}: {self.reason}"


def explain_mismatch(interest: Disjunction, publication: Publication) -> tuple[Mismatch, ...]:
    """Say for each filter why it does not match; nothing is said of filters that do, and FALSE has no filters."""
    return tuple(
        _explain(number, each, publication)
        for number, each in enumerate(interest.filters)
        if not each.matches(publication.attributes)
    )


def _announces(declared: Filter, attributes: Mapping[str, Value]) -> bool:
    tests = declared.tests_by_attribute
    for name, value in attributes.items():
        asked = tests.get(name)
        if asked is None:
            return False
        for test in asked:
            if not test(value):
                return False
    return True


def _may_meet(declared: Filter, wanted: Filter) -> bool:
    """Look at each attribute that is wanted; those that need not be there can always be left out."""
    by_attribute = declared.by_attribute
    for attribute, predicates in wanted.required.items():
        promised = by_attribute.get(attribute)
        if promised is None:
            return False
        if len(promised) == len(predicates) == 1:
            answer = _answer_at_once(promised[0], predicates[0])
            if answer is not None:
                if answer:
                    continue
                return False
        # "Absent" never says no, not even where an advertisement says it of what is wanted.
        values = tuple(each for each in promised if each.operator is not Operator.ABSENT)
        if not satisfiable(values + predicates):
            return False
    return True


def _answer_at_once(one: Predicate, other: Predicate) -> bool | None:
    """Tell whether a value satisfies two predicates that most filters are made of; None for all others.

    Brokers ask this of every subscription and many advertisements, so that ranges and lists are not left to the
    general reasoning about domains, which takes ten times as long.
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


@functools.lru_cache(maxsize=4096)
def _texts(listed: tuple[Value, ...]) -> frozenset[str] | None:
    """Return what IN lists if that is nothing but strings."""
    texts = [each for each in listed if isinstance(each, str)]
    return frozenset(texts) if len(texts) == len(listed) else None


def _impossible(narrow: Filter) -> bool:
    """Tell whether the filter can match nothing, where that is certain."""
    # ABSENT beside a predicate that needs the attribute is found unsatisfiable, since it is false of every value.
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
