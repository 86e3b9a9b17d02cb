"""``Disjunction`` as programs use it, under the name ``octopia.Filter``."""

import math

import msgspec
import pytest

from octopia.content import Disjunction, Filter, Operator, Predicate, Publication, parse_filter
from octopia.errors import InvalidFilter, InvalidPublication


def test_parse_reads_both_text_forms():
    assert Disjunction.parse("price > 100") == parse_filter("price > 100")
    assert Disjunction.parse("[price,>,100]") == parse_filter("price > 100")
    with pytest.raises(InvalidFilter, match="expected a value after >, got the end of the text at position 7"):
        Disjunction.parse("price >")


def test_attributes_and_publications_match():
    wanted = Disjunction.parse("symbol = 'IBM' AND price > 100 OR halted = TRUE")
    assert wanted.matches({"symbol": "IBM", "price": 101})
    assert wanted.matches(Publication({"halted": True}))
    assert not wanted.matches({"symbol": "IBM"})
    assert not Disjunction.parse("FALSE").matches({"x": 1})
    assert Disjunction.parse("TRUE").matches({"x": 1})


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [({"price": 1j}, "expected a plain int, float, str or bool, got complex"), ({}, "got 0"), ("price", "got str")],
)
def test_attributes_that_no_publication_may_carry_are_refused(attributes, problem):
    with pytest.raises(InvalidPublication, match=problem):
        Disjunction.parse("price > 100").matches(attributes)


@pytest.mark.parametrize(
    "text", ["price > 100", "a = 1 AND b LIKE 'x%' OR c IN (1, 'two', TRUE)", "TRUE", "FALSE", '"odd name" IS NULL']
)
def test_what_is_printed_is_sql_that_reads_back(text: str):
    assert str(Disjunction.parse(text)) == text


def test_the_normal_form_is_printed():
    assert str(Disjunction.parse("NOT (a < 1 OR b = 2)")) == "a >= 1 AND b <> 2"


def test_values_without_a_literal_are_printed_too():
    assert str(Disjunction((Filter((Predicate("x", Operator.LT, math.inf),)),))) == "x < inf"


def test_repr_shows_the_structure_and_the_encoding_is_that_of_the_fields():
    wanted = Disjunction.parse("price > 100")
    assert repr(wanted).startswith("Disjunction(filters=(Filter(predicates=(Predicate(attribute='price'")
    encoded = b'{"filters":[{"predicates":[{"attribute":"price","operator":">","operand":100}]}]}'
    assert msgspec.json.encode(wanted) == encoded
    assert msgspec.json.decode(encoded, type=Disjunction) == wanted
