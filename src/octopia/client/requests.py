"""Advertisements and subscriptions as requests: issued, confirmed, withdrawn, and issued again after a broker's loss.

A request stands until it is withdrawn or refused. The call returns when the broker confirms the request. If the broker
does not confirm at all (its Opening says so), the call returns when the request's frame is acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from octopia.client.outbox import Entry, Outbox
from octopia.errors import NotConfirmed, OctopiaError, RequestRefused
from octopia.protocol import MessageKind
from octopia.protocol.messages import (
    AdvertiseRequest,
    ProduceRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    Unconfirmed,
    UnsubscribeRequest,
)

CONFIRMATION_SLACK_S = 0.25
"""The extra time for the broker's own answer, which names the brokers that have not confirmed."""

Issuing: TypeAlias = AdvertiseRequest | SubscribeRequest
Withdrawing: TypeAlias = UnadvertiseRequest | UnsubscribeRequest
Key: TypeAlias = tuple[str, int]
"""A kind of message, as replies name it, and a handle."""

_WITHDRAWALS = {
    str(MessageKind.UNADVERTISEMENT): MessageKind.ADVERTISEMENT,
    str(MessageKind.UNSUBSCRIPTION): MessageKind.SUBSCRIPTION,
}


class Request:
    """An advertisement or a subscription that stands.

    ``ended`` is called if the broker gives it up, ``returned`` when it is in force again after it was issued again.
    """

    def __init__(
        self, message: Issuing, ended: Callable[[OctopiaError], None], returned: Callable[[], None] = lambda: None
    ):
        self.message = message
        self.ended = ended
        self._returned = returned
        self._is_issued_again = False
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def key(self) -> Key:
        """Its name in replies."""
        is_offer = isinstance(self.message, AdvertiseRequest)
        return MessageKind.ADVERTISEMENT if is_offer else MessageKind.SUBSCRIPTION, self.message.handle

    def withdrawal(self) -> Withdrawing:
        """Return the message that withdraws it."""
        handle = self.message.handle
        is_offer = isinstance(self.message, AdvertiseRequest)
        return UnadvertiseRequest(handle) if is_offer else UnsubscribeRequest(handle)

    def issue_again(self) -> None:
        """Note that it is sent to a broker that does not know it; without a waiting call, there is no time limit."""
        self._is_issued_again = True
        if self.outcome.done():
            self.message = msgspec.structs.replace(self.message, timeout_ms=0.0)

    def confirm(self) -> None:
        """Note that it is in force."""
        if self._is_issued_again:
            self._is_issued_again = False
            self._returned()
        if not self.outcome.done():
            self.outcome.set_result(None)

    def fail(self, error: OctopiaError) -> bool:
        """Fail the call that waits; return False if there is none."""
        if self.outcome.done():
            return False
        self.outcome.set_exception(error)
        return True


class _Issue(Entry):
    """A request in the outbox."""

    __slots__ = ("_request", "_requests")

    def __init__(self, request: Request, requests: Requests):
        super().__init__()
        self._request = request
        self._requests = requests

    @property
    def message(self) -> Issuing:
        return self._request.message

    def acknowledged(self) -> None:
        if not self._requests.confirms:
            self._request.confirm()

    def forgotten(self) -> None:
        pass  # It is issued again.


class _Withdrawal(Entry):
    """A withdrawal in the outbox. A broker that has forgotten everything has nothing left to withdraw."""

    __slots__ = ("message", "outcome")

    def __init__(self, message: Withdrawing):
        super().__init__()
        self.message = message
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def acknowledged(self) -> None:
        if not self.outcome.done():
            self.outcome.set_result(None)

    def forgotten(self) -> None:
        self.acknowledged()


class _Producing(Entry):
    """The request to publish as a producer, in the outbox; ``outcome`` has the last sequence that the broker had."""

    __slots__ = ("message", "outcome")

    def __init__(self, producer: str):
        super().__init__()
        self.message = ProduceRequest(producer)
        self.outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def acknowledged(self) -> None:
        pass  # The answer counts.

    def forgotten(self) -> None:
        pass  # It is issued again.


