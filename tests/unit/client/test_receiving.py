"""Deliveries on their way to a reader: plain against compiled, attributes that nobody reads, received publications."""

from __future__ import annotations

import asyncio
import copy
import pickle
import random
from typing import Any

import pytest

import octopia
from fake_broker import FakeBroker, delivery
from octopia.client import Received
from octopia.client import inbox as compiled
from octopia.content import publications
from octopia.content.encoded import IS_COMPILED
from octopia.ids import BrokerId, PublicationId
from octopia.protocol.messages import Deliver, Lost
from plain_modules import plain_module

HOSTS = (BrokerId("a", 0), BrokerId("b", 1))


def draw(chance: random.Random) -> list[Any]:
    """Return what a broker says: deliveries, some of them twice or out of order, with other messages in between."""
    said: list[Any] = []
    for _ in range(chance.randrange(60)):
        if chance.random() < 0.05:
            said.append(Lost(1))
            continue
        handles = tuple(chance.sample(range(1, 6), chance.randint(1, 3)))
        name = PublicationId(chance.choice(HOSTS), chance.randint(1, 2), chance.randrange(20))
        publication = octopia.Publication({"x": chance.randrange(100)})
        said.append(Deliver(name, publication, handles, 1, 0.0))
    return said


def run(module: Any, said: list[Any]) -> Any:
    """Return what arrives in four inboxes: a large one, a small one, one without room, one with a callback."""
    events: list[object] = []

    class Recording(module.Inbox):  # type: ignore[misc, name-defined]
        def put(self, received: Received) -> bool:
            events.append((self.room, received.id))
            return len(events) % 5 > 0

    def callback(received: Received) -> None:
        events.append(received)
        if len(events) % 7 == 0:
            inboxes.pop(1, None)

    inboxes: dict[int, Any] = {handle: Recording(room) for handle, room in ((1, 100), (2, 7), (3, 0))}
    inboxes[4] = Recording(5, callback)
    touched: dict[Any, None] = {}
    at = 0
    while at < len(said):
        at = module.deliver(said, at, inboxes, 5.0, touched, lambda handle: events.append(handle))
        if at < len(said):
            events.append(said[at])
            at += 1
    arrived = [[(each.id, each["x"], each.received_ms) for each in inbox.items] for inbox in inboxes.values()]
    return arrived, events, [inbox.room for inbox in touched]


def test_deliveries_arrive_as_in_plain_python() -> None:
    plain = plain_module("octopia.client.inbox")
    for seed in range(200):
        said = draw(random.Random(seed))
        assert run(compiled, said) == run(plain, said), f"seed {seed}"


@pytest.mark.parametrize("reading", ["iteration", "batches", "next", "callback"])
@pytest.mark.skipif(not IS_COMPILED, reason="plain Python decodes when it checks")
def test_attributes_that_nobody_reads_are_never_decoded(reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    right = publications._decode

    def decode(encoded: bytes) -> Any:
        decoded.append(encoded)
        return right(encoded)

    async def read(client: octopia.Client, broker: FakeBroker) -> list[Received]:
        arrived: list[Received] = []
        subscription = await client.subscribe("x > 0", callback=arrived.append if reading == "callback" else None)
        broker.say(delivery({"x": value}, number=value, payload=b"hi") for value in range(10))
        if reading == "callback":
            await broker.until(lambda: len(arrived) == 10)
        while len(arrived) < 10:
            if reading == "batches":
                arrived += await subscription.next_batch()
            elif reading == "next":
                arrived.append(await subscription.next())
            else:
                arrived.append(await anext(aiter(subscription)))
        return arrived

    async def scenario() -> None:
        async with FakeBroker() as broker, octopia.connect(broker.url) as client:
            monkeypatch.setattr(publications, "_decode", decode)
            arrived = await read(client, broker)
            assert [each.payload for each in arrived] == [b"hi"] * 10
            assert [each.id.number for each in arrived] == list(range(10))
            assert not decoded
            assert [each["x"] for each in arrived] == list(range(10))
            assert [each.attributes for each in arrived] == [{"x": value} for value in range(10)]
            assert len(decoded) == 10

    asyncio.run(scenario())


class TestReceived:
    def make(self, received_ms: float = 5.0, number: int = 7) -> Received:
        return Received(delivery({"price": 1.5, "symbol": "IBM"}, number=number, payload=b"hi"), received_ms)

    def test_equality_is_that_of_all_it_has(self) -> None:
        assert self.make() == self.make()
        assert hash(self.make()) == hash(self.make())
        assert len({self.make(), self.make(), self.make(6.0), self.make(number=8)}) == 3
        assert self.make() != self.make(6.0)
        assert self.make() != self.make().publication

    def test_copies_and_pickles_are_equal(self) -> None:
        received = self.make()
        for each in (copy.copy(received), copy.deepcopy(received), pickle.loads(pickle.dumps(received))):
            assert each == received
            assert dict(each.attributes) == {"price": 1.5, "symbol": "IBM"}

    @pytest.mark.parametrize("name", ["received_ms", "payload", "attributes", "id", "hops", "another"])
    def test_it_cannot_be_changed(self, name: str) -> None:
        with pytest.raises(AttributeError):
            setattr(self.make(), name, 1)

    def test_its_attributes_are_a_mapping(self) -> None:
        received = self.make()
        assert dict(received.attributes) == {"price": 1.5, "symbol": "IBM"}
        assert list(received.attributes) == ["price", "symbol"]
        assert len(received.attributes) == 2
        with pytest.raises(KeyError):
            received["volume"]
