"""Filters are untracked values; lists and patterns are prepared for those who store them."""

import gc

import pytest

from octopia.content import Disjunction, Filter, Operator, Predicate
from octopia.content.operators import recently_prepared
from octopia.content.prepared import PreparedFilter, PreparedPredicate, plain, prepare, prepare_predicate

VALUES = [None, True, False, 1, 1.0, 2, 0, 7.5, "", "a", "abc", "xbcx", "S1"]
TEXTS = [
    "x = 1",
    "x <> 'a'",
    "x BETWEEN 0 AND 2",
    "x IN (1, 2)",
    "x IN (1, 'a')",
    "x NOT IN ('a', 'abc')",
    "x LIKE 'a%c'",
    "x NOT LIKE '%b_x'",
    "x LIKE '%bc%'",
    "x NOT LIKE '%bc%'",
    "x LIKE 'S%' AND x IN ('S1', 'S2')",
    "x IS NULL",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_prepared_filter_answers_as_the_filter(text: str) -> None:
    (unprepared,) = Disjunction.parse(text).filters
    prepared = prepare(unprepared)
    assert plain(prepared) is unprepared
    for value in VALUES:
        attributes = {} if value is None else {"x": value}
        assert prepared.matches(attributes) is unprepared.matches(attributes)
        for predicate in unprepared.predicates:
            assert prepare_predicate(predicate).test(value) is predicate.test(value)


def test_only_lists_and_patterns_are_prepared() -> None:
    cheap, costly = Predicate("x", Operator.GT, 1), Predicate("x", Operator.IN, (1, 2))
    assert prepare_predicate(cheap) is cheap
    assert isinstance(prepare_predicate(costly), PreparedPredicate)
    assert prepare(Filter((cheap,))) == Filter((cheap,))
    assert isinstance(prepare(Filter((cheap, costly))), PreparedFilter)


def test_the_collector_ignores_filters() -> None:
    interest = Disjunction.parse("a = 1 AND b LIKE 'x%y' OR c IN (1, 2)")
    interest.matches({"a": 1, "b": "xy", "c": 1})
    gc.collect()
    parts = [interest, *interest.filters, *(each for one in interest.filters for each in one.predicates)]
    parts += [interest.filters, *(one.predicates for one in interest.filters)]
    assert not any(map(gc.is_tracked, parts))


def test_recent_tests_are_bounded_by_the_length_of_their_operands() -> None:
    prepared: list[str] = []

    def prepare_test(operand: str) -> object:
        prepared.append(operand)
        return lambda value: value == operand

    test = recently_prepared(prepare_test)  # type: ignore[arg-type]
    first = "a" * 40_000
    assert test(first, "b") is False
    assert test(first, first) is True
    assert prepared == [first]
    assert test("b" * 40_000, "b") is False
    assert test(first, first) is True
    assert [each[0] for each in prepared] == ["a", "b", "a"]
