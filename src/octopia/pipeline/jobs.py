"""The jobs of the pipeline: the only place that reads and writes tables.

Each job takes a ``Workspace`` (a session, a storage and a display) and the names of folders. A workload's folder has::

    bars, rejects                                   the input, and the rows that were rejected, with reasons
    publications, advertisements, subscriptions     the workload
    offers, pool                                    the tables that subscriptions were drawn from
    workload.json                                   the specification and the results, written last
    truth                                           every match, if requested

Tables are made in a draft folder, and replace earlier ones when all of them are complete.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from octopia.errors import InvalidData, JobFailed, UsageError
from octopia.pipeline import audit as auditing
from octopia.pipeline import generation, schedule
from octopia.pipeline.ingest import bars_of, read_rows, rejects_of
from octopia.pipeline.market import synthetic_bars
from octopia.pipeline.metrics import METRICS, SHARED, View
from octopia.pipeline.progress import Stages
from octopia.pipeline.schemas import BARS, ISSUED, MATCHES, PUBLICATIONS
from octopia.pipeline.selectivity import Selectivity, burst_sample, matched, sampled
from octopia.pipeline.spark_errors import SPARK_ERRORS, spark_message
from octopia.pipeline.spec import WorkloadSpec
from octopia.pipeline.storage import Storage
from octopia.pipeline.sweep import Outcome, pending, sweep
from octopia.pipeline.traces import read_traces, trace_files
from octopia.pipeline.truth import check_filters, matches, matches_by_sql, spread
from octopia.trace import RUN_FILE
from octopia.workloads.runs import RunSpec
from octopia.workloads.workload import TABLES, WORKLOAD_FILE

TRUTH = "truth"
_INPUT = ("bars", "rejects")
_DRAWN_FROM = ("offers", "pool")


@dataclasses.dataclass(frozen=True, slots=True)
class Market:
    """The source of bars: a file or folder, or a synthetic market."""

    path: str | None = None
    symbols: int = 500
    days: int = 250


@dataclasses.dataclass(frozen=True, slots=True)
class Workspace:
    """The session, the storage and the progress display of a job."""

    spark: SparkSession
    storage: Storage
    stages: Stages

    def table(self, folder: str, name: str) -> str:
        """Return the absolute path of a table, for use by workers."""
        return self.storage.absolute(f"{folder}/{name}")


@dataclasses.dataclass(frozen=True, slots=True)
class Made:
    """The results of making a workload."""

    manifest: dict[str, Any]
    rejects: dict[str, int]
    selectivity: Selectivity


def make_workload(workspace: Workspace, folder: str, spec: WorkloadSpec, market: Market) -> Made:
    """Make a workload in a folder; an earlier one stays until the new one is complete."""
    storage = workspace.storage
    with storage.draft(folder) as draft:
        made = _make(workspace, draft, spec, market)
        storage.remove_file(f"{folder}/{WORKLOAD_FILE}")
        storage.remove(f"{folder}/{TRUTH}")
        storage.adopt(draft, folder, (*_INPUT, *_DRAWN_FROM, *TABLES))
        storage.write_json(f"{folder}/{WORKLOAD_FILE}", made.manifest)
    return made


def _make(workspace: Workspace, folder: str, spec: WorkloadSpec, market: Market) -> Made:
    """Write all tables of a workload into a folder."""
    spark, storage = workspace.spark, workspace.storage
    rejects = _ingest(workspace, folder, market, spec.seed)
    bars = storage.read(spark, f"{folder}/bars", BARS)
    if market.path is not None and not storage.count_rows(f"{folder}/bars"):
        reasons = ", ".join(f"{reason} ({count:,} rows)" for reason, count in rejects.items())
        raise InvalidData(f"expected bars at {market.path}, got {f'only rejects: {reasons}' if reasons else 'no rows'}")
    with workspace.stages.stage("making publications") as report:
        dealt = schedule.deal(schedule.symbols_of(bars), spec)
        made = schedule.publications(bars, dealt, spec)
        storage.write(made.repartitionByRange("number").sortWithinPartitions("number"), f"{folder}/publications")
        publications = storage.read(spark, f"{folder}/publications", PUBLICATIONS)
        count = storage.count_rows(f"{folder}/publications")
        report(f"{count:,} about {len(dealt)} symbols")
    with workspace.stages.stage("making advertisements") as report:
        storage.write(generation.offers(publications), f"{folder}/offers")
        storage.write(generation.pool(publications, spec.seed), f"{folder}/pool")
        offers = storage.read(spark, f"{folder}/offers")
        storage.write(generation.advertisements(offers, spec), f"{folder}/advertisements")
        report(f"{spec.publishers + (spec.burst is not None):,}")
    with workspace.stages.stage("making subscriptions") as report:
        paths = workspace.table(folder, "offers"), workspace.table(folder, "pool")
        storage.write(generation.subscriptions(spark, spec, *paths), f"{folder}/subscriptions")
        report(f"{spec.subscribers:,}")
    with workspace.stages.stage("measuring selectivity") as report:
        selectivity = _measure(workspace, folder, publications, count, spec)
        report(f"{selectivity.of_publications:.2%} of publications, {selectivity.of_publishers:.2%} of publishers")
    manifest = _manifest(spec, market, count, selectivity, sum(rejects.values())) | {
        "digests": digests(workspace, folder)
    }
    return Made(manifest, rejects, selectivity)


def ingest(workspace: Workspace, folder: str, market: Market, seed: int) -> dict[str, int]:
    """Write bars and rejects into a folder, replacing earlier ones; return the number of rejects by reason."""
    with workspace.storage.draft(folder) as draft:
        rejects = _ingest(workspace, draft, market, seed)
        workspace.storage.adopt(draft, folder, _INPUT)
    return rejects


def _ingest(workspace: Workspace, folder: str, market: Market, seed: int) -> dict[str, int]:
    spark, storage = workspace.spark, workspace.storage
    with workspace.stages.stage("reading bars" if market.path else "making a synthetic market") as report:
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
        report(f"{count:,} bars" + (f", {sum(rejected.values()):,} rejected" if rejected else ""))
    return rejected


def _measure(workspace: Workspace, folder: str, publications: DataFrame, count: int, spec: WorkloadSpec) -> Selectivity:
    if not spec.subscribers:
        return Selectivity(0, 0.0, 0.0, None)
    path, sample = workspace.table(folder, "subscriptions"), sampled(spec.subscribers)
    pairs, publishers = matched(
        matches(spread(publications, count, len(sample)), path, every=sample.step), publications
    )
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


def digests(workspace: Workspace, folder: str) -> dict[str, str]:
    """Return a digest of the rows of each table, so that a run of other rows is never taken for one of these."""
    found = []
    for name in TABLES:
        frame = workspace.storage.read(workspace.spark, f"{folder}/{name}")
        digest = F.hex(F.bit_xor(F.xxhash64(*frame.columns)))
        found.append(frame.agg(F.lit(name).alias("name"), F.coalesce(digest, F.lit("")).alias("digest")))
    rows = functools.reduce(DataFrame.unionAll, found).collect()
    return {row.name: row.digest for row in rows}


def find_truth(workspace: Workspace, folder: str, *, by_sql: bool = False) -> int:
    """Write every match of a workload, found by the fast engine or by SQL, and return their number."""
    spark, storage = workspace.spark, workspace.storage
    publications = storage.read(spark, f"{folder}/publications")
    storage.require_writable(folder)
    issued = storage.read(spark, f"{folder}/subscriptions")
    with workspace.stages.stage("finding all matches" + (" with SQL" if by_sql else "")) as report:
        check_filters(issued)
        counts = (storage.count_rows(f"{folder}/{name}") for name in ("publications", "subscriptions"))
        publications = spread(publications, *counts)
        if by_sql:
            texts = [(row.number, row.filter) for row in issued.select("number", "filter").orderBy("number").collect()]
            found = matches_by_sql(publications, texts)
        else:
            found = matches(publications, workspace.table(folder, "subscriptions"))
        storage.write(found, f"{folder}/{TRUTH}")
        count = storage.count_rows(f"{folder}/{TRUTH}")
        report(f"{count:,}")
    return count


def run_sweep(workspace: Workspace, runs: Sequence[RunSpec], folder: str) -> tuple[list[Outcome], int]:
    """Run the unfinished runs; return their outcomes, and the number of runs that were finished before."""
    workspace.storage.require_writable(folder)
    place = workspace.storage.absolute(folder)
    left = pending(runs, place)
    done = len(runs) - len(left)
    if not left:
        # Nothing runs, but the remains of interrupted runs are removed.
        return sweep(workspace.spark, left, place), done
    with workspace.stages.stage(
        f"simulating {len(left)} runs" + (f", {done} already finished" if done else "")
    ) as report:
        outcomes = sweep(workspace.spark, left, place)
        failed = sum(1 for each in outcomes if each.error)
        report(f"{failed} failed" if failed else "all finished")
    return outcomes, done


def run_audit(workspace: Workspace, traces: str, folder: str) -> list[dict[str, Any]]:
    """Compare deliveries with the truth of a workload; return one summary per run, and write faults beside traces."""
    return audit_runs(workspace, [traces], folder, f"{folder_of(traces)}/faults")


def audit_runs(workspace: Workspace, traces: Sequence[str], folder: str, out: str) -> list[dict[str, Any]]:
    """Audit several traces of one workload together; return one summary per run, and write the faults to a table."""
    spark, storage = workspace.spark, workspace.storage
    if not storage.has_table(f"{folder}/{TRUTH}"):
        raise InvalidData(f"expected the truth of {folder}, got none: make it with octopia data truth {folder}")
    truth = storage.read(spark, f"{folder}/{TRUTH}", MATCHES)
    issued = storage.read(spark, f"{folder}/subscriptions", ISSUED)
    trace = read_traces(spark, storage, *traces)
    expected = _expected_publications(storage, traces, folder)
    storage.require_writable(posixpath.dirname(out))
    where = ", ".join(traces)
    with workspace.stages.stage("comparing deliveries with the truth") as report:
        try:
            done = auditing.activity(trace)
            _check_complete(done, expected, where)
            truth = auditing.published(truth, done)
            doubtful = auditing.doubtful(trace, truth, issued).persist()
            faults = auditing.audit(trace, truth, issued, only=doubtful)
            # Without doubtful publications there are no faults; looking for them would read everything again.
            storage.write(faults if doubtful.count() else faults.limit(0), out)
            doubtful.unpersist()
            rows = auditing.summary(done, storage.read(spark, out))
        except SPARK_ERRORS as error:
            raise JobFailed(f"the audit of {where} failed: {spark_message(error)}") from error
        report(f"{sum(row['deliveries'] for row in rows):,} deliveries")
    return rows


def _check_complete(done: Sequence[Row], expected: dict[str, int], where: str) -> None:
    if not done:
        raise InvalidData(f"expected the rows of a run in {where}, got an empty trace")
    for run in done:
        found = run["publications"] + run["refused"]
        wanted = expected.get(run["run_id"], 0)
        if found < wanted:
            raise InvalidData(f"expected {wanted:,} publications in the trace of {run['run_id']}, got {found:,}")


def _expected_publications(storage: Storage, traces: Sequence[str], folder: str) -> dict[str, int]:
    """Return the number of publications of each run, by the file beside its trace; the run must be of this workload."""
    workload = storage.read_json(f"{folder}/{WORKLOAD_FILE}")
    expected = {}
    for file in (file for name in traces for file in trace_files(storage, name)):
        beside = f"{folder_of(file)}/{RUN_FILE}"
        if storage.exists(beside):
            manifest = storage.read_json(beside)
            identity = manifest["identity"]
            if identity["workload"] != workload:
                raise InvalidData(f"expected runs of {folder}, got one of another workload: {file}")
            spec = identity["spec"]
            wanted = min(spec["first"] or workload["publications"], workload["publications"])
            expected[spec["run_id"]] = wanted - manifest.get("unsent", 0)
    return expected


def compute_metrics(
    workspace: Workspace, traces: str, wanted: Sequence[str] = (), csv: str | None = None, most: int | None = None
) -> dict[str, tuple[list[dict[str, Any]], bool]]:
    """Return the rows of metrics, or of all, at most ``most`` of each, and whether there are more.

    With ``csv``, each is also written into a folder of that name.
    """
    for each in wanted:
        if each not in METRICS:
            raise UsageError(f"expected a metric of {', '.join(METRICS)}, got {each}")
    trace = read_traces(workspace.spark, workspace.storage, traces)
    shown = {}
    with contextlib.ExitStack() as stack:
        tables = {base: stack.enter_context(_kept(base(trace))) for base in _needed_twice(wanted or METRICS)}
        for name in wanted or METRICS:
            with workspace.stages.stage(name.replace("_", " ")):
                base, view = SHARED.get(name, (None, None))
                frame = METRICS[name](trace) if view is None or base not in tables else view(tables[base])
                if csv is not None:
                    frame = stack.enter_context(_kept(frame))
                    write_csv(frame, workspace.storage, f"{csv}/{name}")
                shown[name] = rows_of(frame, most)
    return shown


def _needed_twice(wanted: Iterable[str]) -> list[View]:
    """Return the tables that several metrics are views of."""
    bases = Counter(SHARED[name][0] for name in wanted if name in SHARED)
    return [base for base, count in bases.items() if count > 1]


@contextlib.contextmanager
def _kept(frame: DataFrame) -> Iterator[DataFrame]:
    """Yield a small table that is computed once, however often it is used.

    The trace itself is not kept: a scan of a few columns costs less than keeping them all.
    """
    kept = frame.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def folder_of(traces: str) -> str:
    """Return the folder for results about traces: the sweep, the run, or the folder of a trace file."""
    return traces.rpartition("/")[0] or "." if traces.endswith((".parquet", ".jsonl")) else traces


def rows_of(frame: DataFrame, most: int | None) -> tuple[list[dict[str, Any]], bool]:
    """Return all rows of a table in order, or at most ``most``, and whether there are more."""
    ordered = frame.orderBy(*frame.columns)
    rows = [row.asDict() for row in (ordered if most is None else ordered.limit(most + 1)).collect()]
    return rows[:most], most is not None and len(rows) > most


def write_csv(frame: DataFrame, storage: Storage, name: str) -> None:
    """Write a table as one CSV file in a folder."""
    frame.coalesce(1).write.mode("overwrite").option("header", True).csv(storage.for_spark(name))
