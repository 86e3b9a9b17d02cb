"""Segments of a spool: files of blocks, each of which is complete or absent.

Theory of operation
-------------------

A segment is named after the offset of its first row. It is a sequence of blocks and nothing else; a block is one
write:

================  =======  ==========================================================================================
offset            width    block, all numbers little endian
================  =======  ==========================================================================================
0                 4        magic word, ``OSPL``
4                 u32      CRC-32 of the rest of the block
8                 u64      offset of the first row
16                u32      number of rows
20                u32      length of the resume point
24                u64      length of the rows
32                bytes    resume point: the text from which the session with the broker continues after this block
..                bytes    rows: an Arrow IPC record batch with the schema ``rows.SCHEMA``
================  =======  ==========================================================================================

A process or a machine that dies while it writes leaves a *torn tail*: a last block that is short, or whose checksum is
wrong. It was never acknowledged, so it is cut off when the spool is opened again, and readers never look beyond the
end that the writer has made durable. An invalid block anywhere else is damage from outside, and an error.
"""

from __future__ import annotations

import dataclasses
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from octopia.errors import DamagedData
from octopia.records.rows import SCHEMA

MAGIC = b"OSPL"
_HEADER = struct.Struct("<4sIQIIQ")
_CHECKED_FROM = 8
SUFFIX = ".segment"
ROWS_BYTES_MAX = 1 << 31


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """A block of a segment: its place in the file, its rows by offset, and the resume point after it."""

    path: Path
    at: int
    end: int
    first_offset: int
    rows: int
    resume_point: str
    encoded: bytes

    @property
    def end_offset(self) -> int:
        """The offset after the last row."""
        return self.first_offset + self.rows

    def batch(self) -> pa.RecordBatch:
        """Return the rows."""
        return pa.ipc.read_record_batch(pa.py_buffer(self.encoded), SCHEMA)


def encode_block(first_offset: int, resume_point: str, batch: pa.RecordBatch) -> bytes:
    """Return a block as bytes."""
    point, encoded = resume_point.encode(), batch.serialize().to_pybytes()
    start = _HEADER.pack(MAGIC, 0, first_offset, batch.num_rows, len(point), len(encoded))
    rest = start[_CHECKED_FROM:] + point + encoded
    return b"".join((MAGIC, zlib.crc32(rest).to_bytes(4, "little"), rest))


def read_block(file: BinaryIO, path: Path, at: int, expected_offset: int) -> Block | None:
    """Read the block at a position; return None if there is no whole one with the expected offset."""
    file.seek(at)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, checksum, first_offset, rows, point_bytes, rows_bytes = _HEADER.unpack(header)
    if magic != MAGIC or first_offset != expected_offset or rows_bytes > ROWS_BYTES_MAX:
        return None
    size = point_bytes + rows_bytes
    if at + _HEADER.size + size > os.fstat(file.fileno()).st_size:
        return None
    rest = file.read(size)
    if len(rest) < size or zlib.crc32(rest, zlib.crc32(header[_CHECKED_FROM:])) != checksum:
        return None
    point = rest[:point_bytes].decode()
    return Block(path, at, at + _HEADER.size + size, first_offset, rows, point, rest[point_bytes:])


def blocks_of(path: Path, end: int | None = None, start: int = 0) -> Iterator[Block]:
    """Yield the blocks of a segment up to a position in the file; all of them must be whole.

    Blocks whose rows all come before the offset ``start`` are skipped without being read.
    """
    offset, at = first_offset_of(path), 0
    with path.open("rb") as file:
        if end is None:
            end = os.fstat(file.fileno()).st_size
        while at < end:
            if offset < start and (after := _skip(file, at, offset, start)) is not None:
                offset, at = after
                continue
            block = read_block(file, path, at, offset)
            if block is None:
                raise DamagedData(
                    f"expected a complete block at byte {at:,} of {path}, got something else: the file was changed or "
                    "its disk is failing; restore it, or move it away and lose its rows"
                )
            yield block
            offset, at = block.end_offset, block.end


def _skip(file: BinaryIO, at: int, offset: int, start: int) -> tuple[int, int] | None:
    """Return the offset and the position after a block whose rows all come before ``start``, or None."""
    file.seek(at)
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, _, first_offset, rows, point_bytes, rows_bytes = _HEADER.unpack(header)
    if magic != MAGIC or first_offset != offset or offset + rows > start:
        return None
    return offset + rows, at + _HEADER.size + point_bytes + rows_bytes


def whole_part(path: Path) -> tuple[int, Block | None]:
    """Return the length of the part of a segment that consists of whole blocks, and the last of these."""
    offset, last, at = first_offset_of(path), None, 0
    with path.open("rb") as file:
        while (block := read_block(file, path, at, offset)) is not None:
            offset, at, last = block.end_offset, block.end, block
    return at, last


def segment_path(folder: Path, first_offset: int) -> Path:
    """Return the path of the segment that begins with an offset."""
    return folder / f"{first_offset:020d}{SUFFIX}"


def first_offset_of(path: Path) -> int:
    """Return the offset of the first row of a segment."""
    return int(path.name.removesuffix(SUFFIX))


def segments_in(folder: Path) -> list[Path]:
    """Return the segments of a spool, in order."""
    return sorted(each for each in folder.glob(f"*{SUFFIX}") if each.name.removesuffix(SUFFIX).isdigit())
