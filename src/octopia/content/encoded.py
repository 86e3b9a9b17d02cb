"""Encoded attributes: one pass over a msgpack map that checks it, without a Python object per attribute.

Plain Python that Cython compiles (``encoded.pxd``). The pass may answer that it does not know: for rare encodings, and
for everything that is wrong. The decoder of ``octopia.wire`` then decides, and says what is wrong. Compiled, the pass
takes a tenth of the time of decoding; as plain Python it takes longer, so ``IS_COMPILED`` decides whether to use it.
"""

from __future__ import annotations

from array import array

from octopia.content import bits, limits

IS_COMPILED = not __file__.endswith(".py")
"""True if this module is compiled; all modules with C types are, or none."""

UNKNOWN = -1
"""In place of a size: the attributes are wrong, or encoded in a rare way."""

MOST_ATTRIBUTES = limits.PUBLICATION_ATTRIBUTES_MAX
LONGEST_NAME = limits.NAME_LENGTH_MAX
LONGEST_STRING = limits.STRING_LENGTH_MAX
NUMBER_BYTES = limits.NUMBER_BYTES

# First bytes in msgpack. The number of entries of a small map, and the length of a short string, are part of the byte.
FIXMAP = 0x80
FIXSTR = 0xA0
FALSE = 0xC2
TRUE = 0xC3
FLOAT32 = 0xCA
FLOAT64 = 0xCB
UINT8 = 0xCC
UINT64 = 0xCF
INT8 = 0xD0
INT64 = 0xD3
STR8 = 0xD9
STR16 = 0xDA
MAP16 = 0xDE

ONE = 1

SEEN = array("Q", bytes(8 * MOST_ATTRIBUTES))
"""The hashes of the names in the map that is being checked."""


def check(encoded: bytes) -> int:
    """Return the size that a publication counts for these attributes if they are right, or ``UNKNOWN``."""
    return check_span(encoded, 0, len(encoded))


def check_span(data: bytes, start: int, end: int) -> int:
    """Return the ``check`` of the bytes between two offsets."""
    if end - start < 1:
        return UNKNOWN
    count = data[start] - FIXMAP
    at = start + 1
    if count == MAP16 - FIXMAP and end - start >= 3:
        count = bits.big(data, at, 2)
        at += 2
        if count > MOST_ATTRIBUTES:
            return UNKNOWN
    elif count > 15:
        return UNKNOWN
    if count < 1:
        return UNKNOWN
    size = 0
    names = 0
    for index in range(count):
        # The name: ASCII, and not one of those before. Few names share a bit of the set ``names``.
        if at >= end:
            return UNKNOWN
        length = data[at] - FIXSTR
        at += 1
        if length == STR8 - FIXSTR and at < end:
            length = data[at]
            at += 1
        elif length > 31:
            return UNKNOWN
        if length < 1 or length > LONGEST_NAME or end - at < length:
            return UNKNOWN
        if not bits.is_ascii(data, at, length, end):
            return UNKNOWN
        hashed = bits.hash_of(data, at, length, end)
        bit = ONE << (hashed >> 58)
        if names & bit and is_seen(hashed, index):
            return UNKNOWN
        names |= bit
        SEEN[index] = hashed
        at += length
        size += length
        # The value.
        if at >= end:
            return UNKNOWN
        tag = data[at]
        if tag == FLOAT64:
            if end - at < 9:
                return UNKNOWN
            number = bits.double_at(data, at + 1)
            if number != number:
                return UNKNOWN
            at += 9
            size += NUMBER_BYTES
        elif is_string(tag):
            length = string_length(data, at, end)
            at = string_start(tag, at)
            if length < 0 or end - at < length:
                return UNKNOWN
            if bits.is_ascii(data, at, length, end):
                if length > LONGEST_STRING:
                    return UNKNOWN
                size += length
            else:
                points = count_points(data, at, length)
                if points < 0 or points > LONGEST_STRING:
                    return UNKNOWN
                size += points
            at += length
        else:
            length = number_bytes(data, at, end)
            if length < 0:
                return UNKNOWN
            at += length
            size += NUMBER_BYTES
    return size if at == end else UNKNOWN


def is_seen(hashed: int, count: int) -> bool:
    """Return whether one of the first names has this hash."""
    for index in range(count):  # noqa: SIM110 - Cython compiles no generators here
        if SEEN[index] == hashed:
            return True
    return False


def is_string(tag: int) -> bool:
    """Return whether a first byte starts a string; those of 64 KiB and more count as none."""
    return FIXSTR <= tag < FIXSTR + 32 or tag in (STR8, STR16)


def string_length(data: bytes, at: int, end: int) -> int:
    """Return the number of bytes of the string at an offset, or ``UNKNOWN`` if the data ends before."""
    tag = data[at]
    if tag == STR8:
        return data[at + 1] if end - at >= 2 else UNKNOWN
    if tag == STR16:
        return bits.big(data, at + 1, 2) if end - at >= 3 else UNKNOWN
    return tag - FIXSTR


def string_start(tag: int, at: int) -> int:
    """Return the offset of the first character of a string whose first byte is at an offset."""
    return at + 1 + (tag == STR8) + 2 * (tag == STR16)


def number_bytes(data: bytes, at: int, end: int) -> int:
    """Return the number of bytes of the integer, boolean or single at an offset, or ``UNKNOWN``."""
    tag = data[at]
    if tag < FIXMAP or tag >= 0xE0 or tag in (FALSE, TRUE):
        return 1
    if UINT8 <= tag <= UINT64:
        length = 1 + (1 << (tag - UINT8))
        if end - at < length or (tag == UINT64 and data[at + 1] >= 0x80):
            return UNKNOWN
        return length
    if INT8 <= tag <= INT64:
        length = 1 + (1 << (tag - INT8))
        return length if end - at >= length else UNKNOWN
    if tag == FLOAT32 and end - at >= 5:
        number = bits.single_at(data, at + 1)
        return 5 if number == number else UNKNOWN
    return UNKNOWN


def count_points(data: bytes, at: int, length: int) -> int:
    """Return the number of code points in bytes, or ``UNKNOWN`` if they are not UTF-8."""
    last = at + length
    points = 0
    while at < last:
        first = data[at]
        at += 1
        points += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return UNKNOWN
        more = 1 + (first >= 0xE0) + (first >= 0xF0)
        if last - at < more:
            return UNKNOWN
        # The second byte of some characters is limited: no overlong forms, no surrogates, nothing beyond U+10FFFF.
        second = data[at]
        if (
            (first == 0xE0 and second < 0xA0)
            or (first == 0xED and second > 0x9F)
            or (first == 0xF0 and second < 0x90)
            or (first == 0xF4 and second > 0x8F)
        ):
            return UNKNOWN
        while more:
            if data[at] & 0xC0 != 0x80:
                return UNKNOWN
            at += 1
            more -= 1
    return points
