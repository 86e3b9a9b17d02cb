"""Snapshots for tests of the HTTP port, without brokers."""

from __future__ import annotations

from typing import Any

from octopia.http.snapshot import Snapshot


def link(**changes: Any) -> dict[str, Any]:
    """Return the report on one direction of a link."""
    plain = {
        "kind": "ilink",
        "up": True,
        "open": True,
        "queue": 0,
        "congested": False,
        "sent": 0,
        "rerouted": 0,
        "congested_ms": 0.0,
        "dropped": 0,
        "cut": False,
        "rate": None,
        "delay_ms": None,
    }
    return plain | changes


def report(name: str, links: dict[str, dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """Return the report of one broker."""
    plain = {
        "id": name,
        "ready": True,
        "routing": "adaptive",
        "algorithms": ["static", "dynamic", "adaptive"],
        "clients": 0,
        "published": 0,
        "delivered": 0,
        "rerouted": 0,
        "stranded": 0,
        "delays": {"counts": [], "sum_ms": 0.0},
        "losses": {},
        "tables": {"clt": 0, "prt": 0, "srt": 0},
        "links": links or {},
    }
    return plain | changes


def snapshot(at_ms: float, *reports: dict[str, Any], **problems: str) -> Snapshot:
    """Return a snapshot of some brokers."""
    return Snapshot(at_ms, {each["id"]: each for each in reports}, problems)
