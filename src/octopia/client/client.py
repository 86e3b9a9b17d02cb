"""The client: what programs hold in their hands to advertise, subscribe and publish.

Everything happens in one event loop, in which the client must be used. The parts: ``channel`` is the link to the
broker, ``outbox`` what is on its way there, ``requests`` what was issued, ``publishing`` what was published,
``subscriptions`` what comes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import itertools
import logging
import secrets
import time
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Self, assert_never

from octopia.addresses import Address
from octopia.client.channel import Channel
from octopia.client.outbox import Outbox
from octopia.client.publishing import Attributes, Publishable, Publishing, to_publication
from octopia.client.requests import Request, Requests
from octopia.client.subscriptions import Advertisement, Callback, OnGap, Received, Subscription, call
from octopia.client.urls import find_addresses
from octopia.content import Disjunction, Publication, parse_filter
from octopia.errors import OctopiaError, PeerError, SlowSubscriber, UsageError
from octopia.protocol import MessageKind, Opening, Overflow, Role
from octopia.protocol.handshake import NAME_LENGTH_MAX
from octopia.protocol.messages import (
    AdvertiseRequest,
    ClientReply,
    Confirmed,
    CutOff,
    Deliver,
    Gap,
    Lost,
    Refused,
    SubscribeRequest,
    Unconfirmed,
)

_log = logging.getLogger(__name__)

CONNECT_S = 5.0
"""How long the first connection may take."""
DRAIN_S = 5.0
"""How long ``close`` waits for what was published."""
BUFFER = 10_000
"""How many publications a subscription holds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Hooks:
    """What a program wants to be told; all of it is logged, too."""

    on_disconnect: Callable[[OctopiaError | None], object] | None = None
    on_reconnect: Callable[[], object] | None = None
    on_error: Callable[[OctopiaError], object] | None = None


def connect(
    url: str | Sequence[str] | None = None,
    *,
    name: str | None = None,
    overflow: Overflow | str = Overflow.DISCONNECT,
    timeout_s: float = CONNECT_S,
    on_disconnect: Callable[[OctopiaError | None], object] | None = None,
    on_reconnect: Callable[[], object] | None = None,
    on_error: Callable[[OctopiaError], object] | None = None,
) -> Client:
    """Return a client, which connects when it is entered with ``async with``.

    ``url`` is one URL or several; without it OCTOPIA_URL counts, then octopia://127.0.0.1:7400. ``name`` is unique at
    a broker, and drawn at random by default. ``overflow`` is what the broker does if this client reads too slowly.
    """
    opening = Opening(Role.CLIENT, _checked_name(name), overflow=_to_overflow(overflow))
    return Client(find_addresses(url), opening, timeout_s, Hooks(on_disconnect, on_reconnect, on_error))


