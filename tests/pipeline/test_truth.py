from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from test_benchmark_truth import load_benchmark
from test_sql_conditions import drawn
from truth_cases import carried, publications, table_of, trees

from octopia.content import Expression, evaluate, format_expression, parse_expression, parse_filter
from octopia.errors import InvalidData, InvalidFilter
from octopia.pipeline.schemas import ISSUED, MATCHES, PUBLICATIONS
from octopia.pipeline.storage import Storage
from octopia.pipeline.truth import COMPARISONS_PER_TASK, check_filters, matches, matches_by_sql, spread

benchmark = load_benchmark()


def pairs_of(found: DataFrame) -> list[tuple[int, int]]:
    table = found.toArrow()
    return sorted(zip(table["publication"].to_pylist(), table["subscription"].to_pylist(), strict=True))


def write_filters(spark: SparkSession, storage: Storage, texts: list[str], name: str = "subscriptions") -> str:
    storage.write(spark.createDataFrame(benchmark.issued(texts), ISSUED), name)
    return storage.path(name)


def text_of(tree: Expression) -> str:
    try:
        return format_expression(tree)
    except InvalidFilter:
        return ""


def is_filter(text: str) -> bool:
    """True if the text can be parsed: infinities have no literal, so some trees have no text."""
    try:
        parse_filter(text)
    except InvalidFilter:
        return False
    return True


def test_both_engines_find_the_same_boxes_however_the_data_is_parted(spark: SparkSession, tmp_path: Path):
    chance = np.random.default_rng(3)
    table = benchmark.make_publications(2_000, chance)
    texts = benchmark.make_filters(table, 300, 0.02, chance)
    storage = Storage(str(tmp_path))
    path = write_filters(spark, storage, texts)
    storage.write(spark.createDataFrame(table, PUBLICATIONS), "publications")
    frame = storage.read(spark, "publications", PUBLICATIONS)
    one, two, eight = (pairs_of(matches(frame.repartition(partitions), path)) for partitions in (1, 2, 8))
    assert 0.01 < len(one) / (2_000 * 300) < 0.04
    assert one == two == eight
    assert pairs_of(matches_by_sql(frame, list(enumerate(texts)), chunk=200)) == one


def test_both_engines_find_what_brokers_find_with_any_filter(spark: SparkSession, tmp_path: Path):
    texts = [text for tree in drawn(trees, 36) if is_filter(text := text_of(tree))]
    texts += [f"w >= {bound} AND NOT t = '{text}'" for bound in range(-1, 5) for text in ("a", "b")]
    rows = drawn(publications, 40)
    expected = sorted(
        (row, number)
        for number, text in enumerate(texts)
        for row, values in enumerate(rows)
        if evaluate(parse_expression(text), carried(values)) is True
    )
    frame = spark.createDataFrame(pa.table(table_of(rows))).repartition(2)
    path = write_filters(spark, Storage(str(tmp_path)), texts)
    assert pairs_of(matches(frame, path)) == expected
    assert pairs_of(matches_by_sql(frame, list(enumerate(texts)))) == expected


def test_a_bad_filter_is_refused_by_the_name_of_its_subscription(spark: SparkSession):
    frame = spark.createDataFrame(pa.table(table_of([{"w": 1}])))
    issued = spark.createDataFrame(benchmark.issued(["w = 1", "w = = 1", "w ="]), ISSUED)
    with pytest.raises(InvalidData, match=r"subscription b\.0#1, got: expected"):
        check_filters(issued)
    with pytest.raises(InvalidData, match="subscription 1, got: expected"):
        matches_by_sql(frame, [(0, "w = 1"), (1, "w = = 1")])


def test_subscriptions_that_are_not_there_are_refused(spark: SparkSession, tmp_path: Path):
    with pytest.raises(InvalidData, match="expected a finished table"):
        matches(spark.createDataFrame(pa.table(table_of([{"w": 1}]))), str(tmp_path / "nothing"))


def test_workers_notice_that_subscriptions_were_replaced(spark: SparkSession, tmp_path: Path):
    frame, storage = spark.createDataFrame(pa.table(table_of([{"w": 1}]))), Storage(str(tmp_path))
    assert pairs_of(matches(frame, write_filters(spark, storage, ["w = 1"]))) == [(0, 0)]
    assert pairs_of(matches(frame, write_filters(spark, storage, ["w = 2", "w IS NOT NULL"]))) == [(0, 1)]


def test_some_subscriptions_are_asked_alone(spark: SparkSession, tmp_path: Path):
    frame = spark.createDataFrame(pa.table(table_of([{"w": 1}])))
    path = write_filters(spark, Storage(str(tmp_path)), ["w = 1"] * 7)
    assert pairs_of(matches(frame, path, every=3)) == [(0, 0), (0, 3), (0, 6)]


def test_work_is_divided_by_its_amount_and_not_by_files(spark: SparkSession, tmp_path: Path):
    storage = Storage(str(tmp_path))
    storage.write(spark.range(10_000).withColumnRenamed("id", "number").coalesce(1), "publications")
    assert len(list((tmp_path / "publications").glob("*.parquet"))) == 1
    read = storage.read(spark, "publications")
    parts = spread(read, 10_000, 9_000).groupBy(F.spark_partition_id()).agg(F.min("number"), F.max("number")).collect()
    assert len(parts) == -(-10_000 * 9_000 // COMPARISONS_PER_TASK) == 5
    ends = sorted((low, high) for _, low, high in parts)
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(ends))
    assert spread(read, 10, 10).groupBy(F.spark_partition_id()).count().count() == 1


def test_odd_columns(spark: SparkSession, tmp_path: Path):
    # Two names that differ in case, one with characters that Spark replaces, narrow types, and other columns.
    schema = "number int, at_ms double, `x` int, `X` string, `${env:HOME}` float, `a``.b` smallint"
    frame = spark.createDataFrame([(5, 1.0, 1, "one", 0.5, 3)], schema)
    texts = ["x = 1", "X = 'one'", '"${env:HOME}" = 0.5', '"a`.b" = 3', "at_ms IS NULL", "number IS NULL"]
    path = write_filters(spark, Storage(str(tmp_path)), texts)
    assert pairs_of(matches(frame, path)) == [(5, number) for number in range(len(texts))]
    assert pairs_of(matches_by_sql(frame, list(enumerate(texts)))) == [(5, number) for number in range(len(texts))]


def test_without_subscriptions_nothing_matches(spark: SparkSession, tmp_path: Path):
    frame = spark.createDataFrame(pa.table(table_of([{"w": 1}])))
    path = write_filters(spark, Storage(str(tmp_path)), [])
    for found in (matches(frame, path), matches_by_sql(frame, [])):
        assert found.columns == MATCHES.names
        assert pairs_of(found) == []


def test_publications_without_a_number_or_with_a_date_are_refused(spark: SparkSession):
    with pytest.raises(InvalidData, match="expected a column number"):
        matches_by_sql(spark.createDataFrame([(1,)], "x bigint"), [(0, "x = 1")])
    with pytest.raises(InvalidData, match="attribute x as a string"):
        matches_by_sql(spark.createDataFrame([], "number bigint, x date"), [(0, "x = 1")])
