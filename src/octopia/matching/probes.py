"""Questions to the matching index: the slots that match a publication, or may be related to a filter.

Plain Python that Cython compiles, like ``blocks``, which explains rows. A ``Probe`` holds a question, attribute by
attribute. For each block it is *resolved* into rows; the words of these rows are combined, and the slots that are left
are candidates. For a publication, a candidate is checked exactly only if one of its intervals ends in the segment of
the publication's value.

Words belong to groups. For a link one match is enough, so its remaining words are skipped. For local clients the
numbers of all matches are collected, in the same pass.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from math import nextafter
from typing import Any

from octopia.matching import layout
from octopia.matching.blocks import Block, Column

# Module-level copies, so that they can have C types.
CHUNK = layout.CHUNK
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
WITHIN = layout.WITHIN
LOCAL = layout.LOCAL

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


class Probe:
    """A question to an index, attribute by attribute, and the rows that it picks in the current block."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self.attributes: Mapping[str, Any] = {}
        self.texts: list[Any] = []
        self.words = array("Q", bytes(8 * CHUNK))
        self.room = 1024
        self.found_count = 0
        self.found_array = array("q", bytes(8 * self.room))
        self.found = self.found_array
        self.hits = array("B", [0])
        self.groups = 1
        self.links = 0
        self.is_doubtful = False
        self.is_within = False
        self.fail_count = 0
        self.need_count = 0
        self.string_count = 0
        self.number_count = 0
        self.end_count = 0
        self.reserve(8)

    def reserve(self, size: int) -> None:
        """Make room for ``size`` attributes."""
        self.size = size
        self.columns = array("q", bytes(8 * size))
        self.kinds = array("q", bytes(8 * size))
        self.froms = array("d", bytes(8 * size))
        self.tos = array("d", bytes(8 * size))
        self.segments = array("q", bytes(8 * size))
        self.versions = array("q", bytes(8 * size))
        self.text_numbers = array("q", bytes(8 * size))
        self.texts = [None] * size
        self.fails = array("q", bytes(8 * 2 * size))
        self.needs = array("q", bytes(8 * size))
        self.ends = array("q", bytes(8 * size))
        self.end_intervals = array("q", bytes(8 * size))
        self.points = array("d", bytes(8 * size))
        self.asks = array("q", bytes(8 * size))
        self.satisfied = array("q", bytes(8 * size))
        self.number_kinds = array("q", bytes(8 * size))
        self.intervals = array("q", bytes(8 * size))
        self.lows = array("d", bytes(8 * size))
        self.highs = array("d", bytes(8 * size))

    def make_room(self, room: int) -> None:
        """Make room for ``room`` numbers of matching slots."""
        buffer = array("q", bytes(8 * room))
        for index in range(self.found_count):
            buffer[index] = self.found[index]
        self.room = room
        self.found_array = buffer
        self.found = buffer

    def numbers(self) -> array[int]:
        """Return the numbers of the local slots that the last question found."""
        return self.found_array[: self.found_count]

    def expect_groups(self, count: int, links: int) -> None:
        """Set the number of groups, including that of local clients, and the number of links that have slots."""
        self.groups = count
        self.links = links
        self.hits = array("B", bytes(count))

    def clear(self, attributes: Mapping[str, Any], size: int) -> None:
        """Start a question about up to ``size`` attributes; filters are verified against ``attributes``."""
        self.count = 0
        self.attributes = attributes
        self.is_doubtful = False
        self.is_within = False
        if size > self.size:
            self.reserve(2 * size)

    def ask(self, column: int, kind: int) -> None:
        """Ask about an attribute that is missing, false or true, or that the slot must mention."""
        self.columns[self.count] = column
        self.kinds[self.count] = kind
        self.count += 1

    def ask_text(self, column: Column, text: str, blocks: list[Block]) -> None:
        """Ask about an attribute whose value is this string."""
        self.texts[self.count] = text
        self.text_numbers[self.count] = column.texts.look_up(text, blocks, column.number)
        self.ask(column.number, IS_STRING)

    def ask_numbers(self, column: Column, kind: int, low: float, high: float) -> None:
        """Ask about an attribute whose value is a number, or any number between two."""
        self.froms[self.count] = low
        self.tos[self.count] = high
        if kind == IS_POINT:
            self.segments[self.count] = column.boundaries.segment(low)
            self.versions[self.count] = column.boundaries.version
        elif kind == WITHIN:
            self.is_within = True
        self.ask(column.number, kind)

    def ask_integer(self, column: Column, value: int) -> None:
        """Ask about an integer that is not a double: slots that accept a double next to it must be verified."""
        nearest = float(value)
        low = nearest if nearest < value else nextafter(nearest, NEGATIVE)
        high = nearest if nearest > value else nextafter(nearest, POSITIVE)
        self.is_doubtful = True
        self.ask_numbers(column, OVERLAPS, low, high)


