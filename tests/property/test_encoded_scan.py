"""The scan of encoded attributes accepts only what the decoder accepts, counts as it does, and knows ordinary ones."""

from __future__ import annotations

import pickle
import random
from typing import Any

import msgspec
import pytest
from content_strategies import publications
from encoded_attributes import draw_encoded
from hypothesis import given, settings
from hypothesis import strategies as st

from octopia.content import Publication
from octopia.content.encoded import check
from octopia.content.publications import scanned
from octopia.errors import BadFrame
from octopia.wire.decoding import REFUSALS, decode_content
from plain_modules import plain_module

PLAIN = plain_module("octopia.content.encoded")
ORDINARY = {"symbol": "IBM", "price": 12.5, "volume": 100, "open": True, "low": -1, "city": "Zürich", "day": 2**40}


def reference(encoded: bytes) -> Publication | None:
    try:
        return decode_content(encoded, b"payload")
    except REFUSALS:
        return None


def compare(encoded: bytes) -> tuple[bool, bool]:
    """Compare scan and decoder; return whether each of them accepts the attributes."""
    size = check(encoded)
    decoded = reference(encoded)
    got = scanned(encoded, b"payload")
    assert (got is not None) == (size >= 0)
    if got is not None:
        assert decoded is not None, encoded
        assert got.size == decoded.size == size + len(b"payload"), encoded
        assert got.encoded_attributes == encoded
        assert got == decoded, encoded
        assert list(got.attributes) == list(decoded.attributes)
    return got is not None, decoded is not None


def compare_all(seeds: range) -> None:
    known = right = 0
    for seed in seeds:
        encoded = draw_encoded(random.Random(seed))
        is_known, is_right = compare(encoded)
        known += is_known
        right += is_right
        if seed % 10 == 0:
            assert PLAIN.check(encoded) == check(encoded), encoded
    assert len(seeds) / 4 < right < len(seeds) * 3 / 4
    assert known > right / 4  # many of these names are not ASCII


def test_fuzzed_attributes() -> None:
    compare_all(range(5_000))


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 300_000, 30_000))
def test_very_many_fuzzed_attributes(start: int) -> None:
    compare_all(range(start, start + 30_000))


@settings(max_examples=300, deadline=None)
@given(publications(), st.binary(max_size=3))
def test_a_scanned_publication_is_the_publication(publication: Publication, trailing: bytes) -> None:
    encoded = msgspec.msgpack.encode(dict(publication.attributes))
    compare(encoded)
    if trailing:
        assert check(encoded + trailing) < 0
    for length in range(len(encoded)):
        assert check(encoded[:length]) < 0


@pytest.mark.parametrize("size_of", [check, PLAIN.check], ids=["as installed", "as plain Python"])
class TestCheck:
    def test_ordinary_attributes_are_known(self, size_of: Any) -> None:
        encoded = msgspec.msgpack.encode(ORDINARY)
        assert size_of(encoded) == Publication(ORDINARY).size

    @pytest.mark.parametrize("count", [1, 15, 16, 32, 64])
    def test_as_many_attributes_as_a_publication_may_have(self, size_of: Any, count: int) -> None:
        attributes = {f"attribute {number}": number for number in range(count)}
        assert size_of(msgspec.msgpack.encode(attributes)) == Publication(attributes).size

    @pytest.mark.parametrize(
        "encoded",
        [
            b"",
            b"\x80",
            b"\x81",
            b"\x81\xa1",
            b"\x81\xa1x",
            b"\x81\xa0\x01",
            b"\x82\xa1x\x01\xa1x\x02",
            b"\x81\xa1x\x01\x00",
            b"\xde\x00\x41" + b"".join(b"\xa2" + bytes([0x20 + each, 0x20]) + b"\x01" for each in range(65)),
            b"\x81\xa1x\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
            b"\x81\xa1x\xcf\x80\x00\x00\x00\x00\x00\x00\x00",
            b"\x81\xa1x\xc0",
            b"\x81\xa1x\xa1\xff",
            b"\x81\xa1x\xa3\xed\xa0\x80",
            b"\x81\xa1x\xda\x20\x01" + b"t" * 8193,
            b"\x91\x01",
        ],
    )
    def test_wrong_attributes_are_not_known(self, size_of: Any, encoded: bytes) -> None:
        assert size_of(encoded) == -1
        with pytest.raises((BadFrame, *REFUSALS)):
            decode_content(encoded, b"")

    def test_a_string_counts_characters(self, size_of: Any) -> None:
        assert size_of(msgspec.msgpack.encode({"x": "é" * 8192})) == 8193
        assert size_of(msgspec.msgpack.encode({"x": "é" * 8193})) == -1


def test_a_scanned_publication_can_be_copied_and_pickled() -> None:
    publication = scanned(msgspec.msgpack.encode(ORDINARY), b"payload")
    assert publication == Publication(ORDINARY, b"payload")
    assert hash(publication) == hash(Publication(ORDINARY, b"payload"))
    assert repr(publication) == repr(Publication(ORDINARY, b"payload"))
    assert pickle.loads(pickle.dumps(publication)) == publication
