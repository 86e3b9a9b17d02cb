"""Output on a terminal.

Texts of clients, such as names, filters and payloads, may hold characters that control a terminal. Everything that is
printed for people passes through ``echo`` or ``console``, which show these characters as escapes.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal or the direction of text, except tabs and newlines; and lone surrogates."""
_UNESCAPED_IN_JSON = re.compile(r"[\x7f-\x9f]")


def printable(text: str) -> str:
    r"""Return a text with control characters as escapes, such as ``\x1b``; tabs and newlines stay."""
    return _CONTROL.sub(_escape, text)


def one_line(text: str) -> str:
    """Return a text with newlines and control characters as escapes, so that no text looks like another line."""
    return printable(text).replace("\n", "\\n")


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def echo(line: str, *, err: bool = False) -> None:
    """Print one line for people."""
    typer.echo(one_line(line), err=err)


def console(*, stderr: bool = False) -> Console:
    """Return the console of standard output; piped output is not cut at a guessed width."""
    from octopia.cli.screen import Screen

    # Names come from files: brackets and colons in them are not markup.
    screen = Screen(highlight=False, markup=False, emoji=False, stderr=stderr)
    return (
        screen if screen.is_terminal else Screen(highlight=False, markup=False, emoji=False, stderr=stderr, width=120)
    )


def notify(screen: Console, text: str) -> None:
    """Print a notice; the process continues even if it cannot be written, such as on a full disk."""
    with contextlib.suppress(OSError):
        screen.print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, always the same bytes for the same value."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON has escapes for other control characters, but not for these.
    print(_UNESCAPED_IN_JSON.sub(_escape_in_json, text))  # noqa: T201 - the output of the command


def _escape_in_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def count_of(number: int, plural: str) -> str:
    """Return a number with its noun: "1 broker", "2 brokers"."""
    return f"{number:,} {plural.removesuffix('s') if number == 1 else plural}"
