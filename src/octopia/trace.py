"""The trace of a run: one flat row per fact, the same from every driver.

``Row`` is the schema. Rows are written as JSON lines, or as Parquet if pyarrow is installed
(``pip install ".[parquet]"``).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

import msgspec

from octopia.broker.numbered import Kept
from octopia.errors import UsageError

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet


PARQUET_FILE = "trace.parquet"
JSON_LINES_FILE = "trace.jsonl"
RUN_FILE = "run.json"
"""The file beside a trace with the assumptions and totals of the run."""
DISTINCT_SUBSCRIPTIONS = "subscriptions"
"""The kind of ``table`` rows with the number of distinct subscriptions in a PRT, which may have copies of some."""


class Row(msgspec.Struct, kw_only=True):
    """One fact. Columns that do not apply are None.

    ``publication`` is the number of the publication in its run, from 0. ``hop`` is the number of links between brokers
    crossed so far. ``value`` is the ratio (1 + Qin) / (1 + Qout) of a closed window, or the size of the table that
    ``kind`` names. In a ``send`` row without a peer, it is a number of messages: large runs have totals only.
    ``carries`` has the clusters that a copy carries over tree edges under adaptive routing, such as ``a:0001 c:1010``.
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
    carries: str | None = None


COLUMNS = Row.__struct_fields__
LATER_COLUMNS = ("carries",)
"""The columns that traces of earlier versions do not have."""


class Recipients(msgspec.Struct, frozen=True):
    """Subscriptions that get a publication at the same time, by name, and the client of each."""

    clients: tuple[str, ...]
    subscriptions: tuple[str, ...]


class Deliveries(msgspec.Struct, frozen=True):
    """The deliveries of one publication to several subscriptions at one broker, at the same time."""

    run_id: str
    algorithm: str
    broker: str
    publication: int
    hop: int
    published_ms: float
    time_ms: float
    recipients: Recipients

    def rows(self) -> Iterator[Row]:
        """Yield one row per delivery."""
        for client, subscription in zip(self.recipients.clients, self.recipients.subscriptions, strict=True):
            yield Row(
                run_id=self.run_id,
                algorithm=self.algorithm,
                kind=_KIND,
                publication=self.publication,
                event=_EVENT,
                broker=self.broker,
                peer=client,
                link=_LINK,
                client=client,
                subscription=subscription,
                hop=self.hop,
                published_ms=self.published_ms,
                time_ms=self.time_ms,
            )


INTEGERS = ("publication", "queue_length", "hop")
FLOATS = ("published_ms", "time_ms", "match_us", "select_us", "value")
_PARQUET_BATCH = 50_000
_DELIVERIES_BATCH = 500_000
_KNOWN_RECIPIENTS = 65_536
_KIND, _EVENT, _LINK = "publication", "deliver", "client"
"""The values that all delivery rows share."""


class TraceSink(Protocol):
    """A destination for rows."""

    def write(self, row: Row) -> None:
        """Add a row."""

    def deliver(self, batch: Deliveries) -> None:
        """Add the rows of a batch of deliveries."""

    def close(self) -> None:
        """Write out all rows."""


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
    """Writes rows as JSON objects, one per line, with all columns in order."""

    def __init__(self, path: Path):
        self._file: IO[bytes] = path.open("wb")
        self._encode: Callable[[Row], bytes] = msgspec.json.Encoder().encode

    def write(self, row: Row) -> None:
        """Add a row."""
        self._file.write(self._encode(row))
        self._file.write(b"\n")

    def deliver(self, batch: Deliveries) -> None:
        """Add the rows of a batch of deliveries."""
        for row in batch.rows():
            self.write(row)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Parquet(_Closing):
    """Writes rows as one Parquet file, in batches."""

    def __init__(self, path: Path):
        try:
            import pyarrow
            import pyarrow.compute
            import pyarrow.parquet
        except ImportError:
            raise UsageError(
                'expected pyarrow for a Parquet trace, got none: pip install ".[parquet]" in the checkout'
            ) from None
        self._arrow = pyarrow
        self._schema: pyarrow.Schema = _schema(pyarrow)
        self._writer: pyarrow.parquet.ParquetWriter = pyarrow.parquet.ParquetWriter(path, self._schema)
        self._waiting: list[Row] = []
        self._deliveries = _DeliveryColumns(pyarrow)

    def write(self, row: Row) -> None:
        """Add a row."""
        self._waiting.append(row)
        if len(self._waiting) >= _PARQUET_BATCH:
            self._flush()

    def deliver(self, batch: Deliveries) -> None:
        """Add the rows of a batch of deliveries; since they are many, they are kept as columns."""
        self._deliveries.add(batch)
        if len(self._deliveries) >= _DELIVERIES_BATCH:
            self._flush_deliveries()

    def close(self) -> None:
        """Write the remaining rows, and close the file."""
        self._flush()
        self._flush_deliveries()
        self._writer.close()

    def _flush_deliveries(self) -> None:
        if len(self._deliveries):
            self._writer.write_table(self._deliveries.table(self._schema))
            self._deliveries = _DeliveryColumns(self._arrow)

    def _flush(self) -> None:
        if self._waiting:
            columns = {name: [getattr(row, name) for row in self._waiting] for name in COLUMNS}
            self._writer.write_table(self._arrow.table(columns, schema=self._schema))
            self._waiting.clear()


