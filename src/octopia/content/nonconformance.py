"""Explanations why a publication conforms to no advertisement of its publisher.

The sentence names the closest filter, which is the one with the fewest attributes that are undeclared or excluded, then
these attributes with what was expected of them, and the remedy. Its length is bounded, and so is the number of
advertisements that are compared: a client may send any number of such publications.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from octopia.content.doubts import types_of
from octopia.content.expressions import to_expression
from octopia.content.filters import Disjunction, Filter
from octopia.content.formatting import shorten, show_expression
from octopia.content.literals import format_name, show_value
from octopia.content.publications import Publication
from octopia.content.values import Value, value_type

COMPARED_MAX = 100
"""The first advertisements of the publisher, among which the closest is found."""
FILTER_LENGTH_MAX = 160
PART_LENGTH_MAX = 50
PARTS_MAX = 3
"""The attributes that are named as undeclared, and as excluded."""


def explain_nonconformance(advertisements: Iterable[Disjunction], publication: Publication) -> str:
    """Return why a publication conforms to none of the advertisements, with the closest one."""
    reason = "it conforms to none of its publisher's advertisements"
    compared = list(itertools.islice(advertisements, COMPARED_MAX))
    if not compared:
        return f"{reason}: there are none; advertise before you publish"
    filters = [each for advertisement in compared for each in advertisement.filters]
    if not filters:
        return f"{reason}: they are all FALSE"
    attributes = publication.attributes
    closest = min(filters, key=lambda each: sum(map(len, _problems(each, attributes))))
    undeclared, excluded = _problems(closest, attributes)
    clauses, remedies = [], []
    if undeclared:
        clauses.append(f"does not declare {_listed([format_name(each) for each in undeclared])}")
        remedies.append(f"leave {'it' if len(undeclared) == 1 else 'them'} out")
    if excluded:
        pairs = [f"{format_name(each)} = {show_value(attributes[each])}" for each in excluded]
        clauses.append(f"excludes {_listed(pairs)}{_expectation(closest, attributes, excluded[0])}")
        remedies.append("change the value" if len(excluded) == 1 else "change the values")
    text = shorten(show_expression(to_expression(Disjunction((closest,)))), FILTER_LENGTH_MAX)
    remedy = f"{' and '.join(remedies)}, or advertise what you publish"
    return f"{reason}; the closest is ({text}), which {' and '.join(clauses)}: {remedy}"


def _expectation(declared: Filter, attributes: Mapping[str, Value], name: str) -> str:
    """Return the remark that a value is of another type than the advertisement says, or nothing."""
    failed = next(each for each in declared.by_attribute[name] if not each.test(attributes[name]))
    wanted, found = types_of(failed), value_type(attributes[name])
    if not wanted or found in wanted:
        return ""
    expected = " or ".join(f"a {each.value}" for each in wanted)
    return f" (expected {expected}, got a {found.value})"


def _problems(declared: Filter, attributes: Mapping[str, Value]) -> tuple[list[str], list[str]]:
    """Return the attributes that the filter does not declare, and those whose value it excludes."""
    predicates = declared.by_attribute
    undeclared = [name for name in attributes if name not in predicates]
    excluded = [
        name for name, value in attributes.items() if not all(each.test(value) for each in predicates.get(name, ()))
    ]
    return undeclared, excluded


def _listed(parts: Sequence[str]) -> str:
    shown = ", ".join(shorten(each, PART_LENGTH_MAX) for each in parts[:PARTS_MAX])
    return shown if len(parts) <= PARTS_MAX else f"{shown} and {len(parts) - PARTS_MAX} more"
