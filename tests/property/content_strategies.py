"""Hypothesis strategies for content: values, predicates, expressions, normal forms and publications.

Names and values come from small pools, so that predicates and publications really meet: the same attribute with values
of several types, neighbours of bounds, texts with and without the prefixes that filters ask for, and missing ones.
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from octopia.content import (
    FALSE,
    TRUE,
    And,
    Disjunction,
    Expression,
    Filter,
    Not,
    Operator,
    Or,
    Predicate,
    Publication,
    contains,
    like,
    normalise,
    suffix,
)

NAMES = ("x", "y", "z.w")
ODD_NAMES = ("and", "TRUE", "a b", 'quo"te', "été", "1st", "a.", "eq", "\n", "str-prefix", "[", "x.y.z", "_", "$")

NUMBERS = (0, 1, 2, 3, 5, 1.0, 2.5, -1, 2**53, 2**53 + 1, float(2**53))
EXTREMES = (2**63 - 1, -(2**63), 1e300, 5e-324, -0.0, 0.1, 1e16, 1.5e-7)
TEXTS = ("", "a", "ab", "abc", "b", "ba", "aab", "c", "a_b", "100%", "é", "\U0010ffff", "\ud7ff")
ODD_TEXTS = ("it's", "''", "\\", "a\\%", "line\nbreak", '"', "%", "_", "\\_%", "TRUE", "\x00", "\U0001f419")
PATTERNS = ("a_", "_b%", "%a_b", "a%b", "%a%b%", "_", "__", "_%", "%_", "a%b%c", r"a\_%b", r"%\%_", r"\\_")

numbers = st.sampled_from(NUMBERS)
texts = st.sampled_from(TEXTS)
booleans = st.booleans()
values = st.one_of(numbers, texts, booleans)
names = st.sampled_from(NAMES)

any_numbers = st.one_of(
    numbers,
    st.sampled_from(EXTREMES),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
any_texts = st.one_of(texts, st.sampled_from(ODD_TEXTS), st.text(max_size=6))
any_values = st.one_of(any_numbers, any_texts, booleans)
any_names = st.one_of(names, st.sampled_from(ODD_NAMES), st.text(min_size=1, max_size=5))

ORDERINGS = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
TEXT_OPERATORS = (
    Operator.PREFIX,
    Operator.NOT_PREFIX,
    Operator.SUFFIX,
    Operator.NOT_SUFFIX,
    Operator.CONTAINS,
    Operator.NOT_CONTAINS,
)


def evenly(*strategies: st.SearchStrategy) -> st.SearchStrategy:
    """Choose each strategy equally often; ``one_of`` would count every alternative within each of them."""
    return st.sampled_from(strategies).flatmap(lambda chosen: chosen)


def predicates(
    attributes: st.SearchStrategy[str] = names,
    of_numbers: st.SearchStrategy[int | float] = numbers,
    of_texts: st.SearchStrategy[str] = texts,
) -> st.SearchStrategy[Predicate]:
    """Predicates with every operator, on attributes and with operands from the given pools."""
    of_values = st.one_of(of_numbers, of_texts, booleans)
    ordered = st.one_of(of_numbers, of_texts)
    bounds = st.one_of(st.tuples(of_numbers, of_numbers), st.tuples(of_texts, of_texts))
    elements = st.one_of(
        st.lists(of_numbers, min_size=1, max_size=3),
        st.lists(of_texts, min_size=1, max_size=3),
        st.lists(of_values, min_size=1, max_size=3),
    ).map(tuple)
    return st.one_of(
        st.builds(Predicate, attributes, st.sampled_from((Operator.EQ, Operator.NE)), of_values),
        st.builds(Predicate, attributes, st.sampled_from(ORDERINGS), ordered),
        st.builds(Predicate, attributes, st.just(Operator.BETWEEN), bounds),
        st.builds(Predicate, attributes, st.sampled_from((Operator.IN, Operator.NOT_IN)), elements),
        st.builds(text_predicate, attributes, st.sampled_from(TEXT_OPERATORS), of_texts),
        st.builds(like, attributes, st.sampled_from(PATTERNS), st.just("\\"), negated=st.booleans()),
        st.builds(like, attributes, of_texts, negated=st.booleans()),
        st.builds(Predicate, attributes, st.sampled_from((Operator.EXISTS, Operator.ABSENT))),
    )


def text_predicate(attribute: str, operator: Operator, text: str) -> Predicate:
    """A predicate on strings, in its only form if the operand is empty."""
    if not text and operator in (Operator.SUFFIX, Operator.CONTAINS):
        return {Operator.SUFFIX: suffix, Operator.CONTAINS: contains}[operator](attribute, text)
    if not text:
        operator = Operator.NOT_PREFIX if operator.name.startswith("NOT_") else Operator.PREFIX
    return Predicate(attribute, operator, text)


def expressions(leaves: st.SearchStrategy[Predicate], max_leaves: int = 8) -> st.SearchStrategy[Expression]:
    """Trees of AND, OR, NOT and constants over the given predicates."""

    def grow(below: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(below, min_size=2, max_size=4).map(tuple)
        return st.one_of(st.builds(And, several), st.builds(Or, several), st.builds(Not, below))

    return st.recursive(evenly(*[leaves] * 7, st.sampled_from((TRUE, FALSE))), grow, max_leaves=max_leaves)


def filters(max_size: int = 4) -> st.SearchStrategy[Filter]:
    """Conjunctions, often with several predicates on one attribute."""
    return st.lists(predicates(), max_size=max_size).map(tuple).map(Filter)


def disjunctions(max_filters: int = 3, max_predicates: int = 4) -> st.SearchStrategy[Disjunction]:
    """Normal forms as subscriptions and advertisements have them."""
    return st.lists(filters(max_predicates), max_size=max_filters).map(tuple).map(Disjunction)


def declarations() -> st.SearchStrategy[Disjunction]:
    """Normal forms of one filter that mentions every name, often loosely: random ones hardly ever declare two names."""

    def declare(name: str) -> st.SearchStrategy[Predicate]:
        loose = st.builds(
            Predicate, st.just(name), st.sampled_from((Operator.GE, Operator.NE)), st.sampled_from((-1, 0))
        )
        anything = st.just(Predicate(name, Operator.EXISTS))
        return evenly(anything, anything, loose, predicates(st.just(name)))

    return st.tuples(*map(declare, NAMES)).map(Filter).map(lambda declared: Disjunction((declared,)))


def normalised(max_leaves: int = 6) -> st.SearchStrategy[Disjunction]:
    """Normal forms of random expressions."""
    return expressions(predicates(), max_leaves).map(normalise)


def publications(min_attributes: int = 1) -> st.SearchStrategy[Publication]:
    """Publications with attributes and values from the pools of the predicates, including infinities."""
    carried = st.one_of(values, st.sampled_from((math.inf, -math.inf, 4, 0.5, "abd", "aabb")))
    return st.dictionaries(names, carried, min_size=min_attributes, max_size=len(NAMES)).map(Publication)
