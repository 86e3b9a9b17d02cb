"""Filters and predicates with prepared tests, for those who store many of them and evaluate them often.

Filters are plain values without caches, so that the garbage collector can ignore them. Most predicates are evaluated as
they are. A list or a pattern takes longer to prepare than to evaluate, so its test is stored here with the filter, and
goes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from octopia.content.filters import Filter
from octopia.content.operators import Test
from octopia.content.predicates import Predicate
from octopia.content.values import Value


class PreparedPredicate(msgspec.Struct, frozen=True, gc=False):
    """A predicate with its prepared test."""

    predicate: Predicate
    test: Test


AnyPredicate: TypeAlias = Predicate | PreparedPredicate


class PreparedFilter(msgspec.Struct, frozen=True, gc=False):
    """A filter with its predicates by attribute, prepared where that helps."""

    filter: Filter
    predicates: tuple[tuple[str, AnyPredicate], ...]

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """Return whether every predicate is true of a publication's attributes."""
        get = attributes.get
        for attribute, each in self.predicates:  # noqa: SIM110 (all() with a generator takes twice as long)
            if not each.test(get(attribute)):
                return False
        return True


AnyFilter: TypeAlias = Filter | PreparedFilter


def prepare(unprepared: Filter) -> AnyFilter:
    """Return a filter with prepared tests, or the filter itself if it has nothing to prepare."""
    predicates = tuple((each.attribute, prepare_predicate(each)) for each in unprepared.predicates)
    if all(isinstance(each, Predicate) for _, each in predicates):
        return unprepared
    return PreparedFilter(unprepared, predicates)


def prepare_predicate(unprepared: Predicate) -> AnyPredicate:
    """Return a predicate with a prepared test, or the predicate itself if it has nothing to prepare."""
    test = unprepared.prepared_test()
    return unprepared if test is None else PreparedPredicate(unprepared, test)


def plain(stored: AnyFilter) -> Filter:
    """Return the filter that was prepared."""
    return stored.filter if isinstance(stored, PreparedFilter) else stored
