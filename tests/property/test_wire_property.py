"""Whatever is said is read as it was said, however its bytes are cut, and no bytes do harm.

The mutations are drawn from seeds: ``mutated(random.Random(seed))`` gives the bytes of a failure again.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_strategies import MESSAGES, frame, items, numbers, publications

from octopia.content import Publication
from octopia.errors import BadFrame, InvalidPublication
from octopia.ids import BrokerId, PublicationId
from octopia.protocol import Frame, WireItem
from octopia.protocol.messages import Publish, PublishRequest
from octopia.wire import Reader, encode
from octopia.wire.format import PUBLICATION
from wire_samples import ITEMS

streams = st.lists(items, min_size=1, max_size=6)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_every_message_comes_out_as_it_went_in(kind: type, data: st.DataObject):
    sent = frame(data.draw(numbers), data.draw(MESSAGES[kind]))
    (read,) = Reader().feed(encode(sent))
    assert read == sent
    assert isinstance(read, Frame)
    assert type(read.message) is kind
    assert encode(read) == encode(sent)


@settings(deadline=None)
@given(said=streams, cuts=st.lists(st.integers(1, 200), max_size=20))
def test_it_does_not_matter_how_the_bytes_are_cut(said: list[WireItem], cuts: list[int]):
    stream = b"".join(map(encode, said))
    reader, read, at = Reader(), [], 0
    for cut in (*cuts, len(stream)):
        read += reader.feed(stream[at : at + cut])
        at += cut
    assert read == said


@settings(deadline=None)
@given(said=streams)
def test_bytes_may_come_one_by_one(said: list[WireItem]):
    reader = Reader()
    assert [item for byte in b"".join(map(encode, said)) for item in reader.feed(bytes([byte]))] == said


@settings(deadline=None)
@given(content=publications, links=st.integers(1, 5))
def test_the_body_is_the_same_on_every_link(content: Publication, links: int):
    name = PublicationId(BrokerId("b", 3), 1, 1)
    bodies = []
    for hop in range(links):
        data = encode(frame(hop, Publish(name, content, None, hop, 0.0)))
        bodies.append(data[PUBLICATION.size :])
        (read,) = Reader().feed(data)
        assert isinstance(read, Frame)
        assert isinstance(read.message, Publish)
        content = read.message.publication
    assert bodies == [bodies[0]] * links


# Values of all types that msgpack knows, most of which no publication may carry.
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=3), st.binary(max_size=3)
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=1), inner)
)
candidates = st.one_of(
    st.dictionaries(st.text(max_size=2), st.one_of(scalars, st.integers(0, 5), st.text(max_size=2)), max_size=3),
    st.dictionaries(st.one_of(st.text(max_size=2), st.integers(0, 3)), anything, max_size=2),
    anything,
)


def encoded_request(encoded: bytes) -> bytes:
    length = PUBLICATION.size - 4 + len(encoded)
    return PUBLICATION.pack(length, 7, 0, 0, 1, 0, 0, 1, 0.0, 0, 0, 0, 0, len(encoded)) + encoded


@settings(max_examples=500, deadline=None)
@given(content=candidates)
def test_the_wire_carries_what_a_publication_may_carry_and_nothing_else(content: Any):
    data = encoded_request(msgspec.msgpack.encode(content))
    try:
        publication = Publication(content)
    except InvalidPublication:
        with pytest.raises(BadFrame):
            list(Reader().feed(data))
    else:
        (read,) = Reader().feed(data)
        assert read == frame(1, PublishRequest(1, publication, 0.0))


# Mutations.


def mutated(choose: random.Random) -> bytes:
    """Return a few frames in which some bytes were changed, inserted, deleted, copied or cut off."""
    data = bytearray(b"".join(map(encode, choose.choices(ITEMS, k=choose.randint(1, 3)))))
    for _ in range(choose.choice((1, 1, 2, 5))):
        at = choose.randrange(len(data))
        match choose.randrange(6):
            case 0:
                data[at] ^= 1 << choose.randrange(8)
            case 1:
                data[at] = choose.choice((0, 1, 0x7F, 0x80, 0xC0, 0xCB, 0xD9, 0xDD, 0xDF, 0xFF))
            case 2:
                data[at:at] = choose.randbytes(choose.randint(1, 4))
            case 3:
                del data[at : at + choose.randint(1, 4)]
            case 4:
                data[at:at] = data[choose.randrange(len(data)) :][: choose.randint(1, 40)]
            case 5:
                del data[at + 1 :]
        if not data:
            break
    return bytes(data)


def repaired(data: bytes) -> bytes:
    """Make the length of the first frame right, so that the mutation is not found out by that alone."""
    return (len(data) - 4).to_bytes(4, "little") + data[4:]


def read_all(data: bytes) -> tuple[list[WireItem], BadFrame | None]:
    """Return the items up to the first bad frame, and why it is bad."""
    read = []
    try:
        for item in Reader().feed(data):
            read.append(item)  # noqa: PERF402 (those before a bad frame are wanted)
    except BadFrame as error:
        return read, error
    return read, None


def survive(seed: int) -> tuple[int, bool]:
    """Read mutated frames; return how many items came and whether a frame was refused.

    Whatever comes can be written and read again: nobody can make a broker send what its neighbours refuse.
    """
    choose = random.Random(seed)
    data = mutated(choose)
    if len(data) > 4 and choose.random() < 0.5:
        data = repaired(data)
    read, refusal = read_all(data)
    assert refusal is None or 0 < len(str(refusal)) < 500
    for item in read:
        assert list(Reader().feed(encode(item))) == [item], f"seed {seed}"
    return len(read), refusal is not None


def survive_all(seeds: range) -> None:
    came = refused = 0
    for seed in seeds:
        items_read, frames_refused = survive(seed)
        came += items_read
        refused += frames_refused
    # Otherwise nearly all mutations would be harmless, or nearly all frames would be refused for the same reason.
    assert came > len(seeds) / 10
    assert refused > len(seeds) / 10


def test_mutated_frames_are_read_or_refused():
    survive_all(range(2_000))


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 100_000, 10_000))
def test_very_many_mutated_frames_are_read_or_refused(start: int):
    survive_all(range(start, start + 10_000))
