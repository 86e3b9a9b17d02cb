"""A hash table from attribute names to small numbers that finds names in encoded attributes.

Plain Python that Cython compiles, like ``blocks``. A dictionary would need a string object per attribute.
"""

from __future__ import annotations

from array import array

from octopia.content import bits


class Names:
    """Names that are numbered from zero."""

    def __init__(self) -> None:
        self.set_all([])

    def set_all(self, names: list[str]) -> None:
        """Replace all names."""
        encoded = [each.encode() for each in names]
        self.count = len(names)
        self.joined = b"".join(encoded)
        self.text = self.joined
        self.shift = 61
        while 1 << (64 - self.shift) < 3 * self.count:
            self.shift -= 1
        size = 1 << (64 - self.shift)
        self.limit = size - 1
        self.kept = {
            "starts": array("q", [0] * (self.count + 1)),
            "slots": array("q", [-1] * size),
            "hashes": array("Q", [0] * size),
        }
        self.starts = bits.longs(self.kept["starts"])
        self.slots = bits.longs(self.kept["slots"])
        self.hashes = bits.words(self.kept["hashes"])
        for index in range(self.count):
            length = len(encoded[index])
            self.starts[index + 1] = self.starts[index] + length
            hashed = bits.hash_of(self.text, self.starts[index], length, len(self.joined))
            slot = hashed >> self.shift
            while self.slots[slot] >= 0:
                slot = (slot + 1) & self.limit
            self.slots[slot] = index
            self.hashes[slot] = hashed

    def find(self, data: bytes, at: int, length: int, end: int) -> int:
        """Return the number of the name of ``length`` bytes at an offset of data that ends at ``end``, or -1."""
        hashed = bits.hash_of(data, at, length, end)
        slot = hashed >> self.shift
        while self.slots[slot] >= 0:
            number = self.slots[slot]
            start = self.starts[number]
            is_as_long = self.starts[number + 1] - start == length
            if self.hashes[slot] == hashed and is_as_long and bits.same(data, at, self.text, start, length):
                return number
            slot = (slot + 1) & self.limit
        return -1

    def number_of(self, name: str) -> int:
        """Return the number of a name, or -1."""
        encoded = name.encode()
        return self.find(encoded, 0, len(encoded), len(encoded))
