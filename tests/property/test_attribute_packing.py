"""The pass that encodes attributes: the bytes of msgspec, the sizes and the errors of the plain checks."""

from __future__ import annotations

import copy
import enum
import pickle
import random
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from content_strategies import publications
from encoded_attributes import FLOATS, NAMES, NUMBERS, TEXTS
from hypothesis import given, settings

from octopia.content import Publication, packing
from octopia.content import publications as module
from octopia.errors import InvalidPublication
from octopia.wire import prepare
from plain_modules import plain_module

PLAIN = plain_module("octopia.content.packing")
PACKERS = pytest.mark.parametrize("packer", [packing.Packer(), PLAIN.Packer()], ids=["as installed", "as plain Python"])


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


BAD_NAMES = ("", "n" * 256, "é" * 256, "\ud800", "a\udfff", 1, None, b"x", Text("x"))
BAD_VALUES = (
    None, b"x", [1], {}, 1j, 2**63, -(2**63) - 1, 10**400, float("nan"), "\ud800", "x\udfffy", "t" * 8193, "é" * 8193,
    Number.ONE, Text("x"), float,
)  # fmt: skip
LONG = ("t" * 255, "t" * 256, "t" * 8192, "é" * 127, "é" * 128, "\U0010ffff" * 8192)


def draw(chance: random.Random) -> dict[Any, Any]:
    """Return attributes, half of them wrong."""
    good_values = (*TEXTS, *NUMBERS, *FLOATS, True, False, *LONG, chance.random())
    count = chance.choice((0, 1, 2, 3, 7, 15, 16, 40, 64, 65))
    names = (*NAMES, "n" * 255, "名" * 255)
    drawn = {f"{chance.choice(names)[:200]}{index}": chance.choice(good_values) for index in range(count)}
    if chance.random() < 0.5:
        if chance.random() < 0.5:
            drawn[chance.choice(BAD_NAMES)] = 1
        else:
            drawn["bad"] = chance.choice(BAD_VALUES)
    items = list(drawn.items())
    chance.shuffle(items)
    return dict(items)


def result(attributes: Any, payload: Any) -> Any:
    """Return what there is to know of a publication, or its error."""
    try:
        made = Publication(attributes, payload)
        encoded = prepare(made)
    except InvalidPublication as error:
        return type(error), str(error)
    kinds = [type(each) for each in made.attributes.values()]
    return made, encoded, made.size, list(made.attributes.items()), kinds


@pytest.fixture
def without_pass() -> Any:
    """Return a function that makes publications with the plain checks; other mappings than dicts take them, too."""
    return lambda attributes, payload=b"": result(MappingProxyType(attributes), payload)


def test_random_attributes_have_the_bytes_sizes_and_errors_of_the_plain_checks(without_pass: Any) -> None:
    wrong = 0
    for seed in range(3_000):
        attributes = draw(random.Random(seed))
        expected = without_pass(attributes, b"payload")
        assert result(attributes, b"payload") == expected, attributes
        wrong += expected[0] is InvalidPublication
    assert 1_000 < wrong < 2_000


@pytest.mark.parametrize("name", BAD_NAMES, ids=repr)
def test_a_bad_name_gives_its_error(without_pass: Any, name: Any) -> None:
    expected = without_pass({"first": 1, name: 2})
    assert expected[0] is InvalidPublication
    assert result({"first": 1, name: 2}, b"") == expected


@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda value: repr(value)[:20])
def test_a_bad_value_gives_its_error(without_pass: Any, value: Any) -> None:
    expected = without_pass({"x": 1, "bad": value})
    assert expected[0] is InvalidPublication
    assert result({"x": 1, "bad": value}, b"") == expected


@pytest.mark.parametrize(
    "payload", [None, "x", bytearray(b"x"), bytes((1 << 20) + 1)], ids=lambda each: str(type(each))
)
def test_a_bad_payload_gives_its_error(without_pass: Any, payload: Any) -> None:
    assert result({"x": 1}, payload) == without_pass({"x": 1}, payload)


@pytest.mark.parametrize("attributes", [[("x", 1)], "x", None, 1, {1, 2}], ids=repr)
def test_attributes_that_are_no_mapping(attributes: Any) -> None:
    with pytest.raises(InvalidPublication, match="expected a mapping of attributes, got "):
        Publication(attributes)


@PACKERS
def test_the_bytes_are_those_of_msgspec(packer: Any) -> None:
    known = 0
    for seed in range(600):
        attributes = draw(random.Random(seed))
        packed = packer.pack(attributes)
        if packed:
            known += 1
            assert packed == msgspec.msgpack.encode(attributes), attributes
            assert packer.size == Publication(MappingProxyType(attributes)).size
            assert len(packed) <= PLAIN.MOST_BYTES
    assert known > 150


@PACKERS
@pytest.mark.parametrize("power", range(64))
def test_integers_around_every_power_of_two(packer: Any, power: int) -> None:
    for number in (n for n in (2**power - 1, 2**power, -(2**power), -(2**power) - 1) if -(2**63) <= n < 2**63):
        assert packer.pack({"x": number}) == msgspec.msgpack.encode({"x": number})


@PACKERS
def test_it_gives_up_on_long_attributes_which_are_encoded_all_the_same(packer: Any) -> None:
    attributes = {f"attribute {index}": "t" * 8192 for index in range(8)}
    assert not packer.pack(attributes)
    assert packer.pack({"x": 1}) == b"\x81\xa1x\x01"  # What was in the buffer does not matter.
    assert prepare(Publication(attributes)) == msgspec.msgpack.encode(attributes)
    with pytest.raises(InvalidPublication, match="expected attributes of at most 262144 bytes when encoded"):
        prepare(Publication({f"attribute {index}": "t" * 8192 for index in range(33)}))


@settings(max_examples=200, deadline=None)
@given(publications())
def test_attributes_that_are_decoded_when_read_are_a_dict(publication: Publication) -> None:
    attributes = dict(publication.attributes)
    made = Publication(attributes, publication.payload)
    expected = dict(attributes)
    attributes["another"] = 1  # The publication has its own.
    read = made.attributes
    assert type(read) is dict
    assert read is made.attributes
    assert read == expected
    assert list(read) == list(expected)
    assert len(read) == len(expected)
    assert [*read.items(), *map(type, read.values())] == [*expected.items(), *map(type, expected.values())]
    assert read | {"x": 1} == expected | {"x": 1}
    assert repr(read) == repr(expected)


@settings(max_examples=100, deadline=None)
@given(publications())
def test_copies_are_equal_whether_attributes_were_read_or_not(publication: Publication) -> None:
    unread = Publication(dict(publication.attributes), publication.payload)
    for each in (copy.copy(unread), copy.deepcopy(unread), pickle.loads(pickle.dumps(unread)), unread):
        assert each == publication
        assert hash(each) == hash(publication)
        assert each.size == publication.size
        assert dict(each.attributes) == dict(publication.attributes)


def test_other_mappings_are_taken_as_before() -> None:
    expected = Publication({"x": 1, "y": "z"})
    assert Publication(OrderedDict(x=1, y="z")) == Publication(MappingProxyType({"x": 1, "y": "z"})) == expected


@pytest.mark.skipif(not module.IS_COMPILED, reason="plain Python keeps the dict")
def test_a_publication_that_is_published_is_not_decoded() -> None:
    made = Publication({"x": 1, "y": "z"})
    assert made.encoded_attributes == msgspec.msgpack.encode({"x": 1, "y": "z"})
    assert prepare(made) is made.encoded_attributes
