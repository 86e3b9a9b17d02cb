"""Rows for single strings: which slots of a block each string satisfies.

Plain Python that Cython compiles, like ``blocks``. An attribute numbers the strings that concern it (``Texts``): those
that some slot names (*pinned*), and, where slots ask in other ways (prefix, contains, order…), those that publications
brought lately, up to a limit. A block has a row for each number as soon as somebody asks for it. Slots that ask in
other ways stand in a journal, which each row follows when it is next used.
"""

from __future__ import annotations

from array import array
from typing import Any

from octopia.matching import layout

MOST_MEMOS = layout.MOST_MEMOS
"""How many strings that no slot names are remembered; then all of them are forgotten."""
LONGEST_MEMO = 512
"""Longer strings are looked at each time."""

UNKNOWN = -1
"""In place of a number: no slot names this string, and none asks in other ways."""
UNNUMBERED = -2
"""In place of a number: this string has to be looked at by itself."""


class Texts:
    """The strings of one attribute by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.pins: list[int] = []
        self.texts: list[str] = []
        self.memos: dict[str, int] = {}
        self.free: list[int] = []
        self.general = 0

    def pin(self, text: str) -> int:
        """Return the number of a string that one more slot names."""
        number = self.numbers.get(text, UNKNOWN)
        if number == UNKNOWN:
            number = self.add(text)
        self.memos.pop(text, None)
        self.pins[number] += 1
        return number

    def unpin(self, number: int) -> None:
        """Note that a slot names a string no longer; it is remembered only if slots ask in other ways."""
        self.pins[number] -= 1
        if not self.pins[number]:
            if self.general:
                self.memos[self.texts[number]] = number
            else:
                self.release(number)

    def release(self, number: int) -> None:
        """Forget a string, of which no block has a row any more."""
        del self.numbers[self.texts[number]]
        self.texts[number] = ""
        self.free.append(number)

    def add(self, text: str) -> int:
        """Number a string."""
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
        """Return the number of a string that a publication brought."""
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
        """Forget all strings that no slot names, of which no block has a row any more."""
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
        """Tell whether a string has a row that is up to date."""
        return 0 <= number < self.size and self.rows[number] >= 0 and self.applied[number] == self.length

    def name(self, block: Any, slot: int, texts: tuple[str, ...]) -> None:
        """Let a slot take certain strings."""
        numbers = []
        for text in texts:
            number = self.texts.pin(text)
            numbers.append(number)
            self.make_row(block, number)
            self.pins[number] += 1
            block.set_bit(self.rows[number], slot)
        self.named[slot] = numbers

    def ask(self, slot: int, predicates: tuple[Any, ...]) -> None:
        """Let a slot take the strings that satisfy its predicates."""
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
        """Forget a slot; its bits stay until they are swept, but for strings that nobody else names."""
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
        """Give up the rows of all strings that no slot names: nobody asks in other ways any more."""
        for number in range(self.size):
            if not self.pins[number]:
                self.drop(block, number)
        self.journal = []
        self.length = 0
        for number in range(self.size):
            self.applied[number] = 0

    def drop(self, block: Any, number: int) -> None:
        """Give up the row of a string."""
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
        """Return the row of a string that has none, or an old one."""
        if number == UNNUMBERED:
            return self.look_at(block, text)
        if number == UNKNOWN or not (self.general or (number < self.size and self.rows[number] >= 0)):
            return self.empty
        self.make_row(block, number)
        self.follow_journal(block, number, text)
        row: int = self.rows[number]
        return row

    def make_row(self, block: Any, number: int) -> None:
        """Give a string its row, which is empty at first."""
        if number >= self.size:
            self.reserve(max(number + 1, 2 * self.size))
        if self.rows[number] < 0:
            self.rows[number] = block.add_rows(1)
            self.applied[number] = 0

    def reserve(self, size: int) -> None:
        """Make room for more strings."""
        self.rows = longer(self.rows, self.size, size, UNKNOWN)
        self.applied = longer(self.applied, self.size, size, 0)
        self.pins = longer(self.pins, self.size, size, 0)
        self.size = size

    def follow_journal(self, block: Any, number: int, text: str) -> None:
        """Add those slots to a string's row that have asked in other ways since it was last used."""
        for slot in self.journal[self.applied[number] :]:
            self.try_slot(block, self.rows[number], slot, text)
        self.applied[number] = self.length

    def look_at(self, block: Any, text: str) -> int:
        """Make a row for a string that is not worth remembering."""
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
    """Tell whether a string satisfies all predicates."""
    for predicate in predicates:  # noqa: SIM110 - Cython compiles no generators here
        if not predicate.test(text):
            return False
    return True


def longer(old: array[int], count: int, limit: int, filler: int) -> array[int]:
    """Return a longer array that begins like an old one, and goes on with a filler."""
    new = array("q", [filler] * limit)
    for index in range(count):
        new[index] = old[index]
    return new
