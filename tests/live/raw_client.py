"""A client with nothing but a connection and a session: it says what a test tells it to, and remembers all it hears."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections import Counter, deque
from collections.abc import Callable, Coroutine

from octopia.content import Publication, parse_filter
from octopia.errors import ClosedByPeer, PeerError
from octopia.link import Session
from octopia.protocol import CloseCode, Opening, Overflow, Role, WireItem
from octopia.protocol.messages import (
    AdvertiseRequest,
    ClientReply,
    ClientRequest,
    Confirmed,
    Deliver,
    Message,
    PublishRequest,
    SubscribeRequest,
)
from octopia.transport import Connection
from octopia.transport.settings import CLIENT_LINK

PATIENCE_S = 20.0
TICK_S = 0.5

_LINK = dataclasses.replace(CLIENT_LINK, ack_ms=0.0)
"""It acknowledges at once, since it has no timer."""

_incarnations = itertools.count(1)
_clients: list[RawClient] = []


def run(work: Coroutine[object, object, None]) -> None:
    """Run a test, and leave no client behind, whatever became of it."""

    async def main() -> None:
        try:
            await work
        finally:
            for client in _clients:
                await client.end()
            _clients.clear()

    asyncio.run(main())


def address_of(url: str) -> tuple[str, int]:
    """Return the host and the port of ``octopia://host:port/broker``."""
    host, _, port = url.removeprefix("octopia://").partition("/")[0].rpartition(":")
    return host, int(port)


