"""A rolling restart: all twelve brokers, one at a time, each in order, while clients publish and subscribe.

A subscriber may miss publications only while its own broker is away, or shortly before another notice of a gap.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time

import pytest
from ticking import ticks

import octopia
from octopia.errors import OctopiaError, OutcomeUnknown
from octopia.protocol.causes import Cause
from octopia.runtime import server as server_module
from octopia.runtime.draining import all_at_rest
from octopia.runtime.local import Overlay

PUBLISHERS = ("a.0", "b.1", "c.3")
DRAIN_S = 10.0
PATIENCE_S = 60.0
QUIET_S = 0.2
"""The time that a broker waits for items in flight: here they need no longer, since all is one process."""
IN_FLIGHT_S = 2.0
"""The age of publications that may still be on their way when a broker begins to drain."""
ROUND = 20


@dataclasses.dataclass
class Publishing:
    """The publications of one publisher: when each began, and those that were accepted."""

    name: str
    client: octopia.Client
    begun_s: dict[int, float] = dataclasses.field(default_factory=dict)
    accepted: set[int] = dataclasses.field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until stopped."""
        await self.client.advertise(f"by = '{self.name}' AND n >= 0")
        async for _ in ticks(0.002):
            if stop.is_set():
                return
            await self.publish()

    async def publish(self) -> None:
        """Publish the next number; the outcome of one at a broker that stops may be unknown."""
        number = len(self.begun_s) + 1
        self.begun_s[number] = time.monotonic()
        try:
            await self.client.publish({"by": self.name, "n": number}, timeout=PATIENCE_S)
            self.accepted.add(number)
        except OutcomeUnknown:
            return


@dataclasses.dataclass
class Reading:
    """The publications of one subscriber, and the periods in which it may have missed some."""

    name: str
    got: dict[str, list[int]] = dataclasses.field(default_factory=lambda: {name: [] for name in PUBLISHERS})
    restarted_s: float | None = None
    new_sessions_s: list[float] = dataclasses.field(default_factory=list)
    other_gaps_s: list[float] = dataclasses.field(default_factory=list)

    async def run(self, subscription: octopia.Subscription) -> None:
        """Read until the subscription ends."""
        try:
            async for publication in subscription:
                self.got[str(publication["by"])].append(int(publication["n"]))
        except OctopiaError:
            return

    def on_gap(self, subscription: octopia.Subscription) -> None:
        """Note a gap."""
        is_new = subscription.last_gap is not None and subscription.last_gap.cause is Cause.NEW_SESSION
        (self.new_sessions_s if is_new else self.other_gaps_s).append(time.monotonic())

    @property
    def is_back(self) -> bool:
        """True unless its broker was restarted and its subscription is not in force again."""
        return self.restarted_s is None or len(self.new_sessions_s) >= 2

    def untold(self, publishing: Publishing) -> list[int]:
        """Return the numbers of a publisher that are missing without an excuse."""
        missing = sorted(publishing.accepted.difference(self.got[publishing.name]))
        return [number for number in missing if not self._is_told(publishing.begun_s[number])]

    def _is_told(self, begun_s: float) -> bool:
        periods = [(gap_s - DRAIN_S, gap_s) for gap_s in self.other_gaps_s]
        if self.restarted_s is not None and self.new_sessions_s:
            periods.append((self.restarted_s - IN_FLIGHT_S, self.new_sessions_s[-1]))
        return any(since_s <= begun_s <= until_s for since_s, until_s in periods)


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
        stop = asyncio.Event()
        clients = {name: await overlay.connect(name) for name in overlay.brokers}
        readings = [Reading(name) for name in clients]
        subscribed = [await clients[each.name].subscribe("n >= 0", on_gap=each.on_gap) for each in readings]
        readers = [
            asyncio.create_task(each.run(subscription)) for each, subscription in zip(readings, subscribed, strict=True)
        ]
        publishing = [Publishing(name, await overlay.connect(name)) for name in PUBLISHERS]
        tasks = [asyncio.create_task(each.run(stop)) for each in publishing]
        for reading in readings[:brokers]:
            reading.restarted_s = time.monotonic()
            await restart_in_order(overlay, reading.name)
        stop.set()
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S)
        await overlay.wait_until(
            lambda: all(each.is_back for each in readings), "all subscriptions to be in force", timeout=PATIENCE_S
        )

        # After the last restart, nothing is missing at all.
        before = {each.name: len(each.begun_s) for each in publishing}
        for _ in range(ROUND):
            await asyncio.gather(*(each.publish() for each in publishing))

        def is_complete() -> bool:
            return not any(reading.untold(each) for reading in readings for each in publishing)

        try:
            await overlay.wait_until(is_complete, "everything to arrive", timeout=PATIENCE_S)
        except octopia.Unavailable:
            untold = {(reading.name, each.name): reading.untold(each) for reading in readings for each in publishing}
            raise AssertionError(f"missed without a notice: { {k: v for k, v in untold.items() if v} }") from None
        for each in publishing:
            assert len(each.accepted) > 3 * brokers
            last = set(range(before[each.name] + 1, before[each.name] + 1 + ROUND))
            assert last <= each.accepted
            for reading in readings:
                got = reading.got[each.name]
                assert len(got) == len(set(got)), f"{reading.name} got something twice"
                assert set(got) <= each.begun_s.keys()
                assert last <= set(got), f"{reading.name} missed something after the restarts"
        for client in (*(each.client for each in publishing), *clients.values()):
            await client.close(timeout=0.1)
        for reader in readers:
            reader.cancel()


def test_brokers_that_restart_one_at_a_time_lose_nothing_untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "QUIET_S", QUIET_S)
    asyncio.run(roll(brokers=12))


@pytest.mark.soak
def test_brokers_that_wait_as_long_as_in_production_lose_nothing_untold() -> None:
    asyncio.run(roll(brokers=12))
