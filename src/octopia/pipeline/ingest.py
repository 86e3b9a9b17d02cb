"""Ingestion of bars from Yahoo-style CSV or Parquet files.

A path names a file, a folder or a glob. Files end in .csv (perhaps compressed) or .parquet; other files in a folder are
ignored. Columns are identified by name, in any case and order: date, open, high, low, close, volume, and symbol, ticker
or name; other columns are ignored. Files in one folder may have different columns, and Parquet files different types. A
CSV file without a column of symbols has the symbol in its name (AAPL.csv).

Nothing is guessed or dropped: columns that are not numeric are read as text, and a row becomes either a bar or a reject
with the first reason that applies:

- ``malformed row: too few or too many fields``
- ``symbol is not in UTF-8: convert the file``, as of a file in Latin-1
- ``C is missing``: empty, or the word null that Yahoo writes
- ``date is not of the form yyyy-mm-dd``; a time after it is ignored
- ``C is not a number``, ``C is not finite``, ``C is not above zero`` (a price)
- ``volume is not a whole number``, ``volume is negative``, ``volume is too large``
- ``high is below low``, ``open lies outside low to high``, ``close lies outside low to high``: the last two by more
  than half a cent, since less is rounding. Real data has such rows (12 of 619,040 in five years of the S&P 500), off by
  10 cents to 17 dollars. Such a bar is wrong somewhere, but it does not show where.
- ``repeats the symbol and date of another row``: of several bars of a symbol and day, the one with the largest volume
  is kept (an unfinished day has less). Among equal volumes the greatest prices decide, so every run keeps the same bar.

Blank lines are ignored. One task reads a whole CSV file, since a quoted field may contain line breaks.
"""

from __future__ import annotations

import csv
import functools
import re
import urllib.parse
from collections.abc import Sequence

import pyarrow
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, IntegralType, StringType, StructField, StructType

from octopia.errors import InvalidData
from octopia.pipeline.schemas import BARS, PRICES, REJECTS
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.pipeline.sql_conditions import quoted
from octopia.workloads.places import for_spark, locate

SYMBOL_NAMES = ("symbol", "ticker", "name")
"""The possible names of the column of symbols, by precedence: ``name`` may be the name of the company."""
HALF_A_CENT = 0.005
_WANTED = tuple(name for name in BARS.names if name != "symbol")
_NUMBERS = (*PRICES, "volume")
_TOO_LARGE = 2.0**63
_EXACT = (DoubleType, IntegralType, DecimalType)
"""Types that convert to numbers directly, without text."""

