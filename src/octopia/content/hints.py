"""Hints for common mistakes in filters, mostly habits from other languages."""

from __future__ import annotations

from collections.abc import Collection

from octopia.content.literals import KEYWORDS

_COMPARISONS = {"==": "=", "!=": "<>", "=>": ">=", "=<": "<="}
_CONNECTIVES = {"&": "AND", "|": "OR"}
_CURLY_QUOTES = "\u2018\u2019\u201c\u201d\u201e"
_HINT_LENGTH_MAX = 40


def hint_at(text: str, position: int, expected: Collection[str], after: str) -> str:
    """Return a hint for the mistake at a position of a filter, or an empty string.

    ``expected`` are the phrases of the parser, and ``after`` is the token before the position.
    """
    for start in (position, position - 1):
        written = text[max(0, start) : start + 2]
        if written in _COMPARISONS:
            return f"write {_COMPARISONS[written]} instead of {written}"
    character = text[position : position + 1]
    if character in _CONNECTIVES and "AND" in expected:
        written = character * 2 if text.startswith(character * 2, position) else character
        return f"write {_CONNECTIVES[character]} instead of {written}"
    if character == "!" and "a condition" in expected:
        return "write NOT instead of !"
    if character == "*" and "a value" not in expected and "a string" not in expected:
        return "write TRUE for all publications" if "a condition" in expected else "filters do not calculate"
    if character and character in _CURLY_QUOTES:
        return "strings have straight single quotes, as in 'text'"
    if "a value" in expected or "a string" in expected:
        return _hint_for_value(text[position:])
    if after.startswith("'") and text.count("'") % 2:
        return "a ' is missing, or one inside a string is not doubled, as in 'it''s'"
    return ""


def _hint_for_value(rest: str) -> str:
    if rest.startswith('"'):
        word = rest[1:].partition('"')[0]
    else:
        word = rest.split(maxsplit=1)[0].rstrip("'),") if rest.strip() else ""
        if word == "*":
            return "write IS NOT NULL for any value"
        if "*" in word and "'" not in word and len(word) <= _HINT_LENGTH_MAX:
            return f"write LIKE '{word.replace('*', '%')}', where % stands for any characters"
        if word.upper() == "NULL":
            return "write IS NULL or IS NOT NULL"
        if not (word[:1].isalpha() or word[:1] == "_") or word.upper() in KEYWORDS:
            return ""
    example = word if word and len(word) <= _HINT_LENGTH_MAX and "'" not in word else "text"
    return f"strings have single quotes, as in '{example}'"
