"""The client's end of its link: one session over successive connections.

Theory of operation
-------------------

A session lives as long as the client talks to one broker that remembers it. When a connection breaks, another one
replaces it, and the session continues where it was: other parts do not notice. The link is *new* after the first
greeting, and whenever the broker that greets does not remember the client: it was restarted, it has dropped the client,
or it is another broker. Then all requests that were written and not acknowledged are settled as unknown, and the
listener issues everything again.

With another broker a new session begins, under a new incarnation. The old session must not continue there: the client
may return to the first broker within its grace time, and that broker still expects the next number of the old
sequence. The old session is kept until the new broker has greeted.

A resumed session is at one broker. With several addresses, the client first looks for that broker at all of them, for
half of its time; only then does it begin a new session with any broker that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Sequence
from typing import Any, Protocol, cast, get_args

from octopia.addresses import Address
from octopia.client.attempts import (
    backoff_s,
    busy_s,
    connect_to,
    explain,
    is_final,
    is_other_broker,
    silence,
)
from octopia.client.credentials import Credentials
from octopia.client.durable import LinkIdentity, ResumePoint
from octopia.client.outbox import Outbox
from octopia.errors import (
    AccessDenied,
    BadFrame,
    BrokenCredentials,
    PeerError,
    ProtocolViolation,
    TlsFailure,
    Unavailable,
)
from octopia.link import Session
from octopia.protocol import Ack, CloseCode, Frame, Hello, Item, Opening, Role, WireItem
from octopia.protocol.messages import ClientReply, Message
from octopia.transport import Connection
from octopia.transport.connection import HANDSHAKE_S
from octopia.transport.settings import CLIENT_LINK
from octopia.transport.tls import TlsLayer

_log = logging.getLogger(__name__)
_REPLIES = frozenset(get_args(ClientReply))
_CARRIED = frozenset((Hello, Frame, Ack))
_CLOSING_S = 1.0


class Listener(Protocol):
    """The user of a channel."""

    def on_new_link(self, opening: Opening, *, is_first: bool) -> None:
        """Issue everything to a broker that does not know this client."""

    def on_replies(self, replies: list[ClientReply], sequence: int) -> None:
        """Handle what the broker said; ``sequence`` is the number of the first reply in the session."""

    def on_room(self) -> None:
        """Note that something was written, so that there may be room for more."""

    def on_disconnected(self, reason: PeerError | None) -> None:
        """Note that the connection is broken; the channel replaces it."""

    def on_reconnected(self) -> None:
        """Note that there is a connection again."""

    def on_ended(self, error: PeerError) -> None:
        """Note that the broker no longer accepts this client."""


class Channel:
    """A link to a broker, or to one of several, until it is closed."""

    def __init__(
        self,
        addresses: Sequence[Address],
        opening: Opening,
        outbox: Outbox,
        listener: Listener,
        resumed: ResumePoint | None = None,
        credentials: Credentials = Credentials(),  # noqa: B008 (it is frozen)
    ):
        self._addresses = addresses
        self._credentials = credentials
        self._token = ""
        self._opening = opening
        self._outbox = outbox
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._turn = 0
        self._incarnation = 0
        self._holds = False
        self._connection: Connection | None = None
        self._session = self._new_session()
        self._broker: Opening | None = None
        self._greeted_by: tuple[str, str] | None = None
        self._link: tuple[Session, int] | None = None
        self._resumes_at = "" if resumed is None else resumed.broker
        if resumed is not None:
            self._resume(resumed)
        self._kept_session = self._session
        self._violation: ProtocolViolation | None = None
        self._up: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[PeerError | None] = self._loop.create_future()
        self._keeper: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ack_timer: asyncio.TimerHandle | None = None
        self._is_poked = False
        self._is_asking = False

    # The client's side.

    @property
    def is_up(self) -> bool:
        """True if a broker is connected and has greeted."""
        return self._session.is_up

    @property
    def broker(self) -> str:
        """The name of the connected broker, or an empty string."""
        return self._broker.sender if self._broker is not None else ""

    @property
    def identity(self) -> LinkIdentity:
        """Both ends of the session."""
        broker, fingerprint = self._greeted_by or ("", "")
        session = self._kept_session
        return LinkIdentity(broker, fingerprint, session.incarnation, session.peer_incarnation)

    def hold(self) -> None:
        """Acknowledge nothing from now on before it is released, in this session and in later ones."""
        self._holds = True
        self._session.hold()

    def release(self, sequence: int) -> None:
        """Let all messages up to a number of the session be acknowledged."""
        self._session.release(sequence)
        self.poke()

    async def open(self, timeout: float) -> None:
        """Connect for the first time."""
        failures: dict[Address, PeerError | Unavailable] = {}
        try:
            async with asyncio.timeout(timeout):
                if not await self._has_returned(timeout / 2.0):
                    await self._reach(failures, is_first=True)
        except TimeoutError:
            reasons = [str(each) for each in failures.values()] or [f"{self._address} has not answered"]
            raise Unavailable(f"{'; '.join(reasons)} (tried for {timeout:g} s)") from None
        self._keeper = self._loop.create_task(self._keep())

    def poke(self) -> None:
        """Write the outbox, at the end of this turn of the event loop."""
        if not self._is_poked:
            self._is_poked = True
            self._loop.call_soon(self._pump)

    def ask(self) -> None:
        """Ask the broker to acknowledge at once, since a call waits for it."""
        self._is_asking = True
        self.poke()

    async def close(self, *, keep: bool = False) -> None:
        """Close the connection properly, and stop reconnecting; with ``keep``, the broker keeps the session."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        connection = self._connection
        if connection is not None and connection.is_open:
            self._session.acknowledge()
            self._pump()
            connection.close(CloseCode.SHUTDOWN if keep else CloseCode.DONE)
            await asyncio.wait([self._lost], timeout=_CLOSING_S)
        self._drop()

    def abort(self) -> None:
        """Drop the connection, and stop reconnecting."""
        if self._keeper is not None:
            self._keeper.cancel()
        self._drop()

    # Connecting.

    @property
    def _address(self) -> Address:
        return self._addresses[self._turn % len(self._addresses)]

    async def _keep(self) -> None:
        """Connect again whenever the connection is lost."""
        refusals = 0
        while True:
            await asyncio.wait([self._lost])
            reason = self._lost.result()
            if is_final(reason, is_first=False) and not await self._has_new_token(reason):
                break
            self._listener.on_disconnected(reason)
            refusals = refusals + 1 if reason is not None else 0
            await asyncio.sleep(backoff_s(refusals))
            try:
                await self._reach({}, is_first=False)
            except PeerError as error:
                reason = error
                break
            self._listener.on_reconnected()
        assert reason is not None
        self._listener.on_ended(reason)

    async def _has_returned(self, timeout: float) -> bool:
        """Look for the broker of a resumed session at all addresses; return whether it has greeted in time."""
        broker, count = self._resumes_at, len(self._addresses)
        if not broker or count == 1:
            return False
        turns = [turn for turn, each in enumerate(self._addresses) if each.broker in ("", broker)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for attempt in itertools.count(1):
                    for turn in list(turns):
                        reason = await self._look_at(turn, timeout / count)
                        if reason is None:
                            return True
                        if is_other_broker(reason):
                            turns.remove(turn)
                    if not turns:
                        break
                    await asyncio.sleep(backoff_s(attempt))
        _log.info("the broker of the session does not answer: client=%s broker=%s", self._opening.sender, broker)
        return False

    async def _look_at(self, turn: int, timeout: float) -> Exception | None:
        """Look for the broker of a resumed session at one address; return the reason if it is not there."""
        try:
            async with asyncio.timeout(timeout):
                await self._attempt(self._addresses[turn], self._resumes_at)
        except (Unavailable, TimeoutError) as error:
            return error
        except PeerError as error:
            if is_final(error, is_first=True) and not is_other_broker(error):
                raise
            return error
        self._turn = turn
        return None

    async def _reach(self, failures: dict[Address, PeerError | Unavailable], *, is_first: bool) -> None:
        """Try one address after another until a broker greets; raise only what is final."""
        for attempt in itertools.count():
            retry_s = 0.0
            try:
                await self._attempt(self._address)
                return
            except Unavailable as error:
                failures[self._address] = error
            except PeerError as error:
                if is_final(error, is_first=is_first) and (is_first or not await self._has_new_token(error)):
                    raise
                if is_first and isinstance(error, TlsFailure) and len(self._addresses) == 1:
                    raise TlsFailure(f"no TLS connection with {self._address}: {error}") from None
                failures[self._address] = explain(self._address, error)
                retry_s = busy_s(error)
                if is_first and isinstance(error, BadFrame | ProtocolViolation) and len(self._addresses) == 1:
                    raise failures[self._address] from None
            _log.info("no connection: client=%s reason=%s", self._opening.sender, failures[self._address])
            self._turn += 1
            await asyncio.sleep(retry_s or backoff_s(1 + attempt // len(self._addresses)))

    async def _attempt(self, address: Address, broker: str = "") -> None:
        """Connect to one address, and wait for the greeting of a broker, or of the broker that the address names."""
        self._up = self._loop.create_future()
        self._lost = self._loop.create_future()
        self._session = self._kept_session
        self._violation = None
        self._token = await self._credentials.token()
        tls = self._tls_towards(address)
        connection = await connect_to(address, lambda: self._make_connection(tls))
        ours = self._opening
        wanted = broker or address.broker
        connection.send([Opening(ours.role, ours.sender, "", wanted, ours.overflow, token=self._token)])
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                ends: list[asyncio.Future[Any]] = [self._up, self._lost]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            self._drop()
            raise silence(address) from None
        except asyncio.CancelledError:
            self._drop()
            raise
        if not self._up.done():
            raise self._lost.result() or explain(address, None)

    async def _has_new_token(self, reason: PeerError | None) -> bool:
        """Return whether the broker has refused a token in whose place there is another one now."""
        try:
            return isinstance(reason, AccessDenied) and await self._credentials.token() != self._token
        except Unavailable:
            return True  # The next attempt asks again.

    def _tls_towards(self, address: Address) -> TlsLayer | None:
        try:
            return self._credentials.tls_towards(address)
        except BrokenCredentials as error:
            if self._link is None:
                raise
            raise Unavailable(str(error)) from None  # The file may be there again at the next attempt.

    def _make_connection(self, tls: TlsLayer | None) -> Connection:
        # It may receive something before create_connection returns.
        self._connection = Connection(self, tls=tls)
        return self._connection

    def _drop(self) -> None:
        """Abort the connection, and do not wait for its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._session.disconnected()
        self._broker = None
        self._cancel_timer()
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None

    def _new_session(self) -> Session:
        self._incarnation = max(self._incarnation + 1, time.time_ns())
        session = Session(self._incarnation, CLIENT_LINK)
        if self._holds:
            session.hold()
        return session

    def _resume(self, point: ResumePoint) -> None:
        """Continue the session of an earlier process, if the broker remembers it."""
        self._holds = True
        self._session = Session(point.incarnation, CLIENT_LINK)
        self._session.resume(point.broker_incarnation, point.released)
        self._greeted_by = (point.broker, point.fingerprint)
        self._link = (self._session, point.broker_incarnation)

    # The connection's side.

    def on_items(self, connection: Connection, items: list[WireItem]) -> None:
        """Handle received items."""
        if connection is not self._connection:
            return
        first = items[0]
        if isinstance(first, Opening):
            self._opened(connection, first)
            return
        if self._broker is None or not _CARRIED.issuperset(map(type, items)):
            self._violated(f"expected an Opening first, got {type(first).__name__}")
            return
        self._receive(cast("list[Item]", items))

    def on_capacity_changed(self, connection: Connection) -> None:
        """Continue writing."""
        if connection.is_writable:
            self.poke()

    def on_closed(self, connection: Connection, reason: PeerError | None) -> None:
        """Note that the connection is gone."""
        if connection is not self._connection:
            return
        self._drop()
        if not self._lost.done():
            self._lost.set_result(reason or self._violation)

    def _opened(self, connection: Connection, opening: Opening) -> None:
        if opening.role is not Role.BROKER or self._broker is not None:
            self._violated(f"expected one Opening of a broker, got one of a {opening.role}")
            return
        self._broker = opening
        if self._greeted_by not in (None, (opening.sender, opening.fingerprint)):
            self._session = self._new_session()
        self._session.connected(self._now_ms)
        self._flush()
        self._set_timer()

    def _receive(self, items: Sequence[Item]) -> None:
        session = self._session
        outcome = session.receive(items, self._now_ms)
        if outcome.came_up:
            self._came_up()
        if outcome.messages:
            self._hand_over(outcome.messages, session.accepted - len(outcome.messages) + 1)
        self._outbox.settle_up_to(session.acknowledged)
        self._pump()

    def _came_up(self) -> None:
        opening = self._broker
        assert opening is not None
        link = (self._session, self._session.peer_incarnation)
        self._kept_session = self._session
        self._greeted_by = (opening.sender, opening.fingerprint)
        if link != self._link:
            is_first = self._link is None
            self._link = link
            self._outbox.reset()
            self._listener.on_new_link(opening, is_first=is_first)
        self._set_timer()
        if not self._up.done():
            self._up.set_result(None)

    def _hand_over(self, messages: list[Message], sequence: int) -> None:
        is_right = _REPLIES.issuperset(map(type, messages))
        replies = messages if is_right else [each for each in messages if type(each) in _REPLIES]
        self._listener.on_replies(cast("list[ClientReply]", replies), sequence)
        if not is_right:
            self._violated("expected messages from a broker to a client, got one that brokers send to each other")

    def _violated(self, sentence: str) -> None:
        self._violation = ProtocolViolation(sentence)
        if self._connection is not None:
            self._connection.close(CloseCode.VIOLATION, sentence)

    # Writing, and time.

    @property
    def _now_ms(self) -> float:
        return self._loop.time() * 1000.0

    def _pump(self) -> None:
        self._is_poked = False
        if self._connection is not None and self._connection.is_writable:
            self._outbox.pump(self._session, self._now_ms)
            self._listener.on_room()
            if self._is_asking:
                self._is_asking = self._outbox.backlog_bytes > 0
                self._session.ask()
        self._flush()

    def _flush(self) -> None:
        session = self._session
        if self._connection is not None and (items := session.drain(self._now_ms)):
            self._connection.send(items)
        if session.acknowledges_by_ms is not None and self._ack_timer is None:
            self._ack_timer = self._loop.call_at(session.acknowledges_by_ms / 1000.0, self._acknowledge)

    def _acknowledge(self) -> None:
        self._ack_timer = None
        self._session.acknowledge()
        self._flush()

    def _set_timer(self) -> None:
        """Wake up at the session's next deadline, which can only move to later times until then."""
        self._cancel_timer()
        if (deadline_ms := self._session.next_deadline_ms) is not None:
            self._timer = self._loop.call_at(deadline_ms / 1000.0, self._wake)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._session.wake(self._now_ms):
            self._flush()
            self._set_timer()
        elif self._connection is not None:
            _log.info("the broker is silent: broker=%s", self.broker)
            self._connection.abort()
