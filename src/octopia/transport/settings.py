"""How links over TCP behave."""

from __future__ import annotations

from octopia.link import LinkSettings

BROKER_LINK = LinkSettings()
"""Between brokers: silence is noticed within two seconds."""

CLIENT_LINK = LinkSettings(heartbeat_ms=5_000.0, suspicion_ms=20_000.0)
"""Between a client and its host broker; there may be very many."""

DELAY_LIMIT_MS = BROKER_LINK.suspicion_ms / 2
"""Links between brokers may be held back by less than that: heartbeats are, too, and silence is noticed."""
