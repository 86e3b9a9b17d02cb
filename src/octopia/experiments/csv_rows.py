"""CSV files of rows, which are dataclasses; what is read back has the types of the rows that were written."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from octopia.errors import InvalidData
from octopia.records.files import write_whole

PLACES = 6
"""The places to which floats are rounded."""
_R = TypeVar("_R")


def write_csv(path: Path, row_type: type[_R], rows: Iterable[_R]) -> None:
    """Write rows in their order; floats are rounded to six places, and none is an empty cell."""
    columns = _columns(row_type)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text_of(getattr(row, column)) for column in columns] for row in rows)
    write_whole(path, text.getvalue().encode())


def read_csv(path: Path, row_type: type[_R]) -> tuple[_R, ...]:
    """Read the rows of a file that ``write_csv`` wrote."""
    columns = _columns(row_type)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = csv.reader(file)
    except (OSError, ValueError) as error:
        raise InvalidData(f"expected a table in {path}, got: {error}") from None
    if header != columns:
        raise InvalidData(f"expected the columns {', '.join(columns)} in {path}, got {', '.join(header)}")
    return tuple(_row_of(row_type, columns, line, f"{path}:{number}") for number, line in enumerate(lines, start=2))


def _row_of(row_type: type[_R], columns: Sequence[str], line: Sequence[str], place: str) -> _R:
    try:
        cells = dict(zip(columns, (cell or None for cell in line), strict=True))
        return msgspec.convert(cells, row_type, strict=False)
    except ValueError as error:
        raise InvalidData(f"expected a row of {row_type.__name__} at {place}, got: {error}") from None


def _columns(row_type: type[Any]) -> list[str]:
    return [field.name for field in dataclasses.fields(row_type)]


def _text_of(value: object) -> str:
    if value is None:
        return ""
    return repr(round(value, PLACES)) if isinstance(value, float) else str(value)