class Requests:
    """All requests that a client has issued and not withdrawn."""

    def __init__(self, outbox: Outbox, poke: Callable[[], None], report: Callable[[OctopiaError], None]):
        self.confirms = True
        self._outbox = outbox
        self._poke = poke
        self._report = report
        self._standing: dict[Key, Request] = {}
        self._withdrawals: list[_Withdrawal] = []
        self._producing: _Producing | None = None

    # The client's side.

    def adopt(self, request: Request) -> None:
        """Add a request that the broker has from an earlier process."""
        request.outcome.set_result(None)
        self._standing[request.key] = request

    def keep(self, request: Request, keep_ms: float) -> None:
        """Let the broker keep the session for another time than a subscription has asked for before."""
        message = request.message
        if isinstance(message, SubscribeRequest) and message.keep_ms != keep_ms:
            request.message = msgspec.structs.replace(message, keep_ms=keep_ms)
            self._put(request)

    def subscriptions(self) -> list[SubscribeRequest]:
        """Return all subscriptions that stand."""
        issued = [request.message for request in self._standing.values()]
        return [each for each in issued if isinstance(each, SubscribeRequest)]

    def withdraw_unknown(self, handle: int) -> None:
        """Withdraw a subscription that the broker has from an earlier process."""
        self._outbox.put_control(_Withdrawal(UnsubscribeRequest(handle)))

    async def produce(self, producer: str) -> int:
        """Publish as a producer, and return the last sequence that the broker has received from it."""
        self._producing = _Producing(producer)
        self._outbox.put_control(self._producing)
        self._poke()
        return await self._producing.outcome

    @property
    def is_asking_to_produce(self) -> bool:
        """True if the broker has not answered yet whether publications are those of a producer."""
        return self._producing is not None and not self._producing.outcome.done()

    @property
    def is_producing(self) -> bool:
        """True if publications are numbered as those of a producer."""
        return self._producing is not None and self._producing.outcome.done()

    async def issue(self, request: Request, issued: object, timeout: float | None) -> None:
        """Return when a request is confirmed; withdraw it if the call is cancelled."""
        self._standing[request.key] = request
        self._put(request)
        try:
            async with asyncio.timeout(None if timeout is None else timeout + CONFIRMATION_SLACK_S):
                await request.outcome
        except TimeoutError:
            raise NotConfirmed(_unconfirmed(request, ()), issued) from None
        except NotConfirmed as error:
            error.issued = issued
            raise
        except asyncio.CancelledError:
            self.withdraw(request)
            raise

    def withdraw(self, request: Request) -> asyncio.Future[None]:
        """Withdraw a request; the result is done when the broker has the withdrawal."""
        withdrawal = _Withdrawal(request.withdrawal())
        if self._standing.pop(request.key, None) is None:
            withdrawal.acknowledged()
            return withdrawal.outcome
        self._withdrawals = [each for each in self._withdrawals if not each.outcome.done()]
        self._withdrawals.append(withdrawal)
        self._outbox.put_control(withdrawal)
        self._poke()
        return withdrawal.outcome

    def withdraw_subscription(self, handle: int) -> asyncio.Future[None] | None:
        """Withdraw a subscription by its handle, if it stands."""
        request = self._find(MessageKind.SUBSCRIPTION, handle)
        return None if request is None else self.withdraw(request)

    # The connection's side.

    def issue_again(self) -> None:
        """Issue all standing requests to a broker that does not know them."""
        if self._producing is not None:
            self._outbox.put_control(self._producing)
        for request in self._standing.values():
            request.issue_again()
            self._put(request)

    def produced(self, sequence: int) -> None:
        """Note the last sequence that the broker has had from this producer."""
        if self._producing is not None and not self._producing.outcome.done():
            self._outbox.start_after(sequence)
            self._producing.outcome.set_result(sequence)

    def confirmed(self, kind: str, handle: int) -> None:
        """Note that a request is in force."""
        if (request := self._find(kind, handle)) is not None:
            request.confirm()

    def unconfirmed(self, reply: Unconfirmed) -> None:
        """Note that a request was not confirmed in time; it stands."""
        if (request := self._find(reply.request, reply.number)) is not None:
            request.fail(NotConfirmed(_unconfirmed(request, list(map(str, reply.missing)))))

    def refused(self, kind: str, handle: int, reason: str) -> None:
        """Fail a request, which then no longer stands, or report a refused withdrawal."""
        if kind in _WITHDRAWALS:
            # The broker does not have it, so there is nothing left to withdraw.
            self._report(RequestRefused(f"the broker refused to withdraw a {_WITHDRAWALS[kind]}: {reason}"))
            return
        request = self._standing.pop((kind, handle), None)
        if request is None:
            return
        error = RequestRefused(f"the broker refused {'an' if kind[0] in 'aeiou' else 'a'} {kind}: {reason}")
        if not request.fail(error):
            self._report(error)
        request.ended(error)

    def end(self, error: OctopiaError) -> None:
        """Fail all calls that wait."""
        standing, self._standing = self._standing, {}
        for request in standing.values():
            request.fail(error)
            request.ended(error)
        for withdrawal in self._withdrawals:
            withdrawal.acknowledged()
        if self._producing is not None and not self._producing.outcome.done():
            self._producing.outcome.set_exception(error)

    def _put(self, request: Request) -> None:
        self._outbox.put_control(_Issue(request, self))
        self._poke()

    def _find(self, kind: str, handle: int) -> Request | None:
        return self._standing.get((kind, handle))


def _unconfirmed(request: Request, missing: Sequence[str]) -> str:
    brokers = f" (missing: {', '.join(missing)})" if missing else ""
    return f"the {request.key[0]} was not confirmed in time{brokers}; it stays in force where it has arrived"
