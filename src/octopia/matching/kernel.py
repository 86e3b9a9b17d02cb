"""The inner loops of the matching index.

This file is plain Python and works as it is, slowly. ``kernel.pxd`` beside it gives its variables C types; where a C
compiler is there when the package is built, Cython makes a fast module of the two. Both give the same answers.

A ``Block`` holds up to 1024 slots, each a conjunction of predicates. For every attribute that some slot mentions it
has *rows*, bitmaps over its slots, in which a set bit says that the slot fails:

- one row each for: the attribute is missing; its value is a number, a string, false, true;
- for numbers, one row for each segment between boundaries: set where the slot's interval misses the segment; and a
  second one, set where the interval ends inside the segment, so that a candidate has to be checked exactly;
- for strings, one row of slots that ask something of strings, and, per value, one of those that the value satisfies
  (the only rows in which a set bit is good).

A question picks one or two rows an attribute; what is live and fails in none of them is a candidate. Intervals are
kept as two numbers a slot and attribute, so that a candidate whose interval ends inside the segment is checked
exactly. What rows and intervals cannot say is marked to be verified by evaluating the filter itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from octopia.matching import layout

# Names of this module's own, so that they can have C types.
WORDS = layout.WORDS
SLOTS = layout.SLOTS
ABSENT = layout.ABSENT
NOT_NUMBER = layout.NOT_NUMBER
NOT_STRING = layout.NOT_STRING
ASKS_STRING = layout.ASKS_STRING
NOT_FALSE = layout.NOT_FALSE
NOT_TRUE = layout.NOT_TRUE
FIRST_SEGMENT = layout.FIRST_SEGMENT
IS_ABSENT = layout.IS_ABSENT
IS_POINT = layout.IS_POINT
IS_STRING = layout.IS_STRING
IS_FALSE = layout.IS_FALSE
IS_TRUE = layout.IS_TRUE
IS_NEEDED = layout.IS_NEEDED
OVERLAPS = layout.OVERLAPS
CONTAINS = layout.CONTAINS

# What the candidates of a block are looked through for.
ANY = 0
NAMES = 1
CANDIDATES = 2

MASK = 0xFFFFFFFFFFFFFFFF
ONE = 1

NEGATIVE = float("-inf")
POSITIVE = float("inf")

_DE_BRUIJN = 0x03F79D71B4CB0A89


def _make_table() -> array[int]:
    """Return the position of the lowest set bit by the top six bits of its product with the de Bruijn number."""
    table = array("q", bytes(8 * 64))
    for position in range(64):
        table[((1 << position) * _DE_BRUIJN & 0xFFFFFFFFFFFFFFFF) >> 58] = position
    return table


_TABLE = _make_table()


class Boundaries:
    """Where the segments of an attribute begin: segment i holds the numbers from boundary i - 1 to below i."""

    def __init__(self, values: list[float], version: int):
        self.values = array("d", values or [0.0])
        self.count = len(values)
        self.version = version

    def segment(self, value: float) -> int:
        """Return the segment of a number: how many boundaries are at most as large."""
        low = 0
        high = self.count
        while low < high:
            middle = (low + high) >> 1
            if self.values[middle] <= value:
                low = middle + 1
            else:
                high = middle
        return low


class Column:
    """An attribute of an index: its name, its number, and its boundaries as of now."""

    def __init__(self, name: str, number: int, boundaries: Boundaries):
        self.name = name
        self.number = number
        self.boundaries = boundaries


class Probe:
    """A question to an index, attribute by attribute, and the rows that it picks in the block at hand."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.attributes: Mapping[str, Any] = {}
        self.texts: list[Any] = []
        self.fail_count = 0
        self.need_count = 0
        self.string_count = 0
        self.number_count = 0
        self.end_count = 0
        self.reserve(8)

    def reserve(self, size: int) -> None:
        """Make room for that many attributes."""
        self.size = size
        self.columns = array("q", bytes(8 * size))
        self.kinds = array("q", bytes(8 * size))
        self.froms = array("d", bytes(8 * size))
        self.tos = array("d", bytes(8 * size))
        self.segments = array("q", bytes(8 * size))
        self.versions = array("q", bytes(8 * size))
        self.texts = [None] * size
        self.fails = array("q", bytes(8 * 2 * size))
        self.needs = array("q", bytes(8 * size))
        self.ends = array("q", bytes(8 * size))
        self.asks = array("q", bytes(8 * size))
        self.satisfied = array("q", bytes(8 * size))
        self.number_kinds = array("q", bytes(8 * size))
        self.intervals = array("q", bytes(8 * size))
        self.lows = array("d", bytes(8 * size))
        self.highs = array("d", bytes(8 * size))

    def clear(self, attributes: Mapping[str, Any], size: int) -> None:
        """Begin a question of up to ``size`` attributes; ``attributes`` are what filters are verified on."""
        self.count = 0
        self.attributes = attributes
        if size > self.size:
            self.reserve(2 * size)

    def ask(self, column: int, kind: int) -> None:
        """Ask about an attribute that is missing, false or true, or that only has to be mentioned."""
        self.columns[self.count] = column
        self.kinds[self.count] = kind
        self.count += 1

    def ask_text(self, column: int, text: str) -> None:
        """Ask about an attribute that is this string."""
        self.texts[self.count] = text
        self.ask(column, IS_STRING)

    def ask_numbers(self, column: Column, kind: int, low: float, high: float) -> None:
        """Ask about an attribute that is a number, or any number between two."""
        self.froms[self.count] = low
        self.tos[self.count] = high
        if kind == IS_POINT:
            self.segments[self.count] = column.boundaries.segment(low)
            self.versions[self.count] = column.boundaries.version
        self.ask(column.number, kind)


