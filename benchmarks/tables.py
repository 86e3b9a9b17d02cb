"""Tables of figures, the same for every benchmark: rows are dictionaries, and ``--json`` prints the same rows."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import octopia

Row: TypeAlias = Mapping[str, Any]


def verdict(value: float, most: float) -> str:
    """Return whether a value meets an aim, which is a maximum."""
    return "met" if value <= most else "missed"


def verdict_at_least(value: float, least: float) -> str:
    """Return whether a value meets an aim, which is a minimum."""
    return "met" if value >= least else "missed"


def conditions() -> dict[str, Any]:
    """Return the conditions of a run: the machine, its load, and the compiled modules of the package."""
    package = Path(octopia.__file__).parent
    typed = [path for path in package.rglob("*.pxd") if path.with_suffix(".py").exists()]
    compiled = [path for path in typed if any(path.parent.glob(f"{path.stem}.*.so"))]
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "compiled_modules": f"{len(compiled)} of {len(typed)}",
    }


def print_rows(title: str, rows: Sequence[Row]) -> None:
    """Print rows as a table, with the keys of all rows as columns, below a title that says what they count."""
    print("\n".join(["", title, *table_lines(rows)]), flush=True)


def table_lines(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table; the words of a heading stand below each other."""
    keys = columns_of(rows)
    cells = [[shown(row.get(key)) for key in keys] for row in rows]
    headings = [key.split("_") for key in keys]
    height = max(map(len, headings), default=0)
    lines = [[""] * (height - len(heading)) + heading for heading in headings]
    columns = [(*heading, *column) for heading, column in zip(lines, zip(*cells, strict=True), strict=True)]
    widths = [max(map(len, column)) for column in columns]
    is_text = [all(isinstance(row.get(key, ""), str) for row in rows) for key in keys]
    rule = "  ".join("-" * width for width in widths)
    texts = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, is_text, strict=True)
        ).rstrip()
        for line in zip(*columns, strict=True)
    ]
    return [*texts[:height], rule, *texts[height:]]


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return the keys of all rows; one that the first rows lack stands behind its neighbour in its own row."""
    columns: list[str] = []
    for row in rows:
        place = 0
        for key in row:
            if key not in columns:
                columns.insert(place, key)
            place = columns.index(key) + 1
    return columns


def shown(value: Any) -> str:
    """Return a value with about three digits; None is an empty cell."""
    match value:
        case None:
            return ""
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
    size = abs(value)
    if size < 1:
        return f"{value:.3g}"
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
