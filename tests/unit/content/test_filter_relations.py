"""matches, conforms, intersects, covers and explanations, example by example."""

from __future__ import annotations

import math

import pytest

from octopia.content import (
    Disjunction,
    Filter,
    Operator,
    Predicate,
    Publication,
    conforms,
    covers,
    explain_mismatch,
    intersects,
    matches,
    parse_filter,
)

STOCK = {"symbol": "IBM", "price": 12.5, "volume": 100}


@pytest.mark.parametrize(
    ("interest", "attributes", "expected"),
    [
        ("TRUE", {"x": 1}, True),
        ("FALSE", {"x": 1}, False),
        ("symbol = 'IBM' AND price > 10", STOCK, True),
        ("symbol = 'IBM' AND price > 100", STOCK, False),
        ("price > 100 OR volume = 100", STOCK, True),
        ("price > 10 AND price < 12", STOCK, False),
        ("price <> 'IBM'", STOCK, False),
        ("colour IS NULL", STOCK, True),
        ("colour IS NOT NULL", STOCK, False),
        ("colour <> 'red'", STOCK, False),
        ("x BETWEEN 5 AND 3", {"x": 4}, False),
        ("x = 1", {"x": True}, False),
        ("x = TRUE", {"x": 1}, False),
        ("x = 1", {"x": 1.0}, True),
        ("x < 'b'", {"x": "B"}, True),
        ('"odd name" = 1', {"odd name": 1}, True),
        ("a.b = 1", {"a.b": 1}, True),
        ("A = 1", {"a": 1}, False),
    ],
)
def test_matches(interest: str, attributes: dict, expected: bool) -> None:
    assert matches(parse_filter(interest), Publication(attributes)) is expected


@pytest.mark.parametrize(
    ("advertisement", "attributes", "expected"),
    [
        ("symbol = 'IBM' AND price > 0", {"symbol": "IBM", "price": 1}, True),
        ("symbol = 'IBM' AND price > 0", {"symbol": "IBM"}, True),
        ("symbol = 'IBM' AND price > 0", {"symbol": "IBM", "price": 0}, False),
        ("symbol = 'IBM' AND price > 0", {"symbol": "IBM", "price": "1"}, False),
        ("symbol = 'IBM' AND price > 0", {"symbol": "IBM", "colour": "red"}, False),
        ("price > 0 AND price < 10", {"price": 20}, False),
        ("x IS NOT NULL", {"x": "anything"}, True),
        ("x IS NOT NULL", {"y": 1}, False),
        ("x IS NULL AND y > 0", {"x": 1, "y": 1}, False),
        ("x IS NULL AND y > 0", {"y": 1}, True),
        ("x > 0 OR y > 0", {"y": 1}, True),
        ("x > 0 OR y > 0", {"x": 1, "y": 1}, False),
        ("TRUE", {"x": 1}, False),
        ("FALSE", {"x": 1}, False),
    ],
)
def test_conforms(advertisement: str, attributes: dict, expected: bool) -> None:
    assert conforms(parse_filter(advertisement), Publication(attributes)) is expected


