"""The whole evaluation: studies, tables, figures and the report, in one folder.

A folder is for one scale and for data of one kind. What was run before in it, and is not asked for now, is part of the
report as well: other studies, and other values of what a study varies.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.errors import JobFailed, UsageError
from octopia.experiments.paper.claims import CLAIMS
from octopia.experiments.paper.costs import Measuring, measure_costs
from octopia.experiments.paper.figures import draw_all
from octopia.experiments.paper.names import Name, Scale
from octopia.experiments.paper.real import run_really
from octopia.experiments.paper.report import write_report
from octopia.experiments.paper.running import run_study
from octopia.experiments.paper.sensitivity import vary
from octopia.experiments.paper.sizes import some
from octopia.experiments.paper.studies import Extent, Study, load_study
from octopia.experiments.paper.tables import (
    AuditRow,
    CostRow,
    Tables,
    key_of,
    read_csv,
    read_tables,
    write_csv,
    write_tables,
)
from octopia.settings import Algorithm
from octopia.simulator.profiles import find_profile
from octopia.workloads.provenance import commit, describe_machine
from octopia.workloads.workload import load_workload

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market
    from octopia.pipeline.jobs import Workspace as Bench

_DISTRIBUTIONS = ("octopia", "pyspark", "pyarrow", "numpy", "matplotlib")
_AUDITS = "audits.csv"
_MANIFEST = "manifest.json"
OVER_SOCKETS = (Name.DELIVERY, Name.BURST)
REAL = Extent(Scale.LAPTOP, real=True)
MEASURING = Measuring(rounds=15)


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluation:
    """What to evaluate, how large, and where everything goes."""

    studies: Sequence[Name]
    extent: Extent
    out: Path
    market: Market
    real: bool = False
    """Whether the studies that can run over real sockets run there as well."""


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """All that was found so far, in this evaluation and in earlier ones of the same folder."""

    tables: Tables
    audits: tuple[AuditRow, ...]
    commits: Mapping[Name, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Of which code the runs of the studies of this evaluation are; a run that was finished before keeps its own."""

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read what an earlier evaluation has left."""
        return cls(read_tables(folder), read_csv(folder / _AUDITS, AuditRow) if (folder / _AUDITS).exists() else ())

    def write(self, folder: Path) -> None:
        """Write everything as CSV files."""
        write_tables(self.tables, folder)
        write_csv(folder / _AUDITS, AuditRow, self.audits)

    def with_study(self, tables: Tables) -> Results:
        """Return the results with what a study gave in place of the rows for the same values of what it varies."""
        merged: dict[str, Any] = {}
        for field in dataclasses.fields(Tables):
            rows = getattr(tables, field.name)
            if rows:
                again = {key_of(row)[0] for row in rows}
                kept = (row for row in getattr(self.tables, field.name) if key_of(row)[0] not in again)
                merged[field.name] = (*kept, *rows)
        return dataclasses.replace(self, tables=dataclasses.replace(self.tables, **merged))

    def with_rows(self, table: str, rows: Sequence[Any], column: str) -> Results:
        """Return the results with rows in place of those of the same table that say the same in a column."""
        kept = _kept(getattr(self.tables, table), rows, column)
        return dataclasses.replace(self, tables=dataclasses.replace(self.tables, **{table: (*kept, *rows)}))

    def with_audits(self, audits: Sequence[AuditRow]) -> Results:
        """Return the results with audits in place of those of the same runs."""
        return dataclasses.replace(self, audits=(*_kept(self.audits, audits, "run"), *audits))

    def without_costs(self) -> Results:
        """Return the results without what the clock measured of the code."""
        return dataclasses.replace(self, tables=dataclasses.replace(self.tables, costs=()))


def _kept(before: Sequence[Any], now: Sequence[Any], column: str) -> Iterator[Any]:
    again = {getattr(row, column) for row in now}
    return (row for row in before if getattr(row, column) not in again)


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of an evaluation: the page of its report, and what went wrong."""

    page: Path
    faulty: tuple[AuditRow, ...]
    """The runs in which the audit found faults."""
    failed: Mapping[Name, JobFailed]
    """The studies that did not come to their end, with why."""


def evaluate(bench: Bench, wanted: Evaluation) -> Evaluated:
    """Run the studies, or what is left of them, and write the report.

    A study that fails keeps nobody from the others: what it has is in the report, and it goes on when asked for again.
    """
    started = _now()
    before = _manifest_before(wanted)
    manifest = manifest_of(wanted, before)
    folder = wanted.out / "tables"
    results = Results.read(folder)
    if _studies_of(before).get(Name.DELIVERY, {}).get("commit") != manifest["commit"]:
        # Other code may take another time.
        results = results.without_costs()
        results.write(folder)
    _write_manifest(wanted, manifest)
    failed: dict[Name, JobFailed] = {}
    for name in wanted.studies:
        try:
            for latest in _parts(bench, name, wanted, results):
                # After each part, so that nothing of it is lost if the next one is stopped.
                latest.write(folder)
                results = latest
        except JobFailed as error:
            failed[name] = error
            manifest["studies"][name] |= {"failed": str(error)}
        if name in results.commits:
            manifest["studies"][name] |= {"runs_of": list(results.commits[name])}
    figures = draw_all(results.tables, wanted.out / "figures")
    manifest |= {"started": started, "finished": _now()}
    _write_manifest(wanted, manifest)
    _, page = write_report(wanted.out, results.tables, CLAIMS, figures, manifest, results.audits)
    return Evaluated(page, tuple(row for row in results.audits if not row.is_clean), failed)


