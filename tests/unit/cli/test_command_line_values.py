"""The values that ``octopia pub`` reads from its command line and its standard input."""

from __future__ import annotations

import pytest

from octopia.cli.values import read_attribute, read_line, read_value, show_value
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
    ("text", "name", "value"),
    [
        ("zip:str=01234", "zip", "01234"),
        ("n:str=7", "n", "7"),
        ("n:str='7'", "n", "'7'"),
        ("n:int=7", "n", 7),
        ("n:int=-007", "n", -7),
        ("x:float=7", "x", 7.0),
        ("x:float=1e3", "x", 1000.0),
        ("x:float=inf", "x", float("inf")),
        ("b:bool=true", "b", True),
        ("b:bool=false", "b", False),
        ("a:b:str=x", "a:b", "x"),
        ("url=http://x?y=1", "url", "http://x?y=1"),
    ],
)
def test_a_type_can_be_forced(text: str, name: str, value: Value) -> None:
    found = read_attribute(text)
    assert (found, type(found[1])) == ((name, value), type(value))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("n:int=1.5", "expected an integer after =, got '1.5' in 'n:int=1.5'"),
        ("n:int=9223372036854775808", "expected a signed 64-bit integer"),
        ("x:float=nan", "expected a number after =, got 'nan'"),
        ("x:float=much", "expected a number after =, got 'much'"),
        ("b:bool=1", "expected true or false after =, got '1'"),
        ("zip:text=1", "expected a type of str, int, float, bool after the colon, such as zip:str=01234, got 'text'"),
        (":int=1", "expected NAME=VALUE"),
        ("=1", "expected NAME=VALUE"),
        ("x", "expected NAME=VALUE, such as price=101.5, got 'x'"),
    ],
)
def test_a_bad_attribute_is_explained(text: str, error: str) -> None:
    with pytest.raises(UsageError, match=error):
        read_attribute(text)


@pytest.mark.parametrize(
    ("line", "attributes"),
    [
        ('{"x": 1, "y": "a b"}', {"x": 1, "y": "a b"}),
        ("x=1 y=a", {"x": 1, "y": "a"}),
        ("x=1 'y=a b' zip:str=01", {"x": 1, "y": "a b", "zip": "01"}),
    ],
)
def test_a_line_is_json_or_attributes(line: str, attributes: dict[str, Value]) -> None:
    publication = read_line(1, line, b"p")
    assert (dict(publication.attributes), publication.payload) == (attributes, b"p")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", r"line 3: expected one JSON object per line, got '{': "),
        ("[1]", r"line 3: expected one JSON object per line, got '\[1\]'"),
        ('{"x": null}', r"line 3: expected .* for the attribute x"),
        ("x", r"line 3: expected NAME=VALUE"),
        ("x='a", r"line 3: expected NAME=VALUE\.\.\., got \"x='a\": No closing quotation"),
    ],
)
def test_a_bad_line_is_named(line: str, error: str) -> None:
    with pytest.raises(InvalidPublication, match=error):
        read_line(3, line, b"")
