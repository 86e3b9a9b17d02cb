"""The spool: an ordered log, on disk, of everything that one subscription received.

Theory of operation
-------------------

Rows have offsets, from 0 on and without holes. ``append`` writes a block at the end of the last segment. ``sync`` makes
all writes durable and then moves the *end*, a small file that readers look at. Readers see a row only when it is
durable, so a crash never takes back a row that was read. Each block has the resume point after it, so the log and the
acknowledgements to the broker cannot disagree: a spool that is opened again continues after its last complete block.

A spool ends at the first error of its disk. After a failed ``fsync`` the system may have dropped what was written, and
a second one would succeed for nothing. So rows that are not durable are cut off: the broker still has them.

One process writes, which a lock ensures. Any number of processes read.

*Consumers* have names, and commit offsets. A segment is removed when all consumers have committed its rows, or when the
limit on the age or the size of retained rows is exceeded; a consumer that is too slow then loses rows. With a limit on
the age, a segment also ends when its first row is old enough, so that few rows do not stay in it for long.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec
import pyarrow as pa

from octopia.errors import DamagedData, InvalidData, UsageError
from octopia.records.consumers import Consumers
from octopia.records.files import lock_folder, sync_folder, write_whole
from octopia.records.rows import to_batch
from octopia.records.segments import (
    blocks_of,
    encode_block,
    first_offset_of,
    segment_path,
    segments_in,
    whole_part,
)

_VERSION = 1
_DESCRIPTION = "spool.json"
_END = "end"
_END_FORMAT = struct.Struct("<QQQ")
_SEGMENTS_PER_RETENTION = 10
"""The number of segments into which the retained time is divided: rows are removed that much later at most."""
SEGMENT_BYTES = 64 * 1024 * 1024
"""The size at which a segment is followed by the next one."""


class Description(msgspec.Struct, frozen=True):
    """The description of a spool, stored in its folder."""

    version: int
    interest: str


@dataclasses.dataclass(frozen=True, slots=True)
class Retention:
    """The limits on rows that are retained for slow consumers, or for ones that do not exist yet; 0 is no limit."""

    hours: float = 0.0
    bytes: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """The end of the durable rows: the next offset, and its position in the segment with this first offset."""

    offset: int
    segment: int
    at: int


class Spool:
    """The writer of a spool."""

    def __init__(self, folder: Path, interest: str, retention: Retention, segment_bytes: int):
        self._folder = folder
        self._retention = retention
        self._segment_bytes = segment_bytes
        self._lock = lock_folder(folder, "a spool")
        try:
            self._check_description(interest)
            self.consumers = Consumers(folder)
            self.resume_point = ""
            self.cut_bytes = 0
            """The size of the torn tail that was cut off when the spool was opened."""
            self._failure: OSError | None = None
            self._segment, self._at, self._offset = self._recover()
            self._first_ms = _first_received_ms(self._segment)
            self._durable_at = self._at
            self._file: BinaryIO = self._segment.open("r+b")
            self._file.seek(self._at)
            self._publish_end()
            self.tidy()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def end_offset(self) -> int:
        """The offset of the next row."""
        return self._offset

    def append(self, batch: pa.RecordBatch, resume_point: str) -> None:
        """Write rows; they are durable after the next ``sync``."""
        if self._at >= self._segment_bytes and self._has_rows:
            self._begin_segment()
        block = encode_block(self._offset, resume_point, batch)
        with self._ending_if_it_fails():
            self._file.write(block)
        self._at += len(block)
        if batch.num_rows and not self._has_rows:
            self._first_ms = batch.column("received_ms")[0].as_py()
        self._offset += batch.num_rows
        self.resume_point = resume_point

    def sync(self) -> None:
        """Make all rows durable, then let readers see them."""
        with self._ending_if_it_fails():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._durable_at = self._at
            self._publish_end()

    def tidy(self, now_s: float | None = None) -> int:
        """End a segment that is old, remove the segments that no consumer needs, and return the number of rows removed.

        Call it now and then: without it, segments are removed only when a segment is full.
        """
        now_s = time.time() if now_s is None else now_s
        span_s = self._retention.hours * 3600.0 / _SEGMENTS_PER_RETENTION
        if span_s and self._has_rows and now_s - self._first_ms / 1000.0 > span_s:
            self._begin_segment()
            # The new segment needs a resume point, so that the old one can be removed even if no row follows.
            self.append(to_batch([], 0.0), self.resume_point)
            self.sync()
        return self.trim(now_s)

    def trim(self, now_s: float | None = None) -> int:
        """Remove the segments that no consumer needs, and return the number of rows removed."""
        segments = segments_in(self._folder)
        first = first_offset_of(segments[0])
        keep = self._first_needed(segments, time.time() if now_s is None else now_s)
        for segment in segments[:keep]:
            segment.unlink()
        if keep:
            sync_folder(self._folder)
        return first_offset_of(segments[keep]) - first

    @property
    def _has_rows(self) -> bool:
        """True if the last segment has rows; the next segment could not have another name before."""
        return self._offset > first_offset_of(self._segment)

    def close(self) -> None:
        """Make all rows durable, unless the spool has failed, and let another process write."""
        if self._lock.closed:
            return
        try:
            if self._failure is None:
                self.sync()
        finally:
            with contextlib.suppress(OSError):
                self._file.close()
            if self._failure is not None:
                with contextlib.suppress(OSError):
                    os.truncate(self._segment, self._durable_at)
            self._lock.close()

    @contextlib.contextmanager
    def _ending_if_it_fails(self) -> Iterator[None]:
        """Raise the first error of the disk, and raise it again for all later writes."""
        if self._failure is not None:
            raise self._failure
        try:
            yield
        except OSError as error:
            self._failure = error
            raise

    def _check_description(self, interest: str) -> None:
        path = self._folder / _DESCRIPTION
        if not path.exists():
            write_whole(path, msgspec.json.encode(Description(_VERSION, interest)))
            return
        known = description_of(self._folder)
        if known.interest != interest:
            raise UsageError(
                f"expected the filter of the spool in {self._folder}, which is {known.interest}, got {interest}: "
                "choose another folder"
            )

    def _recover(self) -> tuple[Path, int, int]:
        """Cut off a torn tail, and return the last segment, its length and the next offset."""
        segments = segments_in(self._folder)
        if not segments:
            return self._new_segment(0), 0, 0
        last = segments[-1]
        at, block = whole_part(last)
        offset = first_offset_of(last) if block is None else block.end_offset
        durable = self._known_end()
        if durable is not None and durable.offset > offset:
            raise DamagedData(
                f"expected the {durable.offset:,} rows that {self._folder} has acknowledged, got {offset:,}: "
                f"{last.name} was changed or its disk is failing; restore it"
            )
        self.cut_bytes = last.stat().st_size - at
        with last.open("r+b") as file:
            if self.cut_bytes:  # Otherwise the time of the last write would change, and with it the age of the rows.
                file.truncate(at)
            os.fsync(file.fileno())  # The process that wrote the last rows may have died before it could do so.
        if block is None and len(segments) > 1:
            # The segment has no rows yet; the resume point is at the end of the one before.
            *_, block = blocks_of(segments[-2])
        self.resume_point = "" if block is None else block.resume_point
        return last, at, offset

    def _known_end(self) -> End | None:
        """Return the end that was noted, or None if the machine lost it in a crash: it is not synced to disk."""
        try:
            return _read_end(self._folder)
        except DamagedData:
            return None

    def _begin_segment(self) -> None:
        self.sync()
        with self._ending_if_it_fails():
            self._file.close()
            self._segment, self._at, self._durable_at = self._new_segment(self._offset), 0, 0
            self._file = self._segment.open("r+b")
            self.trim()

    def _new_segment(self, first_offset: int) -> Path:
        path = segment_path(self._folder, first_offset)
        path.touch()
        sync_folder(self._folder)
        return path

    def _first_needed(self, segments: list[Path], now_s: float) -> int:
        """Return the index of the first segment to keep; the last one with a resume point is always kept."""
        committed = self.consumers.least_committed()
        needed = len(segments) - (1 if self._at else 2)
        size = sum(each.stat().st_size for each in segments)
        for index, segment in enumerate(segments[: max(0, needed)]):
            end, stat = first_offset_of(segments[index + 1]), segment.stat()
            is_used = committed is not None and end <= committed
            is_old = bool(self._retention.hours) and now_s - stat.st_mtime > self._retention.hours * 3600.0
            is_too_much = bool(self._retention.bytes) and size > self._retention.bytes
            if not (is_used or is_old or is_too_much):
                return index
            size -= stat.st_size
        return max(0, needed)

    def _publish_end(self) -> None:
        """Let readers see everything up to here; it is durable."""
        packed = _END_FORMAT.pack(self._offset, first_offset_of(self._segment), self._at)
        path = self._folder / _END
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, packed + zlib.crc32(packed).to_bytes(4, "little"), 0)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def open_spool(
    folder: Path, interest: str, retention: Retention | None = None, segment_bytes: int = SEGMENT_BYTES
) -> Iterator[Spool]:
    """Open a spool for writing, and close it at the end."""
    with Spool(folder, interest, retention or Retention(), segment_bytes) as spool:
        yield spool


class SpoolReader:
    """A reader of a spool, which another process may be writing."""

    def __init__(self, folder: Path):
        self._folder = folder
        self.interest = description_of(folder).interest
        self.consumers = Consumers(folder)

    @property
    def first_offset(self) -> int:
        """The offset of the first row that is retained."""
        segments = segments_in(self._folder)
        return first_offset_of(segments[0]) if segments else self.end_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last durable row."""
        end = _read_end(self._folder)
        return 0 if end is None else end.offset

    def read(self, start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows with offsets from ``start`` to before ``end``, in batches, each with its first offset.

        Rows that are no longer retained are missing at the beginning, and rows that are not durable yet at the end.
        """
        durable = _read_end(self._folder)
        if durable is None:
            return
        end = min(end, durable.offset)
        segments = segments_in(self._folder)
        for index, segment in enumerate(segments):
            if first_offset_of(segment) >= end:
                return
            if index + 1 < len(segments) and first_offset_of(segments[index + 1]) <= start:
                continue
            limit = durable.at if first_offset_of(segment) == durable.segment else None
            try:
                yield from _rows_of(segment, limit, start, end)
            except FileNotFoundError:
                continue  # It was removed in between, so its rows are missing at the beginning.


def _first_received_ms(segment: Path) -> float:
    """Return the time of the first row of a segment, or 0 if it has none."""
    blocks = blocks_of(segment)
    return next((each.batch().column("received_ms")[0].as_py() for each in blocks if each.rows), 0.0)


def _rows_of(segment: Path, limit: int | None, start: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    for block in blocks_of(segment, limit, start):
        if block.first_offset >= end:
            return
        if block.end_offset > start:
            skip = max(0, start - block.first_offset)
            take = min(end, block.end_offset) - block.first_offset - skip
            yield block.first_offset + skip, block.batch().slice(skip, take)


def description_of(folder: Path) -> Description:
    """Return the description of the spool in a folder."""
    try:
        text = (folder / _DESCRIPTION).read_bytes()
    except OSError:
        raise InvalidData(f"expected a spool, got {folder}, which has no {_DESCRIPTION}") from None
    try:
        known = msgspec.json.decode(text, type=Description)
    except msgspec.DecodeError:
        raise InvalidData(f"expected a spool, got {folder}, whose {_DESCRIPTION} cannot be read") from None
    if known.version != _VERSION:
        raise InvalidData(f"expected a spool of version {_VERSION}, got {folder} of version {known.version}")
    return known


def _read_end(folder: Path) -> End | None:
    """Return the end of the durable rows, or None if there are none."""
    for _ in range(100):
        try:
            packed = (folder / _END).read_bytes()
        except FileNotFoundError:
            return None
        numbers, checksum = packed[: _END_FORMAT.size], packed[_END_FORMAT.size :]
        if zlib.crc32(numbers).to_bytes(4, "little") == checksum:
            return End(*_END_FORMAT.unpack(numbers))
        # It was read while the writer moved it.
    raise DamagedData(f"expected the end of a spool in {folder / _END}, got something else: start its writer again")
