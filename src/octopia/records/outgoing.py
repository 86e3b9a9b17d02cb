"""Outgoing rows: a folder of publications to publish, filled by jobs that may fail or be repeated.

Theory of operation
-------------------

An outbox is a folder with these things in it::

    outbox.json                       its version, and its name as a producer
    staged/STREAM-TOKEN.arrow         rows that one task has written
    batches/00000000000000000000.json the files of one batch, whose first row has this number
    publishing/published.json         the number of rows that are published
    refused.jsonl                     rows that a broker has refused, with the reason

Each attempt of a task *stages* its rows in a separate file, and makes it durable. A *commit* then numbers the files of
all tasks that succeeded, in a manifest that is written atomically. Only rows in a manifest are published; the files of
failed attempts are in none, and are removed.

A stream may repeat its last batch, if it died between the commit here and its own. So each manifest has the number of
the last batch of every stream: a batch with that number is dropped, and one with a smaller number is an error, since it
comes from a stream that has lost its state.

Rows are numbered from 0 over all batches. These numbers are the sequences of a producer, so that each row is published
once (see ``dispatching``).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from octopia.content import Publication
from octopia.errors import DamagedData, InvalidData, UsageError
from octopia.records.files import make_folder, sync_folder, wait_for_lock, write_whole
from octopia.wire.encoding import prepare

_VERSION = 1
_DESCRIPTION = "outbox.json"
_STAGED = "staged"
_BATCHES = "batches"
_SUFFIX = ".arrow"
_STREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]{0,99}\Z")
_ROWS_AT_ONCE = 10_000
_ORPHAN_S = 86_400.0
"""The age beyond which a file of no batch cannot belong to a running job."""
_MANIFESTS_READ = 100
"""The number of manifests that a commit reads at most, to tell the files of failed attempts from waiting ones."""

STAGED_SCHEMA = pa.schema(
    [pa.field("attributes", pa.binary(), nullable=False), pa.field("payload", pa.binary(), nullable=False)]
)


class Description(msgspec.Struct, frozen=True):
    """The description of an outbox, stored in its folder."""

    version: int
    producer: str


class StagedFile(msgspec.Struct, frozen=True):
    """A file of staged rows: its name, and the number of rows."""

    name: str
    rows: int


class Manifest(msgspec.Struct, frozen=True):
    """A batch: the numbers of its rows, its files in order, and the last batch of every stream."""

    first: int
    end: int
    files: tuple[StagedFile, ...]
    last_batches: dict[str, int]


class Outgoing:
    """The rows in the folder of an outbox, which is created if it does not exist."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.producer = _open(folder).producer

    def stage(self, stream: str, publications: Iterable[Publication]) -> StagedFile:
        """Write the rows of one attempt of a task, and wait until they are durable."""
        if not _STREAM.match(stream):
            raise UsageError(f"expected a stream name of letters, digits, dots and underscores, got {stream!r}")
        path = self.folder / _STAGED / f"{stream}-{secrets.token_hex(8)}{_SUFFIX}"
        try:
            rows = _write(path, publications)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
        return StagedFile(path.name, rows)

    def commit(self, stream: str, batch: int | None, files: Sequence[StagedFile]) -> bool:
        """Number the rows of a batch, and return True; return False if it repeats the last batch of its stream.

        Without a number, the batch is the only one of its stream.
        """
        with wait_for_lock(self.folder):
            last = self.last()
            known = last.last_batches.get(stream, -1)
            if batch is not None and batch < known:
                raise UsageError(
                    f"expected the batch {known} of the stream {stream} or a later one, got {batch}: the checkpoint of "
                    "the stream was set back or removed; choose another name with the option stream"
                )
            is_new = batch is None or batch > known
            rows = sum(each.rows for each in files)
            if is_new and rows:
                batches = last.last_batches if batch is None else {**last.last_batches, stream: batch}
                filled = tuple(each for each in files if each.rows)
                self._check_staged(filled)
                manifest = Manifest(last.end, last.end + rows, filled, batches)
                write_whole(self._path(manifest.first), msgspec.json.encode(manifest))
            self._remove_orphans(stream)
        return is_new

    def abandon(self, stream: str) -> None:
        """Remove the rows that a stream has staged for a failed batch."""
        with wait_for_lock(self.folder):
            self._remove_orphans(stream)

    def manifests(self, start: int = 0) -> list[Manifest]:
        """Return the batches with rows from a number on, in order; the last batch is always there."""
        paths = self._paths()
        # A batch ends where the next one begins, so names are enough to skip the first ones.
        skipped = sum(_first_of(after) <= start for after in paths[1:])
        return list(filter(None, map(_read_manifest, paths[skipped:])))

    def last(self) -> Manifest:
        """Return the last batch, or an empty one that ends with row 0."""
        for path in reversed(self._paths()):
            if (found := _read_manifest(path)) is not None:
                return found
        return Manifest(0, 0, (), {})

    def has_batch_from(self, row: int) -> bool:
        """Return whether a batch begins at a row or later, without reading any."""
        return any(_first_of(each) >= row for each in self._paths())

    def read(self, manifest: Manifest, start: int) -> Iterator[pa.RecordBatch]:
        """Yield the staged rows of a batch from a number on."""
        at = manifest.first
        for each in manifest.files:
            if at + each.rows > start:
                yield from self._read_file(each, max(0, start - at))
            at += each.rows

    def forget(self, published: int) -> None:
        """Remove batches all of whose rows are published; the last one keeps its numbers."""
        with wait_for_lock(self.folder):
            begun = [path for path in self._paths() if _first_of(path) < published]
            for each in filter(None, map(_read_manifest, begun)):
                if each.end > published:
                    break
                for file in each.files:
                    (self.folder / _STAGED / file.name).unlink(missing_ok=True)
                if self._path(each.end).exists():
                    self._path(each.first).unlink(missing_ok=True)

    def remove_orphans(self, now_s: float | None = None) -> int:
        """Remove files that are in no batch and a day old, and return their number."""
        limit_s = (time.time() if now_s is None else now_s) - _ORPHAN_S
        removed = 0
        with wait_for_lock(self.folder):
            named = {name for path in self._paths() for name in _names_in(path)}
            for path in (self.folder / _STAGED).glob(f"*{_SUFFIX}"):
                with contextlib.suppress(FileNotFoundError):  # A task that failed removes its own file.
                    if path.name not in named and path.stat().st_mtime < limit_s:
                        path.unlink()
                        removed += 1
        return removed

    def _read_file(self, staged: StagedFile, skip: int) -> Iterator[pa.RecordBatch]:
        path = self.folder / _STAGED / staged.name
        rows = 0
        try:
            with path.open("rb") as file, pa.ipc.open_stream(file) as reader:
                for batch in reader:
                    left_out = max(0, min(batch.num_rows, skip - rows))
                    rows += batch.num_rows
                    if left_out < batch.num_rows:
                        yield batch.slice(left_out)
        except (OSError, pa.ArrowException) as error:
            raise DamagedData(f"expected {staged.rows:,} rows in {path}, got: {error}: restore it") from None
        if rows != staged.rows:
            raise DamagedData(f"expected {staged.rows:,} rows in {path}, got {rows:,}: restore it")

    def _check_staged(self, files: Sequence[StagedFile]) -> None:
        """Raise an error unless all files of a batch are here."""
        missing = [each.name for each in files if not (self.folder / _STAGED / each.name).exists()]
        if missing:
            raise UsageError(
                f"expected {len(files):,} staged files in {self.folder / _STAGED}, got {len(files) - len(missing):,}, "
                f"without {missing[0]}: all workers must share this folder, each query needs its own name in the "
                "option stream, and a batch must not take longer than a day"
            )

    def _remove_orphans(self, stream: str) -> None:
        """Remove the files of a stream that are in no batch; leave all if too many batches wait to read them all."""
        found = {path.name for path in (self.folder / _STAGED).glob(f"{stream}-*{_SUFFIX}")}
        paths = self._paths()
        for path in reversed(paths[-_MANIFESTS_READ:]):
            if not found:
                return
            found -= _names_in(path)
        if len(paths) <= _MANIFESTS_READ:
            for name in found:  # A task that failed removes its own file.
                (self.folder / _STAGED / name).unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        """Return the paths of all manifests, in order."""
        return sorted((self.folder / _BATCHES).glob("*.json"))

    def _path(self, first: int) -> Path:
        return self.folder / _BATCHES / f"{first:020d}.json"


