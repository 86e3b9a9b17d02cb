"""Congestion on a real link: twelve hosts, two ways that carry little, and brokers that notice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from namespaces import Hosts, why_not
from processes import Process
from raw_client import run

from octopia.transport.settings import BROKER_LINK

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "none")

BROKERS = [f"{region}.{cluster}" for region in "abc" for cluster in range(4)]
SUBSCRIBERS = ["a.0", "c.0", "c.1", "c.2", "a.3"]
PUBLISHER = "b.3"
CAPPED = ["b.0", "b.1"]
WINDOW_MS = 50.0
RATE = "800kbit"
PUBLICATIONS, PER_SECOND, PAYLOAD_BYTES = 1500, 300.0, 1000


def test_a_capped_link_is_seen_as_congested_and_nothing_is_lost(tmp_path: Path):
    run(_run(tmp_path))


async def _run(folder: Path) -> None:
    with Hosts([*BROKERS, "pub", "sub"]) as hosts:
        hosts.cap(PUBLISHER, CAPPED, RATE, "400kb")
        overlay = folder / "overlay.toml"
        overlay.write_text(_overlay_text(hosts))
        processes: list[Process] = []
        try:
            brokers = dict(
                zip(BROKERS, await asyncio.gather(*(_broker(hosts, overlay, b) for b in BROKERS)), strict=True)
            )
            processes += brokers.values()
            await asyncio.gather(*(broker.hear("ready") for broker in brokers.values()))
            urls = [_url(hosts, broker) for broker in SUBSCRIBERS]
            within = hosts.command("sub")
            subscribers = await Process.start("S", "client_process.py", "subscribe", "x > 0", *urls, within=within)
            processes.append(subscribers)
            await subscribers.hear("ready")
            work = (str(PUBLICATIONS), str(PER_SECOND), str(PAYLOAD_BYTES))
            publisher = await Process.start(
                "P",
                "client_process.py",
                "publish",
                "x > 0 AND n >= 0",
                _url(hosts, PUBLISHER),
                *work,
                within=hosts.command("pub"),
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
            received = await subscribers.ask("report", "received")
        finally:
            await asyncio.gather(*(process.stop() for process in processes))

    seen = statuses[PUBLISHER]
    about_a_window = 1.25 * BROKER_LINK.window_bytes
    for number, link in enumerate(CAPPED):
        watched = seen["watched"][link]
        assert watched["seen_after_ms"] is not None, f"the link to {link} was never seen as congested"
        assert watched["seen_after_ms"] <= 5 * WINDOW_MS
        assert BROKER_LINK.window_bytes / 4 < watched["unsent_max"] <= about_a_window
        assert 0 < max(backlog[number] for backlog in backlogs) <= about_a_window
    assert sum(seen["cases"].values()) > 0, "expected publications to be routed around the slow link"
    assert received["numbers"] == [list(range(PUBLICATIONS))] * len(SUBSCRIBERS)
    assert received["doubled"] == [0] * len(SUBSCRIBERS)
    assert {broker: status["dropped"] for broker, status in statuses.items()} == dict.fromkeys(BROKERS, 0)


async def _broker(hosts: Hosts, overlay: Path, broker: str) -> Process:
    watched = CAPPED if broker == PUBLISHER else []
    return await Process.start(
        broker, "broker_process.py", str(overlay), broker, *watched, within=hosts.command(broker)
    )


async def _rest(brokers: dict[str, Process]) -> dict[str, dict[str, object]]:
    """Ask all brokers until none has anything to do."""
    async with asyncio.timeout(30):
        while True:
            answers = await asyncio.gather(*(broker.ask("status", "status") for broker in brokers.values()))
            if not any(answer["unrest"] for answer in answers):
                return dict(zip(brokers, answers, strict=True))


def _url(hosts: Hosts, broker: str) -> str:
    return f"octopia://{hosts.address(broker)}:7400"


def _overlay_text(hosts: Hosts) -> str:
    brokers = "".join(f'[brokers."{each}"]\nhost = "{hosts.address(each)}"\nport = 7400\n' for each in BROKERS)
    return f'tree = "path:3"\nclusters = 4\n{brokers}[routing]\nwindow_ms = {WINDOW_MS}\n'
