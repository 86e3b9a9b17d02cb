"""The storage of filters in the index: blocks of slots with common columns.

Slots are allocated in words of 64. Each word belongs to one group (a link, or all local clients), so that a link is
done at its first match. A removed place is not reused until many places of its word have been removed; then the word is
swept, and its free slots are allocated again.

Boundaries are quantiles of a sample of recent endpoints. They are reviewed when the number of endpoints has grown by a
factor of four or by 16,384, and replaced if they are too few or divide the sample unevenly. Blocks are then converted
one by one, a little with every addition, so that no addition takes long. A block uses its old boundaries until it is
converted.
"""

from __future__ import annotations

from collections import Counter

from octopia.content import Filter, Operator, Predicate, group_by_attribute
from octopia.content.prepared import prepare, prepare_predicate
from octopia.matching.blocks import Block, Boundaries, Column, place_simply
from octopia.matching.layout import ABSENT, ASKS_STRING, CHUNK, FEWEST_WORDS, MOST_MEMOS, MOST_SEGMENTS, MOST_WORDS
from octopia.matching.value_sets import ValueSet, is_plain, value_set_of

_INFINITY = float("inf")

_ENDPOINTS_PER_SEGMENT = 8
_GROWTH = 4
_SKEW = 4
_SLOT_BITS = 20
_SLOT_MASK = (1 << _SLOT_BITS) - 1
_REVIEW_EVERY = 16_384
_REVIEW_AFTER = 16
MOST_COLUMNS = 128
"""The number of attributes that have rows; filters on other attributes are evaluated one by one."""
SWEEP_AT = 24
"""The number of removed slots at which a word is swept."""