def fill(probe: Probe, columns: list[Column], attributes: Mapping[str, Any]) -> bool:
    """Ask about a publication; return False if it has an integer that is no double, which this index cannot place."""
    probe.clear(attributes, len(columns))
    for column in columns:
        value = attributes.get(column.name)
        kind = type(value)
        if value is None:
            probe.ask(column.number, IS_ABSENT)
        elif kind is str:
            probe.ask_text(column.number, value)
        elif kind is bool:
            probe.ask(column.number, IS_TRUE if value else IS_FALSE)
        else:
            number = float(value)
            if number != value:
                return False
            probe.ask_numbers(column, IS_POINT, number, number)
    return True


class Block:
    """Up to 1024 slots, with the rows and intervals of every attribute that they mention."""

    def __init__(self) -> None:
        self.live = array("Q", bytes(8 * WORDS))
        self.verified = array("Q", bytes(8 * WORDS))
        self.rows = array("Q", bytes(8 * WORDS))
        self.row_count = 0
        self.row_limit = 1
        self.column_limit = 0
        self.bases = array("q", [-1])
        self.positions = array("q", [-1])
        self.interval_count = 0
        self.interval_limit = 1
        self.bounds = array("d", [NEGATIVE, POSITIVE]) * SLOTS
        self.not_numbers = array("q", [0])
        self.boundaries: list[Any] = []
        self.strings: list[Any] = []
        self.names: list[Any] = [None] * SLOTS
        self.filters: list[Any] = [None] * SLOTS

    def has_column(self, column: int) -> bool:
        """Tell whether some slot has mentioned an attribute."""
        return column < self.column_limit and self.bases[column] >= 0

    def add_rows(self, count: int) -> int:
        """Append empty rows, and return the number of the first."""
        first = self.row_count
        self.row_count = first + count
        if self.row_count > self.row_limit:
            while self.row_limit < self.row_count:
                self.row_limit *= 2
            rows = array("Q", bytes(8 * WORDS * self.row_limit))
            copy_words(self.rows, rows, first * WORDS)
            self.rows = rows
        return first

    def add_column(self, column: int, boundaries: Boundaries) -> None:
        """Make room for an attribute: its fixed rows, its segments and its intervals."""
        if column >= self.column_limit:
            limit = column + 1
            bases = array("q", [-1] * limit)
            positions = array("q", [-1] * limit)
            not_numbers = array("q", [0] * limit)
            for index in range(self.column_limit):
                bases[index] = self.bases[index]
                positions[index] = self.positions[index]
                not_numbers[index] = self.not_numbers[index]
            self.boundaries += [None] * (limit - self.column_limit)
            self.strings += [None] * (limit - self.column_limit)
            self.bases = bases
            self.positions = positions
            self.not_numbers = not_numbers
            self.column_limit = limit
        self.bases[column] = self.add_rows(FIRST_SEGMENT + 2 * (boundaries.count + 1))
        self.boundaries[column] = boundaries
        self.positions[column] = self.interval_count
        self.interval_count += 1
        if self.interval_count > self.interval_limit:
            self.widen_bounds(2 * self.interval_limit)

    def widen_bounds(self, limit: int) -> None:
        """Make room for more intervals a slot; those of one slot lie together."""
        bounds = array("d", [NEGATIVE, POSITIVE]) * (SLOTS * limit)
        for slot in range(SLOTS):
            for index in range(2 * self.interval_limit):
                bounds[2 * limit * slot + index] = self.bounds[2 * self.interval_limit * slot + index]
        self.bounds = bounds
        self.interval_limit = limit

    def rebuild_column(self, column: int, boundaries: Boundaries) -> None:
        """Give an attribute other boundaries; the rows of its old segments are left behind, and its base moves."""
        old = self.bases[column]
        base = self.add_rows(FIRST_SEGMENT + 2 * (boundaries.count + 1))
        copy_row_words(self, old, base, FIRST_SEGMENT)
        self.bases[column] = base
        self.boundaries[column] = boundaries
        for slot in range(SLOTS):
            if self.live[slot >> 6] >> (slot & 63) & 1:
                at = 2 * (self.interval_limit * slot + self.positions[column])
                place_interval(self, column, slot, self.bounds[at], self.bounds[at + 1])

    def base(self, column: int) -> int:
        """Return the first row of an attribute."""
        return self.bases[column]

    def set_live(self, slot: int, verified: bool) -> None:
        """Let a slot take part from now on."""
        self.live[slot >> 6] |= ONE << (slot & 63)
        if verified:
            self.verified[slot >> 6] |= ONE << (slot & 63)

    def set_bit(self, row: int, slot: int) -> None:
        """Set the bit of a slot in a row."""
        self.rows[row * WORDS + (slot >> 6)] |= ONE << (slot & 63)

    def fail(self, column: int, slot: int, rows: int) -> None:
        """Let a slot fail in those fixed rows of an attribute whose bits are set in ``rows``."""
        at = self.bases[column] * WORDS + (slot >> 6)
        for row in range(FIRST_SEGMENT):
            if rows >> row & 1:
                self.rows[at + row * WORDS] |= ONE << (slot & 63)
        if rows >> NOT_NUMBER & 1:
            self.not_numbers[column] = 1

    def clear_row(self, row: int) -> None:
        """Clear all bits of a row."""
        for word in range(WORDS):
            self.rows[row * WORDS + word] = 0

    def set_interval(self, column: int, slot: int, low: float, high: float) -> None:
        """Let a slot ask for numbers from ``low`` to ``high``."""
        at = 2 * (self.interval_limit * slot + self.positions[column])
        self.bounds[at] = low
        self.bounds[at + 1] = high
        place_interval(self, column, slot, low, high)

    def clear_slot(self, slot: int) -> None:
        """Forget a slot: its bit in every row, and its intervals."""
        word = slot >> 6
        keep = MASK ^ (ONE << (slot & 63))
        self.live[word] &= keep
        self.verified[word] &= keep
        clear_column(self, word, keep)
        at = 2 * self.interval_limit * slot
        for index in range(self.interval_limit):
            self.bounds[at + 2 * index] = NEGATIVE
            self.bounds[at + 2 * index + 1] = POSITIVE
        self.names[slot] = None
        self.filters[slot] = None

    def size_bytes(self) -> int:
        """Return how many bytes rows and intervals take."""
        return 8 * WORDS * self.row_limit + 16 * SLOTS * self.interval_limit


