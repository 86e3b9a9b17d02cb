"""An overlay in processes of its own, on free ports of this machine, for as long as something is measured."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import socket
import sys
import time
from collections.abc import Iterator

from octopia.errors import Unavailable, UsageError
from octopia.overlay.files import Address, Overlay
from octopia.runtime.process import Workers

READY_S = 60.0
"""How long an overlay may take to be ready."""
POLL_S = 0.01
PORTS = range(12_000, 32_000)
"""Where brokers may listen; the system gives higher ones to those who dial."""


def free_addresses(count: int) -> list[Address]:
    """Return addresses on this machine at which nobody listens."""
    chosen: list[Address] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(chosen) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            chosen.append(Address("127.0.0.1", port))
    return chosen


def at_free_addresses(overlay: Overlay) -> Overlay:
    """Return an overlay whose brokers listen where nobody does."""
    brokers = overlay.scot.brokers
    return dataclasses.replace(overlay, addresses=dict(zip(brokers, free_addresses(len(brokers)), strict=True)))


@contextlib.contextmanager
def running(overlay: Overlay, processes: int) -> Iterator[Workers]:
    """Run the brokers of an overlay at their addresses, from when they are ready until the block is left."""
    workers = Workers(overlay, processes)
    try:
        deadline = time.monotonic() + READY_S
        while not workers.is_ready():
            if time.monotonic() > deadline:
                raise Unavailable(f"the brokers of {overlay.name} are not ready after {READY_S:g} s")
            time.sleep(POLL_S)
        yield workers
    finally:
        workers.stop()


def urls_of(overlay: Overlay) -> list[str]:
    """Return where clients reach the brokers, in order of their ids."""
    return [f"octopia://{overlay.addresses[broker]}/{broker}" for broker in overlay.scot.brokers]


def cpu_s_of(pid: int) -> float:
    """Return the processor time of another process: Linux has a clock for each, whose number is made of its id."""
    if sys.platform != "linux":
        raise UsageError(f"expected Linux, which tells the processor time of other processes, got {sys.platform}")
    return time.clock_gettime((~pid << 3) | 2)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which that percentage of values is; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))] if ordered else 0.0
