"""The archive: publications as Parquet files, one folder per day, for as long as the disk lasts.

Theory of operation
-------------------

An archive is a folder with four things in it::

    archive.json                                  its version and filter
    spool/                                        a spool, with everything that is not in a file yet
    data/day=2026-11-18/00000000000000000000.parquet
    commits/00000000000000000000.json             the files with the rows from this offset on

A subscription is recorded into the spool, which acknowledges what is durable. Now and then its new rows are *rolled*:
written to one file per day, named after the first offset, and made durable. A *commit* then names these files; it is
written atomically. After it, the spool may remove the rows.

So every row is in the spool or in the files of a commit, and none is lost between them. A crash before a commit leaves
files that no commit names; they are removed when the archive is opened for writing, and the same rows are rolled again
from the spool. Readers look at commits, then at the spool after the last one, so they find all durable rows, each once.

The day of a publication is that of its time in UTC; the day of a gap or a loss is the one on which it was noted. Late
publications go to the folder of their own day.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from octopia.errors import DamagedData, InvalidData, UsageError
from octopia.records.consumers import Consumers
from octopia.records.contents import describe
from octopia.records.files import lock_folder, make_folder, sync_folder, write_whole
from octopia.records.rows import NUMBERED, with_offsets
from octopia.records.spool import SpoolReader

_VERSION = 1
DESCRIPTION = "archive.json"
CONSUMER = "archive"
"""The name under which an archive reads its spool."""
_SPOOL = "spool"
_DATA = "data"
_COMMITS = "commits"
_DAY_MS = 86_400_000.0
_LAST_DAY = 2_932_896
"""The last day that ``datetime.date`` can represent, in days since 1970."""
_ROWS_AT_ONCE = 1_000_000
_BYTES_AT_ONCE = 128 * 1024 * 1024
"""The size of the rows at which a commit ends: they are in memory together."""
_ROWS_PER_GROUP = 50_000
"""The number of rows of a file that readers have in memory together."""


class Description(msgspec.Struct, frozen=True):
    """The description of an archive, stored in its folder."""

    version: int
    interest: str


class DataFile(msgspec.Struct, frozen=True):
    """A file of rows: its path in the archive, its size, and the times of its first and last row.

    ``contents`` is a filter that describes its publications (``contents``), empty if there is none. ``notices`` is
    the number of gaps and losses in it.
    """

    path: str
    rows: int
    bytes: int
    first_ms: float
    last_ms: float
    contents: str = ""
    notices: int = 0


class Commit(msgspec.Struct, frozen=True):
    """The files with all rows from one offset to before another."""

    first: int
    end: int
    files: tuple[DataFile, ...]


def spool_of(folder: Path) -> Path:
    """Return the spool folder of an archive."""
    return folder / _SPOOL


@dataclasses.dataclass(frozen=True, slots=True)
class Rolled:
    """The result of a roll: rows, files and the offset after the last row."""

    rows: int
    files: int
    end: int


class Archive:
    """The writer of an archive."""

    def __init__(self, folder: Path, interest: str):
        self._folder = folder
        self._lock = lock_folder(folder, "an archive")
        try:
            self._check_description(interest)
            for name in (_DATA, _COMMITS):
                make_folder(folder / name)
            commits = read_commits(folder)
            self.end = commits[-1].end if commits else 0
            """The offset of the first row that is in no file yet."""
            self._check_commits()
            self.removed = self._remove_orphans(commits)
            """The number of files that a crash had left without a commit."""
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.close()

    def roll(self) -> Rolled:
        """Move the durable rows of the spool into files."""
        reader = SpoolReader(spool_of(self._folder))
        if reader.end_offset < self.end:
            raise DamagedData(
                f"expected a spool with at least {self.end:,} rows in {spool_of(self._folder)}, got "
                f"{reader.end_offset:,}: restore it, or begin another archive"
            )
        rows = files = 0
        while self.end < (end := min(reader.end_offset, self.end + _ROWS_AT_ONCE)):
            table = pa.Table.from_batches(_numbered(reader, self.end, end), schema=NUMBERED)
            if not table.num_rows:
                raise DamagedData(
                    f"expected the rows {self.end:,} to {end - 1:,} in {spool_of(self._folder)}, got none from "
                    f"{self.end:,} on: its segments were removed"
                )
            written = [self._write(day, part) for day, part in _by_day(table)]
            self._commit(Commit(self.end, self.end + table.num_rows, tuple(written)))
            rows, files = rows + table.num_rows, files + len(written)
            # Only now may the spool remove them. If a crash prevents this, the next roll does it.
            reader.consumers.commit(CONSUMER, self.end)
        return Rolled(rows, files, self.end)

    def _check_description(self, interest: str) -> None:
        path = self._folder / DESCRIPTION
        if not path.exists():
            write_whole(path, msgspec.json.encode(Description(_VERSION, interest)))
            return
        known = description_of(self._folder)
        if known.interest != interest:
            raise UsageError(
                f"expected the filter of the archive in {self._folder}, which is {known.interest}, got {interest}: "
                "choose another folder"
            )

    def _check_commits(self) -> None:
        """Raise DamagedData if commits are missing: their files would count as unfinished, and be removed."""
        rolled = Consumers(spool_of(self._folder)).committed(CONSUMER) or 0
        if rolled > self.end:
            raise DamagedData(
                f"expected commits of the {rolled:,} rows that were removed from {spool_of(self._folder)}, got commits "
                f"of {self.end:,} rows in {self._folder / _COMMITS}: restore that folder, or begin another archive"
            )

    def _remove_orphans(self, commits: Sequence[Commit]) -> int:
        named = {each.path for commit in commits for each in commit.files}
        found = [each for each in (self._folder / _DATA).glob("*/*") if each.is_file()]
        orphans = [each for each in found if each.relative_to(self._folder).as_posix() not in named]
        for each in orphans:
            each.unlink()
        return len(orphans)

    def _write(self, day: datetime.date, rows: pa.Table) -> DataFile:
        folder = self._folder / _DATA / f"day={day.isoformat()}"
        make_folder(folder)
        path = folder / f"{self.end:020d}.parquet"
        with path.open("wb") as file:
            pq.write_table(rows, file, compression="zstd", row_group_size=_ROWS_PER_GROUP)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        times = pc.min_max(_times_of(rows)).as_py()
        name = path.relative_to(self._folder).as_posix()
        encoded = rows.column("attributes")
        contents = describe(encoded.to_pylist())
        return DataFile(
            name, rows.num_rows, path.stat().st_size, times["min"], times["max"], contents, encoded.null_count
        )

    def _commit(self, commit: Commit) -> None:
        write_whole(_commit_path(self._folder, commit.first), msgspec.json.encode(commit))
        self.end = commit.end


def _numbered(reader: SpoolReader, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield rows up to the first one that is missing, or until they are large enough for a commit."""
    expected, size = start, 0
    for offset, batch in reader.read(start, end):
        if offset != expected or size >= _BYTES_AT_ONCE:
            return
        yield with_offsets(offset, batch)
        expected += batch.num_rows
        size += batch.nbytes


