"""Operations on bytes and 64-bit words that C has and Python does not, for modules that may be compiled.

These are their plain versions. A compiled module uses those of ``machine.pxd`` instead.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any

_double = struct.Struct(">d").unpack_from
_single = struct.Struct(">f").unpack_from
_put_double = struct.Struct(">d").pack_into


def hash_of(data: bytes, at: int, length: int, end: int) -> int:
    """Return a hash of ``length`` bytes; the C version may load bytes up to ``end``."""
    hashed = length
    for start in range(at, at + length, 8):
        word = int.from_bytes(data[start : min(start + 8, at + length)], "little")
        hashed = (hashed ^ word) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        hashed ^= hashed >> 32
    return hashed


def is_ascii(data: bytes, at: int, length: int, end: int) -> bool:
    """Return whether ``length`` bytes are ASCII; the C version may load bytes up to ``end``."""
    return data[at : at + length].isascii()


def big(data: bytes, at: int, width: int) -> int:
    """Return the unsigned big-endian number of ``width`` bytes."""
    return int.from_bytes(data[at : at + width])


def big64(data: bytes, at: int) -> int:
    """Return the unsigned big-endian number of eight bytes."""
    return int.from_bytes(data[at : at + 8])


def double_at(data: bytes, at: int) -> float:
    """Return the big-endian double."""
    number: float = _double(data, at)[0]
    return number


def single_at(data: bytes, at: int) -> float:
    """Return the big-endian number of 32 bits."""
    number: float = _single(data, at)[0]
    return number


def same(one: bytes, at: int, other: Any, start: int, length: int) -> bool:
    """Return whether two spans of bytes are equal."""
    return bool(one[at : at + length] == other[start : start + length])


def lowest_bit(word: int) -> int:
    """Return the position of the lowest set bit of a word that is not zero."""
    return (word & -word).bit_length() - 1


def prefetch(numbers: array[float], at: int) -> None:
    """Have the CPU load a number that will be read soon."""


def longs(kept: array[int]) -> array[int]:
    """Return the signed words of an array; a C pointer, so the array must be kept, and never resized."""
    return kept


def words(kept: array[int]) -> array[int]:
    """Return the unsigned words of an array, as ``longs`` does."""
    return kept


def doubles(kept: array[float]) -> array[float]:
    """Return the doubles of an array, as ``longs`` does."""
    return kept


def longs_to_bytes(numbers: array[int], count: int) -> bytes:
    """Return the first numbers as bytes."""
    return numbers[:count].tobytes()


# Writing.


def octets(kept: array[int]) -> array[int]:
    """Return the bytes of an array, as ``longs`` does."""
    return kept


def octets_to_bytes(buffer: array[int], length: int) -> bytes:
    """Return the first bytes of a buffer."""
    return buffer[:length].tobytes()


def put_big(buffer: array[int], at: int, number: int, width: int) -> None:
    """Write the low ``width`` bytes of a number, big-endian."""
    for index in range(width):
        buffer[at + index] = number >> 8 * (width - 1 - index) & 0xFF


def put_double(buffer: array[int], at: int, number: float) -> None:
    """Write a big-endian double."""
    _put_double(buffer, at, number)


def to_int64(number: int) -> int:
    """Return a number of 64 bits, or raise OverflowError."""
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("expected a signed 64-bit integer")
    return number


def utf8_length(text: str) -> int:
    """Return the number of bytes of a string in UTF-8, or raise UnicodeEncodeError if it has lone surrogates."""
    return len(text) if text.isascii() else len(text.encode())


def put_utf8(buffer: array[int], at: int, text: str, length: int) -> None:
    """Write a string whose ``utf8_length`` is known."""
    buffer[at : at + length] = array("B", text.encode())
