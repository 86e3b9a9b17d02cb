"""Every kind of malformed frame is refused, with a sentence that says what was expected and what came."""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec
import pytest

from octopia.content import Publication
from octopia.errors import BadFrame, InvalidPublication
from octopia.ids import AdvertisementId, BrokerId, PublicationId, SubscriptionId
from octopia.protocol import (
    Ack,
    Cause,
    CloseCode,
    Closing,
    ClusterIndexVector,
    Frame,
    Grant,
    Hello,
    Opening,
    Role,
    WireItem,
)
from octopia.protocol.duties import Lane, Origin
from octopia.protocol.messages import (
    AdvertiseRequest,
    CivSet,
    Confirm,
    Deliver,
    Detour,
    Gap,
    LinkStatuses,
    Message,
    Publish,
    PublishRequest,
    SubscribeRequest,
    Unconfirmed,
    Version,
)
from octopia.tid.messages import TidPublish
from octopia.wire import Reader, encode
from octopia.wire.format import ACK, PUBLICATION, Kind
from wire_samples import AD, BAR, FILTER, PUB, SUB, frames

pack = msgspec.msgpack.encode

FIELDS = (
    *("length", "kind", "clusters", "traffic_class", "sequence", "bits", "incarnation", "number", "published_ms"),
    *("hop", "cluster", "region", "extra", "attributes"),
)


def ack(held_ms: float = 0.0, asks: int = 0, classes: int = 0) -> bytes:
    """Return the fixed part of the body of an acknowledgement."""
    return ACK.pack(1, 1, 1, held_ms, asks, classes)


def cases(name: str, pairs: list[tuple[Any, str]]) -> pytest.MarkDecorator:
    """Run a test with each input and the words with which it is refused, which also name the case."""
    names = [f"{number}-{expected[:40]}" for number, (_, expected) in enumerate(pairs)]
    return pytest.mark.parametrize((name, "expected"), pairs, ids=names)


def complaint(data: bytes) -> str:
    with pytest.raises(BadFrame) as caught:
        list(Reader().feed(data))
    return str(caught.value)


def write(message: Message) -> bytes:
    (frame,) = frames(message)
    return encode(frame)


def altered(message: Message, body: bytes | None = None, **changes: float) -> bytes:
    """Write a publication with other fields in its header, or with another body, whose length is then made right."""
    data = write(message)
    fields = dict(zip(FIELDS, PUBLICATION.unpack_from(data), strict=True)) | changes
    body = data[PUBLICATION.size :] if body is None else body
    fields["length"] = PUBLICATION.size - 4 + len(body)
    return PUBLICATION.pack(*fields.values()) + body


def framed(kind: Kind, body: bytes, clusters: int = 0, traffic_class: int = 0, sequence: int = 0) -> bytes:
    return struct.pack("<IBBhQ", 12 + len(body), kind, clusters, traffic_class, sequence) + body


def control(body: bytes) -> bytes:
    return framed(Kind.CONTROL, body, 0, -1, 1)


def attributes(encoded: bytes) -> bytes:
    return altered(PublishRequest(1, BAR, 0.0), encoded, attributes=len(encoded))


PLAIN = Publish(PUB, Publication({"x": 1}), None, 1, 0.0)
STEERED = Publish(PUB, Publication({"x": 1}), ClusterIndexVector(5, 3), 1, 0.0)
REQUEST = PublishRequest(1, Publication({"x": 1}), 0.0)
DELIVERY = Deliver(PUB, Publication({"x": 1}), (1,), 1, 0.0)
TREE = TidPublish(PUB, Publication({"x": 1}), AD, 1, 0.0)


