"""The reason why a publication conforms to no advertisement of its publisher, for people.

The sentence names the closest filter: the one with the fewest attributes that are undeclared or excluded. Its length is
bounded, and so is the number of advertisements that are compared: a client may send any number of such publications.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from octopia.content.expressions import to_expression
from octopia.content.filters import Disjunction, Filter
from octopia.content.formatting import show_expression
from octopia.content.literals import format_name, show_value
from octopia.content.publications import Publication
from octopia.content.values import Value

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
    clauses = []
    if undeclared:
        clauses.append(f"does not declare {_listed([format_name(each) for each in undeclared])}")
    if excluded:
        pairs = [f"{format_name(each)} = {show_value(attributes[each])}" for each in excluded]
        clauses.append(f"excludes {_listed(pairs)}")
    text = _cut(show_expression(to_expression(Disjunction((closest,)))), FILTER_LENGTH_MAX)
    return f"{reason}; the closest is ({text}), which {' and '.join(clauses)}"


def _problems(declared: Filter, attributes: Mapping[str, Value]) -> tuple[list[str], list[str]]:
    """Return the attributes that the filter does not declare, and those whose value it excludes."""
    predicates = declared.by_attribute
    undeclared = [name for name in attributes if name not in predicates]
    excluded = [
        name for name, value in attributes.items() if not all(each.test(value) for each in predicates.get(name, ()))
    ]
    return undeclared, excluded


def _listed(parts: Sequence[str]) -> str:
    shown = ", ".join(_cut(each, PART_LENGTH_MAX) for each in parts[:PARTS_MAX])
    return shown if len(parts) <= PARTS_MAX else f"{shown} and {len(parts) - PARTS_MAX} more"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