_CSV = re.compile(r"\.csv(\.(gz|bz2|zst))?$", re.IGNORECASE)
_PARQUET = re.compile(r"\.parquet$", re.IGNORECASE)
_PARQUET_GLOB = "*.[pP][aA][rR][qQ][uU][eE][tT]"
_EXTENSION = r"(?i)\.csv(\.\w+)?$"
_DATE = r"^(\d{4}-\d{2}-\d{2})([ T]\d{2}:\d{2}.*)?$"
_NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)$|^nan$"
_BLANKS = " \t\r\n\ufeff"
_REPLACED = "\ufffd"
"""The character that stands for bytes that are not UTF-8."""
_VERBATIM = {
    "escape": '"',
    "emptyValue": "",
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
_MALFORMED, _SOURCE, _RAW = "malformed", "source", "raw"


def read_rows(spark: SparkSession, path: str) -> DataFrame:
    """Return all rows of a file, a folder or a glob, each with the reason for its rejection, or null.

    ``bars_of`` and ``rejects_of`` split them. Persist the rows before, or they are read and checked twice.
    """
    try:
        files = spark.read.text(for_spark(path)).inputFiles()
        parts = _read_csv(spark, path) if _is_csv(files, path) else _read_parquet(spark, path, files)
        checked = [part.transform(_parsed).transform(_checked) for part in parts]
    except SPARK_ERRORS as error:
        raise InvalidData(f"expected CSV or Parquet files at {path}, got: {spark_message(error)}") from error
    return _united(checked).transform(_without_repeats).transform(_with_content)


def bars_of(rows: DataFrame) -> DataFrame:
    """Return the bars (``BARS``) among rows."""
    return rows.where(F.col("reason").isNull()).select(*BARS.names)


def rejects_of(rows: DataFrame) -> DataFrame:
    """Return the rejected rows (``REJECTS``)."""
    return rows.where(F.col("reason").isNotNull()).select(*REJECTS.names)


# From files to rows of source, the raw row, malformed, and the seven unparsed values.


def _is_csv(files: Sequence[str], path: str) -> bool:
    has_csv, has_parquet = any(map(_CSV.search, files)), any(map(_PARQUET.search, files))
    if has_csv and has_parquet:
        raise InvalidData(
            f"expected CSV or Parquet files at {path}, got both: choose one kind with a glob such as {path}/*.csv"
        )
    if not has_csv and not has_parquet:
        got = ", ".join(sorted(each.rsplit("/", 1)[-1] for each in files)[:3]) or "no files"
        raise InvalidData(f"expected files at {path} whose names end in .csv or .parquet, got {got}")
    return has_csv


def _read_parquet(spark: SparkSession, path: str, files: Sequence[str]) -> list[DataFrame]:
    """Return the rows of Parquet files; those of each schema are read separately, since Spark takes one for all."""
    by_schema: dict[str, list[str]] = {}
    tables = [file for file in files if _PARQUET.search(file)]
    for file in tables if len(tables) > 1 else ():
        by_schema.setdefault(_schema_of(file), []).append(file)
    reader = spark.read.option("pathGlobFilter", _PARQUET_GLOB)
    if len(by_schema) <= 1:
        return [_parquet_values(reader.parquet(for_spark(path)), path)]
    return [_parquet_values(reader.parquet(*map(_unquoted, same)), same[0]) for _, same in sorted(by_schema.items())]


def _schema_of(file: str) -> str:
    """Return the columns and types of a Parquet file, read from its footer."""
    system, place = locate(file)
    try:
        return str(parquet.read_schema(place, filesystem=system).to_string(show_schema_metadata=False))
    except (pyarrow.ArrowException, OSError):
        raise InvalidData(f"the file {place} cannot be read: it is not Parquet, or it is damaged") from None


def _unquoted(file: str) -> str:
    """Return the path in a URI, with the characters escaped by which Spark would take it as a pattern."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", urllib.parse.unquote(file))


def _parquet_values(frame: DataFrame, path: str) -> DataFrame:
    names = frame.columns
    columns = _columns_of(names, path)
    if "symbol" not in columns:
        raise _missing(["symbol"], names, path)
    # A 32-bit float of 15.07 is 15.07 as text, but 15.069999694824219 as a double.
    typed = [
        column if isinstance(field.dataType, _EXACT) else column.cast("string")
        for column, field in ((F.col(quoted(field.name)), field) for field in frame.schema)
    ]
    rows = frame.select(*typed, F.lit(None).cast("string"), _file_name())
    return _values(rows.toDF(*_numbered(names), _MALFORMED, _SOURCE), columns)


def _read_csv(spark: SparkSession, path: str) -> list[DataFrame]:
    """Return the rows of CSV files; those of each header are read separately, since Spark ignores column names."""
    files_by_header: dict[tuple[str, ...], list[str]] = {}
    for file, header in _headers(spark, path):
        files_by_header.setdefault(tuple(next(csv.reader([header]))), []).append(file)
    if not files_by_header:
        raise InvalidData(f"expected a header of {', '.join(_WANTED)} at {path}, got an empty file")
    return [_read_csv_files(spark, path, list(header), files) for header, files in sorted(files_by_header.items())]


def _headers(spark: SparkSession, path: str) -> list[tuple[str, str]]:
    """Return the first non-blank line of each CSV file."""
    lines = spark.read.text(for_spark(path)).select(
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("start"),
        F.trim("value", F.lit(_BLANKS)).alias("line"),
        F.monotonically_increasing_id().alias("order"),
    )
    first = lines.where("start = 0 and line != ''").groupBy("file").agg(F.min_by("line", "order"))
    return sorted((file, line) for file, line in first.collect() if _CSV.search(file))


def _read_csv_files(spark: SparkSession, path: str, header: Sequence[str], files: Sequence[str]) -> DataFrame:
    names = [name.strip(_BLANKS) for name in header]
    columns = _columns_of(names, files[0])
    reader = spark.read.options(
        header=True,
        multiLine=True,
        escape='"',
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=_MALFORMED,
        columnPruning=False,  # with pruning, rows with too many fields may pass as valid
    )
    texts = StructType([StructField(name, StringType()) for name in (*_numbered(names), _MALFORMED)])
    frame = reader.schema(texts).csv(for_spark(path)).where(F.col("_metadata.file_path").isin(*files))
    rows = frame.select(*texts.names, _file_name().alias(_SOURCE))
    # Spark reads a line of blanks as a row with too few fields.
    return _values(rows.where(F.col(_MALFORMED).isNull() | (F.trim(_MALFORMED, F.lit(_BLANKS)) != "")), columns)


def _file_name() -> Column:
    """Return the file name, decoded from a URI, in which a plus sign stands for itself."""
    return F.url_decode(F.regexp_replace("_metadata.file_name", r"\+", "%2B"))


def _values(rows: DataFrame, columns: dict[str, str]) -> DataFrame:
    """Rename numbered columns to the values that they hold, and add the whole row as one value."""
    numbered = [name for name in rows.columns if name not in (_MALFORMED, _SOURCE)]
    symbol = F.col(columns["symbol"]) if "symbol" in columns else F.regexp_replace(_SOURCE, _EXTENSION, "")
    values = [F.col(columns[name]).alias(name) for name in _WANTED]
    return rows.select(_SOURCE, F.struct(*numbered).alias(_RAW), _MALFORMED, symbol.alias("symbol"), *values)


def _columns_of(names: Sequence[str], where: str) -> dict[str, str]:
    """Return the numbered column of each value, and of the symbol if there is one."""
    lowered = [name.lower() for name in names]
    missing = [name for name in _WANTED if name not in lowered]
    if missing:
        raise _missing(missing, names, where)
    symbols = [name for name in SYMBOL_NAMES if name in lowered][:1]
    twice = [name for name in (*_WANTED, *symbols) if lowered.count(name) > 1]
    if twice:
        raise InvalidData(f"expected one column {twice[0]} in {where}, got several: {', '.join(names)}")
    numbered = dict(zip(lowered, _numbered(names), strict=True))
    found = {name: numbered[name] for name in _WANTED}
    return found | {"symbol": numbered[symbols[0]]} if symbols else found


def _missing(missing: Sequence[str], names: Sequence[str], where: str) -> InvalidData:
    return InvalidData(
        f"expected the columns {', '.join(_WANTED)} and {' or '.join(SYMBOL_NAMES)} in {where}, "
        f"got {', '.join(names)}: add or rename {', '.join(missing)}"
    )


def _numbered(names: Sequence[str]) -> list[str]:
    return [f"c{number}" for number in range(len(names))]


# From rows to bars and reasons.


def _parsed(rows: DataFrame) -> DataFrame:
    """Add typed values, null where they cannot be parsed; the unparsed values stay as ``given_X``."""
    is_text = {field.name: isinstance(field.dataType, StringType) for field in rows.schema}
    given = [(_text(name) if is_text[name] else F.col(name)).alias(f"given_{name}") for name in BARS.names]
    return rows.select(_SOURCE, _RAW, _MALFORMED, *given).select(
        "*",
        F.col("given_symbol").cast("string").alias("symbol"),
        F.regexp_extract(F.col("given_date").cast("string"), _DATE, 1).try_cast("date").alias("date"),
        *(_number(name, is_text[name]).alias(name) for name in _NUMBERS),
    )


def _text(name: str) -> Column:
    trimmed = F.trim(name, F.lit(_BLANKS))
    return F.when(~F.lower(trimmed).isin("", "null"), trimmed)


def _number(name: str, is_text: bool) -> Column:
    given = F.col(f"given_{name}")
    return F.when(given.rlike(_NUMBER), given.try_cast("double")) if is_text else given.cast("double")


def _checked(rows: DataFrame) -> DataFrame:
    """Add the reason for rejecting a row, or null; the volume becomes a whole number."""
    reasons = [F.when(condition, F.lit(reason)) for condition, reason in _objections()]
    exact = F.coalesce(F.col("given_volume").try_cast("bigint"), F.col("volume").try_cast("bigint"))
    reason = F.coalesce(*reasons).alias("reason")
    return rows.select(_SOURCE, _RAW, _MALFORMED, "symbol", "date", *PRICES, exact.alias("volume"), reason)


def _objections() -> list[tuple[Column, str]]:
    high, low, volume = F.col("high"), F.col("low"), F.col("volume")
    found = [
        (F.col(_MALFORMED).isNotNull(), "malformed row: too few or too many fields"),
        (F.col("symbol").contains(_REPLACED), "symbol is not in UTF-8: convert the file"),
    ]
    found += [(F.col(f"given_{name}").isNull(), f"{name} is missing") for name in BARS.names]
    found += [(F.col("date").isNull(), "date is not of the form yyyy-mm-dd")]
    found += [(F.col(name).isNull(), f"{name} is not a number") for name in _NUMBERS]
    found += [(F.isnan(name) | (F.abs(name) == float("inf")), f"{name} is not finite") for name in _NUMBERS]
    found += [(F.col(name) <= 0, f"{name} is not above zero") for name in PRICES]
    found += [
        (volume < 0, "volume is negative"),
        (volume >= _TOO_LARGE, "volume is too large"),
        (volume != F.floor(volume), "volume is not a whole number"),
        (high < low, "high is below low"),
    ]
    for name in ("open", "close"):
        outside = (F.col(name) > high + HALF_A_CENT) | (F.col(name) < low - HALF_A_CENT)
        found.append((outside, f"{name} lies outside low to high"))
    return found


def _united(parts: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of parts; if these have different columns, whole rows become texts first."""
    if len(parts) == 1:
        return parts[0]
    texts = [part.withColumn(_RAW, F.to_csv(_RAW, _VERBATIM)) for part in parts]
    return functools.reduce(DataFrame.unionByName, texts)


def _without_repeats(rows: DataFrame) -> DataFrame:
    """Reject all but one of the valid rows of a symbol and day."""
    order = [F.col(name).desc() for name in ("volume", *reversed(PRICES))]
    same = Window.partitionBy("symbol", "date", F.col("reason").isNull()).orderBy(*order, _SOURCE)
    is_repeat = F.col("reason").isNull() & (F.row_number().over(same) > 1)
    repeated = F.when(is_repeat, F.lit("repeats the symbol and date of another row"))
    return rows.select(_SOURCE, _RAW, _MALFORMED, *BARS.names, F.coalesce("reason", repeated).alias("reason"))


def _with_content(rows: DataFrame) -> DataFrame:
    """Add the whole row as one text to rejects, which are few: for all rows it would take a seventh of the time."""
    is_text = isinstance(rows.schema[_RAW].dataType, StringType)
    text = F.coalesce(_MALFORMED, F.col(_RAW) if is_text else F.to_csv(_RAW, _VERBATIM))
    content = F.when(F.col("reason").isNotNull(), text).alias("content")
    return rows.select(_SOURCE, content, *BARS.names, "reason")
