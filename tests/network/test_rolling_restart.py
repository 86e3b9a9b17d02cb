"""A rolling restart: all twelve brokers, one at a time, each in order, while clients publish and subscribe.

What a subscriber misses is nothing, or it was told of a gap.
"""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from ticking import ticks

import octopia
from octopia.errors import OctopiaError, OutcomeUnknown
from octopia.runtime.draining import all_at_rest
from octopia.runtime.local import Overlay

PUBLISHERS = ("a.0", "b.1", "c.3")
DRAIN_S = 10.0
PATIENCE_S = 60.0


@dataclasses.dataclass
class Publishing:
    """The publications of one publisher: numbers that were accepted, and those of which nobody knows."""

    name: str
    accepted: set[tuple[str, int]] = dataclasses.field(default_factory=set)
    unknown: set[tuple[str, int]] = dataclasses.field(default_factory=set)

    async def run(self, client: octopia.Client, stop: asyncio.Event) -> None:
        await client.advertise(f"by = '{self.name}' AND n >= 0")
        number = 0
        async for _ in ticks(0.002):
            if stop.is_set():
                return
            number += 1
            try:
                await client.publish({"by": self.name, "n": number}, timeout=PATIENCE_S)
                self.accepted.add((self.name, number))
            except OutcomeUnknown:
                self.unknown.add((self.name, number))


async def read(subscription: octopia.Subscription, got: list[tuple[object, object]]) -> None:
    try:
        async for publication in subscription:
            got.append((publication["by"], publication["n"]))  # noqa: PERF401 (what came before an error counts)
    except OctopiaError:
        return


async def restart_in_order(overlay: Overlay, broker: str) -> None:
    """Stop a broker as SIGTERM does, and start it again without memory."""
    found = overlay._overlay.scot.broker(broker)
    server = overlay._servers[found]
    server.begin_to_drain([found])
    await all_at_rest([server], DRAIN_S)
    await server.stop()
    del overlay._servers[found]
    await overlay.restart(broker)
    await overlay.wait_until(overlay.is_ready, f"{broker} to be back", timeout=PATIENCE_S)


async def roll(brokers: int) -> None:
    async with Overlay.local("path:3", 4) as overlay:
        stop, publishing = asyncio.Event(), [Publishing(name) for name in PUBLISHERS]
        clients = {name: await overlay.connect(name) for name in overlay.brokers}
        subscriptions = {name: await client.subscribe("n >= 0") for name, client in clients.items()}
        got: dict[str, list[tuple[object, object]]] = {name: [] for name in clients}
        readers = [asyncio.create_task(read(subscriptions[name], got[name])) for name in clients]
        publishers = [await overlay.connect(each.name) for each in publishing]
        tasks = [
            asyncio.create_task(each.run(client, stop)) for each, client in zip(publishing, publishers, strict=True)
        ]
        for broker in overlay.brokers[:brokers]:
            await restart_in_order(overlay, broker)
        stop.set()
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S)
        accepted = set().union(*(each.accepted for each in publishing))
        possible = accepted.union(*(each.unknown for each in publishing))

        def is_complete() -> bool:
            return all(accepted <= set(got[name]) or subscriptions[name].gaps for name in clients)

        await overlay.wait_until(is_complete, "everything to arrive, or a gap to be told", timeout=PATIENCE_S)
        assert len(accepted) > 10 * brokers
        for name in clients:
            assert len(got[name]) == len(set(got[name])), f"{name} got something twice"
            assert set(got[name]) <= possible
            assert accepted <= set(got[name]) or subscriptions[name].gaps, f"{name} missed something and was not told"
        for client in (*publishers, *clients.values()):
            await client.close(timeout=0.1)
        for reader in readers:
            reader.cancel()


def test_brokers_that_restart_one_at_a_time_lose_nothing_untold() -> None:
    asyncio.run(roll(brokers=3))


@pytest.mark.soak
def test_all_brokers_restart_one_at_a_time() -> None:
    asyncio.run(roll(brokers=12))
