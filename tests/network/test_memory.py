"""Memory under attack: clients that ignore their credit, and subscribers that stop reading large publications."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from raw_client import RawClient, run
from rest import overlay_at_rest

from octopia.broker import BrokerSettings
from octopia.content import Publication
from octopia.overlay.files import overlay_from_text
from octopia.protocol import CloseCode, Frame, Overflow
from octopia.protocol.messages import CutOff, Lost, PublishRequest
from octopia.runtime.defaults import NODE_SETTINGS
from octopia.runtime.local import Overlay
from octopia.runtime.operating import report_on
from support import at, turn

LARGE = bytes(100_000)
LIMIT_BYTES = 1_000_000
SMALL_MEMORY = dataclasses.replace(NODE_SETTINGS, client_queue_bytes=LIMIT_BYTES)


def test_a_client_that_ignores_its_credit_is_disconnected():
    run(_ignore_credit())


async def _ignore_credit() -> None:
    settings = BrokerSettings(queue_capacity=1)
    async with Overlay(overlay_from_text("path:2", 1), settings) as overlay:
        subscriber = await RawClient("S").connect(overlay.url("b.0"))
        await subscriber.subscribe("x > 0")
        publisher = await RawClient("P").connect(overlay.url("a.0"))
        await publisher.advertise("x > 0")
        overlay.throttle("a.0", "b.0", rate=1.0)
        node = overlay._servers[at("a.0")].node
        sequence = publisher.session.last_sequence
        frames = [
            Frame(sequence + n, PublishRequest(n, Publication({"x": n}, bytes(10_000)), 0.0)) for n in range(1, 200)
        ]
        publisher.connection.send(frames)
        await publisher.until(lambda: publisher.is_closed, "the end of its connection")
        assert publisher.close_code is CloseCode.VIOLATION
        assert "credit of 65536 bytes" in str(publisher.closed_because)
        waiting = [frame for known in node.broker.state.inputs.values() for frame in known.waiting]
        assert sum(frame.size_bytes for frame in waiting) <= 65_536 + 10_100, "the window, and one frame"
        overlay.throttle("a.0", "b.0", rate=0.0)
        await overlay_at_rest(overlay, [subscriber])


@pytest.mark.parametrize("overflow", list(Overflow))
def test_what_waits_for_a_subscriber_is_bounded_in_bytes(overflow: Overflow):
    run(_stop_reading(overflow))


async def _stop_reading(overflow: Overflow) -> None:
    async with Overlay(overlay_from_text("path:1", 1), node_settings=SMALL_MEMORY) as overlay:
        slow = await RawClient("slow", overflow).connect(overlay.url("a.0"))
        await slow.subscribe("x > 0")
        publisher = await RawClient("P").connect(overlay.url("a.0"))
        await publisher.advertise("x > 0")
        slow.stop_reading()
        node = overlay._servers[at("a.0")].node
        most = 0
        for n in range(1, 201):
            publisher.publish(n, LARGE, x=n)
            await publisher.until(lambda: publisher.is_at_rest, "credit")
            most = max(most, node.held_bytes)
        assert node.lost_by_slow_clients > (100 if overflow is Overflow.DROP_OLDEST else 5)
        assert most < 2 * LIMIT_BYTES + 2 * len(LARGE), "what waits, and what was written and not acknowledged"
        slow.go_on_reading()
        told = CutOff if overflow is Overflow.DISCONNECT else Lost
        await slow.until(lambda: bool(slow.told(told)), "a word about what it lost")


def test_near_its_budget_a_broker_gives_publishers_no_credit_and_then_lets_the_largest_go():
    run(_keep_to_the_budget())


async def _keep_to_the_budget() -> None:
    settings = dataclasses.replace(NODE_SETTINGS, memory_bytes=2_000_000)
    async with Overlay(overlay_from_text("path:1", 1), node_settings=settings) as overlay:
        node = overlay._servers[at("a.0")].node
        publisher = await RawClient("P").connect(overlay.url("a.0"))
        await publisher.advertise("x > 0")
        greedy = await RawClient("greedy").connect(overlay.url("a.0"))
        modest = await RawClient("modest").connect(overlay.url("a.0"))
        await greedy.subscribe("x > 0")
        await modest.subscribe("x = 1")
        for slow in (greedy, modest):
            slow.stop_reading()
        most, n = 0, 0
        async with asyncio.timeout(30):
            while node.client_named("greedy") is not None:
                if publisher.is_at_rest:
                    n += 1
                    publisher.publish(n, LARGE, x=n)
                await turn()
                most = max(most, node.held_bytes)
        assert most < 2_000_000 * 1.2
        assert node.client_named("modest") is not None, "others do not notice"
        for slow in (greedy, modest):
            slow.go_on_reading()
        await publisher.until(lambda: publisher.is_at_rest, "credit again")


def test_the_budget_of_an_overlay_file_is_used_and_reported():
    async def check() -> None:
        overlay = overlay_from_text("path:1", 1)
        limits = dataclasses.replace(overlay.limits, memory_bytes=12_345_678)
        async with Overlay(dataclasses.replace(overlay, limits=limits)) as running:
            server = running._servers[at("a.0")]
            assert server.node._settings.memory_bytes == 12_345_678
            assert report_on(server)["limits"]["memory_bytes"] == {"limit": 12_345_678, "used": 0, "reached": 0}

    run(check())
