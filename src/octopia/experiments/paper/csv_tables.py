"""The CSV files of the evaluation's tables."""

from __future__ import annotations

from pathlib import Path

from octopia.experiments.csv_rows import read_csv, write_csv
from octopia.experiments.paper.rows import TABLES, Tables, tables_of


def write_tables(tables: Tables, folder: Path) -> None:
    """Write one CSV file per table; the file of an empty table has a header only."""
    for row_type, name in TABLES.items():
        write_csv(folder / f"{name}.csv", row_type, tables.of(row_type))


def has_tables(folder: Path) -> bool:
    """Return whether a folder has the CSV file of any table."""
    return any((folder / f"{name}.csv").exists() for name in TABLES.values())


def read_tables(folder: Path) -> Tables:
    """Read the CSV files of a folder; a table without a file is empty."""
    paths = {row_type: folder / f"{name}.csv" for row_type, name in TABLES.items()}
    return tables_of(row for row_type, path in paths.items() if path.exists() for row in read_csv(path, row_type))
