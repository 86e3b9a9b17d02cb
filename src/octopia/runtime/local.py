"""A whole overlay inside the caller's process, for tests, notebooks and first steps.

The brokers are those that ``octopia up`` runs. They listen on free ports of this machine and talk over TCP.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from types import TracebackType
from typing import Any

from octopia.addresses import Address
from octopia.broker import BrokerSettings
from octopia.client import connect
from octopia.client.client import ConnectContext
from octopia.client.urls import url_of
from octopia.errors import Unavailable, UsageError
from octopia.ids import BrokerId
from octopia.node import NodeSettings
from octopia.overlay import LinkShape
from octopia.overlay.files import Overlay as OverlayFile
from octopia.overlay.files import overlay_from_text
from octopia.overlay.trees import default_clusters
from octopia.runtime.defaults import NODE_SETTINGS, default_settings
from octopia.runtime.server import BrokerServer
from octopia.settings import RoutingSettings

READY_S = 10.0
"""The time limit for an overlay to be ready."""

ANYWHERE = Address("127.0.0.1", 0)


class Overlay:
    """An overlay in this process; use it with ``async with``, or call ``start`` and ``stop``."""

    def __init__(
        self,
        overlay: OverlayFile,
        settings: BrokerSettings | None = None,
        node_settings: NodeSettings = NODE_SETTINGS,
    ):
        self._overlay = overlay
        self._node_settings = node_settings
        self._settings = settings or default_settings(overlay)
        self._addresses: dict[BrokerId, Address] = {}
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._servers: dict[BrokerId, BrokerServer] = {}

    @classmethod
    def local(
        cls, tree: str = "path:3", clusters: int | None = None, *, routing: RoutingSettings | None = None
    ) -> Overlay:
        """Return an overlay, not started yet, from a tree expression and a number of clusters.

        The default number is the paper's for ``paper:…`` and 4 for other trees. Routing is adaptive by default.
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
            server = self._make_server(broker)
            self._addresses[broker] = await server.listen(ANYWHERE)
        for server in self._servers.values():
            server.start(self._addresses)
        await self.wait_until(self.is_ready, f"the {len(self._servers)} brokers to be connected to each other")

    async def stop(self) -> None:
        """Stop all brokers."""
        await asyncio.gather(*(server.stop() for server in self._servers.values()))
        self._servers.clear()

    @property
    def brokers(self) -> list[str]:
        """The names of all brokers."""
        return [str(broker) for broker in self._overlay.scot.brokers]

    def url(self, broker: str) -> str:
        """Return the URL of a broker."""
        found = self._overlay.scot.broker(broker)
        if found not in self._addresses:
            raise UsageError("expected an overlay that was started, got one that was not: use `async with`, or start()")
        return url_of(
            dataclasses.replace(self._addresses[found], speaks_tls=self._overlay.security.has_tls), str(found)
        )

    def connect(self, broker: str | None = None, **options: Any) -> ConnectContext:
        """Connect to a broker (by default the first); await the result, or use it with ``async with``.

        Options are those of ``octopia.connect``.
        """
        return connect(self.url(broker or self.brokers[0]), **options)

    def throttle(self, source: str, target: str, *, rate: float | None = None, delay_ms: float | None = None) -> None:
        """Limit one direction of a link to a rate in publications per second (0: none), and set its delay."""
        self._server_of(source, target).set_shape(self._overlay.scot.broker(target), LinkShape(rate, delay_ms))

    # Faults, for tests.

    def crash(self, broker: str) -> None:
        """Stop a broker at once; it loses all its state."""
        self._server_of(broker).kill()
        del self._servers[self._overlay.scot.broker(broker)]

    async def restart(self, broker: str) -> None:
        """Restart a crashed broker without state, at its old address."""
        found = self._overlay.scot.broker(broker)
        server = self._make_server(found)
        await server.listen(self._addresses[found])
        server.start(self._addresses)

    def cut(self, one: str, other: str) -> None:
        """Break the connection of a link; the brokers reconnect."""
        connection = self._server_of(one, other).lines[self._overlay.scot.broker(other)].connection
        if connection is not None:
            connection.abort()

    # Waiting.

    def is_ready(self) -> bool:
        """Return whether all links are up and all brokers accept publications."""
        return all(server.is_connected and server.broker.accepts_data for server in self._servers.values())

    async def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = READY_S) -> None:
        """Wait until a condition holds; it is checked after each input of a broker."""
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        try:
            await asyncio.wait_for(future, timeout)
        except TimeoutError:
            raise Unavailable(f"timed out after {timeout:g} s, waiting for {what}") from None
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not future]

    def _server_of(self, broker: str, neighbour: str | None = None) -> BrokerServer:
        """Return a broker that runs, and that has a link to a neighbour if one is named."""
        found = self._overlay.scot.broker(broker)
        server = self._servers.get(found)
        if server is None:
            raise UsageError(f"expected a broker that runs, got {broker}, which does not")
        if neighbour is not None and self._overlay.scot.broker(neighbour) not in server.lines:
            neighbours = ", ".join(map(str, server.lines))
            raise UsageError(f"expected a neighbour of {broker} ({neighbours}), got {neighbour}")
        return server

    def _make_server(self, broker: BrokerId) -> BrokerServer:
        server = self._servers[broker] = BrokerServer(
            self._overlay, broker, self._settings, self._node_settings, observe=self._changed
        )
        return server

    def _changed(self, _: BrokerServer) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(None)
