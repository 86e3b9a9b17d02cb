"""An overlay in its own processes, on free ports of this machine, for the duration of a measurement."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import socket
import sys
import time
from collections.abc import Collection, Iterator

from octopia.addresses import Address
from octopia.client.urls import url_of
from octopia.errors import Unavailable, UsageError
from octopia.ids import BrokerId
from octopia.overlay.files import Overlay
from octopia.runtime.process import Workers

READY_S = 60.0
"""The time in which an overlay must be ready."""
PORTS = range(12_000, 32_000)
"""The ports on which brokers may listen; the system uses higher ones for outgoing connections."""


def free_addresses(count: int) -> list[Address]:
    """Return unused addresses on this machine."""
    chosen: list[Address] = []
    for port in random.sample(PORTS, len(PORTS)):
        if len(chosen) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            chosen.append(Address("127.0.0.1", port))
    return chosen


def at_free_addresses(overlay: Overlay) -> Overlay:
    """Return the overlay with unused addresses for its brokers."""
    brokers = overlay.scot.brokers
    free = [dataclasses.replace(each, speaks_tls=overlay.security.has_tls) for each in free_addresses(len(brokers))]
    return dataclasses.replace(overlay, addresses=dict(zip(brokers, free, strict=True)))


@contextlib.contextmanager
def running(overlay: Overlay, processes: int, alone: Collection[BrokerId] = ()) -> Iterator[Workers]:
    """Run the brokers of an overlay at their addresses, wait until they are ready, and stop them after the block.

    Each broker in ``alone`` has its own process.
    """
    workers = Workers(overlay, processes, alone=alone)
    try:
        deadline = time.monotonic() + READY_S
        while not workers.is_ready():
            if time.monotonic() > deadline:
                raise Unavailable(f"the brokers of {overlay.name} are not ready after {READY_S:g} s")
            workers.wait(deadline - time.monotonic())
        yield workers
    finally:
        workers.stop()


def urls_of(overlay: Overlay) -> list[str]:
    """Return the URLs of the brokers, in order of their ids."""
    return [url_of(overlay.addresses[broker], str(broker)) for broker in overlay.scot.brokers]


def cpu_s_of(pid: int) -> float:
    """Return the CPU time of another process: Linux has a clock per process, with a number made from its id."""
    if sys.platform != "linux":
        raise UsageError(f"expected Linux, which reports the CPU time of other processes, got {sys.platform}")
    return time.clock_gettime((~pid << 3) | 2)


def percentile(values: list[float], share: float) -> float:
    """Return a percentile of values; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))] if ordered else 0.0