class RawClient:
    """A client of one broker; it can lose its connection and come back with the same session."""

    def __init__(self, name: str, overflow: Overflow = Overflow.DISCONNECT):
        self.name = name
        self.overflow = overflow
        self.session = Session(next(_incarnations), _LINK)
        self.heard: list[Message] = []
        self.closed_because: PeerError | None = None
        self.is_closed = True
        self.on_deliver: Callable[[Deliver], None] | None = None
        self.connection: Connection | None = None
        self._backlog: deque[ClientRequest] = deque()
        self._url = ""
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._ticker: asyncio.TimerHandle | None = None
        _clients.append(self)

    # What tests do.

    async def connect(self, url: str) -> RawClient:
        """Connect, and wait until the session is up. If the broker is busy, come back when it says."""
        self._url = url
        if not await self._is_admitted():
            raise AssertionError(f"{self.name} is not admitted by {url}: {self.closed_because}")
        return self

    async def be_refused(self, url: str) -> CloseCode | None:
        """Connect, and return the code with which the broker refuses this client, other than ``busy``."""
        self._url = url
        if await self._is_admitted():
            raise AssertionError(f"expected {url} to refuse {self.name}, but it was admitted")
        return self.close_code

    async def _is_admitted(self) -> bool:
        """Dial until the broker is not busy, and return whether the session came up."""
        until_ms = self._now_ms() + PATIENCE_S * 1000.0
        while True:
            await self._dial()
            await self.until(lambda: self.session.is_up or self.is_closed, "its session or a refusal")
            if self.close_code is not CloseCode.BUSY or self._now_ms() > until_ms:
                return self.session.is_up
            assert isinstance(self.closed_because, ClosedByPeer)
            await asyncio.sleep(self.closed_because.retry_ms / 1000.0)

    async def _dial(self) -> None:
        """Connect, and send an Opening."""
        host, port = address_of(self._url)
        await asyncio.get_running_loop().create_connection(self._make_connection, host, port)
        assert self.connection is not None
        self.connection.send([Opening(Role.CLIENT, self.name, overflow=self.overflow)])
        if self._ticker is None:
            self._tick()

    def _make_connection(self) -> Connection:
        # The broker may close it before create_connection returns.
        self.session.disconnected()
        self.connection, self.is_closed, self.closed_because = Connection(self), False, None
        return self.connection

    async def come_back(self) -> None:
        """Connect again after the connection was lost."""
        await self.until(lambda: self.is_closed, "the end of its connection")
        await self.connect(self._url)

    async def move(self) -> None:
        """Connect again while the connection is sound; the broker goes on over the new one."""
        await self.connect(self._url)

    def cut(self) -> None:
        """Break the connection, as a network would."""
        if self.connection is not None:
            self.connection.abort()

    def leave(self) -> None:
        """Say good-bye."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        if self.connection is not None:
            self.connection.close(CloseCode.DONE)

    async def end(self) -> None:
        """Have no connection any more."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        self.cut()
        if self.connection is not None:
            await self.connection.wait_closed()

    def stop_reading(self) -> None:
        """Let everything that comes wait in the network."""
        assert self.connection is not None
        self.connection._transport.pause_reading()

    def go_on_reading(self) -> None:
        """Read again."""
        assert self.connection is not None
        self.connection._transport.resume_reading()

    def say(self, request: ClientRequest) -> None:
        """Ask for something; publications wait for credit."""
        if isinstance(request, PublishRequest):
            self._backlog.append(request)
        else:
            self.session.send(request, self._now_ms())
        self._flow()

    def publish(self, number: int, payload: bytes = b"", **attributes: object) -> None:
        """Publish, with ``number`` as the publisher's own."""
        self.say(PublishRequest(number, Publication(attributes, payload), self._now_ms()))

    async def advertise(self, text: str, handle: int = 0) -> None:
        """Advertise, and wait for the confirmation."""
        self.say(AdvertiseRequest(handle, parse_filter(text)))
        await self.until_answered(lambda: self._is_confirmed("advertisement", handle), f"the confirmation of {text}")

    async def subscribe(self, text: str, handle: int = 0) -> None:
        """Subscribe, and wait for the confirmation."""
        self.say(SubscribeRequest(handle, parse_filter(text)))
        await self.until_answered(lambda: self._is_confirmed("subscription", handle), f"the confirmation of {text}")

    async def until(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until something holds that comes with what the broker says, or with the end of the connection."""
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        try:
            await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise AssertionError(f"{self.name} waited {timeout_s:g} s for {what}, which did not come") from None
        finally:
            self._waiters = [each for each in self._waiters if each[1] is not future]

    async def until_answered(self, condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until something holds that needs the connection; fail at once if the connection ends first."""
        await self.until(lambda: condition() or self.is_closed, what, timeout_s)
        if not condition():
            raise AssertionError(f"the connection of {self.name} ended before {what}: {self.closed_because}")

    @property
    def is_at_rest(self) -> bool:
        """Whether the broker has accepted all that was said."""
        return not self._backlog and not self.session.awaits_acknowledgement

    @property
    def deliveries(self) -> list[Deliver]:
        """What was delivered, in order."""
        return [each for each in self.heard if isinstance(each, Deliver)]

    def got(self, attribute: str = "n") -> Counter[object]:
        """Count deliveries by the value of an attribute."""
        return Counter(each.publication.attributes[attribute] for each in self.deliveries)

    def told(self, kind: type[ClientReply]) -> list[ClientReply]:
        """List what was heard of one kind."""
        return [each for each in self.heard if isinstance(each, kind)]

    @property
    def close_code(self) -> CloseCode | None:
        """Why the broker has closed the connection, if it has."""
        return self.closed_because.code if isinstance(self.closed_because, ClosedByPeer) else None

    # What the connection does.

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        if connection is not self.connection:
            return
        if isinstance(items[0], Opening):
            self.session.connected(self._now_ms())
        else:
            outcome = self.session.receive(items, self._now_ms())
            self.heard += outcome.messages
            if self.on_deliver is not None:
                for each in outcome.messages:
                    if isinstance(each, Deliver):
                        self.on_deliver(each)
        self._flow()
        self._look()

    def on_capacity_changed(self, connection: Connection) -> None:
        if connection.is_writable:
            self._flow()

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        if connection is self.connection:
            self.session.disconnected()
            self.is_closed, self.closed_because = True, reason
            self._look()

    def _flow(self) -> None:
        now_ms, connection = self._now_ms(), self.connection
        if connection is None or connection.is_closing:
            return
        while self._backlog and self.session.classes & 1 and connection.is_writable:
            self.session.send(self._backlog.popleft(), now_ms)
        connection.send(self.session.drain(now_ms))

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        due_ms = self.session.next_deadline_ms
        if due_ms is not None and self._now_ms() >= due_ms:
            if self.session.wake(self._now_ms()):
                self._flow()
            else:
                self.cut()

    def _look(self) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(None)

    def _is_confirmed(self, kind: str, handle: int) -> bool:
        return any(each.number == handle and each.request == kind for each in self.told(Confirmed))

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000.0
