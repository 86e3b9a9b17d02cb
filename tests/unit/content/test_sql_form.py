"""The SQL form: its meaning, its printed form and its errors."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from octopia.content import (
    FALSE,
    TRUE,
    And,
    Expression,
    Not,
    Operator,
    Or,
    Predicate,
    format_expression,
    like,
    parse_expression,
)
from octopia.errors import FilterTooLarge, InvalidFilter


def p(name: str, operator: Operator = Operator.EQ, operand: object = 1) -> Predicate:
    return Predicate(name, operator, operand)


A, B, C = p("a"), p("b"), p("c")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1", A),
        ("a=1", A),
        ("\n a\t=\r\n1\f", A),
        ("a <> 1", p("a", Operator.NE)),
        ("a < 1", p("a", Operator.LT)),
        ("a <= 1", p("a", Operator.LE)),
        ("a > 1", p("a", Operator.GT)),
        ("a >= 1", p("a", Operator.GE)),
        ("a<-1", p("a", Operator.LT, -1)),
        ("a BETWEEN 1 AND 2 AND b = 1", And((p("a", Operator.BETWEEN, (1, 2)), B))),
        ("a NOT BETWEEN 1 AND 2", Not(p("a", Operator.BETWEEN, (1, 2)))),
        ("a in (1, 'x', tRuE)", p("a", Operator.IN, (1, "x", True))),
        ("a NOT IN (1)", p("a", Operator.NOT_IN, (1,))),
        ("NOT a IN (1)", Not(p("a", Operator.IN, (1,)))),
        ("a LIKE 'x%'", p("a", Operator.PREFIX, "x")),
        ("a NOT LIKE '%x'", p("a", Operator.NOT_SUFFIX, "x")),
        ("a LIKE 'x!%%' ESCAPE '!'", p("a", Operator.PREFIX, "x%")),
        ("a NOT LIKE 'x_' ESCAPE ''''", p("a", Operator.NOT_LIKE, "x_")),
        ("a IS NULL", p("a", Operator.ABSENT, None)),
        ("a is not null", p("a", Operator.EXISTS, None)),
        ("TRUE", TRUE),
        ("false", FALSE),
        ("a = FALSE", p("a", operand=False)),
        ("a = 1 AND b = 1 AND c = 1", And((A, B, C))),
        ("(a = 1 AND b = 1) AND c = 1", And((And((A, B)), C))),
        ("a = 1 AND (b = 1 AND c = 1)", And((A, And((B, C))))),
        ("a = 1 OR b = 1 AND c = 1", Or((A, And((B, C))))),
        ("(a = 1 OR b = 1) AND c = 1", And((Or((A, B)), C))),
        ("NOT a = 1 AND b = 1", And((Not(A), B))),
        ("NOT (a = 1 AND b = 1)", Not(And((A, B)))),
        ("NOT NOT a = 1", Not(Not(A))),
        ("((a = 1))", A),
        ("Price.Of.Day = 1", p("Price.Of.Day")),
        ('"and" = 1', p("and")),
        ('"two words" = 1', p("two words")),
        ('"a ""quote""" = 1', p('a "quote"')),
        ("order_by = 1", p("order_by")),
        ("nothing = 1", p("nothing")),
        ("and.b = 1", p("and.b")),
    ],
)
def test_what_texts_mean(text: str, tree: Expression) -> None:
    assert parse_expression(text) == tree
    assert parse_expression(format_expression(tree)) == tree


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0", 0),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.0", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e-3", -0.0015),
        ("1E300", 1e300),
        ("2e0", 2.0),
        ("-0.0", -0.0),
        ("1e-999", 0.0),
        ("''", ""),
        ("'it''s'", "it's"),
        ("'two\nlines'", "two\nlines"),
        ("'\U0001f419'", "\U0001f419"),
        ("'\"'", '"'),
        ("TRUE", True),
    ],
)
def test_literals(literal: str, value: object) -> None:
    predicate = parse_expression(f"x = {literal}")
    assert isinstance(predicate, Predicate)
    assert (type(predicate.operand), repr(predicate.operand)) == (type(value), repr(value))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (And((And((A, B)), C)), "(a = 1 AND b = 1) AND c = 1"),
        (Or((Or((A, B)), C)), "(a = 1 OR b = 1) OR c = 1"),
        (Or((And((A, B)), C)), "a = 1 AND b = 1 OR c = 1"),
        (And((Or((A, B)), Not(C))), "(a = 1 OR b = 1) AND NOT c = 1"),
        (Not(Not(A)), "NOT NOT a = 1"),
        (Not(TRUE), "NOT TRUE"),
        (Not(p("a", Operator.BETWEEN, (1, 2.0))), "a NOT BETWEEN 1 AND 2.0"),
        (Not(Not(p("a", Operator.BETWEEN, (1, 2)))), "NOT a NOT BETWEEN 1 AND 2"),
        (Not(p("a", Operator.IN, (1, 2))), "NOT a IN (1, 2)"),
        (p("a", Operator.NOT_IN, ("x", True)), "a NOT IN ('x', TRUE)"),
        (p("a", Operator.PREFIX, ""), "a LIKE '%'"),
        (p("a", Operator.SUFFIX, "50%"), "a LIKE '%50\\%' ESCAPE '\\'"),
        (p("a", Operator.NOT_CONTAINS, "x\\y"), "a NOT LIKE '%x\\y%'"),
        (p("a", Operator.PREFIX, "\\_"), "a LIKE '\\\\\\_%' ESCAPE '\\'"),
        (like("a", "_!_\\", "!"), "a LIKE '_\\_\\\\' ESCAPE '\\'"),
        (like("a", "_\\"), "a LIKE '_\\'"),
        (p("Null", operand="it's"), "\"Null\" = 'it''s'"),
        (p('a"b', operand=1e300), '"a""b" = 1e+300'),
    ],
)
def test_how_trees_are_printed(tree: Expression, text: str) -> None:
    assert format_expression(tree) == text
    assert parse_expression(text) == tree


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_infinities_have_no_literal(infinity: float) -> None:
    with pytest.raises(InvalidFilter, match="infinities cannot be written"):
        format_expression(p("x", Operator.LT, infinity))
    with pytest.raises(InvalidFilter, match="infinities cannot be written"):
        format_expression(p("x", Operator.IN, (1, infinity)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price >", "expected a value after >, got the end of the text at position 7\n  price >\n         ^"),
        (
            "price > 100 symbol = 'IBM'",
            "expected AND, OR or the end of the text after 100, got symbol at position 12\n"
            "  price > 100 symbol = 'IBM'\n"
            "              ^",
        ),
        (
            "a = 1 AND\nb > AND c = 1",
            "expected a value after >, got AND at position 14\n  b > AND c = 1\n      ^",
        ),
    ],
)
def test_errors_have_a_caret(text: str, message: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_expression(text)
    assert str(caught.value) == message


OPERATORS = "an operator (=, <>, <, <=, >, >=, BETWEEN, IN, LIKE, IS)"


@pytest.mark.parametrize(
    ("text", "sentence", "position"),
    [
        ("", "expected a condition, got the end of the text at position 0", 0),
        ("  ", "expected a condition, got the end of the text at position 2", 2),
        ("price", f"expected {OPERATORS} after price, got the end of the text at position 5", 5),
        ("price ! 5", f"expected {OPERATORS} after price, got ! at position 6", 6),
        ("x\u00a0= 5", f"expected {OPERATORS} after x, got the character U+00A0 at position 1", 1),
        ("5 < x", "expected a condition, got 5 at position 0", 0),
        ("x = 1 AND", "expected a condition after AND, got the end of the text at position 9", 9),
        ("x == 1", "expected a value after =, got = at position 3: write = instead of ==", 3),
        ("x NOT 5", "expected BETWEEN, IN or LIKE after NOT, got 5 at position 6", 6),
        ("x IS 5", "expected NULL or NOT NULL after IS, got 5 at position 5", 5),
        ("x LIKE 5", "expected a string after LIKE, got 5 at position 7", 7),
        ("x IN 5", "expected an opening parenthesis after IN, got 5 at position 5", 5),
        ("x IN ()", "expected a value after (, got ) at position 6", 6),
        ("x IN (1 2)", "expected a comma or a closing parenthesis after 1, got 2 at position 8", 8),
        ("x BETWEEN 1 OR 2", "expected AND after 1, got OR at position 12", 12),
        ("(x = 1", "expected AND, OR or a closing parenthesis after 1, got the end of the text at position 6", 6),
        ("x = 1)", "expected AND, OR or the end of the text after 1, got ) at position 5", 5),
        (
            "x LIKE 'a' x",
            "expected ESCAPE, AND, OR or the end of the text after 'a', got x at position 11",
            11,
        ),
        ("x = 'it''s", "expected a closing ' for the string that begins at position 4, got none", 4),
        ('"x = 1', 'expected a closing " for the quoted name that begins at position 0, got none', 0),
        ('"" = 1', "expected an attribute name of 1 to 255 characters, got 0 in a filter at position 0", 0),
        ("x > TRUE", "expected a number or a string in x > (booleans have no order), got TRUE at position 4", 4),
        (
            "x BETWEEN 1 AND 'a'",
            "expected two bounds of one type in x BETWEEN, got number and string at position 10",
            10,
        ),
        ("x LIKE 'a' ESCAPE ''", "expected one character after ESCAPE, got none at position 18", 18),
        ("x LIKE 'a' ESCAPE '!!'", "expected one character after ESCAPE, got 2 at position 18", 18),
        ("x LIKE '!a' ESCAPE '!'", "expected %, _ or ! after the escape character !, got a at position 19", 19),
        (
            "x = 9223372036854775808",
            "expected a signed 64-bit integer, got 9223372036854775808 at position 4",
            4,
        ),
        (
            "x = -9223372036854775809",
            "expected a signed 64-bit integer, got -9223372036854775809 at position 4",
            4,
        ),
        ("x = 1e309", "expected a number in the range of a double, got 1e309 at position 4", 4),
        ("x = '\ud800'", "expected valid Unicode, got the lone surrogate U+D800 at position 5", None),
    ],
)
def test_errors_say_what_was_expected_and_what_came(text: str, sentence: str, position: int | None) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_expression(text)
    assert caught.value.sentence == sentence
    assert caught.value.position == position
    assert type(caught.value) is InvalidFilter


def test_errors_list_what_could_have_stood_there() -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_expression("x IS 5")
    assert caught.value.expected == ("NULL", "NOT NULL")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="expected a filter as a str, got bytes"):
        parse_expression(b"x = 1")


