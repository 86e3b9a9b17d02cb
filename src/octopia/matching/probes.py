"""Questions to the matching index: the slots that match a publication, or may be related to a filter.

Plain Python that Cython compiles, like ``blocks``, which explains rows. A ``Probe`` holds a question, attribute by
attribute. For each block it is *resolved* into rows; the words of these rows are combined, and the slots that are left
are candidates. For a publication, a candidate is checked exactly only if one of its intervals ends in the segment of
the publication's value.

A question about a publication is filled from its encoded attributes, without a Python object per attribute, if this
module is compiled; from its dictionary of attributes otherwise.

Words belong to groups. For a link one match is enough, so its remaining words are skipped. For local clients the
numbers of all matches are collected, in the same pass.
"""

from __future__ import annotations

from array import array
from math import nextafter
from typing import Any

from octopia.content import bits, encoded
from octopia.content.encoded import IS_COMPILED
from octopia.content.publications import Publication
from octopia.matching import layout
from octopia.matching.blocks import Block, Column
from octopia.matching.names import Names

# Module-level copies, so that they can have C types.
CHUNK = layout.CHUNK
MOST_WORDS = layout.MOST_WORDS
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
TOP = 1 << 63
NEGATIVE = float("-inf")
POSITIVE = float("inf")

UNKNOWN_TEXT = -1
FALSE = 0xC2
TRUE = 0xC3
FLOAT32 = 0xCA
FLOAT64 = 0xCB
EXACT = 1 << 53
"""Every integer up to this one is exactly a double."""

READS_BYTES = IS_COMPILED
"""True if questions are filled from encoded attributes."""


class Probe:
    """A question to an index, attribute by attribute, and the rows that it picks in the current block."""

    def __init__(self) -> None:
        self.count = 0
        self.publication: Any = None
        self.texts: list[Any] = []
        self.kept: list[Any] = []
        self.buffers = [array("Q", bytes(8 * MOST_WORDS)), array("Q", bytes(8 * MOST_WORDS))]
        self.words = bits.words(self.buffers[0])
        self.unsure = bits.words(self.buffers[1])
        self.room = 1024
        self.found_count = 0
        self.found_array = array("q", bytes(8 * self.room))
        self.found = bits.longs(self.found_array)
        self.marks_array = array("q", [0])
        self.marks = bits.longs(self.marks_array)
        self.marked = 0
        self.is_doubtful = False
        self.is_within = False
        self.fail_count = 0
        self.need_count = 0
        self.string_count = 0
        self.number_count = 0
        self.end_count = 0
        self.expect_groups(1, 0)
        self.reserve(8)

    def reserve(self, size: int) -> None:
        """Make room for ``size`` attributes."""
        self.size = size
        self.kept = []
        self.texts = [None] * size
        self.columns = bits.longs(self.keep_longs(size))
        self.kinds = bits.longs(self.keep_longs(size))
        self.froms = bits.doubles(self.keep_doubles(size))
        self.tos = bits.doubles(self.keep_doubles(size))
        self.segments = bits.longs(self.keep_longs(size))
        self.versions = bits.longs(self.keep_longs(size))
        self.text_numbers = bits.longs(self.keep_longs(size))
        self.fails = bits.longs(self.keep_longs(2 * size))
        self.needs = bits.longs(self.keep_longs(size))
        self.ends = bits.longs(self.keep_longs(size))
        self.end_intervals = bits.longs(self.keep_longs(size))
        self.points = bits.doubles(self.keep_doubles(size))
        self.asks = bits.longs(self.keep_longs(size))
        self.satisfied = bits.longs(self.keep_longs(size))
        self.number_kinds = bits.longs(self.keep_longs(size))
        self.intervals = bits.longs(self.keep_longs(size))
        self.lows = bits.doubles(self.keep_doubles(size))
        self.highs = bits.doubles(self.keep_doubles(size))

    def keep_longs(self, size: int) -> array[int]:
        """Return a new array of integers that is kept until the next ``reserve``."""
        kept = array("q", bytes(8 * size))
        self.kept.append(kept)
        return kept

    def keep_doubles(self, size: int) -> array[float]:
        """Return a new array of doubles that is kept until the next ``reserve``."""
        kept = array("d", bytes(8 * size))
        self.kept.append(kept)
        return kept

    def make_room(self, room: int) -> None:
        """Make room for ``room`` numbers of matching slots."""
        kept = array("q", bytes(8 * room))
        buffer = bits.longs(kept)
        for index in range(self.found_count):
            buffer[index] = self.found[index]
        self.room = room
        self.found_array = kept
        self.found = buffer

    def drop_repeats(self) -> None:
        """Keep the first of equal numbers that the last question found."""
        most = 0
        for index in range(self.found_count):
            most = max(most, self.found[index])
        if most >= len(self.marks_array):
            self.marks_array = array("q", bytes(8 * (2 * most + 1)))
            self.marks = bits.longs(self.marks_array)
        # Numbers of this question are marked with a stamp that no earlier question had.
        self.marked += 1
        count = 0
        for index in range(self.found_count):
            number = self.found[index]
            if self.marks[number] != self.marked:
                self.marks[number] = self.marked
                self.found[count] = number
                count += 1
        self.found_count = count

    def expect_groups(self, count: int, links: int) -> None:
        """Set the number of groups, including that of local clients, and the number of links that have slots."""
        self.groups = count
        self.links = links
        self.hits_array = array("q", bytes(8 * count))
        self.hits = bits.longs(self.hits_array)
        self.mask = 0

    def hit_groups(self) -> bytes:
        """Return one byte per group, 1 for a link that the last question found."""
        return bytes(self.hits_array.tolist())

    def clear(self, size: int) -> None:
        """Start a question about up to ``size`` attributes."""
        self.count = 0
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


