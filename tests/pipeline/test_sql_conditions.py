from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, TimestampType
from truth_cases import EDGES, POOLS, carried, publications, table_of, trees

from octopia.content import Expression, Value, evaluate, parse_expression
from octopia.errors import InvalidData
from octopia.pipeline.sql_conditions import SqlColumn, check_columns, condition_of, quoted

TREES = 150
ROWS = 60
TYPES = {str: StringType(), int: LongType(), float: DoubleType(), bool: BooleanType()}
COLUMNS = {name: SqlColumn(quoted(name), TYPES[type(pool[0])]) for name, pool in POOLS.items()}


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Draw values that are the same in every run, all at once: one job per value would take minutes."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found


def answers(frame: DataFrame, asked: list[Expression]) -> list[list[bool | None]]:
    """The result of each expression for each publication, in order."""
    columns = [F.expr(condition_of(each, COLUMNS)).alias(f"answer{at}") for at, each in enumerate(asked)]
    return [list(row) for row in frame.orderBy("number").select(*columns).collect()]


def as_table(spark: SparkSession, folder: Path, batch: pa.RecordBatch) -> DataFrame:
    # From a file, because Spark does not compile expressions over local rows.
    pq.write_table(pa.table(batch), folder / "publications.parquet")
    return spark.read.parquet(str(folder / "publications.parquet"))


def test_conditions_answer_as_brokers_do(spark: SparkSession, tmp_path: Path):
    asked, rows = drawn(trees, TREES), drawn(publications, ROWS)
    frame = as_table(spark, tmp_path, table_of(rows))
    got = answers(frame, asked)
    wrong = [
        (tree, carried(values), answer)
        for values, line in zip(rows, got, strict=True)
        for tree, answer in zip(asked, line, strict=True)
        if evaluate(tree, carried(values)) is not answer
    ]
    assert not wrong
    assert {answer for line in got for answer in line} == {True, False, None}


def test_conditions_answer_so_in_every_edge_case(spark: SparkSession, tmp_path: Path):
    rows = [values for _, values, _ in EDGES]
    got = answers(as_table(spark, tmp_path, table_of(rows)), [parse_expression(text) for text, _, _ in EDGES])
    named = {(text, str(values)): got[at][at] for at, (text, values, _) in enumerate(EDGES)}
    assert named == {(text, str(values)): answer for text, values, answer in EDGES}


@pytest.mark.parametrize(("text", "values", "answer"), EDGES)
def test_brokers_answer_so_in_every_edge_case(text: str, values: dict[str, Value], answer: bool | None):
    assert evaluate(parse_expression(text), values) is answer


def test_columns_of_other_types_are_refused():
    with pytest.raises(InvalidData, match="attribute x as a string, bigint, double or boolean, got timestamp"):
        check_columns({"x": SqlColumn("x", TimestampType())})
