"""The items that two sessions exchange."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from octopia.protocol.transit import Frame as Frame


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """Credit as absolute numbers, which can be repeated safely: bytes placed so far per class, plus the window.

    ``number`` grows with every change, so a receiver recognises and ignores an older grant that arrives late.
    """

    number: int
    window_bytes: int
    placed_bytes: tuple[tuple[int, int], ...]


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Opens a session over a connection.

    ``knows_incarnation`` is the incarnation of the receiver that the sender last talked to, 0 for none. ``accepted`` is
    the last sequence number that it accepted from that incarnation. A Hello with ``is_answer`` is not answered.
    """

    incarnation: int
    knows_incarnation: int
    accepted: int
    grant: Grant
    is_answer: bool = False


class Ack(msgspec.Struct, frozen=True, tag=True):
    """Acknowledges all frames up to ``accepted`` and restates the credit. Alone it serves as a heartbeat.

    It was held back for ``held_ms`` since the last frame arrived. With ``asks`` the other end should acknowledge at
    once, since somebody waits for it.
    """

    accepted: int
    grant: Grant
    held_ms: float = 0.0
    asks: bool = False


Item: TypeAlias = Hello | Frame | Ack
