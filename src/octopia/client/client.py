"""The client for programs with an event loop: connect, advertise, subscribe and publish.

A client belongs to the event loop in which it was opened. ``engine`` does the work.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import secrets
from collections.abc import AsyncIterable, Callable, Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from octopia.addresses import Address
from octopia.client.buffer import Buffer
from octopia.client.callbacks import Callback
from octopia.client.credentials import Credentials, TokenSource, find_credentials
from octopia.client.durable import ResumePoint
from octopia.client.engine import Engine, Hooks
from octopia.client.publishable import Attributes, Publishable, to_publication
from octopia.client.requests import Request
from octopia.client.subscriptions import Advertisement, Durable, OnGap, Subscription
from octopia.client.tracing import Tracing
from octopia.client.urls import find_addresses
from octopia.content import Disjunction as Filter  # As programs know it.
from octopia.content import Publication, parse_filter
from octopia.errors import OctopiaError, TimedOut, UsageError
from octopia.protocol import Opening, Overflow, Role
from octopia.protocol.handshake import CLIENT_SESSIONS_MAX, NAME_LENGTH_MAX
from octopia.protocol.messages import AdvertiseRequest, SubscribeRequest
from octopia.settings import KEEP_MAX_S

CONNECT_S = 5.0
"""The default time limit of the first connection."""
DRAIN_S = 5.0
"""The default time for which ``close`` waits for acknowledgements."""
BUFFER = 10_000
"""The default number of publications that a subscription holds."""


def connect(
    url: str | Sequence[str] | None = None,
    *,
    name: str | None = None,
    overflow: Overflow | str = Overflow.DISCONNECT,
    resume: str | None = None,
    token: TokenSource | None = None,
    ca: str | Path | None = None,
    tracing: Tracing | None = None,
    timeout: float = CONNECT_S,
    on_disconnect: Callable[[OctopiaError | None], object] | None = None,
    on_reconnect: Callable[[], object] | None = None,
    on_error: Callable[[OctopiaError], object] | None = None,
) -> ConnectContext:
    """Connect to a broker; the result is awaited or used with ``async with``, and gives an open client.

    ``url`` is one URL or several; the default is the environment variable OCTOPIA_URL, then octopia://127.0.0.1:7400.
    ``name`` must be unique at a broker; by default it is random. ``overflow`` is what the broker does if this client
    reads too slowly. With ``resume``, a string from ``Subscription.resume_point``, the client continues the session of
    an earlier process under its name; subscribe again with the same filters. If no broker accepts the client within
    ``timeout`` seconds, Unavailable is raised with the reason.

    ``token`` is for brokers that require one: a string, or a function that is called before each connection and returns
    one; the default is OCTOPIA_TOKEN. ``ca`` is the certificate of the authority to accept under ``octopias://``; the
    default is OCTOPIA_CA, then the authorities of this machine.

    ``tracing`` makes spans for what is sent and received, with ``octopia.otel.Tracing()`` those of OpenTelemetry.
    """
    _check_timeout(timeout)
    resumed = None if resume is None else ResumePoint.from_text(resume)
    if resumed is not None and name not in (None, resumed.name):
        raise UsageError(f"expected the name {resumed.name!r} of the session to resume, or none, got {name!r}")
    opening = Opening(
        Role.CLIENT, _checked_name(name if resumed is None else resumed.name), overflow=_to_overflow(overflow)
    )
    hooks = Hooks(on_disconnect, on_reconnect, on_error)
    return ConnectContext(find_addresses(url), opening, timeout, hooks, resumed, find_credentials(token, ca), tracing)


class ConnectContext:
    """The result of ``connect``: await it, or use it with ``async with``, once. Both give an open client."""

    def __init__(
        self,
        addresses: Sequence[Address],
        opening: Opening,
        timeout: float,
        hooks: Hooks,
        resumed: ResumePoint | None,
        credentials: Credentials,
        tracing: Tracing | None,
    ):
        self._tracing = tracing
        self._resumed = resumed
        self._credentials = credentials
        self._addresses = addresses
        self._opening = opening
        self._timeout = timeout
        self._hooks = hooks
        self._is_used = False

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._open()
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, traceback)

    async def _open(self) -> Client:
        if self._is_used:
            raise UsageError("expected the result of connect() to be used once, got a second use; call connect() again")
        self._is_used = True
        engine = Engine(self._addresses, self._opening, self._hooks, self._resumed, self._credentials, self._tracing)
        await engine.open(self._timeout)
        return Client(engine, self._resumed)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"connect() is not awaited, so it has no {name!r}; write `client = await connect(...)` or "
                "`async with connect(...) as client`"
            )


class Client:
    """An open connection to an overlay, made with ``octopia.connect``.

    All calls must come from the event loop in which it was opened. At the end, await ``close()``, unless the client
    was opened with ``async with``.
    """

    def __init__(self, engine: Engine, resumed: ResumePoint | None = None):
        self._engine = engine
        known = [] if resumed is None else [*(each.handle for each in resumed.subscriptions), *resumed.others]
        self._handles = itertools.count(1 + max(known, default=0))

    async def __aenter__(self) -> Self:
        self._engine.check_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(timeout=DRAIN_S if error is None else 0.0)

    async def close(self, timeout: float = DRAIN_S, *, keep: bool = False) -> None:
        """Wait up to ``timeout`` seconds for what was published to be acknowledged, then disconnect.

        With ``keep``, subscriptions stay in force for their ``keep_s``, so that another process can resume them.
        """
        await self._engine.close(timeout, keep=keep)

    @property
    def name(self) -> str:
        """The name of this client at the broker."""
        return self._engine.name

    @property
    def is_connected(self) -> bool:
        """True if a broker is connected at this moment."""
        return self._engine.end is None and self._engine.channel.is_up

    @property
    def broker(self) -> str:
        """The name of the broker that is connected at this moment, or an empty string."""
        return self._engine.channel.broker

    @property
    def broker_incarnation(self) -> int:
        """The incarnation of the connected broker, which changes when it is restarted."""
        return self._engine.channel.identity.broker_incarnation // CLIENT_SESSIONS_MAX

    async def advertise(
        self, offer: str | Filter, *, ordered: bool = False, timeout: float | None = None
    ) -> Advertisement:
        """Announce what will be published; return when every broker that must know it does.

        If that takes longer than ``timeout`` seconds, NotConfirmed is raised, and the advertisement stays in force
        where it has arrived.
        """
        self._engine.check_open()
        parsed = _to_filter(offer)
        if self._engine.tracing is not None:
            parsed = self._engine.tracing.declared(parsed)
        message = AdvertiseRequest(next(self._handles), parsed, ordered, _to_ms(timeout))
        request = Request(message, lambda _: None)
        advertisement = Advertisement(parsed, functools.partial(self._engine.withdraw, request))
        await self._engine.requests.issue(request, advertisement, timeout)
        return advertisement

    async def subscribe(
        self,
        interest: str | Filter,
        *,
        callback: Callback | None = None,
        buffer: int = BUFFER,
        overflow: Overflow | str = Overflow.DISCONNECT,
        on_gap: OnGap | None = None,
        ack: str = "auto",
        keep_s: float | None = None,
        timeout: float | None = None,
    ) -> Subscription:
        """Subscribe to what matches a filter; return when the subscription is in force everywhere.

        With a ``callback``, a plain function, it is called for each publication. Without one, up to ``buffer``
        publications wait to be read; ``overflow`` is whether one more ends the subscription or replaces the oldest.

        With ``ack="manual"``, the broker keeps each publication, within its limits, until the program calls
        ``Subscription.acknowledge``; there is no other limit on what waits to be read. If the client loses its
        connection, or its process dies, the broker keeps the session for ``keep_s`` seconds, at most a day, but at
        least for its usual time. ``Subscription.resume_point`` lets another process continue.

        A client with a resume point subscribes with the filters of that point first, with ``ack="manual"`` and without
        a callback. A ``keep_s`` then replaces the earlier one; None leaves it unchanged.

        If the confirmation takes longer than ``timeout`` seconds, NotConfirmed is raised, and the subscription stays in
        force where it has arrived.
        """
        engine = self._engine
        engine.check_open()
        parsed = _to_filter(interest)
        if inspect.iscoroutinefunction(callback):
            raise UsageError("expected a plain function as callback, got a coroutine function; use `async for` instead")
        if buffer < 1:
            raise UsageError(f"expected a buffer of at least 1 publication, got {buffer}")
        is_manual = _is_manual(ack, keep_s)
        resumed = engine.take_resumed(parsed, is_manual=is_manual, has_callback=callback is not None)
        if resumed is not None:
            if keep_s is not None:
                engine.requests.keep(resumed.request, keep_s * 1000.0)
            return self._subscription(parsed, resumed.request, resumed.buffer, on_gap)
        message = SubscribeRequest(next(self._handles), parsed, _to_ms(timeout), (keep_s or 0.0) * 1000.0)
        held = engine.new_buffer(buffer, _to_overflow(overflow), callback, is_manual=is_manual)
        request = Request(message, functools.partial(engine.drop, message.handle), held.tell_gap)
        subscription = self._subscription(parsed, request, held, on_gap)
        engine.buffers[message.handle] = held
        if is_manual:
            engine.holding.add(held)
        try:
            await engine.requests.issue(request, subscription, timeout)
        except asyncio.CancelledError:
            engine.buffers.pop(message.handle, None)
            raise
        return subscription

    def _subscription(self, interest: Filter, request: Request, held: Buffer, on_gap: OnGap | None) -> Subscription:
        engine = self._engine
        durable = Durable(
            functools.partial(engine.holding.acknowledge, held), functools.partial(engine.resume_point, held)
        )
        subscription = Subscription(interest, held, functools.partial(engine.withdraw, request, held), durable)
        if on_gap is not None:
            held.on_gap = functools.partial(on_gap, subscription)
        return subscription

    async def publish(
        self, publication: Attributes | Publication, payload: bytes = b"", *, timeout: float | None = None
    ) -> None:
        """Publish; return when the host broker has accepted it.

        After ``timeout`` seconds, a publication that is not written yet is withdrawn and TimedOut is raised: it will
        not be published. If it is written and not acknowledged, OutcomeUnknown is raised: it may or may not be.
        """
        self._engine.check_open()
        _check_timeout(timeout)
        if not isinstance(publication, Publication):
            publication = Publication(publication, payload)
        elif payload:
            raise UsageError("expected the payload inside the publication, got another one as an argument")
        if self._engine.tracing is None:
            await self._engine.publisher.publish(to_publication(publication), timeout)
            return
        with self._engine.tracing.sending(publication, self.name) as traced:
            await self._engine.publisher.publish(to_publication(traced), timeout)

    async def produce_as(self, producer: str, *, timeout: float | None = None) -> int:
        """Publish as a producer from now on, and return how many of its publications this broker has received.

        Publications are then numbered over all sessions of the producer, and the broker drops repeated ones. So a
        program that publishes from a store continues after a crash with the publication after that number, and none
        is published twice. The broker remembers the number for as long as it runs. Call this before publishing.

        If the broker forgets the session of a producer, or is lost, this client ends: publications that were written
        and not acknowledged raise OutcomeUnknown, all others Unavailable. None is sent after one with an unknown
        outcome, so the number that the broker returns has no holes. Connect again, and call this again. The client also
        ends if this call is cancelled, or takes longer than ``timeout`` seconds: the number is then unknown.
        """
        _check_timeout(timeout)
        _checked_name(producer)
        try:
            async with asyncio.timeout(timeout):
                return await self._engine.produce(producer)
        except TimeoutError:
            sentence = f"the broker did not answer within {timeout} s; this client has ended, so connect again"
            raise TimedOut(sentence) from None

    @property
    def accepted(self) -> int:
        """The number of this client's publications that a broker has accepted, of all calls that have ended."""
        return self._engine.publisher.accepted

    @property
    def repeated(self) -> int:
        """The number of publications that the broker dropped because this producer had published them before."""
        return self._engine.repeated

    async def publish_many(
        self, publications: Iterable[Publishable] | AsyncIterable[Publishable], *, timeout: float | None = None
    ) -> int:
        """Publish all in order, without waiting in between; return the number accepted when all are settled.

        Items are publications, attributes, or pairs of attributes and payload. If some fail, the first failure is
        raised when all are settled; it begins with the index of the item, such as "item 3:". After ``timeout`` seconds,
        publications that are not written yet are withdrawn, and TimedOut is raised, or OutcomeUnknown if some are
        written and not acknowledged. A note on the error has the numbers.
        """
        self._engine.check_open()
        _check_timeout(timeout)
        if self._engine.tracing is None:
            return await self._engine.publisher.publish_many(publications, timeout)
        with self._engine.tracing.sending_many(publications, self.name) as traced:
            return await self._engine.publisher.publish_many(traced, timeout)

    def __repr__(self) -> str:
        if self._engine.end is not None:
            state = "closed"
        else:
            state = f"connected to {self._engine.channel.broker}" if self.is_connected else "reconnecting"
        return f"<Client {self.name!r}, {state}>"


