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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.calibrate import describe_machine
from octopia.experiments.paper.claims import CLAIMS
from octopia.experiments.paper.figures import draw_all
from octopia.experiments.paper.names import Name, Scale
from octopia.experiments.paper.report import write_report
from octopia.experiments.paper.running import Ran, run_study
from octopia.experiments.paper.studies import load_study
from octopia.experiments.paper.tables import AuditRow, Tables, read_csv, read_tables, write_csv, write_tables
from octopia.simulator.profiles import find_profile

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Bench, Market

_DISTRIBUTIONS = ("octopia", "pyspark", "pyarrow", "numpy", "matplotlib")
_AUDITS = "audits.csv"


@dataclasses.dataclass(frozen=True, slots=True)
class Evaluation:
    """What to evaluate, how large, and where everything goes."""

    studies: Sequence[Name]
    scale: Scale
    out: Path
    market: Market
    seeds: int | None = None


def evaluate(bench: Bench, wanted: Evaluation) -> Path:
    """Run the studies, or what is left of them, and write the report; return its page."""
    started = _now()
    tables_folder = wanted.out / "tables"
    tables, audits = read_tables(tables_folder), _read_audits(tables_folder)
    for name in wanted.studies:
        study = load_study(name, wanted.scale, wanted.seeds)
        ran = run_study(bench, study, str(wanted.out / "runs"), wanted.market)
        tables, audits = _with(tables, ran), _with_audits(audits, ran.audits)
        # After each study, so that nothing of it is lost if the next one is stopped.
        write_tables(tables, tables_folder)
        write_csv(tables_folder / _AUDITS, AuditRow, audits)
    figures = draw_all(tables, wanted.out / "figures")
    manifest = manifest_of(wanted) | {"started": started, "finished": _now()}
    (wanted.out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    _, page = write_report(wanted.out, tables, CLAIMS, figures, manifest, tables.sensitivity, audits)
    return page


def manifest_of(wanted: Evaluation) -> dict[str, Any]:
    """Return what the results hang on, but for the time."""
    seeds = "" if wanted.seeds is None else f" --seeds {wanted.seeds}"
    bars = "" if wanted.market.path is None else f" --bars {Path(wanted.market.path).name}"
    return {
        "scale": wanted.scale.value,
        "studies": [name.value for name in wanted.studies],
        "seeds": {name.value: _seeds(name, wanted) for name in wanted.studies},
        "data": "a made-up market" if wanted.market.path is None else Path(wanted.market.path).name,
        "profile": find_profile("paper").assumptions(),
        "commit": commit(),
        "versions": versions(),
        "machine": describe_machine(),
        "again": f"octopia paper --scale {wanted.scale}{seeds}{bars}",
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
    return len({point.seed for point in load_study(name, wanted.scale, wanted.seeds).points})


def _with(tables: Tables, ran: Ran) -> Tables:
    """Return the tables with what a study gave in place of what was there."""
    fields: Mapping[str, Any] = {
        field.name: getattr(ran.tables, field.name)
        for field in dataclasses.fields(Tables)
        if getattr(ran.tables, field.name)
    }
    return dataclasses.replace(tables, **fields)


def _read_audits(folder: Path) -> tuple[AuditRow, ...]:
    return read_csv(folder / _AUDITS, AuditRow) if (folder / _AUDITS).exists() else ()


def _with_audits(before: Sequence[AuditRow], now: Sequence[AuditRow]) -> tuple[AuditRow, ...]:
    again = {row.run for row in now}
    return (*(row for row in before if row.run not in again), *now)


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
