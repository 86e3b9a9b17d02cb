"""The whole evaluation: studies, tables, figures and the report, in one folder.

What was run before in the same folder, and is not asked for now, is part of the report as well.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.calibrate import describe_machine
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
    read_csv,
    read_tables,
    write_csv,
    write_tables,
)
from octopia.playing.files import load_workload
from octopia.settings import Algorithm
from octopia.simulator.profiles import find_profile

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Bench, Market

_DISTRIBUTIONS = ("octopia", "pyspark", "pyarrow", "numpy", "matplotlib")
_AUDITS = "audits.csv"
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

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read what an earlier evaluation has left."""
        return cls(read_tables(folder), read_csv(folder / _AUDITS, AuditRow) if (folder / _AUDITS).exists() else ())

    def write(self, folder: Path) -> None:
        """Write everything as CSV files."""
        write_tables(self.tables, folder)
        write_csv(folder / _AUDITS, AuditRow, self.audits)

    def with_study(self, tables: Tables) -> Results:
        """Return the results with what a study gave in place of what was there."""
        fields: Mapping[str, Any] = {
            field.name: getattr(tables, field.name)
            for field in dataclasses.fields(Tables)
            if getattr(tables, field.name)
        }
        return dataclasses.replace(self, tables=dataclasses.replace(self.tables, **fields))

    def with_rows(self, table: str, rows: Sequence[Any], column: str) -> Results:
        """Return the results with rows in place of those of the same table that say the same in a column."""
        kept = _kept(getattr(self.tables, table), rows, column)
        return dataclasses.replace(self, tables=dataclasses.replace(self.tables, **{table: (*kept, *rows)}))

    def with_audits(self, audits: Sequence[AuditRow]) -> Results:
        """Return the results with audits in place of those of the same runs."""
        return dataclasses.replace(self, audits=(*_kept(self.audits, audits, "run"), *audits))


def _kept(before: Sequence[Any], now: Sequence[Any], column: str) -> Iterator[Any]:
    again = {getattr(row, column) for row in now}
    return (row for row in before if getattr(row, column) not in again)


def evaluate(bench: Bench, wanted: Evaluation) -> Path:
    """Run the studies, or what is left of them, and write the report; return its page."""
    started = _now()
    folder = wanted.out / "tables"
    results = Results.read(folder)
    for name in wanted.studies:
        for latest in _parts(bench, name, wanted, results):
            # After each part, so that nothing of it is lost if the next one is stopped.
            latest.write(folder)
            results = latest
    figures = draw_all(results.tables, wanted.out / "figures")
    manifest = manifest_of(wanted) | {"started": started, "finished": _now()}
    (wanted.out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    tables = results.tables
    _, page = write_report(wanted.out, tables, CLAIMS, figures, manifest, tables.sensitivity, results.audits)
    return page


def _parts(bench: Bench, name: Name, wanted: Evaluation, results: Results) -> Iterator[Results]:
    """Run one study and all that belongs to it, and yield the results after each part."""
    study = load_study(name, wanted.extent)
    runs = sum(len(point.runs) for point in study.points)
    bench.stages.title(f"{study.title}: {some(len(study.points), 'workload')}, {some(runs, 'run')}")
    ran = run_study(bench, study, str(wanted.out / "runs"), wanted.market)
    results = results.with_study(ran.tables).with_audits(ran.audits)
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


def manifest_of(wanted: Evaluation) -> dict[str, Any]:
    """Return what the results hang on, but for the time."""
    extent = wanted.extent
    seeds = "" if extent.seeds is None else f" --seeds {extent.seeds}"
    values = "".join(f" --value {value:g}" for value in extent.values)
    real = " --real" if wanted.real else ""
    study = "" if len(wanted.studies) == len(Name) else f" {wanted.studies[0]}"
    bars = "" if wanted.market.path is None else f" --bars {Path(wanted.market.path).name}"
    return {
        "scale": extent.scale.value,
        "studies": [name.value for name in wanted.studies],
        "seeds": {name.value: _seeds(name, wanted) for name in wanted.studies},
        "deliveries_a_point": load_study(Name.BURST, extent).deliveries_a_point,
        "data": "a made-up market" if wanted.market.path is None else Path(wanted.market.path).name,
        "profile": find_profile("paper").assumptions(),
        "commit": commit(),
        "versions": versions(),
        "machine": describe_machine(),
        "again": f"octopia paper{study} --scale {extent.scale}{seeds}{values}{bars}{real}",
    }


def versions() -> dict[str, str]:
    """Return the versions of what computes the results."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit() -> str:
    """Return the commit of the code, if it runs from a repository."""
    here = Path(__file__).parent
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown: not run from a repository"
    return answer.stdout.strip()


def _seeds(name: Name, wanted: Evaluation) -> int:
    return len({point.seed for point in load_study(name, wanted.extent).points})


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