def _to_filter(text: str | Filter) -> Filter:
    return text if isinstance(text, Filter) else parse_filter(text)


def _to_overflow(value: Overflow | str) -> Overflow:
    try:
        return Overflow(value)
    except ValueError:
        raise UsageError(
            f"expected an overflow of {' or '.join(map(repr, map(str, Overflow)))}, got {value!r}"
        ) from None


def _is_manual(ack: str, keep_s: float | None) -> bool:
    """Check the arguments on acknowledgement, and return whether the program acknowledges by itself."""
    if ack not in ("auto", "manual"):
        raise UsageError(f"expected an ack of 'auto' or 'manual', got {ack!r}")
    if keep_s is not None and not (isinstance(keep_s, int | float) and 0.0 <= keep_s <= KEEP_MAX_S):
        raise UsageError(f"expected a keep_s of 0 to {KEEP_MAX_S:.0f} seconds (a day), or None, got {keep_s!r}")
    return ack == "manual"


def _check_timeout(timeout: float | None) -> None:
    if timeout is None:
        return
    if not (isinstance(timeout, int | float) and 0.0 < timeout < float("inf")):
        raise UsageError(f"expected a timeout in seconds above 0, or None, got {timeout!r}")


def _to_ms(timeout: float | None) -> float:
    """Return a timeout as brokers expect it: 0 is none."""
    _check_timeout(timeout)
    return 0.0 if timeout is None else timeout * 1000.0


def _checked_name(name: str | None) -> str:
    if name is None:
        return f"client-{secrets.token_hex(6)}"
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise UsageError(f"expected a printable name of 1 to {NAME_LENGTH_MAX} characters, got {name[:40]!r}")
    return name
