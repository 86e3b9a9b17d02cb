"""The compiled reader and writer of frames against the reference: the same items, errors and bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import MUTATIONS
from wire_strategies import acknowledgements, civs, detours, flags, hops, numbers, publication_ids, publications, times

from octopia.errors import BadFrame
from octopia.protocol import Ack, Frame, Grant
from octopia.protocol.messages import Deliver, Publish, PublishRequest
from octopia.wire import Reader, encode, encode_all, relaying
from wire_samples import MESSAGES, frames

pytestmark = pytest.mark.skipif(not relaying.IS_COMPILED, reason="the reader of publications is not compiled here")

handles = st.lists(st.integers(0, 70_000), min_size=1, max_size=90).map(tuple)
carriers = st.one_of(
    st.builds(Publish, publication_ids, publications, st.none() | civs(), hops, times, st.none() | detours, flags),
    st.builds(PublishRequest, numbers, publications, times),
    st.builds(Deliver, publication_ids, publications, handles, hops, times),
)
ACKNOWLEDGEMENTS = (
    Ack(0, Grant(0, 0, ())),
    Ack(7, Grant(3, 65_536, ((0, 100), (3, 2**63), (64, 1))), 4.5, asks=True),
    Ack(2**64 - 1, Grant(2**40, 2**33, ((1, 0),)), 1e9),
)


@pytest.fixture(autouse=True)
def _back_to_compiled() -> Iterator[None]:
    yield
    relaying.IS_COMPILED = True


def read(data: bytes, *, compiled: bool) -> tuple[list[object], str]:
    """Return the items of a stream, and the error at its end."""
    relaying.IS_COMPILED = compiled
    items: list[object] = []
    try:
        items.extend(Reader().feed(data))
    except BadFrame as error:
        return items, str(error)
    return items, ""


@given(st.lists(carriers | acknowledgements, min_size=1, max_size=5))
def test_the_same_bytes_and_the_same_items(given_items: list[Publish | PublishRequest | Deliver | Ack]):
    numbered = enumerate(given_items, start=2**63)
    items = [each if isinstance(each, Ack) else Frame(number, each) for number, each in numbered]
    data = encode_all(items)
    assert data == b"".join(map(encode, items))
    assert read(bytes(data), compiled=True) == read(bytes(data), compiled=False) == (items, "")


def test_messages_that_the_compiled_writer_leaves_to_the_reference():
    items = frames(*MESSAGES)
    assert encode_all(items) == b"".join(map(encode, items))


def sizes(items: list[object]) -> list[int]:
    """Return the sizes of the publications among items."""
    return [each.message.size_bytes for each in items if isinstance(each, Frame)]


def agree_on(seeds: range) -> None:
    """Compare both readers on mutated streams, and both writers on what comes through."""
    refused = 0
    encoded = [encode(each) for each in frames(*MESSAGES) if each.message.size_bytes]  # type: ignore[union-attr]
    encoded += map(encode, ACKNOWLEDGEMENTS)
    for seed in seeds:
        chance = random.Random(seed)
        data = chance.choice(MUTATIONS)(chance, chance.sample(encoded, 3))
        items, error = read(data, compiled=True)
        assert (items, error) == read(data, compiled=False), f"seed {seed}"
        assert encode_all(items) == b"".join(map(encode, items)), f"seed {seed}"  # type: ignore[arg-type]
        assert sizes(items) == sizes(read(data, compiled=False)[0])
        refused += bool(error)
    assert len(seeds) / 10 < refused < len(seeds) * 9 / 10


def test_mutated_publications_are_read_or_refused_alike():
    agree_on(range(3_000))


@pytest.mark.soak
@pytest.mark.parametrize("start", range(0, 300_000, 30_000))
def test_very_many_mutated_publications_are_read_or_refused_alike(start: int):
    agree_on(range(start, start + 30_000))