def _times_of(rows: pa.Table) -> pa.ChunkedArray:
    """Return the times of rows: of publication, or of reception for a notice."""
    return pc.coalesce(rows.column("published_ms"), rows.column("received_ms"))


def _by_day(rows: pa.Table) -> Iterator[tuple[datetime.date, pa.Table]]:
    """Yield rows by day, in order; a time that no date can represent counts as the time of reception."""
    days = [_day(at_ms) for at_ms in _times_of(rows).to_pylist()]
    if None in days:
        received = rows.column("received_ms").to_pylist()
        days = [_day(at_ms) or 0 if day is None else day for day, at_ms in zip(days, received, strict=True)]
    column = pa.array(days, pa.int64())
    for day in pc.unique(column).sort().to_pylist():
        yield datetime.date(1970, 1, 1) + datetime.timedelta(day), rows.filter(pc.equal(column, day))


def _day(at_ms: float) -> int | None:
    """Return a time as days since 1970, or None if it is earlier, or later than any date."""
    return int(at_ms // _DAY_MS) if 0.0 <= at_ms < (_LAST_DAY + 1) * _DAY_MS else None


def read_commits(folder: Path) -> list[Commit]:
    """Return the commits of an archive, in order."""
    commits: list[Commit] = []
    for path in sorted((folder / _COMMITS).glob("*.json")):
        try:
            commit = msgspec.json.decode(path.read_bytes(), type=Commit)
        except msgspec.DecodeError:
            raise DamagedData(f"expected a commit of an archive in {path}, got something else: restore it") from None
        expected = commits[-1].end if commits else 0
        if commit.first != expected or _commit_path(folder, expected) != path:
            raise DamagedData(f"expected the rows from {expected:,} on in {path}, got {commit.first:,}: restore it")
        commits.append(commit)
    return commits


def _commit_path(folder: Path, first: int) -> Path:
    return folder / _COMMITS / f"{first:020d}.json"


def description_of(folder: Path) -> Description:
    """Return the description of the archive in a folder."""
    try:
        known = msgspec.json.decode((folder / DESCRIPTION).read_bytes(), type=Description)
    except OSError:
        raise InvalidData(f"expected an archive, got {folder}, which has no {DESCRIPTION}") from None
    except msgspec.DecodeError:
        raise InvalidData(f"expected an archive, got {folder}, whose {DESCRIPTION} cannot be read") from None
    if known.version != _VERSION:
        raise InvalidData(f"expected an archive of version {_VERSION}, got {folder} of version {known.version}")
    return known
