"""Filters and disjunctions: the normal form in which interests are stored, compared and matched.

A filter is a conjunction of predicates; the empty one is TRUE. A disjunction is an OR of filters; the empty one is
FALSE. Subscriptions and advertisements are disjunctions. Both are checked against the limits when they are built,
whether they come from a text or over the wire.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from octopia.content.costs import cost_us, length_of
from octopia.content.limits import (
    DECODED_ITEMS_MAX,
    DISJUNCTION_FILTERS_MAX,
    FILTER_COST_US_MAX,
    FILTER_LENGTH_MAX,
    FILTER_PREDICATES_MAX,
)
from octopia.content.predicates import Operator, Predicate
from octopia.content.publications import Publication
from octopia.content.values import Value
from octopia.errors import FilterTooLarge

_PART_LENGTH_MAX = 60


class Filter(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A conjunction of predicates; with none it matches every publication.

    There are very many filters and they are never part of a cycle, so the garbage collector ignores them.
    """

    predicates: Annotated[tuple[Predicate, ...], Meta(max_length=DECODED_ITEMS_MAX)] = ()

    def __post_init__(self) -> None:
        check_predicate_count(len(self.predicates))
        check_cost(self.predicates)

    @property
    def cost_us(self) -> float:
        """The time of one evaluation on the worst publication, in microseconds."""
        return cost_us(self.predicates)

    @property
    def by_attribute(self) -> Mapping[str, tuple[Predicate, ...]]:
        """The predicates by attribute, in the order of the filter."""
        return group_by_attribute(self.predicates)

    @property
    def required(self) -> Mapping[str, tuple[Predicate, ...]]:
        """The predicates that require their attribute (all but ABSENT), by attribute."""
        return group_by_attribute(each for each in self.predicates if each.operator is not Operator.ABSENT)

    def attributes(self) -> tuple[str, ...]:
        """Return the distinct attributes of the filter, in its order."""
        return tuple(dict.fromkeys(each.attribute for each in self.predicates))

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """Return whether every predicate is true of a publication's attributes."""
        get = attributes.get
        for each in self.predicates:  # noqa: SIM110 (all() with a generator takes twice as long)
            if not each.operator.test(each.operand, get(each.attribute)):
                return False
        return True


class Disjunction(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """An OR of conjunctions: the whole of a filter text, in normal form. With none it matches no publication.

    This is the filter that programs see, as ``octopia.Filter``::

        wanted = octopia.Filter.parse("symbol = 'IBM' AND price > 100")
        wanted.matches({"symbol": "IBM", "price": 101})  # True
        str(wanted)  # "symbol = 'IBM' AND price > 100"
    """

    filters: Annotated[tuple[Filter, ...], Meta(max_length=DECODED_ITEMS_MAX)] = ()

    def __post_init__(self) -> None:
        check_filter_count(len(self.filters))
        # Each filter alone has been checked.
        if len(self.filters) > 1:
            check_cost([each for one in self.filters for each in one.predicates])

    @property
    def cost_us(self) -> float:
        """The time of one evaluation on the worst publication, in microseconds."""
        return sum(each.cost_us for each in self.filters)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a filter in either text form; raise ``InvalidFilter`` with the position of what is wrong."""
        from octopia.content.language import parse_filter  # The language is built on this module.

        return cls(parse_filter(text).filters)

    def __str__(self) -> str:
        """Return the normal form as SQL text."""
        from octopia.content.expressions import to_expression
        from octopia.content.formatting import show_expression

        return show_expression(to_expression(self))

    def matches(self, publication: Publication | Mapping[str, Value]) -> bool:
        """Return whether the filter is true of a publication, or of one with these attributes.

        Attributes that no publication may carry raise ``InvalidPublication``.
        """
        checked = publication if isinstance(publication, Publication) else Publication(publication)
        return any(each.matches(checked.attributes) for each in self.filters)

    def attributes(self) -> tuple[str, ...]:
        """Return the distinct attributes of all filters, in their order."""
        return tuple(dict.fromkeys(name for each in self.filters for name in each.attributes()))


def check_predicate_count(count: int) -> None:
    """Raise ``FilterTooLarge`` for more predicates than one filter may have."""
    if count > FILTER_PREDICATES_MAX:
        raise FilterTooLarge(f"expected at most {FILTER_PREDICATES_MAX} predicates in a filter, got {count}")


def check_filter_count(count: int) -> None:
    """Raise ``FilterTooLarge`` for more filters than one disjunction may have."""
    if count > DISJUNCTION_FILTERS_MAX:
        raise FilterTooLarge(f"expected at most {DISJUNCTION_FILTERS_MAX} filters in the normal form, got {count}")


def check_cost(predicates: Sequence[Predicate]) -> None:
    """Raise ``FilterTooLarge`` for all predicates of a normal form that together take too much memory or time."""
    length = length_of(predicates)
    if length > FILTER_LENGTH_MAX:
        raise FilterTooLarge(
            f"expected at most {FILTER_LENGTH_MAX} characters of names and values in the normal form, got {length}: "
            "shorten the values or split the filter"
        )
    total = cost_us(predicates)
    if total > FILTER_COST_US_MAX:
        raise FilterTooLarge(_explain_cost(total, predicates))


def _explain_cost(total: float, predicates: Sequence[Predicate]) -> str:
    from octopia.content.formatting import show_expression  # Formatting is built on this module.

    most, worst = max(((cost_us((each,)), each) for each in predicates), key=operator.itemgetter(0))
    part = show_expression(worst)
    return (
        f"expected a filter that takes at most {FILTER_COST_US_MAX} µs on any publication, got {total:.0f} µs for "
        f"{len(predicates)} predicates of the normal form, {most:.1f} µs of it for {part[:_PART_LENGTH_MAX]}: "
        "split the filter, let patterns begin without %, or remove _ from patterns that begin with %"
    )


def group_by_attribute(predicates: Iterable[Predicate]) -> dict[str, tuple[Predicate, ...]]:
    """Return predicates by attribute, in their order."""
    listed = tuple(predicates)
    grouped: dict[str, tuple[Predicate, ...]] = {each.attribute: (each,) for each in listed}
    if len(grouped) == len(listed):
        return grouped
    grouped.clear()
    for each in listed:
        grouped[each.attribute] = (*grouped.get(each.attribute, ()), each)
    return grouped
