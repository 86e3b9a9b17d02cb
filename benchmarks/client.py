"""Measure the rates at which a client receives, by callback, by iteration and in batches, and publishes.

A stand-in for a broker, in the same process, greets the client and writes deliveries that were encoded beforehand.
Nearly all of the time is the client's: reading, checking, decoding, handing over.

How to read the numbers:

- Times are CPU time, not wall time: on a shared machine, wall times of the same reading differ by a factor of two and
  more from round to round. Rates are those of one idle core.
- The ways of reading take turns in a random order per round. The result is the fastest round, which was disturbed
  least. *Ratios* compare with callbacks: 1 is as fast, less is slower.
- The *null ratio* compares callbacks with callbacks. It should be 1; its distance from 1 is the error of the other
  ratios.
- The stand-in acknowledges publications in the same process, so the publishing rate is that of both together.

Every value is checked; if one is missing, duplicated or out of order, the benchmark fails.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import itertools
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable

import octopia
from octopia.client import Received, Subscription
from octopia.content import Publication
from octopia.errors import PeerError
from octopia.ids import BrokerId, PublicationId
from octopia.link import Session
from octopia.protocol import MessageKind, Opening, Role, WireItem
from octopia.protocol.messages import Confirmed, Deliver, PublishRequest, SubscribeRequest
from octopia.transport import Connection
from octopia.transport.settings import CLIENT_LINK
from octopia.wire import encode

BAR = {"symbol": "IBM", "open": 101.5, "high": 103.25, "low": 99.5, "close": 102.0, "volume": 1_000_000}


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The results; rates are publications per second of CPU time, from the fastest round."""

    publications: int
    rounds: int
    seed: int
    callback_per_s: float
    iteration_per_s: float
    batches_per_s: float
    iteration_to_callback_ratio: float
    batches_to_callback_ratio: float
    null_ratio: float
    published_per_s: float


class Wrong(Exception):
    """The client returned wrong results."""


class StandIn:
    """The broker's end of one client's connection."""

    def __init__(self) -> None:
        self.session = Session(time.time_ns(), CLIENT_LINK)
        self.published = 0
        self._connection: Connection | None = None

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Answer as a broker does."""
        now_ms = time.monotonic() * 1000.0
        if isinstance(items[0], Opening):
            connection.send([Opening(Role.BROKER, "a.0", "abc", confirms=True)])
            self._connection = connection
            self.session.connected(now_ms)
        else:
            for message in self.session.receive(items, now_ms).messages:  # type: ignore[arg-type]
                if isinstance(message, SubscribeRequest):
                    self.session.send(Confirmed(MessageKind.SUBSCRIPTION, message.handle), now_ms)
                elif isinstance(message, PublishRequest):
                    self.published += 1
                    self.session.placed(0, 1)
        connection.send(self.session.drain(now_ms))

    def on_capacity_changed(self, connection: Connection) -> None:
        """Do nothing."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Do nothing."""

    def encoded(self, count: int, handle: int) -> bytes:
        """Return deliveries as bytes."""
        for number in range(count):
            name = PublicationId(BrokerId("a", 0), 1, number)
            self.session.send(Deliver(name, Publication(BAR | {"number": number}), (handle,), 2, 0.0), 0.0)
        return b"".join(map(encode, self.session.drain(0.0)))

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        assert self._connection is not None
        assert self._connection._transport is not None
        self._connection._transport.write(data)


Reading = Callable[[octopia.Client, StandIn, int, int], Awaitable[float]]


async def read_by_callback(client: octopia.Client, broker: StandIn, handle: int, count: int) -> float:
    """Return the CPU time of a callback for each publication."""
    seen: list[object] = []
    done = asyncio.Event()

    def callback(received: Received) -> None:
        seen.append(received["number"])
        if len(seen) == count:
            done.set()

    subscription = await client.subscribe("number >= 0", callback=callback)
    data = broker.encoded(count, handle)
    begin = time.process_time()
    broker.write(data)
    await done.wait()
    return await _finish(begin, seen, subscription)


async def read_by_iteration(client: octopia.Client, broker: StandIn, handle: int, count: int) -> float:
    """Return the CPU time of iterating over all."""
    subscription = await client.subscribe("number >= 0")
    data, seen = broker.encoded(count, handle), []
    begin = time.process_time()
    broker.write(data)
    async for received in subscription:
        seen.append(received["number"])
        if len(seen) == count:
            break
    return await _finish(begin, seen, subscription)


async def read_in_batches(client: octopia.Client, broker: StandIn, handle: int, count: int) -> float:
    """Return the CPU time of reading all batches."""
    subscription = await client.subscribe("number >= 0")
    data, seen = broker.encoded(count, handle), []
    begin = time.process_time()
    broker.write(data)
    async for batch in subscription.batches():
        seen += [received["number"] for received in batch]
        if len(seen) == count:
            break
    return await _finish(begin, seen, subscription)


async def _finish(begin: float, seen: list[object], subscription: Subscription) -> float:
    elapsed_s = time.process_time() - begin
    if seen != list(range(len(seen))):
        raise Wrong("the publications received are not those that were sent, in order")
    await subscription.unsubscribe()
    return elapsed_s


READINGS: dict[str, Reading] = {
    "callback": read_by_callback,
    "null": read_by_callback,
    "iteration": read_by_iteration,
    "batches": read_in_batches,
}


async def measure(count: int, rounds: int, seed: int) -> Measurement:
    """Run every reading and publishing, in turns."""
    broker, draw = StandIn(), random.Random(seed)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(broker), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fastest_s = dict.fromkeys([*READINGS, "publishing"], float("inf"))
    handles = itertools.count(1)
    async with server, octopia.connect(f"octopia://127.0.0.1:{port}") as client:
        for _ in range(rounds):
            for name in draw.sample(list(fastest_s), len(fastest_s)):
                gc.collect()
                if name == "publishing":
                    elapsed_s = await publish(client, count)
                else:
                    elapsed_s = await READINGS[name](client, broker, next(handles), count)
                fastest_s[name] = min(fastest_s[name], elapsed_s)
    if broker.published != count * rounds:
        raise Wrong(f"expected {count * rounds} publications at the broker, got {broker.published}")
    return summarise(count, rounds, seed, fastest_s)


async def publish(client: octopia.Client, count: int) -> float:
    """Return the CPU time until all are accepted."""
    begin = time.process_time()
    await client.publish_many(BAR | {"number": number} for number in range(count))
    return time.process_time() - begin


def summarise(count: int, rounds: int, seed: int, fastest_s: dict[str, float]) -> Measurement:
    """Turn times into rates and ratios."""
    callback_s = fastest_s["callback"]
    return Measurement(
        publications=count,
        rounds=rounds,
        seed=seed,
        callback_per_s=round(count / callback_s),
        iteration_per_s=round(count / fastest_s["iteration"]),
        batches_per_s=round(count / fastest_s["batches"]),
        iteration_to_callback_ratio=round(callback_s / fastest_s["iteration"], 3),
        batches_to_callback_ratio=round(callback_s / fastest_s["batches"], 3),
        null_ratio=round(callback_s / fastest_s["null"], 3),
        published_per_s=round(count / fastest_s["publishing"]),
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, default=5_000, help="publications per round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=40, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    try:
        result = dataclasses.asdict(asyncio.run(measure(chosen.publications, chosen.rounds, chosen.seed)))
    except Wrong as error:
        sys.exit(str(error))
    if chosen.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:30} {value:>12,}")


if __name__ == "__main__":
    main()
