"""The least of three protocols that a publisher and a subscriber need: NATS, RESP (Redis) and MQTT 3.1.1 with QoS 0.

Each is pure: bytes in, payloads out. ``answers`` counts the confirmations of the server so far: one for the greeting,
and those of ``subscribe``, which says how many to expect.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol


class PeerProtocol(Protocol):
    """One client of a server."""

    answers: int
    reply: bytes
    """Bytes that the server is owed, to be written and cleared."""

    def greeting(self, name: str) -> bytes:
        """Return the bytes that open a connection."""

    def subscribe(self, topics: Sequence[str]) -> tuple[bytes, int]:
        """Return the bytes that subscribe to topics, and the number of answers to them."""

    def publish(self, topic: str, payload: bytes) -> bytes:
        """Return the bytes of a publication."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of all publications that are complete."""


class Nats:
    """The text protocol of NATS."""

    def __init__(self) -> None:
        self.answers, self.reply = 0, b""
        self._rest = b""

    def greeting(self, name: str) -> bytes:
        """Return CONNECT and a PING, whose answer says that the server is ready."""
        return b'CONNECT {"verbose":false,"pedantic":false,"name":"%s"}\r\nPING\r\n' % name.encode()

    def subscribe(self, topics: Sequence[str]) -> tuple[bytes, int]:
        """Return one SUB per topic, and a PING, which is answered after them."""
        subscriptions = [b"SUB %s %d\r\n" % (topic.encode(), number) for number, topic in enumerate(topics, 1)]
        return b"".join(subscriptions) + b"PING\r\n", 1

    def publish(self, topic: str, payload: bytes) -> bytes:
        """Return a PUB."""
        return b"PUB %s %d\r\n%s\r\n" % (topic.encode(), len(payload), payload)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of MSG; answer PING, count PONG, ignore INFO."""
        data = self._rest + data
        payloads, at = [], 0
        while (end := data.find(b"\r\n", at)) >= 0:
            verb = data[at : at + 4]
            if verb == b"MSG ":
                size = int(data[data.rindex(b" ", at, end) + 1 : end])
                if len(data) < end + 2 + size + 2:
                    break
                payloads.append(data[end + 2 : end + 2 + size])
                end += size + 2
            elif verb == b"PONG":
                self.answers += 1
            elif verb == b"PING":
                self.reply += b"PONG\r\n"
            elif verb == b"-ERR":
                raise ValueError(f"the NATS server says {data[at:end]!r}")
            at = end + 2
        self._rest = data[at:]
        return payloads


class Resp:
    """The protocol of Redis, version 2."""

    def __init__(self) -> None:
        self.answers, self.reply = 0, b""
        self._rest = b""

    def greeting(self, name: str) -> bytes:
        """Return a PING, whose answer says that the server is ready."""
        return _resp(b"PING")

    def subscribe(self, topics: Sequence[str]) -> tuple[bytes, int]:
        """Return a SUBSCRIBE, which is answered once per channel."""
        return _resp(b"SUBSCRIBE", *(topic.encode() for topic in topics)), len(topics)

    def publish(self, topic: str, payload: bytes) -> bytes:
        """Return a PUBLISH."""
        return _resp(b"PUBLISH", topic.encode(), payload)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of messages; count other answers, except the numbers that answer a PUBLISH."""
        data = self._rest + data
        payloads, at = [], 0
        while (read := _read_resp(data, at)) is not None:
            value, at = read
            if isinstance(value, list) and value[0] == b"message":
                payloads.append(value[2])
            elif not isinstance(value, int):
                self.answers += 1
        self._rest = data[at:]
        return payloads


RespValue = bytes | int | list[bytes]


def _resp(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def _read_resp(data: bytes, at: int) -> tuple[RespValue, int] | None:
    """Return the value at a place and the place after it, or None if it is not complete."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None
    kind, line, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b":":
        return int(line), after
    if kind == b"+":
        return line, after
    if kind == b"$":
        stop = after + int(line)
        return (data[after:stop], stop + 2) if len(data) >= stop + 2 else None
    if kind == b"*":
        words = []
        for _ in range(int(line)):
            read = _read_resp(data, after)
            if read is None:
                return None
            word, after = read
            words.append(word if isinstance(word, bytes) else b"")
        return words, after
    raise ValueError(f"the Redis server says {data[at:end]!r}")


class Mqtt:
    """MQTT 3.1.1 with QoS 0."""

    CONNECT, CONNACK, PUBLISH, SUBSCRIBE, SUBACK = 0x10, 0x20, 0x30, 0x82, 0x90
    CLEAN_SESSION = 2

    def __init__(self) -> None:
        self.answers, self.reply = 0, b""
        self._rest = b""

    def greeting(self, name: str) -> bytes:
        """Return a CONNECT without keep-alive."""
        return _mqtt(self.CONNECT, _text("MQTT") + struct.pack(">BBH", 4, self.CLEAN_SESSION, 0) + _text(name))

    def subscribe(self, topics: Sequence[str]) -> tuple[bytes, int]:
        """Return one SUBSCRIBE for all topics."""
        return _mqtt(self.SUBSCRIBE, struct.pack(">H", 1) + b"".join(_text(topic) + b"\0" for topic in topics)), 1

    def publish(self, topic: str, payload: bytes) -> bytes:
        """Return a PUBLISH."""
        return _mqtt(self.PUBLISH, _text(topic) + payload)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the payloads of PUBLISH; count CONNACK and SUBACK."""
        data = self._rest + data
        payloads, at = [], 0
        while (read := _read_mqtt(data, at)) is not None:
            kind, body, end = read
            if kind & 0xF0 == self.PUBLISH:
                topic_bytes = int.from_bytes(data[body : body + 2])
                payloads.append(data[body + 2 + topic_bytes : end])
            elif kind == self.SUBACK or (kind == self.CONNACK and data[body + 1] == 0):
                self.answers += 1
            else:
                raise ValueError(f"expected an accepted CONNECT, or a SUBACK, got the packet {data[at:end]!r}")
            at = end
        self._rest = data[at:]
        return payloads


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()


def _mqtt(kind: int, body: bytes) -> bytes:
    size, length = len(body), bytearray()
    while True:
        size, digit = divmod(size, 128)
        length.append(digit | 128 if size else digit)
        if not size:
            return bytes([kind]) + length + body


def _read_mqtt(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Return the kind of the packet at a place, and where its body begins and ends, or None if it is not complete."""
    size, place = 0, at + 1
    while place < len(data):
        digit = data[place]
        size |= (digit & 127) << 7 * (place - at - 1)
        place += 1
        if digit < 128:
            return (data[at], place, place + size) if len(data) >= place + size else None
    return None
