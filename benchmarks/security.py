"""What does TLS cost a broker? CPU time per publication and hop, with TLS and without, in one interleaved run.

Two overlays a.0 - b.0 - c.0 run side by side, one with TLS and one without. A publisher at a.0 and a subscriber at c.0
take turns in both. The figure is the CPU time of the process of b.0, which receives every publication over one link and
sends it over another, divided by their number. Every delivery is compared with what was published.

    python benchmarks/security.py
    python benchmarks/security.py --quick --json
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import json
import statistics
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import octopia
from octopia.experiments.local_overlay import at_free_addresses, cpu_s_of, running, urls_of
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.runtime.process import Workers
from octopia.security.certificates import make_broker_certificate, make_ca
from octopia.settings import SecuritySettings
from octopia.transport.loop import run_loop

OFFER = "n >= 0 AND round >= 0"
TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True)
class Load:
    """How publications come: as fast as they are taken (a rate of 0), or at a rate per second."""

    name: str
    count: int
    rate: float
    payload_bytes: int


@dataclasses.dataclass(frozen=True)
class Case:
    """A running overlay with a publisher and a subscriber."""

    name: str
    workers: Workers
    publisher: octopia.Client
    subscription: octopia.Subscription

    def cpu_s(self) -> float:
        """Return the CPU time of the broker in the middle, which is alone in the first process."""
        return cpu_s_of(self.workers.pids[0])


def plain_overlay() -> Overlay:
    return at_free_addresses(overlay_from_text("path:3", 1))


def tls_overlay(folder: Path) -> Overlay:
    overlay, authority = plain_overlay(), make_ca("benchmark")
    authority.write(folder / "ca.pem", folder / "ca.key")
    for broker in overlay.scot.brokers:
        made = make_broker_certificate(authority, [str(broker)], ["127.0.0.1"])
        made.write(folder / f"{broker}.pem", folder / f"{broker}.key")
    security = SecuritySettings(str(folder / "ca.pem"), str(folder / "{broker}.pem"), str(folder / "{broker}.key"))
    addresses = {broker: dataclasses.replace(at, speaks_tls=True) for broker, at in overlay.addresses.items()}
    return dataclasses.replace(overlay, security=security, addresses=addresses)


@contextlib.contextmanager
def running_overlays(folder: Path) -> Iterator[dict[str, tuple[Overlay, Workers]]]:
    overlays = {"plain": plain_overlay(), "tls": tls_overlay(folder)}
    with contextlib.ExitStack() as stack:
        yield {
            name: (overlay, stack.enter_context(running(overlay, 1, alone=[overlay.scot.broker("b.0")])))
            for name, overlay in overlays.items()
        }


@contextlib.asynccontextmanager
async def connected(name: str, overlay: Overlay, workers: Workers, ca: Path) -> AsyncIterator[Case]:
    first, _, last = urls_of(overlay)
    async with octopia.connect(first, ca=ca) as publisher, octopia.connect(last, ca=ca) as subscriber:
        subscription = await subscriber.subscribe("n >= 0", buffer=1_000_000)
        await publisher.advertise(OFFER)
        yield Case(name, workers, publisher, subscription)


async def play(case: Case, load: Load, number: int) -> float:
    """Publish once, check every delivery, and return the CPU time of the middle per publication, in microseconds."""
    payload = bytes(number % 256 for _ in range(load.payload_bytes))
    begin_s = case.cpu_s()
    receiving = asyncio.create_task(receive(case.subscription, load, number, payload))
    if load.rate:
        for n in range(load.count):
            await case.publisher.publish({"n": n, "round": number}, payload)
            await asyncio.sleep(1.0 / load.rate)
    else:
        published = (octopia.Publication({"n": n, "round": number}, payload) for n in range(load.count))
        await case.publisher.publish_many(published)
    await receiving
    return 1e6 * (case.cpu_s() - begin_s) / load.count


async def receive(subscription: octopia.Subscription, load: Load, number: int, payload: bytes) -> None:
    seen: set[Any] = set()
    for _ in range(load.count):
        got = await subscription.next(timeout=TIMEOUT_S)
        if got["round"] != number or got.payload != payload or got["n"] in seen:
            raise SystemExit(f"wrong delivery: {got!r}")
        seen.add(got["n"])
    if seen != set(range(load.count)):
        raise SystemExit(f"expected {load.count} publications, got {len(seen)}")


async def in_turns(plays: Mapping[str, Callable[[int], Awaitable[float]]], rounds: int) -> dict[str, list[float]]:
    """Return what each case gives in every round; the first one warms up, and the order alternates."""
    found: dict[str, list[float]] = {name: [] for name in plays}
    for number in range(rounds + 1):
        for name in plays if number % 2 else reversed(list(plays)):
            cpu_us = await plays[name](number)
            if number:
                found[name].append(cpu_us)
    return found


async def measure(cases: list[Case], loads: list[Load], rounds: int) -> list[dict[str, Any]]:
    rows = []
    for load in loads:
        found = await in_turns({case.name: functools.partial(play, case, load) for case in cases}, rounds)
        medians = {name: statistics.median(values) for name, values in found.items()}
        row = {"load": load.name, "payload_bytes": load.payload_bytes, "rounds": rounds, "per_round": load.count}
        row |= {f"{name}_us": round(value, 2) for name, value in medians.items()}
        spread = {f"{name}_range_us": [round(min(each), 2), round(max(each), 2)] for name, each in found.items()}
        rows.append(row | spread | {"ratio": round(medians["tls"] / medians["plain"], 2)})
    return rows


async def run(running_now: dict[str, tuple[Overlay, Workers]], ca: Path, loads: list[Load], rounds: int) -> Any:
    async with contextlib.AsyncExitStack() as stack:
        cases = [
            await stack.enter_async_context(connected(name, overlay, workers, ca))
            for name, (overlay, workers) in running_now.items()
        ]
        return await measure(cases, loads, rounds)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small inputs")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    count, few, rounds = (300, 20, 1) if chosen.quick else (20_000, 1_000, 7)
    loads = [Load("full", count, 0.0, size) for size in (100, 1_000, 10_000)]
    loads.append(Load("500/s", few, 500.0, 100))
    with tempfile.TemporaryDirectory() as folder, running_overlays(Path(folder)) as found:
        rows = run_loop(run(found, Path(folder) / "ca.pem", loads, rounds))
    if chosen.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(
            f"{row['load']:>6}, payload of {row['payload_bytes']:>6} bytes: plain {row['plain_us']:7.2f} us, "
            f"TLS {row['tls_us']:7.2f} us per publication and hop, {row['ratio']:.2f} times"
        )


if __name__ == "__main__":
    main()
