"""Bad input: whoever sends it is told and cut off, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mutations import MUTATIONS
from raw_client import RawClient, run
from rest import overlay_at_rest
from stranger import Answers, Stranger, greeting, is_bad

from octopia.content import Publication, parse_filter
from octopia.link import LinkSettings
from octopia.node import NodeSettings
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Ack, Answer, CloseCode, Closing, Command, Grant, Hello, Opening, Role, Verb, WireItem
from octopia.protocol.messages import (
    AdvertiseRequest,
    Deliver,
    Message,
    ProduceRequest,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.runtime.defaults import NODE_SETTINGS
from octopia.runtime.greeters import CLIENT_LIMITS
from octopia.runtime.local import Overlay
from octopia.transport import connection
from octopia.wire import encode
from octopia.wire.format import HEADER, Kind
from support import at, turn
from wire_samples import FILTER, MESSAGES, frames

BROKER = "b.0"

pytestmark = pytest.mark.usefixtures("never_busy")


class Healthy:
    """A publisher and a subscriber who play ping-pong all the time, and miss nothing."""

    def __init__(self, overlay: Overlay):
        self._overlay = overlay
        self.rounds = 0

    async def play(self) -> None:
        subscriber = await RawClient("healthy-s").connect(self._overlay.url(BROKER))
        publisher = await RawClient("healthy-p").connect(self._overlay.url("a.0"))
        await subscriber.subscribe("healthy >= 0")
        await publisher.advertise("healthy >= 0")
        while True:
            publisher.publish(self.rounds, healthy=self.rounds)
            await subscriber.until(lambda: bool(subscriber.told(Deliver)), f"publication {self.rounds}")
            assert [each.publication.attributes["healthy"] for each in subscriber.deliveries] == [self.rounds]
            assert not subscriber.is_closed
            assert not publisher.is_closed
            subscriber.heard.clear()
            self.rounds += 1

    async def some_rounds(self) -> None:
        """Wait until a few more publications have passed."""
        enough = self.rounds + 3
        await self._overlay.wait_until(lambda: self.rounds >= enough, "a healthy publication")


@contextlib.asynccontextmanager
async def attacked(
    tree: str = "path:2", settings: NodeSettings = NODE_SETTINGS
) -> AsyncIterator[tuple[Overlay, str, Healthy]]:
    """Run an overlay with a healthy pair; in the end all must be as it was, and nothing must have been raised."""
    raised: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    async with Overlay(overlay_from_text(tree, 2), node_settings=settings) as overlay:
        incarnations = {broker: each.incarnation for broker, each in overlay._servers.items()}
        healthy = Healthy(overlay)
        player = asyncio.get_running_loop().create_task(healthy.play())
        try:
            await overlay.wait_until(lambda: healthy.rounds > 0 or player.done(), "the first publication")
            yield overlay, overlay.url(BROKER), healthy
            await healthy.some_rounds()
            assert overlay.is_ready()
            for broker, each in overlay._servers.items():
                each.broker.check()
                for peer, link in each.node.links.items():
                    assert link.session.peer_incarnation == incarnations[peer], f"{broker}-{peer} began anew"
        finally:
            player.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await player
    assert raised == []


def sent(*said: bytes | WireItem, hang_up: bool = False) -> Answers:
    """Connect to a broker, say something, and return all that it says until it closes the connection."""
    found: list[Answers] = []

    async def main() -> None:
        async with attacked() as (_, url, _):
            stranger = await Stranger.connect(url)
            stranger.say(*said)
            found.append(await stranger.until_closed(hang_up=hang_up))

    run(main())
    return found[0]


def code_after(*said: bytes | WireItem) -> CloseCode | None:
    closing = sent(*said).closing
    assert closing is None or closing.reason
    return closing.code if closing is not None else None


HELLO = Hello(1, 0, 0, Grant(1, 65536, ()))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        pytest.param([b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"], CloseCode.BAD_FRAME, id="a browser"),
        pytest.param([bytes(100)], CloseCode.BAD_FRAME, id="zeros"),
        pytest.param([b"\xff" * 100], CloseCode.BAD_FRAME, id="ones"),
        pytest.param([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"], CloseCode.BAD_FRAME, id="TLS"),
        pytest.param([HEADER.pack(2**31, Kind.CONTROL, 0, -1, 1)], CloseCode.BAD_FRAME, id="an enormous frame"),
        pytest.param([HEADER.pack(2**20, Kind.CONTROL, 0, -1, 1)], CloseCode.BAD_FRAME, id="a large frame of a client"),
        pytest.param([HELLO], CloseCode.VIOLATION, id="a Hello before the Opening"),
        pytest.param([Ack(0, Grant(1, 0, ()))], CloseCode.VIOLATION, id="an Ack before the Opening"),
        pytest.param([Command(Verb.REPORT)], CloseCode.VIOLATION, id="a Command before the Opening"),
        pytest.param([Answer()], CloseCode.VIOLATION, id="an Answer before the Opening"),
        pytest.param(
            [Opening(Role.CLIENT, "c"), Opening(Role.CLIENT, "c")], CloseCode.VIOLATION, id="two Openings in a row"
        ),
        pytest.param(
            [*greeting("c"), Opening(Role.CLIENT, "c")], CloseCode.VIOLATION, id="an Opening after the greeting"
        ),
        pytest.param([*greeting("c"), Command(Verb.REPORT)], CloseCode.VIOLATION, id="a Command of a client"),
        pytest.param([*greeting("c"), Answer()], CloseCode.VIOLATION, id="an Answer of a client"),
        pytest.param([*greeting("c"), b"garbage" * 10], CloseCode.BAD_FRAME, id="garbage in a sound session"),
        pytest.param([Opening(Role.CLIENT, "c", broker="a.1")], CloseCode.WRONG_BROKER, id="another broker"),
        pytest.param([Opening(Role.CLIENT, "c", broker="nobody")], CloseCode.BAD_FRAME, id="no broker at all"),
        pytest.param([Opening(Role.BROKER, "a.0", "f" * 64, BROKER)], CloseCode.WRONG_OVERLAY, id="another overlay"),
        pytest.param([Opening(Role.BROKER, "a.0")], CloseCode.BAD_FRAME, id="no overlay"),
        pytest.param([Opening(Role.OPERATOR, "o"), HELLO], CloseCode.VIOLATION, id="an operator who greets"),
        pytest.param(
            [Opening(Role.OPERATOR, "o"), Opening(Role.OPERATOR, "o")], CloseCode.VIOLATION, id="an operator twice"
        ),
    ],
)
def test_whoever_says_something_wrong_is_told(said: list[bytes | WireItem], code: CloseCode):
    assert code_after(*said) is code


@pytest.mark.parametrize("name", ["b.1", "a.1", "b.0", "z.9"])
def test_only_neighbours_with_a_lower_id_may_dial(name: str):
    codes = []

    async def main() -> None:
        async with attacked() as (overlay, url, _):
            stranger = await Stranger.connect(url)
            stranger.say(Opening(Role.BROKER, name, overlay._servers[at(BROKER)].overlay.scot.fingerprint, BROKER))
            closing = (await stranger.until_closed()).closing
            assert closing is not None
            codes.append(closing.code)

    run(main())
    assert codes == [CloseCode.NOT_ALLOWED]


FROM_CLIENTS = (
    AdvertiseRequest,
    UnadvertiseRequest,
    SubscribeRequest,
    UnsubscribeRequest,
    ProduceRequest,
    PublishRequest,
)


def test_clients_may_say_nothing_that_only_brokers_say():
    run(_say_what_only_brokers_say())


async def _say_what_only_brokers_say() -> None:
    forbidden = [message for message in MESSAGES if not isinstance(message, FROM_CLIENTS)]
    async with attacked() as (overlay, url, healthy):
        before = overlay._servers[at(BROKER)].broker.table_sizes()
        for number, message in enumerate(forbidden):
            stranger = await Stranger.connect(url)
            stranger.say(*greeting(f"c{number}"), *frames(message))
            closing = (await stranger.until_closed()).closing
            assert closing is not None, message
            assert closing.code is CloseCode.VIOLATION
            assert type(message).__name__ in closing.reason
        await healthy.some_rounds()
        assert overlay._servers[at(BROKER)].broker.table_sizes() == before


def test_what_was_good_before_a_violation_holds():
    run(_good_then_bad())


async def _good_then_bad() -> None:
    async with attacked() as (_, url, _):
        bad: Message = MESSAGES[0]
        good = [AdvertiseRequest(1, parse_filter("x > 0")), SubscribeRequest(1, parse_filter("x > 0"))]
        stranger = await Stranger.connect(url)
        stranger.say(*greeting("c"), *frames(*good, PublishRequest(1, Publication({"x": 1}), 0.0), bad))
        answers = await stranger.until_closed()
        assert answers.closing is not None
        assert answers.closing.code is CloseCode.VIOLATION


def test_a_name_is_taken_while_its_client_is_here():
    run(_take_a_name())


async def _take_a_name() -> None:
    async with attacked() as (_, url, _):
        first = await RawClient("twin").connect(url)
        assert await RawClient("twin").be_refused(url) is CloseCode.NAME_TAKEN
        await first.subscribe("x > 0")
        first.leave()
        await first.until(lambda: first.is_closed, "its end")
        third = await RawClient("twin").connect(url)
        await third.subscribe("x > 0")


def test_a_client_takes_the_name_of_one_that_was_closed_for_good(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "LINGER_S", 0.2)
    run(_inherit_a_name())


async def _inherit_a_name() -> None:
    """The first one does not close its connection, so that the broker does it, when another has the name."""
    settings = dataclasses.replace(NODE_SETTINGS, client_grace_ms=100.0)
    async with attacked(settings=settings) as (overlay, url, _):
        rude = await Stranger.connect(url)
        rude.say(*greeting("heir"), *frames(MESSAGES[0]))
        await rude.hear(Closing)
        heir = await RawClient("heir").connect(url)
        await heir.subscribe("x > 0")
        node = overlay._servers[at(BROKER)].node
        link = node.clients[node.client_named("heir")]
        loop = asyncio.get_running_loop()
        later = loop.time() + 0.5  # more than the other connection and the grace can last
        await overlay.wait_until(lambda: loop.time() > later, "some time to pass")
        assert node.clients[node.client_named("heir")] is link
        assert link.expires_ms is None
        await heir.subscribe("y > 0", handle=2)
        await rude.leave()


_NEED_MORE = (Verb.THROTTLE, Verb.CUT, Verb.HEAL, Verb.WANTED, Verb.WATCH, Verb.WATCHED, Verb.ROUTE)
"""The commands that need a neighbour, or something else that is missing here."""


@pytest.mark.parametrize("broker", ["z.9", "b.7", ""])
@pytest.mark.parametrize("verb", list(Verb))
def test_an_operator_who_asks_for_nobody_gets_an_answer(verb: Verb, broker: str):
    run(_ask_for_nobody(verb, broker))


async def _ask_for_nobody(verb: Verb, broker: str) -> None:
    async with attacked() as (_, url, _):
        stranger = await Stranger.connect(url)
        stranger.say(Opening(Role.OPERATOR, "o"), Command(verb, broker))
        answer = await stranger.hear(Answer)
        assert bool(answer.problem) is (verb in _NEED_MORE)
        stranger.say(Command(Verb.REPORT))
        stranger.items.clear()
        assert (await stranger.hear(Answer)).report["id"] == BROKER
        await stranger.leave()


# Silence.


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([], id="nothing"),
        pytest.param([encode(Opening(Role.CLIENT, "c"))[:10]], id="half an Opening"),
        pytest.param([Opening(Role.CLIENT, "c")], id="an Opening without a Hello"),
        pytest.param([Opening(Role.CLIENT, "c"), encode(HELLO)[:-1]], id="most of a Hello"),
    ],
)
def test_silence_after_connecting_ends_the_connection(said: list[bytes | WireItem], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "GREETING_S", 0.2)
    assert code_after(*said) is CloseCode.TIMEOUT


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([], id="nothing"),
        pytest.param([HEADER.pack(100_000, Kind.CONTROL, 0, -1, 1)], id="a frame that never comes"),
    ],
)
def test_a_client_that_falls_silent_is_forgotten(said: list[bytes]):
    run(_fall_silent(said))


async def _fall_silent(said: list[bytes]) -> None:
    impatient = LinkSettings(heartbeat_ms=100.0, suspicion_ms=400.0)
    settings = dataclasses.replace(NODE_SETTINGS, client_links=impatient, client_grace_ms=200.0)
    async with Overlay(overlay_from_text("path:1", 1), node_settings=settings) as overlay:
        [host] = overlay._servers.values()
        stranger = await Stranger.connect(overlay.url("a.0"))
        stranger.say(*greeting("c"), *frames(SubscribeRequest(1, FILTER)), *said)
        await overlay.wait_until(lambda: host.broker.table_sizes()["prt"] == 1, "its subscription")
        await stranger.until_closed()
        await overlay.wait_until(lambda: host.broker.table_sizes()["prt"] == 0, "its end")
        assert host.node.client_named("c") is None


def test_a_neighbour_that_falls_silent_is_dialled_again():
    run(_silent_neighbour())


async def _silent_neighbour() -> None:
    """One end stops reading and writing, without closing its connection."""
    impatient = LinkSettings(heartbeat_ms=100.0, suspicion_ms=500.0, fences=True)
    settings = dataclasses.replace(NODE_SETTINGS, neighbour_links=impatient)
    async with Overlay(overlay_from_text("path:2", 1), node_settings=settings) as overlay:
        one, other = overlay._servers[at("a.0")], overlay._servers[at("b.0")]
        line = other.lines[at("a.0")]
        old = line.connection
        assert old is not None
        old._transport.pause_reading()
        other._ticker.cancel()
        await overlay.wait_until(lambda: not one.node.links[at("b.0")].is_up, "the suspicion")
        other._tick()
        await overlay.wait_until(lambda: overlay.is_ready() and line.connection is not old, "a new connection")
        await overlay_at_rest(overlay)


# Mutations.


def _client_stream(chance: random.Random, number: int) -> list[bytes]:
    messages: list[Message] = [
        AdvertiseRequest(1, parse_filter("zip >= 0 AND zap IS NOT NULL")),
        SubscribeRequest(1, FILTER),
        PublishRequest(1, Publication({"zip": 1, "zap": "x"}, bytes(chance.randrange(50))), 0.0),
        PublishRequest(2, Publication({"zip": 2.5}), 0.0),
        UnsubscribeRequest(1),
        UnadvertiseRequest(7),
    ]
    chance.shuffle(messages)
    begin = greeting(f"bad-{number % 40}", 1 + chance.randrange(2))
    items = [*begin, *frames(*messages), Ack(chance.randrange(5), Grant(2, 65536, ((0, 10),)))]
    return [encode(item) for item in items]


def _broker_stream(chance: random.Random, number: int) -> list[bytes]:
    opening = Opening(Role.BROKER, "a.0", f"{number:064x}", BROKER)
    return [encode(item) for item in (opening, HELLO, *frames(*chance.sample(MESSAGES, 4)))]


def _operator_stream(chance: random.Random, number: int) -> list[bytes]:
    items = [Opening(Role.OPERATOR, "o"), Command(Verb.REPORT), Command(Verb.OVERLAY), Command(Verb.THROTTLE, "x")]
    return [encode(item) for item in items]


STREAMS = (_client_stream, _client_stream, _client_stream, _broker_stream, _operator_stream)


AT_ONCE = 25


def resident_bytes() -> int:
    """Return how much memory this process uses."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def _mutate(count: int, seed: int, growth_max: int) -> None:
    chance = random.Random(seed)
    told: dict[CloseCode | None, int] = {}
    async with attacked() as (overlay, url, healthy):
        before = 0
        rounds = healthy.rounds
        for start in range(0, count, AT_ONCE):
            if start <= count // 2 < start + AT_ONCE:
                before = resident_bytes()
            attacks = [_attack(chance, number, url) for number in range(start, start + AT_ONCE)]
            for code in await asyncio.gather(*attacks):
                told[code] = told.get(code, 0) + 1
            assert healthy.rounds > rounds or start == 0
        growth = resident_bytes() - before
        assert overlay.is_ready()
    assert sum(told.values()) == count
    assert told[CloseCode.BAD_FRAME] > count / 10
    assert told[CloseCode.VIOLATION] > count / 100
    assert growth < growth_max, f"{growth} bytes more after the second half"


async def _attack(chance: random.Random, number: int, url: str) -> CloseCode | None:
    data = chance.choice(MUTATIONS)(chance, chance.choice(STREAMS)(chance, number))
    stranger = await Stranger.connect(url)
    cut = chance.randrange(len(data)) if data else 0
    stranger.say(data[:cut])
    if chance.random() < 0.3:
        await turn()
    stranger.say(data[cut:])
    answers = await stranger.until_closed(hang_up=True)
    closing = answers.closing
    assert not any(isinstance(item, Closing) for item in answers.items[:-1])
    if is_bad(data, CLIENT_LIMITS):
        assert closing is not None, f"number {number} was closed without a word: {data!r}"
    assert closing is None or closing.reason or closing.code is CloseCode.DONE
    return closing.code if closing else None


def test_two_thousand_mutations():
    run(_mutate(2_000, 1, growth_max=8_000_000))


@pytest.mark.soak
@pytest.mark.timeout(1_200)
def test_a_hundred_thousand_mutations():
    run(_mutate(100_000, 2, growth_max=16_000_000))
