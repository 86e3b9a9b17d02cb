"""A publication is encoded once by its publisher, decoded once a broker, and forwarded as the bytes that came."""

from __future__ import annotations

import pytest

from octopia.content import Publication
from octopia.errors import InvalidPublication
from octopia.protocol import ClusterIndexVector, Frame
from octopia.protocol.duties import Lane, Origin
from octopia.protocol.messages import Deliver, Detour, Message, Publish, PublishRequest
from octopia.tid.messages import TidPublish
from octopia.wire import Reader, encode, prepare
from wire_samples import AD, BAR, HOST, PUB, frames

# What another encoder could have written: a float of 32 bits, a long form of a short string and of a small number.
FOREIGN = b"\x83\xa1x\xca\x3f\x80\x00\x00\xd9\x01y\xa1t\xa1z\xcd\x00\x01"


def write(message: Message) -> bytes:
    (frame,) = frames(message)
    return encode(frame)


def read(data: bytes) -> Message:
    (item,) = Reader().feed(data)
    assert isinstance(item, Frame)
    return item.message


def test_the_body_is_the_same_from_publisher_to_subscriber():
    foreign = Publication({"x": 1.0, "y": "t", "z": 1}, b"payload")
    foreign.encoded_attributes = FOREIGN
    body = FOREIGN + b"payload"
    request = read(write(PublishRequest(5, foreign, 1.5)))
    assert isinstance(request, PublishRequest)
    assert request.publication == foreign
    message: Message = Publish(PUB, request.publication, ClusterIndexVector(6, 4), 0, 1.5)
    for hop in range(1, 4):
        data = write(message)
        assert data.endswith(body)
        message = read(data)
        assert isinstance(message, Publish)
        message = Publish(message.id, message.publication, None, hop, message.published_ms)
    assert isinstance(message, Publish)
    assert write(TidPublish(PUB, message.publication, AD, 1, 1.5)).endswith(body)
    delivered = read(write(Deliver(PUB, message.publication, (1, 2), 4, 1.5)))
    assert delivered == Deliver(PUB, foreign, (1, 2), 4, 1.5)


def test_copies_for_several_links_share_one_encoding():
    content = Publication({"x": 1})
    write(Publish(PUB, content, None, 0, 0.0))
    encoded = content.encoded_attributes
    assert encoded == b"\x81\xa1x\x01"
    write(Publish(PUB, content, ClusterIndexVector(1, 2), 1, 0.0))
    write(Deliver(PUB, content, (1,), 1, 0.0))
    assert content.encoded_attributes is encoded
    assert prepare(content) is encoded


def test_only_the_header_differs_from_hop_to_hop():
    first, second = (write(Publish(PUB, BAR, civ, hop, 9.0)) for civ, hop in ((None, 1), (ClusterIndexVector(1, 2), 2)))
    assert first != second
    assert first[64:] == second[64:]
    assert first[64:].startswith(HOST.region.encode() + prepare(BAR))


def test_a_copy_without_a_detour_costs_no_byte_more():
    plain, ordered = (write(Publish(PUB, BAR, None, 1, 9.0, ordered=each)) for each in (False, True))
    assert len(plain) == len(ordered) == 64 + len(HOST.region) + len(prepare(BAR)) + len(BAR.payload)
    assert plain[:5] + bytes([plain[5] | 0x80]) + plain[6:] == ordered


@pytest.mark.parametrize(
    ("detour", "extra"),
    [
        (Detour(Lane.REROUTED), b"\x91\x01"),
        (Detour(Lane.PLAIN, 2), b"\x92\x00\x02"),
        (Detour(Lane.PLAIN, 0, Origin.LOCAL), b"\x93\x00\x00\xc3"),
        (Detour(Lane.REROUTED, 1, "a"), b"\x93\x01\x01\xa1a"),
        (Detour(Lane.REROUTED, 1, Origin.HOST, (("c", 10),)), b"\x94\x01\x01\xc0\x91\x92\xa1c\x0a"),
    ],
)
def test_a_detour_stands_between_the_region_and_the_body(detour: Detour, extra: bytes):
    civ = ClusterIndexVector(5, 4)
    without, with_it = (write(Publish(PUB, BAR, civ, 1, 9.0, each)) for each in (None, detour))
    assert with_it[64:] == b"b" + extra + without[65:]
    assert with_it[6] == detour.lane


def test_the_cache_is_no_part_of_the_value():
    one, other = Publication({"x": 1}), Publication({"x": 1})
    prepare(one)
    assert one == other
    assert hash(one) == hash(other)


def test_attributes_that_no_frame_can_carry_are_refused_to_the_publisher():
    content = Publication({f"x{number:02}": "a" * 8192 for number in range(32)})
    with pytest.raises(
        InvalidPublication, match=r"^expected attributes of at most 262144 bytes when encoded, got 262371"
    ):
        prepare(content)
