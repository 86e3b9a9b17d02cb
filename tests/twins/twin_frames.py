"""Frames as bytes: what a reader accepts, the errors of what it refuses, sizes, and the bytes that a writer makes."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterator

from encoded_attributes import draw_encoded
from mutations import MUTATIONS

from octopia.content import Publication
from octopia.errors import BadFrame, OctopiaError
from octopia.ids import BrokerId, PublicationId
from octopia.protocol import Ack, ClusterIndexVector, Frame, Grant, Hello, WireItem
from octopia.protocol.messages import Deliver, Message, Publish, PublishRequest
from octopia.wire import Limits, Reader, encode, encode_all
from wire_samples import ITEMS

SAMPLES = [encode(each) for each in ITEMS]
NUMBERS = (0, 1, 2, 127, 128, 2**16, 2**31, 2**32 - 1, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
"""Numbers of 64 bits, at the borders of types."""
TIMES = (0.0, -0.0, 1.5, 1e-308, -1e300, 1.7e12)
HOSTS = (BrokerId("a", 0), BrokerId("region_9", 63), BrokerId("r" * 63, 7))


def lines(seed: int) -> Iterator[str]:
    """Yield what becomes of a stream of frames, some of which are broken."""
    chance = random.Random(seed)
    frames = [_frame(chance) for _ in range(chance.randint(1, 6))]
    data = chance.choice(MUTATIONS)(chance, frames) if chance.random() < 0.6 else b"".join(frames)
    limits = Limits() if chance.random() < 0.8 else Limits(chance.choice((70, 200, 5000)), chance.choice((70, 200)))
    items: list[WireItem] = []
    yield from _read(chance, data, limits, items)
    yield f"written {bytes(encode_all(items)).hex()}"
    yield f"written as an iterable {bytes(encode_all(iter(items))) == b''.join(map(encode, items))}"
    yield from _publication(chance)


def _read(chance: random.Random, data: bytes, limits: Limits, items: list[WireItem]) -> Iterator[str]:
    reader, at = Reader(limits), 0
    while at < len(data):
        step = chance.choice((1, 7, 63, 64, 65, 200, len(data), len(data)))
        chunk, at = data[at : at + step], at + step
        try:
            for item in reader.feed(chance.choice((bytes, bytearray, memoryview))(chunk)):
                items.append(item)
                yield from _described(item)
        except BadFrame as error:
            yield f"refused at {at}: {error}"


def _described(item: WireItem) -> Iterator[str]:
    yield repr(item)
    copied = pickle.loads(pickle.dumps(item))
    yield f"{copied == item} {copy.deepcopy(item) == item} {copied != item} {item == 1}"
    if isinstance(item, Frame):
        message = item.message
        yield f"{hash(item) == hash(copied)} {message.traffic_class} {message.size_bytes}"
        if isinstance(message, Publish | PublishRequest | Deliver):
            content = message.publication
            yield f"{content.size} {type(message.published_ms)} {content.encoded_attributes.hex()} {content!r}"


def _frame(chance: random.Random) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(SAMPLES)
    if kind == 1:
        grant = Grant(chance.choice(NUMBERS), chance.choice(NUMBERS), ((0, chance.choice(NUMBERS)),))
        greeting = Hello(chance.choice(NUMBERS[1:]), chance.choice(NUMBERS), chance.choice(NUMBERS), grant)
        return encode(chance.choice((greeting, Ack(chance.choice(NUMBERS), grant))))
    return encode(Frame(chance.choice(NUMBERS), _message(chance)))


def _message(chance: random.Random) -> Message:
    content = Publication.trusted({"x": 1}, chance.randbytes(chance.choice((0, 1, 9, 300))))
    content.encoded_attributes = draw_encoded(chance)
    published_ms = chance.choice(TIMES)
    kind = chance.randrange(4)
    if kind == 0:
        return PublishRequest(chance.choice(NUMBERS), content, published_ms)
    name = PublicationId(chance.choice(HOSTS), chance.choice(NUMBERS), chance.choice(NUMBERS))
    hop = chance.choice((0, 1, 255, 2**32 - 1))
    if kind == 1:
        handles = tuple(chance.choice((0, 1, 127, 128, 2**33)) for _ in range(chance.choice((1, 1, 2, 15, 16))))
        return Deliver(name, content, handles, hop, published_ms)
    clusters = chance.choice((0, 1, 63, 64))
    civ = ClusterIndexVector(chance.getrandbits(clusters), clusters) if clusters else None
    return Publish(name, content, civ, hop, published_ms, ordered=chance.random() < 0.3)


def _publication(chance: random.Random) -> Iterator[str]:
    """Yield what a program gets that makes a publication of odd values."""
    odd = (0, True, -(2**63), 2**63 - 1, 2**63, 1.5, float("nan"), "", "t" * 8193, "\ud800", None, b"x", [1], 1j)
    names = ("x", "", "é", "n" * 256, 5, "a b", "\ud800")
    attributes = {chance.choice(names): chance.choice(odd) for _ in range(chance.choice((0, 1, 2, 3)))}
    payload = chance.choice((b"", b"x", bytearray(b"x"), None, "text"))
    try:
        made = Publication(chance.choice((attributes, attributes, attributes, None, [1])), payload)  # type: ignore[arg-type]
        yield f"{made!r} {made.size} {made == Publication(made.attributes)} {made == pickle.loads(pickle.dumps(made))}"
        more = Publication({**made.attributes, "more": 1}, made.payload)
        yield f"{made == more} {more == made} {made != more} {hash(made) == hash(pickle.loads(pickle.dumps(made)))}"
        yield bytes(encode_all([Frame(1, PublishRequest(1, made, 0.0))])).hex()
    except (OctopiaError, TypeError, UnicodeError) as error:
        yield f"{type(error).__name__}: {error}"
