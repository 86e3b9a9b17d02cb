"""Watches: one publication is followed through running brokers, and then brokers are as they were."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from octopia.broker import Detail, Routed
from octopia.client.operators import ask_everyone
from octopia.errors import RequestRefused, UsageError
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Command, Verb
from octopia.runtime import watching
from octopia.runtime.defaults import default_settings
from octopia.runtime.local import Overlay
from octopia.runtime.server import BrokerServer
from octopia.settings import Algorithm, RoutingSettings
from support import at

WORD = b"word"


def with_overlay(algorithm: Algorithm, test: Callable[[Overlay], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Overlay.local("path:2", 2, routing=RoutingSettings(algorithm)) as overlay:
            await test(overlay)

    asyncio.run(run())


def servers(overlay: Overlay) -> list[BrokerServer]:
    return list(overlay._servers.values())


def detail_of(server: BrokerServer) -> Detail:
    return server.broker.state.settings.detail


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_only_the_watched_publication_is_noted_on_its_whole_path(algorithm: Algorithm):
    async def test(overlay: Overlay) -> None:
        async with overlay.connect("a.0") as publisher, overlay.connect("b.1", name="screen") as subscriber:
            await publisher.advertise("x > 0", ordered=True)  # On static paths, however busy the machine.
            subscription = await subscriber.subscribe("x > 0")
            for server in servers(overlay):
                server.watches.begin(WORD, 20.0)
            await publisher.publish_many({"x": x} for x in range(1, 50))
            await publisher.publish({"x": 50}, payload=WORD)
            await publisher.publish_many({"x": x} for x in range(51, 100))
            assert [(await subscription.next(10.0))["x"] for _ in range(99)] == list(range(1, 100))
            seen = {str(server.id): server.watches.steps(WORD) for server in servers(overlay)}
            assert {name: len(steps) for name, steps in seen.items()} == {"a.0": 1, "a.1": 1, "b.0": 0, "b.1": 1}
            assert seen["b.1"][0]["story"] == ["at b.1, from a.1:", "  for screen here"]
            assert len({step["id"] for steps in seen.values() for step in steps}) == 1
            times = [seen[name][0]["at_ms"] for name in ("a.0", "a.1", "b.1")]
            assert times == sorted(times)
            for server in servers(overlay):
                server.watches.end(WORD)
                assert detail_of(server) is Detail.OFF
                assert not server.watches
            await publisher.publish({"x": 100})
            await subscription.next(10.0)
            assert all(server.node.drain_facts() == [] for server in servers(overlay))

    with_overlay(algorithm, test)


def test_a_trace_that_is_recorded_keeps_its_facts_while_there_is_a_watch():
    async def run() -> None:
        described = overlay_from_text("path:1", 2)
        settings = dataclasses.replace(default_settings(described), detail=Detail.ALL)
        async with Overlay(described, settings) as overlay, overlay.connect("a.0") as publisher:
            server = overlay._servers[at("a.0")]
            await publisher.advertise("x > 0")
            subscription = await publisher.subscribe("x > 0")
            server.drain_facts()
            for x in range(1, 7):
                if x == 3:
                    server.watches.begin(WORD, 20.0)
                if x == 5:
                    server.watches.end(WORD)
                await publisher.publish({"x": x}, payload=WORD)
                await subscription.next(10.0)
                if x == 4:
                    assert len(server.watches.steps(WORD)) == 2
            routed = [fact.content.attributes["x"] for fact in server.drain_facts() if isinstance(fact, Routed)]
            assert routed == [1, 2, 3, 4, 5, 6]
            assert server.drain_facts() == []
            assert detail_of(server) is Detail.ALL

    asyncio.run(run())


def test_a_watch_ends_by_itself(monkeypatch: pytest.MonkeyPatch):
    async def test(overlay: Overlay) -> None:
        server = overlay._servers[at("a.0")]
        now_ms = server.now_ms()
        server.watches.begin(WORD, 5.0)
        assert detail_of(server) is Detail.ALL
        monkeypatch.setattr(BrokerServer, "now_ms", lambda _: now_ms + 6_000.0)
        server.watches.look()
        assert detail_of(server) is Detail.OFF
        with pytest.raises(UsageError, match="expected a watched publication"):
            server.watches.steps(WORD)

    with_overlay(Algorithm.ADAPTIVE, test)


def test_watches_are_few_and_short(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "WATCHES_MAX", 2)

    async def test(overlay: Overlay) -> None:
        watches = overlay._servers[at("a.0")].watches
        for seconds in (0.0, -1.0, 31.0, float("nan")):
            with pytest.raises(UsageError, match="expected a watch of at most 30 s"):
                watches.begin(WORD, seconds)
        watches.begin(b"one", 1.0)
        watches.begin(b"two", 1.0)
        with pytest.raises(UsageError, match="expected at most 2 watches at a time"):
            watches.begin(b"three", 1.0)
        watches.end(b"one")
        assert detail_of(overlay._servers[at("a.0")]) is Detail.ALL
        watches.end(b"two")
        assert detail_of(overlay._servers[at("a.0")]) is Detail.OFF

    with_overlay(Algorithm.ADAPTIVE, test)


def test_a_broker_with_too_many_watches_does_not_stop_the_others():
    async def test(overlay: Overlay) -> None:
        busy = overlay._servers[at("a.1")]
        for number in range(watching.WATCHES_MAX):
            busy.watches.begin(b"%d" % number, 20.0)
        entry = overlay._servers[at("a.0")].address
        answers = await ask_everyone(entry, Command(Verb.WATCH, payload=WORD, seconds=20.0))
        assert list(answers.reports) == ["a.0", "b.0", "b.1"]
        assert list(answers.problems) == ["a.1"]
        assert "expected at most" in answers.problems["a.1"]
        with pytest.raises(RequestRefused, match="expected a watch of at most 30 s"):
            await ask_everyone(entry, Command(Verb.WATCH, payload=WORD, seconds=99.0))

    with_overlay(Algorithm.DYNAMIC, test)


def test_tid_has_no_steps_to_watch():
    async def test(overlay: Overlay) -> None:
        with pytest.raises(UsageError, match="got TID-based routing"):
            overlay._servers[at("a.0")].watches.begin(WORD, 1.0)

    with_overlay(Algorithm.TID_STATIC, test)


def test_a_link_that_is_congested_is_named_with_its_queue():
    async def test(overlay: Overlay) -> None:
        async with overlay.connect("a.0") as publisher, overlay.connect("a.1") as subscriber:
            await publisher.advertise("x > 0")
            await subscriber.subscribe("x > 0")
            overlay.throttle("a.0", "a.1", rate=1.0)
            await publisher.publish_many({"x": x} for x in range(1, 30))
            server = overlay._servers[at("a.0")]
            server.watches.begin(WORD, 20.0)
            await publisher.publish({"x": 50}, payload=WORD)
            (step,) = server.watches.steps(WORD)
            assert step["queues"]["a.1"] > 10
            assert any("congested: a.1 (queue" in line for line in step["story"])

    with_overlay(Algorithm.DYNAMIC, test)
