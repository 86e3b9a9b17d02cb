"""The schemas of all tables of the pipeline.

Publications, advertisements and subscriptions are numbered from 0; tables of pairs refer to these numbers.
``PUBLICATIONS`` has the seven attributes of a bar. Other tables of publications may have other attributes: every column
that is not in ``ABOUT_PUBLICATIONS`` is one. It is null where a publication does not carry the attribute.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from octopia.trace import COLUMNS, FLOATS, INTEGERS
from octopia.workloads import workload


def _table(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


TEXT, WHOLE, NUMBER, YES_NO, DATE = StringType(), LongType(), DoubleType(), BooleanType(), DateType()

PRICES = ("open", "high", "low", "close")
ATTRIBUTES = ("symbol", "date", *PRICES, "volume")
"""The seven attributes of a publication; its date is a number such as 20180207."""

BARS = _table(symbol=TEXT, date=DATE, open=NUMBER, high=NUMBER, low=NUMBER, close=NUMBER, volume=WHOLE)
REJECTS = _table(source=TEXT, content=TEXT, reason=TEXT)
PUBLICATIONS = _table(
    number=WHOLE,
    at_ms=NUMBER,
    publisher=TEXT,
    symbol=TEXT,
    date=WHOLE,
    open=NUMBER,
    high=NUMBER,
    low=NUMBER,
    close=NUMBER,
    volume=WHOLE,
)
_OF_ARROW = {"int64": WHOLE, "string": TEXT, "bool": YES_NO, "binary": BinaryType()}
ISSUED = _table(**{field.name: _OF_ARROW[str(field.type)] for field in workload.ISSUED})
"""Advertisements and subscriptions; ``id`` is the name of one in traces."""
ISSUED_WITH_FORM = _table(**{field.name: _OF_ARROW[str(field.type)] for field in workload.ISSUED_WITH_FORM})
"""The same with the parsed filter, so that workers need not parse it."""
MATCHES = _table(publication=WHOLE, subscription=WHOLE)
"""The truth: pairs of the numbers of a publication and a subscription."""
FAULTS = _table(fault=TEXT, run_id=TEXT, publication=WHOLE, subscription=WHOLE, copies=WHOLE)
"""The faults that an audit finds: ``missing``, ``unwanted`` or ``duplicate`` deliveries."""
TRACE = _table(**{name: WHOLE if name in INTEGERS else NUMBER if name in FLOATS else TEXT for name in COLUMNS})
