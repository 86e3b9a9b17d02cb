"""Measure how the stages of the pipeline grow, in processor seconds of Java and of all Python processes.

For each number of publications and subscriptions, it makes a workload, finds its truth, writes a trace in which
every match is delivered once, audits it, and computes all metrics. If duckdb is installed, it finds the same truth with
a join of all publications and the bounds of all filters. The benchmark fails if the two truths differ, if the audit
finds a fault, or if a metric counts other deliveries than there are matches.

Processor seconds need Linux. The first stage of the first size includes the start of the workers and compilation.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from octopia.content.predicates import bounds, scalar
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.jobs import Market, Workspace, audit_runs, compute_metrics, find_truth, make_workload
from octopia.pipeline.progress import Stages
from octopia.pipeline.schemas import ATTRIBUTES, TRACE
from octopia.pipeline.spark_session import make_session
from octopia.pipeline.spec import WorkloadSpec
from octopia.pipeline.storage import Storage
from octopia.workloads.arrow import read_table
from octopia.workloads.workload import load_workload

PUBLISHERS = 100
DEFAULT_PUBLICATIONS = (10_000, 40_000, 160_000)
DEFAULT_SUBSCRIPTIONS = (2_000, 10_000)
RUN = "benchmark"
LOOK_S = 0.25
"""The time between two looks at all processes."""


class Clock:
    """Adds up the processor seconds of stages, by name."""

    def __init__(self, processors: Processors) -> None:
        self.seconds: dict[str, float] = {}
        self._processors = processors

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a block."""
        begin = self._processors.seconds()
        yield
        self.seconds[f"{name}_s"] = round(self._processors.seconds() - begin, 2)


class Processors:
    """The processor time of this process and of all below it, including those that have ended.

    Spark ends workers whose parent is gone, so that no process has their time. A thread therefore looks at all
    processes several times per second, and what it has seen of a process stays in the sum.
    """

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._watching.join()

    def seconds(self) -> float:
        """Return the time of all processes that were ever seen."""
        with self._lock:
            self._look()
            return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_S):
            with self._lock:
                self._look()

    def _look(self) -> None:
        parents: dict[int, int] = {}
        found: dict[int, tuple[int, int]] = {}
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                with contextlib.suppress(OSError):
                    fields = (each / "stat").read_text().rpartition(")")[2].split()
                    parents[int(each.name)] = int(fields[1])
                    # When it started, and its user and system time.
                    found[int(each.name)] = int(fields[19]), int(fields[11]) + int(fields[12])
        for pid, (started, ticks) in found.items():
            if (pid, started) in self._ticks or _is_below(pid, parents):
                self._ticks[pid, started] = ticks


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == os.getpid():
            return True
        pid = parents[pid]
    return False


