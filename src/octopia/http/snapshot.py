"""The state of an overlay, or of a part of it, at one moment: the reports of its brokers."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from octopia.overlay.files import Overlay
from octopia.protocol import Command

NOT_RUNNING = "not running"
"""The problem of a broker of which nothing else is known."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """The reports of brokers that answered, and the reasons of the others; ``at_ms`` is in ms since 1970."""

    at_ms: float
    reports: dict[str, dict[str, Any]]
    problems: dict[str, str]

    @property
    def links(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The reports on all directions of links, by their two ends."""
        return {
            (broker, peer): link for broker, report in self.reports.items() for peer, link in report["links"].items()
        }


class Source(Protocol):
    """The brokers that a port shows."""

    @property
    def overlay(self) -> Overlay:
        """The overlay that they belong to."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers that it can ask."""

    async def snapshot(self) -> Snapshot:
        """Return the state of all brokers."""

    async def ask(self, broker: str, command: Command) -> dict[str, Any]:
        """Send a command to a broker, and return its answer; raise OctopiaError if it refuses or does not answer."""

    def close(self) -> None:
        """Close all connections."""
