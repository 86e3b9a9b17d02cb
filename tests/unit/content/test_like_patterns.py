"""LIKE patterns against a slow and obvious matcher, and in bounded time."""

from __future__ import annotations

import itertools

import pytest

from octopia.content.patterns import Piece, Wildcard, compile_pattern, literal_head, read_pattern, write_pattern
from octopia.errors import InvalidFilter


def obviously_matches(pieces: tuple[Piece, ...], text: str) -> bool:
    """Try every way to match, as in the definition."""
    if not pieces:
        return not text
    first, rest = pieces[0], pieces[1:]
    if first is Wildcard.ANY:
        return any(obviously_matches(rest, text[start:]) for start in range(len(text) + 1))
    return bool(text) and first in (Wildcard.ONE, text[0]) and obviously_matches(rest, text[1:])


def test_all_short_patterns_on_all_short_texts() -> None:
    texts = ["".join(each) for size in range(6) for each in itertools.product("ab", repeat=size)]
    matched = 0
    for pattern in ("".join(each) for size in range(6) for each in itertools.product("ab%_", repeat=size)):
        pieces = read_pattern(pattern)
        compiled = compile_pattern(write_pattern(pieces))
        for text in texts[:: 1 if len(pattern) < 5 else 5]:
            assert compiled(text) is obviously_matches(pieces, text), (pattern, text)
            matched += compiled(text)
    assert matched > 1000


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a%b_d%e", "aXbXdXe", True),
        ("%a_b%a__b%", "aab a..b", True),
        ("%a_b%a__b%", "aab a.b", False),
        ("__%__", "abc", False),
        ("__%__", "abcd", True),
        ("_", "\U0001f419", True),
        ("_", "e\u0301", False),
        (r"100\%_", "100%!", True),
        (r"100\%_", "1000!", False),
        ("a%\n_", "a\n\nb", True),
    ],
)
def test_chosen_patterns(pattern: str, text: str, expected: bool) -> None:
    assert compile_pattern(pattern)(text) is expected


def test_many_wildcards_do_not_explode() -> None:
    # Backtracking would try the ways to place 1,000 segments on 20,000 characters; this ends at once, or never.
    assert compile_pattern("%a" * 1000 + "%_b")("a" * 20_000) is False
    assert compile_pattern("%a_a" * 1000 + "%b_b%")("a" * 20_000) is False


def test_a_long_segment_with_gaps_takes_one_step_a_character() -> None:
    # A search that starts over at each character would make 2,000 times 200,000 comparisons here.
    pattern = "%" + "a_" * 1000 + "b%"
    assert compile_pattern(pattern)("a" * 200_000) is False
    assert compile_pattern(pattern)("a" * 200_000 + "b") is True


class CountingText(str):
    """A text that counts how often its characters are read."""

    looks = 0

    def __getitem__(self, index: object) -> str:
        self.looks += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("size", [100, 1000, 10_000])
def test_the_work_grows_with_the_text_and_no_faster(size: int) -> None:
    text = CountingText("a" * size)
    assert compile_pattern("%" + "a_" * 20 + "b%a_c%")(text) is False
    assert size - 2 <= text.looks <= size


@pytest.mark.parametrize(("pattern", "head"), [("ab_c%", "ab"), (r"a\_b%c_", "a_b"), ("%a_", ""), ("_", "")])
def test_the_literal_head(pattern: str, head: str) -> None:
    assert literal_head(pattern) == head


@pytest.mark.parametrize(
    ("pattern", "escape", "sentence"),
    [
        ("a!b", "!", "expected %, _ or ! after the escape character !, got b"),
        ("a!", "!", "expected %, _ or ! after the escape character !, got the end of the pattern"),
        ("a", "!!", "expected one character after ESCAPE, got 2"),
    ],
)
def test_bad_escapes_are_refused(pattern: str, escape: str, sentence: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        read_pattern(pattern, escape)
    assert str(caught.value) == sentence
