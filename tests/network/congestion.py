"""Twelve hosts in network namespaces, two ways that carry little, and a publisher behind them.

The test of congestion plays it once; ``benchmarks/congestion.py`` plays it under static and under dynamic routing.
"""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

from namespaces import Hosts
from processes import Process

BROKERS = [f"{region}.{cluster}" for region in "abc" for cluster in range(4)]
SUBSCRIBERS = ["a.0", "c.0", "c.1", "c.2", "a.3"]
PUBLISHER = "b.3"
CAPPED = ["b.0", "b.1"]
WINDOW_MS = 50.0
RATE = "800kbit"
PER_SECOND, PAYLOAD_BYTES = 300.0, 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What brokers and subscribers told at the end, and what the kernel held back meanwhile."""

    statuses: dict[str, dict[str, Any]]
    received: dict[str, Any]
    backlogs: list[list[int]]


async def play(folder: Path, publications: int, algorithm: str = "dynamic") -> Outcome:
    """Publish at a steady rate that the capped ways cannot carry, and wait until everything has arrived."""
    with Hosts([*BROKERS, "pub", "sub"]) as hosts:
        hosts.cap(PUBLISHER, CAPPED, RATE, "400kb")
        overlay = folder / f"{algorithm}.toml"
        overlay.write_text(_overlay_text(hosts, algorithm))
        processes: list[Process] = []
        try:
            return await _play(hosts, overlay, publications, processes)
        finally:
            await asyncio.gather(*(process.stop() for process in processes))


async def _play(hosts: Hosts, overlay: Path, publications: int, processes: list[Process]) -> Outcome:
    started = await asyncio.gather(*(_broker(hosts, overlay, broker) for broker in BROKERS))
    processes += started
    brokers = dict(zip(BROKERS, started, strict=True))
    await asyncio.gather(*(broker.hear("ready") for broker in started))
    urls = [_url(hosts, broker) for broker in SUBSCRIBERS]
    within = hosts.command("sub")
    subscribers = await Process.start("S", "client_process.py", "subscribe", "x > 0", *urls, within=within)
    processes.append(subscribers)
    await subscribers.hear("ready")
    work = (_url(hosts, PUBLISHER), str(publications), str(PER_SECOND), str(PAYLOAD_BYTES))
    publisher = await Process.start(
        "P", "client_process.py", "publish", "x > 0 AND n >= 0", *work, within=hosts.command("pub")
    )
    processes.append(publisher)
    await publisher.hear("ready")
    publisher.tell("go")
    done = asyncio.ensure_future(publisher.hear("done"))
    backlogs: list[list[int]] = []
    while not done.done():
        queues = await asyncio.to_thread(hosts.slow_queues, PUBLISHER)
        backlogs.append([queue["backlog"] for queue in queues])
    await done
    statuses = await _rest(brokers)
    return Outcome(statuses, await subscribers.ask("report", "received"), backlogs)


async def _broker(hosts: Hosts, overlay: Path, broker: str) -> Process:
    watched = CAPPED if broker == PUBLISHER else []
    return await Process.start(
        broker, "broker_process.py", str(overlay), broker, *watched, within=hosts.command(broker)
    )


async def _rest(brokers: dict[str, Process]) -> dict[str, dict[str, Any]]:
    """Ask all brokers until none has anything to do."""
    async with asyncio.timeout(120):
        while True:
            answers = await asyncio.gather(*(broker.ask("status", "status") for broker in brokers.values()))
            if not any(answer["unrest"] for answer in answers):
                return dict(zip(brokers, answers, strict=True))


def _url(hosts: Hosts, broker: str) -> str:
    return f"octopia://{hosts.address(broker)}:7400"


def _overlay_text(hosts: Hosts, algorithm: str) -> str:
    brokers = "".join(f'[brokers."{each}"]\nhost = "{hosts.address(each)}"\nport = 7400\n' for each in BROKERS)
    return f'tree = "path:3"\nclusters = 4\n{brokers}[routing]\nalgorithm = "{algorithm}"\nwindow_ms = {WINDOW_MS}\n'
