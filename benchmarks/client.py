"""Measure the rates at which a client receives and publishes, in every way that the API offers.

The client runs in a process of its own. A stand-in for a broker, in this process, greets it, writes deliveries that
were encoded beforehand, and acknowledges publications. So all CPU time of the client's process is the client's:
reading, checking, decoding and handing over, or checking, encoding and writing.

How to read the numbers:

- Times are CPU time, not wall time, which other work on the machine would change. Rates are those of one idle core.
- The ways take turns in a random order per round. The result is the median of the rounds.
- ``unread`` receives without reading an attribute. All other ways read one attribute of seven.
- The *null ratio* compares callbacks with callbacks. It should be 1; its distance from 1 is the error of the ratios.
- ``--against DIR`` measures the client of another checkout in the same turns, and prints how many times faster this one
  is.

Every value is checked; if one is missing, duplicated or out of order, at either end, the benchmark fails.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import octopia
from octopia.client import Received
from octopia.content import Publication
from octopia.errors import OctopiaError, PeerError
from octopia.ids import BrokerId, PublicationId
from octopia.link import Session
from octopia.protocol import MessageKind, Opening, Role, WireItem
from octopia.protocol.messages import Confirmed, Deliver, PublishRequest, Refused, SubscribeRequest
from octopia.transport import Connection
from octopia.transport.settings import CLIENT_LINK
from octopia.wire import encode

HERE = Path(__file__).resolve().parents[1]
BAR = {"symbol": "IBM", "open": 101.5, "high": 103.25, "low": 99.5, "close": 102.0, "volume": 1_000_000}
START = {"start": True}
"""The publication at which the stand-in writes its deliveries."""
ONE_BY_ONE = 20
"""A blocking call per publication takes so much longer that this fraction of the publications is enough."""


class Wrong(Exception):
    """The client returned wrong results."""


# The broker's side.


class StandIn:
    """The broker's end of one client's connection."""

    def __init__(self, count: int, problems: list[str]) -> None:
        self._count = count
        self._problems = problems
        self._session = Session(time.time_ns(), dataclasses.replace(CLIENT_LINK, ack_ms=0.0))
        self._prepared = b""
        self._next = 0

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Answer as a broker does."""
        now_ms = time.monotonic() * 1000.0
        if isinstance(items[0], Opening):
            connection.send([Opening(Role.BROKER, "a.0", "abc", confirms=True)])
            self._session.connected(now_ms)
        else:
            for message in self._session.receive(items, now_ms).messages:  # type: ignore[arg-type]
                if isinstance(message, SubscribeRequest):
                    self._session.send(Confirmed(MessageKind.SUBSCRIPTION, message.handle), now_ms)
                    connection.send(self._session.drain(now_ms))
                    self._prepared = self.encoded(message.handle)
                elif isinstance(message, PublishRequest):
                    self._session.placed(0, 1)
                    self._on_publication(connection, message)
        connection.send(self._session.drain(now_ms))

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Check that no publication is missing at the end."""
        if not self._is_complete:
            self._problems.append(f"expected {self._count} publications at the broker, got {self._next}")

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of the publications to deliver."""
        yield from range(self._count)

    def encoded(self, handle: int) -> bytes:
        """Return the deliveries to a subscription as bytes."""
        for number in self.numbers():
            name = PublicationId(BrokerId("a", 0), 1, number)
            self._session.send(Deliver(name, Publication(BAR | {"number": number}), (handle,), 2, 0.0), 0.0)
        return b"".join(map(encode, self._session.drain(0.0)))

    def _on_publication(self, connection: Connection, request: PublishRequest) -> None:
        attributes = request.publication.attributes
        if attributes == START:
            assert connection._transport is not None
            connection._transport.write(self._prepared)
            return
        expected = 0 if self._is_complete and not attributes["number"] else self._next
        self._next = expected + 1
        if attributes != BAR | {"number": expected}:
            self._session.send(Refused("publication", request.sequence, f"expected number {expected}"), 0.0)

    @property
    def _is_complete(self) -> bool:
        """True if all publications of a way have come."""
        return self._next in (0, self._count, max(1, self._count // ONE_BY_ONE))


# The client's side: each way returns the CPU time that it took.

Way = Callable[[octopia.Client, int], Awaitable[float]]


async def receive_by_callback(client: octopia.Client, count: int) -> float:
    """Receive by a callback for each publication."""
    seen: list[object] = []
    done = asyncio.Event()

    def callback(received: Received) -> None:
        seen.append(received["number"])
        if len(seen) == count:
            done.set()

    subscription = await client.subscribe("number >= 0", callback=callback)
    begin = time.process_time()
    starting = asyncio.create_task(client.publish(START))
    await done.wait()
    return await _finish(begin, seen, subscription, starting)


async def receive_by_iteration(client: octopia.Client, count: int) -> float:
    """Receive by iterating over all publications."""
    subscription = await client.subscribe("number >= 0", buffer=count)
    seen: list[object] = []
    begin = time.process_time()
    starting = asyncio.create_task(client.publish(START))
    async for received in subscription:
        seen.append(received["number"])
        if len(seen) == count:
            break
    return await _finish(begin, seen, subscription, starting)


async def receive_in_batches(client: octopia.Client, count: int) -> float:
    """Receive in batches, and read an attribute of each publication."""
    subscription = await client.subscribe("number >= 0", buffer=count)
    seen: list[object] = []
    begin = time.process_time()
    starting = asyncio.create_task(client.publish(START))
    async for batch in subscription.batches():
        seen += [received["number"] for received in batch]
        if len(seen) == count:
            break
    return await _finish(begin, seen, subscription, starting)


async def receive_unread(client: octopia.Client, count: int) -> float:
    """Receive in batches, and read no attribute until the time is taken."""
    subscription = await client.subscribe("number >= 0", buffer=count)
    seen: list[Received] = []
    begin = time.process_time()
    starting = asyncio.create_task(client.publish(START))
    async for batch in subscription.batches():
        seen += batch
        if len(seen) == count:
            break
    elapsed_s = time.process_time() - begin
    await _finish(begin, [received["number"] for received in seen], subscription, starting)
    return elapsed_s


async def _finish(
    begin: float, seen: list[object], subscription: octopia.Subscription, starting: asyncio.Task[None]
) -> float:
    elapsed_s = time.process_time() - begin
    if seen != list(range(len(seen))):
        raise Wrong("the publications received are not those that were sent, in order")
    await starting
    await subscription.unsubscribe()
    return elapsed_s


async def publish_many(client: octopia.Client, count: int) -> float:
    """Publish with one call."""
    begin = time.process_time()
    accepted = await client.publish_many(BAR | {"number": number} for number in range(count))
    return _published(begin, accepted, count)


async def publish_at_once(client: octopia.Client, count: int) -> float:
    """Publish with a call per publication, all at once."""
    begin = time.process_time()
    await asyncio.gather(*[client.publish(BAR | {"number": number}) for number in range(count)])
    return _published(begin, count, count)


def receive_blocking(client: octopia.BlockingClient, count: int) -> float:
    """Receive by iterating in a thread without an event loop."""
    subscription = client.subscribe("number >= 0", buffer=count)
    seen: list[object] = []
    begin = time.process_time()
    client.publish(START)
    for received in subscription:
        seen.append(received["number"])
        if len(seen) == count:
            break
    elapsed_s = time.process_time() - begin
    if seen != list(range(count)):
        raise Wrong("the publications received are not those that were sent, in order")
    subscription.unsubscribe()
    return elapsed_s


def publish_many_blocking(client: octopia.BlockingClient, count: int) -> float:
    """Publish with one call, without an event loop."""
    begin = time.process_time()
    accepted = client.publish_many(BAR | {"number": number} for number in range(count))
    return _published(begin, accepted, count)


def publish_one_by_one(client: octopia.BlockingClient, count: int) -> float:
    """Publish with a call per publication, one after the other, without an event loop."""
    count = max(1, count // ONE_BY_ONE)
    begin = time.process_time()
    for number in range(count):
        client.publish(BAR | {"number": number})
    return _published(begin, count, count) * ONE_BY_ONE


def _published(begin: float, accepted: int, count: int) -> float:
    elapsed_s = time.process_time() - begin
    if accepted != count:
        raise Wrong(f"expected {count} publications to be accepted, got {accepted}")
    return elapsed_s


WAYS: dict[str, Way] = {
    "receive_callback": receive_by_callback,
    "receive_null": receive_by_callback,
    "receive_iteration": receive_by_iteration,
    "receive_batches": receive_in_batches,
    "receive_unread": receive_unread,
    "publish_many": publish_many,
    "publish_at_once": publish_at_once,
}
BLOCKING_WAYS: dict[str, Callable[[octopia.BlockingClient, int], float]] = {
    "receive_blocking": receive_blocking,
    "publish_many_blocking": publish_many_blocking,
    "publish_one_by_one_blocking": publish_one_by_one,
}


def run_client(url: str, count: int) -> None:
    """Run the ways that are named on standard input, one per line, and print the CPU time of each."""

    async def run(way: Way) -> float:
        async with octopia.connect(url) as client:
            return await way(client, count)

    with octopia.connect_blocking(url) as client:
        for line in sys.stdin:
            gc.collect()
            name = line.strip()
            try:
                elapsed_s = (
                    BLOCKING_WAYS[name](client, count) if name in BLOCKING_WAYS else asyncio.run(run(WAYS[name]))
                )
                print(json.dumps(elapsed_s), flush=True)
            except (Wrong, OctopiaError) as error:
                print(json.dumps(f"{name}: {error}"), flush=True)


# The measurement.


class ClientProcess:
    """A client of one checkout, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process

    @staticmethod
    async def start(checkout: Path, url: str, count: int) -> ClientProcess:
        """Start the process."""
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        arguments = [sys.executable, str(Path(__file__).resolve()), "--client", url, "--publications", str(count)]
        pipe = asyncio.subprocess.PIPE
        return ClientProcess(await asyncio.create_subprocess_exec(*arguments, stdin=pipe, stdout=pipe, env=environment))

    async def cpu_s(self, way: str) -> float:
        """Return the CPU time of a way."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{way}\n".encode())
        answer = json.loads(await self._process.stdout.readline() or '"the process of the client ended"')
        if isinstance(answer, str):
            raise Wrong(answer)
        return float(answer)

    async def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """The rates of one way, per second of CPU time; those of the other checkout are 0 without one."""

    per_s: int
    before_per_s: int = 0
    faster: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The results."""

    publications: int
    rounds: int
    seed: int
    null_ratio: float
    rates: dict[str, Rate]


async def measure(count: int, rounds: int, seed: int, against: Path | None = None) -> Measurement:
    """Run every way of every checkout, in turns."""
    draw, loop = random.Random(seed), asyncio.get_running_loop()
    problems: list[str] = []
    server = await loop.create_server(lambda: Connection(StandIn(count, problems)), "127.0.0.1", 0)
    url = f"octopia://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    checkouts = [HERE] if against is None else [HERE, against]
    clients = [await ClientProcess.start(each.resolve(), url, count) for each in checkouts]
    turns = [(number, way) for number in range(len(clients)) for way in (*WAYS, *BLOCKING_WAYS)]
    times_s: dict[tuple[int, str], list[float]] = {turn: [] for turn in turns}
    try:
        for _ in range(rounds):
            for number, way in draw.sample(turns, len(turns)):
                times_s[number, way].append(await clients[number].cpu_s(way))
    finally:
        for client in clients:
            await client.end()
        server.close()
    if problems:
        raise Wrong(problems[0])
    return summarise(count, rounds, seed, {turn: statistics.median(times) for turn, times in times_s.items()})


def summarise(count: int, rounds: int, seed: int, median_s: dict[tuple[int, str], float]) -> Measurement:
    """Turn times into rates and ratios."""
    rates = {}
    for way in (*WAYS, *BLOCKING_WAYS):
        after_s, before_s = median_s[0, way], median_s.get((1, way))
        rates[way] = Rate(round(count / after_s))
        if before_s is not None:
            rates[way] = Rate(round(count / after_s), round(count / before_s), round(before_s / after_s, 2))
    null_ratio = round(rates["receive_null"].per_s / rates["receive_callback"].per_s, 3)
    return Measurement(count, rounds, seed, null_ratio, rates)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, default=5_000, help="publications per round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, measured in the same turns")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.client:
        run_client(chosen.client, chosen.publications)
        return
    try:
        result = asyncio.run(measure(chosen.publications, chosen.rounds, chosen.seed, chosen.against))
    except Wrong as error:
        sys.exit(str(error))
    if chosen.json:
        print(json.dumps(dataclasses.asdict(result)))
        return
    for name in ("publications", "rounds", "seed", "null_ratio"):
        print(f"{name:30} {getattr(result, name):>12,}")
    for way, rate in result.rates.items():
        before = f" before {rate.before_per_s:>10,}   {rate.faster:.2f} times faster" if rate.before_per_s else ""
        print(f"{way + '_per_s':30} {rate.per_s:>12,}{before}")


if __name__ == "__main__":
    main()
