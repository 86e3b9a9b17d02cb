"""The tables of the pipeline, all in one place.

A publication, an advertisement and a subscription each have a ``number``, from 0, by which tables of pairs name them.
``PUBLICATIONS`` has the seven attributes of a bar; other tables of publications may have other attributes: every column
that is not in ``ABOUT_PUBLICATIONS`` is one, and null where a publication does not carry it.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from octopia.playing.files import ABOUT_PUBLICATIONS as ABOUT_PUBLICATIONS
from octopia.trace import COLUMNS, FLOATS, INTEGERS


def _table(**columns: StringType | LongType | DoubleType | BooleanType | DateType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


TEXT, WHOLE, NUMBER, YES_NO, DATE = StringType(), LongType(), DoubleType(), BooleanType(), DateType()

PRICES = ("open", "high", "low", "close")
ATTRIBUTES = ("symbol", "date", *PRICES, "volume")
"""The seven attributes of a publication about stocks; its date is a number such as 20180207."""

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
ISSUED = _table(number=WHOLE, id=TEXT, client=TEXT, broker=TEXT, filter=TEXT, is_burst=YES_NO)
"""Advertisements and subscriptions: what a client at a broker issues; ``id`` is its name in traces."""
MATCHES = _table(publication=WHOLE, subscription=WHOLE)
"""The truth: pairs of numbers."""
FAULTS = _table(fault=TEXT, run_id=TEXT, publication=WHOLE, subscription=WHOLE, copies=WHOLE)
"""What an audit finds: ``missing``, ``unwanted`` or ``duplicate`` deliveries."""
TRACE = _table(**{name: WHOLE if name in INTEGERS else NUMBER if name in FLOATS else TEXT for name in COLUMNS})
