"""The truth: every pair of a publication and a subscription that matches, by two engines.

``matches`` is the fast one: NumPy in Spark's workers (see ``vectorised``), on the normal form of filters.
``matches_by_columns`` is the second opinion: Spark's SQL alone (see ``columns`` and ``shapes``), on the trees that
people wrote. They share the parser of filters, what an operand is and which types a predicate takes.

Workers get the subscriptions by path and keep them for the next task. Neither engine moves publications between
partitions, so how many of these the publications have is how many cores can work.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, FloatType, IntegerType, ShortType, StructField, StructType

from octopia.content.filters import Disjunction
from octopia.content.language import parse_filter
from octopia.errors import InvalidData, InvalidFilter, JobFailed
from octopia.pipeline.columns import Place, check_places
from octopia.pipeline.schemas import ABOUT_PUBLICATIONS, MATCHES, NUMBER, TEXT, WHOLE
from octopia.pipeline.session import SPARK_ERRORS
from octopia.pipeline.shapes import pairs_of, shape_of
from octopia.pipeline.storage import Storage
from octopia.pipeline.vectorised import KEY, Matcher, Pairs
from octopia.playing.files import absolute, first_line, locate, read_arrow

PAIRS_MAX = 500_000
"""How many pairs a worker gathers before it hands them on, about."""
CHUNK = 10_000
"""Subscriptions, at most, that the second engine takes at once."""
_ARROW_MATCHES = pa.schema([(name, pa.int64()) for name in MATCHES.names])
_FAULTS = StructType([StructField(KEY, WHOLE), StructField("id", TEXT), StructField("reason", TEXT)])
_ARROW_FAULTS = pa.schema([(KEY, pa.int64()), ("id", pa.string()), ("reason", pa.string())])
_WIDER: dict[type[DataType], DataType] = {ByteType: WHOLE, ShortType: WHOLE, IntegerType: WHOLE, FloatType: NUMBER}


def matches(publications: DataFrame, subscriptions_path: str, every: int = 1) -> DataFrame:
    """Return the pairs that match, by the fast engine; the path is that of a finished table of ``ISSUED``.

    Only subscriptions whose number ``every`` divides are asked. Their filters must be such as can be parsed; of those
    that others wrote, ``check_filters`` tells which one is not.
    """
    path = absolute(subscriptions_path)
    Storage().require_table(path)
    frame, places = _positional(publications)
    return frame.mapInArrow(_mapper(path, _version(path), every, (KEY, *places)), MATCHES)


def matches_by_columns(
    publications: DataFrame, subscriptions: Sequence[tuple[int, str]], chunk: int = CHUNK
) -> DataFrame:
    """Return the pairs that match, by Spark's SQL; publications are read once for each chunk of subscriptions."""
    frame, places = _positional(publications)
    return pairs_of(frame, [shape_of(number, text, places) for number, text in subscriptions], places, chunk)


def check_filters(subscriptions: DataFrame) -> None:
    """Refuse subscriptions of which some filter cannot be parsed; the error names the first of them."""
    # Parsing takes a millisecond a filter, so it is spread over the workers even if the table is a single file.
    partitions = int(subscriptions.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    spread = subscriptions.select(KEY, "id", "filter").repartition(partitions, KEY)
    try:
        faults = spread.mapInArrow(_faults, _FAULTS).orderBy(KEY).limit(1).collect()
    except SPARK_ERRORS as error:
        raise JobFailed(f"expected to parse the filters of subscriptions, got: {first_line(error)}") from error
    for fault in faults:
        raise InvalidData(f"expected a filter in the subscription {fault['id']}, got: {fault['reason']}")


def attributes_of(publications: DataFrame) -> dict[str, DataType]:
    """Return the columns of publications that are attributes, with the types in which they are compared."""
    fields = [each for each in publications.schema.fields if each.name not in ABOUT_PUBLICATIONS]
    return {each.name: _WIDER.get(type(each.dataType), each.dataType) for each in fields}


def _positional(publications: DataFrame) -> tuple[DataFrame, dict[str, Place]]:
    """Return publications with columns named by their place, and where attributes are.

    Attributes are case-sensitive and may be named anything, while Spark takes no notice of case and replaces some
    characters in texts of SQL.
    """
    names = publications.columns
    if KEY not in names:
        raise InvalidData(f"expected a column {KEY} in the publications, got {', '.join(names)}")
    frame = publications.toDF(*(f"c{at}" for at in range(len(names))))
    places = {name: Place(f"c{names.index(name)}", kind) for name, kind in attributes_of(publications).items()}
    check_places(places)
    number = F.col(f"c{names.index(KEY)}").cast(WHOLE).alias(KEY)
    values = [F.col(place.reference).cast(place.kind).alias(place.reference) for place in places.values()]
    return frame.select(number, *values), places


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
    """Read the subscriptions and make them ready, once in each worker."""
    table = read_arrow(path).select([KEY, "filter"])
    table = table.filter(pa.array(table[KEY].to_numpy() % every == 0)).sort_by(KEY)
    matcher = Matcher(zip(table[KEY].to_pylist(), table["filter"].to_pylist(), strict=True), _parse)
    _parse.cache_clear()
    return matcher


@functools.lru_cache(maxsize=1 << 14)
def _parse(text: str) -> Disjunction:
    """Parse a filter, or remember it from when this worker checked it: that is most of the time that matches take."""
    return parse_filter(text)


def _version(path: str) -> str:
    """Tell tables at the same path apart, so that no worker uses one that has been replaced."""
    system, place = locate(path)
    files = system.get_file_info(fs.FileSelector(place, recursive=True))
    told = sorted(f"{each.path} {each.size} {each.mtime_ns}" for each in files)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _gathered(chunks: Iterable[Pairs]) -> Iterator[Pairs]:
    """Join small chunks of pairs."""
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
        told = [_fault(text) for text in batch.column("filter").to_pylist()]
        bad = pa.array([each is not None for each in told], pa.bool_())
        columns = [batch.column(KEY), batch.column("id"), pa.array(told, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_FAULTS).filter(bad)


def _fault(text: str | None) -> str | None:
    if text is None:
        return "expected a text, got null"
    try:
        _parse(text)
    except InvalidFilter as error:
        return str(error)
    return None
