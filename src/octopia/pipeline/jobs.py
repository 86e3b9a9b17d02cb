"""The jobs of the pipeline: the only place that reads and writes tables.

Each job takes a ``Bench`` (a session, a storage and a display) and the names of folders. A workload's folder has::

    bars, rejects                                   what was read, and what was not, with reasons
    publications, advertisements, subscriptions     the workload
    offers, pool                                    what subscriptions were drawn from
    workload.json                                   what it was made from, written last
    truth                                           every match, if it was asked for
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from octopia.errors import InvalidData, JobFailed
from octopia.pipeline import audit as auditing
from octopia.pipeline import publishing, workload
from octopia.pipeline.ingest import bars_of, read_rows, rejects_of
from octopia.pipeline.market import synthetic_bars
from octopia.pipeline.progress import Stages
from octopia.pipeline.schemas import BARS, ISSUED, MATCHES, PUBLICATIONS
from octopia.pipeline.selectivity import Selectivity, burst_sample, matched, sampled
from octopia.pipeline.session import SPARK_ERRORS
from octopia.pipeline.spec import WorkloadSpec
from octopia.pipeline.storage import Storage
from octopia.pipeline.sweep import pending, sweep
from octopia.pipeline.traces import read_traces, trace_files
from octopia.pipeline.truth import check_filters, matches, matches_by_columns
from octopia.playing.files import MANIFEST, first_line
from octopia.playing.runs import MANIFEST as RUN
from octopia.playing.runs import Outcome, RunSpec

TRUTH = "truth"


@dataclasses.dataclass(frozen=True, slots=True)
class Market:
    """Where bars come from: a file or folder of them, or a market that is made up."""

    path: str | None = None
    symbols: int = 500
    days: int = 250


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """What a job works with."""

    spark: SparkSession
    storage: Storage
    stages: Stages

    def table(self, folder: str, name: str) -> str:
        """Return the full path of a table, as workers need it."""
        return self.storage.absolute(f"{folder}/{name}")


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """What came of making a workload."""

    manifest: dict[str, Any]
    rejects: dict[str, int]
    selectivity: Selectivity


def make_workload(bench: Bench, folder: str, spec: WorkloadSpec, market: Market) -> Made:
    """Make a workload in a folder; what was there of an earlier one is replaced."""
    spark, storage = bench.spark, bench.storage
    storage.remove_file(f"{folder}/{MANIFEST}")
    storage.remove(f"{folder}/{TRUTH}")
    rejects = ingest(bench, folder, market, spec.seed)
    bars = storage.read(spark, f"{folder}/bars", BARS)
    with bench.stages.stage("making publications") as tell:
        dealt = publishing.deal(publishing.symbols_of(bars), spec)
        made = publishing.publications(bars, dealt, spec)
        storage.write(made.repartitionByRange("number").sortWithinPartitions("number"), f"{folder}/publications")
        publications = storage.read(spark, f"{folder}/publications", PUBLICATIONS)
        count = storage.count_rows(f"{folder}/publications")
        tell(f"{count:,} about {len(dealt)} symbols")
    with bench.stages.stage("making advertisements") as tell:
        storage.write(workload.offers(publications), f"{folder}/offers")
        storage.write(workload.pool(publications, spec.seed), f"{folder}/pool")
        offers = storage.read(spark, f"{folder}/offers")
        storage.write(workload.advertisements(offers, spec), f"{folder}/advertisements")
        tell(f"{spec.publishers + (spec.burst is not None):,}")
    with bench.stages.stage("making subscriptions") as tell:
        paths = bench.table(folder, "offers"), bench.table(folder, "pool")
        storage.write(workload.subscriptions(spark, spec, *paths), f"{folder}/subscriptions")
        tell(f"{spec.subscribers:,}")
    with bench.stages.stage("measuring selectivity") as tell:
        selectivity = _measure(bench, folder, publications, count, spec)
        tell(f"{selectivity.of_publications:.2%} of publications, {selectivity.of_publishers:.2%} of publishers")
    manifest = _manifest(spec, market, count, selectivity, sum(rejects.values()))
    storage.write_json(f"{folder}/{MANIFEST}", manifest)
    return Made(manifest, rejects, selectivity)


def ingest(bench: Bench, folder: str, market: Market, seed: int) -> dict[str, int]:
    """Write bars and rejects into a folder; return the number of rejects by reason."""
    spark, storage = bench.spark, bench.storage
    with bench.stages.stage("reading bars" if market.path else "making up a market") as tell:
        storage.remove(f"{folder}/rejects")
        if market.path is None:
            bars = synthetic_bars(spark, symbols=market.symbols, days=market.days, seed=seed)
            storage.write(bars, f"{folder}/bars")
            rejected: dict[str, int] = {}
        else:
            rows = read_rows(spark, storage.absolute(market.path)).persist()
            try:
                storage.write(bars_of(rows), f"{folder}/bars")
                storage.write(rejects_of(rows), f"{folder}/rejects")
                by_reason = rejects_of(rows).groupBy("reason").count().collect()
            finally:
                rows.unpersist()
            rejected = {row["reason"]: row["count"] for row in sorted(by_reason)}
        count = storage.count_rows(f"{folder}/bars")
        tell(f"{count:,} bars" + (f", {sum(rejected.values()):,} rejected" if rejected else ""))
    return rejected


def _measure(bench: Bench, folder: str, publications: DataFrame, count: int, spec: WorkloadSpec) -> Selectivity:
    if not spec.subscribers:
        return Selectivity(0, 0.0, 0.0, None)
    path, sample = bench.table(folder, "subscriptions"), sampled(spec.subscribers)
    pairs, publishers = matched(matches(publications, path, every=sample.step), publications)
    ordinary = count - (spec.burst.publications if spec.burst else 0)
    of_burst = None
    if spec.burst is not None:
        wanted = matches(burst_sample(publications), path)
        of_burst = wanted.select("subscription").distinct().count() / spec.subscribers
    return Selectivity(
        measured=len(sample),
        of_publications=pairs / max(1, ordinary * len(sample)),
        of_publishers=publishers / (spec.publishers * len(sample)),
        of_burst=of_burst,
    )


def _manifest(
    spec: WorkloadSpec, market: Market, publications: int, selectivity: Selectivity, rejected: int
) -> dict[str, Any]:
    return {
        "overlay": {"tree": spec.tree, "clusters": spec.scot().clusters},
        "spec": spec.to_json(),
        "market": dataclasses.asdict(market),
        "publications": publications,
        "rejected": rejected,
        "selectivity": dataclasses.asdict(selectivity),
    }


def find_truth(bench: Bench, folder: str, *, by_columns: bool = False) -> int:
    """Write every match of a workload, by the fast engine or by Spark's own expressions, and return how many."""
    spark, storage = bench.spark, bench.storage
    publications = storage.read(spark, f"{folder}/publications")
    issued = storage.read(spark, f"{folder}/subscriptions", ISSUED)
    with bench.stages.stage("finding all matches" + (" with SQL" if by_columns else "")) as tell:
        check_filters(issued)
        if by_columns:
            texts = [(row.number, row.filter) for row in issued.select("number", "filter").orderBy("number").collect()]
            found = matches_by_columns(publications, texts)
        else:
            found = matches(publications, bench.table(folder, "subscriptions"))
        storage.write(found, f"{folder}/{TRUTH}")
        count = storage.count_rows(f"{folder}/{TRUTH}")
        tell(f"{count:,}")
    return count