def copy_words(source: array[int], target: array[int], count: int) -> None:
    """Copy the first words of an array."""
    for index in range(count):
        target[index] = source[index]


def copy_row_words(block: Block, source: int, target: int, rows: int) -> None:
    """Copy rows within a block."""
    for index in range(rows * WORDS):
        block.rows[target * WORDS + index] = block.rows[source * WORDS + index]


def clear_column(block: Block, word: int, keep: int) -> None:
    """Clear bits of one word in every row."""
    for row in range(block.row_count):
        block.rows[row * WORDS + word] &= keep


def place_interval(block: Block, column: int, slot: int, low: float, high: float) -> None:
    """Let a slot fail in all segments that its interval misses."""
    boundaries = block.boundaries[column]
    first = boundaries.segment(low)
    last = boundaries.segment(high)
    word = slot >> 6
    bit = ONE << (slot & 63)
    base = block.bases[column] + FIRST_SEGMENT
    for segment in range(first):
        block.rows[(base + segment) * WORDS + word] |= bit
    for segment in range(last + 1, boundaries.count + 1):
        block.rows[(base + segment) * WORDS + word] |= bit
    ends = base + boundaries.count + 1
    block.rows[(ends + first) * WORDS + word] |= bit
    block.rows[(ends + last) * WORDS + word] |= bit


