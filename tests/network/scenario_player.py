"""Plays a scenario on brokers that talk over sockets, and records what the simulator records."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import assert_never

from raw_client import RawClient
from rest import overlay_at_rest

from octopia.algorithms import hop_limit_of
from octopia.broker import BrokerSettings, Detail, Verdict
from octopia.broker.interface import Event
from octopia.ids import BrokerId
from octopia.protocol.messages import (
    AdvertiseRequest,
    PublishRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from octopia.runtime.dialling import Dialler
from octopia.runtime.local import Overlay
from octopia.scenario import (
    AdvertiseItem,
    CrashItem,
    CutItem,
    HealItem,
    Item,
    LinkChange,
    PublishItem,
    RestartItem,
    Scenario,
    SlowItem,
    SubscribeItem,
    UnadvertiseItem,
    UnsubscribeItem,
)
from octopia.simulator.record import Names, Recorder


class Player:
    """One scenario on the network; times in it are not kept: everything happens when what came before has settled."""

    def __init__(self, scenario: Scenario):
        self._scenario = scenario
        hop_limit = hop_limit_of(scenario.overlay.scot, scenario.routing.algorithm)
        settings = BrokerSettings(scenario.routing, hop_limit, detail=Detail.HOPS)
        self.overlay = Overlay(dataclasses.replace(scenario.overlay, routing=scenario.routing), settings)
        self.names = Names()
        self.recorder = Recorder(self.names)
        self.clients: dict[str, RawClient] = {}
        self._homes = {client.name: client.broker for client in scenario.clients}
        self._handles: dict[str, int] = {}
        self._publications = 0
        self._apart: set[tuple[BrokerId, BrokerId]] = set()

    async def play(self) -> Recorder:
        """Play everything, and return the record."""
        async with self.overlay:
            await overlay_at_rest(self.overlay)
            for node in self.overlay._servers.values():
                node.broker.drain_facts()
            for change in self._scenario.links:
                self._change(change)
            for name, broker in self._homes.items():
                self.clients[name] = await RawClient(name).connect(self.overlay.url(str(broker)))
            items = [item for client in self._scenario.clients for item in client.items]
            for item in (*items, *(event.item for event in self._scenario.events)):
                await self._do(item)
                await self._settle()
            self._gather_facts()
            for name, client in self.clients.items():
                for reply in client.heard:
                    self.recorder.on_reply(name, self._homes[name], reply, 0.0)
                client.leave()
        return self.recorder

    async def _do(self, item: Item) -> None:
        match item:
            case AdvertiseItem():
                self.clients[item.client].say(AdvertiseRequest(self._handle(item), item.offer, item.ordered))
            case SubscribeItem():
                self.clients[item.client].say(SubscribeRequest(self._handle(item), item.interest))
            case UnadvertiseItem():
                self.clients[item.client].say(UnadvertiseRequest(self._handles[item.id]))
            case UnsubscribeItem():
                self.clients[item.client].say(UnsubscribeRequest(self._handles[item.id]))
            case PublishItem():
                for _ in range(item.count):
                    self.clients[item.client].say(PublishRequest(self._publications, item.publication, 0.0))
                    self._publications += 1
            case LinkChange():
                self._change(item)
            case CrashItem():
                self._gather_facts()
                self.overlay.crash(str(item.broker))
                await self._until_noticed(item.broker)
            case RestartItem():
                await self.overlay.restart(str(item.broker))
            case CutItem():
                await self._part(*sorted(item.link))
            case HealItem():
                self._join(*sorted(item.link))
            case SlowItem():
                raise NotImplementedError("expected clients to read as fast as they can")
            case _:
                assert_never(item)

    def _handle(self, item: AdvertiseItem | SubscribeItem) -> int:
        handle = self._handles[item.id] = len(self._handles)
        self.names.name(item.client, handle, item.id)
        return handle

    def _change(self, change: LinkChange) -> None:
        for source, target in change.directions:
            node = self.overlay._servers[source]
            queue = node.broker.state.queues[target]
            verdict = queue.verdict if change.verdict is None else change.verdict
            length = queue.forced_length if change.queue_length is None else change.queue_length
            if (verdict, length) != (Verdict.AUTO, None):
                node.broker.force(target, verdict, length, node.now_ms())
            node.set_shape(target, change.shape)

    async def _settle(self) -> None:
        """Wait for rest, as far as there can be any while brokers are down or links are cut."""
        if len(self.overlay._servers) == len(self.overlay.brokers) and not self._apart:
            await overlay_at_rest(self.overlay, list(self.clients.values()))
            return
        for client in self.clients.values():
            await client.until(lambda client=client: client.is_at_rest, "acknowledgements")
        await self.overlay.wait_until(self._is_quiet, "rest where there can be any")

    def _is_quiet(self) -> bool:
        return all(
            not link.is_up or (not link.session.awaits_acknowledgement and node.broker.state.queues[peer].is_empty)
            for node in self.overlay._servers.values()
            for peer, link in (*node.node.links.items(),)
        )

    async def _until_noticed(self, broker: BrokerId) -> None:
        links = [node.node.links[broker] for node in self.overlay._servers.values() if broker in node.node.links]
        await self.overlay.wait_until(lambda: not any(link.is_up for link in links), f"the loss of {broker}")

    async def _part(self, low: BrokerId, high: BrokerId) -> None:
        """Cut a link, and let nobody dial until it is healed."""
        self._apart.add((low, high))
        ends = [self.overlay._servers[low].node.links[high], self.overlay._servers[high].node.links[low]]
        self.overlay._servers[low].diallers[high].task.cancel()
        self.overlay.cut(str(low), str(high))
        await self.overlay.wait_until(lambda: not any(end.is_up for end in ends), f"the cut of {low}-{high}")

    def _join(self, low: BrokerId, high: BrokerId) -> None:
        self._apart.remove((low, high))
        node = self.overlay._servers[low]
        node.diallers[high] = Dialler(node, high, self.overlay._servers[high].address)

    def _gather_facts(self) -> None:
        facts = [(node.broker, fact) for node in self.overlay._servers.values() for fact in node.broker.drain_facts()]
        # What was received names publications, which others then speak of.
        for broker, fact in sorted(facts, key=lambda each: each[1].event is not Event.RECEIVE):
            self.recorder.on_fact(broker, fact, 0.0)


def play(scenario: Scenario) -> Recorder:
    """Play a scenario over sockets."""
    return asyncio.run(Player(scenario).play())
