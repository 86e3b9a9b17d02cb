"""The trace of a run: one flat row a fact, the same from every driver.

``Row`` is the schema; nothing else is ever told about a run. Rows are written as JSON lines, or as Parquet where
pyarrow is installed (``pip install "octopia[parquet]"``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

import msgspec

from octopia.errors import UsageError

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


class Row(msgspec.Struct, kw_only=True):
    """One fact. What does not apply is None.

    ``publication`` is the number of the publication in its run, from 0; ``hop`` the links between brokers crossed so
    far; ``value`` the ratio (1 + Qin) / (1 + Qout) of a closed window, or a table's size (``kind`` names the table). Of
    a ``send`` without a peer it is how many messages the row stands for: large runs tell totals only.
    """

    run_id: str
    algorithm: str
    kind: str | None = None
    message_id: str | None = None
    publication: int | None = None
    event: str
    broker: str
    peer: str | None = None
    link: str | None = None
    client: str | None = None
    subscription: str | None = None
    civ: str | None = None
    queue_length: int | None = None
    hop: int | None = None
    published_ms: float | None = None
    time_ms: float
    match_us: float | None = None
    select_us: float | None = None
    value: float | None = None


COLUMNS = Row.__struct_fields__

INTEGERS = ("publication", "queue_length", "hop")
FLOATS = ("published_ms", "time_ms", "match_us", "select_us", "value")
_PARQUET_BATCH = 50_000


class TraceSink(Protocol):
    """Where rows go."""

    def write(self, row: Row) -> None:
        """Take a row."""

    def close(self) -> None:
        """Make sure that all rows are kept."""


class RowList:
    """Keeps rows in memory."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def write(self, row: Row) -> None:
        """Take a row."""
        self.rows.append(row)

    def close(self) -> None:
        """Do nothing: the rows are in memory."""


class _Closing:
    """A sink for a ``with`` statement."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class JsonLines(_Closing):
    """Writes rows as JSON objects, one a line, with all columns in order."""

    def __init__(self, path: Path):
        self._file: IO[bytes] = path.open("wb")
        self._encode: Callable[[Row], bytes] = msgspec.json.Encoder().encode

    def write(self, row: Row) -> None:
        """Take a row."""
        self._file.write(self._encode(row))
        self._file.write(b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Parquet(_Closing):
    """Writes rows as one Parquet file, in batches."""

    def __init__(self, path: Path):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UsageError('expected pyarrow for a Parquet trace, got none: pip install "octopia[parquet]"') from None
        self._arrow = pyarrow
        self._schema: pyarrow.Schema = _schema(pyarrow)
        self._writer: pyarrow.parquet.ParquetWriter = pyarrow.parquet.ParquetWriter(path, self._schema)
        self._waiting: list[Row] = []

    def write(self, row: Row) -> None:
        """Take a row."""
        self._waiting.append(row)
        if len(self._waiting) >= _PARQUET_BATCH:
            self._flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            columns = {name: [getattr(row, name) for row in self._waiting] for name in COLUMNS}
            self._writer.write_table(self._arrow.table(columns, schema=self._schema))
            self._waiting.clear()


def _schema(arrow: Any) -> Any:
    types = {name: arrow.string() for name in COLUMNS}
    types |= {name: arrow.int64() for name in INTEGERS}
    types |= {name: arrow.float64() for name in FLOATS}
    return arrow.schema(list(types.items()))


def read_json_lines(path: Path) -> list[Row]:
    """Read back what ``JsonLines`` wrote."""
    decode = msgspec.json.Decoder(Row).decode
    with path.open("rb") as lines:
        return [decode(line) for line in lines]
