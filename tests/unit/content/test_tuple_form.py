"""The tuple form of PADRES."""

from __future__ import annotations

import math

import pytest

from octopia.content import (
    TRUE,
    And,
    Expression,
    Not,
    Operator,
    Or,
    Predicate,
    TextForm,
    format_expression,
    format_filter,
    parse_expression,
    parse_filter,
)
from octopia.errors import FilterTooLarge, InvalidFilter


def p(name: str, operator: Operator, operand: object = None) -> Predicate:
    return Predicate(name, operator, operand)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("[class,eq,'STOCK']", p("class", Operator.EQ, "STOCK")),
        (
            "[class,eq,'STOCK'],[price,>,100]",
            And((p("class", Operator.EQ, "STOCK"), p("price", Operator.GT, 100))),
        ),
        (" [ price , neq , 1.0 ] ", p("price", Operator.NE, 1.0)),
        ("[x,=,1]", p("x", Operator.EQ, 1)),
        ("[x,<>,1]", p("x", Operator.NE, 1)),
        ("[x,<,1]", p("x", Operator.LT, 1)),
        ("[x,<=,-1]", p("x", Operator.LE, -1)),
        ("[x,>=,1e3]", p("x", Operator.GE, 1000.0)),
        ("[x,str-prefix,'a%']", p("x", Operator.PREFIX, "a%")),
        ("[x,STR-POSTFIX,'a']", p("x", Operator.SUFFIX, "a")),
        ("[x,str-contains,'it''s']", p("x", Operator.CONTAINS, "it's")),
        ("[x,str-contains,'']", p("x", Operator.PREFIX, "")),
        ("[x,str-postfix,'']", p("x", Operator.PREFIX, "")),
        ("[x,isPresent,'ANY']", p("x", Operator.EXISTS)),
        ("[x,isPresent,ANY]", p("x", Operator.EXISTS)),
        ("[x,isPresent]", p("x", Operator.EXISTS)),
        ("[x,eq,true]", p("x", Operator.EQ, True)),
        ('[x,eq,"STOCK"]', p("x", Operator.EQ, "STOCK")),
        ("[eq,eq,'eq']", p("eq", Operator.EQ, "eq")),
        ("[and,eq,1]", p("and", Operator.EQ, 1)),
        ('["str-prefix",eq,1]', p("str-prefix", Operator.EQ, 1)),
        ("[a.b,eq,1]", p("a.b", Operator.EQ, 1)),
    ],
)
def test_what_tuples_mean(text: str, tree: Expression) -> None:
    assert parse_expression(text) == tree
    assert parse_expression(format_expression(tree, TextForm.TUPLES)) == tree


def test_tuples_and_sql_give_the_same_filter() -> None:
    assert parse_filter("[class,eq,'STOCK'],[price,>,100]") == parse_filter("class = 'STOCK' AND price > 100")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("class = 'STOCK' AND price > 100", "[class,eq,'STOCK'],[price,>,100]"),
        ("x IS NOT NULL", "[x,isPresent,'ANY']"),
        ("x <> TRUE AND y LIKE '%a'", "[x,neq,true],[y,str-postfix,'a']"),
        ("\"or\" = 'it''s'", "[\"or\",eq,'it''s']"),
    ],
)
def test_how_tuples_are_printed(text: str, printed: str) -> None:
    assert format_expression(parse_expression(text), TextForm.TUPLES) == printed
    assert format_filter(parse_filter(text), TextForm.TUPLES) == printed


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        (Or((p("x", Operator.EQ, 1), p("x", Operator.EQ, 2))), "got OR: use the SQL form"),
        (Not(p("x", Operator.EQ, 1)), "got NOT: use the SQL form"),
        (TRUE, "got CONSTANT: use the SQL form"),
        (
            And((p("x", Operator.EQ, 1), And((p("x", Operator.EQ, 1), p("y", Operator.EQ, 1))))),
            "got AND: use the SQL form",
        ),
        (p("x", Operator.IN, (1,)), "got IN on x"),
        (p("x", Operator.BETWEEN, (1, 2)), "got BETWEEN on x"),
        (p("x", Operator.ABSENT), "got ABSENT on x"),
        (p("x", Operator.LIKE, "_"), "got LIKE on x"),
        (p("x", Operator.NOT_PREFIX, "a"), "got NOT PREFIX on x"),
        (p("x", Operator.LT, math.inf), "infinities cannot be written"),
    ],
)
def test_what_tuples_cannot_say_is_refused(tree: Expression, sentence: str) -> None:
    with pytest.raises(InvalidFilter, match=sentence):
        format_expression(tree, TextForm.TUPLES)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "expected an attribute name after [, got the end of the text at position 1"),
        ("[x", "expected a comma after x, got the end of the text at position 2"),
        ("[x,eq,5", "expected a closing bracket after 5, got the end of the text at position 7"),
        ("[x,eq", "expected a comma or a closing bracket after eq, got the end of the text at position 5"),
        ("[x,eq]", "expected a value after eq, got ] at position 5"),
        ("[x, eq ]", "expected a value after eq, got ] at position 7"),
        ("[x,eq,5],", "expected an opening bracket after ,, got the end of the text at position 9"),
        ("[x,eq,5] [y,eq,5]", "expected a comma or the end of the text after ], got [ at position 9"),
        ("[x,eq,STOCK]", "expected a number, true, false or a string in quotes, got STOCK at position 6"),
        ("[x,<,true]", "expected a number or a string in x < (booleans have no order), got TRUE at position 5"),
        ("[x,str-prefix,5]", "expected a string in x PREFIX, got 5 at position 14"),
        (
            "[x,eq,99999999999999999999]",
            "expected a signed 64-bit integer, got 99999999999999999999 at position 6",
        ),
        (
            "[x,like,'a']",
            "expected eq, neq, =, <>, <, <=, >, >=, str-prefix, str-postfix, str-contains or isPresent, "
            "got like at position 3",
        ),
    ],
)
def test_errors_in_tuples(text: str, sentence: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_expression(text)
    assert caught.value.sentence == sentence
    assert str(caught.value).endswith("^")


def test_tuples_have_the_limit_on_tokens() -> None:
    assert len(parse_filter(",".join(f"[a{i},eq,1]" for i in range(25))).filters[0].predicates) == 25
    with pytest.raises(FilterTooLarge, match="at most 200 tokens"):
        parse_filter(",".join(f"[a{i},eq,1]" for i in range(26)))
