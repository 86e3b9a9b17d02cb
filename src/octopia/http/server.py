"""The HTTP port: sockets and deadlines around the pure parts.

A connection answers one request after another, or becomes a feed. A fault ends that connection only.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
from collections.abc import Coroutine
from typing import Any, cast

from octopia.addresses import Address
from octopia.errors import BadRequest, OctopiaError, Unavailable
from octopia.http import commands, feed
from octopia.http.exchange import Exchange, Request, Response, refusal
from octopia.http.guard import Guard
from octopia.http.limits import LIMITS, HttpLimits
from octopia.http.site import Site
from octopia.http.snapshot import Source
from octopia.http.watch import Watch
from octopia.http.websocket import FeedSocket
from octopia.transport.tls import TLS_S

STOP_S = 1.0
"""The time limit for connections to end when the port is closed."""

UNREAD_MAX = 8
"""The number of backlogs of unread data, of any kind, at which a connection is dropped at once."""

_BUSY = Response(503, b"too many connections: close some\n")
_POLICY_VIOLATION = 1008
"""The close code of a WebSocket whose token is no longer accepted."""
_TRY_AGAIN_LATER = 1013
"""The close code of a WebSocket that the server cannot serve now."""

_log = logging.getLogger(__name__)


def bind(address: Address) -> socket.socket:
    """Return a socket that listens at an address; raise Unavailable if that is not possible."""
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        advice = ": choose another port with --http" if error.errno == errno.EADDRINUSE else ""
        # The numbers of name resolution are negative, and unknown to os.strerror.
        number = error.errno or 0
        known = os.strerror(number) if number > 0 else error.strerror or str(error)
        problem = known.partition(" (while ")[0]
        raise Unavailable(f"HTTP cannot be served at {address}: {problem}{advice}") from None


class HttpServer:
    """One HTTP port."""

    def __init__(self, source: Source, guard: Guard, limits: HttpLimits = LIMITS):
        self.watch = Watch(source)
        self.guard = guard
        self.limits = limits
        self.site = Site(self.watch)
        self.connections: dict[_Connection, None] = {}
        self.feeds = 0
        self._server: asyncio.Server | None = None

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> Address:
        """Start serving requests, over TLS if its settings are given, and return the address."""
        loop = asyncio.get_running_loop()
        timeout_s = None if tls is None else TLS_S
        self._server = await loop.create_server(
            lambda: _Connection(self), sock=listener, ssl=tls, ssl_handshake_timeout=timeout_s
        )
        return Address(*listener.getsockname()[:2])

    async def close(self) -> None:
        """Close the port and all its connections."""
        if self._server is not None:
            self._server.close()
        closing = [asyncio.ensure_future(each.ended.wait()) for each in self.connections]
        for connection in list(self.connections):
            connection.close()
        if closing:
            await asyncio.wait(closing, timeout=STOP_S)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.gather(*closing)
        await self.watch.close()


class _Connection(asyncio.Protocol):
    """A connection: requests, then perhaps a feed."""

    def __init__(self, server: HttpServer):
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._exchange = Exchange(server.limits)
        self._socket: FeedSocket | None = None
        self._is_streaming = False
        self._is_feed = False
        self._is_answering = False
        self._may_command = False
        self._token = ""
        self._is_reading = True
        self._is_writable = True
        self._is_behind = False
        self._behind_since_s = 0.0
        self._commands_left = server.limits.commands_per_second
        self._counted_s = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()

    # For the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it
        if len(self._server.connections) >= self._limits.connections:
            self._write(self._exchange.answer(_BUSY))
            self._end()
            return
        self._server.connections[self] = None
        self._expect(self._limits.request_s)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.pop(self, None)
        if self._is_feed:
            self._server.feeds -= 1
            self._server.watch.forget(self)
        if self._deadline is not None:
            self._deadline.cancel()
        for task in self._tasks:
            task.cancel()
        self._transport = None
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        try:
            if self._socket is not None:
                self._on_texts(self._socket, data)
            elif not self._is_streaming:  # Data after the request of a stream is ignored.
                self._on_request(self._exchange.receive(data))
        except BadRequest as error:
            self._write_answer(refusal(error))
        except Exception:  # A bug, which ends this connection only.
            _log.exception("event=internal_error where=http")
            self.abort()

    def eof_received(self) -> bool:
        if self._socket is None and not self._is_answering:
            self._end()
        return False

    def pause_writing(self) -> None:
        """Read no more requests from a client that does not read its answers."""
        self._is_writable = False
        if not self._is_feed:
            self._expect(self._limits.request_s)
            self._update_reading()

    def resume_writing(self) -> None:
        self._is_writable = True
        if not self._is_feed:
            self._expect(self._limits.idle_s)
            self._update_reading()

    def _update_reading(self) -> None:
        """Pause reading while a request is answered, or while answers are unread, so that nothing piles up here."""
        should_read = self._is_feed or (self._is_writable and not self._is_answering)
        if self._transport is None or self._transport.is_closing() or should_read == self._is_reading:
            return
        self._is_reading = should_read
        self._transport.resume_reading() if should_read else self._transport.pause_reading()

    # Requests.

    def _on_request(self, request: Request | None) -> None:
        """Answer a request, and then those that came with it, until one is answered later or opens a feed."""
        guard = self._server.guard
        while request is not None:
            self._is_answering = True
            self._expect(self._limits.request_s)
            guard.check(request)
            if request.path == "/feed":
                self._open_feed(request)
                return
            if request.path != "/" or not guard.offers_token(request):
                self._update_reading()
                self._start(self._respond(request))
                return
            moved = Response(303, headers=[("Location", "/"), ("Set-Cookie", guard.cookie(request))])
            request = self._exchange.proceed() if self._write_answer(moved) else None
        if self._exchange.is_over:
            self._end()

    async def _respond(self, request: Request) -> None:
        try:
            self._answer(await self._server.site.respond(request))
        except BadRequest as error:
            self._answer(refusal(error))
        except Exception:
            _log.exception("event=internal_error where=http")
            self._answer(Response(500, b"internal error: see the log\n"))

    def _answer(self, response: Response) -> None:
        """Answer a request, and then those that came with it."""
        if not self._write_answer(response):
            return
        try:
            self._on_request(self._exchange.proceed())
        except BadRequest as error:
            self._write_answer(refusal(error))

    def _write_answer(self, response: Response) -> bool:
        """Write a response, and return whether the connection takes another request."""
        self._write(self._exchange.answer(response))
        self._is_answering = False
        if self._exchange.is_over or response.status >= 400:
            self._end()
            return False
        self._expect(self._limits.idle_s)
        self._update_reading()
        return True

    # Feeds.

    def _open_feed(self, request: Request) -> None:
        rest = b""
        self._may_command = self._server.guard.may_command(request)
        self._token = self._server.guard.token_of(request)
        if self._server.feeds >= self._limits.feeds:
            raise BadRequest(503, f"expected at most {self._limits.feeds} feeds, got one more: close some")
        if request.wants_websocket:
            handshake, rest = self._exchange.hand_over()
            self._socket = FeedSocket(handshake, self._limits)
            self._write(self._socket.data_to_send())
            if not self._socket.is_open:
                self._end()
                return
        else:
            self._may_command = False
            self._is_streaming = True
            self._write(self._exchange.answer(Response(200, content_type="text/event-stream", is_stream=True)))
            if request.method == "HEAD":
                self._end()
                return
        self._is_feed = True
        self._server.feeds += 1
        if self._deadline is not None:
            self._deadline.cancel()
        self._start(self._join())
        if self._socket is not None:
            self._on_texts(self._socket, rest)

    async def _join(self) -> None:
        watch = self._server.watch
        await watch.listen(self)
        self._send([watch.feed.hello(may_command=self._may_command), watch.feed.whole_tick()])

    def on_messages(self, messages: list[bytes]) -> None:
        """Send the messages of a tick; a listener that reads too slowly gets a whole tick when it has caught up."""
        if self._transport is None:
            return
        if not self._server.guard.still_accepts(self._token):
            self.close(_POLICY_VIOLATION, "the token has expired or was revoked")
            return
        now_s, unread = self._loop.time(), self._transport.get_write_buffer_size()
        if unread > self._limits.backlog_bytes:
            if not self._is_behind:
                self._is_behind, self._behind_since_s = True, now_s
            elif now_s - self._behind_since_s > self._limits.stalled_s:
                self.abort()
            return
        if self._is_behind:
            self._is_behind = False
            messages = [self._server.watch.feed.whole_tick()]
        self._send(messages)

    def _send(self, messages: list[bytes]) -> None:
        if self._socket is not None:
            for message in messages:
                self._socket.send(message)
            self._write(self._socket.data_to_send())
        else:
            self._write(self._exchange.stream(b"".join(b"data: " + each + b"\n\n" for each in messages)))

    def _on_texts(self, stream: FeedSocket, data: bytes) -> None:
        for text in stream.receive(data):
            self._on_command(text)
        self._write(stream.data_to_send())
        if stream.is_over:
            self._end()

    def _on_command(self, text: str) -> None:
        try:
            if not self._may_command:
                raise BadRequest(403, "expected a command from the page of this port, got one from another client")
            if not self._server.guard.still_accepts(self._token):
                raise BadRequest(401, "expected a token that is valid, got one that has expired or was revoked")
            command = commands.parse(text)
            self._count_command()
        except BadRequest as error:
            self._send([feed.done(commands.ref_of(text), str(error))])
            return
        self._start(self._carry_out(command))

    def _count_command(self) -> None:
        """Raise BadRequest if commands come too fast."""
        now_s, most = self._loop.time(), self._limits.commands_per_second
        self._commands_left = min(most, self._commands_left + (now_s - self._counted_s) * most)
        self._counted_s = now_s
        if self._commands_left < 1.0:
            raise BadRequest(429, f"expected at most {most:g} commands per second, got more: try again later")
        self._commands_left -= 1.0

    async def _carry_out(self, command: commands.Do) -> None:
        problem = ""
        try:
            await commands.carry_out(command, self._server.watch.source)
        except OctopiaError as error:
            problem = str(error)
        self._send([feed.done(command.ref, problem)])

    # The end.

    def close(self, code: int = _TRY_AGAIN_LATER, reason: str = "the brokers are shutting down") -> None:
        """Close with a reason, as far as the protocol has one."""
        if self._socket is not None:
            self._socket.close(code, reason)
            self._write(self._socket.data_to_send())
        self._end()

    def abort(self) -> None:
        """Drop the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _end(self) -> None:
        """Close once everything is written, or after a time limit."""
        if self._transport is None:
            return
        self._expect(self._limits.request_s)
        with contextlib.suppress(OSError, RuntimeError):
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > UNREAD_MAX * self._limits.backlog_bytes:
                self.abort()  # The other end never reads its answers.

    def _expect(self, within_s: float) -> None:
        """Drop the connection unless something happens in time."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(within_s, self.abort)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