class _DeliveryColumns:
    """Deliveries as columns: values that a batch shares are stored once, and texts as numbers."""

    def __init__(self, arrow: Any):
        self._arrow = arrow
        # For each batch, the number of deliveries up to its end, and the values that its deliveries share.
        self._ends = array("i")
        self._sources = array("i")
        self._publications = array("q")
        self._hops = array("q")
        self._published_ms = array("d")
        self._times_ms = array("d")
        self._texts: dict[tuple[str, str, str], int] = {}
        # For each delivery, the number of its client with its subscription.
        self._numbers = array("i")
        self._pairs: dict[tuple[str, str], int] = {}
        # Batches for the same subscriptions share their recipients.
        self._known: Kept[Recipients, array[int]] = Kept(_KNOWN_RECIPIENTS)

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, batch: Deliveries) -> None:
        numbers = self._known.of(batch.recipients, self._numbers_of)
        if not numbers:
            return
        self._numbers.extend(numbers)
        self._ends.append(len(self._numbers))
        texts = (batch.run_id, batch.algorithm, batch.broker)
        self._sources.append(self._texts.setdefault(texts, len(self._texts)))
        self._publications.append(batch.publication)
        self._hops.append(batch.hop)
        self._published_ms.append(batch.published_ms)
        self._times_ms.append(batch.time_ms)

    def _numbers_of(self, recipients: Recipients) -> array[int]:
        """Return a number for each client with its subscription."""
        numbers, pairs = self._pairs, zip(recipients.clients, recipients.subscriptions, strict=True)
        return array("i", [numbers.setdefault(each, len(numbers)) for each in pairs])

    def table(self, schema: Any) -> Any:
        """Return all deliveries as a table."""
        arrow, rows = self._arrow, len(self)
        numbers, sources = self._column(self._numbers), self._spread(self._sources)
        clients, subscriptions = (arrow.array(texts).take(numbers) for texts in zip(*self._pairs, strict=True))
        run_ids, algorithms, brokers = (arrow.array(texts).take(sources) for texts in zip(*self._texts, strict=True))
        known = {
            "run_id": run_ids,
            "algorithm": algorithms,
            "kind": arrow.repeat(_KIND, rows),
            "publication": self._spread(self._publications),
            "event": arrow.repeat(_EVENT, rows),
            "broker": brokers,
            "peer": clients,
            "link": arrow.repeat(_LINK, rows),
            "client": clients,
            "subscription": subscriptions,
            "hop": self._spread(self._hops),
            "published_ms": self._spread(self._published_ms),
            "time_ms": self._spread(self._times_ms),
        }
        columns = [known[field.name] if field.name in known else arrow.nulls(rows, field.type) for field in schema]
        return arrow.table(columns, schema=schema)

    def _spread(self, values: array[Any]) -> Any:
        """Return the values of batches as those of their deliveries."""
        arrow = self._arrow
        runs = arrow.RunEndEncodedArray.from_arrays(self._column(self._ends), self._column(values))
        return arrow.compute.run_end_decode(runs)

    def _column(self, values: array[Any]) -> Any:
        """Return numbers as a column that shares their memory."""
        arrow = self._arrow
        types = {"i": arrow.int32(), "q": arrow.int64(), "d": arrow.float64()}
        return arrow.Array.from_buffers(types[values.typecode], len(values), [None, arrow.py_buffer(values)])


def _schema(arrow: Any) -> Any:
    types = {name: arrow.string() for name in COLUMNS}
    types |= {name: arrow.int64() for name in INTEGERS}
    types |= {name: arrow.float64() for name in FLOATS}
    return arrow.schema(list(types.items()))
