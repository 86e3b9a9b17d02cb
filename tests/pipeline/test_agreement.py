"""Live delivery, history, tables and both engines of the truth give the same rows, from a spool and from an archive."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructType
from recorders import until
from truth_cases import DOUBLES, STRINGS, WHOLES

import octopia
from octopia.content import And, Expression, Not, Operator, Or, Predicate, Value, contains, suffix
from octopia.content.language import format_expression, parse_expression, parse_filter
from octopia.errors import InvalidFilter
from octopia.pipeline.historic import history_rows
from octopia.pipeline.schemas import ISSUED
from octopia.pipeline.sql_conditions import SqlColumn, condition_of
from octopia.pipeline.storage import Storage
from octopia.pipeline.truth import matches, matches_by_sql
from octopia.records import archive
from octopia.records.history import Records
from octopia.records.recording import Recording, record
from octopia.records.rows import Row
from octopia.records.selection import Question
from octopia.records.spool import SpoolReader

KINDS = {"t": StringType(), "w": LongType(), "d": DoubleType(), "b": BooleanType()}
POOLS: dict[str, tuple[Value, ...]] = {"t": STRINGS, "w": WHOLES, "d": DOUBLES, "b": (True, False)}
COMPARISONS = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE)
PATIENCE_S = 120.0

Pairs = set[tuple[int, int]]
"""Numbers of publications, and of the filters that they match."""


def random_publication(chance: random.Random) -> dict[str, Value]:
    chosen = {name: chance.choice(pool) for name, pool in POOLS.items() if chance.random() < 0.8}
    return chosen or {"w": 0}


def random_predicate(chance: random.Random) -> Expression:
    name = chance.choice([*POOLS, "missing"])
    pool = POOLS.get(name, WHOLES)
    value = chance.choice(pool)
    kind = chance.random()
    if kind < 0.1:
        return Predicate(name, chance.choice((Operator.EXISTS, Operator.ABSENT)))
    if kind < 0.25:
        return Predicate(name, Operator.IN, tuple(chance.sample(pool, min(3, len(pool)))))
    if kind < 0.5 and isinstance(value, str):
        part = value[:2]
        return chance.choice((Predicate(name, Operator.PREFIX, part), suffix(name, part), contains(name, part)))
    return Predicate(name, chance.choice(COMPARISONS[:2] if isinstance(value, bool) else COMPARISONS), value)


def random_filter(chance: random.Random, depth: int = 2) -> Expression:
    if depth == 0 or chance.random() < 0.3:
        return random_predicate(chance)
    kind = chance.choice((And, And, Or, Not))
    if kind is Not:
        return Not(random_filter(chance, depth - 1))
    return kind(tuple(random_filter(chance, depth - 1) for _ in range(chance.randrange(2, 4))))


def random_filters(chance: random.Random, count: int) -> list[str]:
    """Filters that brokers accept."""
    texts: list[str] = []
    while len(texts) < count:
        text = format_expression(random_filter(chance))
        try:
            parse_filter(text)
        except InvalidFilter:
            continue
        texts.append(text)
    return texts


async def live(folder: Path, publications: Sequence[dict[str, Value]], filters: Sequence[str]) -> Pairs:
    """Publish, deliver to one subscription per filter, and spool everything."""
    found: Pairs = set()
    async with octopia.Overlay.local("path:2", 2) as overlay, overlay.connect("a.0") as subscriber:
        for number, text in enumerate(filters):
            # With the number of its filter; a publication that comes twice is an error.
            def take(received: octopia.Received, number: int = number) -> None:
                pair = (int(received.payload), number)
                assert pair not in found
                found.add(pair)

            await subscriber.subscribe(text, callback=take)
        ends: list[int] = []
        last = await subscriber.subscribe("end = TRUE", callback=lambda _: ends.append(1))
        is_ready, stop = asyncio.Event(), asyncio.Event()
        everything = Recording("w IS NOT NULL OR w IS NULL", folder)
        recording = asyncio.create_task(record(overlay.url("b.1"), everything, stop, lambda _: is_ready.set()))
        await is_ready.wait()
        async with overlay.connect("a.1") as publisher:
            await publisher.advertise(" AND ".join(f"{name} IS NOT NULL" for name in [*POOLS, "end"]), ordered=True)
            await publisher.publish_many((each, str(number).encode()) for number, each in enumerate(publications))
            await publisher.publish({"end": True}, str(len(publications)).encode())
        await until(lambda: bool(ends) and SpoolReader(folder).end_offset > len(publications))
        await last.unsubscribe()
        stop.set()
        await recording
    return {pair for pair in found if pair[0] < len(publications)}


def pairs_of(ask: Callable[[Question], Iterable[Row]], filters: Sequence[str], count: int) -> Pairs:
    """Return the pairs of a way to find rows."""
    found = {
        (int(row.publication.payload), number)
        for number, text in enumerate(filters)
        for row in ask(Question(text, has_notices=False))
        if row.publication is not None
    }
    return {pair for pair in found if pair[0] < count}


def rolled(folder: Path, count: int) -> None:
    """Roll the spool of an archive into several files, so that some need not be read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "_ROWS_AT_ONCE", count // 6)
        with archive.Archive(folder, SpoolReader(archive.spool_of(folder)).interest) as writer:
            assert writer.roll().files >= 6


