"""The generation of advertisements, and of subscriptions with a given selectivity.

Subscriptions are boxes around publications, or around the advertisements of some publishers. Workers read the tables
that they draw from by path. The same spec gives the same rows, whatever the partitioning and the number of cores.
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
from octopia.pipeline.placement import Placement
from octopia.pipeline.randomness import drawn, generator
from octopia.pipeline.schedule import BURST, publisher_name
from octopia.pipeline.schemas import ATTRIBUTES, ISSUED_WITH_FORM
from octopia.pipeline.spec import Meaning, WorkloadSpec
from octopia.workloads import workload
from octopia.workloads.arrow import read_table
from octopia.workloads.forms import FORM, form_of
from octopia.workloads.places import fingerprint

POOL = 20_000
"""The maximum number of publications that boxes are drawn from; a box holds about the same share of all others."""
_NUMBERS = tuple(name for name in ATTRIBUTES if name != "symbol")


def offers(publications: DataFrame) -> DataFrame:
    """Return the box around all publications of each publisher: its symbols, and the bounds of every number."""
    ends = [end(name).alias(f"{end.__name__}_{name}") for name in _NUMBERS for end in (F.min, F.max)]
    return publications.groupBy("publisher").agg(F.sort_array(F.collect_set("symbol")).alias("symbols"), *ends)


def pool(publications: DataFrame, seed: int, size: int = POOL) -> DataFrame:
    """Return up to ``size`` publications outside a burst, in an order that depends on the seed alone."""
    ordinary = publications.where(F.col("publisher") != BURST)
    order = drawn(seed, "pool", F.col("number"))
    return ordinary.select(*ATTRIBUTES, "number", order.alias("order")).orderBy("order", "number").limit(size)


def advertisements(offers: DataFrame, spec: WorkloadSpec) -> DataFrame:
    """Return the advertisement of every publisher (``ISSUED_WITH_FORM``): the box around its publications."""
    placement = Placement.of(spec)

    def issue(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield _issued([_advertisement(row, spec, placement) for row in batch.to_pylist()])

    return offers.mapInArrow(issue, ISSUED_WITH_FORM)


def subscriptions(spark: SparkSession, spec: WorkloadSpec, offers_path: str, pool_path: str) -> DataFrame:
    """Return the subscription of every subscriber (``ISSUED_WITH_FORM``), given paths of the offers and the pool."""
    drawer = _Drawer(spec, Placement.of(spec), offers_path, pool_path, fingerprint(offers_path, pool_path))

    def issue(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield _issued([drawer.subscription(number) for number in batch.column("id").to_pylist()])

    return spark.range(spec.subscribers).mapInArrow(issue, ISSUED_WITH_FORM)


def _advertisement(row: dict[str, Any], spec: WorkloadSpec, placement: Placement) -> dict[str, Any]:
    name = row["publisher"]
    is_burst = name == BURST
    return {
        "number": spec.publishers if is_burst else int(name[1:]),
        "id": f"{name}/0",
        "client": name,
        "broker": placement.publisher(name),
        "filter": filter_text(_box_of(row)),
        "is_burst": is_burst,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class _Drawer:
    """Draws subscriptions in a worker, which reads the tables that it needs on first use."""

    spec: WorkloadSpec
    placement: Placement
    offers_path: str
    pool_path: str
    version: str

    def subscription(self, number: int) -> dict[str, Any]:
        is_burst = number < self.spec.burst_subscribers
        boxes = [self._box(number)]
        if is_burst:
            boxes.append(_read_offers(self.offers_path, self.version)[BURST])
        return {
            "number": number,
            "id": f"s{number}/0",
            "client": f"s{number}",
            "broker": self.placement.subscriber(number),
            "filter": filter_text(*boxes),
            "is_burst": is_burst,
        }

    def _box(self, number: int) -> Box:
        random = generator(self.spec.seed, "subscriptions", number)
        if self.spec.meaning is Meaning.PUBLISHERS:
            wanted = random.choice(self.spec.publishers, self.spec.publishers_each, replace=False)
            offered = _read_offers(self.offers_path, self.version)
            return hull([offered[publisher_name(int(each))] for each in sorted(wanted)])
        space = _read_pool(self.pool_path, self.version)
        return space.box(int(random.integers(space.size)), round(self.spec.selectivity * space.size))


@functools.lru_cache(maxsize=4)
def _read_offers(path: str, version: str) -> dict[str, Box]:
    return {row["publisher"]: _box_of(row) for row in read_table(path).to_pylist()}


@functools.lru_cache(maxsize=4)
def _read_pool(path: str, version: str) -> RankSpace:
    table = read_table(path).sort_by([("order", "ascending"), ("number", "ascending")])
    return RankSpace(table.select(list(ATTRIBUTES)))


def _box_of(row: dict[str, Any]) -> Box:
    return Box({name: (row[f"min_{name}"], row[f"max_{name}"]) for name in _NUMBERS}, tuple(row["symbols"]))


def _issued(rows: list[dict[str, Any]]) -> pyarrow.RecordBatch:
    with_forms = [{**row, FORM: form_of(row["filter"])} for row in rows]
    return pyarrow.RecordBatch.from_pylist(with_forms, schema=workload.ISSUED_WITH_FORM)
