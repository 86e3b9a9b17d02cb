"""Each operator on each type of value, in three-valued logic."""

from __future__ import annotations

import math
import pickle

import msgspec
import pytest

from octopia.content import Operator, Predicate, contains, like, negate, suffix, value_type
from octopia.content.values import ValueType
from octopia.errors import InvalidFilter

MISSING = object()


def answer(predicate: Predicate, value: object) -> bool | None:
    return predicate.evaluate({} if value is MISSING else {"x": value})


def x(operator: Operator, operand: object = None) -> Predicate:
    return Predicate("x", operator, operand)


@pytest.mark.parametrize(
    ("operator", "operand", "true", "false"),
    [
        (Operator.EQ, 5, [5, 5.0], [4, 5.1]),
        (Operator.NE, 5, [4, 5.1], [5, 5.0]),
        (Operator.LT, 5, [4, 4.9, -math.inf], [5, 5.0, 6]),
        (Operator.LE, 5, [4, 5.0], [5.1, math.inf]),
        (Operator.GT, 5, [5.1, math.inf], [5, 5.0, 4]),
        (Operator.GE, 5, [5, 6], [4.9]),
        (Operator.BETWEEN, (3, 5), [3, 4.5, 5.0], [2.9, 5.1]),
        (Operator.BETWEEN, (5, 3), [], [3, 4, 5]),
        (Operator.IN, (1, 2.0), [1, 1.0, 2], [3]),
        (Operator.NOT_IN, (1, 2.0), [3], [1, 1.0, 2]),
    ],
)
def test_numbers(operator: Operator, operand: object, true: list, false: list) -> None:
    check(x(operator, operand), true, false, unknown=["5", "", True, False, MISSING])


@pytest.mark.parametrize(
    ("operator", "operand", "true", "false"),
    [
        (Operator.EQ, "b", ["b"], ["B", "", "bb"]),
        (Operator.NE, "b", ["B", ""], ["b"]),
        (Operator.LT, "b", ["", "a", "az", "B"], ["b", "ba"]),
        (Operator.GE, "b", ["b", "ba", "é"], ["a"]),
        (Operator.BETWEEN, ("a", "b"), ["a", "azz", "b"], ["ba", ""]),
        (Operator.IN, ("a", "b"), ["a"], ["c"]),
        (Operator.PREFIX, "ab", ["ab", "abc"], ["a", "cab"]),
        (Operator.NOT_PREFIX, "ab", ["a", "cab"], ["ab", "abc"]),
        (Operator.SUFFIX, "ab", ["ab", "cab"], ["b", "abc"]),
        (Operator.NOT_SUFFIX, "ab", ["b", "abc"], ["ab", "cab"]),
        (Operator.CONTAINS, "ab", ["ab", "cabc"], ["a-b"]),
        (Operator.NOT_CONTAINS, "ab", ["a-b"], ["ab", "cabc"]),
        (Operator.LIKE, "a_%b", ["axb", "aéxb"], ["ab", "axbc"]),
        (Operator.NOT_LIKE, "a_%b", ["ab", "axbc"], ["axb"]),
        (Operator.PREFIX, "", ["", "a"], []),
        (Operator.NOT_PREFIX, "", [], ["", "a"]),
    ],
)
def test_strings(operator: Operator, operand: object, true: list, false: list) -> None:
    check(x(operator, operand), true, false, unknown=[5, 0.5, True, MISSING])


@pytest.mark.parametrize(
    ("operator", "operand", "true", "false"),
    [
        (Operator.EQ, True, [True], [False]),
        (Operator.NE, True, [False], [True]),
        (Operator.IN, (True, True), [True], [False]),
        (Operator.NOT_IN, (False,), [True], [False]),
    ],
)
def test_booleans_never_compare_with_numbers(operator: Operator, operand: object, true: list, false: list) -> None:
    check(x(operator, operand), true, false, unknown=[1, 0, 1.0, "TRUE", MISSING])