@pytest.mark.parametrize(
    ("advertisement", "subscription", "expected"),
    [
        ("symbol = 'IBM' AND price > 0", "price > 100", True),
        ("symbol = 'IBM' AND price > 0", "symbol = 'XOM'", False),
        ("symbol = 'IBM' AND price > 0", "volume > 1", False),
        ("symbol = 'IBM' AND price > 0", "price > 100 AND volume > 1", False),
        ("symbol = 'IBM' AND price > 0", "price > 100 OR volume > 1", True),
        ("symbol = 'IBM' AND price > 0", "TRUE", True),
        ("symbol = 'IBM' AND price > 0", "FALSE", False),
        ("x > 5", "x = 'a'", False),
        ("x > 5", "x = 5", False),
        ("x >= 5", "x = 5.0", True),
        ("x > 5", "x < 5", False),
        ("x > 3", "x < 4", True),
        ("x >= 5", "x <= 5", True),
        ("x >= 5", "x <= 5 AND x <> 5", False),
        ("x >= 5 AND x <= 5", "x NOT IN (5)", False),
        ("x > 5", "x BETWEEN 1 AND 5", False),
        ("x > 5", "x BETWEEN 9 AND 7", False),
        ("x IN (1, 2)", "x IN (2, 3)", True),
        ("x IN (1, 2)", "x IN (3, '1')", False),
        ("x IN (1, 2)", "x > 2", False),
        ("x IN (1, 'b')", "x > 'a'", True),
        ("x = 1", "x = TRUE", False),
        ("x = TRUE", "x <> TRUE", False),
        ("x <> TRUE", "x <> FALSE", False),
        ("x <> TRUE", "x IS NOT NULL", True),
        ("x > 5", "x <> 'a'", False),
        ("x > 5", "x NOT IN (1, 'a')", False),
        ("x > 'b'", "x < 'a'", False),
        ("x > 'a'", "x <= 'b'", True),
        ("x < ''", "x IS NOT NULL", False),
        ("x LIKE 'ab%'", "x = 'abc'", True),
        ("x LIKE 'ab%'", "x = 'b'", False),
        ("x LIKE 'ab%'", "x LIKE 'abc%'", True),
        ("x LIKE 'ab%'", "x LIKE 'ac%'", False),
        ("x LIKE 'ab%'", "x >= 'ac'", False),
        ("x LIKE 'ab%'", "x > 'abz'", True),
        ("x LIKE 'ab%'", "x BETWEEN 'a' AND 'aa'", False),
        ("x LIKE 'ab%'", "x NOT LIKE 'a%'", False),
        ("x LIKE 'ab%'", "x LIKE 'ac_d%'", False),
        ("x LIKE '%a'", "x LIKE '%b'", False),
        ("x LIKE '%ba'", "x LIKE '%a'", True),
        ("x LIKE '%a'", "x LIKE 'b%'", True),
        ("x LIKE 'ab%'", "x NOT LIKE '%b%'", False),
        ("x LIKE 'a%'", "x > 5", False),
        ("x IS NOT NULL", "x LIKE 'a%'", True),
        ("x IS NOT NULL", "x = TRUE", True),
        ("x IS NULL", "x > 5", True),
        ("x IS NULL AND y > 0", "y > 0", True),
        ("x > 0", "y IS NULL", True),
        ("x > 0", "x IS NULL", True),
        ("x > 0 AND y < 0", "x > 1 AND y IS NULL", True),
        ("x > 0", "x IS NULL AND x > 5", True),
        ("x > 0 OR y > 0", "y > 5", True),
        ("x > 0 OR y > 0", "x > 0 AND y > 0", False),
        ("x > 1 AND y = 1 AND y = 2", "x > 5", True),
        ("TRUE", "x > 5", False),
    ],
)
def test_intersects(advertisement: str, subscription: str, expected: bool) -> None:
    assert intersects(parse_filter(advertisement), parse_filter(subscription)) is expected


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("x > 5", "x > 6", True),
        ("x > 6", "x > 5", False),
        ("x >= 5", "x > 5", True),
        ("x > 5", "x >= 5", False),
        ("x > 5", "x > 6 AND y = 1", True),
        ("x > 5 AND y = 1", "x > 6", False),
        ("x <> 5", "x > 5", True),
        ("x <> 5", "x = 'a'", False),
        ("x <> 5", "y = 1", False),
        ("x > 5", "x IN (6, 7)", True),
        ("x > 5", "x IN (6, 'a')", False),
        ("x IN (1, 2, 'a')", "x = 1 OR x = 'a'", True),
        ("x IN (1, 'a')", "x IN ('a', 1.0)", True),
        ("x IN (1, 'a')", "x BETWEEN 1 AND 2", False),
        ("x IN (1, 'a')", "x BETWEEN 1 AND 1", True),
        ("x NOT IN (1, 2)", "x > 2", True),
        ("x NOT IN (1, 'a')", "x > 2", False),
        ("x BETWEEN 1 AND 9", "x > 2 AND x < 8", True),
        ("x BETWEEN 1 AND 9", "x > 2", False),
        ("x = TRUE", "x <> FALSE", True),
        ("x = 1", "x = TRUE", False),
        ("x LIKE 'a%'", "x LIKE 'ab%'", True),
        ("x LIKE 'ab%'", "x LIKE 'a%'", False),
        ("x LIKE 'a%'", "x BETWEEN 'ab' AND 'ac'", True),
        ("x LIKE '%b'", "x LIKE '%ab'", True),
        ("x LIKE '%b%'", "x LIKE 'abc%'", True),
        ("x LIKE 'a%'", "x LIKE 'a_c'", True),
        ("x LIKE 'a_c'", "x LIKE 'a_c' AND y = 1", True),
        ("x LIKE '%'", "x > 'a'", True),
        ("x LIKE '%'", "x > 1", False),
        ("x NOT LIKE 'a%'", "x LIKE 'b%'", True),
        ("x IS NOT NULL", "x <> 1", True),
        ("x IS NOT NULL", "y = 1", False),
        ("x IS NULL", "y = 1", False),
        ("x IS NULL", "x IS NULL AND y = 1", True),
        ("x IS NULL", "x = 1", False),
        ("x = 1", "x IS NULL", False),
        ("TRUE", "x = 1", True),
        ("x = 1", "TRUE", False),
        ("FALSE", "FALSE", True),
        ("FALSE", "x = 1", False),
        ("y = 1", "x = 1 AND x = 2", True),
        ("y = 1", "x IS NULL AND x > 2", True),
        ("y = 1", "x BETWEEN 5 AND 3", True),
        ("x > 5 OR x < 0", "x > 6 OR x < -1", True),
        ("x > 5 OR x < 0", "x > 6 OR x = 3", False),
    ],
)
def test_covers(wide: str, narrow: str, expected: bool) -> None:
    assert covers(parse_filter(wide), parse_filter(narrow)) is expected


