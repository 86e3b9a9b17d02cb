r"""LIKE patterns: reading, writing, and matching in linear time.

A pattern is a sequence of pieces: literal characters, ``_`` (exactly one code point) and ``%`` (any text, even empty).
The stored, canonical form of a pattern uses the backslash as its escape character, escapes only ``%``, ``_`` and the
backslash itself, and has no two ``%`` in a row.

Matching never backtracks. The pattern is split at each ``%`` into segments. The first and the last are anchored; each
segment between them is searched for from the end of the one before it, which is correct because segments have a fixed
length. A segment without inner ``_`` is found by ``str.find``. One with inner ``_`` is found by the shift-and
algorithm, which keeps one bit per character of the segment in an integer and takes one step per character of the text.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from octopia.errors import InvalidFilter

ESCAPE = "\\"
"""The escape character of canonical patterns."""


class Wildcard(enum.Enum):
    """The wildcards of a pattern."""

    ANY = "%"
    ONE = "_"


Piece: TypeAlias = str | Wildcard
"""A literal character or a wildcard."""


def read_pattern(text: str, escape: str = "") -> tuple[Piece, ...]:
    """Split the text of a pattern into its pieces; without an escape character every % and _ is a wildcard."""
    if len(escape) > 1:
        raise InvalidFilter(f"expected one character after ESCAPE, got {len(escape)}")
    pieces: list[Piece] = []
    for piece in _read_pieces(text, escape):
        # Several % in a row are equivalent to one.
        if piece is not Wildcard.ANY or pieces[-1:] != [Wildcard.ANY]:
            pieces.append(piece)
    return tuple(pieces)


def _read_pieces(text: str, escape: str) -> Iterator[Piece]:
    characters = iter(text)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                got = escaped or "the end of the pattern"
                raise InvalidFilter(f"expected %, _ or {escape} after the escape character {escape}, got {got}")
            yield escaped
        elif character in ("%", "_"):
            yield Wildcard(character)
        else:
            yield character


def write_pattern(pieces: Sequence[Piece], escape: str = ESCAPE) -> str:
    """Return the text of a pattern; ``escape`` may be empty if it has no literal % or _."""
    special = ("%", "_", escape)
    return "".join(
        piece.value if isinstance(piece, Wildcard) else escape + piece if piece in special else piece
        for piece in pieces
    )


def literal_head(pattern: str) -> str:
    """Return the literal prefix of a canonical pattern."""
    head: list[str] = []
    for piece in read_pattern(pattern, ESCAPE):
        if isinstance(piece, Wildcard):
            break
        head.append(piece)
    return "".join(head)


@functools.lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches a text against a canonical pattern, in time linear in the text."""
    first, *rest = _segments(read_pattern(pattern, ESCAPE))
    if not rest:
        return lambda text: len(text) == first.length and first.stands_at(text, 0)
    *middle, last = rest
    anchored = first.length + last.length

    def matches(text: str) -> bool:
        end = len(text) - last.length
        if len(text) < anchored or not first.stands_at(text, 0) or not last.stands_at(text, end):
            return False
        position = first.length
        for segment in middle:
            position = segment.find_end(text, position, end)
            if position < 0:
                return False
        return True

    return matches


def _segments(pieces: Sequence[Piece]) -> list[_Segment]:
    """Split the pieces at each %; a pattern without % is a single segment."""
    segments: list[list[str | None]] = [[]]
    for piece in pieces:
        if piece is Wildcard.ANY:
            segments.append([])
        else:
            segments[-1].append(None if isinstance(piece, Wildcard) else piece)
    return [_Segment.of(each) for each in segments]


@dataclass(frozen=True, slots=True)
class _Segment:
    """A part of a pattern without %: ``skip`` times _, then the core, then _ up to ``length``.

    ``core`` begins and ends with a literal; ``None`` in it stands for _. ``literal`` is the core as text if it has no
    _, else empty.
    """

    length: int
    skip: int
    core: tuple[str | None, ...]
    literal: str
    masks: dict[str, int]
    any_mask: int

    @classmethod
    def of(cls, characters: Sequence[str | None]) -> _Segment:
        literals = [index for index, each in enumerate(characters) if each is not None]
        skip = literals[0] if literals else len(characters)
        core = tuple(characters[skip : literals[-1] + 1]) if literals else ()
        known = [each for each in core if each is not None]
        any_mask = sum(1 << index for index, each in enumerate(core) if each is None)
        masks: dict[str, int] = {}
        for index, each in enumerate(core):
            if each is not None:
                masks[each] = masks.get(each, any_mask) | 1 << index
        return cls(len(characters), skip, core, "".join(known) if len(known) == len(core) else "", masks, any_mask)

    def stands_at(self, text: str, position: int) -> bool:
        """Return whether the segment matches at this position; the text must be long enough."""
        start = position + self.skip
        if self.literal:
            return text.startswith(self.literal, start)
        return all(each is None or each == text[start + index] for index, each in enumerate(self.core))

    def find_end(self, text: str, start: int, end: int) -> int:
        """Return the end of the leftmost occurrence within [start, end), or -1."""
        tail = self.length - self.skip - len(self.core)
        begin, stop = start + self.skip, end - tail
        if not self.core:
            return begin if begin <= stop else -1
        if self.literal:
            found = text.find(self.literal, begin, stop) if begin <= stop else -1
            return -1 if found < 0 else found + len(self.literal) + tail
        core_end = self._shift_and(text, begin, stop)
        return -1 if core_end < 0 else core_end + tail

    def _shift_and(self, text: str, begin: int, stop: int) -> int:
        state, last_bit = 0, 1 << len(self.core) - 1
        masks, any_mask = self.masks, self.any_mask
        for position in range(begin, stop):
            state = (state << 1 | 1) & masks.get(text[position], any_mask)
            if state & last_bit:
                return position + 1
        return -1
