"""The truth: every pair of a publication and a subscription that matches, found by two engines.

``matches`` is the fast engine: NumPy in Spark's workers (see ``vectorised``), on the normal form of filters.
``matches_by_sql`` is the second opinion: Spark SQL alone (see ``sql_engine`` and ``sql_conditions``), on the trees that
the parser returns. They share the parser, the operands of predicates and the types that predicates accept.

Workers read the subscriptions by path and keep them for the next task. Neither engine moves publications between
partitions: ``spread`` divides them first, by the amount of work rather than by the files that they happen to be in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, FloatType, IntegerType, ShortType, StructField, StructType

from octopia.content.filters import Disjunction
from octopia.content.language import parse_filter
from octopia.errors import InvalidData, InvalidFilter, JobFailed
from octopia.pipeline.schemas import MATCHES, NUMBER, TEXT, WHOLE
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.pipeline.sql_conditions import SqlColumn, check_columns
from octopia.pipeline.sql_engine import pairs_of, shape_of
from octopia.pipeline.storage import Storage
from octopia.pipeline.vectorised import KEY, Matcher, Pairs
from octopia.workloads.arrow import read_table
from octopia.workloads.forms import FORM, read_filter
from octopia.workloads.places import absolute, fingerprint
from octopia.workloads.workload import ABOUT_PUBLICATIONS

PAIRS_MAX = 500_000
"""The approximate number of pairs that a worker collects per batch."""
COMPARISONS_PER_TASK = 20_000_000
"""The number of pairs of a publication and a subscription per task: about a second of work."""
_PARSING_TASKS = 16
CHUNK = 10_000
"""The maximum number of subscriptions per pass of the SQL engine."""
_ARROW_MATCHES = pa.schema([(name, pa.int64()) for name in MATCHES.names])
_FAULTS = StructType([StructField(KEY, WHOLE), StructField("id", TEXT), StructField("reason", TEXT)])
_ARROW_FAULTS = pa.schema([(KEY, pa.int64()), ("id", pa.string()), ("reason", pa.string())])
_WIDER: dict[type[DataType], DataType] = {ByteType: WHOLE, ShortType: WHOLE, IntegerType: WHOLE, FloatType: NUMBER}


def spread(publications: DataFrame, publications_count: int, subscriptions_count: int) -> DataFrame:
    """Return publications in as many partitions as there is work for, each with a range of numbers.

    Ranges keep the pairs of neighbouring publications in the same files, so a part of them is found by reading few.
    """
    tasks = -(-publications_count * subscriptions_count // COMPARISONS_PER_TASK)
    return publications.repartitionByRange(max(1, tasks), KEY)


def matches(publications: DataFrame, subscriptions_path: str, every: int = 1) -> DataFrame:
    """Return the pairs that match, found by the fast engine; the path is that of a complete table of ``ISSUED``.

    Only subscriptions whose number is a multiple of ``every`` are matched. All filters must be valid, which
    ``check_filters`` checks.
    """
    path = absolute(subscriptions_path)
    Storage().require_table(path)
    frame, columns = _positional(publications)
    return frame.mapInArrow(_mapper(path, fingerprint(path), every, (KEY, *columns)), MATCHES)


def matches_by_sql(publications: DataFrame, subscriptions: Sequence[tuple[int, str]], chunk: int = CHUNK) -> DataFrame:
    """Return the pairs that match, found by Spark SQL; publications are read once per chunk of subscriptions."""
    frame, columns = _positional(publications)
    return pairs_of(frame, [shape_of(number, text, columns) for number, text in subscriptions], columns, chunk)


def check_filters(subscriptions: DataFrame) -> None:
    """Raise an error that names the first subscription with an invalid filter, if there is one."""
    has_forms = FORM in subscriptions.columns
    given = subscriptions.select(KEY, "id", "filter", *([FORM] if has_forms else ()))
    if not has_forms:
        # Parsing takes a millisecond per filter, so it is spread over the workers even if the table is a single file.
        given = given.repartition(_PARSING_TASKS, KEY)
    try:
        found = given.mapInArrow(_faults, _FAULTS).orderBy(KEY).limit(1).collect()
    except SPARK_ERRORS as error:
        raise JobFailed(f"expected to parse the filters of subscriptions, got: {spark_message(error)}") from error
    for fault in found:
        raise InvalidData(f"expected a filter in the subscription {fault['id']}, got: {fault['reason']}")


def attributes_of(publications: DataFrame) -> dict[str, DataType]:
    """Return the attributes among the columns of publications, with the types for comparisons."""
    fields = [each for each in publications.schema.fields if each.name not in ABOUT_PUBLICATIONS]
    return {each.name: _WIDER.get(type(each.dataType), each.dataType) for each in fields}


def _positional(publications: DataFrame) -> tuple[DataFrame, dict[str, SqlColumn]]:
    """Return publications with numbered columns, and the column of each attribute.

    Attributes are case-sensitive and may have any name, while Spark ignores case and replaces some characters in SQL.
    """
    names = publications.columns
    if KEY not in names:
        raise InvalidData(f"expected a column {KEY} in the publications, got {', '.join(names)}")
    frame = publications.toDF(*(f"c{at}" for at in range(len(names))))
    columns = {name: SqlColumn(f"c{names.index(name)}", kind) for name, kind in attributes_of(publications).items()}
    check_columns(columns)
    number = F.col(f"c{names.index(KEY)}").cast(WHOLE).alias(KEY)
    values = [F.col(column.reference).cast(column.kind).alias(column.reference) for column in columns.values()]
    return frame.select(number, *values), columns


# The fast engine.


def _mapper(
    path: str, version: str, every: int, names: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = _matcher(path, version, every)
        named = (pa.RecordBatch.from_arrays(each.columns, names=list(names)) for each in batches)
        for pairs in _gathered(chunk for batch in named for chunk in matcher.chunks(batch)):
            yield pa.RecordBatch.from_arrays([pa.array(each) for each in pairs], schema=_ARROW_MATCHES)

    return find


@functools.lru_cache(maxsize=2)
def _matcher(path: str, version: str, every: int) -> Matcher:
    """Return the matcher of a table of subscriptions; each worker builds it once."""
    table = read_table(path, (KEY, "filter", FORM))
    table = table.filter(pa.array(table[KEY].to_numpy() % every == 0)).sort_by(KEY)
    texts = table["filter"].to_pylist()
    forms = dict(zip(texts, _forms(table), strict=True))
    return Matcher(zip(table[KEY].to_pylist(), texts, strict=True), lambda text: _read(text, forms[text]))


def _forms(rows: pa.Table | pa.RecordBatch) -> list[bytes | None]:
    """Return the parsed filters of rows, or nothing for each if the table has none."""
    return list(rows.column(FORM).to_pylist()) if FORM in rows.schema.names else [None] * rows.num_rows


@functools.lru_cache(maxsize=1 << 14)
def _parse(text: str) -> Disjunction:
    """Return a parsed filter; it is cached from the check, since parsing takes most of the time."""
    return parse_filter(text)


def _read(text: str, form: bytes | None) -> Disjunction:
    return _parse(text) if form is None else read_filter(text, form)


def _gathered(chunks: Iterable[Pairs]) -> Iterator[Pairs]:
    """Yield pairs in larger chunks."""
    waiting: list[Pairs] = []
    size = 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk[0])
        if size >= PAIRS_MAX:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(chunks: Sequence[Pairs]) -> Pairs:
    publications, subscriptions = zip(*chunks, strict=True)
    return np.concatenate(publications), np.concatenate(subscriptions)


def _faults(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        faults = list(map(_fault, batch.column("filter").to_pylist(), _forms(batch)))
        bad = pa.array([each is not None for each in faults], pa.bool_())
        columns = [batch.column(KEY), batch.column("id"), pa.array(faults, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_FAULTS).filter(bad)


def _fault(text: str | None, form: bytes | None) -> str | None:
    if text is None:
        return "expected the text of a filter, got null"
    try:
        _read(text, form)
    except InvalidFilter as error:
        return str(error)
    return None
