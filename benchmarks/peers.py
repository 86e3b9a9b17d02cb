"""Measure OctopiA beside the message servers that are installed on this machine: NATS, Mosquitto (MQTT) and Redis.

Figures, for --only:

- *hop*: one publisher and one subscriber, as fast as possible. The subscriber has 100 subscriptions, one of which
  matches: filters at OctopiA, subjects, channels or topics at the others.
- *fan*: the same with 50 subscribers that want everything: 50 deliveries per publication.
- *delay*: as *hop*, at 1,000 publications per second: from the publisher's clock to the subscriber's, which are the
  same.

All run in turn, with the same load: a publisher and subscribers in two processes, which write up to 64 KiB at a time.
The payload for others has the bytes of a publication as OctopiA encodes it. Their publishers know nothing but TCP to
slow them down, so a round is small enough to wait in a server. Every publication must arrive exactly once and in order
at all its subscribers; otherwise the benchmark fails.

*cpu_us* is the CPU time per publication of the server with all its threads and children, in microseconds: the median of
all rounds, and in *best_us* the cheapest. It is read from the clock of each process, which is finer than the 10 ms of
/proc/PID/stat. *to_octopia* is the median of the ratios per round. *per_s* is by wall time, from the fastest round, and
is limited by the slowest process, including the clients, which are Python.

The servers do less than OctopiA; the last table says what is missing. The costs of those features are part of
OctopiA's figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from network import ONE_OF_MANY, everything_interests
from network_lines import (
    Expectation,
    Line,
    broker_line,
    cpu_rows,
    delay_rows,
    everything,
    everything_50_times,
    in_turns,
    wait_for,
)
from network_load import CHOICES, NUMBER_BYTES, WRITE_BYTES, Received, now_ms, obey, pause_until, publication
from network_processes import Child, Ears, Wrong
from octopia.addresses import Address
from octopia.errors import OctopiaError
from octopia.experiments.local_overlay import free_addresses
from octopia.protocol import Frame
from octopia.protocol.messages import PublishRequest
from octopia.transport.connection import READ_BYTES, WRITE_HIGH_BYTES
from octopia.wire import encode
from octopia.wire.format import PUBLICATION
from peer_protocols import Mqtt, Nats, PeerProtocol, Resp
from tables import conditions, print_json, print_rows

TOPIC = "market"
TOPICS = [TOPIC, *(f"other{number}" for number in range(99))]
PAYLOAD_BYTES = 20
PUBLISHED_FIELD = 8
"""The place of the time of publishing in the header of a frame."""
DELAY_PER_S = 1_000.0
OURS = "octopia"
RATIO = {"to_octopia": OURS}


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """A server: its program, its protocol, the command that starts it, and what it lacks."""

    program: str
    protocol: Callable[[], PeerProtocol]
    command: Callable[[str, int, Path], list[str]]
    lacks: Mapping[str, str]

    def find(self) -> str | None:
        """Return the path of the program, or None if it is not installed."""
        return shutil.which(self.program) or shutil.which(self.program, path="/usr/sbin:/usr/local/sbin")


def nats_command(program: str, port: int, folder: Path) -> list[str]:
    """Return the command for NATS."""
    return [program, "--addr", "127.0.0.1", "--port", str(port)]


def redis_command(program: str, port: int, folder: Path) -> list[str]:
    """Return the command for Redis, which stores nothing and has no limit for slow subscribers."""
    options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", "", "--appendonly", "no"]
    return [program, *options, "--client-output-buffer-limit", "pubsub 0 0 0"]


def mosquitto_command(program: str, port: int, folder: Path) -> list[str]:
    """Return the command for Mosquitto, which must not wait to fill packets, nor drop what waits for a subscriber."""
    settings = folder / "mosquitto.conf"
    settings.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
        "set_tcp_nodelay true\nmax_queued_messages 0\nmax_queued_bytes 0\n"
    )
    return [program, "-c", str(settings)]


HAS = {
    "content_filters": "yes",
    "cyclic_overlay": "yes, around congested links",
    "acknowledged": "yes, resent after a reconnect",
    "order_after_reconnect": "yes, nothing is lost",
    "slow_subscriber": "is cut off, or loses the oldest, and is told",
}
PEERS = {
    "nats": Peer(
        "nats-server",
        Nats,
        nats_command,
        {
            "content_filters": "no, subjects",
            "cyclic_overlay": "no, a full mesh, one hop",
            "acknowledged": "no (JetStream, not measured)",
            "order_after_reconnect": "what was sent meanwhile is lost",
            "slow_subscriber": "is cut off",
        },
    ),
    "redis": Peer(
        "redis-server",
        Resp,
        redis_command,
        {
            "content_filters": "no, channels",
            "cyclic_overlay": "no, to every node",
            "acknowledged": "no (streams, not measured)",
            "order_after_reconnect": "what was sent meanwhile is lost",
            "slow_subscriber": "is cut off, unless unlimited as here",
        },
    ),
    "mosquitto": Peer(
        "mosquitto",
        Mqtt,
        mosquitto_command,
        {
            "content_filters": "no, topics",
            "cyclic_overlay": "no, bridges must form a tree",
            "acknowledged": "no (QoS 1 and 2, not measured)",
            "order_after_reconnect": "what was sent meanwhile is lost",
            "slow_subscriber": "loses messages, unless unlimited as here",
        },
    ),
}


# The load.


def message(number: int, published_ms: float) -> bytes:
    """Return a publication as OctopiA encodes it."""
    return bytes(encode(Frame(number + 1, PublishRequest(number, publication(number), published_ms))))


def number_of(payload: bytes) -> int:
    """Return the number of a publication."""
    return int.from_bytes(payload[-PAYLOAD_BYTES : NUMBER_BYTES - PAYLOAD_BYTES])


def published_ms_of(payload: bytes) -> float:
    """Return the time at which a publication was published."""
    return float(PUBLICATION.unpack_from(payload)[PUBLISHED_FIELD])


class PeerEnd(asyncio.BufferedProtocol):
    """A client's end of a connection to a server, with reads and writes as large as those of OctopiA's clients."""

    def __init__(self, protocol: PeerProtocol, on_payloads: Callable[[list[bytes]], None] = lambda _: None):
        self.protocol = protocol
        self.on_payloads = on_payloads
        self.is_writable = True
        self.on_room: Callable[[], None] = lambda: None
        self._buffer = bytearray(READ_BYTES)
        self._news = asyncio.Event()

    async def connect(self, address: Address, name: str) -> None:
        """Connect, and wait until the server answers."""
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_connection(lambda: self, address.host, address.port)
        self.transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self.request(self.protocol.greeting(name), 1)

    async def request(self, data: bytes, answers: int) -> None:
        """Write, and wait for a number of answers."""
        wanted = self.protocol.answers + answers
        self.transport.write(data)
        while self.protocol.answers < wanted:
            self._news.clear()
            await self._news.wait()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return the buffer of reads."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle a read."""
        payloads = self.protocol.feed(bytes(memoryview(self._buffer)[:nbytes]))
        if self.protocol.reply:
            self.transport.write(self.protocol.reply)
            self.protocol.reply = b""
        if payloads:
            self.on_payloads(payloads)
        self._news.set()

    def pause_writing(self) -> None:
        """Stop publishing."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Continue publishing."""
        self.is_writable = True
        self.on_room()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail: no connection ends before its process."""
        raise Wrong(f"the server closed a connection: {error}")


async def run_peer_publisher(pipe: Pipe, address: Address, protocol: Callable[[], PeerProtocol]) -> None:
    """Publish on command, at a rate or (0) as fast as the server reads."""
    end, ears = PeerEnd(protocol()), Ears(pipe)
    await end.connect(address, "P")
    pipe.send("ready")
    while True:
        first, count, rate = await ears.next()
        encode_one = end.protocol.publish
        ready = [] if rate else [encode_one(TOPIC, message(number, 0.0)) for number in range(first, first + count)]
        pipe.send("prepared")
        await ears.next()
        if not rate:
            await publish_fast(end, ready)
            continue
        begin = now_ms()
        for number in range(first, first + count):
            await pause_until((begin + (number - first) / rate * 1000.0) / 1000.0)
            end.transport.write(encode_one(TOPIC, message(number, now_ms())))


async def publish_fast(end: PeerEnd, messages: list[bytes]) -> None:
    """Write up to WRITE_BYTES in each turn of the event loop while the transport takes them."""
    left, done = iter(messages), asyncio.Event()

    def pump() -> None:
        if not end.is_writable or done.is_set():
            return
        chunk = []
        written = 0
        for each in left:
            chunk.append(each)
            written += len(each)
            if written >= WRITE_BYTES:
                break
        else:
            done.set()
        end.transport.write(b"".join(chunk))
        asyncio.get_running_loop().call_soon(pump)

    end.on_room = pump
    pump()
    await done.wait()


async def run_peer_subscribers(
    pipe: Pipe, address: Address, protocol: Callable[[], PeerProtocol], topics: list[list[str]]
) -> None:
    """Receive on command."""
    got, ends = Received(), []
    for number, wanted in enumerate(topics):
        end = PeerEnd(protocol(), taker(got, number))
        await end.connect(address, f"S{number}")
        await end.request(*end.protocol.subscribe(wanted))
        ends.append(end)
    await obey(pipe, got)


def taker(got: Received, subscriber: int) -> Callable[[list[bytes]], None]:
    """Return the handler of payloads of one subscriber."""
    mine = got.numbers[subscriber] = []

    def take(payloads: list[bytes]) -> None:
        times = [published_ms_of(each) for each in payloads] if got.has_details else []
        got.note(mine, [number_of(each) for each in payloads], times)

    return take


@contextlib.contextmanager
def peer_line(peer: Peer, topics: list[list[str]], expectation: Expectation) -> Iterator[Line]:
    """Run a server with a publisher and subscribers."""
    program, (address,) = peer.find(), free_addresses(1)
    assert program is not None
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # Mosquitto reads its settings as another user.
        command = peer.command(program, address.port, folder)
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        wait_for(address)
        subscribers = Child("subscriber", run_peer_subscribers, address, peer.protocol, topics)
        stack.callback(subscribers.end)
        subscribers.hear()
        publisher = Child("publisher", run_peer_publisher, address, peer.protocol)
        stack.callback(publisher.end)
        publisher.hear()
        yield Line(family_of(server.pid), publisher, subscribers, expectation)


def family_of(pid: int) -> list[int]:
    """Return a process and all processes below it. The clock of a process counts all of its threads."""
    children = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [pid, *(each for line in children for child in line for each in family_of(int(child)))]


# Figures.


@contextlib.contextmanager
def one_to_one(peers: Mapping[str, Peer]) -> Iterator[dict[str, Line]]:
    """Run all systems with one subscriber."""
    with contextlib.ExitStack() as stack:
        lines = {OURS: stack.enter_context(broker_line(1, ONE_OF_MANY, everything))}
        for name, peer in peers.items():
            lines[name] = stack.enter_context(peer_line(peer, [TOPICS], everything))
        yield lines


@contextlib.contextmanager
def one_to_many(peers: Mapping[str, Peer]) -> Iterator[dict[str, Line]]:
    """Run all systems with 50 subscribers."""
    with contextlib.ExitStack() as stack:
        lines = {OURS: stack.enter_context(broker_line(1, everything_interests(), everything_50_times))}
        for name, peer in peers.items():
            lines[name] = stack.enter_context(peer_line(peer, [[TOPIC]] * CHOICES, everything_50_times))
        yield lines


TITLES = {
    "conditions": "conditions",
    "hop": "hop: CPU time per publication; 1 delivery each",
    "fan": "fan: CPU time per publication; 50 deliveries each",
    "delay": "delay: from publisher to subscriber at 1,000 per second",
    "features": "features of what was measured",
}


def measure(
    peers: Mapping[str, Peer], only: list[str], publications: int, rounds: int, seconds: float
) -> dict[str, list[dict[str, Any]]]:
    """Measure all systems in turn."""
    found = {}
    turns = max(1, round(seconds))
    with one_to_one(peers) as lines:
        if "hop" in only:
            found["hop"] = cpu_rows(in_turns(lines, publications, rounds), publications, RATIO, "system")
        if "delay" in only:
            count = max(20, round(DELAY_PER_S * seconds / turns))
            found["delay"] = delay_rows(in_turns(lines, count, turns, DELAY_PER_S), "system")
    if "fan" in only:
        with one_to_many(peers) as lines:
            count = max(50, publications // 20)
            found["fan"] = cpu_rows(in_turns(lines, count, rounds), count, RATIO, "system")
    features = {OURS: HAS, **{name: peer.lacks for name, peer in peers.items()}}
    found["features"] = [{"system": name, **row} for name, row in features.items()]
    return found


def installed(names: list[str]) -> dict[str, Peer]:
    """Return the servers that are installed, and print how to install others."""
    found = {}
    for name in names:
        if PEERS[name].find() is None:
            program = PEERS[name].program
            print(f"skipping {name}: {program} is not installed; try: apt-get install {program}", file=sys.stderr)
        else:
            found[name] = PEERS[name]
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    figures = ["hop", "fan", "delay"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--publications", type=int, default=20_000, help="publications per round (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=9, help="(default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="duration of delay, per system (default: %(default)s)"
    )
    parser.add_argument("--peers", nargs="*", choices=[*PEERS], default=[*PEERS], help="(default: all)")
    parser.add_argument("--only", nargs="+", choices=figures, default=figures, help="(default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        chosen.publications, chosen.rounds, chosen.seconds = 400, 1, 0.2
    if sys.platform != "linux":
        sys.exit(f"expected Linux, for the CPU times of processes, got {sys.platform}")
    peers = installed(chosen.peers)
    found = {"conditions": [conditions()]}
    try:
        found |= measure(peers, chosen.only, chosen.publications, chosen.rounds, chosen.seconds)
    except (Wrong, OctopiaError) as error:
        sys.exit(f"WRONG: {error}")
    if chosen.json:
        print_json(found)
        return
    for name, rows in found.items():
        print_rows(TITLES[name], rows)


if __name__ == "__main__":
    main()