def run_sweep(bench: Bench, runs: Sequence[RunSpec], folder: str) -> tuple[list[Outcome], int]:
    """Run what is not finished; return what came of it, and how many runs were finished before."""
    place = bench.storage.absolute(folder)
    left = pending(runs, place)
    done = len(runs) - len(left)
    if not left:
        # Nothing to show; what interrupted runs have left behind is removed all the same.
        return sweep(bench.spark, left, place), done
    with bench.stages.stage(f"simulating {len(left)} runs" + (f", {done} finished before" if done else "")) as tell:
        outcomes = sweep(bench.spark, left, place)
        failed = sum(1 for each in outcomes if each.error)
        tell(f"{failed} failed" if failed else "all finished")
    return outcomes, done


def run_audit(bench: Bench, traces: str, folder: str) -> list[dict[str, Any]]:
    """Compare deliveries with the truth of a workload; return one summary a run, and write the faults beside traces."""
    return audit_runs(bench, [traces], folder, f"{folder_of(traces)}/faults")


def audit_runs(bench: Bench, traces: Sequence[str], folder: str, out: str) -> list[dict[str, Any]]:
    """Audit several traces of one workload at once; return one summary a run, and write the faults to a table."""
    spark, storage = bench.spark, bench.storage
    if not storage.has_table(f"{folder}/{TRUTH}"):
        raise InvalidData(f"expected the truth of {folder}, got none: make it with octopia data truth {folder}")
    truth = storage.read(spark, f"{folder}/{TRUTH}", MATCHES)
    issued = storage.read(spark, f"{folder}/subscriptions", ISSUED)
    trace = read_traces(spark, storage, *traces)
    expected = _expected_publications(storage, traces, folder)
    where = ", ".join(traces)
    with bench.stages.stage("comparing deliveries with the truth") as tell:
        try:
            done = auditing.activity(trace)
            _check_complete(done, expected, where)
            doubtful = auditing.doubtful(trace, truth, issued).persist()
            faults = auditing.audit(trace, truth, issued, only=doubtful)
            # Nothing is looked for where nothing can be: the plan would read everything again.
            storage.write(faults if doubtful.count() else faults.limit(0), out)
            doubtful.unpersist()
            rows = auditing.summary(done, storage.read(spark, out))
        except SPARK_ERRORS as error:
            raise JobFailed(f"the audit of {where} failed: {first_line(error)}") from error
        tell(f"{sum(row['deliveries'] for row in rows):,} deliveries")
    return rows


