"""Three-valued logic and the normal form."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from octopia.content import (
    FALSE,
    TRUE,
    And,
    Constant,
    Disjunction,
    Expression,
    Filter,
    Not,
    Operator,
    Or,
    Predicate,
    Publication,
    evaluate,
    format_expression,
    format_filter,
    matches,
    normalise,
    parse_expression,
    parse_filter,
    to_expression,
)
from octopia.errors import FilterTooLarge, InvalidFilter

TRUTH = {True: "x = 1", False: "x = 2", None: "y = 1"}
PUBLICATION = Publication({"x": 1})


@pytest.mark.parametrize(
    ("left", "right", "conjunction", "disjunction"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, None, None, None),
    ],
)
def test_and_and_or_as_in_sql(left, right, conjunction, disjunction) -> None:
    for one, other in ((left, right), (right, left)):
        for word, expected in (("AND", conjunction), ("OR", disjunction)):
            expression = parse_expression(f"{TRUTH[one]} {word} {TRUTH[other]}")
            assert evaluate(expression, PUBLICATION.attributes) is expected
            assert matches(normalise(expression), PUBLICATION) is (expected is True)


@pytest.mark.parametrize(("operand", "expected"), [(True, False), (False, True), (None, None)])
def test_not_as_in_sql(operand, expected) -> None:
    assert evaluate(parse_expression(f"NOT {TRUTH[operand]}"), PUBLICATION.attributes) is expected


def test_not_does_not_match_where_the_attribute_is_missing() -> None:
    assert not matches(parse_filter("NOT price > 10"), PUBLICATION)
    assert matches(parse_filter("NOT x > 10"), PUBLICATION)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("TRUE", "TRUE"),
        ("FALSE", "FALSE"),
        ("NOT TRUE", "FALSE"),
        ("a = 1 AND TRUE", "a = 1"),
        ("a = 1 AND FALSE", "FALSE"),
        ("a = 1 OR TRUE", "TRUE"),
        ("a = 1 OR FALSE", "a = 1"),
        ("NOT (a = 1 AND FALSE)", "TRUE"),
        ("NOT (a = 1 OR b < 2)", "a <> 1 AND b >= 2"),
        ("NOT (a = 1 AND b < 2)", "a <> 1 OR b >= 2"),
        ("NOT NOT a = 1", "a = 1"),
        ("NOT a BETWEEN 1 AND 2", "a < 1 OR a > 2"),
        ("NOT a IS NULL", "a IS NOT NULL"),
        ("NOT a LIKE 'b%'", "a NOT LIKE 'b%'"),
        ("NOT a NOT IN (1)", "a IN (1)"),
        ("(a = 1 OR b = 2) AND c = 3", "a = 1 AND c = 3 OR b = 2 AND c = 3"),
        (
            "(a = 1 OR b = 2) AND (c = 3 OR d = 4)",
            "a = 1 AND c = 3 OR a = 1 AND d = 4 OR b = 2 AND c = 3 OR b = 2 AND d = 4",
        ),
        ("a = 1 AND a = 1", "a = 1"),
        ("a = 1 OR a = 1", "a = 1"),
        ("a = 1 AND b = 2 OR b = 2 AND a = 1", "a = 1 AND b = 2"),
        ("a = 1 OR a = TRUE OR a = 1.0", "a = 1 OR a = TRUE OR a = 1.0"),
        ("a IN (1) AND a IN (TRUE)", "a IN (1) AND a IN (TRUE)"),
    ],
)
def test_normal_forms(text: str, normal: str) -> None:
    assert format_filter(parse_filter(text)) == normal


def test_the_ends_of_the_normal_form() -> None:
    assert normalise(TRUE) == Disjunction((Filter(),))
    assert normalise(FALSE) == Disjunction()
    assert to_expression(Disjunction((Filter(),))) == TRUE
    assert to_expression(Disjunction()) == FALSE


def pairs(count: int) -> Expression:
    """A conjunction of ``count`` two-way choices, whose normal form has 2 ** count filters."""
    return And(tuple(Or((equals(f"a{i}", 1), equals(f"b{i}", 1))) for i in range(count)))


def equals(name: str, value: int) -> Predicate:
    return Predicate(name, Operator.EQ, value)


def test_sixty_four_filters_are_taken_and_one_more_is_refused() -> None:
    assert len(normalise(pairs(6)).filters) == 64
    assert len(normalise(Or(tuple(equals("a", i) for i in range(64)))).filters) == 64
    with pytest.raises(FilterTooLarge, match="at most 64 filters in the normal form, got 65"):
        normalise(Or(tuple(equals("a", i) for i in range(65))))


def test_a_normal_form_that_would_explode_is_refused_before_it_does() -> None:
    with pytest.raises(FilterTooLarge, match="at most 64 filters"):
        normalise(pairs(1000))


def test_sixty_four_predicates_are_taken_and_one_more_is_refused() -> None:
    assert len(normalise(And(tuple(equals("a", i) for i in range(64)))).filters[0].predicates) == 64
    with pytest.raises(FilterTooLarge, match="at most 64 predicates in a filter, got 65"):
        normalise(And(tuple(equals("a", i) for i in range(65))))
    with pytest.raises(FilterTooLarge):
        Filter(tuple(equals("a", i) for i in range(65)))
    with pytest.raises(FilterTooLarge):
        Disjunction((Filter(),) * 65)


def nested(levels: int) -> Expression:
    tree: Expression = equals("a", 1)
    for _ in range(levels):
        tree = Not(tree)
    return tree


@pytest.mark.parametrize("use", [normalise, format_expression, lambda tree: evaluate(tree, {"a": 1})])
def test_trees_beyond_the_limits_are_refused_without_recursion(use) -> None:
    use(nested(32))
    for tree in (nested(33), nested(50_000)):
        with pytest.raises(FilterTooLarge, match="nested at most 32 deep"):
            use(tree)


@pytest.mark.parametrize("use", [normalise, format_expression, lambda tree: evaluate(tree, {"a": 1})])
def test_a_tree_that_shares_its_branches_is_refused_at_once(use) -> None:
    tree: Expression = equals("a", 1)
    for _ in range(30):
        tree = And((tree, tree))
    with pytest.raises(FilterTooLarge, match="at most 8192 nodes"):
        use(tree)


@pytest.mark.parametrize(
    "build",
    [
        lambda: And((equals("a", 1),)),
        lambda: Or(()),
        lambda: And([equals("a", 1), equals("a", 2)]),
        lambda: Not("a = 1"),
        lambda: Or((equals("a", 1), None)),
        lambda: Constant(1),
    ],
)
def test_what_makes_no_tree_is_refused(build) -> None:
    with pytest.raises(InvalidFilter):
        build()


def test_trees_and_normal_forms_are_values() -> None:
    tree = parse_expression("a = 1 AND (b = TRUE OR NOT c IN (1, 'x'))")
    again = parse_expression("a = 1 AND (b = TRUE OR NOT c IN (1, 'x'))")
    assert tree == again
    assert hash(tree) == hash(again)
    assert tree != parse_expression("a = 1 AND (b = 1 OR NOT c IN (1, 'x'))")
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_normal_forms_survive_encoding_and_pickling_after_use() -> None:
    interest = parse_filter("a = 1 AND b LIKE '_x' OR c IS NULL")
    matches(interest, PUBLICATION)
    assert interest.attributes() == ("a", "b", "c")
    assert hash(interest) == hash(parse_filter("a = 1 AND b LIKE '_x' OR c IS NULL"))
    for copied in (
        pickle.loads(pickle.dumps(interest)),
        msgspec.msgpack.decode(msgspec.msgpack.encode(interest), type=Disjunction),
    ):
        assert copied == interest
        assert matches(copied, PUBLICATION) == matches(interest, PUBLICATION)
