"""The reader: whole items however the bytes are cut, nothing beyond the limits, and nothing after a bad frame."""

from __future__ import annotations

import pytest

from octopia.errors import BadFrame, PeerError
from octopia.protocol import Cause, WireItem
from octopia.protocol.messages import Deliver, Gap, Publish
from octopia.wire import Limits, Reader, encode
from wire_samples import BAR, ITEMS, PUB, frames

STREAM = b"".join(map(encode, ITEMS))


def read_in_pieces(data: bytes, length: int) -> list[WireItem]:
    reader = Reader()
    return [item for at in range(0, len(data), length) for item in reader.feed(data[at : at + length])]


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 1000])
def test_it_does_not_matter_how_the_bytes_are_cut(length: int):
    assert read_in_pieces(STREAM, length) == list(ITEMS)


def test_an_item_comes_with_its_last_byte():
    reader = Reader()
    data = encode(ITEMS[0])
    assert list(reader.feed(data[:-1])) == []
    assert list(reader.feed(data[-1:])) == [ITEMS[0]]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_will_do_and_may_be_reused(kind: type):
    reader = Reader()
    buffer = bytearray(encode(ITEMS[0]))
    items = list(reader.feed(kind(buffer)))
    buffer[:] = bytes(len(buffer))
    assert items == [ITEMS[0]]


def test_items_before_a_bad_frame_are_read_and_none_after_it():
    reader = Reader()
    good = encode(ITEMS[0])
    items = reader.feed(good + b"\x10\x00\x00\x00\x63" + good)
    assert next(items) == ITEMS[0]
    with pytest.raises(BadFrame, match="got 99"):
        next(items)
    with pytest.raises(PeerError, match="got 99"):
        list(reader.feed(good))
    assert not reader._rest, "it must not keep what it will never read"


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"\x01\x00\x10\x00\x05", "expected a length of 12 to 1048576 bytes, got 1048577, in a frame of kind control"),
        (b"\x01\x00\x18\x00\x06", "expected a length of 60 to 1572864 bytes, got 1572865, in a frame of kind publish"),
        (
            b"\xff\xff\xff\xff\x01",
            "expected a length of 12 to 1048576 bytes, got 4294967295, in a frame of kind opening",
        ),
        (b"\x0b\x00\x00\x00\x04", "expected a length of 12 to 1048576 bytes, got 11, in a frame of kind ack"),
        (b"\x3b\x00\x00\x00\x08", "expected a length of 60 to 1572864 bytes, got 59, in a frame of kind deliver"),
        (b"\x20\x00\x00\x00\x00", "expected a kind of frame from 1 to 11, got 0, at the start of a frame"),
        (b"GET / HTTP/1.1\r\n", "expected a kind of frame from 1 to 11, got 47, at the start of a frame"),
    ],
)
def test_what_cannot_be_a_frame_is_refused_by_its_first_five_bytes(start: bytes, message: str):
    with pytest.raises(BadFrame) as caught:
        list(Reader().feed(start))
    assert str(caught.value) == message


def test_limits_can_be_set_between_two_reads():
    (first, second) = frames(Gap(Cause.GRACE), Publish(PUB, BAR, None, 0, 0.0))
    reader = Reader(Limits(publication_bytes_max=10))
    assert list(reader.feed(encode(first))) == [first]
    reader.limits = Limits(publication_bytes_max=1000)
    assert list(reader.feed(encode(second))) == [second]
    assert reader.limits.publication_bytes_max == 1000


def test_publications_and_control_have_limits_of_their_own():
    delivery, gap = map(encode, frames(Deliver(PUB, BAR, (1,), 0, 0.0), Gap(Cause.GRACE)))
    assert len(list(Reader(Limits(len(delivery) - 4, len(gap) - 4)).feed(delivery + gap))) == 2
    for limits in (Limits(len(delivery) - 5, len(gap) - 4), Limits(len(delivery) - 4, len(gap) - 5)):
        with pytest.raises(BadFrame, match="expected a length of"):
            list(Reader(limits).feed(delivery + gap))


def test_a_frame_that_is_not_whole_is_kept_and_no_more():
    reader = Reader()
    data = encode(ITEMS[4])
    for _ in range(100):
        list(reader.feed(data))
    list(reader.feed(data[:10]))
    assert len(reader._rest) == 10
