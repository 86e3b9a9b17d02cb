"""The wire format: the encoding of items as bytes, and back.

This package is pure: bytes in, items out, and the reverse. ``format`` documents the format.
"""

from octopia.protocol import Answer, CloseCode, Closing, Command, Opening, Role, Verb, WireItem
from octopia.wire.encoding import encode, prepare
from octopia.wire.format import VERSION, Limits
from octopia.wire.reader import Reader
from octopia.wire.writer import encode_all

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
    "encode_all",
    "prepare",
]
