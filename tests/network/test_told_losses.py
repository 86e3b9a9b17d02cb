"""Over sockets: a subscriber that was told nothing has missed nothing, and an orderly stop worries nobody."""

from __future__ import annotations

import logging
import random

import pytest
from load import Load, some_turns
from raw_client import RawClient, run
from rest import overlay_at_rest

from octopia.broker import BrokerSettings
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Cause
from octopia.protocol.messages import Gap
from octopia.runtime import server as server_module
from octopia.runtime.local import Overlay
from octopia.runtime.operating import report_on
from octopia.settings import PAPER_ROUTING
from support import at

VICTIM = "b.0"


def causes(client: RawClient) -> set[Cause]:
    """Return the causes of which a client was told."""
    return {each.cause for each in client.told(Gap)}


def expect_every_loss_to_be_told(load: Load) -> int:
    """Check that nothing came twice and that whoever missed something was told; return the number of losses."""
    lost = 0
    for subscriber in load.subscribers:
        got, wanted = subscriber.got(), load.expected()[subscriber.name]
        assert not got - wanted, "something came twice, or to the wrong client"
        missing = wanted - got
        lost += missing.total()
        assert not missing or causes(subscriber), f"{subscriber.name} missed {missing.total()} and was told nothing"
    return lost


@pytest.mark.parametrize("seed", range(3))
def test_a_congested_inner_broker_that_dies(seed: int):
    run(_kill_congested(seed))


async def _kill_congested(seed: int) -> None:
    chance = random.Random(seed)
    async with Overlay.local("path:3", 2, routing=PAPER_ROUTING) as overlay:
        load = await Load.begin(overlay, ["a.0", "a.1"], ["c.0", "b.1", "c.1", "a.0"])
        overlay.throttle(VICTIM, "c.0", rate=20)
        load.publish(300)
        await overlay.wait_until(lambda: overlay._servers[at(VICTIM)].broker.waits_for(at("c.0")) > 50, "a queue")
        await some_turns(chance)
        overlay.crash(VICTIM)
        load.publish(30)
        await some_turns(chance, 40)
        await overlay.restart(VICTIM)
        await overlay_at_rest(overlay, load.clients)
        assert expect_every_loss_to_be_told(load) > 50
        assert Cause.RESTART in causes(load.subscribers[0])


def test_an_inner_broker_that_is_down_for_longer_than_publications_wait(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "octopia"):
        run(_down_for_long())
    lines = [line for line in caplog.messages if "event=publications_lost" in line and "cause=link_down" in line]
    assert any(line.endswith("broker=a.0 cause=link_down neighbour=b.0 count=40") for line in lines), lines
    assert len(lines) < 10, "one line per burst, not per publication"


async def _down_for_long() -> None:
    overlay_file = overlay_from_text("path:3", 2)
    async with Overlay(overlay_file, BrokerSettings(PAPER_ROUTING, down_limit_ms=300.0)) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.0", "b.1", "a.0"])
        overlay.crash(VICTIM)
        host = overlay._servers[at("a.0")].broker
        await overlay.wait_until(lambda: at(VICTIM) in host.state.down, "the loss of the broker")
        load.publish(40)
        far = load.subscribers[0]
        # The broker's other neighbours tell their side that it is gone, so nobody has to wait for its return.
        await far.until(lambda: Cause.LINK_DOWN in causes(far), "the notice of a link that is down for too long")
        await overlay.wait_until(lambda: host.counters.lost[Cause.LINK_DOWN] == 40, "the losses")
        await overlay.restart(VICTIM)
        await overlay_at_rest(overlay, load.clients)
        assert expect_every_loss_to_be_told(load) == 40
        assert 40 in {each.count for each in far.told(Gap)}, "it is told how many, once they can be followed"
        report = report_on(overlay._servers[at("a.0")])
        assert report["losses"]["link_down"]["publications"] == 40
        load.publish(10)
        await overlay_at_rest(overlay, load.clients)
        assert load.expected(range(40, 50))[far.name] <= far.got()


def test_a_broker_that_stops_in_order_worries_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server_module, "QUIET_S", 0.2)
    run(_stop_in_order())


async def _stop_in_order() -> None:
    async with Overlay.local("path:3", 2) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.0", "b.1", "c.1"])
        load.publish(100)
        server = overlay._servers.pop(at(VICTIM))
        assert await server.drain()
        await server.stop()
        await overlay.restart(VICTIM)
        await overlay_at_rest(overlay, load.clients)
        assert load.got == load.expected()
        assert [causes(each) for each in load.subscribers] == [set()] * 3


def test_a_broker_that_stops_and_leaves_publications_behind_says_so():
    run(_leave_behind())


async def _leave_behind() -> None:
    async with Overlay.local("path:3", 2, routing=PAPER_ROUTING) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.0", "b.1", "c.1"])
        overlay.throttle(VICTIM, "c.0", rate=5)
        load.publish(100)
        server = overlay._servers[at(VICTIM)]
        await overlay.wait_until(lambda: server.broker.waits_for(at("c.0")) > 50, "a queue")
        del overlay._servers[at(VICTIM)]
        await server.stop()
        far = load.subscribers[0]
        await far.until(lambda: Cause.SHUTDOWN in causes(far), "the notice of the broker that stopped")
        await overlay.restart(VICTIM)
        await overlay_at_rest(overlay, load.clients)
        assert expect_every_loss_to_be_told(load) > 50


def test_publications_of_a_client_that_has_left_arrive():
    run(_publish_and_leave())


async def _publish_and_leave() -> None:
    async with Overlay.local("path:2", 1) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["b.0"])
        overlay.throttle("a.0", "b.0", rate=200)
        load.publish(100)
        (publisher,), (subscriber,) = load.publishers, load.subscribers
        while not publisher.is_at_rest:
            await some_turns(random.Random(0))
        publisher.leave()
        await subscriber.until(lambda: len(subscriber.got()) == 100, "all publications that were accepted")
        assert load.got == load.expected()
