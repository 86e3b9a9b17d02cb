"""Brokers that are told to stop under load: they drain, and nothing that was accepted is lost."""

from __future__ import annotations

import random

import pytest
from load import Load, some_turns
from raw_client import RawClient, run
from rest import overlay_at_rest

from octopia.broker.messages import Deliver
from octopia.runtime.local import Overlay
from octopia.wire import CloseCode
from support import at

VICTIM = "b.0"


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_that_drains_loses_nothing(seed: int):
    run(_drain(seed))


async def _drain(seed: int) -> None:
    chance = random.Random(seed)
    async with Overlay.local("path:3", 2) as overlay:
        load = await Load.begin(overlay, ["a.0", "c.1", "c.0"], ["c.0", "a.1", "b.1", "a.0"])
        load.publish(300, bytes(1000))
        await some_turns(chance, 20)
        node = overlay.nodes.pop(at(VICTIM))
        drained = node.drain()
        load.publish(100, bytes(1000))
        assert await drained
        load.publish(100)
        await node.stop()
        load.publish(100)
        await overlay.restart(VICTIM)
        await overlay_at_rest(overlay, load.clients)
        assert load.got == load.expected()
        links = [link for each in overlay.nodes.values() for link in each.links.values()]
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
        node = overlay.nodes.pop(at(VICTIM))
        assert await node.drain()
        got = subscriber.got()
        await node.stop()
        await subscriber.until(lambda: subscriber.is_closed, "the end of its connection")
        assert subscriber.close_code is CloseCode.SHUTDOWN
        assert subscriber.got() == got, "all came before the broker said that it had drained"
        # What the broker did not accept any more waits at its neighbour.
        waiting = overlay.nodes[at("a.0")].broker.waits_for(at(VICTIM))
        assert len(got) + waiting == load.published
        assert set(got) == set(range(len(got)))
