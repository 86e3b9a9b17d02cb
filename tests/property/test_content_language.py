"""Texts and trees: formatted trees parse back, and no text crashes the parser."""

from __future__ import annotations

from content_strategies import any_names, any_numbers, any_texts, any_values, expressions, normalised, predicates
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.content import (
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
    suffix,
)
from octopia.errors import InvalidFilter

trees = expressions(predicates(any_names, any_numbers, any_texts), max_leaves=12)

tuple_leaves = st.one_of(
    st.builds(Predicate, any_names, st.sampled_from((Operator.EQ, Operator.NE)), any_values),
    st.builds(Predicate, any_names, st.sampled_from((Operator.LT, Operator.GE)), st.one_of(any_numbers, any_texts)),
    st.builds(Predicate, any_names, st.just(Operator.PREFIX), any_texts),
    st.builds(suffix, any_names, any_texts),
    st.builds(Predicate, any_names, st.just(Operator.CONTAINS), any_texts.filter(bool)),
    st.builds(Predicate, any_names, st.just(Operator.EXISTS)),
)
tuple_trees = st.one_of(tuple_leaves, st.lists(tuple_leaves, min_size=2, max_size=6).map(tuple).map(And))

KEYWORDS = ("AND", "or", "Not", "BETWEEN", "in", "LIKE", "escape", "IS", "NULL", "true", "FALSE")
SYMBOLS = ("(", ")", "(", ")", ",", "=", "<>", "<", "<=", ">", ">=", "[", "]", "!", "$", ";", "-", "+", ".", "\\")
LITERALS = ("1", "-2", "3.5", "1e9", "1e999", ".5", "9" * 20, "'a'", "'a%'", "'%'", "''", "'a_%'", "NaN", "inf")
NAMES = ("x", "y", "price", '"q"', '""', "x.y", "x.", ".x", "eq", "neq", "str-prefix", "str-contains", "isPresent")
ODDITIES = ("'", '"', "'ANY ", "\x00", "é", "\ud800", "\u00a0", "\n")
WORDS = KEYWORDS + SYMBOLS + LITERALS + NAMES + ODDITIES


def exactly(tree: Expression) -> str:
    """The tree as text with all Python types in it, since -0.0 == 0.0."""
    return repr(tree)


@settings(max_examples=600, deadline=None)
@given(trees)
def test_sql_reads_back_as_the_same_tree(tree: Expression) -> None:
    back = parse_expression(format_expression(tree))
    assert back == tree
    assert exactly(back) == exactly(tree)


@settings(max_examples=300, deadline=None)
@given(tuple_trees)
def test_tuples_read_back_as_the_same_tree(tree: Expression) -> None:
    back = parse_expression(format_expression(tree, TextForm.TUPLES))
    assert back == tree
    assert exactly(back) == exactly(tree)


@settings(max_examples=200, deadline=None)
@given(trees)
def test_tuples_say_the_same_tree_or_refuse(tree: Expression) -> None:
    try:
        text = format_expression(tree, TextForm.TUPLES)
    except InvalidFilter:
        assert not sayable_in_tuples(tree)
    else:
        assert parse_expression(text) == tree


def sayable_in_tuples(tree: Expression) -> bool:
    operands = tree.operands if isinstance(tree, And) else (tree,)
    unsayable = ("BETWEEN", "IN", "LIKE", "ABSENT")
    return all(
        isinstance(each, Predicate)
        and each.operator.name not in unsayable
        and not each.operator.name.startswith("NOT_")
        for each in operands
    )


@settings(max_examples=200, deadline=None)
@given(normalised())
def test_a_normal_form_reads_back_as_itself(interest) -> None:
    assert parse_filter(format_filter(interest)) == interest


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=30), st.sampled_from(("", " ")))
def test_texts_made_of_tokens_parse_or_are_refused(words: list[str], blank: str) -> None:
    check_parses_or_refuses(blank.join(words))


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(), max_size=60), st.sampled_from(("", "x = ", "[x,eq,")))
def test_any_text_parses_or_is_refused(text: str, start: str) -> None:
    check_parses_or_refuses(start + text)


@settings(max_examples=300, deadline=None)
@given(trees, st.data())
def test_a_text_with_one_change_parses_or_is_refused(tree: Expression, data: st.DataObject) -> None:
    text = format_expression(tree)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 5)))
    check_parses_or_refuses(text[:start] + data.draw(st.sampled_from(WORDS)) + text[end:])


def check_parses_or_refuses(text: str) -> None:
    """A text gives a tree that parses back, or an error that points into the text."""
    try:
        tree = parse_expression(text)
    except InvalidFilter as error:
        check_points_into(text, error)
    else:
        assert parse_expression(format_expression(tree)) == tree


def check_points_into(text: str, error: InvalidFilter) -> None:
    assert error.sentence.startswith("expected ")
    assert error.position is None or 0 <= error.position <= len(text)
    assert str(error).startswith(error.sentence)


@settings(deadline=None)
@given(st.integers(0, 400), st.sampled_from(("NOT ", "(", "x = 1 AND ", "x = 1 OR (", "NOT (", "[x,eq,1],", "x IN (")))
def test_deep_and_long_texts_are_refused_with_a_typed_error(count: int, part: str) -> None:
    closing = ")" * (count * part.count("("))
    text = part * count + "x = 1" + closing
    check_parses_or_refuses(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from((And, Or, Not)), min_size=20, max_size=32), predicates())
def test_every_tree_at_the_depth_limit_reads_back(spine: list[type], leaf: Predicate) -> None:
    tree: Expression = leaf
    for kind in spine:
        tree = Not(tree) if kind is Not else kind((Predicate("x", Operator.EQ, 1), tree))
    assert parse_expression(format_expression(tree)) == tree