@cases(
    "data",
    [
        (altered(PLAIN, bits=1), "expected a CIV of at most 64 clusters, got 0x1 of width 0"),
        (altered(STEERED, bits=8, traffic_class=1), "expected a CIV of at most 64 clusters, got 0x8 of width 3"),
        (altered(STEERED, clusters=65), "expected a CIV of at most 64 clusters, got 0x5 of width 65"),
        (altered(STEERED, traffic_class=1), "expected the traffic class 2, got 1"),
        (altered(STEERED, traffic_class=-1), "expected the traffic class 2, got -1"),
        (altered(REQUEST, traffic_class=1), "expected the traffic class 0, got 1"),
        (altered(DELIVERY, traffic_class=0), "expected the traffic class -1, got 0"),
        (altered(TREE, traffic_class=1), "expected the traffic class 0, got 1"),
        (altered(TREE, clusters=3), "expected no CIV, got 0x0 of width 3"),
        (altered(DELIVERY, bits=3), "expected no CIV, got 0x3 of width 0"),
        (altered(PLAIN, published_ms=math.nan), "expected a time of publication, got nan"),
        (altered(PLAIN, published_ms=-math.inf), "expected a time of publication, got -inf"),
        (altered(PLAIN, cluster=64), "expected a cluster from 0 to 63, got 64"),
        (altered(PLAIN, attributes=5), "expected parts of at most 5 bytes in total, got 6"),
        (altered(PLAIN, extra=2**32 - 1), "expected parts of at most 5 bytes in total, got 4294967300"),
        (altered(PLAIN, clusters=0x80 + 65), "expected a CIV of at most 64 clusters, got 0x0 of width 65"),
        (altered(STEERED, clusters=0x80), "expected a CIV of at most 64 clusters, got 0x5 of width 0"),
        (altered(REQUEST, clusters=0x80), "expected only a number and a time in a request, got"),
        (altered(DELIVERY, clusters=0x80), "expected no CIV, got 0x0 of width 128"),
        (altered(TREE, clusters=0x80), "expected no CIV, got 0x0 of width 128"),
        (altered(PLAIN, b"b" * 256 + b"\x81\xa1x\x01", region=256), "expected a region of at most 255 bytes, got 256"),
        (altered(REQUEST, hop=1), "expected only a number and a time in a request, got an id, CIV, hop or extra part"),
        (altered(REQUEST, incarnation=1), "expected only a number and a time in a request, got"),
        (
            altered(DELIVERY, b"b\x90\x81\xa1x\x01", extra=1),
            "expected a delivery to name at least one subscription",
        ),
        (altered(DELIVERY, b"b\x91\xff\x81\xa1x\x01", extra=2), "expected a number that is not negative, got -1"),
        (attributes(b"\x82\xa1x\x01\xa1x\x02"), "expected each attribute once, got 2 entries for 1 names"),
        (attributes(b"\xde\x00\x02\xa1x\x01\xa1x\x02"), "expected each attribute once, got 2 entries for 1 names"),
        (
            attributes(b"\xdf\x00\x00\x00\x02\xa1x\x01\xa1x\x02"),
            "expected each attribute once, got 2 entries for 1 names",
        ),
        (attributes(b"\x81\xa1x\xcb\x7f\xf8" + bytes(6)), "expected a number, got NaN for an attribute"),
        (attributes(b"\x81\xa1x\xca\xff\xc0\x00\x00"), "expected a number, got NaN for an attribute"),
        (attributes(pack({"x": "a" * 2**18})), "expected attributes of at most 262144 bytes, got 262152"),
        (
            altered(REQUEST, b"\x81\xa1x\x01" + bytes(2**20 + 1)),
            "expected a payload of at most 1048576 bytes, got 1048577",
        ),
    ],
)
def test_the_header_and_the_content_of_a_publication_are_checked(data: bytes, expected: str):
    assert complaint(data).startswith(expected)


@cases(
    "encoded",
    [
        (b"", "Input data was truncated"),
        (b"\x82\xa1x\x01", "Input data was truncated"),
        (b"\x81\xa1x\x01\x01", "trailing characters"),
        (pack({}), "Expected `object` of length >= 1"),
        (pack({str(number): 1 for number in range(65)}), "Expected `object` of length <= 64"),
        (b"\xdf\xff\xff\xff\xff\xa1x\x01", "Expected `object` of length <= 64"),
        (pack({"": 1}), "Expected `str` of length >= 1"),
        (pack({"é" * 256: 1}), "Expected `str` of length <= 255"),
        (pack({"x": "é" * 8193}), "Expected `str` of length <= 8192"),
        (pack({1: 1}), "Expected `str`, got `int`"),
        (pack({"x": None}), "got `None`"),
        (pack({"x": [1]}), "got `array`"),
        (pack({"x": b"1"}), "got `bytes`"),
        (b"\x81\xa1x\xc7\x01\x05a", "got `ext`"),
        (pack({"x": 2**63}), "Expected `int` <= 9223372036854775807"),
        (b"\x81\xa1x\xa3\xed\xa0\x80", "'utf-8' codec can't decode"),
        (b"\x81\xa1\xff\x01", "'utf-8' codec can't decode"),
        (pack([1]), "Expected `object`, got `array`"),
        (b"\x91" * 100_000, "Expected `object`, got `array`"),
    ],
)
def test_attributes_are_checked_while_they_are_decoded(encoded: bytes, expected: str):
    said = complaint(attributes(encoded))
    assert said.startswith("expected well-formed content in a frame of kind publish_request, but: ")
    assert expected in said


