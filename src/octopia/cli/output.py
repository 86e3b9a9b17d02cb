"""Output on a terminal."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return the console of standard output; piped output is not cut at a guessed width."""
    from rich.console import Console

    # Names come from files: brackets and colons in them are not markup.
    screen = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    return (
        screen if screen.is_terminal else Console(highlight=False, markup=False, emoji=False, stderr=stderr, width=120)
    )


def notify(screen: Console, text: str) -> None:
    """Print a notice; the process continues even if it cannot be written, such as on a full disk."""
    with contextlib.suppress(OSError):
        screen.print(text, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, always the same bytes for the same value."""
    print(json.dumps(value, indent=2, ensure_ascii=False))  # noqa: T201 - the output of the command


def count_of(number: int, plural: str) -> str:
    """Return a number with its noun: "1 broker", "2 brokers"."""
    return f"{number:,} {plural.removesuffix('s') if number == 1 else plural}"
