"""The storage of the matching index: blocks of bitmaps over slots.

This file is plain Python and runs as it is, slowly. ``blocks.pxd`` gives its variables C types. If a C compiler is
available when the package is built, Cython compiles the two into a fast module. Both give the same answers.

A ``Block`` holds a few thousand slots, each a conjunction of predicates. For every attribute that some slot mentions it
has *rows*, bitmaps over its slots, in which a set bit means that the slot fails:

- one row for each of: the attribute is missing; its value is a number, a string, false, true;
- for numbers, two rows per segment between boundaries: in the first a bit is set if the slot's interval misses the
  segment, in the second if the interval ends inside the segment, so that a candidate must be checked exactly;
- for strings, one row of the slots that constrain strings, and one row per string of the slots that it satisfies (the
  only rows in which a set bit means success).

A question (``probes``) picks one or two rows per attribute; a live slot that fails in none of them is a candidate. The
intervals themselves are stored as two numbers per slot and attribute. Slots whose filter is not fully described by rows
and intervals are marked to be *verified* by evaluating the filter.

The 64 slots of a word belong to one group. A removed slot only stops being live; its bits stay until many slots of its
word have been removed, and are then swept together.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from math import nextafter
from typing import Any

from octopia.content import Operator, bits
from octopia.content.encoded import IS_COMPILED
from octopia.matching import layout
from octopia.matching.strings import Strings, Texts, longer

# Module-level copies, so that they can have C types.
MOST_SEGMENTS = layout.MOST_SEGMENTS
ABSENT = layout.ABSENT
NOT_NUMBER = layout.NOT_NUMBER
NOT_STRING = layout.NOT_STRING
ASKS_STRING = layout.ASKS_STRING
NOT_FALSE = layout.NOT_FALSE
NOT_TRUE = layout.NOT_TRUE
FIRST_SEGMENT = layout.FIRST_SEGMENT

IS_PLAIN = not IS_COMPILED
"""True if this module runs as plain Python."""

ONLY_NUMBERS = 1 << ABSENT | 1 << NOT_STRING | 1 << NOT_FALSE | 1 << NOT_TRUE
"""The fixed rows in which a slot that accepts only numbers fails."""
ONLY_STRINGS = 1 << ABSENT | 1 << NOT_NUMBER | 1 << NOT_FALSE | 1 << NOT_TRUE

PADDING = 8

SAMPLE = 2048
"""The number of endpoints per attribute that are sampled to choose boundaries."""

MASK = 0xFFFFFFFFFFFFFFFF
ONE = 1
NEGATIVE = float("-inf")
POSITIVE = float("inf")
EXACT = 2.0**53
"""Every integer up to this one is exactly a double."""

EQ = Operator.EQ
BETWEEN = Operator.BETWEEN
GE = Operator.GE
LE = Operator.LE
GT = Operator.GT
LT = Operator.LT
EXISTS = Operator.EXISTS


class Boundaries:
    """The boundaries between an attribute's segments: segment i holds the numbers in [boundary i - 1, boundary i)."""

    def __init__(self, values: list[float], version: int):
        self.kept = array("d", values + [POSITIVE] * (MOST_SEGMENTS - len(values)))
        self.values = bits.doubles(self.kept)
        self.kept_pivots = self.kept[15::16]
        self.pivots = bits.doubles(self.kept_pivots)
        self.count = len(values)
        self.version = version

    def segment(self, value: float) -> int:
        """Return the segment of a number: the number of boundaries that are less than or equal to it."""
        if not self.count:
            return 0
        if IS_PLAIN:
            return min(bisect_right(self.kept, value), self.count)
        # Two rounds of sixteen comparisons without a branch, which a CPU could not predict.
        found = 0
        for index in range(15):
            found += self.pivots[index] <= value
        found *= 16
        at = found
        for index in range(16):
            found += self.values[at + index] <= value
        return found if found < self.count else self.count


UNDIVIDED = Boundaries([], 0)
"""A single segment for all numbers."""


