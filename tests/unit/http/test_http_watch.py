"""The clock of a port: listeners that come at the same time all see every change."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from http_support import link, report, snapshot

from octopia.http.snapshot import Snapshot
from octopia.http.watch import Watch
from octopia.overlay.files import overlay_from_text
from octopia.protocol import Command


class Changing:
    """A link whose limit is different in each snapshot, until it stays at 9."""

    def __init__(self) -> None:
        self.overlay = overlay_from_text("path:1", 2)
        self.brokers = ("a.0", "a.1")
        self.taken = 0
        self.is_let = asyncio.Event()

    async def snapshot(self) -> Snapshot:
        self.taken += 1
        await self.is_let.wait()
        rate = float(min(9, self.taken))
        links = [report("a.0", {"a.1": link(rate=rate)}), report("a.1", {"a.0": link()})]
        return snapshot(self.taken * 500.0, *links)

    async def ask(self, broker: str, command: Command) -> dict[str, Any]:
        raise AssertionError("expected no command")

    def close(self) -> None:
        pass


class Page:
    """A listener that keeps the limit of the link, as the page does."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.rate: float | None = None

    async def open(self) -> None:
        await self._watch.listen(self)
        self.on_messages([self._watch.feed.whole_tick()])

    def on_messages(self, messages: list[bytes]) -> None:
        for message in map(json.loads, messages):
            changed = message.get("links", {}).get("a.0>a.1", {})
            self.rate = changed.get("rate", self.rate)


def test_pages_that_open_at_once_miss_no_change():
    async def scenario() -> None:
        source = Changing()
        watch = Watch(source)
        try:
            pages = [Page(watch) for _ in range(9)]
            opening = [asyncio.create_task(page.open()) for page in pages]
            await asyncio.sleep(0)
            source.is_let.set()
            await asyncio.gather(*opening)
            assert source.taken > 9
            assert [page.rate for page in pages] == [9.0] * 9
        finally:
            await watch.close()

    asyncio.run(scenario())
