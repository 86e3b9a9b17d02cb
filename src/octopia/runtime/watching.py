"""Watches: an operator follows one publication through the brokers, and other publications are not affected.

A watch knows its publication by the payload, a random word. While it lasts, the broker traces every routing step, which
costs time; so it ends by itself after at most ``SECONDS_MAX``. If a trace is recorded at the same time, its recorder
gets all facts as well, with more detail while the watch lasts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from octopia.algorithms import trace_at
from octopia.broker import Detail, Fact, OctopiaBroker, Routed
from octopia.broker.story import observe, tell_step
from octopia.errors import UsageError
from octopia.ids import AdvertisementId, SubscriptionId

if TYPE_CHECKING:
    from octopia.runtime.server import BrokerServer

SECONDS_MAX = 30.0
WATCHES_MAX = 8
_STEPS_MAX = 1_000


class Watches:
    """The watches of one broker, by the payload of their publications."""

    def __init__(self, server: BrokerServer):
        self._server = server
        self._ends_ms: dict[bytes, float] = {}
        self._steps: dict[bytes, list[dict[str, Any]]] = {}
        self._before = Detail.OFF
        self._seen: list[Fact | Routed] = []

    def __bool__(self) -> bool:
        return bool(self._ends_ms)

    def begin(self, payload: bytes, seconds: float) -> None:
        """Watch for a publication."""
        server = self._server
        if not isinstance(server.broker, OctopiaBroker):
            raise UsageError(
                "expected static, dynamic or adaptive routing, whose steps are traced, got TID-based routing"
            )
        if not 0.0 < seconds <= SECONDS_MAX:
            raise UsageError(f"expected a watch of at most {SECONDS_MAX:g} s, got {seconds:g}")
        self.end_late()
        if len(self._ends_ms) >= WATCHES_MAX:
            raise UsageError(f"expected at most {WATCHES_MAX} watches at a time, got one more: try again later")
        if not self._ends_ms:
            self._before = trace_at(server.broker, Detail.ALL)
            self._drain()  # What came before is for the recorder only.
        self._ends_ms[payload] = server.now_ms() + seconds * 1000.0
        self._steps[payload] = []

    def steps(self, payload: bytes) -> list[dict[str, Any]]:
        """Return the routing steps of a watched publication so far."""
        if payload not in self._steps:
            raise UsageError("expected a watched publication, got one that is not watched, or no longer")
        return self._steps[payload]

    def end(self, payload: bytes) -> None:
        """End a watch."""
        self._steps.pop(payload, None)
        if self._ends_ms.pop(payload, None) is not None and not self._ends_ms:
            trace_at(self._server.broker, self._before)
            self._drain()

    def end_late(self) -> None:
        """End the watches whose time is over."""
        now_ms = self._server.now_ms()
        for payload in [each for each, end_ms in self._ends_ms.items() if now_ms >= end_ms]:
            self.end(payload)

    def look(self) -> None:
        """Note the routing steps of watched publications since the last call."""
        server = self._server
        facts, now_ms = self._drain(), time.time() * 1000.0
        for fact in facts:
            steps = self._steps.get(fact.content.payload) if isinstance(fact, Routed) else None
            if steps is not None and len(steps) < _STEPS_MAX:
                assert isinstance(fact, Routed)
                assert isinstance(server.broker, OctopiaBroker)
                story = list(tell_step(observe(server.broker, fact), self._name_of))
                queues = {str(view.link): view.queue_length for view in fact.links}
                steps.append({"at_ms": now_ms, "id": str(fact.publication), "story": story, "queues": queues})
        self.end_late()

    def take_seen(self) -> list[Fact | Routed]:
        """Remove and return the facts that a watch has seen before the recorder of a trace."""
        seen, self._seen = self._seen, []
        return seen

    def _drain(self) -> list[Fact | Routed]:
        """Return the facts since the last call, and keep them if a trace was recorded before the watch began."""
        facts = self._server.node.drain_facts()
        if self._before is not Detail.OFF:
            self._seen += facts
        return facts

    def _name_of(self, issued: AdvertisementId | SubscriptionId) -> str:
        """Return the client of a subscription if it is a client of this broker, otherwise the id."""
        broker = self._server.broker
        if isinstance(issued, SubscriptionId) and isinstance(broker, OctopiaBroker):
            known = broker.state.subscribers.get(issued)
            if known is not None:
                return known.client.name
        return str(issued)
