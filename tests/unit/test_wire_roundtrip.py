"""Everything that can be said comes out as it went in, and sender and receiver agree on its class and size."""

from __future__ import annotations

from typing import get_args

import pytest

from octopia.content import Publication
from octopia.ids import BrokerId
from octopia.protocol import CloseCode, Closing, Frame, WireItem
from octopia.protocol.messages import Publish
from octopia.protocol.registry import REGISTRY
from octopia.wire import Limits, Reader, encode
from wire_samples import BAR, HOST, ITEMS, MESSAGES, PUB, frames


def test_the_samples_are_complete():
    assert {type(each) for each in MESSAGES} == set(REGISTRY.message_types)
    assert {type(each) for each in ITEMS} == set(get_args(WireItem))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(getattr(item, "message", item)).__name__)
def test_an_item_comes_out_as_it_went_in(item: WireItem):
    (read,) = Reader().feed(encode(item))
    assert read == item
    assert type(read) is type(item)


def test_the_items_of_one_read_come_in_one_loop():
    assert list(Reader().feed(b"".join(map(encode, ITEMS)))) == list(ITEMS)


def test_sequence_class_and_size_are_those_of_the_session_that_sent():
    sent = frames(*MESSAGES)
    read = list(Reader().feed(b"".join(map(encode, sent))))
    assert read == sent
    sizes = {type(each.message).__name__: each.message.size_bytes for each in read if isinstance(each, Frame)}
    assert [name for name, size in sizes.items() if size] == ["Publish", "PublishRequest", "Deliver", "TidPublish"]


def test_a_broker_is_the_same_object_however_often_it_is_named():
    stream = b"".join(map(encode, frames(*[Publish(PUB, BAR, None, 0, 0.0)] * 2)))
    one, other = (each.message for each in Reader().feed(stream) if isinstance(each, Frame))
    assert isinstance(one, Publish)
    assert isinstance(other, Publish)
    assert one.id.host_broker is other.id.host_broker
    assert one.id.host_broker == HOST == BrokerId("b", 3)


def test_the_largest_publication_fits_the_default_limits():
    content = Publication({f"{number:03}" + "é" * 252: "x" * 3000 for number in range(64)}, bytes(1 << 20))
    (sent,) = frames(Publish(PUB, content, None, 0, 0.0))
    assert list(Reader(Limits()).feed(encode(sent))) == [sent]


def test_the_reason_of_a_closing_is_cut_where_it_is_long():
    (read,) = Reader().feed(encode(Closing(CloseCode.DONE, "x" * 5000)))
    assert read == Closing(CloseCode.DONE, "x" * 1000)
