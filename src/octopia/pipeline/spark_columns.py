"""Columns of Spark: those of rows, and typed columns of attributes.

A column with the name of one of a row's columns is that one; any other is the attribute of its name. An attribute with
the name of a column of rows is available as ``attributes.NAME``. A value whose type differs from the column's is null
there, as is an attribute that a publication does not carry; the column ``attributes`` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType, StringType, StructField, StructType

from octopia.errors import UsageError
from octopia.records.rows import NUMBERED

ROW_COLUMNS = from_arrow_schema(NUMBERED)
"""The columns of a row, with its offset."""
_BY_NAME = {each.name: each for each in ROW_COLUMNS.fields}
_PREFIX = "attributes."
_EXACT_MAX = 2**53
_NOTHING: Mapping[str, Any] = {}

_decode = msgspec.msgpack.Decoder(dict[str, bool | int | float | str]).decode


def _to_double(value: object) -> float | None:
    """Return a number as a double, if that is exact."""
    if type(value) is float:
        return value
    return float(value) if type(value) is int and -_EXACT_MAX <= value <= _EXACT_MAX else None


_CONVERSIONS: dict[type[DataType], Callable[[Any], Any]] = {
    StringType: lambda value: value if type(value) is str else None,
    LongType: lambda value: value if type(value) is int else None,
    DoubleType: _to_double,
    BooleanType: lambda value: value if type(value) is bool else None,
}


def ddl_of_rows(more: str | None) -> str:
    """Return the columns of rows, followed by others, as text."""
    columns = [f"`{each.name}` {each.dataType.simpleString()}" for each in ROW_COLUMNS.fields]
    return ", ".join([*columns, *([more] if more else [])])


def attribute_of(field: StructField) -> str | None:
    """Return the attribute that a column has, or None if it is a column of rows."""
    return None if field.name in _BY_NAME else field.name.removeprefix(_PREFIX)


class Columns:
    """The columns that a reader returns."""

    def __init__(self, schema: StructType):
        for field in schema.fields:
            _check(field)
        self.schema = schema
        self._fields = [(each, attribute_of(each)) for each in schema.fields]
        self._attributes = any(name is not None for _, name in self._fields)
        self.has_kind = "kind" in schema.names
        """True if rows have the column of kinds; without it, gaps and losses are left out."""

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of rows with offsets."""
        decoded: Sequence[Mapping[str, Any]] = ()
        if self._attributes:
            encoded = batch.column("attributes").to_pylist()
            decoded = [_NOTHING if each is None else _decode(each) for each in encoded]
        target = to_arrow_schema(self.schema, timezone="UTC")
        columns = []
        for (field, name), kind in zip(self._fields, target.types, strict=True):
            if name is None:
                columns.append(batch.column(field.name).cast(kind))
            else:
                convert = _CONVERSIONS[type(field.dataType)]
                columns.append(pa.array([convert(each.get(name)) for each in decoded], kind))
        return pa.RecordBatch.from_arrays(columns, schema=target)


def _check(field: StructField) -> None:
    known = _BY_NAME.get(field.name)
    if known is not None and known.dataType != field.dataType:
        raise UsageError(
            f"expected the column {field.name} of rows as {known.dataType.simpleString()}, got "
            f"{field.dataType.simpleString()}: an attribute of this name is the column `{_PREFIX}{field.name}`"
        )
    if known is None and type(field.dataType) not in _CONVERSIONS:
        raise UsageError(
            f"expected the attribute {field.name} as a string, bigint, double or boolean, got "
            f"{field.dataType.simpleString()}"
        )
