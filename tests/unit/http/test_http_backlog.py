"""A feed that is not read: it misses ticks, gets a whole one when it has caught up, and is cut off after a while.

And requests that come faster than they are answered.
"""

from __future__ import annotations

import asyncio
import types
from typing import Any

from octopia.http.guard import Guard
from octopia.http.limits import HttpLimits
from octopia.http.server import _Connection


class FakeTransport:
    """A transport whose unread bytes a test sets."""

    def __init__(self) -> None:
        self.unread = 0
        self.is_aborted = False
        self.written: list[bytes] = []

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.is_aborted

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.is_aborted = True


async def _connection(limits: HttpLimits, token: str = "") -> tuple[Any, FakeTransport]:
    feed = types.SimpleNamespace(whole_tick=lambda: b"whole")
    watch, guard = types.SimpleNamespace(feed=feed), Guard("127.0.0.1", token)
    server = types.SimpleNamespace(limits=limits, connections={}, watch=watch, guard=guard)
    connection, transport = _Connection(server), FakeTransport()  # type: ignore[arg-type]
    connection._transport = transport  # type: ignore[assignment]
    connection._send = lambda messages: transport.write(b" ".join(messages))  # type: ignore[method-assign]
    return connection, transport


def test_one_who_has_caught_up_gets_a_whole_tick() -> None:
    async def scenario() -> None:
        connection, transport = await _connection(HttpLimits(backlog_bytes=100))
        connection.on_messages([b"1"])
        transport.unread = 101
        connection.on_messages([b"2"])
        connection.on_messages([b"3"])
        transport.unread = 0
        connection.on_messages([b"4"])
        connection.on_messages([b"5"])
        assert transport.written == [b"1", b"whole", b"5"]

    asyncio.run(scenario())


def test_one_who_never_reads_is_cut_off() -> None:
    async def scenario() -> None:
        connection, transport = await _connection(HttpLimits(backlog_bytes=100, stalled_s=0.0))
        transport.unread = 101
        connection.on_messages([b"1"])
        assert not transport.is_aborted
        while not transport.is_aborted:
            await asyncio.sleep(0)
            connection.on_messages([b"2"])
        assert transport.written == []

    asyncio.run(scenario())


def test_any_number_of_requests_may_come_at_once() -> None:
    async def scenario() -> None:
        connection, transport = await _connection(HttpLimits(), token="secret")
        connection.data_received(b"GET /?token=secret HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2000)
        assert not transport.is_aborted
        assert [each.split(b" ", 2)[1] for each in transport.written] == [b"303"] * 2000

    asyncio.run(scenario())