def _parts(bench: Bench, name: Name, wanted: Evaluation, results: Results) -> Iterator[Results]:
    """Run one study and all that belongs to it, and yield the results after each part."""
    study = load_study(name, wanted.extent)
    runs = sum(len(point.runs) for point in study.points)
    bench.stages.title(f"{study.title}: {some(len(study.points), 'workload')}, {some(runs, 'run')}")
    ran = run_study(bench, study, str(wanted.out / "runs"), wanted.market)
    results = results.with_study(ran.tables).with_audits(ran.audits)
    results = dataclasses.replace(results, commits={**results.commits, name: ran.commits})
    yield results
    if name is Name.DELIVERY:
        costs = _costs(bench, study, wanted.out / "runs", results.tables.costs)
        results = results.with_rows("costs", costs, "subscribers")
        yield results
    bench.stages.title(f"{study.title}, under other assumptions")
    varied = vary(bench, name, wanted.out / "sensitivity", wanted.market)
    results = results.with_rows("sensitivity", varied, "quantity")
    yield results
    if wanted.real and name in OVER_SOCKETS:
        bench.stages.title(f"{study.title}, over real sockets")
        ran_really = run_really(bench, load_study(name, REAL), wanted.out / "real", wanted.market)
        yield results.with_rows("real", ran_really.rows, "study").with_audits(ran_really.audits)


def _costs(bench: Bench, study: Study, runs: Path, before: Sequence[CostRow]) -> tuple[CostRow, ...]:
    """Measure what publications cost in the real code, for each number of subscribers for which that is not known."""
    known = {row.subscribers for row in before}
    rows: list[CostRow] = []
    for point in study.points:
        subscribers = point.workload.subscribers
        if subscribers not in known:
            known.add(subscribers)
            workload = load_workload(bench.storage.absolute(f"{runs}/{study.name}/{point.folder}"))
            with bench.stages.line(f"measuring the code with {subscribers:,} subscribers") as tell:
                rows += measure_costs(workload, tuple(Algorithm), MEASURING)
                tell("by the clock")
    return tuple(rows)


def _manifest_before(wanted: Evaluation) -> dict[str, Any]:
    """Return the manifest of what the folder has, if anything; it must be of the same scale and data."""
    path = wanted.out / _MANIFEST
    if not path.exists():
        return {}
    try:
        before = json.loads(path.read_text())
        had = before["scale"], before["data"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"expected the manifest of an evaluation in {path}, got: {error!r}") from None
    asked = wanted.extent.scale.value, _data_of(wanted)
    if had != asked:
        raise UsageError(
            f"expected another folder for the scale {asked[0]} with {asked[1]}, got {wanted.out}, which has results of "
            f"the scale {had[0]} with {had[1]}: choose one with --out"
        )
    return dict(before)


def _write_manifest(wanted: Evaluation, manifest: Mapping[str, Any]) -> None:
    (wanted.out / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def manifest_of(wanted: Evaluation, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the results hang on, but for the time; studies that are not run now keep what was said of them."""
    extent = wanted.extent
    seeds = "" if extent.seeds is None else f" --seeds {extent.seeds}"
    values = "".join(f" --value {value:g}" for value in extent.values)
    real = " --real" if wanted.real else ""
    study = "" if len(wanted.studies) == len(Name) else f" {wanted.studies[0]}"
    bars = "" if wanted.market.path is None else f" --bars {wanted.market.path}"
    now = commit()
    return {
        "scale": extent.scale.value,
        "data": _data_of(wanted),
        "studies": _studies_of(before)
        | {name.value: {"seeds": _seeds(name, wanted), "commit": now} for name in wanted.studies},
        "deliveries_a_point": load_study(Name.BURST, Extent(extent.scale)).deliveries_a_point,
        "profile": find_profile("paper").assumptions(),
        "commit": now,
        "versions": versions(),
        "machine": describe_machine(),
        "again": f"octopia paper{study} --scale {extent.scale}{seeds}{values}{bars}{real}",
    }


def _studies_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return dict(manifest.get("studies", {}))


def _data_of(wanted: Evaluation) -> str:
    return wanted.market.path or "a made-up market"


def versions() -> dict[str, str]:
    """Return the versions of what computes the results."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _seeds(name: Name, wanted: Evaluation) -> list[int]:
    return sorted({point.seed for point in load_study(name, wanted.extent).points})


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
