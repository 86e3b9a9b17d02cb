"""Mutations of the bytes of frames. All are drawn from a generator with a seed."""

from __future__ import annotations

import random
from collections.abc import Callable


def flip(chance: random.Random, frames: list[bytes]) -> bytes:
    """Change some bytes."""
    data = bytearray(b"".join(frames))
    for _ in range(chance.choice((1, 1, 1, 2, 5, 30))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def truncate(chance: random.Random, frames: list[bytes]) -> bytes:
    """Cut off the end."""
    data = b"".join(frames)
    return data[: chance.randrange(len(data))]


def insert(chance: random.Random, frames: list[bytes]) -> bytes:
    """Insert some bytes."""
    data = b"".join(frames)
    place = chance.randrange(len(data))
    return data[:place] + chance.randbytes(chance.randrange(1, 20)) + data[place:]


def remove(chance: random.Random, frames: list[bytes]) -> bytes:
    """Remove some bytes."""
    data = b"".join(frames)
    place = chance.randrange(len(data))
    return data[:place] + data[place + chance.randrange(1, 20) :]


def shuffle(chance: random.Random, frames: list[bytes]) -> bytes:
    """Change the order of frames."""
    return b"".join(chance.sample(frames, len(frames)))


def repeat(chance: random.Random, frames: list[bytes]) -> bytes:
    """Repeat a frame."""
    place = chance.randrange(len(frames))
    return b"".join(frames[:place] + [frames[place]] * chance.randrange(2, 5) + frames[place + 1 :])


def lengthen(chance: random.Random, frames: list[bytes]) -> bytes:
    """Give a frame another length."""
    place = chance.randrange(len(frames))
    length = chance.choice((0, 1, 11, 2**16, 2**24, 2**31, 2**32 - 1)).to_bytes(4, "little")
    return b"".join([*frames[:place], length + frames[place][4:], *frames[place + 1 :]])


def rename(chance: random.Random, frames: list[bytes]) -> bytes:
    """Give a frame another kind, or another header."""
    place, width = chance.randrange(len(frames)), chance.choice((1, 1, 4, 12))
    start = 4 if width == 1 else 5
    frame = frames[place]
    return b"".join(
        [*frames[:place], frame[:start] + chance.randbytes(width) + frame[start + width :], *frames[place + 1 :]]
    )


def noise(chance: random.Random, frames: list[bytes]) -> bytes:
    """Send random bytes instead."""
    return chance.randbytes(chance.randrange(1, 400))


MUTATIONS: tuple[Callable[[random.Random, list[bytes]], bytes], ...] = (
    flip, flip, flip, truncate, insert, remove, shuffle, repeat, lengthen, rename, noise,
)  # fmt: skip