@pytest.mark.parametrize(
    "content",
    [{"x": 2**63}, {"x": -(2**63) - 1}, {"x": math.nan}, {"x": None}, {"": 1}, {"x" * 256: 1}, {}, {1: 1}, {"x": b""}],
)
def test_what_is_no_publication_is_none_on_the_wire(content: dict[Any, Any]):
    with pytest.raises(InvalidPublication):
        Publication(content)
    try:
        encoded = pack(content)
    except OverflowError:
        return
    complaint(attributes(encoded))


@pytest.mark.parametrize("region", [b"", b"1", b"b.c", b"b c", b"\xff", "é".encode(), b"b\n"])
def test_the_host_broker_of_a_publication_must_have_a_legal_name(region: bytes):
    complaint(altered(PLAIN, region + b"\x81\xa1x\x01", region=len(region)))


def test_a_publish_is_bad_if_the_tid_is():
    assert "Expected `array`" in complaint(altered(TREE, b"b\x01\x81\xa1x\x01", extra=1))
    assert "trailing" in complaint(altered(TREE, b"b" + pack(AD) + b"\x01\x81\xa1x\x01", extra=len(pack(AD)) + 1))
    nowhere = AdvertisementId(BrokerId("b", 64), 1, 1)
    assert complaint(write(TidPublish(PUB, BAR, nowhere, 1, 0.0))).startswith("expected a cluster from 0 to 63, got 64")


def detour(*fields: Any, encoded: bytes | None = None, lane: int = 1, **changes: float) -> bytes:
    """Write a copy with the CIV 101 and a detour of these fields."""
    extra = pack(fields) if encoded is None else encoded
    body = b"b" + extra + b"\x81\xa1x\x01"
    return altered(STEERED, body, **{"extra": len(extra), "traffic_class": lane} | changes)


@cases(
    "data",
    [
        (detour(encoded=b"\x01"), "Expected `array`, got `int`"),
        (detour(encoded=b"\x80"), "Expected `array`, got `object`"),
        (detour(encoded=b"\xc0"), "Expected `array`, got `None`"),
        (detour(), "Expected `array` of at least length 1, got 0"),
        (detour(1, 0, None, [], 5), "Expected `array` of at most length 4, got 5"),
        (detour(encoded=b"\x91\x01\x01"), "trailing characters"),
        (detour(encoded=b"\x92\x01"), "Input data was truncated"),
        (detour(encoded=b"\x94\x01\x00\xc0\xdd\xff\xff\xff\xff"), "Input data was truncated"),
        (detour(encoded=b"\x94\x01\x00\xc0" + b"\x91" * 100_000), "Expected `array` of length 2, got 1"),
        (detour(2, lane=2), "Invalid enum value 2"),
        (detour(-1, lane=-1), "Invalid enum value -1"),
        (detour(True), "Expected `int`, got `bool`"),
        (detour(None), "Expected `int`, got `None`"),
        (detour(1, -1), "Expected `int` >= 0"),
        (detour(1, 256), "Expected `int` <= 255"),
        (detour(1, 2**64 - 1), "Expected `int` <= 255"),
        (detour(1, 1.5), "Expected `int`, got `float`"),
        (detour(1, 0, 3), "Expected `bool | str | null`, got `int`"),
        (detour(1, 0, b"a"), "Expected `bool | str | null`, got `bytes`"),
        (detour(1, 0, False), "expected nil, true or a region as the origin of a detour, got false"),
        (detour(1, 0, ""), "expected a broker as region.cluster"),
        (detour(1, 0, "a.b"), "expected a broker as region.cluster"),
        (detour(1, 0, "host\n"), "expected a broker as region.cluster"),
        (detour(1, 0, "a" * 256), "expected a region of at most 255 bytes, got 256"),
        (detour(encoded=b"\x93\x01\x00\xa1\xff"), "'utf-8' codec can't decode"),
        (detour(1, 0, None, {"c": 2}), "Expected `array`, got `object`"),
        (detour(1, 0, None, [["c"]]), "Expected `array` of length 2, got 1"),
        (detour(1, 0, None, [["c", 2, 3]]), "Expected `array` of length 2, got 3"),
        (detour(1, 0, None, [["c", "2"]]), "Expected `int`, got `str`"),
        (detour(1, 0, None, [[1, 2]]), "Expected `str`, got `int`"),
        (detour(1, 0, None, [["", 2]]), "expected a broker as region.cluster"),
        (detour(1, 0, None, [["a", 2], ["c d", 2]]), "expected a broker as region.cluster"),
        (detour(1, 0, None, [["c", 0]]), "expected a cluster or more to cross to c, got the bits 0x0"),
        (detour(1, 0, None, [["c", -2]]), "expected a cluster or more to cross to c, got the bits -0x2"),
        (detour(1, 0, None, [["c", 2], ["a", 2]]), "expected regions in order, each once, got a after c"),
        (detour(1, 0, None, [["c", 2], ["c", 2]]), "expected regions in order, each once, got c after c"),
        (detour(1, lane=2), "expected the traffic class 1, got 2"),
        (detour(1, lane=0), "expected the traffic class 1, got 0"),
        (detour(1, lane=-1), "expected the traffic class 1, got -1"),
        (detour(0), "expected the traffic class 0, got 1"),
        (detour(1, extra=2**32 - 1), "expected parts of at most 7 bytes in total, got"),
    ],
)
def test_the_detour_of_a_copy_is_checked(data: bytes, expected: str):
    said = complaint(data)
    assert expected in said
    assert len(said) < 400


