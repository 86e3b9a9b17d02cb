"""The values and payloads that a publication may carry."""

from __future__ import annotations

import enum
import math
import pickle

import pytest

from octopia.content import Publication
from octopia.errors import InvalidPublication


def test_a_publication_holds_what_it_was_given() -> None:
    given = {"symbol": "IBM", "price": 12.5, "volume": 100, "open": True}
    publication = Publication(given, b"payload")
    given["price"] = 0
    assert publication.attributes == {"symbol": "IBM", "price": 12.5, "volume": 100, "open": True}
    assert publication.payload == b"payload"
    assert Publication({"x": 1}).payload == b""


@pytest.mark.parametrize("value", [math.inf, -math.inf, -(2**63), 2**63 - 1, "", "\x00", False, "\U0010ffff"])
def test_extreme_values_are_taken(value: object) -> None:
    assert Publication({"x": value}).attributes["x"] == value


class Shade(enum.IntEnum):
    DARK = 1


class Subclass(str):
    pass


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({}, "expected 1 to 64 attributes in a publication, got 0"),
        ({f"a{i}": i for i in range(65)}, "expected 1 to 64 attributes in a publication, got 65"),
        ({"x": math.nan}, "expected a number, got NaN for the attribute x"),
        ({"x": None}, "expected a plain int, float, str or bool, got NoneType for the attribute x"),
        ({"x": [1]}, "expected a plain int, float, str or bool, got list for the attribute x"),
        ({"x": b"a"}, "expected a plain int, float, str or bool, got bytes for the attribute x"),
        ({"x": Shade.DARK}, "expected a plain int, float, str or bool, got Shade for the attribute x"),
        ({"x": Subclass("a")}, "expected a plain int, float, str or bool, got Subclass for the attribute x"),
        ({"x": 2**63}, "expected a signed 64-bit integer, got 9223372036854775808 for the attribute x"),
        ({"x": "\udc00"}, "expected valid Unicode, got the lone surrogate U+DC00 for the attribute x"),
        ({"": 1}, "expected an attribute name of 1 to 255 characters, got 0 in a publication"),
        ({"a" * 256: 1}, "expected an attribute name of 1 to 255 characters, got 256 in a publication"),
        ({5: 1}, "expected an attribute name as a str, got int in a publication"),
        ([("x", 1)], "expected a mapping of attributes, got list"),
    ],
)
def test_what_makes_no_publication_is_refused(attributes: object, sentence: str) -> None:
    with pytest.raises(InvalidPublication) as caught:
        Publication(attributes)
    assert str(caught.value) == sentence


def test_numpy_scalars_are_refused() -> None:
    numpy = pytest.importorskip("numpy")
    for scalar in (numpy.float64(1), numpy.int64(1), numpy.bool_(True), numpy.str_("a")):
        with pytest.raises(InvalidPublication, match="expected a plain int, float, str or bool"):
            Publication({"x": scalar})


def test_sixty_four_attributes_and_one_mebibyte_are_taken() -> None:
    publication = Publication({f"a{i}": i for i in range(64)}, bytes(1 << 20))
    assert len(publication.attributes) == 64
    with pytest.raises(InvalidPublication, match="at most 1048576 bytes, got 1048577"):
        Publication({"x": 1}, bytes((1 << 20) + 1))


@pytest.mark.parametrize("payload", ["text", bytearray(b"a"), None])
def test_a_payload_is_bytes(payload: object) -> None:
    with pytest.raises(InvalidPublication, match="expected a payload of bytes"):
        Publication({"x": 1}, payload)


def test_publications_are_values_that_tell_types_apart() -> None:
    assert Publication({"x": 1, "y": 2}) == Publication({"y": 2, "x": 1})
    assert hash(Publication({"x": 1, "y": 2})) == hash(Publication({"y": 2, "x": 1}))
    assert Publication({"x": 1}) != Publication({"x": True})
    assert Publication({"x": 1}) != Publication({"x": 1.0})
    assert Publication({"x": 1}) != Publication({"x": 1}, b"a")
    assert Publication({"x": 1}) != Publication({"x": 1, "y": 1})
    assert Publication({"x": 1}) != {"x": 1}
    assert repr(Publication({"x": 1}, b"a")) == "Publication({'x': 1}, payload=b'a')"


def test_publications_pickle_and_cannot_be_changed() -> None:
    publication = Publication({"x": 1.0, "y": "a"}, b"b")
    assert pickle.loads(pickle.dumps(publication)) == publication
    with pytest.raises(AttributeError):
        publication.payload = b""
    with pytest.raises(AttributeError):
        publication.attributes = {}


def test_trusted_data_is_not_checked_again() -> None:
    assert Publication.trusted({"x": 1}, b"a") == Publication({"x": 1}, b"a")
    assert Publication.trusted({}).attributes == {}