class Column:
    """An attribute of an index: its name, its number, its current boundaries and a sample of its endpoints."""

    def __init__(self, name: str, number: int):
        self.name = name
        self.number = number
        self.boundaries = UNDIVIDED
        self.texts = Texts()
        self.seen = 0
        self.next_choice_at = 64
        self.room = 16
        self.sample = array("d", bytes(8 * self.room))
        self.state = 0x9E3779B97F4A7C15
        # The slot that is being placed, if one of its predicates has already named this attribute.
        self.asked_by = -1

    def note(self, endpoint: float) -> None:
        """Add an endpoint to the sample.

        When the sample is full, every fourth endpoint replaces another, so that the sample represents about the last
        ten thousand. A fixed pseudo-random sequence (xorshift) chooses them, so that runs do not differ.
        """
        if NEGATIVE < endpoint < POSITIVE:
            if self.seen < SAMPLE:
                if self.seen >= self.room:
                    self.make_room()
                self.sample[self.seen] = endpoint
            else:
                self.state ^= self.state << 13 & MASK
                self.state ^= self.state >> 7
                self.state ^= self.state << 17 & MASK
                if not self.state & 3:
                    self.sample[(self.state >> 2) % SAMPLE] = endpoint
            self.seen += 1

    def make_room(self) -> None:
        """Double the capacity of the sample."""
        sample = array("d", bytes(8 * 2 * self.room))
        for index in range(self.room):
            sample[index] = self.sample[index]
        self.sample = sample
        self.room *= 2

    def sampled(self) -> list[float]:
        """Return the sample, sorted."""
        return sorted(self.sample[: min(self.seen, SAMPLE)])


