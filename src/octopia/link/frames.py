"""What two sessions say to each other."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from octopia.broker.messages import Message

CONTROL = -1
"""In place of a traffic class: a frame that needs no credit."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Credit, as absolute numbers that can be repeated at will: bytes placed so far by class, plus the window.

    ``number`` grows with every change, so that an older grant that comes late is known as such.
    """

    number: int
    window_bytes: int
    placed_bytes: tuple[tuple[int, int], ...]


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Opens a connection.

    ``knows_incarnation`` is the incarnation of the receiver that the sender talked to last (0: none), ``accepted`` the
    last sequence number that it accepted from it. An answer to a greeting is not answered again.
    """

    incarnation: int
    knows_incarnation: int
    accepted: int
    grant: Grant
    is_answer: bool = False


class Frame(msgspec.Struct, frozen=True, tag=True):
    """A message with its place in the sequence, its traffic class and its size."""

    sequence: int
    message: Message
    traffic_class: int
    size_bytes: int


class Ack(msgspec.Struct, frozen=True, tag=True):
    """Acknowledges all frames up to ``accepted`` and restates the credit; alone it serves as a heartbeat."""

    accepted: int
    grant: Grant


Item: TypeAlias = Hello | Frame | Ack