def resolve(block: Block, probe: Probe) -> bool:
    """Find the rows of a block that a question picks; return False if an attribute is needed that no slot mentions."""
    probe.fail_count = 0
    probe.need_count = 0
    probe.string_count = 0
    probe.number_count = 0
    probe.end_count = 0
    for index in range(probe.count):
        column = probe.columns[index]
        kind = probe.kinds[index]
        if column >= block.column_limit or block.bases[column] < 0:
            if kind == IS_NEEDED:
                return False
            continue
        base = block.bases[column]
        if kind == IS_POINT:
            resolve_point(block, probe, index, column, base)
        elif kind == IS_STRING:
            resolve_string(block, probe, index, column, base)
        elif kind == IS_NEEDED:
            probe.needs[probe.need_count] = (base + ABSENT) * WORDS
            probe.need_count += 1
        elif kind >= OVERLAPS:
            resolve_numbers(block, probe, index, column, base)
        else:
            row = ABSENT
            if kind == IS_TRUE:
                row = NOT_TRUE
            elif kind == IS_FALSE:
                row = NOT_FALSE
            probe.fails[probe.fail_count] = (base + row) * WORDS
            probe.fail_count += 1
    return True


def resolve_point(block: Block, probe: Probe, index: int, column: int, base: int) -> None:
    """Pick the row of a number's segment, and the interval to check."""
    segment = probe.segments[index]
    boundaries = block.boundaries[column]
    if boundaries.version != probe.versions[index]:
        segment = boundaries.segment(probe.froms[index])
    probe.fails[probe.fail_count] = (base + FIRST_SEGMENT + segment) * WORDS
    probe.fail_count += 1
    probe.ends[probe.end_count] = (base + FIRST_SEGMENT + boundaries.count + 1 + segment) * WORDS
    probe.end_count += 1
    resolve_numbers(block, probe, index, column, base)


def resolve_numbers(block: Block, probe: Probe, index: int, column: int, base: int) -> None:
    """Pick the row of slots that no number satisfies, and the interval to check."""
    if block.not_numbers[column]:
        probe.fails[probe.fail_count] = (base + NOT_NUMBER) * WORDS
        probe.fail_count += 1
    probe.number_kinds[probe.number_count] = probe.kinds[index]
    probe.intervals[probe.number_count] = 2 * block.positions[column]
    probe.lows[probe.number_count] = probe.froms[index]
    probe.highs[probe.number_count] = probe.tos[index]
    probe.number_count += 1


