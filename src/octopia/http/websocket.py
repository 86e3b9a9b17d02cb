"""One WebSocket without a socket: bytes become text messages, and text messages become bytes."""

from __future__ import annotations

from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from octopia.errors import BadRequest
from octopia.http.limits import LIMITS, HttpLimits


class FeedSocket:
    """The protocol of one WebSocket, starting with the bytes of its request; raises BadRequest if it is invalid."""

    def __init__(self, request: bytes, limits: HttpLimits = LIMITS):
        self._protocol = ServerProtocol(max_size=limits.message_bytes)
        self._parts: list[bytes] = []
        self._protocol.receive_data(request)
        asked = [event for event in self._protocol.events_received() if isinstance(event, Request)]
        if not asked:
            raise BadRequest(400, "expected a WebSocket handshake, got an invalid request")
        self._protocol.send_response(self._protocol.accept(asked[0]))

    @property
    def is_open(self) -> bool:
        """True if messages can be sent."""
        return self._protocol.state is State.OPEN

    @property
    def is_over(self) -> bool:
        """True if the connection is to be closed once everything is written."""
        return self._protocol.close_expected()

    def receive(self, data: bytes) -> list[str]:
        """Take bytes, and return the complete messages."""
        self._protocol.receive_data(data)
        texts = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and self.is_open:
                text = self._take(event)
                if text is not None:
                    texts.append(text)
        return texts

    def _take(self, frame: Frame) -> str | None:
        """Return the message that a frame completes, if any."""
        if frame.opcode is Opcode.BINARY:
            self.close(CloseCode.UNSUPPORTED_DATA, "expected a text message, got a binary one")
            return None
        if frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return None
        self._parts.append(bytes(frame.data))
        if not frame.fin:
            return None
        whole, self._parts = b"".join(self._parts), []
        try:
            return whole.decode()
        except UnicodeDecodeError:
            self.close(CloseCode.INVALID_DATA, "expected UTF-8, got other bytes")
            return None

    def send(self, text: bytes) -> None:
        """Send a message, unless the socket is closing."""
        if self.is_open:
            self._protocol.send_text(text)

    def close(self, code: int, reason: str) -> None:
        """Start closing the socket."""
        if self.is_open:
            try:
                self._protocol.send_close(code, reason)
            except ProtocolError:
                self._protocol.fail(code, reason)

    def data_to_send(self) -> bytes:
        """Remove and return the bytes to write."""
        return b"".join(self._protocol.data_to_send())