def fill(probe: Probe, columns: list[Column], attributes: Mapping[str, Any], blocks: list[Block]) -> None:
    """Ask about a publication."""
    probe.clear(attributes, len(columns))
    for column in columns:
        value = attributes.get(column.name)
        if type(value) is float:
            probe.ask_numbers(column, IS_POINT, value, value)
        elif value is None:
            probe.ask(column.number, IS_ABSENT)
        elif type(value) is str:
            probe.ask_text(column, value, blocks)
        elif type(value) is bool:
            probe.ask(column.number, IS_TRUE if value else IS_FALSE)
        else:
            number = float(value)
            if number == value:
                probe.ask_numbers(column, IS_POINT, number, number)
            else:
                probe.ask_integer(column, value)


def match(probe: Probe, columns: list[Column], attributes: Mapping[str, Any], blocks: list[Block]) -> bytes:
    """Match a publication: store the numbers of local slots, and return one byte per group, 1 for a link that matches.

    If the probe ``is_doubtful`` afterwards, filters whose bounds are not doubles may have been missed.
    """
    fill(probe, columns, attributes, blocks)
    probe.found_count = 0
    for group in range(probe.groups):
        probe.hits[group] = 0
    links_left = probe.links
    for block in blocks:
        if links_left or block.local_words:
            resolve(block, probe)
            links_left -= search(block, probe)
    return bytes(probe.hits)


def search(block: Block, probe: Probe) -> int:
    """Check the candidates of a block, and return the number of links that got their first match."""
    words = probe.words
    links = 0
    for start in range(0, block.words, CHUNK):
        if not is_wanted(block, probe, start):
            continue
        narrow(block, probe, block.rows, words, start)
        for offset in range(CHUNK):
            word = words[offset]
            if word:
                owner = block.owners[start + offset]
                if owner == LOCAL:
                    gather(block, probe, word, start + offset)
                elif not probe.hits[owner] and some_match(block, probe, word, start + offset):
                    probe.hits[owner] = 1
                    links += 1
    return links


def is_wanted(block: Block, probe: Probe, start: int) -> bool:
    """Return whether a chunk has words of local clients, or of links without a match."""
    for index in range(start, start + CHUNK):
        owner = block.owners[index]
        if owner >= 0 and not probe.hits[owner]:
            return True
    return False


def narrow(block: Block, probe: Probe, rows: array[int], words: array[int], start: int) -> None:
    """Combine the rows of a question: keep the live slots that fail in none of them."""
    for offset in range(CHUNK):
        words[offset] = block.live[start + offset]
    for index in range(probe.fail_count):
        at = probe.fails[index] + start
        for offset in range(CHUNK):
            words[offset] &= ~rows[at + offset]
    for index in range(probe.string_count):
        at = probe.asks[index] + start
        other = probe.satisfied[index] + start
        for offset in range(CHUNK):
            words[offset] &= ~rows[at + offset] | rows[other + offset]
    for index in range(probe.need_count):
        at = probe.needs[index] + start
        for offset in range(CHUNK):
            words[offset] &= rows[at + offset]


def unsure_bits(block: Block, probe: Probe, word_index: int) -> int:
    """Return the slots with an interval that ends in a segment of the question."""
    unsure = 0
    for index in range(probe.end_count):
        unsure |= block.rows[probe.ends[index] + word_index]
    return unsure


def gather(block: Block, probe: Probe, word: int, word_index: int) -> None:
    """Store the numbers of the candidates in a word that match."""
    if probe.found_count + 64 > probe.room:
        probe.make_room(2 * probe.room)
    unsure = word
    if not probe.is_doubtful:
        unsure &= unsure_bits(block, probe, word_index) | block.verified[word_index]
    while unsure:
        lowest = unsure & -unsure
        unsure ^= lowest
        if not is_match(block, probe, lowest, word_index):
            word ^= lowest
    count = probe.found_count
    while word:
        probe.found[count] = block.numbers[(word_index << 6) + lowest_bit(word)]
        count += 1
        word &= word - ONE
    probe.found_count = count


def some_match(block: Block, probe: Probe, word: int, word_index: int) -> bool:
    """Return whether any candidate in a word matches."""
    unsure = unsure_bits(block, probe, word_index) | block.verified[word_index]
    if word & ~unsure and not probe.is_doubtful:
        return True
    while word:
        lowest = word & -word
        word ^= lowest
        if is_match(block, probe, lowest, word_index):
            return True
    return False


def is_match(block: Block, probe: Probe, bit: int, word_index: int) -> bool:
    """Check a candidate exactly: the intervals that end in a segment of the question, and filters to be verified."""
    slot = (word_index << 6) + lowest_bit(bit)
    for index in range(probe.end_count):
        if block.rows[probe.ends[index] + word_index] & bit:
            at = 2 * block.interval_limit * slot + probe.end_intervals[index]
            if block.bounds[at] > probe.points[index] or block.bounds[at + 1] < probe.points[index]:
                return False
    if probe.is_doubtful:
        return fits(block, probe, 2 * block.interval_limit * slot) and block.filters[slot].matches(probe.attributes)
    return not block.verified[word_index] & bit or block.filters[slot].matches(probe.attributes)


