"""Somebody who connects to a broker, says whatever bytes a test wants, and hears all that is said in return."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

from raw_client import address_of

from octopia.errors import BadFrame
from octopia.protocol import Closing, Grant, Hello, Opening, Role, WireItem
from octopia.wire import Limits, Reader, encode

PATIENCE_S = 6.0


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """All that a broker said until it closed the connection."""

    items: list[WireItem]

    @property
    def closing(self) -> Closing | None:
        """Why it closed the connection, if it said so."""
        last = self.items[-1] if self.items else None
        return last if isinstance(last, Closing) else None


class Stranger:
    """A connection of bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader = reader
        self._writer = writer
        self._understood = Reader(Limits())
        self.items: list[WireItem] = []

    @classmethod
    async def connect(cls, url: str) -> Stranger:
        """Connect, and say nothing."""
        return cls(*await asyncio.open_connection(*address_of(url)))

    def say(self, *said: bytes | WireItem) -> None:
        """Write bytes, or items."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(b"".join(each if isinstance(each, bytes) else encode(each) for each in said))

    async def hear(self, kind: type[WireItem]) -> WireItem:
        """Wait for an item of a kind."""
        async with asyncio.timeout(PATIENCE_S):
            while not any(isinstance(item, kind) for item in self.items):
                data = await self._reader.read(65536)
                assert data, f"the connection was closed before a {kind.__name__} came: {self.items}"
                self.items += self._understood.feed(data)
        return next(item for item in self.items if isinstance(item, kind))

    async def until_closed(self, *, hang_up: bool = False) -> Answers:
        """Hear everything until the broker closes the connection; with ``hang_up`` it is told that no more comes."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                with contextlib.suppress(ConnectionError):
                    if hang_up:
                        self._writer.write_eof()
                    while data := await self._reader.read(65536):
                        self.items += self._understood.feed(data)
        finally:
            await self.leave()
        return Answers(self.items)

    async def leave(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


def greeting(name: str, incarnation: int = 1) -> list[WireItem]:
    """Return how a client begins."""
    return [Opening(Role.CLIENT, name), Hello(incarnation, 0, 0, Grant(1, 65536, ()))]


def is_bad(data: bytes, limits: Limits) -> bool:
    """Tell whether somewhere in these bytes is a frame that nobody can read."""
    try:
        for _ in Reader(limits).feed(data):
            pass
    except BadFrame:
        return True
    return False
