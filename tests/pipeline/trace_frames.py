"""Traces for tests: rows written by hand or by the simulator, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from octopia.broker import Detail
from octopia.pipeline.schemas import TRACE
from octopia.scenario import Scenario
from octopia.settings import Algorithm
from octopia.simulator.profiles import find_profile
from octopia.simulator.run import Run, run_scenario
from octopia.trace import COLUMNS, FLOATS, INTEGERS, Row
from support import RowList

_ARROW = {name: pa.float64() if name in FLOATS else pa.int64() if name in INTEGERS else pa.string() for name in COLUMNS}


def fact(
    event: str, time_ms: float, broker: str = "a.0", run: str = "run", algorithm: str = "static", **rest: Any
) -> Row:
    """Write a row by hand."""
    return Row(run_id=run, algorithm=algorithm, event=event, broker=broker, time_ms=time_ms, **rest)


def deliver(time_ms: float, publication: int, subscription: str, published_ms: float, run: str = "run") -> Row:
    """Write a delivery by hand."""
    rest: dict[str, Any] = {"kind": "publication", "link": "client", "publication": publication}
    return fact("deliver", time_ms, run=run, subscription=subscription, published_ms=published_ms, **rest)


def frame_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Make a table of rows."""
    columns = {name: pa.array([getattr(row, name) for row in rows], _ARROW[name]) for name in COLUMNS}
    return spark.createDataFrame(pa.table(columns), TRACE)


def play(scenario: Scenario, algorithm: Algorithm, profile: str, seed: int) -> tuple[Run, list[Row]]:
    """Run a scenario, and return its trace; the seed is part of the run's id."""
    rows = RowList()
    run = run_scenario(
        scenario.with_algorithm(algorithm),
        seed=seed,
        profile=find_profile(profile),
        detail=Detail.ALL,
        sinks=[rows],
    )
    return run, rows.rows


def table(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return the rows of a small table in order."""
    return sorted(map(tuple, frame.collect()), key=repr)


def by_run(frame: DataFrame) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """Return the rows of a small table in order, by run and algorithm."""
    found = defaultdict(list)
    for row in table(frame):
        found[row[:2]].append(row[2:])
    return found
