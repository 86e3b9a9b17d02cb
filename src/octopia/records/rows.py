"""Rows: publications as a subscriber received them, and notices of gaps and losses, in Arrow tables.

Attributes stay the publisher's own bytes (msgpack), so each row has its attributes with their exact types,
independently of other rows.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from octopia.client import Received
from octopia.client.buffer import Notice
from octopia.content import Publication
from octopia.errors import InvalidData, MissingDependency
from octopia.ids import BrokerId, PublicationId
from octopia.protocol.messages import Gap
from octopia.protocol.transit import Deliver
from octopia.wire.encoding import prepare

try:
    import pyarrow as pa
except ImportError:
    raise MissingDependency('expected pyarrow, got none: pip install ".[parquet]" in the checkout') from None


class RowKind(enum.StrEnum):
    """The kinds of rows: a publication, a gap of unknown or known size, and deliveries that a slow reader lost."""

    PUBLICATION = "publication"
    GAP = "gap"
    LOST = "lost"


SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("host_broker", pa.string()),
        pa.field("incarnation", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("hops", pa.int32()),
        pa.field("published_ms", pa.float64()),
        pa.field("received_ms", pa.float64(), nullable=False),
        pa.field("attributes", pa.binary()),
        pa.field("payload", pa.binary()),
        pa.field("cause", pa.string()),
        pa.field("count", pa.int64()),
    ]
)
"""The columns of a row: the three after ``kind`` are the id of a publication; notices have a cause and a count."""

OFFSET = "offset"
NUMBERED = pa.schema([pa.field(OFFSET, pa.int64(), nullable=False), *SCHEMA])
"""The columns of a row with its offset, which gives the order of arrival."""

Event: TypeAlias = tuple[int, Received | Notice]
"""A publication or a notice of a subscription, with its number."""

_decode = msgspec.msgpack.Decoder(dict[str, bool | int | float | str]).decode


class Row(msgspec.Struct, frozen=True):
    """A row as a Python object; ``publication`` is None for a notice."""

    kind: RowKind
    received_ms: float
    id: PublicationId | None = None
    hops: int = 0
    published_ms: float = 0.0
    publication: Publication | None = None
    cause: str = ""
    count: int = 0

    def to_received(self) -> Received:
        """Return the publication as its subscriber received it."""
        if self.id is None or self.publication is None:
            raise InvalidData(f"expected a publication, got a row about a {self.kind}")
        return Received(Deliver(self.id, self.publication, (), self.hops, self.published_ms), self.received_ms)


def merge(received: Sequence[Received], notices: Sequence[tuple[int, Notice]]) -> list[Event]:
    """Return publications and notices in the order of their arrival."""
    events: list[Event] = [(each.number, each) for each in received]
    if notices:
        # The sort is stable. A notice with the number of a publication came after it: a new session began there.
        events = sorted([*events, *notices], key=lambda event: event[0])
    return events


def to_batch(events: Iterable[Event], now_ms: float) -> pa.RecordBatch:
    """Return events as a batch of rows; notices get the time ``now_ms``."""
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
    for _, event in events:
        if isinstance(event, Received):
            name, publication = event.id, event.publication
            values: tuple[object, ...] = (
                RowKind.PUBLICATION.value,
                str(name.host_broker),
                name.incarnation,
                name.number,
                event.hops,
                event.published_ms,
                event.received_ms,
                prepare(publication),
                publication.payload,
                None,
                None,
            )
        elif isinstance(event, Gap):
            values = _notice(RowKind.GAP, str(event.cause), event.count, now_ms)
        else:
            values = _notice(RowKind.LOST, None, event.deliveries, now_ms)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _notice(kind: RowKind, cause: str | None, count: int, now_ms: float) -> tuple[object, ...]:
    return (kind.value, None, None, None, None, None, now_ms, None, None, cause, count)


def with_offsets(first_offset: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with their offsets."""
    offsets = pa.array(range(first_offset, first_offset + batch.num_rows), pa.int64())
    return pa.RecordBatch.from_arrays([offsets, *batch.columns], schema=NUMBERED)


def to_rows(batch: pa.RecordBatch) -> list[Row]:
    """Return the rows of a batch as Python objects."""
    return [row_of(each) for each in batch.to_pylist()]


def row_of(values: Mapping[str, Any]) -> Row:
    """Return the values of a row by column as a Python object."""
    kind = RowKind(values["kind"])
    if kind is not RowKind.PUBLICATION:
        return Row(kind, values["received_ms"], cause=values["cause"] or "", count=values["count"])
    name = PublicationId(BrokerId.parse(values["host_broker"]), values["incarnation"], values["number"])
    publication = Publication(_decode(values["attributes"]), bytes(values["payload"]))
    return Row(kind, values["received_ms"], name, values["hops"], values["published_ms"], publication)
