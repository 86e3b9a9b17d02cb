"""The CSV files of the evaluation's tables; what is read back has the types of the rows that were written."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from octopia.errors import InvalidData
from octopia.experiments.paper.rows import TABLES, R, Tables, tables_of

_PLACES = 6


def write_tables(tables: Tables, folder: Path) -> None:
    """Write one CSV file per table; the file of an empty table has a header only."""
    folder.mkdir(parents=True, exist_ok=True)
    for row_type, name in TABLES.items():
        write_csv(folder / f"{name}.csv", row_type, tables.of(row_type))


def read_tables(folder: Path) -> Tables:
    """Read the CSV files of a folder; a table without a file is empty."""
    paths = {row_type: folder / f"{name}.csv" for row_type, name in TABLES.items()}
    return tables_of(row for row_type, path in paths.items() if path.exists() for row in read_csv(path, row_type))


def write_csv(path: Path, row_type: type[R], rows: Iterable[R]) -> None:
    """Write rows in their order; floats are rounded to six places, and none is an empty cell."""
    columns = _columns(row_type)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_text_of(getattr(row, column)) for column in columns] for row in rows)


def read_csv(path: Path, row_type: type[R]) -> tuple[R, ...]:
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


def _row_of(row_type: type[R], columns: Sequence[str], line: Sequence[str], place: str) -> R:
    try:
        cells = dict(zip(columns, (cell or None for cell in line), strict=True))
        return msgspec.convert(cells, row_type, strict=False)
    except ValueError as error:
        raise InvalidData(f"expected a row of {row_type.__name__} at {place}, got: {error}") from None


def _columns(row_type: type[R]) -> list[str]:
    return [field.name for field in dataclasses.fields(row_type)]


def _text_of(value: object) -> str:
    if value is None:
        return ""
    return repr(round(value, _PLACES)) if isinstance(value, float) else str(value)
