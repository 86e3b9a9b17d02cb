"""Tables of figures, the same for every benchmark: rows are dictionaries, and ``--json`` prints the same rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

Row: TypeAlias = Mapping[str, Any]
WIDTH = 132
"""The width of tables that are not printed on a terminal."""


def verdict(value: float, most: float) -> str:
    """Return whether a value meets an aim, which is a maximum."""
    return "met" if value <= most else "missed"


def print_rows(title: str, rows: Sequence[Row], note: str = "") -> None:
    """Print rows as a table, with the keys of all rows as columns, after a note that says what they count."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(title=Text(title, style="bold"), title_justify="left")
    for key in columns:
        is_text = all(isinstance(row.get(key, ""), str) for row in rows)
        table.add_column(key.replace("_", " "), justify="left" if is_text else "right")
    for row in rows:
        table.add_row(*(shown(row.get(key, "")) for key in columns))
    screen = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    if note:
        screen.print(note, markup=False)
    screen.print(table)


def shown(value: Any) -> str:
    """Return a value with about three digits."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def print_json(value: Any) -> None:
    """Print a value as one line of JSON, with floats of four digits."""
    print(json.dumps(rounded(value)), flush=True)


def rounded(value: Any) -> Any:
    """Return a value whose floats have four digits."""
    match value:
        case float():
            return float(f"{value:.4g}")
        case dict():
            return {key: rounded(each) for key, each in value.items()}
        case list() | tuple():
            return [rounded(each) for each in value]
    return value
