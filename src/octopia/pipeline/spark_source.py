"""The data source ``octopia``: spools and archives as streams and tables of Spark, and the sink for publications.

Theory of operation
-------------------

Offsets of a stream are those of its spool. Spark stores the end of each micro-batch in its checkpoint before it reads
the batch, and reads the same range again after a crash, so a stream is exact if rows stay until Spark has committed
them. ``commit`` comes with the next batch; it moves the *consumer*, for which the spool retains rows.

The first offset is asked for more than once, and again if the first batch is repeated after a crash. So it is pinned
here, and with a consumer on disk as well. ``latest`` needs a consumer: after a crash, it would be another offset, and
the rows in between would be left out.

Filters are evaluated by the brokers' own matcher, as those of history are. Tables can take filters from Spark
(``spark_pushdown``), and then files of other times are not read, nor rows decoded that the filters exclude.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from octopia.content import format_filter, parse_filter
from octopia.errors import DamagedData, UsageError
from octopia.pipeline.spark_columns import Columns, ddl_of_rows
from octopia.pipeline.spark_pushdown import narrowed
from octopia.pipeline.spark_sink import OutboxStreamWriter, OutboxWriter, folder_of, stream_of
from octopia.records.history import Records, Slice, read_slice
from octopia.records.rows import RowKind, with_offsets
from octopia.records.selection import EVERYTHING, Question, Selection, time_ms
from octopia.records.spool import SpoolReader

_PARTITION_ROWS = 100_000
_OFFSET = "offset"


class OctopiaSource(DataSource):
    """The data source, made by Spark for each query with its options."""

    def __init__(self, options: MutableMapping[str, str]):
        self.options: dict[str, str] = {key.lower(): value for key, value in options.items()}

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "octopia"

    def schema(self) -> str:
        """Return the columns of rows, and the attributes of the option ``schema``."""
        return ddl_of_rows(self.options.get("schema"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of an archive or a spool."""
        # Spark refuses a reader that takes filters while its own setting for that is off, hence two classes.
        kind = PushdownReader if _flag(self.options, "pushdown", default=False) else RecordsReader
        return kind(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of a spool as a stream."""
        return SpoolStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of one job into an outbox."""
        return OutboxWriter(folder_of(self.options), schema, is_overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of a stream into an outbox."""
        return OutboxStreamWriter(folder_of(self.options), schema, stream_of(self.options), is_overwrite=overwrite)


@dataclasses.dataclass
class RowsOf(InputPartition):
    """The rows of a task: a slice of an archive or a spool."""

    value: Slice


@dataclasses.dataclass
class Range(InputPartition):
    """The rows of a task: offsets of a spool."""

    first: int
    end: int


class RecordsReader(DataSourceReader):
    """Reads an archive or a spool as a table."""

    def __init__(self, options: Mapping[str, str], schema: StructType):
        self._folder = folder_of(options)
        self._fails_on_loss = _flag(options, "failOnDataLoss", default=False)
        self._columns = Columns(schema)
        self._question = Question(
            _interest(options),
            time_ms(options.get("from"), Question().from_ms),
            time_ms(options.get("to"), Question().to_ms),
            has_notices=self._columns.has_kind,
        )

    def partitions(self) -> list[InputPartition]:
        """Return one partition per slice."""
        return [RowsOf(each) for each in Records(self._folder).slices(self._asked())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice."""
        if not isinstance(partition, RowsOf):
            return  # Spark reads a table without slices as one that has none of ours.
        selection = Selection(self._asked())
        for batch in read_slice(partition.value):
            found = selection.select(batch)
            if self._fails_on_loss:
                _check_notices(found)
            yield self._columns.convert(found)

    def _asked(self) -> Question:
        """Return the question; to fail on gaps and losses, it asks for those of its times, too."""
        return dataclasses.replace(self._question, has_notices=True) if self._fails_on_loss else self._question


class PushdownReader(RecordsReader):
    """Reads an archive or a spool, and lets Spark's filters exclude rows before they are decoded."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what can be taken of filters; Spark evaluates all of them again."""
        self._question = narrowed(self._question, filters, self._columns.schema)
        return filters


class SpoolStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a spool as a stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType):
        self._folder = folder_of(options)
        if Records(self._folder).is_archive:
            raise UsageError(f"expected the folder of a spool to stream from, got the archive {self._folder}")
        self._consumer = options.get("consumer")
        self._rows_max = _number(options, "maxRowsPerBatch")
        self._starting = options.get("startingoffset", "earliest")
        self._fails_on_loss = _flag(options, "failOnDataLoss", default=True)
        self._columns = Columns(schema)
        self._question = Question(_interest(options), has_notices=self._columns.has_kind)
        self._initial: int | None = None
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """Return the offset of the first row of a new stream, the same each time."""
        if self._initial is None:
            self._initial = self._find_initial()
        return {_OFFSET: self._initial}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit on the rows of a micro-batch."""
        return ReadAllAvailable() if self._rows_max is None else ReadMaxRows(self._rows_max)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the end of the next micro-batch."""
        first, durable = start[_OFFSET], self._spool().end_offset
        if durable < first:
            raise DamagedData(
                f"expected a spool with at least {first:,} rows in {self._folder}, got {durable:,}: after a crash, "
                "start `octopia spool` first; if it is not the same spool as before, use a new checkpoint"
            )
        end = durable if self._target is None else max(first, min(durable, self._target))
        return {_OFFSET: min(end, first + limit.max_rows) if isinstance(limit, ReadMaxRows) else end}

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the end of the spool, for Spark's reports of progress."""
        return {_OFFSET: self._spool().end_offset}

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the end of the spool, where the stream ends."""
        self._target = self._spool().end_offset

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Return the rows of a micro-batch in parts."""
        first, after, retained = start[_OFFSET], end[_OFFSET], self._spool().first_offset
        if first > after and self._fails_on_loss:
            raise DamagedData(
                f"expected the first batch of the stream again, up to the row {after:,} of {self._folder}, got a start "
                f"at {first:,}: the rows before that are not retained; use a new checkpoint, and name a consumer to "
                "retain rows"
            )
        if first < min(after, retained):
            if self._fails_on_loss:
                raise _removed(self._folder, first, min(after, retained))
            first = min(after, retained)
        return [Range(at, min(after, at + _PARTITION_ROWS)) for at in range(first, after, _PARTITION_ROWS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        if not isinstance(partition, Range):
            return
        selection, expected = Selection(self._question), partition.first
        for offset, batch in self._spool().read(partition.first, partition.end):
            if self._fails_on_loss and offset != expected:
                raise _removed(self._folder, expected, offset)
            numbered = with_offsets(offset, batch)
            if self._fails_on_loss:
                _check_notices(numbered)
            expected = offset + batch.num_rows
            yield self._columns.convert(selection.select(numbered))
        if expected != partition.end and self._fails_on_loss:
            raise _removed(self._folder, expected, partition.end)

    def commit(self, end: dict[str, int]) -> None:
        """Let the spool remove what Spark will not read again."""
        if self._consumer:
            self._spool().consumers.commit(self._consumer, end[_OFFSET])

    def stop(self) -> None:
        """Do nothing: no file stays open."""

    def _spool(self) -> SpoolReader:
        return SpoolReader(self._folder)

    def _find_initial(self) -> int:
        spool = self._spool()
        known = spool.consumers.committed(self._consumer) if self._consumer else None
        if known is not None:
            return known
        match self._starting:
            case "earliest":
                found = spool.first_offset
            case "latest" if self._consumer is None:
                raise UsageError(
                    "expected a consumer with the startingOffset latest, to record where the stream starts, got none: "
                    "set the option consumer to a name"
                )
            case "latest":
                found = spool.end_offset
            case number if number.isdecimal():
                found, end = int(number), spool.end_offset
                if found > end:
                    raise UsageError(
                        f"expected a startingOffset of at most {end}, the number of rows in {self._folder}, got {found}"
                    )
            case other:
                raise UsageError(f"expected a startingOffset of earliest, latest or a number, got {other!r}")
        if self._consumer:
            spool.consumers.commit(self._consumer, found)
        return found


def _check_notices(batch: pa.RecordBatch) -> None:
    """Raise an error for the first gap or loss among rows."""
    is_notice = pc.not_equal(batch.column("kind"), RowKind.PUBLICATION.value)
    for row in batch.filter(is_notice).slice(0, 1).to_pylist():
        why = f"{row['kind']} ({row['cause']})" if row["cause"] else row["kind"]
        raise DamagedData(
            f"expected publications only, got a {why} at the offset {row['offset']:,}, where some may be missing: set "
            "failOnDataLoss to false to continue"
        )


def _removed(folder: Path, first: int, end: int) -> DamagedData:
    return DamagedData(
        f"expected the rows {first:,} to {end - 1:,} of {folder}, got none, since the spool has not retained them: set "
        "failOnDataLoss to false to continue without them, and name a consumer to retain rows"
    )


@functools.lru_cache(maxsize=16)
def _normal(text: str) -> str:
    return format_filter(parse_filter(text))


def _interest(options: Mapping[str, str]) -> str:
    return _normal(options.get("filter", EVERYTHING))


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise UsageError(f"expected true or false as the option {name}, got {value!r}")
    return value == "true"


def _number(options: Mapping[str, str], name: str) -> int | None:
    value: Any = options.get(name.lower())
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"expected a number of at least 1 as the option {name}, got {value!r}")
    return int(value)
