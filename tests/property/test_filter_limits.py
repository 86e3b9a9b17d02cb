"""Filters over the wire obey the limits of texts, and no accepted filter takes longer than the limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.content import Disjunction, Operator, Publication, matches, parse_filter
from octopia.content.limits import (
    FILTER_COST_US_MAX,
    FILTER_LENGTH_MAX,
    FILTER_TEXT_BYTES_MAX,
    FILTER_TOKENS_MAX,
    OPERAND_VALUES_MAX,
)
from octopia.errors import BadFrame, FilterTooLarge, InvalidFilter, InvalidPublication
from octopia.protocol import Frame
from octopia.protocol.messages import SubscribeRequest
from octopia.wire import Reader, encode
from octopia.wire.format import HEADER, Kind


def subscribed(interest: object) -> Disjunction:
    """Send a filter of any shape over the wire, and return the one that arrives."""
    body = msgspec.msgpack.encode({"type": "SubscribeRequest", "handle": 1, "interest": interest})
    (frame,) = Reader().feed(HEADER.pack(HEADER.size - 4 + len(body), Kind.CONTROL, 0, -1, 1) + body)
    assert isinstance(frame, Frame)
    assert isinstance(frame.message, SubscribeRequest)
    return frame.message.interest


# Texts up to the limits: large strings, long lists, many patterns, and ORs that multiply.
sizes = st.sampled_from((1, 2, 5, 30, 254, 255, 256, 257, 1000, 3900))
contents = st.one_of(
    st.builds(str.__mul__, st.sampled_from(("a", "ab", "_a", "%a", "\\", "\\_%", "é_", "\U0001f419")), sizes),
    st.text(st.characters(codec="utf-8", exclude_characters="'"), max_size=30),
)
names = st.sampled_from(("x", "y", "n" * 255))
strings = contents.map(lambda content: f"'{content}'")
values = st.one_of(strings, st.integers(-(2**63), 2**63 - 1).map(str), st.sampled_from(("1.", ".5", "TRUE")))
lists = st.one_of(
    st.lists(values, min_size=1, max_size=20),
    st.builds(lambda value, size: [value] * size, values, st.sampled_from((90, 98, 99, 100, 101))),
).map(", ".join)
conditions = st.one_of(
    st.builds("{} {} {}".format, names, st.sampled_from(("=", "<>", "<=")), values),
    st.builds("{} {} ({})".format, names, st.sampled_from(("IN", "NOT IN")), lists),
    st.builds("{} {} {}".format, names, st.sampled_from(("LIKE", "NOT LIKE")), strings),
    st.builds("{} {} '%{}%'".format, names, st.sampled_from(("LIKE", "NOT LIKE")), contents),
    st.builds("{} NOT BETWEEN {} AND {}".format, names, strings, strings),
    st.builds("{} IS NULL".format, names),
)
alternatives = st.lists(conditions, min_size=1, max_size=3).map(lambda several: f"({' OR '.join(several)})")
texts = st.one_of(
    st.lists(conditions, min_size=1, max_size=6).map(" AND ".join),
    st.lists(alternatives, min_size=1, max_size=6).map(" AND ".join),
    st.builds(lambda each, size: " OR ".join([each] * size), conditions, st.integers(1, 50)),
    st.builds(
        lambda each, size: " AND ".join(each.replace("x", f"x{number}", 1) for number in range(size)),
        conditions,
        st.integers(1, 50),
    ),
)


@settings(max_examples=300, deadline=None)
@given(text=texts)
def test_every_filter_that_a_text_can_produce_is_accepted_over_the_wire(text: str):
    try:
        interest = parse_filter(text)
    except InvalidFilter:
        return
    assert len(text.encode()) <= FILTER_TEXT_BYTES_MAX
    assert subscribed(interest) == interest
    assert len(encode(Frame(1, SubscribeRequest(1, interest, 0.0)))) < 512 * 1024


def test_texts_at_their_limits_are_accepted_over_the_wire():
    longest_list = (FILTER_TOKENS_MAX - 4) // 2
    assert longest_list <= OPERAND_VALUES_MAX
    for text in (
        f"x IN ({', '.join(map(str, range(longest_list)))})",
        f"x = '{'a' * (FILTER_TEXT_BYTES_MAX - 6)}'",
        " AND ".join(f"x{number} LIKE 'a%'" for number in range(50)),
        " OR ".join(f"x{number} LIKE '%a'" for number in range(50)),
        " AND ".join(f"(a{number} > 1 OR b{number} > 1)" for number in range(6)),
    ):
        assert subscribed(parse_filter(text)) == parse_filter(text)


# Filters of any shape, most of which no text could produce.
operands: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.sampled_from(("%a_b%", "a_b", "%a%b%", "_" * 255 + "a", "%" + "a" * 250 + "_b%", "é" * 4096, "a" * 4097)),
    st.lists(st.one_of(st.integers(0, 5), st.text(max_size=3), st.just("a" * 4000)), max_size=3),
    st.builds(lambda size: [1] * size, st.sampled_from((99, 100, 101, 5000))),
)
operators = st.sampled_from([each.value for each in Operator])
shapes = st.lists(
    st.builds(
        lambda predicates, size: {"predicates": predicates * size},
        st.lists(
            st.fixed_dictionaries(
                {
                    "attribute": names,
                    "operator": st.sampled_from([each.value for each in Operator]),
                    "operand": operands,
                }
            ),
            max_size=2,
        ),
        st.sampled_from((1, 1, 3, 32, 64, 65)),
    ),
    max_size=3,
)


@settings(max_examples=600, deadline=None)
@given(filters=shapes, copies=st.sampled_from((1, 1, 5, 20, 65)))
def test_every_filter_accepted_over_the_wire_can_be_printed_and_costs_no_more_than_the_limit(
    filters: list[Any], copies: int
):
    try:
        interest = subscribed({"filters": filters * copies})
    except BadFrame:
        return
    assert interest.cost_us <= FILTER_COST_US_MAX
    assert len(str(interest)) < 16 * FILTER_LENGTH_MAX
    assert len(encode(Frame(1, SubscribeRequest(1, interest, 0.0)))) < 512 * 1024
    assert matches(interest, Publication({"x": "a" * 8192})) in (True, False)


def test_the_refusal_of_an_expensive_filter_says_which_part_costs_how_much():
    expensive = " OR ".join(["x = 1", *(f"note LIKE '%{number:03}_b%'" for number in range(5))])
    with pytest.raises(FilterTooLarge) as caught:
        parse_filter(expensive)
    assert str(caught.value) == (
        "expected a filter that takes at most 500 µs on any publication, got 520 µs for 6 predicates of the normal "
        "form, 104.0 µs of it for note LIKE '%000_b%': split the filter, let patterns begin without %, or remove _ "
        "from patterns that begin with %"
    )


def test_the_limits_hold_for_filters_that_programs_build():
    interest = parse_filter(" OR ".join(f"x LIKE '%{number:03}%'" for number in range(20)))
    with pytest.raises(FilterTooLarge, match="got 909 µs for 40 predicates"):
        Disjunction(interest.filters * 2)


def test_forty_eight_searches_of_a_long_string_are_refused_on_both_sides():
    for pattern in ("%a_b%", "%ab%"):
        with pytest.raises(FilterTooLarge, match=r"got \d+ µs for 48 predicates"):
            parse_filter(" AND ".join([f"x LIKE '{pattern}'", *(f"x{each} LIKE '{pattern}'" for each in range(47))]))
    with pytest.raises(InvalidPublication, match="at most 8192 characters for the attribute x, got 255000"):
        Publication({"x": "a" * 255_000})
    anchored = parse_filter(" AND ".join(f"x{each} LIKE 'a_b%'" for each in range(48)))
    assert anchored.cost_us < 60
