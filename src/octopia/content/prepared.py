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


class PreparedFilter(msgspec.Struct, frozen=True, gc=False):
    """A filter with the test of each predicate."""

    filter: Filter
    tests: tuple[tuple[str, Test], ...]

    def matches(self, attributes: Mapping[str, Value]) -> bool:
        """Return whether every predicate is true of a publication's attributes."""
        get = attributes.get
        for attribute, test in self.tests:  # noqa: SIM110 (all() with a generator takes twice as long)
            if not test(get(attribute)):
                return False
        return True


AnyFilter: TypeAlias = Filter | PreparedFilter
AnyPredicate: TypeAlias = Predicate | PreparedPredicate


def prepare(unprepared: Filter) -> AnyFilter:
    """Return a filter with prepared tests, or the filter itself if it has nothing to prepare."""
    tests = [each.prepared_test() for each in unprepared.predicates]
    if not any(tests):
        return unprepared
    pairs = zip(unprepared.predicates, tests, strict=True)
    return PreparedFilter(unprepared, tuple((each.attribute, test or each.test) for each, test in pairs))


def prepare_predicate(unprepared: Predicate) -> AnyPredicate:
    """Return a predicate with a prepared test, or the predicate itself if it has nothing to prepare."""
    test = unprepared.prepared_test()
    return unprepared if test is None else PreparedPredicate(unprepared, test)


def plain(stored: AnyFilter) -> Filter:
    """Return the filter that was prepared."""
    return stored.filter if isinstance(stored, PreparedFilter) else stored
