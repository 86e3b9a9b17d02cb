"""Workloads: publications, advertisements and subscriptions of a wanted selectivity, and clients on brokers.

``WorkloadMaker`` makes the tables one after the other, since later ones are drawn from earlier ones: subscriptions are
boxes around publications, or around what some publishers advertise. What workers need for that they read by path. The
same spec gives the same rows, whatever the partitioning and the number of cores.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from octopia.pipeline.boxes import Box, RankSpace, filter_text, hull
from octopia.pipeline.drawing import drawn, generator
from octopia.pipeline.placing import Places
from octopia.pipeline.publishing import BURST, publisher_name
from octopia.pipeline.schemas import ATTRIBUTES, ISSUED
from octopia.pipeline.spec import Meaning, WorkloadSpec
from octopia.playing.files import read_arrow

POOL = 20_000
"""How many publications boxes are drawn from, at most; a box holds about the same share of all the others."""
_NUMBERS = tuple(name for name in ATTRIBUTES if name != "symbol")


def offers(publications: DataFrame) -> DataFrame:
    """Return the box around all publications of each publisher: its symbols, and the ends of every range."""
    ends = [end(name).alias(f"{end.__name__}_{name}") for name in _NUMBERS for end in (F.min, F.max)]
    return publications.groupBy("publisher").agg(F.sort_array(F.collect_set("symbol")).alias("symbols"), *ends)


def pool(publications: DataFrame, seed: int, size: int = POOL) -> DataFrame:
    """Return some publications, in an order that only the seed decides; those of a burst are not among them."""
    ordinary = publications.where(F.col("publisher") != BURST)
    order = drawn(seed, "pool", F.col("number"))
    return ordinary.select(*ATTRIBUTES, "number", order.alias("order")).orderBy("order", "number").limit(size)


def advertisements(offers: DataFrame, spec: WorkloadSpec) -> DataFrame:
    """Return what every publisher advertises (schema ISSUED): just what it will publish."""
    places = Places.of(spec)

    def issue(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield _issued([_advertisement(row, spec, places) for row in batch.to_pylist()])

    return offers.mapInArrow(issue, ISSUED)


def subscriptions(spark: SparkSession, spec: WorkloadSpec, offers_path: str, pool_path: str) -> DataFrame:
    """Return what every subscriber asks for (schema ISSUED), given where the offers and the pool lie."""
    drawer = _Drawer(spec, Places.of(spec), offers_path, pool_path)

    def issue(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield _issued([drawer.subscription(number) for number in batch.column("id").to_pylist()])

    return spark.range(spec.subscribers).mapInArrow(issue, ISSUED)


def _advertisement(row: dict[str, Any], spec: WorkloadSpec, places: Places) -> dict[str, Any]:
    name = row["publisher"]
    is_burst = name == BURST
    return {
        "number": spec.publishers if is_burst else int(name[1:]),
        "id": f"{name}/0",
        "client": name,
        "broker": places.publisher(name),
        "filter": filter_text(_box_of(row)),
        "is_burst": is_burst,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _Drawer:
    """Draws subscriptions, wherever it is sent; the tables that it needs are read when they are needed."""

    spec: WorkloadSpec
    places: Places
    offers_path: str
    pool_path: str

    def subscription(self, number: int) -> dict[str, Any]:
        is_burst = number < self.spec.burst_subscribers
        boxes = [self._box(number)]
        if is_burst:
            boxes.append(_read_offers(self.offers_path)[BURST])
        return {
            "number": number,
            "id": f"s{number}/0",
            "client": f"s{number}",
            "broker": self.places.subscriber(number),
            "filter": filter_text(*boxes),
            "is_burst": is_burst,
        }

    def _box(self, number: int) -> Box:
        chance = generator(self.spec.seed, "subscriptions", number)
        if self.spec.meaning is Meaning.PUBLISHERS:
            wanted = chance.choice(self.spec.publishers, self.spec.publishers_each, replace=False)
            offered = _read_offers(self.offers_path)
            return hull([offered[publisher_name(int(each))] for each in sorted(wanted)])
        space = _read_pool(self.pool_path)
        return space.box(int(chance.integers(space.size)), round(self.spec.selectivity * space.size))


@functools.lru_cache(maxsize=4)
def _read_offers(path: str) -> dict[str, Box]:
    return {row["publisher"]: _box_of(row) for row in read_arrow(path).to_pylist()}


@functools.lru_cache(maxsize=4)
def _read_pool(path: str) -> RankSpace:
    table = read_arrow(path).sort_by([("order", "ascending"), ("number", "ascending")])
    return RankSpace(table.select(list(ATTRIBUTES)))


def _box_of(row: dict[str, Any]) -> Box:
    return Box({name: (row[f"min_{name}"], row[f"max_{name}"]) for name in _NUMBERS}, tuple(row["symbols"]))


_ISSUED_ARROW = pyarrow.schema(
    [
        ("number", pyarrow.int64()),
        ("id", pyarrow.string()),
        ("client", pyarrow.string()),
        ("broker", pyarrow.string()),
        ("filter", pyarrow.string()),
        ("is_burst", pyarrow.bool_()),
    ]
)


def _issued(rows: list[dict[str, Any]]) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_pylist(rows, schema=_ISSUED_ARROW)
