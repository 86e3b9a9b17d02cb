"""The shares of packages in the CPU time of a broker, for benchmarks/network.py."""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from network_lines import clients, everything, wait_for
from network_processes import Child, Ears
from octopia.experiments.local_overlay import at_free_addresses
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.runtime.process import run_brokers

PACKAGES = {
    "wire": "wire",
    "link": "session",
    "matching": "matching",
    "content": "matching",
    "broker": "broker",
    "node": "node",
    "protocol": "wire",
    "runtime": "runtime and transport",
    "transport": "runtime and transport",
}
OUTSIDE = "event loop and kernel"


def measure_packages(interests: list[list[str]], publications: int) -> list[dict[str, Any]]:
    """Return the share of each package in a broker's CPU time, by a profile."""
    overlay = at_free_addresses(overlay_from_text("path:1", 1))
    address = overlay.addresses[overlay.scot.brokers[0]]
    with contextlib.ExitStack() as stack:
        broker = Child("broker", run_profiled, overlay)
        stack.callback(broker.end)
        broker.hear()
        wait_for(address)
        line = stack.enter_context(clients(address, address, [broker.pid], interests, everything, True))
        line.run(max(100, publications // 10))
        broker.tell("begin")
        broker.hear()
        line.run(publications)
        broker.tell("end")
        shares = shares_of(*broker.hear())
    return [{"package": name, "share": share} for name, share in shares.items()]


def shares_of(stats: dict[Any, Any], total_s: float) -> dict[str, float]:
    """Sum up a profile by package; built-in functions count for their callers."""
    seconds = dict.fromkeys([*PACKAGES.values(), OUTSIDE], 0.0)
    for (file, _, _), (_, _, own_s, _, callers) in stats.items():
        if file != "~":
            seconds[package_of(file)] += own_s
            continue
        for (caller, _, _), called in callers.items():
            seconds[package_of(caller)] += called[2]
    seconds[OUTSIDE] += max(0.0, total_s - sum(seconds.values()))
    whole = sum(seconds.values())
    return {name: own_s / whole for name, own_s in sorted(seconds.items(), key=lambda each: -each[1])}


def package_of(file: str) -> str:
    """Return the package that a file belongs to."""
    parts = Path(file).parts
    if "octopia" not in parts[:-1]:
        return OUTSIDE
    return PACKAGES.get(parts[len(parts) - parts[::-1].index("octopia")], OUTSIDE)


async def run_profiled(pipe: Pipe, overlay: Overlay) -> None:
    """Run all brokers; profile them between two commands."""
    ears, profile = Ears(pipe), cProfile.Profile(time.process_time)
    brokers = asyncio.create_task(run_brokers(overlay, list(overlay.scot.brokers)))
    pipe.send("ready")
    await ears.next()
    begin = time.process_time()
    profile.enable()
    pipe.send("profiling")
    await ears.next()
    profile.disable()
    took = time.process_time() - begin
    profile.create_stats()
    pipe.send((profile.stats, took))
    await brokers
