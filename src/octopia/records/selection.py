"""Selection: the rows of a batch that match a filter and a time range.

Filters are evaluated by the brokers' own index, so rows are selected as they would be delivered. The index reads the
encoded attributes, so rows that do not match are not decoded.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from octopia.content import TRUE, Disjunction, Publication, parse_filter, to_expression
from octopia.content.encoded import IS_COMPILED
from octopia.content.publications import scanned
from octopia.errors import UsageError
from octopia.ids import BrokerId, ClientId, SubscriptionId
from octopia.matching import INDEX, Subscriptions
from octopia.records.rows import RowKind

EVERYTHING = "TRUE"
"""The filter that matches every publication."""
_ONLY = SubscriptionId(BrokerId("a", 0), 0, 0)
_READER = ClientId("reader")

_decode = msgspec.msgpack.Decoder(dict[str, bool | int | float | str]).decode


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """The rows to find: publications that match a filter, published from one time to before another.

    With ``has_notices``, gaps and losses that were noted in that time belong to the answer, too.
    """

    interest: str = EVERYTHING
    from_ms: float = -math.inf
    to_ms: float = math.inf
    has_notices: bool = True

    @property
    def has_times(self) -> bool:
        """True if the question is limited to a time range."""
        return self.from_ms > -math.inf or self.to_ms < math.inf

    def overlaps(self, first_ms: float, last_ms: float) -> bool:
        """Return whether rows of these times can be part of the answer."""
        return first_ms < self.to_ms and last_ms >= self.from_ms


class Selection:
    """Selects rows; one object serves many batches."""

    def __init__(self, question: Question):
        self._question = question
        wanted = parse_filter(question.interest)
        self._subscriptions = None if to_expression(wanted) == TRUE else _subscribed(wanted)

    def select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that the question asks for, in their order."""
        question = self._question
        is_publication = pc.equal(batch.column("kind"), RowKind.PUBLICATION.value)
        if question.has_times:
            at_ms = pc.if_else(is_publication, batch.column("published_ms"), batch.column("received_ms"))
            batch = batch.filter(pc.and_(pc.greater_equal(at_ms, question.from_ms), pc.less(at_ms, question.to_ms)))
            is_publication = pc.equal(batch.column("kind"), RowKind.PUBLICATION.value)
        if not question.has_notices:
            batch = batch.filter(is_publication)
        if self._subscriptions is None or not batch.num_rows:
            return batch
        return batch.filter(pa.array(self._matched(self._subscriptions, batch), pa.bool_()))

    def _matched(self, subscriptions: Subscriptions, batch: pa.RecordBatch) -> list[bool]:
        """Return, for each row, whether it matches the filter; notices always do."""
        encoded: Sequence[bytes | None] = batch.column("attributes").to_pylist()
        found = iter(subscriptions.match_many([_publication(each) for each in encoded if each is not None]))
        return [each is None or bool(next(found).numbers) for each in encoded]


def _subscribed(wanted: Disjunction) -> Subscriptions:
    subscriptions = INDEX.subscriptions()
    subscriptions.add(_ONLY, wanted, _READER)
    return subscriptions


def _publication(encoded: bytes) -> Publication:
    """Return the publication with these attributes, as the index reads it fastest."""
    found = scanned(encoded, b"") if IS_COMPILED else None
    return Publication.trusted(_decode(encoded)) if found is None else found


def time_ms(text: str | None, default: float) -> float:
    """Return a time, given as ISO 8601 or in ms since 1970, in ms since 1970; without a zone it is UTC."""
    if text is None:
        return default
    try:
        at_ms = float(text)
    except ValueError:
        at_ms = _iso_ms(text)
    if math.isnan(at_ms):
        raise UsageError(
            f"expected a time such as 2026-11-18, 2026-11-18T09:30:00 or 1795000000000 (ms since 1970), got {text!r}"
        )
    return at_ms


def _iso_ms(text: str) -> float:
    """Return an ISO 8601 time in ms since 1970, or NaN for any other text."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp() * 1000.0