def test_infinities_are_numbers_in_filters_built_by_hand() -> None:
    below = Disjunction((Filter((Predicate("x", Operator.LT, math.inf),)),))
    beyond = Disjunction((Filter((Predicate("x", Operator.GT, math.inf),)),))
    assert matches(below, Publication({"x": 1e308}))
    assert not matches(below, Publication({"x": math.inf}))
    assert not intersects(parse_filter("x > 0"), beyond)
    assert covers(parse_filter("y = 1"), beyond)


def test_prefixes_at_the_ends_of_unicode() -> None:
    def prefixed(text: str) -> Disjunction:
        return Disjunction((Filter((Predicate("x", Operator.PREFIX, text),)),))

    assert not intersects(prefixed("\ud7ff"), parse_filter("x >= '\ue000'"))
    assert not intersects(parse_filter("x >= '\ud7ff' AND x < '\ue000'"), parse_filter("x NOT LIKE '\ud7ff%'"))
    assert intersects(prefixed("\ud7ff"), parse_filter("x > '\ud7ff\U0010ffff'"))
    assert intersects(prefixed("\U0010ffff"), parse_filter("x > '\U0010ffff\U0010ffff'"))
    assert not intersects(prefixed("a\U0010ffff"), parse_filter("x >= 'b'"))


@pytest.mark.parametrize(
    ("interest", "sentences"),
    [
        ("price > 100", ["price > 100 is false: price is 12.5"]),
        ("symbol = 'IBM' AND price > 100 AND volume = 0", ["price > 100 is false: price is 12.5"]),
        ("rating >= 1", ["rating >= 1 is unknown: the publication has no rating"]),
        ("symbol > 5", ["symbol > 5 is unknown: symbol is 'IBM', a string"]),
        ("price LIKE 'a%'", ["price LIKE 'a%' is unknown: price is 12.5, a number"]),
        ("rating IS NOT NULL", ["rating IS NOT NULL is false: the publication has no rating"]),
        ("price IS NULL", ["price IS NULL is false: price is 12.5"]),
        ("price > 100 OR volume < 5", ["price > 100 is false: price is 12.5", "volume < 5 is false: volume is 100"]),
        ("price > 10", []),
        ("price > 100 OR volume = 100", ["price > 100 is false: price is 12.5"]),
        ("FALSE", []),
    ],
)
def test_explanations(interest: str, sentences: list[str]) -> None:
    assert [str(each) for each in explain_mismatch(parse_filter(interest), Publication(STOCK))] == sentences


def test_an_explanation_names_its_filter_and_takes_infinities() -> None:
    interest = Disjunction((Filter(), Filter((Predicate("price", Operator.GE, math.inf),))))
    (mismatch,) = explain_mismatch(interest, Publication(STOCK))
    assert mismatch.filter_number == 1
    assert mismatch.answer is False
    assert str(mismatch) == "price >= inf is false: price is 12.5"