def collect(probe: Probe, blocks: list[Block], sure: list[Any], unsure: list[Any], is_exact: bool, enough: int) -> None:
    """Find the slots that may have the relation that a probe asks about.

    If the question ``is_exact``, slots that rows and intervals fully describe are appended to ``sure`` by number; all
    others to ``unsure`` as (number, filter). The search ends when ``enough`` are sure.
    """
    words = probe.words
    for block in blocks:
        if not resolve(block, probe):
            continue
        for start in range(0, block.words, CHUNK):
            narrow(block, probe, block.rows, words, start)
            for offset in range(CHUNK):
                word = words[offset]
                blurred = block.blurred[start + offset] if is_exact else MASK
                # Some filters accept less than their interval: they may lie within although the interval does not.
                loose = block.verified[start + offset] if probe.is_within else 0
                while word:
                    lowest = word & -word
                    slot = ((start + offset) << 6) + lowest_bit(word)
                    word ^= lowest
                    if loose & lowest or fits(block, probe, 2 * block.interval_limit * slot):
                        if blurred & lowest:
                            unsure.append((block.numbers[slot], block.filters[slot]))
                        else:
                            sure.append(block.numbers[slot])
                            if len(sure) >= enough:
                                return


def resolve(block: Block, probe: Probe) -> bool:
    """Find the rows of a block for a question; return False if no slot mentions an attribute that is needed."""
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
            probe.needs[probe.need_count] = (base + ABSENT) * block.stride
            probe.need_count += 1
        elif kind >= OVERLAPS:
            resolve_numbers(block, probe, index, column, base)
        elif kind == IS_ABSENT:
            pick_fails(block, probe, column, base, ABSENT)
        else:
            pick_fails(block, probe, column, base, NOT_TRUE if kind == IS_TRUE else NOT_FALSE)
    return True


def pick_fails(block: Block, probe: Probe, column: int, base: int, row: int) -> None:
    """Pick one of the fixed rows, unless it is empty."""
    if block.used[column] >> row & 1:
        probe.fails[probe.fail_count] = (base + row) * block.stride
        probe.fail_count += 1


def resolve_point(block: Block, probe: Probe, index: int, column: int, base: int) -> None:
    """Pick the rows of a number's segment, and the interval to check."""
    segment = probe.segments[index]
    if block.versions[column] != probe.versions[index]:
        boundaries = block.boundaries[column]
        segment = boundaries.segment(probe.froms[index])
    at = (base + FIRST_SEGMENT + 2 * segment) * block.stride
    probe.fails[probe.fail_count] = at
    probe.fail_count += 1
    pick_fails(block, probe, column, base, NOT_NUMBER)
    probe.ends[probe.end_count] = at + block.stride
    probe.end_intervals[probe.end_count] = 2 * block.positions[column]
    probe.points[probe.end_count] = probe.froms[index]
    probe.end_count += 1


def resolve_numbers(block: Block, probe: Probe, index: int, column: int, base: int) -> None:
    """Pick the row of slots that accept no number, and the interval to check."""
    pick_fails(block, probe, column, base, NOT_NUMBER)
    probe.number_kinds[probe.number_count] = probe.kinds[index]
    probe.intervals[probe.number_count] = 2 * block.positions[column]
    probe.lows[probe.number_count] = probe.froms[index]
    probe.highs[probe.number_count] = probe.tos[index]
    probe.number_count += 1


def resolve_string(block: Block, probe: Probe, index: int, column: int, base: int) -> None:
    """Pick the row of slots that accept no string, and the rows of this string."""
    pick_fails(block, probe, column, base, NOT_STRING)
    strings = block.strings[column]
    if strings is not None:
        row = strings.row_of(block, probe.text_numbers[index], probe.texts[index])
        probe.asks[probe.string_count] = (block.bases[column] + ASKS_STRING) * block.stride
        probe.satisfied[probe.string_count] = row * block.stride
        probe.string_count += 1


def lowest_bit(word: int) -> int:
    """Return the position of the lowest set bit of a word that is not zero."""
    return _TABLE[((word & -word) * _DE_BRUIJN & MASK) >> 58]


def fits(block: Block, probe: Probe, at: int) -> bool:
    """Check the intervals of a candidate exactly; ``at`` is their offset."""
    for index in range(probe.number_count):
        low = block.bounds[at + probe.intervals[index]]
        high = block.bounds[at + probe.intervals[index] + 1]
        kind = probe.number_kinds[index]
        if kind == OVERLAPS:
            if low > probe.highs[index] or high < probe.lows[index]:
                return False
        elif kind == CONTAINS:
            if low > probe.lows[index] or high < probe.highs[index]:
                return False
        elif low < probe.lows[index] or high > probe.highs[index]:
            return False
    return True
