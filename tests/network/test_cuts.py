"""Connections that break under load: every accepted publication arrives once at everybody who wants it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest
from load import Load, some_turns
from raw_client import run
from rest import overlay_at_rest

from octopia.broker import BrokerSettings
from octopia.overlay.files import overlay_from_text
from octopia.runtime.defaults import NODE_SETTINGS
from octopia.runtime.local import Overlay
from octopia.settings import Algorithm, RoutingSettings
from support import at

PER_CUT = 30


async def _cut_brokers(
    cuts: int, seed: int, algorithm: Algorithm, capacity: int = 0, slow: Sequence[tuple[str, str]] = ()
) -> None:
    chance = random.Random(seed)
    settings = BrokerSettings(RoutingSettings(algorithm), queue_capacity=capacity)
    async with Overlay(overlay_from_text("path:3", 3), settings) as overlay:
        for source, target in slow:
            overlay.throttle(source, target, rate=300.0, delay_ms=5.0)
        load = await Load.begin(overlay, ["a.0", "b.1", "c.2"], ["a.2", "b.0", "c.0", "c.1", "a.1"])
        links = [(low, high) for low, node in overlay._servers.items() for high in node.node.links if low < high]
        lost = 0
        for _ in range(cuts):
            load.publish(PER_CUT, bytes(chance.randrange(2000)))
            await some_turns(chance)
            low, high = chance.choice(links)
            ends = (low, high) if chance.random() < 0.5 else (high, low)
            lost += overlay._servers[low].node.links[high].is_up
            overlay.cut(*map(str, ends))
            if chance.random() < 0.5:
                await overlay.wait_until(overlay.is_ready, "the link to come back")
        await overlay_at_rest(overlay, load.clients)
        assert lost > cuts / 2, "expected most cuts to break a link that was up"
        assert load.got == load.expected()
        dropped = [
            link.session.dropped_unacknowledged
            for node in overlay._servers.values()
            for link in node.node.links.values()
        ]
        assert not any(dropped)
        load.leave()


async def _cut_clients(cuts: int, seed: int) -> None:
    chance = random.Random(seed)
    async with Overlay.local("path:2", 2) as overlay:
        load = await Load.begin(overlay, ["a.0", "b.1"], ["a.1", "b.0", "b.1", "a.0"])
        for _ in range(cuts):
            load.publish(PER_CUT, bytes(chance.randrange(2000)))
            await some_turns(chance)
            client = chance.choice(load.clients)
            if chance.random() < 0.7:
                client.cut()
                load.publish(PER_CUT)
                await some_turns(chance)
                await client.come_back()
            else:
                await client.move()
        await overlay_at_rest(overlay, load.clients)
        assert load.got == load.expected()
        load.leave()


async def _stay_away() -> None:
    settings = dataclasses.replace(NODE_SETTINGS, client_grace_ms=100.0)
    async with Overlay(overlay_from_text("path:2", 1), node_settings=settings) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["b.0"])
        [subscriber] = load.subscribers
        node = overlay._servers[at("b.0")]
        subscriber.cut()
        await overlay.wait_until(lambda: not node.node.clients, "the end of the grace")
        await overlay_at_rest(overlay)
        assert [each.broker.table_sizes()["prt"] for each in overlay._servers.values()] == [0, 0]
        known = subscriber.session.peer_incarnation
        await subscriber.come_back()
        assert subscriber.session.peer_incarnation > known, "it learns that it was forgotten"
        load.publish(10)
        await overlay_at_rest(overlay, load.clients)
        assert subscriber.deliveries == []


def test_a_client_that_stays_away_too_long_is_forgotten():
    run(_stay_away())


@pytest.mark.parametrize("algorithm", [Algorithm.DYNAMIC, Algorithm.STATIC, Algorithm.TID_STATIC])
def test_ten_cuts_between_brokers(algorithm: Algorithm):
    run(_cut_brokers(10, 1, algorithm))


@pytest.mark.parametrize("algorithm", [Algorithm.DYNAMIC, Algorithm.STATIC])
def test_ten_cuts_between_brokers_with_short_queues_and_slow_links(algorithm: Algorithm):
    slow = [("a.0", "a.1"), ("b.0", "c.0"), ("b.2", "b.1"), ("b.1", "b.0")]
    run(_cut_brokers(10, 4, algorithm, capacity=5, slow=slow))


def test_ten_cuts_of_clients():
    run(_cut_clients(10, 2))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_two_hundred_cuts_between_brokers(seed: int):
    run(_cut_brokers(200, seed, Algorithm.DYNAMIC))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2))
def test_two_hundred_cuts_between_brokers_with_short_queues(seed: int):
    run(_cut_brokers(200, seed, Algorithm.DYNAMIC, capacity=3))


@pytest.mark.soak
def test_two_hundred_cuts_of_clients():
    run(_cut_clients(200, 3))