def test_the_parts_of_a_good_detour_may_be_spelled_out():
    (frame,) = Reader().feed(detour(1, 0, None, []))
    assert isinstance(frame, Frame)
    assert frame.message == STEERED.copy(STEERED.publication_civ, Detour(Lane.REROUTED), 0)
    (frame,) = Reader().feed(detour(0, 3, True, [["c", 7]], lane=0))
    assert isinstance(frame, Frame)
    assert frame.message == STEERED.copy(STEERED.publication_civ, Detour(Lane.PLAIN, 3, Origin.LOCAL, (("c", 7),)), 0)


FAR = BrokerId("b", -1)


@cases(
    "message",
    [
        (Confirm((SUB, SubscriptionId(FAR, 1, 1))), "expected a cluster from 0 to 63, got -1"),
        (Confirm((SubscriptionId(BrokerId("b" * 256, 1), 1, 1),)), "expected a region of at most 255 bytes, got 256"),
        (Confirm((SubscriptionId(BrokerId("b.1", 1), 1, 1),)), "expected a broker as region.cluster, such as b.3, got"),
        (Confirm((SubscriptionId(BrokerId("b", 1), -1, 1),)), "expected a number that is not negative, got -1"),
        (Confirm((SubscriptionId(BrokerId("b", 1), 1, -2),)), "expected a number that is not negative, got -2"),
        (CivSet((AD,), Version(-3, 1)), "expected a number that is not negative, got -3"),
        (Unconfirmed("SubscribeRequest", 1, (FAR,)), "expected a cluster from 0 to 63, got -1"),
        (AdvertiseRequest(-1, FILTER), "expected a number that is not negative, got -1"),
        (SubscribeRequest(1, FILTER, math.nan), "expected a time of at least 0 ms, got nan"),
        (SubscribeRequest(1, FILTER, -0.5), "expected a time of at least 0 ms, got -0.5"),
        (SubscribeRequest(1, FILTER, math.inf), "expected a time of at least 0 ms, got inf"),
        (LinkStatuses((("a", -1.0),)), "expected work of at least 0 for the aLink to a, got -1.0"),
        (LinkStatuses((("a", math.nan),)), "expected work of at least 0 for the aLink to a, got nan"),
        (LinkStatuses((("a", 1.0), ("b", math.inf))), "expected work of at least 0 for the aLink to b, got inf"),
        (LinkStatuses((("a b", 1.0),)), "expected a broker as region.cluster, such as b.3, got"),
        (LinkStatuses((("b", 1.0), ("a", 1.0))), "expected regions in order, each once, got a after b"),
        (LinkStatuses(down_alinks=("",)), "expected a broker as region.cluster, such as b.3, got"),
        (LinkStatuses(down_alinks=("b" * 256,)), "expected a region of at most 255 bytes, got 256"),
        (LinkStatuses(down_alinks=("b", "b")), "expected regions in order, each once, got b after b"),
        (LinkStatuses(down_ilinks=-1), "expected a number that is not negative, got -1"),
    ],
)
def test_names_and_numbers_of_control_messages_are_checked(message: Message, expected: str):
    assert expected in complaint(write(message))