def measure(
    workspace: Workspace, processors: Processors, folder: str, publications: int, subscriptions: int, seed: int
) -> dict[str, Any]:
    """Run all stages at one size, and check their results."""
    storage, clock = workspace.storage, Clock(processors)
    each = max(1, publications // PUBLISHERS)
    spec = WorkloadSpec(publishers=PUBLISHERS, publications=each, subscribers=subscriptions, seed=seed)
    begin = time.perf_counter()
    with clock.stage("workload"):
        made = make_workload(workspace, folder, spec, Market())
    with clock.stage("truth"):
        matches = find_truth(workspace, folder)
    write_trace(workspace, folder)
    with clock.stage("audit"):
        (audited,) = audit_runs(workspace, [f"{folder}/trace.parquet"], folder, f"{folder}/faults")
    with clock.stage("metrics"):
        found = compute_metrics(workspace, f"{folder}/trace.parquet")
    wall_s = time.perf_counter() - begin
    counted = found["publication_delay"][0][0]["deliveries"]
    faults = {name: audited[name] for name in ("missing", "unwanted", "duplicates") if audited[name]}
    if faults or counted != matches:
        raise SystemExit(f"WRONG: {matches} matches, {counted} deliveries counted, faults {faults}")
    peer = duckdb_truth(storage.path(folder), clock)
    if peer is not None and peer != digest(storage.read(workspace.spark, f"{folder}/truth")):
        raise SystemExit(f"WRONG: duckdb found another truth than Spark: {peer}")
    size = {"publications": made.manifest["publications"], "subscriptions": subscriptions, "matches": matches}
    return {**size, **clock.seconds, "wall_s": round(wall_s, 1)}


def write_trace(workspace: Workspace, folder: str) -> None:
    """Write a trace in which every publication is accepted and every match delivered, two milliseconds later."""
    spark, storage = workspace.spark, workspace.storage
    times = storage.read(spark, f"{folder}/publications").select(F.col("number").alias("publication"), "at_ms")
    names = storage.read(spark, f"{folder}/subscriptions").select(F.col("number").alias("subscription"), "id", "client")
    pairs = storage.read(spark, f"{folder}/truth").join(times, on="publication", how="inner")
    delivered = pairs.join(names, on="subscription", how="inner").select(
        F.lit("deliver").alias("event"),
        "publication",
        "client",
        F.col("id").alias("subscription"),
        F.lit(2).alias("hop"),
        F.col("at_ms").alias("published_ms"),
        (F.col("at_ms") + 2).alias("time_ms"),
    )
    accepted = times.select(F.lit("receive").alias("event"), "publication", F.col("at_ms").alias("time_ms"))
    rows = delivered.unionByName(accepted, allowMissingColumns=True).withColumns(
        {
            "run_id": F.lit(RUN),
            "algorithm": F.lit("static"),
            "kind": F.lit("publication"),
            "link": F.lit("client"),
            "broker": F.lit("a.0"),
        }
    )
    known = [F.col(each.name) if each.name in rows.columns else F.lit(None).alias(each.name) for each in TRACE]
    typed = rows.select(*known)
    storage.write(typed.select(*(typed[each.name].cast(each.dataType) for each in TRACE)), f"{folder}/trace.parquet")


def digest(pairs: DataFrame) -> tuple[int, int]:
    """Return the number of pairs, and a sum that another pair would change."""
    # A prime keeps pairs with the same sum of numbers apart.
    told = pairs.agg(F.count("*"), F.sum(F.pmod(F.col("publication") * 7919 + F.col("subscription"), 1_000_003)))
    found = told.first()
    assert found is not None
    return found[0], found[1] or 0


def duckdb_truth(folder: str, clock: Clock) -> tuple[int, int] | None:
    """Return the same digest, found by duckdb, or nothing if it is not installed."""
    if importlib.util.find_spec("duckdb") is None:
        print("duckdb is not installed, so there is nothing to compare with", file=sys.stderr)
        return None
    import duckdb

    publications, filters = read_table(f"{folder}/publications"), bounds_of(folder)
    conditions = " AND ".join(f"p.{name} BETWEEN f.{name}_low AND f.{name}_high" for name in ATTRIBUTES)
    with clock.stage("duckdb_truth"), duckdb.connect() as connection:
        connection.register("publications", publications)
        connection.register("filters", filters)
        found = connection.execute(
            "SELECT count(*), sum((p.number * 7919 + f.subscription) % 1000003) "
            f"FROM publications p JOIN filters f ON {conditions}"
        ).fetchone()
    return int(found[0]), int(found[1] or 0)


def bounds_of(folder: str) -> pa.Table:
    """Return the bounds of all subscriptions of a workload, which are boxes, as columns."""
    columns: dict[str, list[Any]] = {"subscription": []}
    for number, issued in enumerate(load_workload(folder, 1).subscriptions):
        (box,) = issued.filter.filters
        columns["subscription"].append(number)
        for name, (predicate,) in box.by_attribute.items():
            is_range = isinstance(predicate.operand, tuple)
            low, high = bounds(predicate) if is_range else (scalar(predicate),) * 2
            columns.setdefault(f"{name}_low", []).append(low)
            columns.setdefault(f"{name}_high", []).append(high)
    return pa.table(columns)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, nargs="+", default=DEFAULT_PUBLICATIONS, help="%(default)s")
    parser.add_argument("--subscriptions", type=int, nargs="+", default=DEFAULT_SUBSCRIPTIONS, help="%(default)s")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--master", default="local[*]", help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON objects")
    options = parser.parse_args(arguments)
    active = SparkSession.getActiveSession()
    # An existing session is used as it is: making one would change its settings.
    spark = active or make_session(PipelineSettings(master=options.master), "octopia benchmark of the pipeline")
    try:
        with tempfile.TemporaryDirectory() as folder, Processors() as processors:
            workspace = Workspace(spark, Storage(folder), Stages(spark, Console(file=io.StringIO())))
            for subscriptions in options.subscriptions:
                for publications in options.publications:
                    name = f"{publications}x{subscriptions}"
                    found = measure(workspace, processors, name, publications, subscriptions, options.seed)
                    print(json.dumps(found) if options.json else _line(found), flush=True)
                    workspace.storage.remove(name)
    finally:
        if active is None:
            spark.stop()


def _line(found: dict[str, Any]) -> str:
    size = f"{found['publications']:,} publications x {found['subscriptions']:,} subscriptions"
    measured = [(name.removesuffix("_s"), value) for name, value in found.items() if name.endswith("_s")]
    stages = ", ".join(f"{name} {value:,.1f} s" for name, value in measured)
    return f"{size}, {found['matches']:,} matches: {stages}"


if __name__ == "__main__":
    main(sys.argv[1:])
