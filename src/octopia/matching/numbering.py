"""Small numbers for the entries of a matcher."""

from __future__ import annotations

from octopia.ids import AdvertisementId, SubscriptionId


class Numbering:
    """Gives out small numbers, used ones again, and knows whom each stands for."""

    __slots__ = ("_free", "names")

    def __init__(self) -> None:
        self.names: list[SubscriptionId | AdvertisementId | None] = []
        self._free: list[int] = []

    def take(self, name: SubscriptionId | AdvertisementId) -> int:
        """Return a number that now stands for ``name``."""
        if self._free:
            number = self._free.pop()
            self.names[number] = name
            return number
        self.names.append(name)
        return len(self.names) - 1

    def give_back(self, number: int) -> None:
        """Let a number stand for nobody."""
        self.names[number] = None
        self._free.append(number)