def fill(probe: Probe, columns: list[Column], attributes: dict[str, Any], blocks: list[Block]) -> None:
    """Ask about the attributes of a publication."""
    probe.clear(len(columns))
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
            ask_exactly(probe, column, value)


def ask_exactly(probe: Probe, column: Column, value: int) -> None:
    """Ask about an integer of any size."""
    number = float(value)
    if number == value:
        probe.ask_numbers(column, IS_POINT, number, number)
    else:
        probe.ask_integer(column, value)


def fill_encoded(probe: Probe, columns: list[Column], names: Names, data: bytes, blocks: list[Block]) -> bool:
    """Ask about encoded attributes; return False if they are encoded in a rare way."""
    span = data
    end = len(data)
    left = encoded.entries(span, 0, end)
    if left < 0:
        return False
    at = encoded.first_entry(span, 0)
    size = len(columns)
    probe.clear(size)
    for index in range(size):
        probe.columns[index] = index
        probe.kinds[index] = IS_ABSENT
    while left:
        left -= 1
        length = encoded.name_length(span, at, end)
        if length < 0:
            return False
        at = encoded.string_start(span, at)
        index = names.find(span, at, length, end)
        at += length
        if at >= end:
            return False
        tag = span[at]
        if encoded.is_string(tag):
            length = encoded.string_length(span, at, end)
            if length < 0:
                return False
            at = encoded.string_start(span, at)
            if index >= 0:
                column = columns[index]
                probe.count = index
                if column.texts.is_idle():
                    probe.text_numbers[index] = UNKNOWN_TEXT
                    probe.texts[index] = ""
                    probe.kinds[index] = IS_STRING
                else:
                    probe.ask_text(column, data[at : at + length].decode(), blocks)
        else:
            length = encoded.number_bytes(span, at, end)
            if length < 0:
                return False
            if index >= 0:
                column = columns[index]
                probe.count = index
                if tag == FLOAT64:
                    number = bits.double_at(span, at + 1)
                    probe.ask_numbers(column, IS_POINT, number, number)
                elif tag in (FALSE, TRUE):
                    probe.kinds[index] = IS_TRUE if tag == TRUE else IS_FALSE
                elif tag == FLOAT32:
                    number = bits.single_at(span, at + 1)
                    probe.ask_numbers(column, IS_POINT, number, number)
                else:
                    whole = encoded.integer_at(span, at)
                    if -EXACT <= whole <= EXACT:
                        number = whole
                        probe.ask_numbers(column, IS_POINT, number, number)
                    else:
                        ask_exactly(probe, column, whole)
        at += length
    probe.count = size
    return True


