"""Rows for single strings: the slots of a block that each string satisfies.

Plain Python that Cython compiles, like ``blocks``. ``Texts`` numbers the strings of an attribute: those that some slot
names (*pinned*), and, if slots have other conditions on strings (prefix, contains, order…), the strings of recent
publications, up to a limit. A block creates the row of a number when it is first asked for. Slots with other conditions
are listed in a journal; a row catches up with the journal when it is next used.
"""

from __future__ import annotations

from array import array
from typing import Any

from octopia.matching import layout

MOST_MEMOS = layout.MOST_MEMOS
"""The number of remembered strings that no slot names; beyond it all of them are forgotten."""
LONGEST_MEMO = 512
"""Longer strings are not remembered, but tested each time."""

UNKNOWN = -1
"""In place of a number: no slot names this string, and no slot has other conditions."""
UNNUMBERED = -2
"""In place of a number: this string is not remembered and must be tested by itself."""


class Texts:
    """The strings of one attribute by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.pins: list[int] = []
        self.texts: list[str] = []
        self.memos: dict[str, int] = {}
        self.free: list[int] = []
        self.general = 0

    def is_idle(self) -> bool:
        """Return whether no slot has a condition on strings."""
        return not self.general and not self.numbers

    def pin(self, text: str) -> int:
        """Count one more slot that names a string, and return the number of the string."""
        number = self.numbers.get(text, UNKNOWN)
        if number == UNKNOWN:
            number = self.add(text)
        self.memos.pop(text, None)
        self.pins[number] += 1
        return number

    def unpin(self, number: int) -> None:
        """Count one slot less that names a string; unnamed strings are kept only if slots have other conditions."""
        self.pins[number] -= 1
        if not self.pins[number]:
            if self.general:
                self.memos[self.texts[number]] = number
            else:
                self.release(number)

    def release(self, number: int) -> None:
        """Forget a string that has no row in any block."""
        del self.numbers[self.texts[number]]
        self.texts[number] = ""
        self.free.append(number)

    def add(self, text: str) -> int:
        """Assign a number to a string, and return it."""
        if self.free:
            number = self.free.pop()
            self.texts[number] = text
        else:
            number = len(self.texts)
            self.texts.append(text)
            self.pins.append(0)
        self.numbers[text] = number
        return number

    def look_up(self, text: str, blocks: list[Any], column: int) -> int:
        """Return the number of a string in a publication."""
        number = self.numbers.get(text, UNKNOWN)
        if number != UNKNOWN or not self.general:
            return number
        if len(text) > LONGEST_MEMO:
            return UNNUMBERED
        if len(self.memos) >= MOST_MEMOS:
            self.forget_memos(blocks, column)
        number = self.add(text)
        self.memos[text] = number
        return number

    def forget_memos(self, blocks: list[Any], column: int) -> None:
        """Forget all strings that no slot names, with their rows."""
        for block in blocks:
            if column < len(block.strings) and block.strings[column] is not None:
                for number in self.memos.values():
                    block.strings[column].drop(block, number)
        self.release_memos()

    def release_memos(self) -> None:
        """Forget all strings that no slot names and that have no row in any block."""
        for number in self.memos.values():
            self.release(number)
        self.memos.clear()


class Strings:
    """The rows of one attribute in one block."""

    def __init__(self, block: Any, texts: Texts):
        self.texts = texts
        self.empty: int = block.add_rows(1)
        self.scratch = UNKNOWN
        self.size = 0
        self.rows = array("q", [UNKNOWN])
        self.applied = array("q", [0])
        self.pins = array("q", [0])
        self.named: dict[int, Any] = {}
        self.general: dict[int, Any] = {}
        self.journal: list[int] = []
        self.length = 0

    def has_row(self, number: int) -> bool:
        """Return whether a string has an up-to-date row."""
        return 0 <= number < self.size and self.rows[number] >= 0 and self.applied[number] == self.length

    def name(self, block: Any, slot: int, texts: tuple[str, ...]) -> None:
        """Make a slot accept certain strings."""
        numbers = []
        for text in texts:
            number = self.texts.pin(text)
            numbers.append(number)
            self.make_row(block, number)
            self.pins[number] += 1
            block.set_bit(self.rows[number], slot)
        self.named[slot] = tuple(numbers)

    def ask(self, slot: int, predicates: tuple[Any, ...]) -> None:
        """Make a slot accept the strings that satisfy its predicates."""
        self.general[slot] = predicates
        self.texts.general += 1
        if len(self.journal) > 64 + 2 * len(self.general):
            self.journal = list(self.general)
            for number in range(self.size):
                self.applied[number] = 0
        else:
            self.journal.append(slot)
        self.length = len(self.journal)

    def forget(self, block: Any, slot: int) -> None:
        """Forget a slot; its bits stay until they are swept, except in rows that no other slot names."""
        if slot in self.general:
            del self.general[slot]
            self.texts.general -= 1
            if not self.general:
                self.drop_unnamed(block)
            if not self.texts.general:
                self.texts.release_memos()
        for number in self.named.pop(slot, ()):
            self.pins[number] -= 1
            if not self.pins[number]:
                self.drop(block, number)
            self.texts.unpin(number)

    def drop_unnamed(self, block: Any) -> None:
        """Drop the rows of all strings that no slot names, after the last slot with other conditions was removed."""
        for number in range(self.size):
            if not self.pins[number]:
                self.drop(block, number)
        self.journal = []
        self.length = 0
        for number in range(self.size):
            self.applied[number] = 0

    def drop(self, block: Any, number: int) -> None:
        """Drop the row of a string."""
        if number < self.size and self.rows[number] >= 0:
            block.give_up_rows(self.rows[number], 1)
            self.rows[number] = UNKNOWN
            self.applied[number] = 0

    def row_of(self, block: Any, number: int, text: str) -> int:
        """Return the row of a string."""
        if not self.has_row(number):
            return self.update_row(block, number, text)
        row: int = self.rows[number]
        return row

    def update_row(self, block: Any, number: int, text: str) -> int:
        """Create or update the row of a string, and return it."""
        if number == UNNUMBERED:
            return self.look_at(block, text)
        if number == UNKNOWN or not (self.general or (number < self.size and self.rows[number] >= 0)):
            return self.empty
        self.make_row(block, number)
        self.follow_journal(block, number, text)
        row: int = self.rows[number]
        return row

    def make_row(self, block: Any, number: int) -> None:
        """Create the row of a string, empty, if it has none."""
        if number >= self.size:
            self.reserve(max(number + 1, 2 * self.size))
        if self.rows[number] < 0:
            self.rows[number] = block.add_rows(1)
            self.applied[number] = 0

    def reserve(self, size: int) -> None:
        """Make room for ``size`` strings."""
        self.rows = longer(self.rows, self.size, size, UNKNOWN)
        self.applied = longer(self.applied, self.size, size, 0)
        self.pins = longer(self.pins, self.size, size, 0)
        self.size = size

    def follow_journal(self, block: Any, number: int, text: str) -> None:
        """Add the slots that entered the journal since a string's row was last used."""
        for slot in self.journal[self.applied[number] :]:
            self.try_slot(block, self.rows[number], slot, text)
        self.applied[number] = self.length

    def look_at(self, block: Any, text: str) -> int:
        """Return a temporary row for a string that is too long to remember."""
        if self.scratch >= 0:
            block.give_up_rows(self.scratch, 1)
        self.scratch = block.add_rows(1)
        for slot in self.general:
            self.try_slot(block, self.scratch, slot, text)
        return self.scratch

    def try_slot(self, block: Any, row: int, slot: int, text: str) -> None:
        """Set a slot's bit if the string satisfies its predicates."""
        predicates = self.general.get(slot)
        if predicates is not None and satisfies(text, predicates):
            block.set_bit(row, slot)


def satisfies(text: str, predicates: tuple[Any, ...]) -> bool:
    """Return whether a string satisfies all predicates."""
    for predicate in predicates:  # noqa: SIM110 - Cython compiles no generators here
        if not predicate.test(text):
            return False
    return True


def longer(old: array[int], count: int, limit: int, filler: int) -> array[int]:
    """Return a longer array that starts with the contents of ``old`` and continues with ``filler``."""
    new = array("q", [filler] * limit)
    for index in range(count):
        new[index] = old[index]
    return new