def subscribe(*filters: Any) -> bytes:
    return control(pack({"type": "SubscribeRequest", "handle": 1, "interest": {"filters": filters}}))


def condition(attribute: Any, operator: Any, operand: Any = None) -> dict[str, Any]:
    return {"predicates": [{"attribute": attribute, "operator": operator, "operand": operand}]}


@cases(
    "data",
    [
        (subscribe(*[{}] * 100_000), "Expected `array` of length <= 256"),
        (subscribe(condition("x", "in", [1] * 100_000)), "Expected `array` of length <= 256"),
        (subscribe(*[{}] * 65), "expected at most 64 filters in the normal form, got 65"),
        (
            subscribe({"predicates": condition("x", "=", 1)["predicates"] * 65}),
            "expected at most 64 predicates in a filter, got 65",
        ),
        (subscribe(condition("x" * 256, "=", 1)), "expected an attribute name of 1 to 255 characters, got 256"),
        (subscribe(condition("", "=", 1)), "expected an attribute name of 1 to 255 characters, got 0"),
        (subscribe(condition("x", "=", "é" * 4097)), "expected at most 4096 characters in x =, got 4097"),
        (subscribe(condition("x", "between", ["", "a" * 4097])), "at most 4096 characters in x BETWEEN, got 4097"),
        (subscribe(condition("x", "in", [1] * 101)), "expected at most 100 values in x IN, got 101"),
        (subscribe(condition("x", "not in", ["a" * 4097])), "at most 4096 characters in x NOT IN, got 4097"),
        (subscribe(condition("x", "contains", "a" * 257)), "expected at most 256 characters in x CONTAINS, got 257"),
        (subscribe(condition("x", "like", "a_" * 129)), "expected at most 256 characters in x LIKE, got 258"),
        (subscribe(*[condition("x", "=", "a" * 1024)] * 64), "at most 65536 characters of names and values in the"),
        (subscribe(*[condition("x", "contains", "ab")] * 23), "takes at most 500 µs on any publication, got"),
        (subscribe(condition("x", "=", math.nan)), "expected a number, got NaN in x ="),
        (subscribe(condition("x", "=", 2**63)), "expected a signed 64-bit integer"),
        (subscribe(condition("x", "=")), "expected a plain int, float, str or bool, got NoneType in x ="),
        (subscribe(condition("x", "like", "a%")), "expected a pattern with inner wildcards in x LIKE"),
        (subscribe(condition("x", "between", [1])), "expected"),
        (subscribe(condition("x", "in", [])), "expected a tuple of values in x IN, got an empty tuple"),
        (subscribe(condition("x", "~", 1)), "Invalid enum value '~'"),
        (subscribe(condition(1, "=", 1)), "Expected `str`, got `int`"),
    ],
)
def test_filters_are_checked_as_those_from_a_text(data: bytes, expected: str):
    said = complaint(data)
    assert said.startswith("expected well-formed content in a frame of kind control, but: ")
    assert expected in said


