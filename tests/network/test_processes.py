"""``octopia broker`` as people run it: killed, it comes back with full tables; told to stop, it drains without loss."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from load import OFFER
from processes import free_ports
from raw_client import RawClient, run

from octopia.addresses import Address
from octopia.client.operators import ask
from octopia.errors import NetworkError
from octopia.overlay.files import load_overlay
from octopia.protocol import Command, Verb

COMMAND = [sys.executable, "-c", "from octopia.cli import main; main()", "broker"]
REGIONS = "abc"
CLUSTERS = 2


class Machines:
    """A process for each region, with its brokers of all clusters."""

    def __init__(self, path: Path):
        ports = free_ports(len(REGIONS) * CLUSTERS)
        names = [f"{region}.{cluster}" for region in REGIONS for cluster in range(CLUSTERS)]
        places = "".join(f'[brokers."{name}"]\nport = {port}\n' for name, port in zip(names, ports, strict=True))
        path.write_text(f'tree = "path:3"\nclusters = {CLUSTERS}\n{places}')
        self._path = path
        self.addresses = {str(broker): address for broker, address in load_overlay(path).addresses.items()}
        self.processes: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, *regions: str) -> None:
        """Start processes, and wait until all brokers are ready."""
        for region in regions:
            brokers = [name for name in self.addresses if name.startswith(region)]
            self.processes[region] = await asyncio.create_subprocess_exec(
                *COMMAND, str(self._path), *brokers, stderr=asyncio.subprocess.PIPE
            )
        for region in regions:
            stderr = self.processes[region].stderr
            assert stderr is not None
            assert b"listens at" in await stderr.readline()
        async with asyncio.timeout(20):
            while not await self._are_ready():
                pass

    async def end(self, region: str, how: signal.Signals) -> tuple[int, str]:
        """Send a signal to a process, and return its exit code and what it said last."""
        process = self.processes.pop(region)
        process.send_signal(how)
        _, said = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def report(self, broker: str) -> dict[str, Any]:
        """Ask a broker how it is."""
        [report] = await ask(self.addresses[broker], Command(Verb.REPORT))
        return report

    def url(self, broker: str) -> str:
        """Return where clients reach a broker."""
        address: Address = self.addresses[broker]
        return f"octopia://{address}"

    async def _are_ready(self) -> bool:
        try:
            reports = [await self.report(broker) for broker in self.addresses]
        except NetworkError:
            return False
        return all(each["ready"] and all(link["up"] for link in each["links"].values()) for each in reports)


def test_processes_that_are_killed_and_told_to_stop(tmp_path: Path):
    run(_kill_and_stop(tmp_path))


async def _kill_and_stop(folder: Path) -> None:
    machines = Machines(folder / "overlay.toml")
    try:
        await machines.start(*REGIONS)
        subscribers = [await RawClient(f"S{broker}").connect(machines.url(broker)) for broker in ("c.0", "c.1", "a.1")]
        publisher = await RawClient("P").connect(machines.url("a.0"))
        for subscriber in subscribers:
            await subscriber.subscribe("n >= 0")
        await publisher.advertise(OFFER)
        tables = {broker: (await machines.report(broker))["tables"] for broker in ("b.0", "b.1")}
        assert tables["b.0"]["prt"] == 1
        assert tables["b.1"]["prt"] == 2

        code, _ = await machines.end("b", signal.SIGKILL)
        assert code == -signal.SIGKILL
        await machines.start("b")
        assert {broker: (await machines.report(broker))["tables"] for broker in tables} == tables

        _publish(publisher, 0, 1000)
        await subscribers[0].until(lambda: len(subscribers[0].deliveries) > 10, "deliveries")
        code, said = await machines.end("b", signal.SIGTERM)
        assert (code, "drained" in said) == (0, True), said
        _publish(publisher, 1000, 1100)
        await machines.start("b")
        everything = dict.fromkeys(range(1100), 1)
        for subscriber in subscribers:
            try:
                await subscriber.until(lambda s=subscriber: len(s.deliveries) >= 1100, "all publications")
            except AssertionError:
                reports = [await machines.report(broker) for broker in machines.addresses]
                missing = sorted(set(everything) - set(subscriber.got()))
                pytest.fail(f"{subscriber.name} misses {missing}; brokers report {reports}")
            assert subscriber.got() == everything
        for broker in ("a.0", "a.1", "c.0", "c.1"):
            links = (await machines.report(broker))["links"]
            assert {peer: link["dropped"] for peer, link in links.items()} == dict.fromkeys(links, 0)
    finally:
        for region in list(machines.processes):
            await machines.end(region, signal.SIGKILL)


def _publish(publisher: RawClient, first: int, end: int) -> None:
    for number in range(first, end):
        publisher.publish(number, bytes(500), n=number, even=True)
