"""What an operator can do to running brokers: cut and heal links, change the routing algorithm, ask for lists."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter

import pytest
from load import Load
from raw_client import run
from rest import overlay_at_rest

from octopia.broker import BrokerSettings, Detail
from octopia.broker.interface import Event, Fact
from octopia.client.operators import ask
from octopia.errors import RequestRefused
from octopia.http.operators import StayingOperator
from octopia.ids import BrokerId
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Command, MessageKind, Verb
from octopia.protocol.duties import Lane
from octopia.runtime.local import Overlay
from octopia.runtime.operating import report_on
from octopia.settings import Algorithm, RoutingSettings

PUBLISHERS, SUBSCRIBERS = ["b.2"], ["a.0", "a.2", "b.0", "b.1", "c.1", "c.2"]


def overlay_of(algorithm: Algorithm, detail: Detail = Detail.OFF) -> Overlay:
    routing = RoutingSettings(algorithm)
    described = dataclasses.replace(overlay_from_text("path:3", 3), routing=routing)
    return Overlay(described, BrokerSettings(routing, detail=detail))


async def send(overlay: Overlay, broker: str, command: Command) -> dict[str, object]:
    (report,) = await ask(overlay._servers[overlay._overlay.scot.broker(broker)].address, command)
    return report


def is_up(overlay: Overlay, one: str, other: str) -> bool:
    scot = overlay._overlay.scot
    return overlay._servers[scot.broker(one)].node.links[scot.broker(other)].is_up


@pytest.mark.parametrize("end", [("b.0", "b.1"), ("b.1", "b.0")], ids=["dials", "is dialled"])
def test_a_link_that_is_cut_stays_down_until_it_is_healed(end: tuple[str, str]) -> None:
    async def scenario() -> None:
        async with overlay_of(Algorithm.ADAPTIVE) as overlay:
            load = await Load.begin(overlay, PUBLISHERS, SUBSCRIBERS)
            answer = await send(overlay, end[0], Command(Verb.CUT, end[1]))
            assert (answer["from"], answer["to"], answer["cut"]) == (*end, True)
            await overlay.wait_until(lambda: not is_up(overlay, "b.0", "b.1"), "the link to be down")
            load.publish(50, b"")
            await overlay.wait_until(lambda: load.got == load.expected(), "everything to go around")
            # The other end tries again meanwhile, and is turned away.
            assert not is_up(overlay, "b.0", "b.1")
            await send(overlay, end[0], Command(Verb.HEAL, end[1]))
            await overlay.wait_until(overlay.is_ready, "the link to be up again")
            load.publish(50, b"")
            await overlay_at_rest(overlay, load.clients)
            assert load.got == load.expected()
            load.leave()

    run(scenario())


@pytest.mark.parametrize(
    ("started_with", "others"),
    [
        (Algorithm.STATIC, [Algorithm.DYNAMIC, Algorithm.STATIC]),
        (Algorithm.DYNAMIC, [Algorithm.STATIC, Algorithm.DYNAMIC]),
        (Algorithm.ADAPTIVE, [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE]),
    ],
)
def test_the_algorithm_changes_broker_by_broker_under_load(started_with: Algorithm, others: list[Algorithm]) -> None:
    async def scenario() -> None:
        async with overlay_of(started_with) as overlay:
            overlay.throttle("b.2", "b.0", rate=100.0)
            load = await Load.begin(overlay, PUBLISHERS, SUBSCRIBERS)
            for algorithm in others:
                for broker in overlay.brokers:
                    load.publish(10, b"")
                    report = await send(overlay, broker, Command(Verb.ROUTE, algorithm=algorithm))
                    assert report == {"id": broker, "routing": algorithm}
            overlay.throttle("b.2", "b.0", rate=0.0)
            await overlay_at_rest(overlay, load.clients)
            assert load.got == load.expected()
            assert {report_on(server)["routing"] for server in overlay._servers.values()} == {others[-1]}
            load.leave()

    run(scenario())


@pytest.mark.parametrize(
    ("started_with", "wanted"),
    [
        (Algorithm.STATIC, Algorithm.ADAPTIVE),
        (Algorithm.DYNAMIC, Algorithm.ADAPTIVE),
        (Algorithm.TID_STATIC, Algorithm.TID_DYNAMIC),
    ],
)
def test_a_change_that_is_not_sound_is_refused(started_with: Algorithm, wanted: Algorithm) -> None:
    async def scenario() -> None:
        async with overlay_of(started_with) as overlay:
            with pytest.raises(RequestRefused, match=f"started with {started_with}, got {wanted}"):
                await send(overlay, "a.0", Command(Verb.ROUTE, algorithm=wanted))

    run(scenario())


def test_a_link_of_tid_based_routing_is_not_cut() -> None:
    async def scenario() -> None:
        async with overlay_of(Algorithm.TID_STATIC) as overlay:
            with pytest.raises(RequestRefused, match="does not recover"):
                await send(overlay, "a.0", Command(Verb.CUT, "a.1"))

    run(scenario())


def test_clients_and_vectors_are_listed() -> None:
    async def scenario() -> None:
        async with overlay_of(Algorithm.ADAPTIVE) as overlay, overlay.connect("b.0", name="feed") as client:
            await client.advertise("x > 0")
            await client.subscribe("x > 5")
            listed = await send(overlay, "b.0", Command(Verb.CLIENTS))
            assert listed["total"] == 1
            (feed,) = listed["clients"]  # type: ignore[misc]
            assert (feed["client"], feed["connected"], feed["advertisements"], feed["subscriptions"]) == (
                *("feed", True),
                *(1, 1),
            )
            civs = await send(overlay, "b.0", Command(Verb.CIVS))
            assert [each["targets"] for each in civs["civs"]] == ["001"]  # type: ignore[index, attr-defined]

    run(scenario())


def test_an_operator_connects_again_after_a_broker_was_restarted() -> None:
    async def scenario() -> None:
        async with overlay_of(Algorithm.ADAPTIVE) as overlay:
            operator = StayingOperator(overlay._addresses[overlay._overlay.scot.broker("a.1")])
            reports = await asyncio.gather(*(operator.ask(Command(Verb.REPORT)) for _ in range(3)))
            assert [each["id"] for each in reports] == ["a.1"] * 3
            overlay.crash("a.1")
            with pytest.raises(Exception, match=r"not running|closed|connection"):
                await operator.ask(Command(Verb.REPORT))
            await overlay.restart("a.1")
            assert (await operator.ask(Command(Verb.REPORT)))["id"] == "a.1"
            operator.close()

    run(scenario())


@pytest.mark.parametrize("algorithm", [Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE, Algorithm.TID_DYNAMIC])
@pytest.mark.parametrize("detail", [Detail.OFF, Detail.ALL])
def test_counters_equal_the_trace_over_sockets(algorithm: Algorithm, detail: Detail) -> None:
    async def scenario() -> None:
        async with overlay_of(algorithm, detail) as overlay:
            overlay.throttle("b.2", "b.0", rate=150.0)
            load = await Load.begin(overlay, PUBLISHERS, SUBSCRIBERS)
            for _ in range(20):
                load.publish(10, b"")
                before = load.got
                await overlay.wait_until(lambda before=before: load.got != before, "a delivery")
            overlay.throttle("b.2", "b.0", rate=0.0)
            await overlay_at_rest(overlay, load.clients)
            assert load.got == load.expected()
            check(overlay, detail, deliveries=sum(map(len, load.got.values())))
            load.leave()

    run(scenario())


def check(overlay: Overlay, detail: Detail, deliveries: int) -> None:
    sent: Counter[tuple[str, str]] = Counter()
    rerouted: Counter[tuple[str, str]] = Counter()
    for server in overlay._servers.values():
        facts = [fact for fact in server.drain_facts() if isinstance(fact, Fact) and fact.event is Event.SEND]
        for fact in facts:
            if fact.kind is MessageKind.PUBLICATION and isinstance(fact.peer, BrokerId):
                sent[str(server.id), str(fact.peer)] += 1
                lane = fact.detour.lane if fact.detour is not None else Lane.PLAIN
                has_civ = fact.detour is None and bool(fact.publication_civ)
                rerouted[str(server.id), str(fact.peer)] += has_civ or lane is Lane.REROUTED
    reports = {str(server.id): report_on(server) for server in overlay._servers.values()}
    links = {(broker, peer): link for broker, each in reports.items() for peer, link in each["links"].items()}
    if detail is Detail.ALL:
        assert {ends: link["sent"] for ends, link in links.items() if link["sent"]} == sent
        if not overlay._settings.routing.algorithm.is_tid:
            assert {ends: link["rerouted"] for ends, link in links.items()} == {ends: rerouted[ends] for ends in links}
    for broker, report in reports.items():
        assert report["sent"]["publication"] == sum(link["sent"] for link in report["links"].values()), broker
    assert sum(report["published"] for report in reports.values()) == 200
    assert sum(report["delivered"] for report in reports.values()) == deliveries
    assert 0 < sum(sum(report["delays"]["counts"]) for report in reports.values()) <= deliveries
