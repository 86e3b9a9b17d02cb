"""The wire format: how all that two ends of a connection say to each other becomes bytes, and items again.

This is pure: bytes in, items out, and the other way round. ``layout`` explains the format.
"""

from octopia.protocol import Answer, CloseCode, Closing, Command, Opening, Role, Verb, WireItem
from octopia.wire.encoding import encode, prepare
from octopia.wire.layout import VERSION, Limits
from octopia.wire.reader import Reader

__all__ = [
    "VERSION",
    "Answer",
    "CloseCode",
    "Closing",
    "Command",
    "Limits",
    "Opening",
    "Reader",
    "Role",
    "Verb",
    "WireItem",
    "encode",
    "prepare",
]
