"""Measure how long clients need to come back when their broker is killed and restarted.

C clients in P processes each hold one advertisement and one subscription at one broker. The broker is killed, and
started again at once. Two times are measured from the kill:

- *connected*: the last client has a new session;
- *back*: one publication has reached every client, so all subscriptions are in force again.

The benchmark fails if a client does not come back in time, or if a publication reaches a subscription twice. Brokers
and clients share the machine: with P processes of clients and two cores, the broker has less than one core.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import json
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator
from typing import Any, Self

import octopia
from octopia.addresses import Address
from octopia.overlay.files import overlay_from_text
from octopia.runtime.server import BrokerServer
from octopia.transport.loop import run_loop

CONNECTING = 50
"""The number of clients of a process that connect for the first time at once."""
PROBE_S = 1.0
"""The interval between publications until one has reached all clients."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """The results; times are in seconds from the kill."""

    clients: int
    processes: int
    listening_s: float
    connected_s: float
    back_s: float
    broker_cpu_s: float


class Wrong(Exception):
    """A client did not come back, or received a publication twice."""


class Worker:
    """A process of this benchmark, which answers each line that it reads with a line of JSON."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process

    @classmethod
    async def start(cls, *arguments: object) -> Self:
        """Start this script with arguments."""
        command = [sys.executable, __file__, *map(str, arguments)]
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))

    async def ask(self, line: str) -> Any:
        """Send a line, and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        return await self.hear()

    async def hear(self) -> Any:
        """Return the next line of the process."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise Wrong("a process of the benchmark ended early")
        return json.loads(line)

    async def kill(self) -> None:
        """End the process at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


# The processes.


async def run_broker(port: int) -> None:
    overlay = overlay_from_text("path:1", 1)
    server = BrokerServer(overlay, overlay.scot.brokers[0])
    await server.listen(Address("127.0.0.1", port))
    server.start()
    say(True)
    async for _ in lines():
        say(time.process_time())


async def run_clients(port: int, first: int, count: int) -> None:
    """Hold some clients; answer with the number of reconnected ones, or that of those that received a publication."""
    reached: collections.Counter[object] = collections.Counter()
    back = 0
    gate = asyncio.Semaphore(CONNECTING)

    def note_reconnect() -> None:
        nonlocal back
        back += 1

    async def open_one(number: int) -> octopia.Client:
        async with gate:
            url = f"octopia://127.0.0.1:{port}"
            client = await octopia.connect(url, name=f"client-{number}", timeout=60.0, on_reconnect=note_reconnect)
            await client.advertise(f"y = {number}")
            await client.subscribe(
                f"x >= 0 AND x < {1_000_000 + number}", callback=lambda got: reached.update([(number, got["x"])])
            )
            return client

    clients = await asyncio.gather(*map(open_one, range(first, first + count)))
    say(True)
    async for line in lines():
        if line == "back":
            say([back, sum(client.is_connected for client in clients)])
        else:
            probe = int(line)
            say([sum(x == probe for _, x in reached), max(reached.values(), default=0)])


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


async def lines() -> AsyncIterator[str]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        yield line.decode().strip()


# The measurement.


async def measure(clients: int, processes: int, limit_s: float, role: str = "broker") -> Measurement:
    """Kill the broker, start another one, and wait until all clients are back."""
    port = free_port()
    workers: list[Worker] = []
    try:
        broker = await Worker.start(role, port)
        workers.append(broker)
        await broker.hear()
        share = -(-clients // processes)
        starts = [Worker.start("clients", port, at, min(share, clients - at)) for at in range(0, clients, share)]
        holders = await asyncio.gather(*starts)
        workers += holders
        await asyncio.gather(*(each.hear() for each in holders))
        async with octopia.connect(f"octopia://127.0.0.1:{port}", timeout=60.0) as publisher:
            await publisher.advertise("x >= 0")
            begin = time.monotonic()
            await broker.kill()
            broker = await Worker.start(role, port)
            workers.append(broker)
            await broker.hear()
            listening_s = time.monotonic() - begin
            deadline = begin + limit_s
            await until_connected(holders, clients, deadline)
            connected_s = time.monotonic() - begin
            await until_reached(publisher, holders, clients, deadline)
            back_s = time.monotonic() - begin
            cpu_s = await broker.ask("cpu")
    finally:
        await asyncio.gather(*(each.kill() for each in workers))
    times = (round(each, 2) for each in (listening_s, connected_s, back_s, cpu_s))
    return Measurement(clients, processes, *times)


async def until_connected(holders: list[Worker], clients: int, deadline: float) -> None:
    while True:
        answers = await asyncio.gather(*(each.ask("back") for each in holders))
        back = sum(min(answer) for answer in answers)
        if back >= clients:
            return
        if time.monotonic() > deadline:
            raise Wrong(f"only {back} of {clients} clients were connected again in time")
        await asyncio.sleep(0.1)


async def until_reached(publisher: octopia.Client, holders: list[Worker], clients: int, deadline: float) -> None:
    probe = reached = 0
    while time.monotonic() < deadline:
        probe += 1
        await publisher.publish({"x": probe})
        until = time.monotonic() + PROBE_S
        while time.monotonic() < until:
            answers = await asyncio.gather(*(each.ask(str(probe)) for each in holders))
            if any(most > 1 for _, most in answers):
                raise Wrong("a publication reached a subscription twice")
            reached = sum(count for count, _ in answers)
            if reached == clients:
                return
            await asyncio.sleep(0.02)
    raise Wrong(f"a publication reached only {reached} of {clients} clients in time")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1_000, 2_500, 5_000], help="(default: %(default)s)")
    parser.add_argument(
        "--processes", type=int, default=4, help="processes that hold the clients (default: %(default)s)"
    )
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds after which the benchmark fails (default: %(default)s)"
    )
    parser.add_argument("--asyncio", action="store_true", help="run the broker without uvloop")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    try:
        for clients in chosen.clients:
            role = "asyncio-broker" if chosen.asyncio else "broker"
            result = dataclasses.asdict(asyncio.run(measure(clients, chosen.processes, chosen.limit, role)))
            if chosen.json:
                print(json.dumps(result), flush=True)
            else:
                print(", ".join(f"{name} {value:,}" for name, value in result.items()), flush=True)
    except Wrong as error:
        sys.exit(str(error))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if sys.argv[1:2] == ["broker"]:
        run_loop(run_broker(int(sys.argv[2])))
    elif sys.argv[1:2] == ["asyncio-broker"]:
        asyncio.run(run_broker(int(sys.argv[2])))
    elif sys.argv[1:2] == ["clients"]:
        run_loop(run_clients(*map(int, sys.argv[2:])))
    else:
        main()
