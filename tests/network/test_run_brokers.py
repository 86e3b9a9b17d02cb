"""Brokers of one process, and what runs beside them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence

import pytest

from octopia.addresses import Address
from octopia.errors import Unavailable
from octopia.overlay.files import overlay_from_text
from octopia.runtime.process import run_brokers
from octopia.runtime.server import BrokerServer
from support import at


def test_brokers_stop_even_if_what_runs_beside_them_cannot_be_closed():
    async def run() -> None:
        stop, running = asyncio.Event(), list[BrokerServer]()

        @contextlib.asynccontextmanager
        async def beside(servers: Sequence[BrokerServer]) -> AsyncIterator[None]:
            running.extend(servers)
            stop.set()
            yield
            raise Unavailable("the port cannot be closed")

        overlay = dataclasses.replace(overlay_from_text("path:1", 1), addresses={at("a.0"): Address("127.0.0.1", 0)})
        with pytest.raises(Unavailable, match="the port cannot be closed"):
            await run_brokers(overlay, [at("a.0")], stop=stop, beside=beside)
        (server,) = running
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(server.address.host, server.address.port)

    asyncio.run(run())