def match(probe: Probe, columns: list[Column], names: Names, publication: Publication, blocks: list[Block]) -> None:
    """Match a publication: find the numbers of local slots, and the groups of links that match.

    If the probe ``is_doubtful`` afterwards, filters whose bounds are not doubles may have been missed.
    """
    probe.publication = publication
    data = publication._encoded_attributes
    if not (data and READS_BYTES and fill_encoded(probe, columns, names, data, blocks)):
        attributes = publication.attributes
        fill(probe, columns, attributes if type(attributes) is dict else dict(attributes), blocks)
    probe.found_count = 0
    probe.mask = 0
    for group in range(probe.groups):
        probe.hits[group] = 0
    links_left = probe.links
    for block in blocks:
        if block.local_words:
            resolve(block, probe)
            links_left -= search_all(block, probe)
        elif links_left:
            resolve(block, probe)
            links_left -= search_links(block, probe)
    probe.publication = None


def search_links(block: Block, probe: Probe) -> int:
    """Check the candidates of a block without local slots; return the number of links that got their first match."""
    links = 0
    start = 0
    while start < block.words:  # Cython would make Python numbers of a range with a step.
        if is_wanted(block, probe, start):
            narrow(block, probe, start, CHUNK)
            for offset in range(CHUNK):
                if probe.words[offset]:
                    links += try_link(block, probe, probe.words[offset], start + offset)
        start += CHUNK
    return links


def is_wanted(block: Block, probe: Probe, start: int) -> bool:
    """Return whether a chunk has words of links without a match."""
    for index in range(start, start + CHUNK):
        owner = block.owners[index]
        if owner >= 0 and not probe.hits[owner]:
            return True
    return False


def try_link(block: Block, probe: Probe, word: int, word_index: int) -> int:
    """Check the candidates in a word of a link; return 1 if they give the link its first match."""
    owner = block.owners[word_index]
    if probe.hits[owner] or not some_match(block, probe, word, word_index):
        return 0
    probe.hits[owner] = 1
    if owner < 64:
        probe.mask |= ONE << owner
    return 1


def search_all(block: Block, probe: Probe) -> int:
    """Check all candidates of a block, store the numbers of local ones, and return the number of links as above.

    Compiled, whole rows are read at once; plain Python reads chunks, and looks at words with candidates only.
    """
    if probe.found_count + 64 * block.words > probe.room:
        probe.make_room(2 * (probe.found_count + 64 * block.words))
    links = 0
    if IS_COMPILED:
        narrow(block, probe, 0, block.words)
        mark_unsure(block, probe)
        return gather(block, probe, 0, block.words)
    for start in range(0, block.words, CHUNK):
        if is_wanted(block, probe, start):
            narrow(block, probe, start, CHUNK)
            for offset in range(CHUNK):
                word = probe.words[offset]
                if word and not probe.is_doubtful:
                    word &= unsure_bits(block, probe, start + offset) | block.verified[start + offset]
                probe.unsure[offset] = word
            links += gather(block, probe, start, CHUNK)
    return links


def gather(block: Block, probe: Probe, start: int, span: int) -> int:
    """Store the numbers of local candidates in ``span`` words, and return the number of links as above."""
    links = 0
    words = probe.words
    unsure = probe.unsure
    owners = block.owners
    numbers = block.numbers
    found = probe.found
    count = probe.found_count
    for offset in range(span):
        word = words[offset]
        if not word:
            continue
        index = start + offset
        if owners[index] != LOCAL:
            links += try_link(block, probe, word, index)
            continue
        if unsure[offset]:
            word ^= mismatches(block, probe, unsure[offset], index)
        # Two numbers are stored at once, and the second only counts if there is one: a branch less to predict.
        first = index << 6
        found[count] = numbers[first + bits.lowest_bit(word | TOP)]
        count += word != 0
        word &= word - ONE
        found[count] = numbers[first + bits.lowest_bit(word | TOP)]
        count += word != 0
        word &= word - ONE
        while word:
            found[count] = numbers[first + bits.lowest_bit(word)]
            count += 1
            word &= word - ONE
    probe.found_count = count
    return links


