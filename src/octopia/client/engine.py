"""The engine of a client: it owns the client's parts, and passes them the messages of the broker.

``channel`` is the link to the broker, ``requests`` are the advertisements and subscriptions, ``publisher`` sends
publications, ``buffers`` hold received publications by the handle of their subscription.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Sequence
from typing import assert_never

from octopia.addresses import Address
from octopia.client.buffer import Buffer
from octopia.client.callbacks import Callback, call
from octopia.client.channel import Channel
from octopia.client.credentials import Credentials
from octopia.client.durable import Holding, ResumedSubscription, ResumePoint
from octopia.client.guard import LoopGuard
from octopia.client.inbox import deliver
from octopia.client.outbox import Outbox
from octopia.client.publisher import Publisher
from octopia.client.requests import Request, Requests
from octopia.client.tracing import Tracing
from octopia.content import Disjunction as Filter  # As programs know it.
from octopia.content import format_filter, parse_filter
from octopia.errors import OctopiaError, PeerError, SlowSubscriber, Unavailable, UsageError
from octopia.protocol import Cause, MessageKind, Opening, Overflow
from octopia.protocol.messages import (
    ClientReply,
    Confirmed,
    CutOff,
    Deliver,
    Gap,
    Lost,
    Produced,
    Refused,
    Repeated,
    SubscribeRequest,
    Unconfirmed,
)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Hooks:
    """Functions of the program that are called on events. The events are logged, too."""

    on_disconnect: Callable[[OctopiaError | None], object] | None = None
    on_reconnect: Callable[[], object] | None = None
    on_error: Callable[[OctopiaError], object] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Resumed:
    """A subscription of an earlier process, which waits for the program to subscribe again."""

    request: Request
    buffer: Buffer


class Engine:
    """All parts of a client, and the listener of its channel."""

    def __init__(
        self,
        addresses: Sequence[Address],
        opening: Opening,
        hooks: Hooks,
        resumed: ResumePoint | None = None,
        credentials: Credentials = Credentials(),  # noqa: B008 (it is frozen)
        tracing: Tracing | None = None,
    ):
        outbox = Outbox()
        self.name = opening.sender
        self.end: OctopiaError | None = UsageError("expected an open client, got one that is not connected yet")
        self.tracing = tracing
        self.guard = LoopGuard()
        self.buffers: dict[int, Buffer] = {}
        self.channel = Channel(addresses, opening, outbox, self, resumed, credentials)
        self.holding = Holding(self.channel)
        self.requests = Requests(outbox, self.channel.poke, self._report)
        self.publisher = Publisher(outbox, self.channel.poke, self.channel.ask)
        self._resumed: dict[str, list[Resumed]] = {}
        self.repeated = 0
        self._hooks = hooks
        if resumed is not None:
            self._resume(resumed)

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

    async def close(self, timeout: float, *, keep: bool = False) -> None:
        """Wait for acknowledgements, then disconnect; with ``keep``, the broker keeps the session for its time."""
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
            await self.channel.close(keep=keep)

    async def produce(self, producer: str) -> int:
        """Publish as a producer, and return the last sequence that the broker has had from it."""
        self.check_open()
        if self.publisher.has_published:
            raise UsageError("expected produce_as() before the first publication, got it after one")
        if self.requests.is_asking_to_produce:
            raise UsageError("expected one call of produce_as() at a time, got another one")
        with self.publisher.refusing(
            UsageError("expected publications after produce_as() has returned, got one before")
        ):
            try:
                return await self.requests.produce(producer)
            except BaseException:
                # The broker may know the producer, and would drop publications that are numbered from 1.
                self.on_ended(Unavailable("produce_as() got no answer: connect again, and call it again"))
                raise

    async def withdraw(self, request: Request, buffer: Buffer | None = None) -> None:
        """Withdraw an advertisement, or a subscription with its buffer."""
        self.guard.check()
        if buffer is not None:
            buffer.end(None)
            self.buffers.pop(request.message.handle, None)
            buffer.forget_unacknowledged()
            self.holding.release()
        if self.end is None:
            await self.requests.withdraw(request)

    def new_buffer(
        self, size: int, overflow: Overflow, callback: Callback | None, *, is_manual: bool = False
    ) -> Buffer:
        """Return a buffer for a subscription, which notes what it receives if this client is traced."""
        tracing = self.tracing
        if tracing is None:
            return Buffer(size, overflow, callback, self.guard, is_manual=is_manual)
        if callback is not None:
            return Buffer(size, overflow, tracing.calling(callback, self.name), self.guard, is_manual=is_manual)
        note = functools.partial(tracing.received, client=self.name)
        return Buffer(size, overflow, None, self.guard, is_manual=is_manual, on_receipt=note)

    def drop(self, handle: int, error: OctopiaError) -> None:
        """End a subscription that the broker refuses."""
        if (buffer := self.buffers.pop(handle, None)) is not None:
            buffer.end(error)

    def take_resumed(self, interest: Filter, *, is_manual: bool, has_callback: bool) -> Resumed | None:
        """Return the subscription of an earlier process that a program continues, or None if there is none.

        Raise UsageError for a subscription instead of which the program must continue one: deliveries for that one
        would never be acknowledged, and hold back all others.
        """
        text = format_filter(interest)
        if text not in self._resumed:
            if self._resumed and is_manual:
                raise UsageError(
                    f"expected a filter of the resume point ({'; '.join(self._resumed)}) first, got {text}: subscribe "
                    "with that filter before others, or connect without the resume point"
                )
            return None
        if has_callback or not is_manual:
            got = "a callback" if has_callback else 'ack="auto"'
            raise UsageError(
                f'expected ack="manual" and no callback for {text}, which the resume point has, got {got}: subscribe '
                "without it, or connect without the resume point"
            )
        waiting = self._resumed[text]
        resumed = waiting.pop(0)
        if not waiting:
            del self._resumed[text]
        return resumed

    def resume_point(self, buffer: Buffer, number: int) -> str:
        """Return the point from which to resume after a delivery of a subscription."""
        manual, others = list[ResumedSubscription](), list[int]()
        for issued in self.requests.subscriptions():
            held = self.buffers.get(issued.handle)
            if held is not None and held.unacknowledged is not None:
                manual.append(ResumedSubscription(issued.handle, format_filter(issued.interest), issued.keep_ms))
            else:
                others.append(issued.handle)
        return self.holding.point_after(buffer, number, self.name, manual, others).to_text()

    def _resume(self, point: ResumePoint) -> None:
        """Take over the subscriptions of an earlier process: deliveries for them may come before anything else."""
        self.holding.start_after(point.released)
        for each in point.subscriptions:
            interest = parse_filter(each.interest)
            buffer = self.new_buffer(1, Overflow.DISCONNECT, None, is_manual=True)
            message = SubscribeRequest(each.handle, interest, 0.0, each.keep_ms)
            request = Request(message, functools.partial(self.drop, each.handle), buffer.tell_gap)
            self.requests.adopt(request)
            self.buffers[each.handle] = buffer
            self.holding.add(buffer)
            self._resumed.setdefault(format_filter(interest), []).append(Resumed(request, buffer))
        for handle in point.others:
            self.requests.withdraw_unknown(handle)

    # The channel's side.

    def on_new_link(self, opening: Opening, *, is_first: bool) -> None:
        """Issue everything to a broker that does not know this client; a gap ends when it is confirmed again.

        A producer ends instead: its unwritten publications must not follow ones that may be lost.
        """
        if self.requests.is_producing:
            sentence = "the broker does not know this producer's session: connect again, and call produce_as() again"
            self.on_ended(Unavailable(sentence))
            return
        self.requests.confirms = opening.confirms
        self.holding.began_again()
        self.requests.issue_again()
        if not is_first:
            _log.warning("the host broker does not know this client: client=%s broker=%s", self.name, opening.sender)
            self._note_gap(Gap(Cause.NEW_SESSION), self.holding.last, was_told=False)

    def on_replies(self, replies: list[ClientReply], sequence: int) -> None:
        """Handle what the broker said; wake each reader once."""
        number = self.holding.number(sequence, len(replies))
        now_ms = time.time() * 1000.0
        touched: dict[Buffer, None] = {}
        at, size = 0, len(replies)
        while at < size:
            at = deliver(replies, at, self.buffers, now_ms, touched, self._unsubscribe, number)
            if at < size:
                self._on_answer(replies[at], number + at)
                at += 1
        for buffer in touched:
            buffer.wake()
        self.holding.release()

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

    def _on_answer(self, reply: ClientReply, number: int) -> None:
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
                self._note_lost(reply.lost, number)
                self.on_ended(SlowSubscriber(sentence, reply.lost))
            case Lost():
                self._note_lost(reply.deliveries, number)
            case Gap():
                self._note_gap(reply, number, was_told=True)
            case Produced():
                self.requests.produced(reply.sequence)
            case Repeated():
                self.repeated += reply.count
            case Deliver():
                pass
            case _:
                assert_never(reply)

    def _on_refused(self, reply: Refused) -> None:
        if reply.request != MessageKind.PUBLICATION:
            self.requests.refused(reply.request, reply.number, reply.reason)
        elif (late := self.publisher.refused(reply.number, reply.reason)) is not None:
            self._report(late)

    def _note_gap(self, gap: Gap, number: int, *, was_told: bool) -> None:
        for buffer in list(self.buffers.values()):
            buffer.note_gap(gap, number, was_told=was_told)

    def _note_lost(self, deliveries: int, number: int) -> None:
        for buffer in self.buffers.values():
            buffer.note_lost(deliveries, number)

    def _finish(self, reason: OctopiaError | None, error: OctopiaError) -> None:
        """End all subscriptions, with a reason unless the program asked for it, and fail all waiting calls."""
        for buffer in self.buffers.values():
            buffer.end(reason)
        self.buffers.clear()
        self.requests.end(error)

    def _report(self, error: OctopiaError) -> None:
        """Report a failure for which no call waits."""
        _log.error("failed: client=%s reason=%s", self.name, error)
        if self._hooks.on_error is not None:
            call(self._hooks.on_error, error)
