"""A TCP relay with faults: it can break its connections, or swallow all bytes while connections stay."""

from __future__ import annotations

import asyncio
import socket
import struct

HOST = "127.0.0.1"


class Proxy:
    """A relay to one port of this machine."""

    def __init__(self, target_port: int):
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._ends: set[_End] = set()
        self.is_swallowing = False
        self._lost = asyncio.Event()

    async def start(self, port: int = 0) -> int:
        """Listen, and return the port."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Caller(self), HOST, port)
        return self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and break all connections."""
        self.cut()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    def cut(self) -> None:
        """Break all connections."""
        for end in list(self._ends):
            end.reset()

    def swallow(self) -> None:
        """Swallow all bytes in both directions from now on; connections stay, and new ones get no answer."""
        self.is_swallowing = True

    def heal(self) -> None:
        """Relay again; connections that lost bytes cannot go on, and are broken."""
        self.is_swallowing = False
        for end in list(self._ends):
            if end.has_lost:
                end.reset()

    def note_loss(self, end: _End) -> None:
        """Mark an end whose bytes were swallowed."""
        end.has_lost = True
        self._lost.set()

    async def has_swallowed_from(self, ends: int) -> None:
        """Wait until bytes of this many ends were swallowed."""
        while sum(end.has_lost for end in self._ends) < ends:
            self._lost.clear()
            await self._lost.wait()


class _End(asyncio.Protocol):
    """One end of a relayed connection."""

    def __init__(self, proxy: Proxy, other: _End | None = None):
        self.proxy = proxy
        self.other = other
        self.has_lost = False
        self.early: list[bytes] = []
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.proxy._ends.add(self)

    def reset(self) -> None:
        """Break the connection as a network does, with a reset instead of an orderly end."""
        connected = self.transport.get_extra_info("socket")
        if not self.transport.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.proxy.is_swallowing or self.has_lost:
            self.proxy.note_loss(self)
        elif self.other is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.proxy._ends.discard(self)
        if self.other is None:
            return
        if self.proxy.is_swallowing:
            self.proxy.note_loss(self.other)  # The other end hears of it when the proxy heals.
        elif error is None:
            self.other.transport.close()
        else:
            self.other.reset()

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()


class _Caller(_End):
    """The end that called; the other one is connected when it has."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.proxy.is_swallowing:
            self.proxy.note_loss(self)
            return
        self._task = asyncio.get_running_loop().create_task(self._reach())

    async def _reach(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, other = await loop.create_connection(lambda: _End(self.proxy, self), HOST, self.proxy._target_port)
        except OSError:
            self.transport.abort()
            return
        if self.transport.is_closing():
            other.transport.abort()
            return
        self.other = other
        for data in self.early:
            other.transport.write(data)
        self.early.clear()