class Block:
    """Slots in words of 64, with the rows and intervals of every attribute that they mention."""

    def __init__(self, words: int, rows: int = 1, intervals: int = 1) -> None:
        """Create a block with room for this many rows and intervals; it grows when needed, which takes time."""
        self.words = words
        # A few words more than needed, so that rows do not all compete for the same lines of the CPU cache.
        self.stride = words + PADDING
        self.kept: dict[str, Any] = {}
        self.live = bits.words(self.keep("live", array("Q", bytes(8 * words))))
        self.verified = bits.words(self.keep("verified", array("Q", bytes(8 * words))))
        self.blurred = bits.words(self.keep("blurred", array("Q", bytes(8 * words))))
        self.owners = bits.longs(self.keep("owners", array("q", [-1] * words)))
        self.local_words = 0
        self.rows = bits.words(self.keep("rows", array("Q", [0]) * (self.stride * rows)))
        self.row_count = 0
        self.row_limit = rows
        self.spare_rows: dict[int, list[int]] = {}
        self.column_limit = 0
        self.bases = bits.longs(self.keep("bases", array("q", [-1])))
        self.positions = bits.longs(self.keep("positions", array("q", [-1])))
        self.used = bits.longs(self.keep("used", array("q", [0])))
        self.versions = bits.longs(self.keep("versions", array("q", [-1])))
        self.interval_count = 0
        self.interval_limit = intervals
        self.bounds = bits.doubles(self.keep("bounds", array("d", [NEGATIVE, POSITIVE]) * (64 * words * intervals)))
        self.boundaries: list[Any] = []
        self.next_column = -1
        self.next_boundaries: Any = None
        self.next_base = 0
        self.next_word = 0
        self.strings: list[Any] = []
        self.numbers = bits.longs(self.keep("numbers", array("q", bytes(8 * 64 * words))))
        self.filters: list[Any] = [None] * (64 * words)

    def keep(self, name: str, kept: array[Any]) -> array[Any]:
        """Keep an array in place of an earlier one with this name, and return it."""
        self.kept[name] = kept
        return kept

    # Words and their owners.

    def own(self, word: int, group: int) -> None:
        """Assign a word to a group, or to none (-1)."""
        self.local_words += (group == layout.LOCAL) - (self.owners[word] == layout.LOCAL)
        self.owners[word] = group

    def owner(self, word: int) -> int:
        """Return the group of a word."""
        return self.owners[word]

    def sweep(self, word: int) -> None:
        """Clear the bits in every row, and the intervals, of all slots of a word that are not live."""
        keep = self.live[word]
        self.verified[word] &= keep
        self.blurred[word] &= keep
        for row in range(self.row_count):
            self.rows[row * self.stride + word] &= keep
        for slot in range(64 * word, 64 * word + 64):
            if not keep >> (slot & 63) & 1:
                at = 2 * self.interval_limit * slot
                for index in range(self.interval_limit):
                    self.bounds[at + 2 * index] = NEGATIVE
                    self.bounds[at + 2 * index + 1] = POSITIVE

    # Rows.

    def add_rows(self, count: int) -> int:
        """Allocate consecutive empty rows, and return the number of the first."""
        spare = self.spare_rows.get(count)
        if spare:
            return spare.pop()
        first = self.row_count
        self.row_count = first + count
        if self.row_count > self.row_limit:
            self.row_limit = self.row_count + (self.row_count >> 3)
            kept = array("Q", [0]) * (self.stride * self.row_limit)
            rows = bits.words(kept)
            copy_words(self.rows, rows, first * self.stride)
            self.keep("rows", kept)
            self.rows = rows
        return first

    def give_up_rows(self, first: int, count: int) -> None:
        """Clear consecutive rows, and keep them for the next allocation of the same size."""
        for index in range(first * self.stride, (first + count) * self.stride):
            self.rows[index] = 0
        self.spare_rows.setdefault(count, []).append(first)

    def set_bit(self, row: int, slot: int) -> None:
        """Set the bit of a slot in a row."""
        self.rows[row * self.stride + (slot >> 6)] |= ONE << (slot & 63)

    # Attributes.

    def has_column(self, column: int) -> bool:
        """Return whether some slot has mentioned an attribute."""
        return column < self.column_limit and self.bases[column] >= 0

    def add_column(self, column: int, boundaries: Boundaries) -> None:
        """Allocate the fixed rows, segments and intervals of an attribute."""
        if column >= self.column_limit:
            more = column + 1 - self.column_limit
            self.boundaries += [None] * more
            self.strings += [None] * more
            self.bases = bits.longs(self.keep("bases", longer(self.kept["bases"], self.column_limit, column + 1, -1)))
            self.positions = bits.longs(
                self.keep("positions", longer(self.kept["positions"], self.column_limit, column + 1, -1))
            )
            self.used = bits.longs(self.keep("used", longer(self.kept["used"], self.column_limit, column + 1, -1)))
            self.versions = bits.longs(
                self.keep("versions", longer(self.kept["versions"], self.column_limit, column + 1, -1))
            )
            self.column_limit = column + 1
        self.used[column] = 0
        self.bases[column] = self.add_rows(rows_of(boundaries))
        self.boundaries[column] = boundaries
        self.versions[column] = boundaries.version
        self.positions[column] = self.interval_count
        self.interval_count += 1
        if self.interval_count > self.interval_limit:
            self.widen_bounds(self.interval_limit + 4 + self.interval_limit // 2)

    def widen_bounds(self, limit: int) -> None:
        """Make room for more intervals per slot; the intervals of a slot are contiguous."""
        kept = array("d", [NEGATIVE, POSITIVE]) * (64 * self.words * limit)
        bounds = bits.doubles(kept)
        for slot in range(64 * self.words):
            for index in range(2 * self.interval_limit):
                bounds[2 * limit * slot + index] = self.bounds[2 * self.interval_limit * slot + index]
        self.keep("bounds", kept)
        self.bounds = bounds
        self.interval_limit = limit

    def rebuild(self, column: int, boundaries: Boundaries, words: int) -> bool:
        """Convert the next ``words`` words of an attribute to other boundaries; return whether all are converted.

        Until then questions use the old boundaries, and new slots are placed by both.
        """
        if self.next_boundaries is not boundaries:
            if self.next_boundaries is not None:
                self.give_up_rows(self.next_base, rows_of(self.next_boundaries))
            self.next_boundaries = boundaries
            self.next_column = column
            self.next_base = self.add_rows(rows_of(boundaries))
            self.next_word = 0
        last = min(self.words, self.next_word + words)
        for slot in range(64 * self.next_word, 64 * last):
            if self.live[slot >> 6] >> (slot & 63) & 1:
                at = 2 * (self.interval_limit * slot + self.positions[column])
                low = self.bounds[at]
                high = self.bounds[at + 1]
                if low > NEGATIVE or high < POSITIVE:
                    place_interval(self, self.next_base, boundaries, slot, low, high)
        self.next_word = last
        if last < self.words:
            return False
        self.change_boundaries()
        return True

    def change_boundaries(self) -> None:
        """Switch an attribute to the boundaries that were rebuilt."""
        column = self.next_column
        boundaries = self.next_boundaries
        old = self.bases[column]
        for index in range(FIRST_SEGMENT * self.stride):
            self.rows[self.next_base * self.stride + index] = self.rows[old * self.stride + index]
        self.give_up_rows(old, rows_of(self.boundaries[column]))
        self.bases[column] = self.next_base
        self.boundaries[column] = boundaries
        self.versions[column] = boundaries.version
        self.next_boundaries = None
        self.next_column = -1

    # Slots.

    def fail(self, column: int, slot: int, rows: int) -> None:
        """Mark a slot as failing in the fixed rows of an attribute whose bits are set in ``rows``."""
        at = self.bases[column] * self.stride + (slot >> 6)
        for row in range(FIRST_SEGMENT):
            if rows >> row & 1:
                self.rows[at + row * self.stride] |= ONE << (slot & 63)
        self.used[column] |= rows

    def set_interval(self, column: int, slot: int, low: float, high: float) -> None:
        """Make a slot accept the numbers from ``low`` to ``high``."""
        at = 2 * (self.interval_limit * slot + self.positions[column])
        self.bounds[at] = low
        self.bounds[at + 1] = high
        place_interval(self, self.bases[column], self.boundaries[column], slot, low, high)
        if column == self.next_column and slot >> 6 < self.next_word:
            place_interval(self, self.next_base, self.next_boundaries, slot, low, high)

    def strings_of(self, column: Column) -> Strings:
        """Return the per-string rows of an attribute, creating them at first use."""
        if self.strings[column.number] is None:
            self.strings[column.number] = Strings(self, column.texts)
        strings: Strings = self.strings[column.number]
        return strings

    def let_verify(self, slot: int) -> None:
        """Mark a slot to be verified: its filter is evaluated whenever its rows and intervals pass."""
        self.verified[slot >> 6] |= ONE << (slot & 63)

    def let_blur(self, slot: int) -> None:
        """Mark a slot whose filter is not fully described by rows and intervals."""
        self.blurred[slot >> 6] |= ONE << (slot & 63)

    def settle(self, slot: int, number: int, interest: Any) -> None:
        """Make a slot live."""
        self.numbers[slot] = number
        self.filters[slot] = interest
        self.live[slot >> 6] |= ONE << (slot & 63)

    def give_up(self, slot: int) -> None:
        """Remove a slot; its bits stay until its word is swept."""
        self.live[slot >> 6] &= MASK ^ (ONE << (slot & 63))
        self.filters[slot] = None
        for strings in self.strings:
            if strings is not None:
                strings.forget(self, slot)

    def next_of(self, words: int) -> Block:
        """Return a new block with capacity for as many rows and intervals as this one has."""
        return Block(words, self.row_count, self.interval_count)

    def size_bytes(self) -> int:
        """Return the size of rows and intervals in bytes."""
        return 8 * self.stride * self.row_limit + 16 * 64 * self.words * self.interval_limit


def rows_of(boundaries: Boundaries) -> int:
    """Return the number of rows of an attribute with these boundaries."""
    return FIRST_SEGMENT + 2 * (boundaries.count + 1)


def copy_words(source: array[int], target: array[int], count: int) -> None:
    """Copy the first ``count`` words of an array."""
    for index in range(count):
        target[index] = source[index]


def place_interval(block: Block, base: int, boundaries: Boundaries, slot: int, low: float, high: float) -> None:
    """Mark a slot as failing in all segments that its interval misses, and mark the segments in which it ends."""
    first = boundaries.segment(low)
    last = boundaries.segment(high)
    bit = ONE << (slot & 63)
    rows = block.rows
    step = 2 * block.stride
    at = (base + FIRST_SEGMENT) * block.stride + (slot >> 6)
    for segment in range(first):
        rows[at + step * segment] |= bit
    for segment in range(last + 1, boundaries.count + 1):
        rows[at + step * segment] |= bit
    rows[at + block.stride * (2 * first + 1)] |= bit
    rows[at + block.stride * (2 * last + 1)] |= bit


def place_simply(block: Block, slot: int, columns: dict[str, Column], predicates: tuple[Any, ...]) -> list[Any]:
    """Place the most common predicates: ranges of numbers, equality with a string, existence.

    Return the predicates that were not placed: other kinds, those on attributes that the block does not have yet, and
    all of them if some attribute occurs more than once.
    """
    left: list[Any] = []
    if is_repetitive(columns, predicates, slot):
        left += predicates
        return left
    for predicate in predicates:
        column = columns.get(predicate.attribute)
        operator = predicate.operator
        operand = predicate.operand
        if column is None or not block.has_column(column.number):
            left.append(predicate)
        elif operator is EQ and type(operand) is str:
            block.fail(column.number, slot, ONLY_STRINGS | 1 << ASKS_STRING)
            block.strings_of(column).name(block, slot, (operand,))
        elif is_range(operator, operand):
            place_range(block, slot, column, operator, operand)
        elif operator is EXISTS:
            block.fail(column.number, slot, 1 << ABSENT)
        else:
            left.append(predicate)
    return left


def is_repetitive(columns: dict[str, Column], predicates: tuple[Any, ...], slot: int) -> bool:
    """Return whether a known attribute occurs more than once in the predicates."""
    found = False
    for predicate in predicates:
        column = columns.get(predicate.attribute)
        if column is not None:
            found = found or column.asked_by == slot
            column.asked_by = slot
    for predicate in predicates:
        column = columns.get(predicate.attribute)
        if column is not None:
            column.asked_by = -1
    return found


def is_range(operator: Any, operand: Any) -> bool:
    """Return whether a predicate is a range of numbers whose bounds are doubles."""
    if operator is BETWEEN:
        return is_double(operand[0]) and is_double(operand[1]) and operand[0] <= operand[1]
    is_one = operator is GE or operator is LE or operator is GT or operator is LT or operator is EQ
    return is_one and is_double(operand)


def is_double(operand: Any) -> bool:
    """Return whether a bound is a number so small that it and the integers next to it are all doubles."""
    if type(operand) is float:
        return -EXACT <= operand <= EXACT
    return type(operand) is int and -EXACT <= operand <= EXACT


def place_range(block: Block, slot: int, column: Column, operator: Any, operand: Any) -> None:
    """Place a range of numbers; a strict bound becomes the next double."""
    low = NEGATIVE
    high = POSITIVE
    if operator is BETWEEN:
        low = operand[0]
        high = operand[1]
    elif operator is GE:
        low = operand
    elif operator is LE:
        high = operand
    elif operator is GT:
        low = nextafter(operand, POSITIVE)
    elif operator is LT:
        high = nextafter(operand, NEGATIVE)
    else:
        low = operand
        high = operand
    block.fail(column.number, slot, ONLY_NUMBERS)
    block.set_interval(column.number, slot, low, high)
    column.note(low)
    column.note(high)
