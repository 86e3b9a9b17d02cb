"""Publications on disk for tests: spools and archives without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from octopia.client import Received
from octopia.content import Publication, Value
from octopia.ids import BrokerId, PublicationId
from octopia.protocol.messages import Deliver
from octopia.records.archive import Archive, spool_of
from octopia.records.history import Records
from octopia.records.rows import Event, Row, to_batch
from octopia.records.selection import Question
from octopia.records.spool import SEGMENT_BYTES, open_spool

INTEREST = "n >= 0"
HOST = BrokerId("a", 0)
DAY_MS = 86_400_000.0
MORNING_MS = 20_000 * DAY_MS
"""The beginning of a day: 2024-10-04."""


def received(
    n: int, attributes: dict[str, Value] | None = None, published_ms: float | None = None, payload: bytes = b""
) -> Received:
    """A publication as a subscriber received it, 2 ms after it was published."""
    published_ms = MORNING_MS + n if published_ms is None else published_ms
    content = Publication({"n": n} if attributes is None else attributes, payload)
    return Received(Deliver(PublicationId(HOST, 1, n), content, (1,), 2, published_ms), published_ms + 2.0, n + 1)


def batch_of(events: Sequence[Event]) -> pa.RecordBatch:
    return to_batch(events, MORNING_MS)


def numbered(*publications: Received) -> list[Event]:
    return [(each.number, each) for each in publications]


def add_to_spool(
    folder: Path,
    events: Sequence[Event],
    interest: str = INTEREST,
    block: int = 1000,
    segment_bytes: int = SEGMENT_BYTES,
) -> None:
    """Append events to a spool, in blocks."""
    with open_spool(folder, interest, segment_bytes=segment_bytes) as spool:
        for at in range(0, len(events), block):
            spool.append(batch_of(events[at : at + block]), f"p{spool.end_offset}")


def add_to_archive(folder: Path, events: Sequence[Event], interest: str = INTEREST, *, is_rolled: bool = True) -> None:
    """Append events to an archive, and roll them."""
    with Archive(folder, interest) as writer:
        add_to_spool(spool_of(folder), events, interest)
        if is_rolled:
            writer.roll()


def found_in(folder: Path, question: Question | None = None) -> list[Row]:
    return list(Records(folder).rows(question or Question()))


def numbers_of(rows: Sequence[Row]) -> list[Value]:
    return [row.publication.attributes["n"] for row in rows if row.publication is not None]