@cases(
    "data",
    [
        (control(b""), "Input data was truncated"),
        (control(pack(Gap(Cause.GRACE)) + b"\x00"), "trailing characters"),
        (control(pack({"type": "Nonsense"})), "Invalid value 'Nonsense'"),
        (control(pack({"type": "Publish"})), "Invalid value 'Publish'"),
        (control(pack({"type": "A" * 100_000})), "AAA"),
        (control(pack({})), "missing required field `type`"),
        (control(b"\x82\xa4type\xa3Gap\xa1x" + b"\x91" * 100_000 + b"\x01"), "recursion"),
        (control(b"\x82\xa4type\xa7Confirm\xadsubscriptions\xdd\xff\xff\xff\xff"), "truncated"),
        (framed(Kind.CONTROL, pack(Gap(Cause.GRACE)), 0, 0, 1), "the traffic class -1, got width 0, class 0"),
        (framed(Kind.CONTROL, pack(Gap(Cause.GRACE)), 1, -1, 1), "the traffic class -1, got width 1, class -1"),
        (framed(Kind.ACK, ack(), sequence=1), "expected neither CIV, class nor sequence"),
        (framed(Kind.ACK, ack()[:-1]), "expected an acknowledgement of at least 34 bytes, got 33"),
        (framed(Kind.ACK, ack() + b"x"), "expected 0 classes in an acknowledgement, got 1 bytes for them"),
        (framed(Kind.ACK, ack(classes=2) + bytes(9)), "expected 2 classes in an acknowledgement, got 9 bytes"),
        (framed(Kind.ACK, ack(asks=2)), "expected 0 or 1 for whether an acknowledgement asks for one, got 2"),
        (framed(Kind.ACK, ack(held_ms=math.nan)), "expected a time of at least 0 ms, got nan"),
        (framed(Kind.ACK, ack(held_ms=-1.0)), "expected a time of at least 0 ms, got -1.0"),
        (framed(Kind.ACK, ack(held_ms=math.inf)), "expected a time of at least 0 ms, got inf"),
        (framed(Kind.CLOSING, pack({"type": "Closing", "code": "bored"})), "Invalid enum value 'bored'"),
        (framed(Kind.CLOSING, pack(Closing(CloseCode.DONE, "x" * 1001))), "Expected `str` of length <= 1000"),
        (framed(Kind.OPENING, b"OCTO"), "expected the magic word and the protocol version, got 4 bytes"),
        (framed(Kind.OPENING, b"octo\x01\x00"), "expected the magic word b'OCTO', got b'octo'"),
        (framed(Kind.OPENING, b"OCTO\x01\x00"), "expected protocol version 3, got 1"),
        (framed(Kind.OPENING, b"OCTO\x03\x00\x80"), "missing required field"),
    ],
)
def test_bodies_are_checked(data: bytes, expected: str):
    said = complaint(data)
    assert expected in said
    assert len(said) < 400


@cases(
    "item",
    [
        (Hello(0, 1, 1, Grant(1, 1, ())), "expected an incarnation of at least 1 in a Hello, got 0"),
        (Hello(1, -1, 1, Grant(1, 1, ())), "expected a number that is not negative, got -1"),
        (Hello(1, 1, -1, Grant(1, 1, ())), "expected a number that is not negative, got -1"),
        (Hello(1, 1, 1, Grant(-1, 1, ())), "expected a number and a window that are not negative, got -1, 1"),
        (Hello(1, 1, 1, Grant(1, -1, ())), "expected a number and a window that are not negative, got 1, -1"),
        (Hello(1, 1, 1, Grant(1, 1, ((-1, 1),))), "expected classes from 0 to 64, in order, got -1 after -1"),
        (Hello(1, 1, 1, Grant(1, 1, ((0, -1),))), "expected a number that is not negative, got -1"),
        (Ack(1, Grant(1, 1, ((65, 1),))), "expected classes from 0 to 64, in order, got 65 after -1"),
        (Ack(1, Grant(1, 1, ((3, 1), (3, 1)))), "expected classes from 0 to 64, in order, got 3 after 3"),
        (Opening(Role.CLIENT, ""), "expected a printable client name, got ''"),
        (Opening(Role.CLIENT, "a\nb"), "expected a printable client name, got 'a\\nb'"),
        (Opening(Role.CLIENT, "a" * 256), "Expected `str` of length <= 255"),
        (Opening(Role.CLIENT, "a", "abc"), "expected no fingerprint from a client, got 'abc'"),
        (Opening(Role.CLIENT, "a", broker="b"), "expected a broker as region.cluster, such as b.3, got 'b'"),
        (Opening(Role.BROKER, "b", "abc"), "expected a broker as region.cluster, such as b.3, got 'b'"),
        (Opening(Role.BROKER, "b.1"), "expected the fingerprint of an overlay in hex, got ''"),
        (Opening(Role.BROKER, "b.1", "XYZ"), "expected the fingerprint of an overlay in hex, got 'XYZ'"),
    ],
)
def test_what_sessions_and_ends_say_is_checked(item: WireItem, expected: str):
    assert expected in complaint(encode(item))


def test_a_number_may_have_64_bits():
    item = frames(Publish(PublicationId(BrokerId("b", 63), 2**64 - 1, 2**64 - 1), BAR, None, 2**32 - 1, 0.0))[0]
    assert list(Reader().feed(encode(item))) == [item]
