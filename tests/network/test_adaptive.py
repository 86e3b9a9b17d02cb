"""Adaptive routing over sockets: dead brokers and slow aLinks are gone around."""

from __future__ import annotations

import dataclasses

import pytest
from load import Load
from raw_client import run
from rest import overlay_at_rest
from scenario_player import play
from test_scenarios import carried, delivered

from octopia.overlay.files import overlay_from_text
from octopia.runtime.local import Overlay
from octopia.runtime.operating import report_on
from octopia.scenario import load_scenario
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.run import run_scenario
from support import EXAMPLES, at


def adaptive(tree: str, clusters: int) -> Overlay:
    overlay = overlay_from_text(tree, clusters)
    return Overlay(dataclasses.replace(overlay, routing=RoutingSettings(Algorithm.ADAPTIVE)))


@pytest.mark.parametrize("example", ["fig7b", "fig7c", "fig7d"])
def test_examples_arrive_as_in_the_simulator(example: str):
    """The number of status messages depends on the clock, so only publications are compared."""
    scenario = load_scenario(EXAMPLES / f"{example}.toml").with_algorithm(Algorithm.ADAPTIVE)
    simulated, real = run_scenario(scenario), play(scenario)
    assert delivered(real) == delivered(simulated.recorder)
    assert carried(real, publications_only=True) == carried(simulated.recorder, publications_only=True)


@pytest.mark.parametrize("victims", [["b.0"], ["b.0", "b.1"], ["b.0", "c.1", "a.2"]], ids=len)
def test_what_can_go_another_way_does_not_wait_for_a_dead_broker(victims: list[str]):
    run(_kill(victims))


async def _kill(victims: list[str]) -> None:
    """Publications that are made once the crash was noticed reach all live subscribers, though nobody returns."""
    async with adaptive("path:4", 3) as overlay:
        load = await Load.begin(overlay, ["a.0", "d.1"], ["d.0", "c.0", "a.1", "d.2", "b.2"])
        for victim in victims:
            overlay.crash(victim)
        links = [
            link
            for server in overlay._servers.values()
            for peer, link in server.node.links.items()
            if str(peer) in victims
        ]
        await overlay.wait_until(lambda: not any(link.is_up for link in links), "the loss of the brokers")
        load.publish(200)
        for subscriber, wanted in zip(load.subscribers, load.expected().values(), strict=True):
            await subscriber.until(lambda s=subscriber, w=wanted: s.got() == w, "all publications")
        for victim in victims:
            await overlay.restart(victim)
        await overlay_at_rest(overlay, load.clients)
        assert load.got == load.expected(), "and nothing comes twice when they return"


def test_a_slow_alink_is_gone_around():
    run(_slow())


async def _slow() -> None:
    """At five per second, 300 publications would take a minute over the slow link."""
    async with adaptive("path:3", 3) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["c.0", "b.0", "c.1"])
        overlay.throttle("a.0", "b.0", rate=5)
        for _ in range(30):
            load.publish(10)
            for subscriber, wanted in zip(load.subscribers, load.expected().values(), strict=True):
                await subscriber.until(lambda s=subscriber, w=wanted: s.got() == w, "all publications")
        assert load.got == load.expected()


def test_a_broker_that_stops_counts_what_waits_for_a_way():
    run(_stop_with_stranded())


async def _stop_with_stranded() -> None:
    async with adaptive("path:2", 1) as overlay:
        load = await Load.begin(overlay, ["a.0"], ["b.0"])
        overlay.crash("b.0")
        server = overlay._servers[at("a.0")]
        await overlay.wait_until(lambda: at("b.0") in server.broker.state.down, "the loss of the broker")
        assert (server.node.is_at_rest, server.left_behind) == (True, 0)
        held_bytes = server.node.held_bytes
        load.publish(3, bytes(1000))
        await overlay.wait_until(lambda: server.broker.stranded == 3, "the publications")
        assert report_on(server)["stranded"] == server.left_behind == 3
        assert server.node.held_bytes - held_bytes > 3000
        assert not server.node.is_at_rest, "the link may come back while the broker drains"
