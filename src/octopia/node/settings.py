"""The settings of a node."""

from __future__ import annotations

import dataclasses

from octopia.broker import Detail
from octopia.link import LinkSettings
from octopia.settings import KEEP_MAX_S, UNLIMITED, ResourceLimits


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSettings:
    """The settings of a node.

    Links without settings have no session: the driver promises that nothing is lost on them. ``client_queue_limit`` and
    ``client_queue_bytes`` bound the deliveries that wait for one client, and the replies that it may leave
    unacknowledged. Near ``memory_bytes`` (0: no budget) publishing clients get no credit, and beyond it the clients
    that hold most are cut off. A client that lost its connection may return within ``client_grace_ms``, or within the
    time that it has asked for, at most ``client_keep_max_ms``. A driver whose clients are never slow may take entries
    for clients ``whole``; they then wait in no mailbox. A ``spreading`` driver takes deliveries whole while none of its
    clients is paced. A client that exceeds the rates of ``limits`` gets no credit until it is within them again.
    """

    neighbour_links: LinkSettings | None = None
    client_links: LinkSettings | None = None
    client_queue_limit: int = 10_000
    client_queue_bytes: int = 16 * 1024 * 1024
    memory_bytes: int = 0
    client_grace_ms: float = 10_000.0
    client_keep_max_ms: float = KEEP_MAX_S * 1000.0
    whole: bool = False
    spreading: bool = False
    limits: ResourceLimits = UNLIMITED
    detail: Detail = Detail.OFF
