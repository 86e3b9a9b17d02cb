"""The limits of the HTTP port, which bound its cost for a broker."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of the HTTP port.

    A request has no body. ``request_s`` is the time in which it must arrive, and in which its response must be read.
    A feed that has ``backlog_bytes`` unread gets no ticks until it has read them, and is closed after ``stalled_s``.
    """

    header_bytes: int = 16 * 1024
    headers: int = 64
    connections: int = 128
    feeds: int = 32
    request_s: float = 10.0
    idle_s: float = 60.0
    message_bytes: int = 4 * 1024
    backlog_bytes: int = 1024 * 1024
    stalled_s: float = 15.0
    commands_per_second: float = 20.0


LIMITS = HttpLimits()
