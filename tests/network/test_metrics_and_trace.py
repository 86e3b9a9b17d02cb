"""/metrics, read with Prometheus' own parser, equals the trace of the same run on real brokers, counter by counter."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from http_port import get, http_beside
from load import Load
from prometheus_client.parser import text_string_to_metric_families
from raw_client import RawClient, run
from recorders import until
from rest import overlay_at_rest

from octopia.addresses import Address
from octopia.broker import Detail
from octopia.broker.interface import Event, Routed
from octopia.ids import BrokerId, LinkKind
from octopia.node import NodeSettings
from octopia.overlay.files import overlay_from_text
from octopia.protocol import MessageKind, Overflow
from octopia.protocol.duties import Lane
from octopia.runtime.defaults import NODE_SETTINGS, default_settings
from octopia.runtime.local import Overlay
from octopia.settings import Algorithm, RoutingSettings

TRACED = dataclasses.replace(NODE_SETTINGS, detail=Detail.ALL)
PAYLOAD = bytes(200)
SUBSCRIBERS = ["a.0", "a.3", "b.0", "b.1", "b.2", "c.0", "c.1", "c.3"]


def traced(
    tree: str, clusters: int, algorithm: Algorithm, node_settings: NodeSettings = TRACED, **broker_settings: float
) -> Overlay:
    """Return an overlay whose brokers trace everything."""
    file = overlay_from_text(tree, clusters)
    routing = RoutingSettings(algorithm=algorithm, tau=10.0, window_ms=50.0)
    file = dataclasses.replace(file, routing=routing)
    settings = dataclasses.replace(default_settings(file), detail=Detail.ALL, **broker_settings)
    return Overlay(file, settings, node_settings)


class Trace:
    """The facts of all brokers, added up as the counters of /metrics are."""

    def __init__(self, overlay: Overlay) -> None:
        self.published: Counter[str] = Counter()
        self.sent: Counter[tuple[str, str]] = Counter()
        self.rerouted: Counter[tuple[str, str]] = Counter()
        self.dropped: Counter[tuple[str, str]] = Counter()
        self.lost_by_clients: Counter[str] = Counter()
        for broker, server in overlay._servers.items():
            for fact in server.drain_facts():
                if isinstance(fact, Routed) or (fact.kind not in (MessageKind.PUBLICATION, None)):
                    continue
                link = (str(broker), str(fact.peer))
                is_client = not isinstance(fact.peer, BrokerId)
                if fact.event is Event.RECEIVE and fact.link is LinkKind.CLIENT:
                    self.published[str(broker)] += 1
                elif fact.event is Event.SEND and not is_client:
                    self.sent[link] += 1
                    has_civ = fact.detour is None and bool(fact.publication_civ)
                    self.rerouted[link] += has_civ or (fact.detour is not None and fact.detour.lane is Lane.REROUTED)
                elif fact.event is Event.DROP and is_client:
                    self.lost_by_clients[str(broker)] += int(fact.value or 0)
                elif fact.event is Event.DROP:
                    self.dropped[link] += int(fact.value or 0)


async def scraped(port: Address) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of all metrics that are not 0, by name and labels."""
    status, _, body = await get(port, "/metrics")
    assert status == 200
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            values = found.setdefault(sample.name, {})
            if sample.value:
                values[tuple(sample.labels.values())] = sample.value
    return found


def by_broker(counts: Counter[str]) -> dict[tuple[str, ...], float]:
    return {(broker,): count for broker, count in counts.items() if count}