def _first_of(manifest: Path) -> int:
    """Return the number of the first row of a batch, which is the name of its manifest."""
    return int(manifest.stem)


def _read_manifest(path: Path) -> Manifest | None:
    """Return a batch, or None if it was published in between."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        raise DamagedData(f"expected a batch of an outbox in {path}, got something else: restore it") from None


def _names_in(path: Path) -> set[str]:
    manifest = _read_manifest(path)
    return set() if manifest is None else {each.name for each in manifest.files}


def _write(path: Path, publications: Iterable[Publication]) -> int:
    """Write rows to a file, wait until they are durable, and return their number."""
    rows = 0
    with path.open("wb") as file:
        with pa.ipc.new_stream(file, STAGED_SCHEMA) as writer:
            for chunk in _chunks(publications, _ROWS_AT_ONCE):
                columns = [[prepare(each) for each in chunk], [each.payload for each in chunk]]
                arrays = [pa.array(each, pa.binary()) for each in columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=STAGED_SCHEMA))
                rows += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return rows


def _chunks(items: Iterable[Publication], size: int) -> Iterator[list[Publication]]:
    chunk: list[Publication] = []
    for each in items:
        chunk.append(each)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _open(folder: Path) -> Description:
    """Return the description of an outbox, which is created if it does not exist."""
    path = folder / _DESCRIPTION
    with wait_for_lock(folder):
        for name in (_STAGED, _BATCHES):
            make_folder(folder / name)
        if not path.exists():
            write_whole(path, msgspec.json.encode(Description(_VERSION, f"outbox-{secrets.token_hex(8)}")))
    try:
        known = msgspec.json.decode(path.read_bytes(), type=Description)
    except msgspec.DecodeError:
        raise InvalidData(f"expected an outbox, got {folder}, whose {_DESCRIPTION} cannot be read") from None
    if known.version != _VERSION:
        raise InvalidData(f"expected an outbox of version {_VERSION}, got {folder} of version {known.version}")
    return known
