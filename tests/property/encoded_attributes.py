"""Encoded attributes drawn from a seed: right ones, rare encodings, and broken ones."""

from __future__ import annotations

import random
import struct
from typing import Any

import msgspec

NAMES = ("a", "b", "c", "x", "symbol", "price", "a name of more than eight bytes", "n" * 31, "n" * 32, "é", "名")
TEXTS = ("", "x", "xy", "z", "IBM", "text of more than eight bytes", "ä", "日本", "\U0010ffff", "t" * 31, "t" * 40)
NUMBERS = (0, 1, 5, -1, -33, 127, 128, 255, 256, 2**16, 2**31, 2**32, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 0.5, 1.0, 5.0, 1e300, float("inf"), float("-inf"), 2.0**53)
BYTES = (0x00, 0x7F, 0x80, 0xA0, 0xC0, 0xC2, 0xC4, 0xCA, 0xCB, 0xCF, 0xD3, 0xD9, 0xDA, 0xDB, 0xDC, 0xDE, 0xE0, 0xFF)


def draw_encoded(chance: random.Random) -> bytes:
    """Return encoded attributes, half of them as an ordinary publisher encodes them."""
    kind = chance.randrange(8)
    if kind < 4:
        return msgspec.msgpack.encode(
            {_name(chance): _value(chance) for _ in range(chance.choice((1, 2, 3, 7, 20, 70)))}
        )
    entries = chance.choice((0, 1, 2, 3, 15, 16, 33, 64, 65))
    data = _map(chance, entries) + b"".join(_text(chance, _name(chance)) + _rare(chance) for _ in range(entries))
    return data if kind < 6 else _mutated(chance, data)


def _name(chance: random.Random) -> str:
    return chance.choice(NAMES) if chance.random() < 0.7 else f"{chance.choice(NAMES[:6])}{chance.randrange(100)}"


def _value(chance: random.Random) -> Any:
    return chance.choice(
        (chance.choice(TEXTS), chance.choice(NUMBERS), chance.choice(FLOATS), chance.random(), True, False)
    )


def _map(chance: random.Random, entries: int) -> bytes:
    forms = [b"\xde" + struct.pack(">H", entries), b"\xdf" + struct.pack(">I", entries)]
    return bytes([0x80 + entries]) if entries < 16 and chance.random() < 0.8 else chance.choice(forms)


def _text(chance: random.Random, text: str) -> bytes:
    data = text.encode()
    forms = [
        b"\xd9" + bytes([len(data) % 256]),
        b"\xda" + struct.pack(">H", len(data)),
        b"\xdb" + struct.pack(">I", len(data)),
    ]
    short = len(data) < 32 and chance.random() < 0.8
    return (bytes([0xA0 + len(data)]) if short else chance.choices(forms, (8, 2, 1))[0]) + data


def _rare(chance: random.Random) -> bytes:
    """Return a value in an encoding that need not be the shortest, and now and then one that is refused."""
    number = chance.choice((0, 1, 5, 127, chance.randrange(128)))
    if chance.random() < 0.02:
        refused = (None, b"x", [1], {}, 2**63, 2**64 - 1, float("nan"))
        odd = (
            b"\xca\x7f\xc0\x00\x00",
            b"\xa1\xff",
            b"\xa3\xed\xa0\x80",
            b"\xa2\xc0\x80",
            b"\xa4\xf4\x90\x80\x80",
            b"\xc1",
        )
        return chance.choice(
            (*map(msgspec.msgpack.encode, refused), *odd, _text(chance, "t" * 8192), _text(chance, "t" * 8193))
        )
    return chance.choice(
        (
            b"\xca" + struct.pack(">f", chance.choice((0.5, 5.0, 1e30, float("-inf")))),
            b"\xcb" + struct.pack(">d", chance.choice(FLOATS)),
            bytes([number]),
            bytes([0xE0 + number % 32]),
            b"\xcc" + bytes([number]),
            b"\xcd" + struct.pack(">H", number),
            b"\xce" + struct.pack(">I", number),
            b"\xcf" + struct.pack(">Q", number),
            b"\xd0" + struct.pack(">b", -number),
            b"\xd1" + struct.pack(">h", -number),
            b"\xd2" + struct.pack(">i", -number),
            b"\xd3" + struct.pack(">q", chance.choice((-number, 2**62 + 1, -(2**63)))),
            b"\xc2",
            b"\xc3",
            _text(chance, chance.choice(TEXTS)),
        )
    )


def _mutated(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            changed[at : at + 1] = bytes([chance.choice(BYTES)])
        elif kind == 1:
            changed[at:at] = chance.randbytes(chance.randint(1, 4))
        elif kind == 2:
            del changed[at : at + chance.randint(1, 4)]
        elif kind == 3:
            del changed[at:]
        elif at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
    return bytes(changed)
