"""Hints for common mistakes in filter texts."""

from __future__ import annotations

import pytest

from octopia.content import parse_filter
from octopia.errors import InvalidFilter

MISSING = "a ' is missing, or one inside a string is not doubled, as in 'it''s'"


@pytest.mark.parametrize(
    ("text", "hint", "position"),
    [
        ("x == 1", "write = instead of ==", 3),
        ("x==1", "write = instead of ==", 2),
        ("x != 1", "write <> instead of !=", 2),
        ("x => 1", "write >= instead of =>", 3),
        ("x =< 1", "write <= instead of =<", 3),
        ("x = 1 && y = 2", "write AND instead of &&", 6),
        ("x = 1 & y = 2", "write AND instead of &", 6),
        ("x = 1 || y = 2", "write OR instead of ||", 6),
        ("x = 1 AND !(y = 2)", "write NOT instead of !", 10),
        ('x = "IBM"', "strings have single quotes, as in 'IBM'", 4),
        ("x IN (\"IBM\", 'SAP')", "strings have single quotes, as in 'IBM'", 6),
        ('x = "IBM', "strings have single quotes, as in 'IBM'", 4),
        ('x = "it\'s"', "strings have single quotes, as in 'text'", 4),
        ("x = IBM AND y = 2", "strings have single quotes, as in 'IBM'", 4),
        ("x IN (IBM, SAP)", "strings have single quotes, as in 'IBM'", 6),
        ("x LIKE ab%", "strings have single quotes, as in 'ab%'", 7),
        (f"x = {'long' * 20}", "strings have single quotes, as in 'text'", 4),
        ("x = \u2018IBM\u2019", "strings have straight single quotes, as in 'text'", 4),
        ("x = 'it's'", MISSING, 8),
        ("x = 'IBM AND y = 'b'", MISSING, 18),
        ("x = NULL", "write IS NULL or IS NOT NULL", 4),
        ("!x = 1", "write NOT instead of !", 0),
        ("*", "write TRUE for all publications", 0),
        ("x = 1 AND *", "write TRUE for all publications", 10),
        ("x = *", "write IS NOT NULL for any value", 4),
        ("x = IB*", "write LIKE 'IB%', where % stands for any characters", 4),
        ("x LIKE IB*M AND y = 1", "write LIKE 'IB%M', where % stands for any characters", 7),
        ("x > 5 * 2", "filters do not calculate", 6),
        ("x * 2 > 5", "filters do not calculate", 2),
        ("[x,==,1]", "write = instead of ==", 4),
        ("[x,!=,1]", "write <> instead of !=", 3),
    ],
)
def test_a_common_mistake_gets_a_hint_and_a_caret(text: str, hint: str, position: int) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text)
    assert caught.value.sentence.endswith(f": {hint}")
    assert caught.value.position == position
    assert str(caught.value) == f"{caught.value.sentence}\n  {text}\n  {' ' * position}^"


@pytest.mark.parametrize("text", ["x = ", "x > AND y = 1", "x = 1 AND", "x ! 5", "5 < x", "x = 5 5", "x = 'IBM", "&"])
def test_others_get_none(text: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(text)
    assert ": " not in caught.value.sentence
