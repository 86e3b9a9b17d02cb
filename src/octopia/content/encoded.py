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
NEGATIVE_FIXINT = 0xE0

ONE = 1

SEEN = array("Q", bytes(8 * MOST_ATTRIBUTES))
"""The hashes of the names in the map that is being checked."""


def check(encoded: bytes) -> int:
    """Return the size that a publication counts for these attributes if they are right, or ``UNKNOWN``."""
    return check_span(encoded, 0, len(encoded))


def check_span(data: bytes, start: int, end: int) -> int:
    """Return the ``check`` of the bytes between two offsets."""
    count = entries(data, start, end)
    if count < 1 or count > MOST_ATTRIBUTES:
        return UNKNOWN
    at = first_entry(data, start)
    size = 0
    names = 0
    for index in range(count):
        # The name: ASCII, and not one of those before. Few names share a bit of the set ``names``.
        length = name_length(data, at, end)
        if length < 1 or length > LONGEST_NAME:
            return UNKNOWN
        at = string_start(data, at)
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
        if is_string(data[at]):
            length = string_length(data, at, end)
            if length < 0:
                return UNKNOWN
            at = string_start(data, at)
            points = length if bits.is_ascii(data, at, length, end) else count_points(data, at, length)
            if points < 0 or points > LONGEST_STRING:
                return UNKNOWN
            size += points
        else:
            length = number_bytes(data, at, end)
            if length < 0 or is_wrong(data, at):
                return UNKNOWN
            size += NUMBER_BYTES
        at += length
    return size if at == end else UNKNOWN


def entries(data: bytes, start: int, end: int) -> int:
    """Return the number of entries of the map at an offset, or ``UNKNOWN`` if it is none."""
    if end - start < 3:
        return UNKNOWN
    tag = data[start]
    if tag == MAP16:
        return bits.big(data, start + 1, 2)
    return tag - FIXMAP if FIXMAP <= tag < FIXMAP + 16 else UNKNOWN


def first_entry(data: bytes, start: int) -> int:
    """Return the offset of the first entry of the map at an offset."""
    return start + 3 if data[start] == MAP16 else start + 1


def name_length(data: bytes, at: int, end: int) -> int:
    """Return the number of bytes of the name at an offset, or ``UNKNOWN`` if there is none."""
    return string_length(data, at, end) if at < end and is_string(data[at]) else UNKNOWN


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
        length = data[at + 1] if end - at >= 2 else end
    elif tag == STR16:
        length = bits.big(data, at + 1, 2) if end - at >= 3 else end
    else:
        length = tag - FIXSTR
    return length if length <= end - string_start(data, at) else UNKNOWN


def string_start(data: bytes, at: int) -> int:
    """Return the offset of the first character of the string at an offset."""
    tag = data[at]
    return at + 1 + (tag == STR8) + 2 * (tag == STR16)


def number_bytes(data: bytes, at: int, end: int) -> int:
    """Return the number of bytes of the number or boolean at an offset, or ``UNKNOWN`` if there is none."""
    tag = data[at]
    if tag == FLOAT64:
        length = 9
    elif tag < FIXMAP or tag >= NEGATIVE_FIXINT or tag in (FALSE, TRUE):
        length = 1
    elif UINT8 <= tag <= UINT64:
        length = 1 + (1 << (tag - UINT8))
    elif INT8 <= tag <= INT64:
        length = 1 + (1 << (tag - INT8))
    elif tag == FLOAT32:
        length = 5
    else:
        return UNKNOWN
    return length if length <= end - at else UNKNOWN


def is_wrong(data: bytes, at: int) -> bool:
    """Return whether the number at an offset is NaN, or an integer that is not signed in 64 bits."""
    tag = data[at]
    if tag == FLOAT64:
        number = bits.double_at(data, at + 1)
        return number != number
    if tag == FLOAT32:
        number = bits.single_at(data, at + 1)
        return number != number
    return tag == UINT64 and data[at + 1] >= 0x80


def integer_at(data: bytes, at: int) -> int:
    """Return the integer at an offset, which must be right."""
    tag = data[at]
    if tag < FIXMAP:
        return tag
    if tag >= NEGATIVE_FIXINT:
        return tag - 256
    if tag <= UINT64:
        return bits.big(data, at + 1, 1 << (tag - UINT8))
    width = 1 << (tag - INT8)
    # The first byte has the sign.
    number = data[at + 1] - (256 if data[at + 1] >= 0x80 else 0)
    for index in range(2, width + 1):
        number = number * 256 + data[at + index]
    return number


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
