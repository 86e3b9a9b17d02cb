"""One HTTP connection without a socket: bytes become requests, and responses become bytes.

A connection carries one request after another; the next one is parsed when the last one is answered. Requests are
``GET`` or ``HEAD`` and have no body. An invalid request raises BadRequest with its status, and the connection ends
after the response to it.
"""

from __future__ import annotations

import dataclasses
import http
import urllib.parse
from collections.abc import Mapping, Sequence

import h11

from octopia.errors import BadRequest
from octopia.http.limits import LIMITS, HttpLimits

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

_HEADERS = (
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
"""The headers of every response: the page loads nothing from elsewhere, and no other site may embed it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request; ``headers`` have lower-case names, and the first value of repeated ones."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def wants_websocket(self) -> bool:
        """True if the request asks for a WebSocket."""
        return self.headers.get("upgrade", "").lower() == "websocket"


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """A response; that of a stream has no body, and parts follow."""

    status: int
    body: bytes = b""
    content_type: str = TEXT
    headers: Sequence[tuple[str, str]] = ()
    is_stream: bool = False


def refusal(error: BadRequest) -> Response:
    """Return the response to a request that cannot be answered."""
    return Response(error.status, f"{error}\n".encode(), headers=error.headers)


class Exchange:
    """The protocol of one connection."""

    def __init__(self, limits: HttpLimits = LIMITS):
        self._limits = limits
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        self._head: h11.Request | None = None
        self._raw = bytearray()
        self._is_first = True
        self.is_over = False
        """True if nothing more can be received or sent."""

    def hand_over(self) -> tuple[bytes, bytes]:
        """Return the bytes of the first request, for the handshake of a WebSocket, and those that came after it."""
        rest, _ = self._h11.trailing_data
        self.is_over = True
        return bytes(self._raw[: len(self._raw) - len(rest)]), rest

    def receive(self, data: bytes) -> Request | None:
        """Take bytes, and return the next request if it is complete; raise BadRequest if it is invalid."""
        if self._is_first:
            self._raw += data
        try:
            self._h11.receive_data(data)
            return self._next()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, f"expected a valid HTTP request, got: {error}") from None

    def proceed(self) -> Request | None:
        """Return the next request if it has already arrived, after the last one was answered."""
        try:
            return self._next()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, f"expected a valid HTTP request, got: {error}") from None

    def _next(self) -> Request | None:
        while not self.is_over:
            event = self._h11.next_event()
            if isinstance(event, h11.Request):
                self._head = event
                self._check(event)
            elif isinstance(event, h11.Data):
                raise BadRequest(413, "expected a request without a body, got one with a body")
            elif isinstance(event, h11.EndOfMessage):
                assert self._head is not None
                return _request(self._head)
            elif isinstance(event, h11.ConnectionClosed):
                self.is_over = True
            else:  # More data is needed, or the last request must be answered first.
                return None
        return None

    def _check(self, head: h11.Request) -> None:
        if len(head.headers) > self._limits.headers:
            raise BadRequest(431, f"expected at most {self._limits.headers} headers, got {len(head.headers)}")
        if head.method not in (b"GET", b"HEAD"):
            method = head.method.decode("ascii", "replace")
            raise BadRequest(405, f"expected the method GET or HEAD, got {method}", [("Allow", "GET, HEAD")])

    def answer(self, response: Response) -> bytes:
        """Return the bytes of a response; the connection stays open unless ``is_over``."""
        if self._h11.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.is_over = True
            return b""
        headers = [*_HEADERS, ("Content-Type", response.content_type), *response.headers]
        if not response.is_stream:
            headers.append(("Content-Length", str(len(response.body))))
        if response.status >= 400:
            headers.append(("Connection", "close"))
        reason = http.HTTPStatus(response.status).phrase
        data = self._h11.send(h11.Response(status_code=response.status, headers=headers, reason=reason)) or b""
        is_head = self._head is not None and self._head.method == b"HEAD"
        if response.is_stream and not is_head:
            return data
        if response.body and not is_head:
            data += self._h11.send(h11.Data(data=response.body)) or b""
        data += self._h11.send(h11.EndOfMessage()) or b""
        self._finish_cycle()
        return data

    def stream(self, data: bytes) -> bytes:
        """Return the bytes of the next part of a stream."""
        return self._h11.send(h11.Data(data=data)) or b""

    def _finish_cycle(self) -> None:
        self._head, self._is_first = None, False
        self._raw.clear()
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        else:
            self.is_over = True


def _request(head: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for name, value in head.headers:
        headers.setdefault(name.decode("ascii"), value.decode("latin-1"))
    try:
        target = urllib.parse.urlsplit(head.target.decode("ascii"))
        query = dict(urllib.parse.parse_qsl(target.query, max_num_fields=16))
    except ValueError as error:
        raise BadRequest(400, f"expected a path and a query, got an invalid target: {error}") from None
    return Request(head.method.decode("ascii"), target.path, query, headers)
