"""The forms in which ``octopia sub`` prints a publication."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from octopia.cli.subscribe import _Printer, fill_form, to_json, to_text
from octopia.errors import UsageError


def received(payload: bytes = b"", **attributes: Any) -> Any:
    return SimpleNamespace(
        id="a.0/1/0", attributes=attributes, payload=payload, published_ms=1000.0, received_ms=1002.5, hops=3
    )


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("{symbol} {price}", "IBM 101.5"),
        ("{price:.2f} {symbol:>5}", "101.50   IBM"),
        ("{missing}|{missing:.2f}", "|"),
        ("{{{symbol}}}", "{IBM}"),
        ("{@id} {@hops} {@delay_ms} {@payload} {@published_ms:.0f}", "a.0/1/0 3 2.5 text 1000"),
        ("plain", "plain"),
    ],
)
def test_a_form_is_filled(form: str, text: str) -> None:
    assert fill_form(form, received(b"text", symbol="IBM", price=101.5)) == text


def test_names_with_dots_are_whole_and_nothing_else_can_be_reached() -> None:
    publication = received(**{"a.b": 1, "x": "text"})
    assert fill_form("{a.b}", publication) == "1"
    assert fill_form("{x.__class__}{x[0]}", publication) == ""


@pytest.mark.parametrize("form", ["{", "}", "{}", "{@colour}"])
def test_a_bad_form_is_refused_at_once(form: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        _Printer(form=form)


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(UsageError, match=r"expected a value that fits \{symbol:.2f\}, got 'IBM'"):
        fill_form("{symbol:.2f}", received(symbol="IBM"))


def test_a_publication_that_does_not_fit_the_form_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    printer = _Printer(form="{price:.1f}")
    printer.show(received(price="high"))
    printer.show(received(price=1))
    shown = capsys.readouterr()
    assert shown.out == "1.0\n"
    assert shown.err.startswith("warning: a.0/1/0 is not shown: expected a value that fits {price:.1f}, got 'high'")


@pytest.mark.parametrize(
    "options",
    [{"as_json": True, "raw": True}, {"as_json": True, "form": "{x}"}, {"raw": True, "form": "{x}"}],
)
def test_there_is_one_form(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="expected one of --json, --raw and --format, got --"):
        _Printer(**options)


def test_a_binary_payload_survives_in_json() -> None:
    payload = bytes(range(256))
    shown = json.loads(to_json(received(payload)))
    assert shown["payload"] is None
    assert base64.b64decode(shown["payload_base64"]) == payload
    text = json.loads(to_json(received("größer".encode())))
    assert (text["payload"], "payload_base64" in text) == ("größer", False)


def test_a_raw_payload_is_written_unchanged(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    payload = bytes(range(256))
    printer = _Printer(raw=True)
    printer.show(received(payload))
    printer.show(received(b"more"))
    assert capfdbinary.readouterr().out == payload + b"more"


def test_text_has_attributes_and_payload() -> None:
    assert to_text(received(b"hello", symbol="IBM", n=1)) == "symbol=IBM n=1 hello"


def test_control_characters_of_a_publication_are_shown_as_escapes() -> None:
    evil = received(b"one\ntwo\x1b[2J", symbol="\x1b]0;owned\x07\nx=1")
    assert to_text(evil) == r"symbol=\x1b]0;owned\x07\nx=1 one\ntwo\x1b[2J"
    # The colour is the user's own, and so are the line breaks of a payload.
    assert fill_form("\x1b[1m{symbol:.4}|{@payload}", evil) == "\x1b[1m\\x1b]0;|one\ntwo\\x1b[2J"


def test_raw_payloads_are_unchanged(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    _Printer(raw=True).show(received(b"\x1b[2J"))
    assert capfdbinary.readouterr().out == b"\x1b[2J"