def refused_as_too_large(text: str) -> str:
    with pytest.raises(FilterTooLarge) as caught:
        parse_expression(text)
    return caught.value.sentence


def test_the_limit_on_bytes() -> None:
    text = "x = '" + "é" * 2045 + "'"
    assert len(text.encode()) == 4096
    assert parse_expression(text) == p("x", operand="é" * 2045)
    assert refused_as_too_large(text + " ") == "expected a filter of at most 4096 bytes, got 4097"
    assert refused_as_too_large("x" * 10**6) == "expected a filter of at most 4096 bytes, got 1000000"


def test_the_limit_on_tokens() -> None:
    text = "TRUE" + " AND TRUE" * 98 + " AND NOT TRUE"
    assert len(text.split()) == 200
    assert isinstance(parse_expression(text), And)
    longer = text.replace("AND NOT", "AND NOT NOT")
    assert refused_as_too_large(longer) == f"expected at most 200 tokens, got one more at position {len(longer) - 4}"


def test_the_limit_on_parentheses() -> None:
    assert parse_expression("(" * 32 + "a IN (1)" + ")" * 32) == p("a", Operator.IN, (1,))
    text = "b IN (1) AND (b = 1) AND " + "(" * 33 + "a = 1" + ")" * 33
    assert refused_as_too_large(text) == "expected at most 32 nested parentheses, got one more at position 57"


def test_the_limit_on_depth() -> None:
    parse_expression("NOT " * 32 + "a = 1")
    sentence = "expected AND, OR and NOT nested at most 32 deep, got a deeper tree"
    assert refused_as_too_large("NOT " * 33 + "a = 1") == sentence
    assert refused_as_too_large("(a = 1 OR b = 1 AND " * 17 + "c = 1" + ")" * 17) == sentence


def test_lark_is_imported_only_when_a_text_is_parsed() -> None:
    program = (
        "import sys, octopia.content as content; assert 'lark' not in sys.modules; "
        "content.parse_filter('x = 1'); assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
