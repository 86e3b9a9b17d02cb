"""Texts of clients on a terminal: control characters are shown as escapes."""

from __future__ import annotations

import io
import json

import pytest
from rich.table import Table

from octopia.cli import _fail
from octopia.cli.output import console, count_of, echo, one_line, print_json, printable
from octopia.cli.screen import Screen

EVIL = "\x1b]0;owned\x07 \x9b31m\r\u202e"
SHOWN = r"\x1b]0;owned\x07 \x9b31m\x0d\u202e"


def test_control_characters_are_shown_as_escapes() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("\ud800") == r"\ud800"
    ordinary = "Grüße, 価格\t→ 👩‍🔬\nnext [bold]"
    assert printable(ordinary) == ordinary
    assert one_line("a\nb\tc") == "a\\nb\tc"


def test_tables_lines_and_errors_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    screen = console()
    screen.print(table)
    screen.print(EVIL)
    echo(EVIL)
    echo(EVIL, err=True)
    with pytest.raises(SystemExit):
        _fail(f"expected a filter, got\n{EVIL}", 1)
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert shown.out.count(SHOWN) == 5
    assert shown.err == f"{SHOWN}\noctopia: expected a filter, got\n{SHOWN}\n"


def test_styles_of_a_terminal_stay() -> None:
    written = io.StringIO()
    screen = Screen(file=written, force_terminal=True, width=80, markup=False)
    screen.print(EVIL, style="bold")
    assert written.getvalue().startswith("\x1b[1m")
    assert "\x1b]0" not in written.getvalue()


def test_json_is_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({EVIL: [EVIL, "Grüße"]})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {EVIL: [EVIL, "Grüße"]}
    assert not {"\x1b", "\x07", "\x9b"}.intersection(shown)
    assert "Grüße" in shown


def test_a_number_has_its_noun() -> None:
    assert [count_of(number, "round trips") for number in (0, 1, 1_200)] == [
        "0 round trips",
        "1 round trip",
        "1,200 round trips",
    ]