def check(predicate: Predicate, true: list, false: list, unknown: list) -> None:
    assert [answer(predicate, each) for each in true] == [True] * len(true)
    assert [answer(predicate, each) for each in false] == [False] * len(false)
    assert [answer(predicate, each) for each in unknown] == [None] * len(unknown)


def test_a_list_of_mixed_types_is_unknown_where_sql_says_so() -> None:
    mixed, negated = x(Operator.IN, (1, "a")), x(Operator.NOT_IN, (1, "a"))
    assert [answer(mixed, each) for each in (1, "a", 2, "b", True, MISSING)] == [True, True, None, None, None, None]
    assert [answer(negated, each) for each in (1, "a", 2, "b", True)] == [False, False, None, None, None]


def test_integers_and_floats_compare_exactly() -> None:
    assert answer(x(Operator.EQ, float(2**53)), 2**53 + 1) is False
    assert answer(x(Operator.GT, float(2**53)), 2**53 + 1) is True


def test_exists_and_absent_are_never_unknown() -> None:
    for value in (0, "", False, math.inf):
        assert answer(x(Operator.EXISTS), value) is True
        assert answer(x(Operator.ABSENT), value) is False
    assert answer(x(Operator.EXISTS), MISSING) is False
    assert answer(x(Operator.ABSENT), MISSING) is True


@pytest.mark.parametrize(
    ("predicate", "negation"),
    [
        (x(Operator.EQ, 5), (x(Operator.NE, 5),)),
        (x(Operator.GE, 5), (x(Operator.LT, 5),)),
        (x(Operator.GT, 5), (x(Operator.LE, 5),)),
        (x(Operator.BETWEEN, (1, 2)), (x(Operator.LT, 1), x(Operator.GT, 2))),
        (x(Operator.IN, (1, 2)), (x(Operator.NOT_IN, (1, 2)),)),
        (x(Operator.NOT_LIKE, "_a"), (x(Operator.LIKE, "_a"),)),
        (x(Operator.EXISTS), (x(Operator.ABSENT),)),
        (x(Operator.ABSENT), (x(Operator.EXISTS),)),
    ],
)
def test_negation(predicate: Predicate, negation: tuple[Predicate, ...]) -> None:
    assert negate(predicate) == negation


@pytest.mark.parametrize(
    ("pattern", "escape", "operator", "operand"),
    [
        ("abc", "", Operator.EQ, "abc"),
        ("", "", Operator.EQ, ""),
        ("a%", "", Operator.PREFIX, "a"),
        ("a%%", "", Operator.PREFIX, "a"),
        ("%a", "", Operator.SUFFIX, "a"),
        ("%a%", "", Operator.CONTAINS, "a"),
        ("%", "", Operator.PREFIX, ""),
        ("%%", "", Operator.PREFIX, ""),
        ("_", "", Operator.LIKE, "_"),
        ("a%b", "", Operator.LIKE, "a%b"),
        ("a%%b", "", Operator.LIKE, "a%b"),
        ("a\\%", "", Operator.PREFIX, "a\\"),
        ("a!%", "!", Operator.EQ, "a%"),
        ("a!%%", "!", Operator.PREFIX, "a%"),
        ("%!!_", "!", Operator.LIKE, "%!_"),
        ("!__\\", "!", Operator.LIKE, "\\__\\\\"),
        ("%%_", "%", Operator.LIKE, "\\%_"),
    ],
)
def test_like_takes_the_simplest_form(pattern: str, escape: str, operator: Operator, operand: str) -> None:
    assert like("x", pattern, escape) == x(operator, operand)
    assert like("x", pattern, escape, negated=True) == negate(x(operator, operand))[0]


def test_an_empty_suffix_or_substring_is_an_empty_prefix() -> None:
    assert suffix("x", "") == contains("x", "") == x(Operator.PREFIX, "")
    assert suffix("x", "a") == x(Operator.SUFFIX, "a")
    assert contains("x", "a") == x(Operator.CONTAINS, "a")


