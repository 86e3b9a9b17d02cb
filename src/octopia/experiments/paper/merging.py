"""Tables of another evaluation, merged with those of this one, so that a study can be divided among machines.

Runs in virtual time have the same results on every machine, so rows of one run must be equal wherever it was run. What
the clock of another machine measured is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from octopia.errors import UsageError
from octopia.experiments.audits import AuditRow
from octopia.experiments.csv_rows import PLACES
from octopia.experiments.paper.csv_tables import has_tables, read_tables
from octopia.experiments.paper.manifest import MANIFEST_FILE, Manifest, read_manifest
from octopia.experiments.paper.names import Scale
from octopia.experiments.paper.rows import BoundRow, CostRow, Row, SeededRow, Tables, group_of, tables_of
from octopia.experiments.sockets.rows import SocketRow

TABLES_FOLDER = "tables"
_BY_CLOCK = CostRow | SocketRow
_REPEATABLE = SeededRow | BoundRow | AuditRow
_TIMED = ("seconds",)
"""The fields of repeatable rows that are measured by the clock."""


@dataclasses.dataclass(frozen=True, slots=True)
class Others:
    """The results of another evaluation: its tables, and its manifest, which says where they come from."""

    tables: Tables
    manifest: Manifest

    @property
    def text(self) -> str:
        """The data and the commits of the runs, for the report."""
        commits = sorted({each for note in self.manifest.studies.values() for each in note.runs_of})
        return f"{self.manifest.data}; runs of commits {', '.join(each[:7] for each in commits) or 'unknown'}"


def read_others(folder: Path, scale: Scale) -> Others:
    """Read another evaluation of the same scale, given its folder or the one of its tables."""
    if not folder.is_dir():
        raise UsageError(f"expected the folder of another evaluation, got {folder}, which does not exist")
    tables = next((each for each in (folder / TABLES_FOLDER, folder) if has_tables(each)), None)
    manifest = read_manifest(folder / MANIFEST_FILE) or read_manifest(folder.parent / MANIFEST_FILE)
    if tables is None or manifest is None:
        missing = "table" if tables is None else MANIFEST_FILE
        raise UsageError(f"expected the folder of an evaluation or of its tables, got {folder}, which has no {missing}")
    if manifest.scale is not scale:
        raise UsageError(f"expected an evaluation of the scale {scale} in {folder}, got one of {manifest.scale}")
    return Others(tables_of(row for row in read_tables(tables) if not isinstance(row, _BY_CLOCK)), manifest)


def merged(own: Tables, others: Tables) -> Tables:
    """Return the tables of both evaluations; raise UsageError if they have different results for one run."""
    ours, theirs = _repeatable(own), _repeatable(others)
    for group, rows in ours.items():
        if group in theirs and theirs[group] != rows:
            row_type, run = group
            raise UsageError(
                f"expected the same {row_type.__name__} of {run} in both folders, got different ones: one of them is "
                "of other code or other data"
            )
    return others.updated(own)


def _repeatable(tables: Tables) -> dict[tuple[type[object], object], list[Sequence[object]]]:
    """Return what must be the same everywhere, by type and group of row."""
    found: dict[tuple[type[object], object], list[Sequence[object]]] = {}
    for row in tables:
        if isinstance(row, _REPEATABLE):
            found.setdefault((type(row), group_of(row)), []).append([*_values(row)])
    return found


def _values(row: Row) -> Iterable[object]:
    """Yield the values of a row, as exact as a CSV file has them."""
    for field in dataclasses.fields(row):
        value = getattr(row, field.name)
        if field.name not in _TIMED:
            yield round(value, PLACES) if isinstance(value, float) else value
