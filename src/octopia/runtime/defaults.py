"""The settings of brokers on the network, and the number of each start."""

from __future__ import annotations

import os
import time

from octopia.algorithms import hop_limit_of
from octopia.broker import BrokerSettings
from octopia.errors import InvalidOverlay
from octopia.ids import BrokerId
from octopia.node import NodeSettings
from octopia.overlay.files import Overlay
from octopia.transport.settings import BROKER_LINK, CLIENT_LINK, DELAY_LIMIT_MS

QUEUE_CAPACITY = 4096
"""The number of publications of a class that wait for a neighbour before senders have to wait."""
QUEUE_CAPACITY_BYTES = 4 * 1024 * 1024
"""The size of the publications of a class that wait for a neighbour before senders have to wait."""
MEMORY_SHARE = 0.25
"""The share of the machine's memory that the brokers of one process may fill with waiting publications."""


def default_settings(overlay: Overlay) -> BrokerSettings:
    """Return the settings of brokers on the network: queues are bounded, and no path is longer than the overlay's."""
    algorithm = overlay.routing.algorithm
    # TID-based routing has no classes, and could deadlock.
    capacity = 0 if algorithm.is_tid else QUEUE_CAPACITY
    hop_limit, capacity_bytes = hop_limit_of(overlay.scot, algorithm), QUEUE_CAPACITY_BYTES if capacity else 0
    return BrokerSettings(
        overlay.routing, hop_limit, capacity, capacity_bytes, ack_ms=BROKER_LINK.ack_ms, limits=overlay.limits
    )


NODE_SETTINGS = NodeSettings(BROKER_LINK, CLIENT_LINK)
"""The settings of nodes on the network."""


def check_delays(overlay: Overlay, broker: BrokerId) -> None:
    """Raise InvalidOverlay if a link of a broker is slower than links on the network may be."""
    for (source, target), shape in overlay.shapes.items():
        if source == broker and (shape.delay_ms or 0.0) >= DELAY_LIMIT_MS:
            raise InvalidOverlay(
                f"expected a delay below {DELAY_LIMIT_MS:g} ms from {source} to {target}, got {shape.delay_ms:g}: "
                "on the network a link that is silent for longer counts as broken"
            )


def memory_budget(brokers: int) -> int:
    """Return the memory budget in bytes of each broker in a process that runs this many."""
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(machine_bytes * MEMORY_SHARE / max(1, brokers))


def new_incarnation() -> int:
    """Return a number that grows with every start, without any memory of earlier ones."""
    return time.time_ns() // 1_000_000
