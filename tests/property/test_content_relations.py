"""The relations against sampled publications and naive definitions."""

from __future__ import annotations

from collections import Counter

from content_strategies import (
    declarations,
    disjunctions,
    evenly,
    expressions,
    filters,
    normalised,
    predicates,
    publications,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.content import (
    Disjunction,
    Expression,
    Filter,
    Operator,
    Predicate,
    Publication,
    conforms,
    covers,
    evaluate,
    explain_mismatch,
    intersects,
    matches,
    negate,
    normalise,
    to_expression,
)
from octopia.errors import FilterTooLarge

samples = st.lists(publications(), min_size=1, max_size=12)

# One attribute and few values: here filters contradict and imply each other all the time.
one_attribute = predicates(attributes=st.just("x"))
tight_filters = st.lists(one_attribute, min_size=1, max_size=3).map(lambda several: Filter(tuple(several)))
tight = st.lists(tight_filters, min_size=1, max_size=2).map(lambda several: Disjunction(tuple(several)))
single = one_attribute.map(lambda predicate: Disjunction((Filter((predicate,)),)))
interests = evenly(single, tight, declarations(), disjunctions(), normalised())

POOL = (0, 1, 2, 3, 5, 2.5, 4, 0.5, -1, float("inf"), float("-inf"), 2**53, 2**53 + 1, True, False)
TEXT_POOL = (
    "",
    "a",
    "ab",
    "abc",
    "abd",
    "b",
    "ba",
    "aab",
    "aabb",
    "c",
    "a_b",
    "100%",
    "é",
    "\U0010ffff",
    "\ud7ff",
    "axb",
)
EVERY = [Publication({"x": value}) for value in POOL + TEXT_POOL]


def naively_conforms(advertisement: Disjunction, publication: Publication) -> bool:
    """The definition, word for word."""
    return any(
        all(any(each.attribute == name for each in declared.predicates) for name in publication.attributes)
        and all(
            each.evaluate(publication.attributes) is True
            for each in declared.predicates
            if each.attribute in publication.attributes
        )
        for declared in advertisement.filters
    )


@settings(max_examples=500, deadline=None)
@given(expressions(predicates(), max_leaves=10), samples)
def test_the_normal_form_matches_exactly_where_the_expression_is_true(
    expression: Expression, sampled: list[Publication]
) -> None:
    try:
        interest = normalise(expression)
    except FilterTooLarge:
        return
    for publication in sampled:
        assert matches(interest, publication) is (evaluate(expression, publication.attributes) is True)


@settings(max_examples=300, deadline=None)
@given(normalised())
def test_normalising_a_normal_form_changes_nothing(interest: Disjunction) -> None:
    assert normalise(to_expression(interest)) == interest


@settings(max_examples=300, deadline=None)
@given(predicates(), publications())
def test_the_negation_is_true_exactly_where_the_predicate_is_false(
    predicate: Predicate, publication: Publication
) -> None:
    answer = predicate.evaluate(publication.attributes)
    negated = [each.evaluate(publication.attributes) for each in negate(predicate)]
    assert (True in negated) is (answer is False)
    assert all(each is None for each in negated) is (answer is None)


@settings(max_examples=300, deadline=None)
@given(interests, samples)
def test_matching_needs_every_predicate_of_some_filter(interest: Disjunction, sampled: list[Publication]) -> None:
    for publication in sampled:
        expected = any(
            all(predicate.evaluate(publication.attributes) is True for predicate in each.predicates)
            for each in interest.filters
        )
        assert matches(interest, publication) is expected
        assert len(explain_mismatch(interest, publication)) == sum(
            not each.matches(publication.attributes) for each in interest.filters
        )


@settings(max_examples=300, deadline=None)
@given(interests, samples)
def test_conforming_follows_its_definition(advertisement: Disjunction, sampled: list[Publication]) -> None:
    for publication in sampled + EVERY:
        assert conforms(advertisement, publication) is naively_conforms(advertisement, publication)


@settings(max_examples=600, deadline=None)
@given(interests, interests, samples)
def test_intersects_never_says_no_wrongly(
    advertisement: Disjunction, subscription: Disjunction, sampled: list[Publication]
) -> None:
    for publication in sampled + EVERY:
        if conforms(advertisement, publication) and matches(subscription, publication):
            assert intersects(advertisement, subscription)


@settings(max_examples=600, deadline=None)
@given(interests, interests, samples)
def test_covers_never_says_yes_wrongly(wide: Disjunction, narrow: Disjunction, sampled: list[Publication]) -> None:
    if covers(wide, narrow):
        for publication in sampled + EVERY:
            assert matches(wide, publication) or not matches(narrow, publication)


@settings(deadline=None)
@given(interests)
def test_covering_is_reflexive_and_false_and_true_are_its_ends(interest: Disjunction) -> None:
    assert covers(interest, interest)
    assert covers(interest, Disjunction())
    assert covers(Disjunction((Filter(),)), interest)


@settings(deadline=None)
@given(filters(), predicates())
def test_one_more_predicate_is_covered(wide: Filter, predicate: Predicate) -> None:
    narrow = Filter((*wide.predicates, predicate))
    assert covers(Disjunction((wide,)), Disjunction((narrow,)))


NUMERIC = (Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.EQ, Operator.NE)
halves = st.integers(0, 4).map(lambda number: number / 2)
numeric = st.one_of(
    st.builds(Predicate, st.just("x"), st.sampled_from(NUMERIC), st.one_of(halves, st.integers(0, 2))),
    st.builds(Predicate, st.just("x"), st.just(Operator.BETWEEN), st.tuples(halves, halves)),
    st.builds(
        Predicate,
        st.just("x"),
        st.sampled_from((Operator.IN, Operator.NOT_IN)),
        st.lists(halves, min_size=1).map(tuple),
    ),
)
numeric_filters = st.lists(numeric, min_size=1, max_size=3).map(lambda several: Disjunction((Filter(tuple(several)),)))
# All bounds are halves from 0 to 2, so these stand for every number: the bounds, and one between and beside them.
REPRESENTATIVES = [Publication({"x": number / 4}) for number in range(-1, 10)]


@settings(max_examples=500, deadline=None)
@given(numeric_filters, numeric_filters)
def test_intersects_and_covers_are_exact_for_numbers(one: Disjunction, other: Disjunction) -> None:
    both = any(matches(one, each) and matches(other, each) for each in REPRESENTATIVES)
    assert intersects(one, other) is both
    assert covers(one, other) is all(matches(one, each) or not matches(other, each) for each in REPRESENTATIVES)


def test_the_properties_are_not_empty() -> None:
    """Count the cases that the strategies generate, so that the properties above cannot pass untested."""
    seen: Counter[str] = Counter()

    @settings(max_examples=600, database=None, derandomize=True, deadline=None)
    @given(interests, interests, samples)
    def count(one: Disjunction, other: Disjunction, sampled: list[Publication]) -> None:
        both = [conforms(one, each) and matches(other, each) for each in sampled + EVERY]
        seen["meet"] += any(both)
        seen["apart"] += not intersects(one, other)
        seen["covered"] += covers(one, other) and any(matches(other, each) for each in sampled + EVERY)
        seen["not covered"] += not covers(one, other)
        seen["match"] += any(matches(one, each) for each in sampled)
        seen["no match"] += any(not matches(one, each) for each in sampled)
        seen["conform"] += any(conforms(one, each) for each in sampled + EVERY)
        several = [each for each in sampled if len(each.attributes) > 1]
        seen["conform with several"] += any(conforms(one, each) for each in several)
        seen["meet with several"] += any(conforms(one, each) and matches(other, each) for each in several)

    count()
    assert min(seen[each] for each in ("meet", "apart", "covered", "not covered")) >= 30, seen
    assert min(seen[each] for each in ("match", "no match", "conform")) >= 60, seen
    assert min(seen[each] for each in ("conform with several", "meet with several")) >= 10, seen


def test_all_three_answers_occur() -> None:
    seen: Counter[bool | None] = Counter()

    @settings(max_examples=400, database=None, derandomize=True, deadline=None)
    @given(expressions(predicates(), max_leaves=6), publications())
    def count(expression: Expression, publication: Publication) -> None:
        seen[evaluate(expression, publication.attributes)] += 1

    count()
    assert min(seen[True], seen[False], seen[None]) >= 40, seen