def _check_complete(done: Sequence[Row], expected: dict[str, int], where: str) -> None:
    if not done:
        raise InvalidData(f"expected what happened in a run in {where}, got a trace without rows")
    for run in done:
        told = run["publications"] + run["refused"]
        wanted = expected.get(run["run_id"], 0)
        if told < wanted:
            raise InvalidData(f"expected {wanted:,} publications in the trace of {run['run_id']}, got {told:,}")


def _expected_publications(storage: Storage, traces: Sequence[str], folder: str) -> dict[str, int]:
    """Return how many publications each run has made, by what it left beside its trace; it must be of this workload."""
    workload = storage.read_json(f"{folder}/{MANIFEST}")
    expected = {}
    for file in (file for name in traces for file in trace_files(storage, name)):
        beside = f"{folder_of(file)}/{RUN}"
        if storage.exists(beside):
            identity = storage.read_json(beside)["identity"]
            if identity["workload"] != workload:
                raise InvalidData(f"expected runs of {folder}, got one of another workload: {file}")
            spec = identity["spec"]
            expected[spec["run_id"]] = min(spec["first"] or workload["publications"], workload["publications"])
    return expected


def folder_of(traces: str) -> str:
    """Return the folder in which results about traces are put: that of a sweep or a run, or the one around a file."""
    return traces.rpartition("/")[0] or "." if traces.endswith((".parquet", ".jsonl")) else traces


def rows_of(frame: DataFrame, most: int | None) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows of a table in order, all or the first so many, and whether there are more."""
    ordered = frame.orderBy(*frame.columns)
    rows = [row.asDict() for row in (ordered if most is None else ordered.limit(most + 1)).collect()]
    return rows[:most], most is not None and len(rows) > most


def write_csv(frame: DataFrame, storage: Storage, name: str) -> None:
    """Write a table as one CSV file in a folder, for those who draw it elsewhere."""
    frame.coalesce(1).write.mode("overwrite").option("header", True).csv(storage.absolute(name))
