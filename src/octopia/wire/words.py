"""Numbers in the headers of frames, little endian.

Compiled modules use the C functions of the same names in ``machine.pxd``: their source imports this module, and their
``.pxd`` imports the other one under its name.
"""

from __future__ import annotations

import struct

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_F64 = struct.Struct("<d")


def u16(data: bytes | bytearray, at: int) -> int:
    """Return the number of 16 bits at an offset."""
    number: int = _U16.unpack_from(data, at)[0]
    return number


def u32(data: bytes | bytearray, at: int) -> int:
    """Return the number of 32 bits at an offset."""
    number: int = _U32.unpack_from(data, at)[0]
    return number


def u64(data: bytes | bytearray, at: int) -> int:
    """Return the number of 64 bits at an offset."""
    number: int = _U64.unpack_from(data, at)[0]
    return number


def f64(data: bytes | bytearray, at: int) -> float:
    """Return the double at an offset."""
    number: float = _F64.unpack_from(data, at)[0]
    return number


def put_u16(buffer: bytearray, at: int, number: int) -> None:
    """Write a number of 16 bits; only its low bits count."""
    _U16.pack_into(buffer, at, number & 0xFFFF)


def put_u32(buffer: bytearray, at: int, number: int) -> None:
    """Write a number of 32 bits."""
    _U32.pack_into(buffer, at, number)


def put_u64(buffer: bytearray, at: int, number: int) -> None:
    """Write a number of 64 bits."""
    _U64.pack_into(buffer, at, number)


def put_f64(buffer: bytearray, at: int, number: float) -> None:
    """Write a double."""
    _F64.pack_into(buffer, at, number)


def put(buffer: bytearray, at: int, data: bytes, length: int) -> None:
    """Write the first ``length`` bytes of ``data``."""
    buffer[at : at + length] = data[:length]


def cut(data: bytes, at: int, end: int) -> bytes:
    """Return a copy of the bytes between two offsets."""
    return data[at:end]


def same(data: bytes, at: int, other: bytes, length: int) -> bool:
    """Return whether ``length`` bytes at an offset equal the first ones of ``other``."""
    return data[at : at + length] == other[:length]


def ones(word: int) -> int:
    """Return the number of set bits."""
    return word.bit_count()


def place_of(value: object) -> int:
    """Return a number below 256 that belongs to an object as long as it is alive."""
    return (id(value) >> 4) & 255