def narrow(block: Block, probe: Probe, start: int, span: int) -> None:
    """Combine the rows of a question over ``span`` words: keep the live slots that fail in none of them.

    Four rows are read at a time, so that a CPU waits for several of them at once.
    """
    rows = block.rows
    live = block.live
    words = probe.words
    for offset in range(span):
        words[offset] = live[start + offset]
    index = 0
    while index + 4 <= probe.fail_count:
        at = probe.fails[index] + start
        second = probe.fails[index + 1] + start
        third = probe.fails[index + 2] + start
        fourth = probe.fails[index + 3] + start
        for offset in range(span):
            words[offset] &= ~(rows[at + offset] | rows[second + offset] | rows[third + offset] | rows[fourth + offset])
        index += 4
    while index < probe.fail_count:
        at = probe.fails[index] + start
        for offset in range(span):
            words[offset] &= ~rows[at + offset]
        index += 1
    for index in range(probe.string_count):
        at = probe.asks[index] + start
        second = probe.satisfied[index] + start
        for offset in range(span):
            words[offset] &= ~rows[at + offset] | rows[second + offset]
    for index in range(probe.need_count):
        at = probe.needs[index] + start
        for offset in range(span):
            words[offset] &= rows[at + offset]


def mark_unsure(block: Block, probe: Probe) -> None:
    """Find the candidates of a block that must be checked exactly: an interval ends in a segment of the question."""
    rows = block.rows
    words = probe.words
    unsure = probe.unsure
    verified = block.verified
    for offset in range(block.words):
        unsure[offset] = MASK if probe.is_doubtful else verified[offset]
    index = 0
    while index + 4 <= probe.end_count:
        at = probe.ends[index]
        second = probe.ends[index + 1]
        third = probe.ends[index + 2]
        fourth = probe.ends[index + 3]
        for offset in range(block.words):
            unsure[offset] |= rows[at + offset] | rows[second + offset] | rows[third + offset] | rows[fourth + offset]
        index += 4
    while index < probe.end_count:
        at = probe.ends[index]
        for offset in range(block.words):
            unsure[offset] |= rows[at + offset]
        index += 1
    for offset in range(block.words):
        unsure[offset] &= words[offset]
    # The intervals of these candidates are read soon; the CPU waits for all of them at once.
    for offset in range(block.words):
        word = unsure[offset]
        while word:
            at = 2 * block.interval_limit * ((offset << 6) + bits.lowest_bit(word))
            bits.prefetch(block.bounds, at)
            bits.prefetch(block.bounds, at + 8)
            bits.prefetch(block.bounds, at + 2 * block.interval_limit - 1)
            word &= word - ONE


def mismatches(block: Block, probe: Probe, unsure: int, word_index: int) -> int:
    """Return those of the candidates in a word that do not match."""
    wrong = 0
    while unsure:
        lowest = unsure & -unsure
        unsure ^= lowest
        if not is_match(block, probe, lowest, word_index):
            wrong |= lowest
    return wrong


def unsure_bits(block: Block, probe: Probe, word_index: int) -> int:
    """Return the slots of a word with an interval that ends in a segment of the question."""
    unsure = 0
    for index in range(probe.end_count):
        unsure |= block.rows[probe.ends[index] + word_index]
    return unsure


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
    """Check a candidate exactly: its intervals, and its filter if it must be verified."""
    slot = (word_index << 6) + bits.lowest_bit(bit)
    first = 2 * block.interval_limit * slot
    bounds = block.bounds
    for index in range(probe.end_count):
        at = first + probe.end_intervals[index]
        if bounds[at] > probe.points[index] or bounds[at + 1] < probe.points[index]:
            return False
    if probe.is_doubtful:
        return fits(block, probe, first) and block.filters[slot].matches(probe.publication.attributes)
    return not block.verified[word_index] & bit or block.filters[slot].matches(probe.publication.attributes)


def collect(probe: Probe, blocks: list[Block], sure: list[Any], unsure: list[Any], is_exact: bool, enough: int) -> None:
    """Find the slots that may have the relation that a probe asks about.

    If the question ``is_exact``, slots that rows and intervals fully describe are appended to ``sure`` by number; all
    others to ``unsure`` as (number, filter). The search ends when ``enough`` are sure.
    """
    words = probe.words
    for block in blocks:
        if not resolve(block, probe):
            continue
        for chunk in range(block.words // CHUNK):
            start = chunk * CHUNK
            narrow(block, probe, start, CHUNK)
            for offset in range(CHUNK):
                word = words[offset]
                blurred = block.blurred[start + offset] if is_exact else MASK
                # Some filters accept less than their interval: they may lie within although the interval does not.
                loose = block.verified[start + offset] if probe.is_within else 0
                while word:
                    lowest = word & -word
                    slot = ((start + offset) << 6) + bits.lowest_bit(word)
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