class Store:
    """Filters in slots, each under a number; a store of advertisements ``ignores_absence``.

    An advertisement declares attributes that its publications may lack, so ABSENT does not constrain them. ``odd`` has
    the numbers with a filter that rows and intervals cannot represent.
    """

    __slots__ = (
        "_additions",
        "_free",
        "_given_up",
        "_ignores_absence",
        "_is_complete",
        "_outdated",
        "_words_left",
        "_words_total",
        "blocks",
        "column_list",
        "columns",
        "odd",
    )

    def __init__(self, *, ignores_absence: bool = False):
        self.blocks: list[Block] = []
        self.columns: dict[str, Column] = {}
        self.column_list: list[Column] = []
        self.odd: dict[int, None] = {}
        self._ignores_absence = ignores_absence
        self._free: dict[int, list[int]] = {}
        self._given_up: dict[int, list[int]] = {}
        self._additions = 0
        self._outdated: list[tuple[Block, Column]] = []
        self._is_complete = True
        self._words_left = 0
        self._words_total = 0

    def add(self, group: int, number: int, interest: Filter) -> int:
        """Store a filter under a number, and return its place."""
        free = self._free.get(group) or self._take_word(group)
        place = free.pop()
        block, slot = self.blocks[place >> _SLOT_BITS], place & _SLOT_MASK
        left = place_simply(block, slot, self.columns, interest.predicates)
        if left:
            is_verified = self._place(block, slot, left)
            if not is_plain(left):
                self.odd[number] = None
            block.settle(slot, number, prepare(interest) if is_verified else interest)
        else:
            block.settle(slot, number, interest)
        if self._outdated:
            self._catch_up()
        else:
            self._additions += 1
            if not self._additions % _REVIEW_AFTER:
                self._review_boundaries()
        return place

    def remove(self, place: int) -> None:
        """Remove the filter at a place."""
        block = self.blocks[place >> _SLOT_BITS]
        block.give_up(place & _SLOT_MASK)
        given_up = self._given_up.setdefault(place >> 6, [])
        given_up.append(place)
        if len(given_up) >= SWEEP_AT:
            word = (place & _SLOT_MASK) >> 6
            block.sweep(word)
            self._free[block.owner(word)] += given_up
            del self._given_up[place >> 6]
            self._forget_strings()

    def _forget_strings(self) -> None:
        """Forget strings that no filter names, for attributes with many of them."""
        for column in self.column_list:
            if len(column.texts.memos) > 2 * MOST_MEMOS:
                column.texts.forget_memos(self.blocks, column.number)

    def size_bytes(self) -> int:
        """Return the size of rows and intervals in bytes."""
        return sum(block.size_bytes() for block in self.blocks)

    def _take_word(self, group: int) -> list[int]:
        """Assign another word to a group, and return its free places."""
        if not self._words_left:
            words = min(MOST_WORDS, max(FEWEST_WORDS, self._words_total // 2 // CHUNK * CHUNK))
            self.blocks.append(self.blocks[-1].next_of(words) if self.blocks else Block(words))
            self._words_left = words
            self._words_total += words
        block = self.blocks[-1]
        word = block.words - self._words_left
        self._words_left -= 1
        block.own(word, group)
        first = (len(self.blocks) - 1 << _SLOT_BITS) + 64 * word
        free = self._free.setdefault(group, [])
        free += range(first + 63, first - 1, -1)
        return free

    def _place(self, block: Block, slot: int, predicates: list[Predicate]) -> bool:
        """Place predicates of any kind, attribute by attribute; return whether the filter must be evaluated, too."""
        is_verified = False
        for attribute, together in group_by_attribute(predicates).items():
            column = self._column(attribute)
            if column is None:
                is_verified = True
                block.let_blur(slot)
                continue
            if not block.has_column(column.number):
                block.add_column(column.number, column.boundaries)
            if self._ignores_absence and any(each.operator is Operator.ABSENT for each in together):
                together = tuple(each for each in together if each.operator is not Operator.ABSENT)
            values = value_set_of(together)
            self._place_values(block, slot, column, values, together)
            if not values.is_exact and values.takes_number:
                is_verified = True
            if not values.is_clear:
                block.let_blur(slot)
        if is_verified:
            block.let_verify(slot)
        return is_verified

    @property
    def is_complete(self) -> bool:
        """True if all attributes that filters mention have rows."""
        return self._is_complete

    def _column(self, attribute: str) -> Column | None:
        """Return the column of an attribute, or None if there are too many columns to add another."""
        column = self.columns.get(attribute)
        if column is None and len(self.column_list) >= MOST_COLUMNS:
            self._is_complete = False
        elif column is None:
            column = self.columns[attribute] = Column(attribute, len(self.column_list))
            self.column_list.append(column)
        return column

    def _place_values(
        self, block: Block, slot: int, column: Column, values: ValueSet, predicates: tuple[Predicate, ...]
    ) -> None:
        # An advertisement declares every attribute that it mentions, even by ABSENT.
        block.fail(column.number, slot, values.fails | self._ignores_absence << ABSENT)
        if values.takes_number and (values.low > -_INFINITY or values.high < _INFINITY):
            block.set_interval(column.number, slot, values.low, values.high)
            column.note(values.low)
            column.note(values.high)
        if values.takes_string and values.asks_string:
            block.fail(column.number, slot, 1 << ASKS_STRING)
            if values.texts is None:
                block.strings_of(column).ask(slot, tuple(map(prepare_predicate, predicates)))
            else:
                block.strings_of(column).name(block, slot, values.texts)

    def _review_boundaries(self) -> None:
        """Review the boundaries of attributes that have grown."""
        for column in self.column_list:
            if column.seen >= column.next_choice_at:
                column.next_choice_at = min(column.seen * _GROWTH, column.seen + _REVIEW_EVERY)
                self._choose_boundaries(column)

    def _choose_boundaries(self, column: Column) -> None:
        """Choose new boundaries for an attribute if it needs them; its blocks are converted one by one."""
        count = min(MOST_SEGMENTS - 1, max(1, column.seen // _ENDPOINTS_PER_SEGMENT))
        sample = column.sampled()
        if column.boundaries.count < count or _is_skewed(column.boundaries, sample):
            chosen = {sample[len(sample) * each // (count + 1)] for each in range(1, count + 1)}
            column.boundaries = Boundaries(sorted(chosen), column.boundaries.version + 1)
            self._outdated += [(block, column) for block in self.blocks if block.has_column(column.number)]

    def _catch_up(self) -> None:
        """Convert a part of one block to the newest boundaries of one attribute."""
        block, column = self._outdated[-1]
        is_done = block.boundaries[column.number].version == column.boundaries.version
        if is_done or block.rebuild(column.number, column.boundaries, CHUNK):
            self._outdated.pop()


def _is_skewed(boundaries: Boundaries, sample: list[float]) -> bool:
    """Return whether some segment holds many times its share of endpoints."""
    shares = Counter(map(boundaries.segment, sample))
    return max(shares.values()) > _SKEW * len(sample) / (boundaries.count + 1)
