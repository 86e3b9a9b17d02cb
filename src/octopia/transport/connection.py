"""One TCP connection: items in and out, in batches.

Reading and writing in batches decides how much a process can carry. All whole frames of one read are handed over
together; all that is to be written in one turn of the event loop is joined and written once.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Protocol, cast

from octopia.addresses import Address
from octopia.errors import BadFrame, ClosedByPeer, PeerError
from octopia.wire import CloseCode, Closing, Limits, Opening, Reader, WireItem, encode

HANDSHAKE_S = 2.0
"""How long the other end of a new connection may take to say who it is."""
LINGER_S = 5.0
"""How long a connection that is being closed may take to write what is left."""
WRITE_HIGH_BYTES = 256 * 1024
"""When so much waits to be written, nothing more is taken from queues."""


class Owner(Protocol):
    """Whoever a connection belongs to."""

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Take what came, in order; an Opening only if none was expected before."""

    def on_writable(self, connection: Connection) -> None:
        """Learn that the connection can carry more again."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Learn that nothing more will come, and why, if the other end said so or did something wrong."""


class Connection(asyncio.Protocol):
    """A connection, from either end. It belongs to its greeter until the other end has said who it is."""

    def __init__(self, owner: Owner, limits: Limits = Limits()):  # noqa: B008 (it is frozen)
        self.owner = owner
        self.is_open = False
        self.is_writable = True
        self.is_closing = False
        self._reader = Reader(limits)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outbox: list[bytes] = []
        self._reason: PeerError | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    # What owners do.

    @property
    def peer_address(self) -> str:
        """Where the other end is, for people."""
        if self._transport is None:
            return "nowhere"
        address = self._transport.get_extra_info("peername")
        return str(Address(*address[:2])) if address else "somewhere"

    @property
    def is_from_here(self) -> bool:
        """Whether the other end is on this machine."""
        if self._transport is None:
            return False
        there, here = self._transport.get_extra_info("peername"), self._transport.get_extra_info("sockname")
        return bool(there and here) and (there[0] == here[0] or there[0] in ("127.0.0.1", "::1"))

    def set_limits(self, limits: Limits) -> None:
        """Accept frames of other lengths from now on."""
        self._reader.limits = limits

    def expect_opening(self) -> None:
        """Close the connection if the other end does not say in time who it is."""
        self._deadline = self._loop.call_later(HANDSHAKE_S, self._too_late)

    def opened(self) -> None:
        """Note that the other end has said who it is."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send(self, items: Iterable[WireItem]) -> None:
        """Write items at the end of this turn of the event loop, together with what others write."""
        if self.is_closing or not self.is_open:
            return
        outbox = self._outbox
        if not outbox:
            self._loop.call_soon(self._flush)
        outbox.extend(map(encode, items))

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Say why, write what is left, and close when the other end does; after a while without ceremony.

        Until then what comes is read and ignored. A socket that is closed with something unread in it takes back what
        the other end has not read yet, the reason among it.
        """
        if self.is_closing:
            return
        self.send([Closing(code, reason)])
        self._flush()
        self.is_closing = True
        if self._transport is None:
            return
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()
        self.opened()
        self._deadline = self._loop.call_later(LINGER_S, self._transport.abort)

    async def wait_closed(self) -> None:
        """Wait until nothing more can come."""
        if self._transport is not None:
            await self._ended.wait()

    def abort(self) -> None:
        """Close at once; what was not written is lost."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        stream = cast("asyncio.Transport", transport)  # that of uvloop is none by inheritance
        self._transport = stream
        if self.is_closing:
            stream.abort()
            return
        self.is_open = True
        stream.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        raw = stream.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """Hand over the items of one read; a bad frame ends the connection, after the good ones before it."""
        if self.is_closing:
            return
        items: list[WireItem] = []
        try:
            items.extend(self._reader.feed(data))
        except BadFrame as error:
            self._reason = error
        closing = next((item for item in items if type(item) is Closing), None)
        if closing is not None:
            items = items[: items.index(closing)]
            self._reason = ClosedByPeer(closing.code, closing.reason)
        if items:
            self._hand_over(items)
        if closing is not None:
            self.abort()
        elif self._reason is not None:
            self.close(CloseCode.BAD_FRAME, str(self._reason))

    def _hand_over(self, items: list[WireItem]) -> None:
        # Who an Opening comes from may become the owner; what follows is for the new one.
        while items:
            is_opening = type(items[0]) is Opening
            self.owner.on_items(self, items[:1] if is_opening else items)
            items = items[1:] if is_opening and not self.is_closing else []

    def pause_writing(self) -> None:
        """Take nothing more from queues for now."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Go on."""
        self.is_writable = True
        self.owner.on_writable(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self.opened()
        self.is_open = False
        self.is_closing = True
        self._ended.set()
        self.owner.on_closed(self, self._reason)

    def _flush(self) -> None:
        if self._outbox and self._transport is not None and not self.is_closing:
            data = b"".join(self._outbox)
            self._outbox = []
            self._transport.write(data)

    def _too_late(self) -> None:
        self.close(CloseCode.TIMEOUT, f"expected an Opening within {HANDSHAKE_S:g} s")
