"""Measure how long a broker takes to recover, and the longest time for which one input holds its loop.

The overlay is three regions in a row and two clusters. Brokers a.0 and c.0 have one client each; together these hold
all the subscriptions of cluster 0. The publishers are at b.1. Four scenarios:

- ``recovery``: the inner broker b.0 is killed, loses its state and restarts.
- ``confirmation``: all subscriptions are issued while a link is down, and confirmed when it is back.
- ``departure``: a client with all the subscriptions leaves.
- ``sockets``: recovery again, with brokers that talk over TCP in one process. Inputs are not told apart by broker.

The first three run without sockets: nodes exchange the bytes of their frames, in reads of the size of a TCP connection.
An input is one such read, one request of the driver or one deadline: decoding, handling and encoding. Each line shows
the total time, and the longest input at b.0 and at any other broker, in wall and CPU time. The garbage collector is
measured apart: its longest pause is that of a process with all six brokers. All tables are compared with the expected
ones at the end of each scenario; the benchmark fails if they differ.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import octopia
from octopia.broker import BrokerSettings, OctopiaBroker
from octopia.content import Disjunction, Filter, Operator, Predicate
from octopia.ids import BrokerId, ClientId, Peer
from octopia.link import LinkSettings
from octopia.node import Node, NodeSettings
from octopia.node.core import introduce
from octopia.overlay import Scot, parse_tree
from octopia.protocol import Overflow
from octopia.protocol.messages import AdvertiseRequest, Confirmed, Deliver, Message, SubscribeRequest
from octopia.runtime.server import BrokerServer
from octopia.transport.connection import READ_BYTES, Connection
from octopia.wire import Limits, Reader, encode
from tables import print_json, print_rows

INNER, LEFT, RIGHT, PUBLISHING = (BrokerId("b", 0), BrokerId("a", 0), BrokerId("c", 0), BrokerId("b", 1))
REQUESTS_PER_READ = 200
ADVERTISEMENTS = 20
SOCKETS_MAX = 20_000
LIMITS = Limits(64 * 1024 * 1024, 64 * 1024 * 1024)
SETTINGS = NodeSettings(neighbour_links=LinkSettings())


def interest(number: int) -> Disjunction:
    """Return a subscription: one symbol and a range of prices."""
    symbol = Predicate("symbol", Operator.EQ, f"S{number % 50}")
    return Disjunction((Filter((symbol, Predicate("price", Operator.GT, float(number)))),))


def offer(number: int) -> Disjunction:
    """Return an advertisement of one symbol; 30 of the 50 symbols that are subscribed to have none."""
    symbol = Predicate("symbol", Operator.EQ, f"S{number}")
    return Disjunction((Filter((symbol, Predicate("price", Operator.GT, 0.0))),))


@dataclasses.dataclass
class Longest:
    """The longest input of some brokers, in milliseconds."""

    wall_ms: float = 0.0
    cpu_ms: float = 0.0

    def note(self, wall_s: float, cpu_s: float) -> None:
        """Record the times of one input."""
        self.wall_ms = max(self.wall_ms, wall_s * 1000.0)
        self.cpu_ms = max(self.cpu_ms, cpu_s * 1000.0)


class Collector:
    """The time that the garbage collector takes, in all and at most."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = self.longest_s = self.longest_cpu_s = 0.0
        self._begin = (0.0, 0.0)

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        """Note that a collection starts or stops."""
        now = time.perf_counter(), time.process_time()
        if phase == "start":
            self._begin = now
            return
        self.wall_s += now[0] - self._begin[0]
        self.cpu_s += now[1] - self._begin[1]
        self.longest_s = max(self.longest_s, now[0] - self._begin[0])
        self.longest_cpu_s = max(self.longest_cpu_s, now[1] - self._begin[1])