class Client:
    """A program's connection with an overlay, made with ``octopia.connect``."""

    def __init__(self, addresses: Sequence[Address], opening: Opening, timeout_s: float, hooks: Hooks):
        self._addresses = addresses
        self._opening = opening
        self._timeout_s = timeout_s
        self._hooks = hooks
        self._handles = itertools.count(1)
        self._subscriptions: dict[int, Subscription] = {}
        self._end: OctopiaError | None = UsageError("expected an open client, got one that was not entered yet")

    # Opening and closing.

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(timeout_s=DRAIN_S if error is None else 0.0)

    async def open(self) -> None:
        """Connect, or raise Unavailable with what is wrong."""
        if self._end is None:
            raise UsageError("expected a client that is not open, got one that is")
        outbox = Outbox()
        self._channel = Channel(self._addresses, self._opening, outbox, self)
        self._requests = Requests(outbox, self._channel.poke, self._report)
        self._publishing = Publishing(outbox, self._channel.poke)
        await self._channel.open(self._timeout_s)
        self._end = None

    async def close(self, timeout_s: float = DRAIN_S) -> None:
        """Wait for what was published to be acknowledged, as long as that, then leave."""
        if self._end is not None:
            return
        self._end = UsageError("expected an open client, got one that was closed")
        try:
            async with asyncio.timeout(timeout_s):
                await self._publishing.settled()
        except TimeoutError:
            pass
        finally:
            self._publishing.end(self._end)
            self._finish(None, self._end)
            await self._channel.close()

    @property
    def name(self) -> str:
        """What the broker calls this client."""
        return self._opening.sender

    @property
    def is_connected(self) -> bool:
        """Whether a broker is connected at this moment."""
        return self._end is None and self._channel.is_up

    # The verbs.

    async def advertise(
        self, offer: str | Disjunction, *, ordered: bool = False, timeout_s: float | None = None
    ) -> Advertisement:
        """Say what will be published, and return when every broker that must know it does."""
        self._check_open()
        parsed = _to_filter(offer)
        message = AdvertiseRequest(next(self._handles), parsed, ordered, _to_ms(timeout_s))
        request = Request(message, lambda _: None)
        advertisement = Advertisement(parsed, functools.partial(self._withdraw, request))
        await self._requests.issue(request, advertisement, timeout_s)
        return advertisement

    async def subscribe(
        self,
        interest: str | Disjunction,
        *,
        callback: Callback | None = None,
        buffer: int = BUFFER,
        overflow: Overflow | str = Overflow.DISCONNECT,
        on_gap: OnGap | None = None,
        timeout_s: float | None = None,
    ) -> Subscription:
        """Say what is wanted, and return when it is in force everywhere.

        With a ``callback``, a plain function, publications go there as they come. Otherwise up to ``buffer`` of them
        wait to be iterated; ``overflow`` says whether one more ends the subscription or pushes the oldest out.
        """
        self._check_open()
        parsed = _to_filter(interest)
        if inspect.iscoroutinefunction(callback):
            raise UsageError("expected a plain function as callback, got a coroutine function; use `async for` instead")
        if buffer < 1:
            raise UsageError(f"expected a buffer of at least 1 publication, got {buffer}")
        message = SubscribeRequest(next(self._handles), parsed, _to_ms(timeout_s))
        request = Request(message, functools.partial(self._subscription_ended, message.handle))
        withdraw = functools.partial(self._withdraw, request)
        subscription = Subscription(parsed, buffer, _to_overflow(overflow), withdraw, callback, on_gap)
        self._subscriptions[message.handle] = subscription
        try:
            await self._requests.issue(request, subscription, timeout_s)
        except asyncio.CancelledError:
            self._subscriptions.pop(message.handle, None)
            raise
        return subscription

    async def publish(self, publication: Attributes | Publication, payload: bytes = b"") -> None:
        """Publish, and return when the host broker has accepted it."""
        self._check_open()
        if not isinstance(publication, Publication):
            publication = Publication(publication, payload)
        elif payload:
            raise UsageError("expected the payload inside the publication, got another one beside it")
        await self._publishing.publish(to_publication(publication))

    async def publish_many(self, publications: Iterable[Publishable] | AsyncIterable[Publishable]) -> int:
        """Publish all in order, without waiting in between, and return how many were accepted.

        Items are publications, attributes, or attributes with a payload. If some fail, the first failure is raised when
        all are settled.
        """
        self._check_open()
        return await self._publishing.publish_many(publications)

    async def _withdraw(self, request: Request) -> None:
        self._subscriptions.pop(request.message.handle, None)
        if self._end is None:
            await self._requests.withdraw(request)

    def _check_open(self) -> None:
        if self._end is not None:
            raise self._end

    # What the channel brings.

    def on_new_link(self, opening: Opening, *, is_first: bool) -> None:
        """Issue everything to a broker that knows nothing of it."""
        self._requests.confirms = opening.confirms
        self._requests.issue_again()
        if not is_first:
            _log.warning("the host broker knew nothing of us: client=%s broker=%s", self.name, opening.sender)
            self._note_gap()

    def on_replies(self, replies: Sequence[ClientReply]) -> None:
        """Take what the broker said; whoever waits for publications is woken once."""
        now_ms = time.time() * 1000.0
        touched: dict[Subscription, None] = {}
        for reply in replies:
            if type(reply) is Deliver:
                self._deliver(reply, now_ms, touched)
            else:
                self._on_answer(reply)
        for subscription in touched:
            subscription.wake()

    def on_room(self) -> None:
        """Let publishers go on."""
        self._publishing.room_was_made()

    def on_disconnected(self, reason: PeerError | None) -> None:
        """Tell the program."""
        _log.warning("disconnected: client=%s reason=%s", self.name, reason or "the connection broke")
        if self._hooks.on_disconnect is not None:
            call(self._hooks.on_disconnect, reason)

    def on_reconnected(self) -> None:
        """Tell the program."""
        _log.info("reconnected: client=%s", self.name)
        if self._hooks.on_reconnect is not None:
            call(self._hooks.on_reconnect)

    def on_ended(self, error: OctopiaError) -> None:
        """Fail everything: the broker wants no more of this client."""
        if self._end is None:
            _log.error("ended: client=%s reason=%s", self.name, error)
            self._end = error
            self._publishing.end(error)
            self._finish(error, error)
            self._channel.abort()

    def _deliver(self, delivery: Deliver, now_ms: float, touched: dict[Subscription, None]) -> None:
        received = Received(delivery, now_ms)
        for handle in delivery.handles:
            subscription = self._subscriptions.get(handle)
            if subscription is None:
                continue  # It was withdrawn while this was on its way.
            touched[subscription] = None
            if not subscription.take(received):
                self._unsubscribe(handle)

    def _unsubscribe(self, handle: int) -> None:
        """Withdraw a subscription that is too slow; until the broker knows, what comes for it is counted as lost."""
        if (withdrawn := self._requests.withdraw_subscription(handle)) is not None:
            withdrawn.add_done_callback(lambda _: self._subscriptions.pop(handle, None))

    def _on_answer(self, reply: ClientReply) -> None:
        match reply:
            case Confirmed():
                self._requests.confirmed(reply.request, reply.number)
            case Unconfirmed():
                self._requests.unconfirmed(reply)
            case Refused():
                self._on_refused(reply)
            case CutOff():
                sentence = f"the broker cut this client off for reading too slowly; {reply.lost} deliveries were lost"
                self._note_lost(reply.lost)
                self.on_ended(SlowSubscriber(sentence, reply.lost))
            case Lost():
                self._note_lost(reply.deliveries)
            case Gap():
                self._note_gap()
            case Deliver():
                pass
            case _:
                assert_never(reply)

    def _on_refused(self, reply: Refused) -> None:
        if reply.request != MessageKind.PUBLICATION:
            self._requests.refused(reply.request, reply.number, reply.reason)
        elif (late := self._publishing.refused(reply.number, reply.reason)) is not None:
            self._report(late)

    def _note_gap(self) -> None:
        for subscription in list(self._subscriptions.values()):
            subscription.note_gap()

    def _note_lost(self, deliveries: int) -> None:
        for subscription in self._subscriptions.values():
            subscription.lost += deliveries

    def _finish(self, reason: OctopiaError | None, error: OctopiaError) -> None:
        """End all subscriptions, for a reason or because the program wants it, and fail all that is waited for."""
        for subscription in self._subscriptions.values():
            subscription.end(reason)
        self._subscriptions.clear()
        self._requests.end(error)

    def _subscription_ended(self, handle: int, error: OctopiaError) -> None:
        subscription = self._subscriptions.pop(handle, None)
        if subscription is not None:
            subscription.end(error)

    def _report(self, error: OctopiaError) -> None:
        """Tell the program of a failure that no call can raise any more."""
        _log.error("failed: client=%s reason=%s", self.name, error)
        if self._hooks.on_error is not None:
            call(self._hooks.on_error, error)


def _to_filter(text: str | Disjunction) -> Disjunction:
    return text if isinstance(text, Disjunction) else parse_filter(text)


def _to_overflow(value: Overflow | str) -> Overflow:
    try:
        return Overflow(value)
    except ValueError:
        raise UsageError(
            f"expected an overflow of {' or '.join(map(repr, map(str, Overflow)))}, got {value!r}"
        ) from None


def _to_ms(timeout_s: float | None) -> float:
    """Return a time as brokers want it: 0 is for ever."""
    if timeout_s is None:
        return 0.0
    if not 0.0 < timeout_s < float("inf"):
        raise UsageError(f"expected a timeout above 0 s, or None, got {timeout_s}")
    return timeout_s * 1000.0


def _checked_name(name: str | None) -> str:
    if name is None:
        return f"client-{secrets.token_hex(6)}"
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise UsageError(f"expected a printable name of 1 to {NAME_LENGTH_MAX} characters, got {name[:40]!r}")
    return name
