"""Closing a connection whose other end is gone already."""

from __future__ import annotations

import asyncio

from octopia.protocol import CloseCode
from octopia.transport import Connection


class Gone(asyncio.Transport):
    """A transport as asyncio has it after the peer has reset the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes) -> None:
        pass

    def write_eof(self) -> None:
        raise OSError(107, "Transport endpoint is not connected")

    def close(self) -> None:
        self.is_closed = True


def test_a_peer_that_is_gone_cannot_make_closing_fail():
    async def run() -> None:
        transport = Gone()
        connection = Connection(owner=None)
        connection.connection_made(transport)
        connection.close(CloseCode.TIMEOUT, "expected an Opening")
        assert transport.is_closed
        connection.opened()

    asyncio.run(run())
