"""Caches for the numbers that a matcher returns."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopia.broker import numbered
from octopia.broker.numbered import Kept, Numbered


def packed(*numbers: int) -> bytes:
    return array("q", numbers).tobytes()


def test_the_same_numbers_give_the_same_tuple():
    values = Numbered()
    for number in range(3):
        values.add(number, f"v{number}")
    found = values.all(packed(2, 0))
    assert found == ("v2", "v0")
    assert values.all(packed(2, 0)) is found
    assert values.all(packed(0, 2)) == ("v0", "v2")
    assert values.all(packed()) == ()


def test_a_number_that_is_given_again_stands_for_its_new_value():
    values = Numbered()
    values.add(0, "old")
    assert values.all(packed(0)) == ("old",)
    values.remove(0)
    with pytest.raises(KeyError):
        values.all(packed(0))
    values.add(0, "new")
    assert values.all(packed(0)) == ("new",)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.lists(st.integers(0, 5), max_size=4))))
def test_it_answers_as_a_plain_dictionary_does(steps):
    values, plain = Numbered(), {}
    for number, value, asked in steps:
        if number in plain:
            values.remove(number)
            del plain[number]
        else:
            values.add(number, value)
            plain[number] = value
        known = [each for each in asked if each in plain]
        assert values.all(packed(*known)) == tuple(plain[each] for each in known)


def test_not_more_is_kept_than_allowed(monkeypatch):
    monkeypatch.setattr(numbered, "MOST_KEPT", 2)
    values = Numbered()
    values.add(0, "v0")
    sets = [[0] * length for length in range(5)]
    for each in (*sets, *sets):
        assert values.all(packed(*each)) == ("v0",) * len(each)
        assert len(values._known) <= 2


def test_what_was_made_is_found_by_identity():
    kept, one = Kept(most=2), (1, 2)
    equal = one[:1] + one[1:]
    assert kept.of(one, lambda _: "made") == "made"
    assert kept.of(one, lambda _: "again") == "made"
    assert kept.of(equal, lambda _: "other") == "other"
    kept.of((3,), lambda _: "third")
    assert kept.of(one, lambda _: "anew") == "anew"
    kept.clear()
    assert kept.of(one, sum) == 3
