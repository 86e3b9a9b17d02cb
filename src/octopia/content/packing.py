"""Attributes to bytes: one pass over a dict that checks every name and value and writes them as a msgpack map.

Plain Python that Cython compiles (``packing.pxd``). The bytes are those of msgspec's encoder. The pass gives up on
attributes that are wrong or very long. The checks of ``publications`` then say what is wrong, and ``octopia.wire``
encodes the rest. As plain Python those are faster, so ``IS_COMPILED`` decides whether to use the pass.
"""

from __future__ import annotations

from array import array

from octopia.content import bits, limits
from octopia.content.values import Value

MOST_BYTES = 64 * 1024
"""The length of encoded attributes at which the pass gives up."""

MOST_ATTRIBUTES = limits.PUBLICATION_ATTRIBUTES_MAX
LONGEST_NAME = limits.NAME_LENGTH_MAX
LONGEST_STRING = limits.STRING_LENGTH_MAX
NUMBER_BYTES = limits.NUMBER_BYTES

# First bytes in msgpack, as in ``encoded``.
FIXMAP = 0x80
FIXSTR = 0xA0
FALSE = 0xC2
TRUE = 0xC3
FLOAT64 = 0xCB
UINT8 = 0xCC
INT8 = 0xD0
STR8 = 0xD9
STR16 = 0xDA
MAP16 = 0xDE

TAG_BYTES = 3
"""The most bytes before the characters of a string, or before the entries of a map."""


class Packer:
    """A buffer for encoded attributes. After ``pack``, ``size`` is what they count for in a publication."""

    __slots__ = ("_buffer", "_kept", "size")

    def __init__(self) -> None:
        self.size = 0
        self._kept = array("B", bytes(MOST_BYTES))
        self._buffer = bits.octets(self._kept)

    def pack(self, attributes: dict[str, Value]) -> bytes:
        """Return the attributes in wire format, or nothing if they are wrong or very long."""
        try:
            length = self._fill(attributes)
        except (OverflowError, UnicodeEncodeError):
            return b""
        return bits.octets_to_bytes(self._buffer, length)

    def _fill(self, attributes: dict[str, Value]) -> int:
        """Write the attributes into the buffer, and return their length, 0 if they are wrong or very long."""
        buffer = self._buffer
        count = len(attributes)
        if count < 1 or count > MOST_ATTRIBUTES:
            return 0
        if count < 16:
            buffer[0] = FIXMAP + count
            at = 1
        else:
            buffer[0] = MAP16
            bits.put_big(buffer, 1, count, 2)
            at = TAG_BYTES
        size = 0
        for name, value in attributes.items():
            if type(name) is not str:
                return 0
            text = name
            points = len(text)
            if points < 1 or points > LONGEST_NAME:
                return 0
            at = put_text(buffer, at, text)
            if not at:
                return 0
            size += points
            if type(value) is str:
                text = value
                points = len(text)
                if points > LONGEST_STRING:
                    return 0
                at = put_text(buffer, at, text)
                if not at:
                    return 0
                size += points
                continue
            if at + NUMBER_BYTES > MOST_BYTES:
                return 0
            if type(value) is float:
                double = value
                if double != double:
                    return 0
                buffer[at] = FLOAT64
                bits.put_double(buffer, at + 1, double)
                at += NUMBER_BYTES
            elif type(value) is int:
                at = put_integer(buffer, at, bits.to_int64(value))
            elif type(value) is bool:
                buffer[at] = TRUE if value is True else FALSE
                at += 1
            else:
                return 0
            size += NUMBER_BYTES
        self.size = size
        return at


def put_text(buffer: array[int], at: int, text: str) -> int:
    """Write a string, and return the offset after it, 0 if it does not fit; raise UnicodeEncodeError for surrogates."""
    length = bits.utf8_length(text)
    if at + TAG_BYTES + length > MOST_BYTES:
        return 0
    if length < 32:
        buffer[at] = FIXSTR + length
        at += 1
    elif length < 256:
        buffer[at] = STR8
        buffer[at + 1] = length
        at += 2
    else:
        buffer[at] = STR16
        bits.put_big(buffer, at + 1, length, 2)
        at += 3
    bits.put_utf8(buffer, at, text, length)
    return at + length


def put_integer(buffer: array[int], at: int, number: int) -> int:
    """Write an integer in the fewest bytes, and return the offset after it."""
    if -32 <= number < 128:
        buffer[at] = number & 0xFF
        return at + 1
    power = 0
    if number >= 0:
        while power < 3 and number >> (8 << power):
            power += 1
        buffer[at] = UINT8 + power
    else:
        while power < 3 and number < -(1 << ((8 << power) - 1)):
            power += 1
        buffer[at] = INT8 + power
    bits.put_big(buffer, at + 1, number, 1 << power)
    return at + 1 + (1 << power)
