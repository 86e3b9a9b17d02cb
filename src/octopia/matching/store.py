"""Where the index keeps filters: blocks of slots, grouped, under common columns.

A group stands for a link: the blocks of a link hold nothing else, so that a link is done at its first hit. New slots
go to free places of their group's blocks, or to a new block. Boundaries are quantiles of a sample of all endpoints;
they are chosen anew whenever there are four times as many endpoints as before, and blocks then change over one by
one, a little with every addition, so that nobody waits long. Until a block has, it goes by its old boundaries.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from octopia.content import Filter, Operator, Predicate
from octopia.matching.kernel import Block, Boundaries, Column
from octopia.matching.layout import ABSENT, ASKS_STRING, SLOTS
from octopia.matching.shapes import Shape, shape_of, shapes_of

_INFINITY = float("inf")

MOST_BOUNDARIES = 255
_ENDPOINTS_PER_SEGMENT = 8
_FIRST_BOUNDARIES_AT = 64
_GROWTH = 4
_SAMPLE = 2048
MOST_UNPINNED_ROWS = 256


class Strings:
    """The rows of one attribute in one block for single strings: which slots each string satisfies.

    Strings that some slot asks for by name have a row of their own from the start. Others get one when a publication
    first brings them, if any slot might take them; the oldest of these rows are given up when there are too many. Slots
    that ask in other ways (prefix, contains, order…) stand in a journal, which each row follows when it is next used.
    """

    __slots__ = ("_applied", "_empty", "_general", "_journal", "_rows", "_unpinned")

    def __init__(self, block: Block):
        self._empty = block.add_rows(1)
        self._rows: dict[str, int] = {}
        self._applied: dict[str, int] = {}
        self._unpinned: dict[str, None] = {}
        self._general: dict[int, tuple[Predicate, ...]] = {}
        self._journal: list[int] = []

    def pin(self, block: Block, text: str, slot: int) -> None:
        """Let a slot take a string by name."""
        if text not in self._rows:
            self._rows[text] = block.add_rows(1)
            self._applied[text] = 0
        self._unpinned.pop(text, None)
        block.set_bit(self._rows[text], slot)

    def ask(self, slot: int, predicates: tuple[Predicate, ...]) -> None:
        """Let a slot take the strings that satisfy its predicates."""
        self._general[slot] = predicates
        self._journal.append(slot)

    def forget(self, slot: int) -> None:
        """Forget a slot; its bits are cleared with all others of its block."""
        self._general.pop(slot, None)

    def row_of(self, block: Block, text: str) -> int:
        """Return the row of a string."""
        row = self._rows.get(text)
        if row is None:
            if not self._general:
                return self._empty
            row = self._make_row(block, text)
        if self._applied[text] != len(self._journal):
            self._follow_journal(block, text, row)
        return row

    def _make_row(self, block: Block, text: str) -> int:
        if len(self._unpinned) >= MOST_UNPINNED_ROWS:
            oldest = next(iter(self._unpinned))
            del self._unpinned[oldest], self._applied[oldest]
            row = self._rows.pop(oldest)
            block.clear_row(row)
        else:
            row = block.add_rows(1)
        self._rows[text] = row
        self._applied[text] = 0
        self._unpinned[text] = None
        return row

    def _follow_journal(self, block: Block, text: str, row: int) -> None:
        for slot in self._journal[self._applied[text] :]:
            predicates = self._general.get(slot)
            if predicates is not None and all(each.test(text) for each in predicates):
                block.set_bit(row, slot)
        self._applied[text] = len(self._journal)


class Place(NamedTuple):
    """Where a filter is stored."""

    group: Hashable
    block: Block
    slot: int


class _Statistics:
    """A sample of the endpoints of one attribute, and when it is next time for boundaries."""

    __slots__ = ("_seen", "_state", "next_at", "sample", "version")

    def __init__(self) -> None:
        self.sample: list[float] = []
        self._seen = 0
        self._state = 0x9E3779B97F4A7C15
        self.next_at = _FIRST_BOUNDARIES_AT
        self.version = 0

    def note(self, *endpoints: float) -> bool:
        """Take the finite endpoints of an interval into account, and tell whether it is time for new boundaries."""
        for endpoint in endpoints:
            if -_INFINITY < endpoint < _INFINITY:
                self._seen += 1
                if len(self.sample) < _SAMPLE:
                    self.sample.append(endpoint)
                elif (place := self._chance() % self._seen) < _SAMPLE:
                    self.sample[place] = endpoint
        return self._seen >= self.next_at

    def boundaries(self) -> Boundaries:
        """Choose boundaries at quantiles of the sample."""
        self.next_at = self._seen * _GROWTH
        self.version += 1
        count = min(MOST_BOUNDARIES, max(1, self._seen // _ENDPOINTS_PER_SEGMENT))
        ordered = sorted(self.sample)
        chosen = [ordered[len(ordered) * each // (count + 1)] for each in range(1, count + 1)]
        return Boundaries(sorted(dict.fromkeys(chosen)), self.version)

    def _chance(self) -> int:
        """Return the next number of a fixed sequence that looks random (xorshift): samples must not differ by run."""
        state = self._state
        state ^= state << 13 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= state << 17 & 0xFFFFFFFFFFFFFFFF
        self._state = state
        return state


class Store:
    """Filters by group. ``ignores_absence`` is for advertisements: there ABSENT declares, and forbids nothing."""

    def __init__(self, *, ignores_absence: bool = False) -> None:
        self._ignores_absence = ignores_absence
        # Of an advertisement, the row tells who mentions an attribute at all.
        self._always_fails = 1 << ABSENT if ignores_absence else 0
        self.columns: dict[str, Column] = {}
        self.column_list: list[Column] = []
        self._statistics: list[_Statistics] = []
        self._blocks: dict[Hashable, list[Block]] = {}
        self._free: dict[Hashable, list[tuple[Block, int]]] = {}
        self._outdated: list[tuple[Block, Column]] = []

    def blocks(self, group: Hashable) -> list[Block]:
        """Return the blocks of a group, as a list that grows with it."""
        return self._blocks.setdefault(group, [])

    def all_blocks(self) -> list[Block]:
        """Return the blocks of all groups."""
        return [block for blocks in self._blocks.values() for block in blocks]

    def add(self, group: Hashable, name: object, interest: Filter) -> Place:
        """Store a filter under a name."""
        block, slot = self._take_slot(group)
        is_exact = True
        for attribute, shape, predicates in self._shapes(interest):
            column = self._column(attribute)
            if not block.has_column(column.number):
                block.add_column(column.number, column.boundaries)
            self._place(block, slot, column, shape, predicates)
            is_exact = is_exact and (shape.is_exact or not shape.takes_number)
        block.names[slot] = name
        block.filters[slot] = interest
        block.set_live(slot, not is_exact)
        self._catch_up()
        return Place(group, block, slot)

    def remove(self, place: Place) -> None:
        """Forget a filter; its slot is free again."""
        for strings in place.block.strings:
            if strings is not None:
                strings.forget(place.slot)
        place.block.clear_slot(place.slot)
        self._free[place.group].append((place.block, place.slot))

    def size_bytes(self) -> int:
        """Return how many bytes rows and intervals take."""
        return sum(block.size_bytes() for block in self.all_blocks())

    def _shapes(self, interest: Filter) -> Iterator[tuple[str, Shape, tuple[Predicate, ...]]]:
        for attribute, shape, predicates in shapes_of(interest):
            if self._ignores_absence and any(each.operator is Operator.ABSENT for each in predicates):
                needing = interest.required.get(attribute, ())
                yield attribute, shape_of(needing), needing
            else:
                yield attribute, shape, predicates

    def _take_slot(self, group: Hashable) -> tuple[Block, int]:
        free = self._free.setdefault(group, [])
        if not free:
            block = Block()
            self.blocks(group).append(block)
            free.extend((block, slot) for slot in reversed(range(SLOTS)))
        return free.pop()

    def _column(self, attribute: str) -> Column:
        column = self.columns.get(attribute)
        if column is None:
            column = Column(attribute, len(self.column_list), Boundaries([], 0))
            self.columns[attribute] = column
            self.column_list.append(column)
            self._statistics.append(_Statistics())
        return column

    def _place(self, block: Block, slot: int, column: Column, shape: Shape, predicates: tuple[Predicate, ...]) -> None:
        block.fail(column.number, slot, shape.fails | self._always_fails)
        if shape.takes_number and (shape.low > -_INFINITY or shape.high < _INFINITY):
            block.set_interval(column.number, slot, shape.low, shape.high)
            if self._statistics[column.number].note(shape.low, shape.high):
                self._choose_boundaries(column)
        if shape.takes_string and shape.asks_string:
            self._place_strings(block, slot, column, shape, predicates)

    def _place_strings(
        self, block: Block, slot: int, column: Column, shape: Shape, predicates: tuple[Predicate, ...]
    ) -> None:
        strings = block.strings[column.number]
        if strings is None:
            strings = block.strings[column.number] = Strings(block)
        block.set_bit(block.base(column.number) + ASKS_STRING, slot)
        if shape.texts is None:
            strings.ask(slot, predicates)
        else:
            for text in shape.texts:
                strings.pin(block, text, slot)

    def _choose_boundaries(self, column: Column) -> None:
        """Give an attribute new boundaries; its blocks will follow one by one."""
        column.boundaries = self._statistics[column.number].boundaries()
        self._outdated += [(block, column) for block in self.all_blocks() if block.has_column(column.number)]

    def _catch_up(self) -> None:
        """Give one block the newest boundaries of one attribute."""
        while self._outdated:
            block, column = self._outdated.pop()
            if block.boundaries[column.number].version != column.boundaries.version:
                block.rebuild_column(column.number, column.boundaries)
                return
