"""Brokers that are told to stop under load: they drain, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import random

import pytest
from load import Load, some_turns
from raw_client import RawClient, run
from rest import overlay_at_rest

from octopia.protocol import CloseCode
from octopia.protocol.messages import Deliver
from octopia.runtime import server as server_module
from octopia.runtime.local import Overlay
from support import at

VICTIM = "b.0"


@pytest.fixture(autouse=True)
def _all_in_one_process(monkeypatch: pytest.MonkeyPatch):
    """Nobody hears late here."""
    monkeypatch.setattr(server_module, "QUIET_S", 0.2)


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_drains_loses_nothing(seed: int):
    run(_drain(seed))


async def _drain(seed: int) -> None:
    chance = random.Random(seed)
    async with Overlay.local("path:3", 2) as overlay:
        load = await Load.begin(overlay, ["a.0", "c.1", "c.0"], ["c.0", "a.1", "b.1", "a.0"])
        load.publish(300, bytes(1000))
        await some_turns(chance, 20)
        node = overlay._servers.pop(at(VICTIM))
        drained = node.drain()
        load.publish(100, bytes(1000))
        assert await drained
        load.publish(100)
        await node.stop()
        load.publish(100)
        await overlay.restart(VICTIM)
        await overlay_at_rest(overlay, load.clients)
        assert load.got == load.expected()
        links = [link for each in overlay._servers.values() for link in each.node.links.values()]
        assert sum(link.session.dropped_unacknowledged for link in links) == 0


def test_clients_of_a_broker_that_drains_get_all_that_it_has_and_are_told():
    run(_clients())


async def _clients() -> None:
    async with Overlay.local("path:2", 1) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["a.0"])
        subscriber = await RawClient("S").connect(overlay.url(VICTIM))
        await subscriber.subscribe("n >= 0")
        load.publish(500, bytes(1000))
        await subscriber.until(lambda: bool(subscriber.told(Deliver)), "the first delivery")
        node = overlay._servers.pop(at(VICTIM))
        assert await node.drain()
        got = subscriber.got()
        await node.stop()
        await subscriber.until(lambda: subscriber.is_closed, "the end of its connection")
        assert subscriber.close_code is CloseCode.SHUTDOWN
        assert subscriber.got() == got, "all came before the broker said that it had drained"
        (publisher,) = load.publishers
        await publisher.until(lambda: publisher.is_at_rest, "the acceptance of all publications")
        # What the broker did not accept any more waits at its neighbour.
        neighbour = overlay._servers[at("a.0")].broker
        assert len(got) + neighbour.waits_for(at(VICTIM)) + len(neighbour.state.room) == load.published
        assert set(got) == set(range(len(got)))


def test_a_link_that_breaks_while_its_broker_drains_comes_back():
    run(_break_while_draining())


async def _break_while_draining() -> None:
    async with Overlay.local("path:3", 1) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.0", "b.0"])
        overlay.throttle(VICTIM, "c.0", rate=200.0)
        load.publish(150)
        node = overlay._servers[at(VICTIM)]
        [publisher] = load.publishers
        await publisher.until(lambda: publisher.is_at_rest, "acknowledgements")
        source = overlay._servers[at("a.0")]
        await overlay.wait_until(
            lambda: not source.node.links[at(VICTIM)].session.awaits_acknowledgement, "all at the victim"
        )
        assert node.broker.waits_for(at("c.0")) > 20
        drained = asyncio.ensure_future(node.drain())
        for neighbour in ("a.0", "c.0"):
            overlay.cut(VICTIM, neighbour)
        assert await RawClient("late").be_refused(overlay.url(VICTIM)) is CloseCode.SHUTDOWN
        assert await drained
        assert load.got == load.expected()


def test_brokers_that_drain_together_deliver_what_they_have_for_each_other():
    run(_drain_together())


async def _drain_together() -> None:
    async with Overlay.local("path:3", 2) as overlay:
        load = await Load.begin(overlay, ["a.0", "c.1"], ["c.0", "a.1", "b.1"])
        for source, target in (("a.0", "b.0"), ("b.0", "c.0"), ("a.0", "a.1")):
            overlay.throttle(source, target, rate=300.0)
        load.publish(150)
        for publisher in load.publishers:
            await publisher.until(lambda publisher=publisher: publisher.is_at_rest, "acknowledgements")
        nodes = list(overlay._servers.values())
        assert sum(node.broker.waits_for(peer) for node in nodes for peer in node.node.links) > 20
        for node in nodes:
            node.begin_to_drain(list(overlay._servers))
        assert await server_module.all_at_rest(nodes, 10.0)
        assert load.got == load.expected()
