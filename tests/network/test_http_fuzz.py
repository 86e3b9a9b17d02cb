"""Fuzzed input to the HTTP port: every mistake gets a clear answer or a closed connection, and harms no broker."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable

import pytest
from http_port import get, http_beside
from load import Load
from raw_client import run
from rest import overlay_at_rest

from octopia.addresses import Address
from octopia.errors import BadRequest
from octopia.http.commands import parse
from octopia.http.exchange import Exchange, refusal
from octopia.http.guard import Guard
from octopia.http.websocket import FeedSocket
from octopia.runtime.local import Overlay

PATHS = [
    "/",
    "/feed",
    "/healthz",
    "/readyz",
    "/metrics",
    "/linkz",
    "/civz",
    "/clientz",
    "/%00",
    "/../x",
    "*",
    "//",
    "/é",
]
HANDSHAKE = (
    b"GET /feed HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
COMMAND = json.dumps({"type": "do", "ref": 1, "verb": "lift", "link": "b.2>b.0"}).encode()


def request(chance: random.Random) -> bytes:
    """Return a request that may be right or wrong in any part."""
    method = chance.choice(["GET", "GET", "HEAD", "POST", "PUT", "get", "", "G\x00T"])
    target = chance.choice(PATHS) + chance.choice(
        ["", "?broker=b.0", "?token=x", "?" + "a&" * chance.randrange(40), "#x"]
    )
    lines = [f"{method} {target} {chance.choice(['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2', 'x'])}"]
    lines += [f"Host: {chance.choice(['localhost', '127.0.0.1:1', 'evil', '', '[::1]'])}"] * chance.choice(
        [1, 1, 1, 0, 2]
    )
    headers = ["Connection: close", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x", "Origin: null"]
    headers += [
        "Content-Length: 5",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: chunked",
        "Cookie: ==;",
    ]
    headers += [
        "Authorization: Bearer \x7f",
        "Expect: 100-continue",
        "X: " + "y" * chance.choice([1, 9000, 20_000]),
        " fold",
    ]
    lines += chance.sample(headers, chance.randrange(4))
    body = chance.choice(["", "", "hello", "5\r\nhello\r\n0\r\n\r\n"])
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("utf-8", "replace")


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Return data with some bytes changed, removed, doubled or cut off."""
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(changed)) if changed else 0
        kind = chance.randrange(4)
        if kind == 0 and changed:
            changed[at] = chance.randrange(256)
        elif kind == 1:
            del changed[at : at + chance.randrange(8)]
        elif kind == 2:
            changed[at:at] = changed[at : at + chance.randrange(64)]
        else:
            del changed[at:]
    return bytes(changed)


def frame(chance: random.Random, payload: bytes) -> bytes:
    """Return a WebSocket frame that may be wrong."""
    opcode = chance.choice([1, 1, 1, 2, 0, 8, 9, 10, 3, 15])
    first = opcode | chance.choice([0x80, 0x80, 0x80, 0, 0xC0])
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    mask = chance.randbytes(4)
    return bytes([first]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))


def frames(chance: random.Random) -> bytes:
    """Return the bytes of a WebSocket after its handshake."""
    payloads = [COMMAND, mutated(chance, COMMAND), chance.randbytes(chance.randrange(200)), b"x" * 5000, b""]
    return b"".join(frame(chance, chance.choice(payloads)) for _ in range(1 + chance.randrange(3)))


def some_input(chance: random.Random) -> bytes:
    """Return the bytes of one connection."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 400))
    if kind == 1:
        return HANDSHAKE + mutated(chance, frames(chance))
    data = request(chance)
    return mutated(chance, data) if kind == 2 else data


def feed_pure(chance: random.Random, data: bytes) -> None:
    """Give bytes to the pure parts, as the port does, in random pieces."""
    at, end = 0, Pure()
    while at < len(data) and not end.is_over:
        piece = data[at : at + 1 + chance.randrange(300)]
        at += len(piece)
        problem = end.take(piece)
        if problem is not None:
            assert 400 <= problem.status < 600
            assert str(problem).startswith("expected ")
            if end.socket is None:
                answer = end.exchange.answer(refusal(problem))
                assert not answer or answer.startswith(f"HTTP/1.1 {problem.status} ".encode())
                return


class Pure:
    """The pure parts of one connection."""

    def __init__(self) -> None:
        self.exchange, self.guard = Exchange(), Guard("127.0.0.1")
        self.socket: FeedSocket | None = None

    @property
    def is_over(self) -> bool:
        return self.exchange.is_over if self.socket is None else self.socket.is_over

    def take(self, piece: bytes) -> BadRequest | None:
        """Take bytes, and return what is wrong with them, if anything."""
        try:
            if self.socket is None:
                asked = self.exchange.receive(piece)
                if asked is None:
                    return None
                self.guard.check(asked)
                if asked.path != "/feed" or not asked.wants_websocket:
                    return None
                self.guard.may_command(asked)
                handshake, piece = self.exchange.hand_over()
                self.socket = FeedSocket(handshake)
                assert self.socket.data_to_send().startswith(b"HTTP/1.1 ")
            if self.socket.is_open:
                for text in self.socket.receive(piece):
                    parse(text)
                assert len(self.socket.data_to_send()) < 1000
        except BadRequest as error:
            return error
        return None


async def send(port: Address, data: bytes) -> bytes:
    """Send the bytes of a connection, and read what comes until it is closed or nothing more comes."""
    reader, writer = await asyncio.open_connection(port.host, port.port)
    answer = b""
    try:
        writer.write(data)
        if writer.can_write_eof():
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(65_536), 10.0)
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.transport.abort()
    return answer


async def _fuzz_port(count: int, seed: int) -> None:
    chance = random.Random(seed)
    async with Overlay.local("path:3", 3) as overlay, http_beside(overlay) as port:
        load = await Load.begin(overlay, ["b.2"], ["a.0", "b.0", "c.1"])
        for start in range(0, count, 20):
            load.publish(2, b"")
            inputs = [some_input(chance) for _ in range(min(20, count - start))]
            for answer in await asyncio.gather(*(send(port, each) for each in inputs)):
                assert not answer or answer.startswith(b"HTTP/1.1 ")
                assert not answer.startswith(b"HTTP/1.1 500 ")
        assert (await get(port, "/healthz"))[0] == 200
        assert {each.name: str(each.closed_because) for each in load.clients if each.is_closed} == {}
        await overlay_at_rest(overlay, load.clients)
        assert load.got == load.expected()
        load.leave()


def fuzz(count: int, seed: int, each: Callable[[random.Random, bytes], None]) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        data = some_input(chance)
        each(chance, data)


def test_a_sample_of_bad_input_to_the_pure_parts() -> None:
    fuzz(2_000, 1, feed_pure)


def test_a_sample_of_bad_input_to_the_port(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        run(_fuzz_port(300, 2))
    assert not caplog.records


@pytest.mark.soak
def test_bad_input_to_the_port(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        run(_fuzz_port(100_000, 3))
    assert not caplog.records


@pytest.mark.soak
def test_bad_input_to_the_pure_parts() -> None:
    fuzz(100_000, 4, feed_pure)
