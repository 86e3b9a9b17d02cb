"""The sink of the data source ``octopia``: rows of Spark into an outbox, from which they are published.

Columns become attributes, a null is an attribute that is not there, and a column ``payload`` is the payload. Each
attempt of a task stages its rows in a separate file, and the commit of the batch numbers the files of those that
succeeded (``records.outgoing``). So failed tasks, speculative ones and repeated batches add nothing.
"""

from __future__ import annotations

import dataclasses
import posixpath
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from octopia.content import Publication
from octopia.errors import InvalidData, UsageError
from octopia.records.folders import local_folder
from octopia.records.outgoing import Outgoing, StagedFile
from octopia.workloads.arrow import read_json

PAYLOAD = "payload"
_ATTRIBUTES = (StringType, LongType, IntegerType, ShortType, ByteType, DoubleType, FloatType, BooleanType)


@dataclasses.dataclass
class Staged(WriterCommitMessage):
    """The rows that a task has staged."""

    file: StagedFile


class OutboxWriter(DataSourceArrowWriter):
    """Writes the rows of one job."""

    def __init__(self, folder: Path, schema: StructType, *, is_overwrite: bool):
        check_schema(schema, is_overwrite=is_overwrite)
        self._folder = folder
        self._stream = f"job.{secrets.token_hex(8)}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return Staged(Outgoing(self._folder).stage(self._stream, _publications(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Add the rows of all tasks to the outbox."""
        Outgoing(self._folder).commit(self._stream, None, _files(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the rows of a failed job."""
        Outgoing(self._folder).abandon(self._stream)


class OutboxStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def __init__(self, folder: Path, schema: StructType, stream: str, *, is_overwrite: bool):
        check_schema(schema, is_overwrite=is_overwrite)
        self._folder = folder
        self._stream = stream

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return Staged(Outgoing(self._folder).stage(self._stream, _publications(iterator)))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Add the rows of all tasks to the outbox, unless this batch is there already."""
        Outgoing(self._folder).commit(self._stream, batchId, _files(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove the rows of a failed batch; it is repeated with files of other names."""
        Outgoing(self._folder).abandon(self._stream)


def folder_of(options: Mapping[str, str]) -> Path:
    """Return the folder that the option ``path`` names."""
    if not options.get("path"):
        raise UsageError("expected the option path with the folder of a spool, an archive or an outbox, got none")
    return local_folder(options["path"]).absolute()


def stream_of(options: Mapping[str, str]) -> str:
    """Return the name of a stream: the option ``stream``, or the id that Spark keeps in its checkpoint.

    Another checkpoint is another stream, whose batches begin with 0 again.
    """
    if options.get("stream"):
        return f"stream.{options['stream']}"
    where = options.get("checkpointlocation")
    if not where:
        raise UsageError("expected the option stream or checkpointLocation, to identify repeated batches, got none")
    try:
        known = read_json(posixpath.join(where.removeprefix("file:"), "metadata"))
        return f"query.{str(known['id']).replace('-', '')}"
    except (InvalidData, KeyError):
        raise UsageError(
            f"expected a checkpoint of Spark that can be read at {where}, got none: give the stream a name with the "
            "option stream"
        ) from None


def check_schema(schema: StructType, *, is_overwrite: bool) -> None:
    """Raise an error if rows cannot be publications, or if they are to replace others."""
    if is_overwrite:
        raise UsageError('expected rows to be appended, got mode("overwrite"): what is published cannot be replaced')
    names = [each.name for each in schema.fields if each.name != PAYLOAD]
    if not names:
        raise UsageError("expected at least one column besides the payload, got none")
    for each in schema.fields:
        is_payload = each.name == PAYLOAD
        kinds = (BinaryType, StringType) if is_payload else _ATTRIBUTES
        if not isinstance(each.dataType, kinds):
            expected = "binary or string" if is_payload else "a string, a number or a boolean; cast it first"
            raise UsageError(f"expected the column {each.name} as {expected}, got {each.dataType.simpleString()}")


def _publications(batches: Iterator[pa.RecordBatch]) -> Iterator[Publication]:
    for batch in batches:
        names = [name for name in batch.schema.names if name != PAYLOAD]
        columns = [batch.column(name).to_pylist() for name in names]
        payloads: Sequence[object] = [b""] * batch.num_rows
        if PAYLOAD in batch.schema.names:
            payloads = batch.column(PAYLOAD).to_pylist()
        for payload, *values in zip(payloads, *columns, strict=True):
            attributes = {name: value for name, value in zip(names, values, strict=True) if value is not None}
            yield Publication(attributes, payload.encode() if isinstance(payload, str) else payload or b"")


def _files(messages: list[WriterCommitMessage | None]) -> list[StagedFile]:
    return [each.file for each in messages if isinstance(each, Staged)]
