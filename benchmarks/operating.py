"""What do TLS, metrics and an open map cost a broker? CPU time per publication and hop, in one interleaved run.

Five overlays a.0 - b.0 - c.0 run side by side: one as it is, one with TLS, one whose /metrics is scraped once per
second, one whose live map is open (one reader of /feed), and one with all of these. A publisher at a.0 and a
subscriber at c.0 take turns in all of them. The figure is the CPU time of the process of b.0, which receives every
publication over one link and sends it over another, divided by their number. That process serves HTTP by itself, as
`octopia broker --http` does; `octopia up --http` has another process for it, and its brokers only make the reports.
Every delivery is compared with what was published, and every scrape is checked.

    python benchmarks/operating.py
    python benchmarks/operating.py --quick --json
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import json
import multiprocessing
import statistics
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import octopia
from octopia.addresses import Address
from octopia.experiments.local_overlay import cpu_s_of, urls_of
from octopia.http.guard import Guard
from octopia.http.process import beside
from octopia.http.server import bind
from octopia.overlay.files import Overlay
from octopia.runtime.process import exclude_from_collection, run_brokers
from octopia.transport.loop import run_loop
from security import Load, in_turns, plain_overlay, receive, tls_overlay

SCRAPE_S = 1.0
READY_S = 60.0
STOP_S = 20.0
CASES = {"plain": (), "tls": ("tls",), "metrics": ("metrics",), "map": ("map",), "all": ("tls", "metrics", "map")}
"""The cases, and what is on in each."""

_forking = multiprocessing.get_context("fork")


@dataclasses.dataclass
class Case:
    """A running overlay with a publisher, a subscriber, and what looks at the broker in the middle."""

    name: str
    middle: int
    http: Address
    publisher: octopia.Client
    subscription: octopia.Subscription
    scrapes: int = 0
    ticks: int = 0
    looks: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Scrape, and read the feed, from the first look to the end of the block."""
        self.scrapes = self.ticks = 0
        features = CASES[self.name]
        watching = [asyncio.create_task(self._scrape())] if "metrics" in features else []
        watching += [asyncio.create_task(self._read_feed())] if "map" in features else []
        try:
            async with asyncio.timeout(READY_S):
                while (self.scrapes == 0 and "metrics" in features) or (self.ticks == 0 and "map" in features):
                    await self.looks.wait()
                    self.looks.clear()
            yield
        finally:
            for task in watching:
                task.cancel()
            for found in await asyncio.gather(*watching, return_exceptions=True):
                if isinstance(found, Exception):
                    raise found

    async def _scrape(self) -> None:
        while True:
            answer = await get(self.http, "/metrics")
            if b'octopia_link_sent_total{broker="b.0",to="c.0"}' not in answer:
                raise RuntimeError(f"wrong metrics: {answer[:200]!r}")
            self.scrapes += 1
            self.looks.set()
            await asyncio.sleep(SCRAPE_S)

    async def _read_feed(self) -> None:
        reader, writer = await asyncio.open_connection(self.http.host, self.http.port)
        try:
            writer.write(b"GET /feed HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while line := await reader.readline():
                if line.startswith(b"data: "):
                    self.ticks += json.loads(line[6:])["type"] == "tick"
                    self.looks.set()
            raise RuntimeError("the feed has ended")
        finally:
            writer.close()


async def get(address: Address, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        return await reader.read()
    finally:
        writer.close()


@contextlib.contextmanager
def running_overlays(folder: Path, names: Sequence[str]) -> Iterator[dict[str, tuple[Overlay, int, Address]]]:
    """Run the overlay of each case in two processes, and yield it with that of b.0 and its HTTP port."""
    encrypted = {name: tls_overlay(make(folder / name)) for name in names if "tls" in CASES[name]}
    found: dict[str, tuple[Overlay, int, Address]] = {}
    processes = []
    try:
        for name in names:
            overlay, listener = encrypted.get(name) or plain_overlay(), bind(Address("127.0.0.1", 0))
            http = Address(*listener.getsockname()[:2])
            middle = _forking.Process(target=serve, args=(overlay, ["b.0"], listener))
            ends = _forking.Process(target=serve, args=(overlay, ["a.0", "c.0"], None))
            for process in (middle, ends):
                process.start()
                processes.append(process)
            listener.close()
            found[name] = (overlay, middle.pid or 0, http)
        yield found
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(STOP_S)
            process.kill()


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def serve(overlay: Overlay, brokers: list[str], listener: Any) -> None:
    exclude_from_collection()
    chosen = [overlay.scot.broker(each) for each in brokers]
    http = None if listener is None else lambda servers: beside(overlay, servers, listener, Guard("127.0.0.1"))
    run_loop(run_brokers(overlay, chosen, beside=http))


@contextlib.asynccontextmanager
async def connected(name: str, folder: Path, overlay: Overlay, middle: int, http: Address) -> AsyncIterator[Case]:
    first, _, last = urls_of(overlay)
    ca = folder / name / "ca.pem" if "tls" in CASES[name] else None
    async with (
        octopia.connect(first, ca=ca, timeout=READY_S) as publisher,
        octopia.connect(last, ca=ca, timeout=READY_S) as subscriber,
    ):
        subscription = await subscriber.subscribe("n >= 0", buffer=1_000_000, timeout=READY_S)
        await publisher.advertise("n >= 0 AND round >= 0", timeout=READY_S)
        yield Case(name, middle, http, publisher, subscription)


async def play(case: Case, load: Load, number: int) -> float:
    """Publish once, check every delivery, and return the CPU time of the middle per publication, in microseconds."""
    payload = bytes(number % 256 for _ in range(load.payload_bytes))
    async with case.watched():
        begin_s = cpu_s_of(case.middle)
        receiving = asyncio.create_task(receive(case.subscription, load, number, payload))
        if load.rate:
            await publish_slowly(case.publisher, load, number, payload)
        else:
            published = (octopia.Publication({"n": n, "round": number}, payload) for n in range(load.count))
            await case.publisher.publish_many(published)
        await receiving
        return 1e6 * (cpu_s_of(case.middle) - begin_s) / load.count


async def publish_slowly(publisher: octopia.Client, load: Load, number: int, payload: bytes) -> None:
    loop = asyncio.get_running_loop()
    begin_s = loop.time()
    for n in range(load.count):
        await publisher.publish({"n": n, "round": number}, payload)
        await asyncio.sleep(begin_s + (n + 1) / load.rate - loop.time())


async def measure(cases: list[Case], loads: list[Load], rounds: int) -> list[dict[str, Any]]:
    rows = []
    for load in loads:
        found = await in_turns({case.name: functools.partial(play, case, load) for case in cases}, rounds)
        row: dict[str, Any] = {"load": load.name, "rounds": rounds, "per_round": load.count}
        for name, values in found.items():
            row[f"{name}_us"] = round(statistics.median(values), 2)
            row[f"{name}_range_us"] = [round(min(values), 2), round(max(values), 2)]
            # Neighbouring turns share the state of the machine, so the ratio is taken in each round.
            ratios = [each / plain for each, plain in zip(values, found["plain"], strict=True)]
            row[f"{name}_ratio"] = round(statistics.median(ratios), 2)
        rows.append(row)
    return rows


async def run(overlays: dict[str, tuple[Overlay, int, Address]], folder: Path, loads: list[Load], rounds: int) -> Any:
    async with contextlib.AsyncExitStack() as stack:
        cases = [
            await stack.enter_async_context(connected(name, folder, *overlay)) for name, overlay in overlays.items()
        ]
        return await measure(cases, loads, rounds)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    count, few, rounds = (300, 20, 1) if chosen.quick else (200_000, 2_500, 7)
    loads = [Load("full", count, 0.0, 100), Load("500/s", few, 500.0, 100)]
    with tempfile.TemporaryDirectory() as text, running_overlays(Path(text), list(CASES)) as overlays:
        rows = run_loop(run(overlays, Path(text), loads, rounds))
    if chosen.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['load']}, {row['rounds']} rounds of {row['per_round']} publications:")
        for name in CASES:
            low, high = row[f"{name}_range_us"]
            print(
                f"  {name:>8}: {row[f'{name}_us']:8.2f} us per publication and hop ({low:.2f} to {high:.2f}), "
                f"{row[f'{name}_ratio']:.2f} times plain"
            )


if __name__ == "__main__":
    main()
