"""The writer of a connection: items in, the bytes of all their frames out."""

from __future__ import annotations

from collections.abc import Iterable

from octopia.protocol import WireItem
from octopia.wire import relaying
from octopia.wire.encoding import encode


def encode_all(items: Iterable[WireItem]) -> bytes | bytearray:
    """Return the frames of items, one after the other."""
    if relaying.IS_COMPILED:
        return relaying.write(items if type(items) is list else list(items), encode)
    return b"".join(map(encode, items))
