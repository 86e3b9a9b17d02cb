"""One TCP connection: items in and out, in batches.

Batches determine the throughput of a process. All complete frames of one read are delivered together, and all items
that are sent in one turn of the event loop are joined into one write.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Iterable
from typing import Any, Protocol, cast

from octopia.addresses import Address
from octopia.errors import AccessDenied, BadFrame, ClosedByPeer, PeerError, TlsFailure
from octopia.protocol import CloseCode, Closing, Opening, WireItem
from octopia.transport.tls import TLS_S, TlsLayer, begins_handshake
from octopia.wire import Limits, Reader, encode_all

GREETING_S = 2.0
"""The time within which the peer of an accepted connection must identify itself."""
HANDSHAKE_S = 4.0
"""The time within which a broker must answer the end that dialled.

It is longer than a broker needs to accept a full backlog of connections: those who gave up would connect again.
"""
LINGER_S = 5.0
"""The time that a closing connection may take to write the rest of its data."""
READ_BYTES = 64 * 1024
"""The maximum size of one read, so that handling it does not keep other connections waiting."""
WRITE_HIGH_BYTES = 256 * 1024
"""With this much unwritten data, nothing more is taken from queues."""


class Owner(Protocol):
    """The object that handles the events of a connection."""

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Handle received items, in order; an Opening that comes first is delivered alone."""

    def on_capacity_changed(self, connection: Connection) -> None:
        """Handle a change of ``is_writable``."""

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Handle the end of the connection; ``reason`` is set if the peer gave one or made a mistake."""


_buffers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, bytearray] = weakref.WeakKeyDictionary()


def _buffer_of(loop: asyncio.AbstractEventLoop) -> bytearray:
    """Return the read buffer of an event loop. Each read is copied from it before the next one begins."""
    buffer = _buffers.get(loop)
    if buffer is None:
        buffer = _buffers[loop] = bytearray(READ_BYTES)
    return buffer


class Connection(asyncio.BufferedProtocol):
    """One end of a connection. Its first owner greets the peer; the Opening may change the owner.

    With ``tls``, items that are sent during the handshake follow it.
    """

    def __init__(self, owner: Owner, limits: Limits = Limits(), tls: TlsLayer | None = None):  # noqa: B008 (frozen)
        self.owner = owner
        self.is_open = False
        self.is_writable = True
        self.is_closing = False
        self._tls = tls
        self._tls_deadline: asyncio.TimerHandle | None = None
        self._has_read = False
        self._reader = Reader(limits)
        self._loop = asyncio.get_running_loop()
        self._buffer = _buffer_of(self._loop)
        self._transport: asyncio.Transport | None = None
        self._outbox: list[bytes | bytearray] = []
        self._reason: PeerError | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()
        self._peer_name: tuple[Any, ...] = ()

    # For owners.

    @property
    def peer_address(self) -> str:
        """The address of the peer, for people."""
        return str(Address(*self._peer_name[:2])) if self._peer_name else "unknown"

    @property
    def peer_host(self) -> str:
        """The address of the peer's machine."""
        return str(self._peer_name[0]) if self._peer_name else "unknown"

    @property
    def is_from_here(self) -> bool:
        """True if the peer is on this machine."""
        if self._transport is None:
            return False
        there, here = self._transport.get_extra_info("peername"), self._transport.get_extra_info("sockname")
        return bool(there and here) and (there[0] == here[0] or there[0] in ("127.0.0.1", "::1"))

    @property
    def peer_brokers(self) -> tuple[str, ...]:
        """The brokers that the certificate of the peer names; none if it has shown none."""
        return () if self._tls is None else self._tls.peer_brokers

    def set_limits(self, limits: Limits) -> None:
        """Change the limits on received frames."""
        self._reader.limits = limits

    def expect_opening(self) -> None:
        """Close a dialled connection if the broker does not send its Opening in time."""
        self._expect(HANDSHAKE_S)

    def expect_greeting(self) -> None:
        """Close an accepted connection if the peer does not identify itself in time."""
        self._expect(GREETING_S)

    def _expect(self, within_s: float) -> None:
        self._deadline = self._loop.call_later(within_s, self._too_late, within_s)

    def opened(self) -> None:
        """Cancel the deadline of ``expect_opening`` or ``expect_greeting``."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def send(self, items: Iterable[WireItem]) -> None:
        """Write items at the end of this turn of the event loop, joined with all others of the turn."""
        if self.is_closing or not self.is_open:
            return
        outbox = self._outbox
        if not outbox:
            self._loop.call_soon(self._flush)
        outbox.append(encode_all(items))

    def close(self, code: CloseCode, reason: str = "", incarnation: int = 0, retry_ms: int = 0) -> None:
        """Send the reason and all pending data, and close when the peer closes, or after ``LINGER_S``.

        Until then received data is ignored. Closing a socket with unread data would discard what the peer has not read
        yet, including the reason.
        """
        if self.is_closing:
            return
        self.send([Closing(code, reason, incarnation, retry_ms)])
        self._flush()
        self.is_closing = True
        if self._transport is None:
            return
        if self._tls is not None and self._tls.is_established:
            self._tls.close()
            self._write_encrypted()
        try:
            self._transport.write_eof()
        except (OSError, NotImplementedError):  # The peer is gone, or the transport has no such thing.
            self._transport.close()
        self.opened()
        self._deadline = self._loop.call_later(LINGER_S, self._transport.abort)

    async def wait_closed(self) -> None:
        """Wait until the connection has ended."""
        if self._transport is not None:
            await self._ended.wait()

    def abort(self) -> None:
        """Close immediately; unwritten data is lost."""
        self.is_closing = True
        if self._transport is not None:
            self._transport.abort()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection."""
        stream = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it
        self._transport = stream
        self._peer_name = stream.get_extra_info("peername") or ()
        if self.is_closing:
            stream.abort()
            return
        self.is_open = True
        stream.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        raw = stream.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            self._tls_deadline = self._loop.call_later(TLS_S, self._handshake_too_late)
            self._tls.begin()
            self._write_encrypted()

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return the buffer for the next read, which all connections of an event loop share."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Deliver the items of one read; a bad frame closes the connection, after the items before it."""
        if self.is_closing:
            return
        data: bytes | memoryview = memoryview(self._buffer)[:nbytes]
        if self._tls is not None:
            data = self._decrypted(self._tls, data)
            if not data:
                return
        items: list[WireItem] = []
        try:
            if not self._has_read:
                self._begin_reading(data)
            self._reader.read(data, items)
        except BadFrame as error:
            self._reason = error
        closing = None
        if Closing in map(type, items):
            closing = next(item for item in items if isinstance(item, Closing))
            items = items[: items.index(closing)]
            self._reason = _to_error(closing)
        if items:
            self._hand_over(items)
        if closing is not None:
            self.abort()
        elif self._reason is not None:
            self.close(CloseCode.BAD_FRAME, str(self._reason))

    def _hand_over(self, items: list[WireItem]) -> None:
        # An Opening may change the owner; the items after it are for the new owner.
        while items:
            is_opening = type(items[0]) is Opening
            self.owner.on_items(self, items[:1] if is_opening else items)
            items = items[1:] if is_opening and not self.is_closing else []

    def pause_writing(self) -> None:
        """Stop taking from queues."""
        self.is_writable = False
        self.owner.on_capacity_changed(self)

    def resume_writing(self) -> None:
        """Continue to take from queues."""
        self.is_writable = True
        self.owner.on_capacity_changed(self)

    def connection_lost(self, error: Exception | None) -> None:
        """End the connection."""
        self.opened()
        self._end_handshake()
        self.is_open = False
        self.is_closing = True
        self._ended.set()
        self.owner.on_closed(self, self._reason)

    def _flush(self) -> None:
        if self._outbox and self._transport is not None and not self.is_closing:
            if self._tls is not None and not self._tls.is_established:
                return
            data = b"".join(self._outbox) if len(self._outbox) > 1 else self._outbox[0]
            self._outbox = []
            if self._tls is None:
                self._transport.write(data)
            else:
                self._tls.encrypt(data)
                self._write_encrypted()

    # TLS.

    def _begin_reading(self, data: bytes | memoryview) -> None:
        self._has_read = True
        if self._tls is None and len(data) > 2 and begins_handshake(data):
            raise BadFrame(
                "expected a plain connection, got TLS: use octopia://, or configure [security] of the broker"
            )

    def _decrypted(self, tls: TlsLayer, data: bytes | memoryview) -> bytes:
        """Return what is in received bytes; a failure closes the connection."""
        was_established = tls.is_established
        try:
            plain = tls.feed(data)
        except TlsFailure as error:
            self._fail_handshake(tls, error)
            return b""
        self._write_encrypted()
        if tls.is_established and not was_established:
            self._end_handshake()
            self._flush()
        return plain

    def _fail_handshake(self, tls: TlsLayer, error: TlsFailure) -> None:
        self._reason = error
        self._write_encrypted()  # This may be an alert, which says more than the end of the connection.
        if tls.has_plain_peer:
            self._tls = None
            self.close(CloseCode.TLS_REQUIRED, "this broker speaks TLS: use octopias://")
        else:
            self._outbox.clear()
            self.close(CloseCode.VIOLATION)

    def _write_encrypted(self) -> None:
        if self._tls is not None and self._transport is not None and (data := self._tls.take()):
            self._transport.write(data)

    def _end_handshake(self) -> None:
        if self._tls_deadline is not None:
            self._tls_deadline.cancel()
            self._tls_deadline = None

    def _handshake_too_late(self) -> None:
        self._tls_deadline = None
        self._reason = TlsFailure(f"expected a TLS handshake within {TLS_S:g} s")
        self.abort()

    def _too_late(self, within_s: float) -> None:
        self.close(CloseCode.TIMEOUT, f"expected an Opening within {within_s:g} s")


def _to_error(closing: Closing) -> PeerError:
    """Return the error for a connection that the peer closed."""
    if closing.code is CloseCode.TLS_REQUIRED:
        return TlsFailure(closing.reason)
    kind = AccessDenied if closing.code is CloseCode.ACCESS_DENIED else ClosedByPeer
    return kind(closing.code, closing.reason, closing.incarnation, closing.retry_ms)
