r"""LIKE patterns: reading, writing, and matching in linear time.

A pattern is a sequence of pieces: literal characters, ``_`` (exactly one code point) and ``%`` (any text, even empty).
The stored, canonical form of a pattern uses the backslash as its escape character, escapes only ``%``, ``_`` and the
backslash itself, and has no two ``%`` in a row.

Matching never backtracks. The pattern is split at each ``%`` into segments. The first and the last are anchored; each
segment between them is searched for from the end of the one before it, which is correct because segments have a fixed
length. So a pattern reads each character of a text once, at the rate of its most expensive segment:

- A segment without inner ``_`` takes constant time per character. ``str.find`` is fastest on short texts, but on some
  texts it compares the whole segment at every position. Long texts are searched by ``re``, which uses the algorithm of
  Knuth, Morris and Pratt for literals.
- A segment with inner ``_`` is searched by ``re``, which may compare the whole segment at every position.

``nanoseconds_per_character`` states the rate, from which ``octopia.content.costs`` computes the worst case. A compiled
pattern takes memory in proportion to its length, and is kept as long as a predicate uses it.
"""

from __future__ import annotations

import enum
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from octopia.errors import InvalidFilter

ESCAPE = "\\"
"""The escape character of canonical patterns."""

_ESCAPED = re.compile(r"\\[\\%_]")

_NAIVE_COMPARISONS_MAX = 1 << 15
"""The number of comparisons, length of the segment times length of the text, up to which ``str.find`` is used."""


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


def is_canonical(pattern: str) -> bool:
    """Return whether ``write_pattern`` could have written this pattern."""
    shape = mask_escapes(pattern)
    return ESCAPE not in shape and "%%" not in shape


def mask_escapes(pattern: str) -> str:
    """Return a canonical pattern with an ordinary character in place of each escaped one."""
    return _ESCAPED.sub("x", pattern)


def has_inner_wildcard(pattern: str) -> bool:
    """Return whether a canonical pattern has a wildcard other than a % at its beginning or end."""
    inner = mask_escapes(pattern).strip("%")
    return "%" in inner or "_" in inner


def searched_cores(pattern: str) -> list[str]:
    """Return the cores of the segments of a canonical pattern that are not anchored, with their escapes masked."""
    return [segment.strip("_") for segment in mask_escapes(pattern).split("%")[1:-1]]


def nanoseconds_per_character(core: str) -> float:
    """Return the time per character to search a text for the core of a segment, in the worst case."""
    return 4.0 + 1.7 * len(core) if "_" in core else 2.7


def literal_head(pattern: str) -> str:
    """Return the literal prefix of a canonical pattern."""
    head: list[str] = []
    for piece in _read_pieces(pattern, ESCAPE):
        if isinstance(piece, Wildcard):
            break
        head.append(piece)
    return "".join(head)


_compiled: weakref.WeakValueDictionary[str, Callable[[str], bool]] = weakref.WeakValueDictionary()


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that matches a text against a canonical pattern; equal patterns share it while it is used."""
    matches = _compiled.get(pattern)
    if matches is None:
        matches = _compiled[pattern] = _Pattern(_split(pattern))
    return matches


class _Pattern:
    """A compiled pattern; an object instead of a closure, which is five objects for the garbage collector."""

    __slots__ = ("__weakref__", "_anchored", "_first", "_last", "_middle")

    def __init__(self, segments: list[_Segment]):
        self._first, *rest = segments
        self._last = rest[-1] if rest else None
        self._middle = tuple(rest[:-1])
        self._anchored = self._first.length + (self._last.length if self._last is not None else 0)

    def __call__(self, text: str) -> bool:
        """Return whether a text matches."""
        first, last = self._first, self._last
        if last is None:
            return len(text) == first.length and first.stands_at(text, 0)
        end = len(text) - last.length
        if len(text) < self._anchored or not first.stands_at(text, 0) or not last.stands_at(text, end):
            return False
        position = first.length
        for segment in self._middle:
            position = segment.find_end(text, position, end)
            if position < 0:
                return False
        return True


class _Substring(msgspec.Struct, frozen=True, gc=False):
    """A substring to find."""

    part: str
    segment: Any

    def __call__(self, text: str) -> bool:
        """Return whether a text contains the substring."""
        if len(text) <= self.segment.naive_length_max:
            return self.part in text
        return bool(self.segment.find_end(text, 0, len(text)) >= 0)


def compile_substring(part: str) -> Callable[[str], bool]:
    """Return a function that finds a substring in a text, in time linear in the text."""
    return _Substring(part, _Segment(part))


def _split(pattern: str) -> list[_Segment]:
    """Split a canonical pattern at each %; a pattern without % is a single segment."""
    segments: list[list[Piece]] = [[]]
    for piece in read_pattern(pattern, ESCAPE):
        if piece is Wildcard.ANY:
            segments.append([])
        else:
            segments[-1].append(piece)
    return [_Segment(each) for each in segments]


class _Segment:
    """A part of a pattern without %: ``skip`` times _, then the core, then _ up to ``length``.

    The core begins and ends with a literal character. ``literal`` is the core as text if it has no _, else empty. Texts
    of up to ``naive_length_max`` characters are searched by ``str.find``.
    """

    __slots__ = ("_core", "_expression", "length", "literal", "naive_length_max", "skip")

    def __init__(self, pieces: Sequence[Piece]):
        literals = [index for index, each in enumerate(pieces) if not isinstance(each, Wildcard)]
        self.length = len(pieces)
        self.skip = literals[0] if literals else len(pieces)
        self._core = pieces[self.skip : literals[-1] + 1] if literals else ()
        self.literal = write_pattern(self._core, escape="") if len(literals) == len(self._core) else ""
        self.naive_length_max = _NAIVE_COMPARISONS_MAX // len(self.literal) if self.literal else -1
        # A core with _ needs its expression for every text. It is compiled now, so that no match has to wait for it.
        self._expression: re.Pattern[str] | None = None
        if self._core and not self.literal:
            self._compiled()

    def stands_at(self, text: str, position: int) -> bool:
        """Return whether the segment matches at this position; the text must be long enough."""
        start = position + self.skip
        if self.literal or not self._core:
            return text.startswith(self.literal, start)
        return self._compiled().match(text, start) is not None

    def find_end(self, text: str, start: int, end: int) -> int:
        """Return the end of the leftmost occurrence within [start, end), or -1."""
        begin = start + self.skip
        stop = end - (self.length - self.skip - len(self._core))
        if begin > stop:
            return -1
        if stop - begin <= self.naive_length_max or not self._core:
            found = text.find(self.literal, begin, stop)
        else:
            match = self._compiled().search(text, begin, stop)
            found = -1 if match is None else match.start()
        return -1 if found < 0 else found - self.skip + self.length

    def _compiled(self) -> re.Pattern[str]:
        """Return the core as a regular expression, compiled when it is first needed."""
        if self._expression is None:
            core = ("." if isinstance(each, Wildcard) else re.escape(each) for each in self._core)
            self._expression = re.compile("".join(core), re.DOTALL)
        return self._expression
