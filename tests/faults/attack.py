"""An attack on a broker with mutated frames that follow a valid greeting, as a client and as its neighbour.

The overlay is a path of three brokers. Two run as processes: b.0, which is attacked, and c.0. There is no a.0: the
attacker greets as a.0, with growing incarnations. All along, a publisher at b.0 and a subscriber at c.0 exchange
publications, and enter them into a ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import struct
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ledger import Ledger, Outcome
from mutations import flip, insert, lengthen, noise, remove, rename, repeat, truncate
from processes import PATIENCE_S, Process, free_ports
from stranger import Stranger, greeting, is_bad

import octopia
from octopia.errors import BadFrame
from octopia.overlay.files import load_overlay
from octopia.protocol import Ack, CloseCode, Grant, Hello, Opening, Role, WireItem
from octopia.protocol.messages import (
    AdvertiseRequest,
    Message,
    PublishRequest,
    SubscribeRequest,
    SubscriptionDigest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.runtime.greeters import BROKER_LIMITS, CLIENT_LIMITS
from octopia.wire import Limits, Reader, encode
from wire_samples import BAR, FILTER, ITEMS, MESSAGES, frames

VICTIM, OTHER, ABSENT = "b.0", "c.0", "a.0"
AT_ONCE = 16
PER_CONNECTION = 40
"""The number of frames of a connection, unless it is closed before."""
CONNECTIONS_PER_PUBLICATION = 16
"""The number of connections of the attacker for each publication of the healthy pair."""
FROM_CLIENTS = (AdvertiseRequest, UnadvertiseRequest, SubscribeRequest, UnsubscribeRequest, PublishRequest)
SEQUENCE_AT = 8
"""The offset of the sequence number in a frame."""


def swap(chance: random.Random, frames: list[bytes]) -> bytes:
    """Swap two fields of a few bytes each."""
    data = bytearray(b"".join(frames))
    width = chance.choice((1, 2, 4, 8))
    one, other = (chance.randrange(max(1, len(data) - width)) for _ in range(2))
    data[one : one + width], data[other : other + width] = data[other : other + width], data[one : one + width]
    return bytes(data)


def nudge(chance: random.Random, frames: list[bytes]) -> bytes:
    """Flip one bit behind the header."""
    data = bytearray(b"".join(frames))
    place = chance.randrange(min(16, len(data) - 1), len(data))
    data[place] ^= 1 << chance.randrange(8)
    return bytes(data)


MILD = (nudge, nudge, nudge, nudge, swap)
WILD = (flip, truncate, insert, remove, repeat, lengthen, rename, noise, swap)
WILD_SHARE = 0.1
"""The share of frames that are mutated beyond recognition, so that most of them end the connection."""
TRIES = 30
"""The number of mild mutations that are tried until one can still be read."""
MISPLACED_SHARE = 0.02


def _pool(messages: Sequence[Message]) -> list[bytes]:
    acks = [Ack(number, Grant(2, 65_536, ((0, 10),))) for number in range(3)]
    return [encode(item) for item in (*frames(*messages), *acks)]


CLIENT_POOL = _pool(
    [
        AdvertiseRequest(1, FILTER),
        AdvertiseRequest(2, FILTER, True),
        SubscribeRequest(1, FILTER),
        UnsubscribeRequest(1),
        UnadvertiseRequest(1),
        *(PublishRequest(number, BAR, 0.0) for number in range(4)),
    ]
)
BROKER_POOL = _pool([each for each in MESSAGES if not isinstance(each, FROM_CLIENTS)])
MISPLACED_POOL = [encode(item) for item in ITEMS]
"""Valid frames of all kinds, most of which are out of place."""


@dataclasses.dataclass(slots=True)
class Tally:
    """The attack in numbers: connections, frames that the broker was given to read, and the reasons of its closings."""

    connections: int = 0
    frames: int = 0
    closings: Counter[str] = dataclasses.field(default_factory=Counter)


def mutated(chance: random.Random, pool: Sequence[bytes], first: int = 1) -> list[bytes]:
    """Return the mutated frames of one connection, with sequence numbers from ``first`` on.

    Most can still be read, so that the session and the broker see them, too. After one that cannot, a few sound frames
    follow: it may claim their bytes.
    """
    made: list[bytes] = []
    for number in range(first, first + PER_CONNECTION):
        frame = _numbered(chance.choice(pool), number)
        draw = chance.random()
        if draw < MISPLACED_SHARE:
            made.append(chance.choice(MISPLACED_POOL))
        elif draw < MISPLACED_SHARE + WILD_SHARE:
            made.append(chance.choice(WILD)(chance, [frame]))
        else:
            made.append(_mild(chance, frame))
        if readable(made[-1], BROKER_LIMITS) != 1 or is_bad(made[-1], BROKER_LIMITS):
            return [*made, *chance.choices(pool, k=3)]
    return made


def _mild(chance: random.Random, frame: bytes) -> bytes:
    for _ in range(TRIES):
        made = chance.choice(MILD)(chance, [frame])
        if not is_bad(made, BROKER_LIMITS):
            break
    return made


def _numbered(frame: bytes, number: int) -> bytes:
    """Return a frame with a sequence number, if it has one."""
    (sequence,) = struct.unpack_from("<Q", frame, SEQUENCE_AT)
    return frame[:SEQUENCE_AT] + struct.pack("<Q", number) + frame[SEQUENCE_AT + 8 :] if sequence else frame


def readable(data: bytes, limits: Limits) -> int:
    """Return the number of frames that a reader gets from these bytes, with the first that it cannot read."""
    count = 0
    try:
        for _ in Reader(limits).feed(data):
            count += 1
    except BadFrame:
        count += 1
    return count


class Attack:
    """Broker processes under attack, and a healthy pair of clients."""

    def __init__(self, folder: Path, seed: int):
        self._folder = folder
        self._chance = random.Random(seed)
        self._ports = dict(zip((ABSENT, VICTIM, OTHER), free_ports(3), strict=True))
        self._incarnation = 0
        self.ledger = Ledger()
        self.tally = Tally()
        self.victim: Process
        self.errors: list[str] = []
        self._arrived = asyncio.Event()
        self._attacked = asyncio.Event()

    @property
    def url(self) -> str:
        """The URL of the attacked broker."""
        return f"octopia://127.0.0.1:{self._ports[VICTIM]}"

    def log(self) -> str:
        """Return the logs of both brokers."""
        return "".join((self._folder / f"{name}.log").read_text() for name in (VICTIM, OTHER))

    async def play(self, count: int) -> int:
        """Send frames, and return by how many bytes the memory of the attacked broker grew."""
        path = self._folder / "overlay.toml"
        places = "".join(f'[brokers."{name}"]\nport = {port}\n' for name, port in self._ports.items())
        path.write_text(f'tree = "path:3"\nclusters = 1\n{places}')
        self._fingerprint = load_overlay(path).scot.fingerprint
        processes = [
            await Process.start(name, "broker_process.py", str(path), name, log=self._folder / f"{name}.log")
            for name in (VICTIM, OTHER)
        ]
        self.victim = processes[0]
        try:
            await asyncio.gather(*(process.hear("listening") for process in processes))
            async with self._healthy_pair():
                before = self.victim.resident_bytes
                await self._attack_until(count)
                growth = self.victim.resident_bytes - before
            assert all(process.is_running for process in processes)
            return growth
        finally:
            await asyncio.gather(*(process.kill() for process in processes))

    # The attacker.

    async def _attack_until(self, count: int) -> None:
        async def attack(slot: int) -> None:
            while self.tally.frames < count:
                # Two connections at once as one neighbour would replace each other.
                await (self._as_neighbour() if slot == 0 else self._as_client(slot))

        await asyncio.gather(*map(attack, range(AT_ONCE)))

    async def _as_client(self, slot: int) -> None:
        self._incarnation += 1
        await self._send(greeting(f"bad-{slot}-{self._incarnation % 4}", self._incarnation), CLIENT_POOL, CLIENT_LIMITS)

    async def _as_neighbour(self) -> None:
        self._incarnation += 1
        opening = Opening(Role.BROKER, ABSENT, self._fingerprint, VICTIM, confirms=True)
        hello = Hello(self._incarnation, 0, 0, Grant(1, 65_536, ()))
        # It knows no subscriptions: those of the last incarnation go.
        nothing = frames(SubscriptionDigest((), (), True))
        await self._send([opening, hello, *nothing], BROKER_POOL, BROKER_LIMITS, first=2)

    async def _send(self, begin: Sequence[WireItem], pool: Sequence[bytes], limits: Limits, first: int = 1) -> None:
        data = b"".join(mutated(self._chance, pool, first))
        try:
            stranger = await Stranger.connect(self.url)
            stranger.say(*begin, data)
            answers = await stranger.until_closed(hang_up=True)
        except OSError as error:
            self.errors.append(repr(error))
            return
        self.tally.connections += 1
        if self.tally.connections % CONNECTIONS_PER_PUBLICATION == 0:
            self._attacked.set()
        self.tally.frames += readable(data, limits)
        self.tally.closings[str(answers.closing.code) if answers.closing else "none"] += 1
        if answers.closing is not None and answers.closing.code is CloseCode.FENCED:
            self._incarnation = answers.closing.incarnation  # A mutated greeting was believed.

    # The healthy pair.

    @contextlib.asynccontextmanager
    async def _healthy_pair(self):
        async with (
            octopia.connect(f"octopia://127.0.0.1:{self._ports[OTHER]}", name="healthy-s", timeout=20) as subscriber,
            octopia.connect(self.url, name="healthy-p", timeout=20) as publisher,
        ):
            await _issued(
                subscriber.subscribe(
                    "healthy >= 0",
                    callback=self._receive,
                    on_gap=lambda _: self.ledger.told("healthy", time.monotonic()),
                    timeout=1,
                )
            )
            await _issued(publisher.advertise("healthy >= 0", timeout=1))
            self.ledger.confirmed("healthy", lambda _: True, time.monotonic())
            publishing = asyncio.get_running_loop().create_task(self._publish_steadily(publisher))
            try:
                yield
            finally:
                publishing.cancel()
                await asyncio.wait([publishing])
            async with asyncio.timeout(PATIENCE_S):
                while self.ledger.missing("healthy"):
                    self._arrived.clear()
                    await self._arrived.wait()

    def _receive(self, publication: octopia.Received) -> None:
        self.ledger.received("healthy", publication["healthy"])
        self._arrived.set()

    async def _publish_steadily(self, publisher: octopia.Client) -> None:
        """Publish once for every few connections of the attacker."""
        number = 0
        while True:
            self.ledger.made(number, {"healthy": number}, time.monotonic())
            try:
                await publisher.publish({"healthy": number})
            except (octopia.OctopiaError, asyncio.CancelledError):
                self.ledger.answered(number, Outcome.FAILED)
                raise
            self.ledger.answered(number, Outcome.ACCEPTED)
            number += 1
            self._attacked.clear()
            await self._attacked.wait()


async def _issued(request) -> None:
    """Issue a request that is confirmed only when the absent broker answers."""
    with contextlib.suppress(octopia.NotConfirmed):
        await request