class Cable:
    """One direction of a connection: bytes that are written and not read yet."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.reader = Reader(LIMITS)


class Bench:
    """All nodes of the overlay, and the cables between them."""

    def __init__(self) -> None:
        self.scot = Scot(parse_tree("path:3"), 2)
        self.nodes = {broker: self._make(broker, 1) for broker in self.scot.brokers}
        self.cables: dict[tuple[BrokerId, BrokerId], Cable] = {}
        for broker, node in self.nodes.items():
            for peer in node.links:
                self.cables[broker, peer] = Cable()
                if broker < peer:
                    introduce(node, self.nodes[peer])
        self.replies: dict[ClientId, int] = {}
        self.deliveries: dict[ClientId, int] = {}
        self.longest: dict[BrokerId, Longest] = {}
        self.collector = Collector()
        self.now_ms = 0.0

    def _make(self, broker: BrokerId, incarnation: int) -> Node:
        neighbourhood = self.scot.neighbourhood(broker)
        restarted_at_ms = None if incarnation == 1 else 0.0
        made = OctopiaBroker(neighbourhood, BrokerSettings(), incarnation, restarted_at_ms=restarted_at_ms)
        return Node(made, neighbourhood.neighbours, incarnation, SETTINGS)

    def state(self, broker: BrokerId) -> Any:
        """Return the state of a broker."""
        return self.nodes[broker].broker.state  # type: ignore[attr-defined]

    # Inputs.

    def feed(self, broker: BrokerId, action: Callable[[Node], object]) -> None:
        """Give a node one input, carry out the work it asks for, and measure both."""
        node, collector = self.nodes[broker], self.collector
        wall, cpu = time.perf_counter() - collector.wall_s, time.process_time() - collector.cpu_s
        action(node)
        while True:
            ready = node.ready(self.now_ms)
            for failure in ready.failures:
                raise failure.error
            for peer, items in ready.writes:
                self._write(broker, peer, items)
            if ready.closes or ready.silent:
                raise SystemExit(f"WRONG: {broker} wants to close a link: {ready.closes}, {ready.silent}")
            if not node.has_work:
                break
        note = self.longest.setdefault(broker, Longest()).note
        note(time.perf_counter() - collector.wall_s - wall, time.process_time() - collector.cpu_s - cpu)

    def _write(self, broker: BrokerId, peer: Peer, items: Sequence[Any]) -> None:
        if isinstance(peer, ClientId):
            self.replies[peer] = self.replies.get(peer, 0) + sum(isinstance(each, Confirmed) for each in items)
            self.deliveries[peer] = self.deliveries.get(peer, 0) + sum(isinstance(each, Deliver) for each in items)
        elif (broker, peer) in self.cables:
            self.cables[broker, peer].data += b"".join(map(encode, items))

    def settle(self, limit_s: float = 600.0) -> float:
        """Carry all bytes and handle all due deadlines until nothing is left; return the seconds that it took."""
        begin = time.perf_counter()
        busy = True
        while busy:
            busy = False
            for (source, target), cable in list(self.cables.items()):
                if cable.data:
                    busy = True
                    self.feed(target, lambda node, source=source, cable=cable: self._read(node, source, cable))  # type: ignore[misc]
            for broker, node in self.nodes.items():
                due_ms = node.next_deadline_ms
                if due_ms is not None and due_ms <= self.now_ms:
                    busy = True
                    self.feed(broker, lambda node: node.wake(self.now_ms))
            if time.perf_counter() - begin > limit_s:
                raise SystemExit(f"WRONG: not at rest after {limit_s:g} s")
        return time.perf_counter() - begin

    def _read(self, node: Node, source: BrokerId, cable: Cable) -> None:
        data = bytes(cable.data[:READ_BYTES])
        del cable.data[:READ_BYTES]
        items = list(cable.reader.feed(data))
        if items:
            node.receive(source, items, self.now_ms)  # type: ignore[arg-type]

    # Clients and faults.

    def join(self, broker: BrokerId, name: str) -> ClientId:
        """Attach a client."""
        return self.nodes[broker].attach(name, Overflow.DISCONNECT, self.now_ms)

    def ask(self, broker: BrokerId, client: ClientId, requests: Sequence[Message]) -> None:
        """Issue requests in reads of a moderate size."""
        for at in range(0, len(requests), REQUESTS_PER_READ):
            batch = requests[at : at + REQUESTS_PER_READ]
            self.feed(broker, lambda node, batch=batch: node.receive(client, list(batch), self.now_ms))  # type: ignore[misc]

    def cut(self, one: BrokerId, other: BrokerId) -> None:
        """Break a connection; what it carries is lost."""
        for source, target in ((one, other), (other, one)):
            self.cables.pop((source, target), None)
            self.feed(source, lambda node, target=target: node.disconnect(target, self.now_ms))  # type: ignore[misc]

    def connect(self, one: BrokerId, other: BrokerId) -> None:
        """Connect two brokers again."""
        for source, target in ((one, other), (other, one)):
            self.cables[source, target] = Cable()
            self.feed(source, lambda node, target=target: node.connect(target, self.now_ms))  # type: ignore[misc]

    def restart(self, broker: BrokerId) -> None:
        """Kill a broker and start it without state."""
        peers = list(self.nodes[broker].links)
        for peer in peers:
            self.cut(peer, broker)
        self.nodes[broker] = self._make(broker, 2)
        for peer in peers:
            self.connect(broker, peer)

    @contextlib.contextmanager
    def measured(self, scenario: str, subscriptions: int) -> Iterator[dict[str, Any]]:
        """Measure the inputs of a block, and fill a row of results."""
        row: dict[str, Any] = {"scenario": scenario, "subscriptions": subscriptions}
        self.longest = {}
        gc.collect()
        self.collector = Collector()
        gc.callbacks.append(self.collector)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        try:
            yield row
        finally:
            gc.callbacks.remove(self.collector)
        row["wall_s"], row["cpu_s"] = time.perf_counter() - begin, time.process_time() - begin_cpu
        row["collector_ms"] = self.collector.longest_s * 1000.0
        row["collector_cpu_ms"] = self.collector.longest_cpu_s * 1000.0
        inner = self.longest.pop(INNER, Longest())
        others = self.longest.values()
        row["inner_wall_ms"], row["inner_cpu_ms"] = inner.wall_ms, inner.cpu_ms
        row["others_wall_ms"] = max((each.wall_ms for each in others), default=0.0)
        row["others_cpu_ms"] = max((each.cpu_ms for each in others), default=0.0)

    def check(self, subscriptions: int) -> None:
        """Compare the tables and the bits with what they must be."""
        for broker in (LEFT, INNER, RIGHT):
            state = self.state(broker)
            found = {entry.id: entry.last_hop for entry in state.prt}
            if len(found) != subscriptions or not all(_is_towards(broker, *each) for each in found.items()):
                raise SystemExit(f"WRONG: the PRT of {broker} has {len(found)} entries, expected {subscriptions}")
            if state.confirming or state.recovery is not None:
                raise SystemExit(f"WRONG: {broker} still recovers, or waits for {len(state.confirming)} confirmations")
            self.nodes[broker].broker.check()
        wanted = [0 in entry.civ for entry in self.state(PUBLISHING).clt]
        if len(wanted) != ADVERTISEMENTS or any(each != bool(subscriptions) for each in wanted):
            raise SystemExit(f"WRONG: {wanted.count(True)} of {len(wanted)} advertisements have the bit of cluster 0")


def _is_towards(broker: BrokerId, subscription: Any, last_hop: Peer) -> bool:
    """Return whether a last hop leads to the host broker of a subscription, along the row a.0, b.0, c.0."""
    host = subscription.host_broker
    if host == broker:
        return isinstance(last_hop, ClientId)
    return last_hop == (INNER if broker != INNER else host)


def publishing_bench() -> Bench:
    """Return an overlay with a publisher at b.1."""
    bench = Bench()
    publisher = bench.join(PUBLISHING, "publisher")
    bench.ask(PUBLISHING, publisher, [AdvertiseRequest(number, offer(number)) for number in range(ADVERTISEMENTS)])
    bench.settle()
    return bench


def subscribe(bench: Bench, broker: BrokerId, numbers: Sequence[int]) -> ClientId:
    """Let a new client issue subscriptions."""
    client = bench.join(broker, f"subscriber at {broker}")
    bench.ask(broker, client, [SubscribeRequest(number, interest(number)) for number in numbers])
    return client


def measure_recovery(subscriptions: int) -> dict[str, Any]:
    """Kill and restart the inner broker."""
    bench = publishing_bench()
    for half, broker in enumerate((LEFT, RIGHT)):
        subscribe(bench, broker, range(half, subscriptions, 2))
        bench.settle()
    bench.check(subscriptions)
    with bench.measured("recovery", subscriptions) as row:
        bench.restart(INNER)
        bench.settle()
    bench.check(subscriptions)
    return row


def measure_confirmation(subscriptions: int) -> dict[str, Any]:
    """Issue subscriptions while the link to c.0 is down; they wait, and are confirmed when it is back."""
    bench = publishing_bench()
    bench.cut(INNER, RIGHT)
    bench.cut(INNER, PUBLISHING)
    with bench.measured("confirmation", subscriptions) as row:
        client = subscribe(bench, LEFT, range(subscriptions))
        bench.settle()
        bench.connect(INNER, PUBLISHING)
        bench.settle()
        bench.cut(LEFT, INNER)
        bench.connect(LEFT, INNER)
        bench.settle()
        if bench.replies.get(client):
            raise SystemExit("WRONG: a subscription was confirmed before it was known everywhere")
        bench.connect(INNER, RIGHT)
        bench.settle()
    if bench.replies[client] != subscriptions:
        raise SystemExit(f"WRONG: {bench.replies[client]} confirmations, expected {subscriptions}")
    bench.check(subscriptions)
    return row


def measure_departure(subscriptions: int) -> dict[str, Any]:
    """Let a client leave that has all the subscriptions."""
    bench = publishing_bench()
    client = subscribe(bench, LEFT, range(subscriptions))
    bench.settle()
    bench.check(subscriptions)
    with bench.measured("departure", subscriptions) as row:
        bench.feed(LEFT, lambda node: node.detach(client, bench.now_ms))
        bench.settle()
    bench.check(0)
    return row


class Watch:
    """Measures the reads and the deadlines of all brokers and clients of this process."""

    INPUTS = ((Connection, "buffer_updated"), (BrokerServer, "_continue"), (BrokerServer, "_tick"))

    def __init__(self) -> None:
        self.longest = Longest()
        self._collector = Collector()
        self._replaced: list[tuple[type, str, Any]] = []

    def __enter__(self) -> Watch:
        gc.callbacks.append(self._collector)
        for owner, name in self.INPUTS:
            self._replaced.append((owner, name, getattr(owner, name)))
            setattr(owner, name, self._measured(getattr(owner, name)))
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._collector)
        for replaced in self._replaced:
            setattr(*replaced)

    def _measured(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def measure(*arguments: Any) -> None:
            collector = self._collector
            wall, cpu = time.perf_counter() - collector.wall_s, time.process_time() - collector.cpu_s
            method(*arguments)
            self.longest.note(
                time.perf_counter() - collector.wall_s - wall, time.process_time() - collector.cpu_s - cpu
            )

        return measure

    def row(self) -> dict[str, float]:
        """Return the results."""
        found = {"others_wall_ms": self.longest.wall_ms, "others_cpu_ms": self.longest.cpu_ms}
        return {"inner_wall_ms": 0.0, "inner_cpu_ms": 0.0, **found, "collector_ms": self._collector.longest_s * 1000.0}


async def recover_over_sockets(subscriptions: int) -> dict[str, Any]:
    """Kill and restart the inner broker of an overlay over TCP."""
    overlay = octopia.Overlay.local("path:3", 2)
    async with overlay, overlay.connect("b.1") as publisher, contextlib.AsyncExitStack() as stack:
        for number in range(ADVERTISEMENTS):
            await publisher.advertise(f"symbol = 'S{number}' AND price > 0")
        for half, broker in enumerate(("a.0", "c.0")):
            client = await stack.enter_async_context(overlay.connect(broker))
            numbers = range(half, subscriptions, 2)
            for at in range(0, len(numbers), REQUESTS_PER_READ):
                texts = [f"symbol = 'S{each % 50}' AND price > {each}" for each in numbers[at : at + REQUESTS_PER_READ]]
                await asyncio.gather(*(client.subscribe(text, timeout=300.0) for text in texts))

        def is_recovered() -> bool:
            brokers = [server.broker for server in overlay._servers.values() if server.id in (LEFT, INNER, RIGHT)]
            sizes = [broker.table_sizes()["prt"] for broker in brokers]
            return sizes == [subscriptions] * 3 and overlay.is_ready()

        await overlay.wait_until(is_recovered, "the subscriptions to be known", 300.0)
        with Watch() as watch:
            begin, begin_cpu = time.perf_counter(), time.process_time()
            overlay.crash("b.0")
            await overlay.restart("b.0")
            await overlay.wait_until(is_recovered, "the broker to recover", 600.0)
            row = {"wall_s": time.perf_counter() - begin, "cpu_s": time.process_time() - begin_cpu}
        for server in overlay._servers.values():
            server.broker.check()
    return {"scenario": "sockets", "subscriptions": subscriptions, **row, **watch.row()}


def measure_sockets(subscriptions: int) -> dict[str, Any]:
    """Kill and restart the inner broker of an overlay over TCP; at most 20,000 subscriptions."""
    return asyncio.run(recover_over_sockets(min(subscriptions, SOCKETS_MAX)))


SCENARIOS = {
    "recovery": measure_recovery,
    "confirmation": measure_confirmation,
    "departure": measure_departure,
    "sockets": measure_sockets,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 20_000, 80_000], help="(default: %(default)s)")
    parser.add_argument("--scenarios", nargs="+", choices=[*SCENARIOS], default=[*SCENARIOS], help="(default: all)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args(arguments)
    rows = []
    for scenario in options.scenarios:
        for size in options.sizes:
            rows.append(SCENARIOS[scenario](size))
            if options.json:
                print_json(rows[-1])
    if not options.json:
        print_rows("time until all is as before, and the longest input of b.0 (inner) and of others", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
