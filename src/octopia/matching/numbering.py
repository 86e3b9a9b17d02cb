"""Small numbers for the entries of a matcher."""

from __future__ import annotations

from octopia.ids import AdvertisementId, SubscriptionId


class Numbering:
    """Assigns small numbers, reuses released ones, and knows the name behind each."""

    __slots__ = ("_free", "names")

    def __init__(self) -> None:
        self.names: list[SubscriptionId | AdvertisementId | None] = []
        self._free: list[int] = []

    def take(self, name: SubscriptionId | AdvertisementId) -> int:
        """Assign a number to ``name``, and return it."""
        if self._free:
            number = self._free.pop()
            self.names[number] = name
            return number
        self.names.append(name)
        return len(self.names) - 1

    def give_back(self, number: int) -> None:
        """Release a number."""
        self.names[number] = None
        self._free.append(number)
