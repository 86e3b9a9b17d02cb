"""The runs of a study in virtual time: its workloads, its runs as one sweep, the audit, and the rows of its tables.

Everything is kept in the study's folder. A workload that was made from the same spec is not made again, and a finished
run is not run again, so that a study that was stopped continues where it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from octopia.errors import JobFailed
from octopia.experiments.audits import AuditRow
from octopia.experiments.kept import audit_workload, is_made, prepare_workload
from octopia.experiments.paper.bounds import bound_rows
from octopia.experiments.paper.names import Contender, StudyName
from octopia.experiments.paper.results import find_rows
from octopia.experiments.paper.rows import Tables, tables_of
from octopia.experiments.paper.studies import PlannedRun, Point, Study
from octopia.trace import RUN_FILE
from octopia.workloads.provenance import UNKNOWN
from octopia.workloads.runs import TRACES

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market, Workspace

_AUDITED = (StudyName.DELIVERY, StudyName.BURST)


@dataclasses.dataclass(frozen=True, slots=True)
class Ran:
    """The rows of a study or of a part of it."""

    tables: Tables
    commits: tuple[str, ...] = ()
    """The commits of the code that played the runs."""


def run_study(workspace: Workspace, study: Study, folder: str, market: Market) -> Ran:
    """Run the unfinished part of a study, and return its rows."""
    place = f"{folder}/{study.name}"
    return _found(workspace, study, place, _run(workspace, study, place, market, with_truth=study.name in _AUDITED))


def read_study_runs(workspace: Workspace, study: Study, folder: str) -> Ran:
    """Return the rows of the finished part of a study; nothing is run or removed, so another process may be at work."""
    from octopia.pipeline.jobs import TRUTH
    from octopia.pipeline.sweep import pending

    place, storage = f"{folder}/{study.name}", workspace.storage
    needed = TRUTH if study.name in _AUDITED else ""
    made = [
        point
        for point in study.points
        if is_made(workspace, f"{place}/{point.folder}", spec=point.workload.to_json())
        and (not needed or storage.has_table(f"{place}/{point.folder}/{needed}"))
    ]
    planned = plan(workspace, dataclasses.replace(study, points=tuple(made)), place, "runs")
    left = {run.run_id for run in pending([each.run for each in planned], storage.absolute(f"{place}/runs"))}
    return _found(workspace, study, place, [each for each in planned if each.run.run_id not in left])


def _found(workspace: Workspace, study: Study, place: str, runs: Sequence[PlannedRun]) -> Ran:
    """Return the rows of finished runs, audited where the study has a truth, and the bounds of their workloads."""
    commits = {str(workspace.storage.read_json(f"{each.folder}/{RUN_FILE}").get("commit", UNKNOWN)) for each in runs}
    audits = run_audits(workspace, runs, place) if study.name in _AUDITED else ()
    found = find_rows(workspace, study, runs)
    points = {each.point.name: each.point for each in runs}
    models = {name: [each.model for each in runs if each.point.name == name] for name in points}
    bounds = [row for name, point in points.items() for row in bound_rows(point, dict.fromkeys(models[name]))]
    rows = [*(row for each in runs for row in found[each.run.run_id]), *bounds, *audits]
    return Ran(tables_of(rows), tuple(sorted(commits)))


def run_variants(
    workspace: Workspace, study: Study, folder: str, market: Market, profiles: Mapping[str, str]
) -> dict[str, Tables]:
    """Run a study under several profiles, all in one sweep, and return the tables of each by its name.

    A profile is given as in a run: by its name, or by the path of a file.
    """
    varied = dataclasses.replace(study, points=tuple(_under(point, profiles.values()) for point in study.points))
    runs = _run(workspace, varied, f"{folder}/{study.name}", market, with_truth=False)
    found = find_rows(workspace, study, runs)
    return {
        name: tables_of(row for each in runs if each.run.profile == profile for row in found[each.run.run_id])
        for name, profile in profiles.items()
    }


def _under(point: Point, profiles: Iterable[str]) -> Point:
    """Return a point of a study with its runs under each profile."""
    runs = [msgspec.structs.replace(run, profile=profile) for profile in profiles for run in point.runs]
    return dataclasses.replace(point, runs=tuple(runs))


def _run(workspace: Workspace, study: Study, place: str, market: Market, *, with_truth: bool) -> list[PlannedRun]:
    """Make missing workloads and play unfinished runs; return all runs."""
    for point in study.points:
        prepare_workload(workspace, f"{place}/{point.folder}", point.workload, market, with_truth=with_truth)
    planned = plan(workspace, study, place, "runs")
    sweep_runs(workspace, study, planned, f"{place}/runs")
    return planned


def sweep_runs(workspace: Workspace, study: Study, planned: Iterable[PlannedRun], folder: str) -> None:
    """Play the unfinished runs of a study in virtual time; raise JobFailed if any fails."""
    from octopia.pipeline.jobs import run_sweep

    outcomes, _ = run_sweep(workspace, [each.run for each in planned], folder)
    failed = [each for each in outcomes if each.error]
    if failed:
        raise JobFailed(f"{len(failed)} runs of {study.title} failed; the first, {failed[0].run_id}: {failed[0].error}")


def plan(workspace: Workspace, study: Study, place: str, sweep: str) -> list[PlannedRun]:
    """Return the runs of a study, each with an id, with the workload of its point and with a folder in the sweep's."""
    planned = []
    for point in study.points:
        workload = workspace.storage.absolute(f"{place}/{point.folder}")
        for run in point.runs:
            profile = "" if run.profile == "paper" else f"-{PurePosixPath(run.profile).stem}"
            contender = Contender.of(run.algorithm, run.tid_copies)
            run_id = f"{study.name}-{contender}-{point.name}{profile}"
            named = msgspec.structs.replace(run, workload=workload, run_id=run_id)
            planned.append(PlannedRun(point, named, f"{place}/{sweep}/{TRACES}/{run_id}"))
    return planned


def run_audits(workspace: Workspace, runs: Iterable[PlannedRun], place: str) -> list[AuditRow]:
    """Audit runs in a folder of a study, all runs of one workload at once against its truth."""
    by_workload: dict[str, list[PlannedRun]] = {}
    for each in runs:
        by_workload.setdefault(f"{place}/{each.point.folder}", []).append(each)
    rows: list[AuditRow] = []
    for workload, planned in by_workload.items():
        may_miss = [each.run.run_id for each in planned if each.contender.may_miss]
        audits = audit_workload(workspace, workload, {each.run.run_id: each.folder for each in planned}, may_miss)
        found = {row.run: row for row in audits}
        rows += [found[each.run.run_id] for each in planned]
    return rows