def resolve_string(block: Block, probe: Probe, index: int, column: int, base: int) -> None:
    """Pick the row of slots that no string satisfies, and those for this one."""
    probe.fails[probe.fail_count] = (base + NOT_STRING) * WORDS
    probe.fail_count += 1
    strings = block.strings[column]
    if strings is not None:
        row = strings.row_of(block, probe.texts[index])
        probe.asks[probe.string_count] = (base + ASKS_STRING) * WORDS
        probe.satisfied[probe.string_count] = row * WORDS
        probe.string_count += 1


def lowest_bit(word: int) -> int:
    """Return the position of the lowest set bit of a word that is not zero."""
    return _TABLE[((word & -word) * _DE_BRUIJN & MASK) >> 58]


def fits(probe: Probe, bounds: array[float], at: int) -> bool:
    """Check the intervals of a candidate exactly; ``at`` is where they lie."""
    for index in range(probe.number_count):
        low = bounds[at + probe.intervals[index]]
        high = bounds[at + probe.intervals[index] + 1]
        kind = probe.number_kinds[index]
        if kind == IS_POINT or kind == OVERLAPS:  # noqa: SIM109 - a tuple would be made anew each time
            if low > probe.highs[index] or high < probe.lows[index]:
                return False
        elif kind == CONTAINS:
            if low > probe.lows[index] or high < probe.highs[index]:
                return False
        elif low < probe.lows[index] or high > probe.highs[index]:
            return False
    return True


def scan(block: Block, probe: Probe, mode: int, found: list[Any]) -> bool:
    """Go through the candidates of a block.

    The mode says what for: to know whether one matches (ANY), to gather the names of all that match (NAMES), or the
    names and filters of all that rows and intervals do not rule out (CANDIDATES). Return whether there was one.
    """
    rows = block.rows
    live = block.live
    verified = block.verified
    bounds = block.bounds
    fails = probe.fails
    width = 2 * block.interval_limit
    hit = False
    for word_index in range(WORDS):
        word = live[word_index]
        for index in range(probe.fail_count):
            word &= ~rows[fails[index] + word_index]
        for index in range(probe.string_count):
            asks = rows[probe.asks[index] + word_index]
            word &= ~(asks & ~rows[probe.satisfied[index] + word_index])
        for index in range(probe.need_count):
            word &= rows[probe.needs[index] + word_index]
        if not word:
            continue
        # Questions about points need to check only intervals that end nearby, all others every interval.
        unsure = 0 if probe.end_count == probe.number_count else word
        for index in range(probe.end_count):
            unsure |= rows[probe.ends[index] + word_index]
        while word:
            lowest = word & -word
            slot = (word_index << 6) + lowest_bit(word)
            word ^= lowest
            if unsure & lowest and not fits(probe, bounds, width * slot):
                continue
            if mode == CANDIDATES:
                found.append((block.names[slot], block.filters[slot]))
                hit = True
            elif not (verified[word_index] >> (slot & 63) & 1) or block.filters[slot].matches(probe.attributes):
                if mode == ANY:
                    return True
                found.append(block.names[slot])
                hit = True
    return hit


NOBODY: list[Any] = []


def any_match(blocks: list[Block], probe: Probe) -> bool:
    """Tell whether some slot of the blocks matches the publication that the probe asks about."""
    for block in blocks:
        resolve(block, probe)
        if scan(block, probe, ANY, NOBODY):
            return True
    return False


def collect_matches(blocks: list[Block], probe: Probe, found: list[Any]) -> None:
    """Append the names of all slots of the blocks that match the publication that the probe asks about."""
    for block in blocks:
        resolve(block, probe)
        scan(block, probe, NAMES, found)


def collect_candidates(blocks: list[Block], probe: Probe, found: list[Any]) -> None:
    """Append (name, filter) of all slots that rows and intervals do not rule out."""
    for block in blocks:
        if resolve(block, probe):
            scan(block, probe, CANDIDATES, found)
