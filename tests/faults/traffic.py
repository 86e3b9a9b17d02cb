"""Programs that use the public client, and enter all that they do and see into a ledger.

One publisher at a.0 publishes at a steady rate, without waiting for answers. Three subscribers listen at c.0, c.1 and
b.1; the last one wants every other publication.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger import Ledger, Outcome
from live_overlay import LiveOverlay, Place
from processes import Process
from ticking import ticks

import octopia
from octopia import Client, OctopiaError, Subscription

OFFER = "n >= 0 AND even IS NOT NULL"
SUBSCRIBERS = {"c.0": "n >= 0", "c.1": "n >= 0", "b.1": "even = TRUE"}
OTHERS_PER_CLIENT = 5_000
OTHERS_AT = (Place.SUBSCRIBER_HOST, Place.PUBLISHER_HOST, Place.SUBSCRIBER_HOST, Place.PUBLISHER_HOST)
"""The host brokers, all in cluster 0, of clients whose subscriptions match nothing that is published."""
OTHERS_FROM = 10**9
RETURNING_FROM = 10**6
"""The numbers of publications of a publisher that dies and returns."""
CONNECT_S = 20.0


def wants(text: str) -> Any:
    """Return the rule of a subscription for the ledger, apart from the filter language."""
    return (lambda attributes: attributes["even"]) if text.startswith("even") else (lambda attributes: True)


def attributes_of(number: int) -> dict[str, int | bool]:
    """Return the content of a publication."""
    return {"n": number, "even": number % 2 == 0}


class Traffic:
    """The clients of one run, in this process."""

    def __init__(self, overlay: LiveOverlay, ledger: Ledger, rate: float):
        self._overlay = overlay
        self._ledger = ledger
        self._period_s = 1.0 / rate
        self._clients: list[Client] = []
        self._publisher: Client
        self._open: set[asyncio.Task[None]] = set()
        self._steady: asyncio.Task[None] | None = None
        self._grew = asyncio.Event()
        self._reconnected = asyncio.Event()
        self.made = 0

    # Life.

    async def join(self) -> None:
        """Connect, subscribe and advertise, and wait for the confirmations."""
        for broker, interest in SUBSCRIBERS.items():
            await self._subscribe(broker, interest)
        self._publisher = await self._connect(Place.PUBLISHER_HOST.broker, "publisher")
        await self._publisher.advertise(OFFER, timeout=CONNECT_S)

    async def join_others(self) -> None:
        """Add subscriptions to the cluster that match nothing."""
        self._ledger.confirmed("others", lambda _: False, time.monotonic())
        for number, place in enumerate(OTHERS_AT):
            client = await self._connect(place.broker, f"others-{number}")
            first = OTHERS_FROM + number * OTHERS_PER_CLIENT
            interests = [f"n = {each}" for each in range(first, first + OTHERS_PER_CLIENT)]
            await asyncio.gather(*(client.subscribe(each, callback=self._on_stray) for each in interests))

    async def leave(self) -> None:
        """Close all clients."""
        if self._steady is not None:
            self._steady.cancel()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*(client.close(timeout=0.1) for client in self._clients), return_exceptions=True)

    # Publishing.

    def begin(self) -> None:
        """Publish at the steady rate from now on."""
        self._steady = asyncio.get_running_loop().create_task(self._publish_steadily())

    async def end(self) -> None:
        """Publish no more, and wait until all publications are answered."""
        assert self._steady is not None
        self._steady.cancel()
        await asyncio.wait([self._steady])
        await self.answered()

    async def answered(self) -> None:
        """Wait until the publisher has an answer to everything."""
        if self._open:
            await asyncio.wait(self._open, timeout=60.0)

    async def more(self, count: int) -> None:
        """Wait until some more publications were made."""
        enough = self.made + count
        while self.made < enough:
            self._grew.clear()
            await self._grew.wait()

    def publish(self, count: int) -> None:
        """Publish some at once."""
        for _ in range(count):
            task = asyncio.get_running_loop().create_task(self._publish(self.made))
            self.made += 1
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        self._grew.set()

    async def _publish_steadily(self) -> None:
        loop = asyncio.get_running_loop()
        start, first = loop.time(), self.made
        async for _ in ticks(self._period_s):
            due = int((loop.time() - start) / self._period_s) - (self.made - first)
            self.publish(max(0, due))

    async def _publish(self, number: int) -> None:
        content = attributes_of(number)
        self._ledger.made(number, content, time.monotonic())
        try:
            await self._publisher.publish(content)
        except OctopiaError:
            self._ledger.answered(number, Outcome.FAILED)
        else:
            self._ledger.answered(number, Outcome.ACCEPTED)

    # Subscribing.

    async def connected(self) -> None:
        """Wait until all clients are connected."""
        async with asyncio.timeout(60.0):
            while not all(client.is_connected for client in self._clients):
                self._reconnected.clear()
                await self._reconnected.wait()

    async def _connect(self, broker: str, name: str) -> Client:
        url = self._overlay.url(broker)
        client = await octopia.connect(url, name=name, timeout=CONNECT_S, on_reconnect=self._reconnected.set)
        self._clients.append(client)
        return client

    async def _subscribe(self, broker: str, interest: str) -> None:
        client, name = await self._connect(broker, f"at {broker}"), f"subscriber at {broker}"

        def on_gap(_: Subscription) -> None:
            self._ledger.told(name, time.monotonic())

        def on_publication(publication: octopia.Received) -> None:
            self._ledger.received(name, _number(publication.attributes))

        await client.subscribe(interest, callback=on_publication, on_gap=on_gap, timeout=CONNECT_S)
        self._ledger.confirmed(name, wants(interest), time.monotonic())

    def _on_stray(self, publication: octopia.Received) -> None:
        self._ledger.received("others", _number(publication.attributes))


def _number(attributes: Mapping[str, object]) -> int:
    number = attributes["n"]
    assert isinstance(number, int)
    return number


class ReturningClient:
    """A client in a process of its own that is killed and returns under its name: a subscriber, or a publisher.

    The process tells what it does in lines of JSON, which are entered into the ledger when they are read.
    """

    def __init__(self, overlay: LiveOverlay, ledger: Ledger, place: Place):
        self._overlay = overlay
        self._ledger = ledger
        self._place = place
        self._lives = 0
        self._process: Process
        self._output: asyncio.Task[list[dict[str, Any]]]

    @property
    def is_publisher(self) -> bool:
        """True if the client publishes, and False if it subscribes."""
        return self._place is Place.PUBLISHER_HOST

    @property
    def _name(self) -> str:
        return f"returning client at {self._place.broker}, life {self._lives}"

    async def begin(self) -> None:
        """Start, or start again under the same name, and wait until it is ready."""
        self._lives += 1
        first = RETURNING_FROM * self._lives
        script, url = Path(__file__).parent / "returning_client.py", self._overlay.url(self._place.broker)
        role = "publish" if self.is_publisher else "subscribe"
        self._process = await Process.start("returning client", str(script), role, url, "returning", str(first))
        self._overlay.others.append(self._process)
        ready = await self._process.hear("ready")
        self._output = asyncio.get_running_loop().create_task(self._process.rest_of_output())
        if not self.is_publisher:
            self._ledger.confirmed(self._name, wants("n >= 0"), ready["at_s"])

    async def die(self) -> None:
        """Kill the process, and enter what it has told."""
        if not self.is_publisher:
            self._ledger.ended(self._name, time.monotonic())
        self._process.signal(signal.SIGKILL)
        self._enter(await self._output)

    async def end(self) -> None:
        """Let the last life end by itself, and enter what it has told."""
        self._process.end_input()
        self._enter(await self._output)

    def _enter(self, facts: list[dict[str, Any]]) -> None:
        for fact in facts:
            match fact["event"]:
                case "received":
                    self._ledger.received(self._name, fact["n"])
                case "gap":
                    self._ledger.told(self._name, fact["at_s"])
                case "made":
                    self._ledger.made(fact["n"], attributes_of(fact["n"]), fact["at_s"])
                    self._ledger.answered(fact["n"], Outcome.FAILED)  # unless an answer follows
                case "accepted":
                    self._ledger.answered(fact["n"], Outcome.ACCEPTED)
