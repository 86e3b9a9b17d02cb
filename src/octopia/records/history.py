"""History: the rows of an archive or a spool that match a question, in the order of their arrival.

Both kinds of folder are read in *slices*, ranges of offsets that can be read independently, even by different
processes. Files whose times or contents cannot be part of the answer are not read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from octopia.content import Disjunction, parse_filter
from octopia.errors import DamagedData, InvalidData
from octopia.records import archive
from octopia.records.contents import may_match
from octopia.records.rows import NUMBERED, OFFSET, Row, to_rows, with_offsets
from octopia.records.selection import Question, Selection
from octopia.records.spool import SpoolReader

SLICE_ROWS = 250_000
"""The number of rows at which a slice ends."""
_SPOOL = "spool.json"


@dataclasses.dataclass(frozen=True, slots=True)
class SpoolSlice:
    """Rows in a spool, from one offset to before another.

    If it is the spool of an archive, ``archive`` is the folder of the archive: rows that are rolled and removed from
    the spool before they are read are in its commits.
    """

    folder: str
    first: int
    end: int
    bytes: int = 0
    archive: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FileSlice:
    """Rows in the files of successive commits of an archive, one tuple per commit."""

    folder: str
    commits: tuple[tuple[str, ...], ...]
    bytes: int
    rows: int


Slice = SpoolSlice | FileSlice


class Records:
    """The rows in a folder, which is that of an archive or of a spool."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.is_archive = (folder / archive.DESCRIPTION).exists()
        if not self.is_archive and not (folder / _SPOOL).exists():
            raise InvalidData(f"expected the folder of an archive or a spool, got {folder}")
        self.interest = archive.description_of(folder).interest if self.is_archive else SpoolReader(folder).interest

    def slices(self, question: Question) -> list[Slice]:
        """Return the slices with all rows that can be part of the answer, in order."""
        if not self.is_archive:
            reader = SpoolReader(self._folder)
            return list(_spool_slices(self._folder, reader.first_offset, reader.end_offset, ""))
        # The spool first: rows that are rolled in between are also in a commit, and are taken from there.
        spool = archive.spool_of(self._folder)
        durable = SpoolReader(spool).end_offset if (spool / _SPOOL).exists() else 0
        commits = archive.read_commits(self._folder)
        rolled = commits[-1].end if commits else 0
        in_spool = _spool_slices(spool, rolled, durable, str(self._folder))
        return [*_file_slices(self._folder, commits, question), *in_spool]

    def batches(self, question: Question) -> Iterator[pa.RecordBatch]:
        """Yield the rows that a question asks for, with their offsets."""
        selection = Selection(question)
        for each in self.slices(question):
            for batch in read_slice(each):
                if (found := selection.select(batch)).num_rows:
                    yield found

    def rows(self, question: Question) -> Iterator[Row]:
        """Yield the rows that a question asks for, as Python objects."""
        for batch in self.batches(question):
            yield from to_rows(batch)


def read_slice(part: Slice) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a slice with their offsets, in order."""
    if isinstance(part, SpoolSlice):
        yield from _read_spool_slice(part)
        return
    for names in part.commits:
        yield from _read_files([Path(part.folder) / name for name in names])


def _read_spool_slice(part: SpoolSlice) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice; the archive of a spool has the rows that were removed from it since."""
    at = part.first
    while at < part.end:
        began = at
        for read in (_spooled, _committed):
            for batch in read(part, at):
                yield batch
                at += batch.num_rows
        if at == began:
            raise DamagedData(
                f"expected the rows {part.first:,} to {part.end - 1:,} of {part.folder}, got none from {at:,} on: they "
                "were removed during the read; read again"
            )


def _spooled(part: SpoolSlice, start: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice that are in the spool, up to the first one that is missing."""
    expected = start
    for offset, batch in SpoolReader(Path(part.folder)).read(start, part.end):
        if offset != expected:
            return
        expected += batch.num_rows
        yield with_offsets(offset, batch)


def _committed(part: SpoolSlice, start: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice that are in the commits of its archive."""
    if not part.archive:
        return
    folder = Path(part.archive)
    for commit in archive.read_commits(folder):
        if commit.end <= start or commit.first >= part.end:
            continue
        at = commit.first
        for batch in _read_files([folder / each.path for each in commit.files]):
            skipped, taken = max(0, start - at), min(batch.num_rows, part.end - at)
            at += batch.num_rows
            if skipped < taken:
                yield batch.slice(skipped, taken - skipped)


def _read_files(paths: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files of one commit, in order; those of several days are in memory together."""
    if len(paths) == 1:
        yield from _read_file(paths[0])
        return
    batches = [batch for path in paths for batch in _read_file(path)]
    table = pa.Table.from_batches(batches, schema=NUMBERED).sort_by(OFFSET)
    yield from table.to_batches(max_chunksize=SLICE_ROWS)


def _read_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, one row group at a time."""
    try:
        # In this thread, and not with read_table: for a path, that makes a column of the folder's name; for an open
        # file, it starts threads that can outlive the interpreter, and the process aborts at its end.
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, use_threads=False).select(NUMBERED.names).cast(NUMBERED)
                yield from rows.to_batches(max_chunksize=SLICE_ROWS)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DamagedData(f"expected rows in {path}, got: {error}: restore it") from None


def _spool_slices(folder: Path, first: int, end: int, of_archive: str) -> Iterator[SpoolSlice]:
    for start in range(first, end, SLICE_ROWS):
        yield SpoolSlice(str(folder), start, min(end, start + SLICE_ROWS), archive=of_archive)


def _file_slices(folder: Path, commits: list[archive.Commit], question: Question) -> Iterator[FileSlice]:
    """Yield slices of several commits, so that many small ones become one."""
    names: list[tuple[str, ...]] = []
    rows = size = 0
    interest = parse_filter(question.interest)
    for commit in commits:
        wanted = [each for each in commit.files if _is_wanted(each, question, interest)]
        if not wanted:
            continue
        names.append(tuple(each.path for each in wanted))
        rows += sum(each.rows for each in wanted)
        size += sum(each.bytes for each in wanted)
        if rows >= SLICE_ROWS:
            yield FileSlice(str(folder), tuple(names), size, rows)
            names, rows, size = [], 0, 0
    if names:
        yield FileSlice(str(folder), tuple(names), size, rows)


def _is_wanted(file: archive.DataFile, question: Question, interest: Disjunction) -> bool:
    """Return whether a file may have rows of the answer."""
    if not question.overlaps(file.first_ms, file.last_ms):
        return False
    return (question.has_notices and file.notices > 0) or may_match(file.contents, interest)


def count_rows(slices: list[Slice]) -> int:
    """Return the number of rows in slices."""
    return sum(each.rows if isinstance(each, FileSlice) else each.end - each.first for each in slices)
