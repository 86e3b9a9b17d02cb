"""Manual acknowledgement: the deliveries that a program has not acknowledged, and sessions to resume.

Theory of operation
-------------------

A broker keeps everything that it has written to a client until the client acknowledges it. Normally the client does so
when a delivery has arrived. A subscription with ``ack="manual"`` lets the program say when: the session then *holds*,
and acknowledges nothing from the first delivery on that some subscription has not acknowledged. One acknowledgement
covers everything before it, so a program that acknowledges one subscription late also delays the others.

Messages of the broker are numbered from 1 in every session. Here they get *numbers* that continue over sessions, so
that a late acknowledgement of an old delivery is never taken for that of a new one.

A *resume point* is all that another process needs to continue a session: after a crash it gets the deliveries that were
not acknowledged, once and in order, and no others. It is a string, which programs store with their data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from octopia.client.buffer import Buffer
from octopia.errors import UsageError

_VERSION = 1


class ResumedSubscription(msgspec.Struct, frozen=True):
    """A subscription that the broker still has: its handle, its filter, and for how long it keeps the session."""

    handle: int
    interest: str
    keep_ms: float


class ResumePoint(msgspec.Struct, frozen=True):
    """The state of a session after some message: both ends, the number of the message, and what was subscribed.

    ``others`` are the handles of subscriptions that are not resumed; they are withdrawn.
    """

    version: int
    name: str
    broker: str
    fingerprint: str
    incarnation: int
    broker_incarnation: int
    released: int
    subscriptions: tuple[ResumedSubscription, ...]
    others: tuple[int, ...] = ()

    def to_text(self) -> str:
        """Return the point as a string."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_text(cls, text: str) -> ResumePoint:
        """Parse a point."""
        try:
            point = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError:
            raise UsageError(f"expected a string from subscription.resume_point(), got {text[:60]!r}") from None
        if point.version != _VERSION:
            raise UsageError(f"expected a resume point of version {_VERSION}, got one of version {point.version}")
        return point


@dataclasses.dataclass(frozen=True, slots=True)
class LinkIdentity:
    """The two ends of a session: the broker by its name and overlay, and the session at both of its ends."""

    broker: str
    fingerprint: str
    incarnation: int
    broker_incarnation: int


class HeldChannel(Protocol):
    """The channel of a client, as far as acknowledgements are concerned."""

    @property
    def identity(self) -> LinkIdentity:
        """Both ends of the session."""

    def hold(self) -> None:
        """Acknowledge nothing from now on before it is released, in this session and in later ones."""

    def release(self, sequence: int) -> None:
        """Let all messages up to a number of the session be acknowledged."""


class Holding:
    """The deliveries that the program has not acknowledged, over all its subscriptions."""

    def __init__(self, channel: HeldChannel) -> None:
        self._channel = channel
        self._base = 0
        self._last = 0
        self._manual: list[Buffer] = []

    def add(self, buffer: Buffer) -> None:
        """Let the program acknowledge what a subscription gets."""
        self._manual.append(buffer)
        self._channel.hold()

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self._last

    def number(self, sequence: int, count: int) -> int:
        """Return the number of a message of the session; ``count`` messages begin with it."""
        first = self._base + sequence
        self._last = first + count - 1
        return first

    def began_again(self) -> None:
        """Note that a new session begins: deliveries of the last one can no longer be acknowledged."""
        self._base = self._last
        for buffer in self._manual:
            buffer.forget_unacknowledged()

    def start_after(self, sequence: int) -> None:
        """Note that the session continues after a message."""
        self._last = sequence

    def acknowledge(self, buffer: Buffer, number: int) -> None:
        """Acknowledge all deliveries of a subscription up to a number."""
        if buffer.unacknowledged is None:
            raise UsageError('expected a subscription with ack="manual", got one that acknowledges by itself')
        buffer.acknowledge(number)
        self.release()

    def release(self) -> None:
        """Let the session acknowledge everything before the first delivery that is not acknowledged."""
        if not self._manual:
            return
        self._manual = [each for each in self._manual if each.unacknowledged or not each.has_ended]
        waiting = [each.unacknowledged[0] for each in self._manual if each.unacknowledged]
        released = min(waiting) - 1 if waiting else self._last
        if released > self._base:
            self._channel.release(released - self._base)

    def point_after(
        self,
        buffer: Buffer,
        number: int,
        name: str,
        subscriptions: Iterable[ResumedSubscription],
        others: Sequence[int],
    ) -> ResumePoint:
        """Return the point from which to resume after a delivery of a subscription.

        Unacknowledged deliveries of other subscriptions are sent again.
        """
        link = self._channel.identity
        waiting = [each.unacknowledged[0] for each in self._manual if each.unacknowledged and each is not buffer]
        released = min([number, self._last, *(first - 1 for first in waiting)])
        return ResumePoint(
            _VERSION,
            name,
            link.broker,
            link.fingerprint,
            link.incarnation,
            link.broker_incarnation,
            max(0, released - self._base),
            tuple(subscriptions),
            tuple(others),
        )