def by_link(counts: Counter[tuple[str, str]]) -> dict[tuple[str, ...], float]:
    return {link: count for link, count in counts.items() if count}


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE])
def test_counters_of_traffic_around_slow_links_equal_the_trace(algorithm: Algorithm) -> None:
    async def scenario() -> None:
        async with traced("path:3", 4, algorithm) as overlay:
            for slow in (("b.3", "b.0"), ("b.3", "c.3")):
                overlay.throttle(*slow, rate=150)
            load = await Load.begin(overlay, ["b.3", "a.1"], SUBSCRIBERS)
            for batch in range(20):
                load.publish(20, PAYLOAD)
                await load.publishers[0].until(lambda: load.publishers[0].is_at_rest, "its acknowledgements")
                await load.subscribers[2].until(
                    lambda batch=batch: len(load.subscribers[2].deliveries) >= 10 * batch, "some deliveries"
                )
            await overlay_at_rest(overlay, load.clients, 60.0)
            assert load.got == load.expected()
            async with http_beside(overlay) as port:
                metrics, trace = await scraped(port), Trace(overlay)
            assert (
                metrics["octopia_broker_published_total"]
                == by_broker(trace.published)
                == {("a.1",): 200, ("b.3",): 200}
            )
            delivered = Counter({name.removeprefix("S"): got.total() for name, got in load.got.items()})
            assert metrics["octopia_broker_delivered_total"] == by_broker(delivered)
            assert metrics["octopia_link_sent_total"] == by_link(trace.sent)
            assert metrics["octopia_link_rerouted_total"] == by_link(trace.rerouted)
            assert metrics["octopia_link_dropped_total"] == by_link(trace.dropped) == {}
            assert bool(trace.rerouted.total()) == (algorithm is not Algorithm.STATIC)
            # Of windows that close together, a trace has the last one: only virtual time lets both agree to the window.
            assert {("b.3", "b.0"), ("b.3", "c.3")} & metrics["octopia_link_congested_seconds_total"].keys()
            assert metrics.get("octopia_lost_total", {}) == {}
            (sampled,) = metrics["octopia_delivery_delay_seconds_count"].values()
            assert 0 < sampled <= delivered.total()
            clients = {("a.1",): 1} | {(each,): 1 for each in [*SUBSCRIBERS, "b.3"]}
            assert metrics["octopia_broker_clients"] == clients
            load.leave()

    run(scenario())


def test_counters_of_drops_equal_the_trace() -> None:
    async def scenario() -> None:
        async with traced("path:2", 1, Algorithm.STATIC, down_limit_ms=300.0) as overlay:
            load = await Load.begin(overlay, ["a.0"], ["b.0"])
            load.publish(7)
            await overlay_at_rest(overlay, load.clients)
            a, b = overlay._servers.values()
            a.lines[b.id].cut()
            await overlay.wait_until(lambda: not a.is_connected, "the link to be down")
            load.publish(5)
            await until(lambda: a.broker.link_counters(a.now_ms())[b.id].dropped == 5)
            async with http_beside(overlay) as port:
                metrics, trace = await scraped(port), Trace(overlay)
            assert metrics["octopia_broker_published_total"] == by_broker(trace.published) == {("a.0",): 12}
            assert metrics["octopia_link_sent_total"] == by_link(trace.sent) == {("a.0", "b.0"): 7}
            assert metrics["octopia_link_dropped_total"] == by_link(trace.dropped) == {("a.0", "b.0"): 5}
            assert metrics["octopia_lost_total"] == {("a.0", "link_down"): 5}
            assert metrics["octopia_broker_delivered_total"] == {("b.0",): 7}
            assert metrics["octopia_link_up"] == {}
            load.leave()

    run(scenario())


def test_losses_of_a_slow_client_equal_the_trace() -> None:
    async def scenario() -> None:
        settings = dataclasses.replace(TRACED, client_queue_limit=50)
        async with traced("path:2", 1, Algorithm.STATIC, settings) as overlay:
            load = await Load.begin(overlay, ["a.0"], ["b.0"])
            slow = await RawClient("slow", Overflow.DROP_OLDEST).connect(overlay.url("b.0"))
            await slow.subscribe("n >= 0")
            slow.stop_reading()
            _, b = overlay._servers.values()
            while not b.node.lost_by_slow_clients:
                assert load.published < 20_000
                load.publish(50, bytes(16_000))
                await load.subscribers[0].until(
                    lambda: len(load.subscribers[0].deliveries) == load.published, "its deliveries"
                )
            async with http_beside(overlay) as port:
                metrics, trace = await scraped(port), Trace(overlay)
            lost = b.node.lost_by_slow_clients
            assert by_broker(trace.lost_by_clients) == {("b.0",): lost}
            assert metrics["octopia_lost_total"] == {("b.0", "slow_client"): lost}
            assert metrics["octopia_link_dropped_total"] == by_link(trace.dropped) == {}
            slow.leave()
            load.leave()

    run(scenario())
