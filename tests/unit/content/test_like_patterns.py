"""LIKE patterns against a slow and obvious matcher, on short and on long texts."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest

from octopia.content.patterns import (
    Piece,
    Wildcard,
    compile_pattern,
    compile_substring,
    literal_head,
    read_pattern,
    write_pattern,
)
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


@pytest.mark.parametrize("size", [*range(1, 12), 99, 100, 250])
def test_long_texts_are_searched_like_short_ones(size: int) -> None:
    # Beyond 32,768 comparisons another algorithm takes over.
    sought = "a" * (size - 1) + "b"
    for text in ("a" * 8192, sought[1:] + "a" * 8191, ("a" * size + "c") * (8192 // (size + 1))):
        for whole in (text, text + sought, text + sought + text, sought + text):
            assert compile_substring(sought)(whole) is (sought in whole)
            assert compile_pattern(f"%{sought}%_")(whole) is (sought in whole[:-1])
            assert compile_pattern(f"%{sought}%{sought}%")(whole) is (whole.count(sought) > 1)


def test_special_characters_of_regular_expressions_are_ordinary() -> None:
    sought = ".*[a-z]+(x|y)^$\\\n"
    pattern = write_pattern([Wildcard.ANY, *sought, Wildcard.ONE, *sought, Wildcard.ANY])
    assert compile_pattern(pattern)("a" * 5000 + sought + "\n" + sought) is True
    assert compile_pattern(pattern)("a" * 5000 + sought + sought) is False
    assert compile_substring(sought)("a" * 5000 + sought) is True
    assert compile_substring(sought)("axy\n" * 2000) is False


def test_many_wildcards_do_not_explode() -> None:
    # Backtracking would try the ways to place 1,000 segments on 20,000 characters; this ends at once, or never.
    assert compile_pattern("%a" * 1000 + "%_b")("a" * 20_000) is False
    assert compile_pattern("%a_a" * 1000 + "%b_b%")("a" * 20_000) is False


def test_equal_patterns_share_what_is_compiled_while_it_is_used() -> None:
    kept = compile_pattern("%shared_pattern%")
    assert compile_pattern("%shared_pattern%") is kept
    forgotten = weakref.ref(kept)
    del kept
    gc.collect()
    assert forgotten() is None


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
