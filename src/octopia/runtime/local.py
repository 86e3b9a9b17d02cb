"""A whole overlay inside the caller's process, for tests, notebooks and first steps.

The brokers are those that ``octopia up`` runs, and they talk over TCP like those, on free ports of this machine.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from types import TracebackType
from typing import Any

from octopia.addresses import Address
from octopia.broker import BrokerSettings
from octopia.client import Client, connect
from octopia.errors import Unavailable
from octopia.ids import BrokerId
from octopia.overlay import LinkShape
from octopia.overlay.files import Overlay as OverlayFile
from octopia.overlay.files import overlay_from_text
from octopia.overlay.trees import default_clusters
from octopia.runtime.node import Node, default_settings
from octopia.settings import RoutingSettings

READY_S = 10.0
"""How long an overlay may take to be ready."""

ANYWHERE = Address("127.0.0.1", 0)


class Overlay:
    """An embedded overlay; use it with ``async with``."""

    def __init__(self, overlay: OverlayFile, settings: BrokerSettings | None = None):
        self._overlay = overlay
        self._settings = settings or default_settings(overlay)
        self._addresses: dict[BrokerId, Address] = {}
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.nodes: dict[BrokerId, Node] = {}

    @classmethod
    def local(
        cls, tree: str = "path:3", clusters: int | None = None, *, routing: RoutingSettings | None = None
    ) -> Overlay:
        """Describe an overlay by a tree expression and a number of clusters, as scenario files do.

        Without a number it is that of the paper for ``paper:…``, and 4 for other trees.
        """
        described = overlay_from_text(tree, 4 if clusters is None and default_clusters(tree) is None else clusters)
        return cls(dataclasses.replace(described, routing=routing or described.routing))

    async def __aenter__(self) -> Overlay:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all brokers, and wait until they are ready."""
        for broker in self._overlay.scot.brokers:
            node = self._make_node(broker)
            self._addresses[broker] = await node.listen(ANYWHERE)
        for node in self.nodes.values():
            node.start(self._addresses)
        await self.wait_until(self.is_ready, f"the {len(self.nodes)} brokers to be connected with each other")

    async def stop(self) -> None:
        """Stop all brokers."""
        await asyncio.gather(*(node.stop() for node in self.nodes.values()))
        self.nodes.clear()

    @property
    def brokers(self) -> list[str]:
        """The names of all brokers."""
        return [str(broker) for broker in self._overlay.scot.brokers]

    def url(self, broker: str) -> str:
        """Return where clients reach a broker."""
        found = self._overlay.scot.broker(broker)
        return f"octopia://{self._addresses[found]}/{found}"

    def connect(self, broker: str | None = None, **options: Any) -> Client:
        """Return a client of a broker (the first one by default), to be entered; options as for octopia.connect."""
        return connect(self.url(broker or self.brokers[0]), **options)

    def throttle(self, source: str, target: str, *, rate: float | None = None, delay_ms: float | None = None) -> None:
        """Slow down one direction of a link: publications per second, milliseconds; a rate of 0 lifts the limit."""
        scot = self._overlay.scot
        self.nodes[scot.broker(source)].set_shape(scot.broker(target), LinkShape(rate, delay_ms))

    # Faults, for tests.

    def crash(self, broker: str) -> None:
        """Let a broker die with all that it knows."""
        self.nodes.pop(self._overlay.scot.broker(broker)).kill()

    async def restart(self, broker: str) -> None:
        """Start a crashed broker again, without memory, at its old address."""
        found = self._overlay.scot.broker(broker)
        node = self._make_node(found)
        await node.listen(self._addresses[found])
        node.start(self._addresses)

    def cut(self, one: str, other: str) -> None:
        """Break the connection of a link, as a network would; it comes back by itself."""
        scot = self._overlay.scot
        connection = self.nodes[scot.broker(one)].links[scot.broker(other)].connection
        if connection is not None:
            connection.abort()

    # Waiting.

    def is_ready(self) -> bool:
        """Whether all links are up and all brokers take publications."""
        return all(node.is_connected and node.broker.accepts_data for node in self.nodes.values())

    async def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = READY_S) -> None:
        """Wait until something holds that a broker's input makes true."""
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        try:
            await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise Unavailable(f"waited {timeout_s:g} s for {what}, in vain") from None
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not future]

    def _make_node(self, broker: BrokerId) -> Node:
        node = self.nodes[broker] = Node(self._overlay, broker, self._settings, observe=self._changed)
        return node

    def _changed(self, _: Node) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(None)