@pytest.mark.parametrize(
    ("operator", "operand", "sentence"),
    [
        (Operator.LT, True, "expected a number or a string in x < (booleans have no order), got TRUE"),
        (Operator.BETWEEN, (False, True), "expected a number or a string in x BETWEEN"),
        (Operator.BETWEEN, (1, "a"), "expected two bounds of one type in x BETWEEN, got number and string"),
        (Operator.BETWEEN, (1, True), "expected two bounds of one type in x BETWEEN, got number and boolean"),
        (Operator.BETWEEN, (1, 2, 3), "expected two bounds in x BETWEEN, got 3"),
        (Operator.BETWEEN, 1, "expected a tuple of values in x BETWEEN, got int"),
        (Operator.IN, (), "expected a tuple of values in x IN, got an empty tuple"),
        (Operator.IN, [1], "expected a tuple of values in x IN, got list"),
        (Operator.IN, (1, None), "expected a plain int, float, str or bool, got NoneType in x IN"),
        (Operator.EQ, (1,), "expected a plain int, float, str or bool, got tuple in x ="),
        (Operator.EQ, None, "expected a plain int, float, str or bool, got NoneType in x ="),
        (Operator.EQ, math.nan, "expected a number, got NaN in x ="),
        (Operator.EQ, 2**63, "expected a signed 64-bit integer, got 9223372036854775808 in x ="),
        (Operator.EQ, 1 << 300, "got an integer of 301 bits in x ="),
        (Operator.EQ, "\ud800", "expected valid Unicode, got the lone surrogate U+D800 in x ="),
        (Operator.LIKE, 5, "expected a string in x LIKE, got 5"),
        (Operator.PREFIX, True, "expected a string in x PREFIX, got True"),
        (Operator.SUFFIX, "", "expected a non-empty string in x SUFFIX"),
        (Operator.NOT_CONTAINS, "", "expected a non-empty string in x NOT CONTAINS"),
        (Operator.LIKE, "a%", "got one that is equivalent to PREFIX 'a'"),
        (Operator.LIKE, "a%%b", "expected the canonical pattern 'a%b' in x LIKE"),
        (Operator.LIKE, "_\\", "got the end of the pattern"),
        (Operator.EXISTS, 1, "expected no operand in x EXISTS, got 1"),
        ("=", 1, "expected an Operator, got str"),
    ],
)
def test_what_makes_no_predicate_is_refused(operator: Operator, operand: object, sentence: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        x(operator, operand)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("name", ["", "a" * 256, "\udfff", 5])
def test_what_is_no_attribute_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidFilter):
        Predicate(name, Operator.EXISTS)


def test_predicates_with_operands_of_different_types_differ() -> None:
    ones = [x(Operator.EQ, 1), x(Operator.EQ, 1.0), x(Operator.EQ, True)]
    assert len(dict.fromkeys(ones)) == 3
    assert x(Operator.IN, (1, 2)) != x(Operator.IN, (True, 2))
    assert x(Operator.IN, (1, 2)) == x(Operator.IN, (1, 2))
    assert x(Operator.IN, (1, 2)) != x(Operator.IN, (1,))
    assert [value_type(each) for each in (1, 1.0, True, "")] == [
        ValueType.NUMBER,
        ValueType.NUMBER,
        ValueType.BOOLEAN,
        ValueType.STRING,
    ]


@pytest.mark.parametrize("operand", [1, 1.0, True, "a", (1, 1.0, True, "a"), math.inf])
def test_predicates_survive_encoding_and_pickling_after_use(operand: object) -> None:
    predicate = x(Operator.IN if isinstance(operand, tuple) else Operator.EQ, operand)
    answer(predicate, 1)
    encoded = msgspec.msgpack.encode(predicate)
    assert msgspec.msgpack.decode(encoded, type=Predicate) == predicate
    assert pickle.loads(pickle.dumps(predicate)) == predicate


def test_a_bad_predicate_is_refused_when_it_is_decoded() -> None:
    encoded = msgspec.msgpack.encode({"attribute": "x", "operator": "<", "operand": True})
    with pytest.raises(InvalidFilter):
        msgspec.msgpack.decode(encoded, type=Predicate)


def test_predicates_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        x(Operator.EQ, 1).attribute = "y"
