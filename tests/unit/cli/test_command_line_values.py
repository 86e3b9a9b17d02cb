"""The values that ``octopia pub`` reads from its command line and its standard input."""

from __future__ import annotations

import io

import pytest

from octopia.cli.publish import pub, read_value, show_value
from octopia.content import Value
from octopia.content.values import INTEGER_MAX, INTEGER_MIN
from octopia.errors import InvalidPublication, UsageError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("-3", -3),
        ("0", 0),
        (str(INTEGER_MIN), INTEGER_MIN),
        (str(INTEGER_MAX), INTEGER_MAX),
        ("101.5", 101.5),
        ("0.5", 0.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e6", 1_000_000.0),
        ("true", True),
        ("false", False),
        ("IBM", "IBM"),
        ("", ""),
        ("'7'", "7"),
        ("'true'", "true"),
        ("it's", "it's"),
        *(
            (text, text)
            for text in ("007", "-01", "00.5", "+41791234567", "1_000", "nan", "inf", "True", " 7", "\u0667", "'")
        ),
    ],
)
def test_only_plain_numbers_and_booleans_are_not_text(text: str, value: Value) -> None:
    found = read_value(text)
    assert (found, type(found)) == (value, type(value))
    again = read_value(show_value(found))
    assert (again, type(again)) == (value, type(value))


@pytest.mark.parametrize("text", ["1e309", "9223372036854775808", "-9223372036854775809", "1" * 5000])
def test_a_number_that_is_too_large_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="put text in single quotes"):
        read_value(text)


@pytest.mark.parametrize("value", ["7", "007", "true", "'", "'tis", "x y", "1e6"])
def test_what_is_shown_is_read_as_the_same_text(value: str) -> None:
    assert read_value(show_value(value)) == value


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", r"expected one JSON object per line, got '{' in line 3: "),
        ('{"x": null}', r"line 3: expected .* for the attribute x"),
    ],
)
def test_a_bad_line_is_named(line: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f'{{"x": 1}}\n\n{line}\n'))
    with pytest.raises(InvalidPublication, match=error):
        pub(stdin=True)
