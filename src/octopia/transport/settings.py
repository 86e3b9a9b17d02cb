"""Settings of links over TCP."""

from __future__ import annotations

from octopia.link import LinkSettings

BROKER_LINK = LinkSettings(fences=True, ack_ms=5.0)
"""Links between brokers: silence is detected within two seconds."""

CLIENT_LINK = LinkSettings(heartbeat_ms=5_000.0, suspicion_ms=20_000.0, ack_ms=10.0)
"""Links between a client and its host broker; there may be very many."""

DELAY_LIMIT_MS = BROKER_LINK.suspicion_ms / 2
"""The limit on the delay of a link between brokers: heartbeats are delayed too, and must not look like silence."""