def tabled(spark: SparkSession, folder: Path, filters: Sequence[str], count: int) -> Pairs:
    """Read tables with the brokers' filters."""
    found = {
        (int(bytes(row["payload"])), number)
        for number, text in enumerate(filters)
        for row in spark.read.format("octopia")
        .schema("payload binary")
        .option("filter", text)
        .load(str(folder))
        .collect()
    }
    return {pair for pair in found if pair[0] < count}


def pushed(spark: SparkSession, folder: Path, filters: Sequence[str], count: int) -> Pairs:
    """Let Spark filter typed columns, with its filters pushed down."""
    schema = StructType().add("payload", "binary")
    for name, kind in KINDS.items():
        schema = schema.add(name, kind)
    columns = {name: SqlColumn(name, kind) for name, kind in KINDS.items()}
    reader = spark.read.format("octopia").schema(schema).option("pushdown", "true")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = {
            (int(bytes(row["payload"])), number)
            for number, text in enumerate(filters)
            # Spark keeps the filters that were pushed into a table, so each question has a table of its own.
            for row in reader.load(str(folder)).where(condition_of(parse_expression(text), columns)).collect()
        }
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    return {pair for pair in found if pair[0] < count}


def truths(
    spark: SparkSession, folder: Path, publications: Sequence[dict[str, Value]], filters: Sequence[str]
) -> list[Pairs]:
    """Return the pairs of both engines."""
    schema = StructType().add("number", LongType())
    for name, kind in KINDS.items():
        schema = schema.add(name, kind)
    rows = [(number, *(each.get(name) for name in KINDS)) for number, each in enumerate(publications)]
    frame = spark.createDataFrame(rows, schema)
    values = {field.name: None for field in ISSUED.fields}
    issued = [
        tuple({**values, "number": number, "filter": text, "id": f"s{number}", "client": "c"}[name] for name in values)
        for number, text in enumerate(filters)
    ]
    Storage().write(spark.createDataFrame(issued, ISSUED), str(folder))
    fast = matches(frame, str(folder)).collect()
    by_sql = matches_by_sql(frame, list(enumerate(filters))).collect()
    return [{(row["publication"], row["subscription"]) for row in found} for found in (fast, by_sql)]


def check_agreement(spark: SparkSession, folder: Path, publications: int, filters: int, pushed_filters: int) -> int:
    chance = random.Random(publications)
    published = [random_publication(chance) for _ in range(publications)]
    texts = random_filters(chance, filters)
    archived = folder / "archive"
    spool = archive.spool_of(archived)
    delivered = asyncio.run(live(spool, published, texts))
    assert pairs_of(Records(spool).rows, texts, publications) == delivered
    fast, by_sql = truths(spark, folder / "issued", published, texts)
    assert fast == delivered
    assert by_sql == delivered
    some = {pair for pair in delivered if pair[1] < pushed_filters}
    assert pushed(spark, spool, texts[:pushed_filters], publications) == some
    rolled(archived, publications)
    assert pairs_of(Records(archived).rows, texts, publications) == delivered
    assert tabled(spark, archived, texts[:pushed_filters], publications) == some
    assert pairs_of(functools.partial(history_rows, spark, archived), texts[:pushed_filters], publications) == some
    return len(delivered)


def test_all_ways_give_the_same_rows(spark: SparkSession, tmp_path: Path):
    assert check_agreement(spark, tmp_path, 300, 20, 2) > 500


@pytest.mark.soak
def test_all_ways_give_the_same_rows_of_ten_thousand_publications_and_500_filters(spark: SparkSession, tmp_path: Path):
    assert check_agreement(spark, tmp_path, 10_000, 500, 500) > 100_000
