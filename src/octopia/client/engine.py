"""The engine of a client: it owns the client's parts, and hands them what the broker says.

``channel`` is the link to the broker, ``requests`` are the advertisements and subscriptions, ``publisher`` sends
publications, ``buffers`` hold received publications by the handle of their subscription.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import assert_never

from octopia.addresses import Address
from octopia.client.buffer import Buffer
from octopia.client.callbacks import call
from octopia.client.channel import Channel
from octopia.client.guard import LoopGuard
from octopia.client.inbox import deliver
from octopia.client.outbox import Outbox
from octopia.client.publisher import Publisher
from octopia.client.requests import Request, Requests
from octopia.errors import OctopiaError, PeerError, SlowSubscriber, UsageError
from octopia.protocol import Cause, MessageKind, Opening
from octopia.protocol.messages import ClientReply, Confirmed, CutOff, Deliver, Gap, Lost, Refused, Unconfirmed

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Hooks:
    """Functions of the program that are called on events. The events are logged, too."""

    on_disconnect: Callable[[OctopiaError | None], object] | None = None
    on_reconnect: Callable[[], object] | None = None
    on_error: Callable[[OctopiaError], object] | None = None


class Engine:
    """All parts of a client, and the listener of its channel."""

    def __init__(self, addresses: Sequence[Address], opening: Opening, hooks: Hooks):
        outbox = Outbox()
        self.name = opening.sender
        self.end: OctopiaError | None = UsageError("expected an open client, got one that is not connected yet")
        self.guard = LoopGuard()
        self.buffers: dict[int, Buffer] = {}
        self.channel = Channel(addresses, opening, outbox, self)
        self.requests = Requests(outbox, self.channel.poke, self._report)
        self.publisher = Publisher(outbox, self.channel.poke, self.channel.ask)
        self._hooks = hooks

    # The client's side.

    def check_open(self) -> None:
        """Raise the reason if the client is closed, and UsageError if another event loop is running."""
        self.guard.check()
        if self.end is not None:
            raise self.end

    async def open(self, timeout: float) -> None:
        """Connect, or raise Unavailable with the reason."""
        await self.channel.open(timeout)
        self.end = None

    async def close(self, timeout: float) -> None:
        """Wait for acknowledgements, then disconnect."""
        if self.end is not None:
            return
        self.guard.check()
        self.end = UsageError("expected an open client, got one that was closed")
        try:
            async with asyncio.timeout(timeout):
                await self.publisher.settled()
        except TimeoutError:
            pass
        finally:
            self.publisher.end(self.end)
            self._finish(None, self.end)
            await self.channel.close()

    async def withdraw(self, request: Request, buffer: Buffer | None = None) -> None:
        """Withdraw an advertisement, or a subscription with its buffer."""
        self.guard.check()
        if buffer is not None:
            buffer.end(None)
            self.buffers.pop(request.message.handle, None)
        if self.end is None:
            await self.requests.withdraw(request)

    def drop(self, handle: int, error: OctopiaError) -> None:
        """End a subscription that the broker refuses."""
        if (buffer := self.buffers.pop(handle, None)) is not None:
            buffer.end(error)

    # The channel's side.

    def on_new_link(self, opening: Opening, *, is_first: bool) -> None:
        """Issue everything to a broker that does not know this client; a gap ends when it is confirmed again."""
        self.requests.confirms = opening.confirms
        self.requests.issue_again()
        if not is_first:
            _log.warning("the host broker does not know this client: client=%s broker=%s", self.name, opening.sender)
            self._note_gap(Gap(Cause.NEW_SESSION))

    def on_replies(self, replies: list[ClientReply]) -> None:
        """Handle what the broker said; wake each reader once."""
        now_ms = time.time() * 1000.0
        touched: dict[Buffer, None] = {}
        at, size = 0, len(replies)
        while at < size:
            at = deliver(replies, at, self.buffers, now_ms, touched, self._unsubscribe)
            if at < size:
                self._on_answer(replies[at])
                at += 1
        for buffer in touched:
            buffer.wake()

    def on_room(self) -> None:
        """Wake a call that waits for room."""
        self.publisher.room_was_made()

    def on_disconnected(self, reason: PeerError | None) -> None:
        """Call the program's hook."""
        _log.warning("disconnected: client=%s reason=%s", self.name, reason or "the connection broke")
        if self._hooks.on_disconnect is not None:
            call(self._hooks.on_disconnect, reason)

    def on_reconnected(self) -> None:
        """Call the program's hook."""
        _log.info("reconnected: client=%s", self.name)
        if self._hooks.on_reconnect is not None:
            call(self._hooks.on_reconnect)

    def on_ended(self, error: OctopiaError) -> None:
        """Fail everything: the broker no longer accepts this client."""
        if self.end is None:
            _log.error("ended: client=%s reason=%s", self.name, error)
            self.end = error
            self.publisher.end(error)
            self._finish(error, error)
            self.channel.abort()

    def _unsubscribe(self, handle: int) -> None:
        """Withdraw a subscription that is too slow; until the broker has done so, deliveries for it count as lost."""
        if (withdrawn := self.requests.withdraw_subscription(handle)) is not None:
            withdrawn.add_done_callback(lambda _: self.buffers.pop(handle, None))

    def _on_answer(self, reply: ClientReply) -> None:
        match reply:
            case Confirmed():
                self.requests.confirmed(reply.request, reply.number)
            case Unconfirmed():
                self.requests.unconfirmed(reply)
            case Refused():
                self._on_refused(reply)
            case CutOff():
                sentence = (
                    f"the broker disconnected this client for reading too slowly; it lost {reply.lost} deliveries"
                )
                self._note_lost(reply.lost)
                self.on_ended(SlowSubscriber(sentence, reply.lost))
            case Lost():
                self._note_lost(reply.deliveries)
            case Gap():
                self._note_gap(reply)
            case Deliver():
                pass
            case _:
                assert_never(reply)

    def _on_refused(self, reply: Refused) -> None:
        if reply.request != MessageKind.PUBLICATION:
            self.requests.refused(reply.request, reply.number, reply.reason)
        elif (late := self.publisher.refused(reply.number, reply.reason)) is not None:
            self._report(late)

    def _note_gap(self, gap: Gap) -> None:
        for buffer in list(self.buffers.values()):
            buffer.note_gap(gap)

    def _note_lost(self, deliveries: int) -> None:
        for buffer in self.buffers.values():
            buffer.lost += deliveries

    def _finish(self, reason: OctopiaError | None, error: OctopiaError) -> None:
        """End all subscriptions, with a reason or at the program's wish, and fail all calls that wait."""
        for buffer in self.buffers.values():
            buffer.end(reason)
        self.buffers.clear()
        self.requests.end(error)

    def _report(self, error: OctopiaError) -> None:
        """Report a failure that no call can raise any more."""
        _log.error("failed: client=%s reason=%s", self.name, error)
        if self._hooks.on_error is not None:
            call(self._hooks.on_error, error)
