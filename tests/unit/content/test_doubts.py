"""Doubts about filters that are valid and hardly meant."""

from __future__ import annotations

import pytest

from octopia.content import parse_filter
from octopia.content.doubts import SENTENCES_MAX, doubts_about

OFFERS = ("price > 0 AND symbol LIKE 'I%'", "price > 5 AND name IS NOT NULL AND halted = TRUE", "code IN (1, 'a')")


def doubts(text: str, *offers: str) -> list[str]:
    return doubts_about(parse_filter(text), map(parse_filter, offers))


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("x > 1 AND x = 'a'", "x > 1 AND x = 'a' is never true: it compares x with a number and with a string"),
        ("x = 1 AND x = TRUE", "x = 1 AND x = TRUE is never true: it compares x with a number and with a boolean"),
        ("s LIKE 'IB*%'", "s LIKE 'IB*%' has a star, which is an ordinary character: in LIKE, % stands for any "
         "characters and _ for one"),
        ("s LIKE 'IB*'", "s = 'IB*' has a star, which is an ordinary character: in LIKE, % stands for any "
         "characters and _ for one"),
        ("price > '100'", "price > '100' compares with a string, but price is a number in the advertisement "
         "(price > 0): write price > 100"),
        ("price > '1.50'", "price > '1.50' compares with a string, but price is a number in the advertisement "
         "(price > 0): write price > 1.5"),
        ("price > 'nan'", "price > 'nan' compares with a string, but price is a number in the advertisement "
         "(price > 0)"),
        ("price < '1e999'", "price < '1e999' compares with a string, but price is a number in the advertisement "
         "(price > 0)"),
        ("price LIKE '10%'", "price LIKE '10%' compares with a string, but price is a number in the advertisement "
         "(price > 0)"),
        ("symbol = 1", "symbol = 1 compares with a number, but symbol is a string in the advertisement "
         "(symbol LIKE 'I%')"),
        ("halted = 'true'", "halted = 'true' compares with a string, but halted is a boolean in the advertisement "
         "(halted = TRUE)"),
    ],
)  # fmt: skip
def test_a_mistake_is_doubted(text: str, doubt: str) -> None:
    assert doubts(text, *OFFERS) == [doubt]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1 OR x = '1'",
        "x IS NOT NULL AND x > 1",
        "x IS NULL",
        "x IN (1, 'a') AND x = 'a'",
        "price > 100 AND symbol = 'IBM'",
        "name = 5",
        "name = 'IBM'",
        "code = 1 OR code = 'a'",
        "unknown = 'a'",
        "TRUE",
        "FALSE",
    ],
)
def test_what_can_be_meant_is_not_doubted(text: str) -> None:
    assert doubts(text, *OFFERS) == []


def test_an_advertisement_of_any_type_settles_the_doubt() -> None:
    assert doubts("price > '100'", *OFFERS, "price IS NOT NULL") == []
    assert doubts("price > '100'", "price IS NOT NULL", *OFFERS) == []
    assert doubts("price > '100'", *OFFERS, "price = 'high'") == []


def test_the_number_of_sentences_is_bounded() -> None:
    text = " AND ".join(f"x{number} LIKE '*%'" for number in range(20))
    assert len(doubts(text)) == SENTENCES_MAX
