"""``octopia filter check``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from octopia.cli import app
from octopia.errors import InvalidFilter

TEXT = "symbol = 'IBM' AND price > 100 OR volume > 5"


def check(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["filter", "check", *arguments], catch_exceptions=False)


def test_each_condition_of_each_conjunction_is_judged() -> None:
    result = check(TEXT, "symbol=IBM", "price=99")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "it does not match",
        "1. symbol = 'IBM' AND price > 100",
        "   true     symbol = 'IBM'",
        "   false    price > 100: price is 99",
        "2. volume > 5",
        "   unknown  volume > 5: the publication has no volume",
    ]


def test_a_match_is_a_success() -> None:
    result = check(TEXT, "symbol=IBM", "price=101")
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "it matches")


def test_json() -> None:
    found = json.loads(check(TEXT, "price=99", "--json").output)
    assert found["matches"] is False
    assert [each["matches"] for each in found["conjunctions"]] == [False, False]
    assert found["conjunctions"][0]["conditions"][1] == {
        "condition": "price > 100",
        "answer": "false",
        "reason": "price is 99",
    }


def test_without_a_publication_it_shows_the_normal_form_and_warns() -> None:
    result = check("price > 5 AND price < 'x'")
    assert result.exit_code == 0
    assert "1. price > 5 AND price < 'x'" in result.output
    assert "warning: price > 5 AND price < 'x' is never true" in result.output
    assert json.loads(check("x = 1", "--json").output)["matches"] is None
    assert check("FALSE").output == "FALSE: it matches no publication\n"


def test_a_bad_filter_is_refused_with_its_spelling() -> None:
    with pytest.raises(InvalidFilter, match="write = instead of =="):
        check("x == 1")
