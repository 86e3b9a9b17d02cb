"""A small HTTP client for tests, and an HTTP port beside the brokers of a local overlay."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from octopia.addresses import Address
from octopia.http.guard import Guard
from octopia.http.limits import LIMITS, HttpLimits
from octopia.http.server import HttpServer, bind
from octopia.http.sources import LocalSource
from octopia.runtime.local import Overlay


@contextlib.asynccontextmanager
async def http_beside(
    overlay: Overlay, limits: HttpLimits = LIMITS, token: str = "", host: str = "127.0.0.1"
) -> AsyncIterator[Address]:
    """Serve HTTP for all brokers of an overlay in this process, and yield the address."""
    source = LocalSource(overlay._overlay, list(overlay._servers.values()))
    server = HttpServer(source, Guard(host, token), limits)
    try:
        yield await server.listen(bind(Address("127.0.0.1", 0)))
    finally:
        await server.close()


async def exchange(address: Address, data: bytes, timeout_s: float = 10.0) -> bytes:
    """Send bytes, and return everything that comes back before the port closes the connection."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), timeout_s)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def get(address: Address, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body of a response."""
    fields = {"Host": str(address), "Connection": "close"} | {
        key.replace("_", "-"): each for key, each in headers.items()
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    answer = await exchange(address, ("\r\n".join(lines) + "\r\n\r\n").encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *rest = head.decode().split("\r\n")
    return int(status.split()[1]), {name.lower(): value for name, value in (line.split(": ", 1) for line in rest)}, body


def feed_of(address: Address, **options: Any) -> connect:
    """Return a connection to the feed as the page has one, to be used with ``async with``."""
    return connect(f"ws://{address}/feed", **({"origin": f"http://{address}"} | options))


async def next_message(socket: ClientConnection, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the next message that is wanted."""
    async with asyncio.timeout(15.0):
        while True:
            message: dict[str, Any] = json.loads(await socket.recv())
            if wanted(message):
                return message


async def tell(socket: ClientConnection, **command: Any) -> dict[str, Any]:
    """Send a command, and return its answer."""
    await socket.send(json.dumps({"type": "do", "ref": 7, **command}))
    return await next_message(socket, lambda message: message["type"] == "done")
