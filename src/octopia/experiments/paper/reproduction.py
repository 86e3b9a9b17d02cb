"""The whole evaluation of the paper, reproduced: studies, tables, figures and the report, in one folder.

A folder is for one scale and one source of data. The report also covers what earlier calls left in the folder: other
studies, and other values of the field that a study varies.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import msgspec

from octopia.errors import OctopiaError, UsageError
from octopia.experiments.audits import AuditRow
from octopia.experiments.paper.claims import CLAIMS
from octopia.experiments.paper.costs import Measuring, measure_costs
from octopia.experiments.paper.csv_tables import read_tables, write_tables
from octopia.experiments.paper.figures import copy_main, draw_all
from octopia.experiments.paper.loads import measure_loads
from octopia.experiments.paper.manifest import MANIFEST_FILE, Manifest, StudyNote, read_manifest, write_manifest
from octopia.experiments.paper.merging import TABLES_FOLDER, Others, merged, read_others
from octopia.experiments.paper.names import PAPER_ALGORITHMS, Contender, Model, Scale, StudyName
from octopia.experiments.paper.report import write_report
from octopia.experiments.paper.rows import CostRow, LoadRow, Tables
from octopia.experiments.paper.sensitivity import decide, vary
from octopia.experiments.paper.sizes import some
from octopia.experiments.paper.studies import Extent, Study, load_study
from octopia.experiments.paper.study_runs import Ran, read_study_runs, run_study
from octopia.experiments.sockets.cases import SocketStudy, full_study, laptop_study, tiny_study
from octopia.experiments.sockets.figures import draw_cases
from octopia.experiments.sockets.runs import Compared, compare_over_sockets
from octopia.records.files import lock_folder
from octopia.simulator.profiles import find_profile
from octopia.workloads.provenance import commit, describe_machine
from octopia.workloads.workload import load_workload

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market, Workspace

_OF_RUNS = ("commit", "versions", "machine", "again", "started", "finished")
"""The fields of a manifest that are about the call that ran something."""
_DISTRIBUTIONS = ("octopia", "pyspark", "pyarrow", "numpy", "matplotlib")
OVER_SOCKETS = "real"
"""The folder of the comparison over real sockets, and its name among the studies that failed."""
MEASURING = Measuring(rounds=9)
_MEASURED = (*PAPER_ALGORITHMS, Contender.ADAPTIVE)


@dataclasses.dataclass(frozen=True, slots=True)
class Reproduction:
    """The studies to run, their size, and the folder for everything."""

    studies: Sequence[StudyName]
    extent: Extent
    out: Path
    market: Market
    only_finished: bool = False
    """True if nothing is run, and the report has what is finished."""
    real: bool = False
    """True if all algorithms are also compared over real sockets."""
    images: Path | None = None
    """A folder for copies of the main figures."""
    beside: Path | None = None
    """The folder of another evaluation that the report includes, such as of another machine."""

    @property
    def data(self) -> str:
        """The source of the data."""
        return self.market.path or "a made-up market"


@dataclasses.dataclass(frozen=True, slots=True)
class Reproduced:
    """The page of the report, and what went wrong."""

    page: Path
    faulty: tuple[AuditRow, ...]
    """The runs in which the audit found faults."""
    failed: Mapping[str, OctopiaError]
    """The studies that failed, with the error."""


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """The start of an evaluation: its studies, and earlier results."""

    studies: Sequence[Study]
    before: Manifest | None
    """The manifest of earlier results in the folder."""
    others: Others | None
    """The results of another evaluation."""


def read_given(wanted: Reproduction) -> Given:
    """Read the studies and earlier results; raise if an option does not fit them, before anything is started."""
    return Given(
        [load_study(name, wanted.extent) for name in wanted.studies],
        _manifest_before(wanted),
        None if wanted.beside is None else read_others(wanted.beside, wanted.extent.scale),
    )


def reproduce(workspace: Workspace, wanted: Reproduction) -> Reproduced:
    """Run the unfinished part of the studies, and write the report.

    After a study fails, the others still run. The report has its finished part, and the next call continues it.
    With ``only_finished``, nothing runs.
    """
    with lock_folder(wanted.out, "the folder of an evaluation") if not wanted.only_finished else nullcontext():
        given = read_given(wanted)
        done = _Progress(wanted, given.before, given.others, _now())
        for study in given.studies:
            done.run(study.name, _parts(workspace, study, wanted, done.tables.costs))
        if wanted.real:
            done.add_real(_over_sockets(workspace, wanted))
        return done.reported()


class _Progress:
    """The results of an evaluation so far, and its notes; both are in the folder after each part."""

    def __init__(self, wanted: Reproduction, before: Manifest | None, others: Others | None, started: str):
        self.wanted = wanted
        self._before = before
        self._others = others
        self._started = started
        self._commit = commit()
        self._folder = wanted.out / TABLES_FOLDER
        self._notes = dict(before.studies) if before is not None else {}
        self._failed: dict[str, OctopiaError] = {}
        self.tables = read_tables(self._folder)
        measured = self._notes.get(StudyName.DELIVERY)
        is_measured = measured is not None and measured.commit == self._commit
        if StudyName.DELIVERY in wanted.studies and not wanted.only_finished and not is_measured:
            # Other code may take another time.
            self._keep(dataclasses.replace(self.tables, costs=()))
        if not wanted.only_finished:
            # A folder that was begun has a scale and data, even if nothing in it is finished.
            for name in wanted.studies:
                note = self._notes.get(name, StudyNote((), self._commit))
                self._notes[name] = msgspec.structs.replace(note, commit=self._commit, failed="")
        self._note(self.tables)

    def run(self, name: StudyName, parts: Iterator[Ran]) -> None:
        """Run the parts of a study, and keep the rows of each; note an error."""
        note = self._notes.get(name, StudyNote((), self._commit))
        try:
            for part in parts:
                # After each part, so that it is not lost if the next one is stopped.
                self._keep(self.tables.updated(part.tables))
                note = note.with_part(part.tables.seeds, part.commits)
        except OctopiaError as error:
            self._failed[name] = error
            note = msgspec.structs.replace(note, failed=str(error))
        if note.seeds or note.failed or name in self._notes:
            self._notes[name] = note

    def add_real(self, parts: Iterator[Compared]) -> None:
        """Run the comparison over sockets, and keep the rows of each part; note an error."""
        try:
            for compared in parts:
                self._keep(self.tables.updated((*compared.rows, *compared.audits)))
        except OctopiaError as error:
            self._failed[OVER_SOCKETS] = error

    def reported(self) -> Reproduced:
        """Draw the figures and write the report, with the tables of another evaluation if there is one."""
        wanted, tables = self.wanted, self.tables
        if self._others is not None:
            tables = merged(tables, self._others.tables)
            write_tables(tables, wanted.out / "merged")
        figures = draw_all(tables, wanted.out / "figures")
        draw_cases(tables.sockets, wanted.out)
        if wanted.images is not None:
            copy_main(figures, wanted.images, wanted.extent.scale)
        manifest = self._note(tables, finished=_now())
        _, page = write_report(wanted.out, tables, CLAIMS, figures, manifest)
        return Reproduced(page, tuple(row for row in tables.audits if not row.is_clean), self._failed)

    def _keep(self, tables: Tables) -> None:
        self.tables = tables
        write_tables(tables, self._folder)

    def _note(self, tables: Tables, finished: str = "") -> Manifest:
        """Return the manifest of the results so far; write it, unless nothing is run."""
        started = self._started if finished else ""
        manifest = manifest_of(self.wanted, self._before, self._notes, tables, started=started, finished=finished)
        if self._others is not None:
            manifest = msgspec.structs.replace(manifest, others=self._others.text)
        if not self.wanted.only_finished:
            write_manifest(self.wanted.out / MANIFEST_FILE, manifest)
        return manifest


def _parts(workspace: Workspace, study: Study, wanted: Reproduction, costs: Sequence[CostRow]) -> Iterator[Ran]:
    """Run one study and everything that belongs to it, and yield the rows of each part."""
    if wanted.only_finished:
        yield read_study_runs(workspace, study, str(wanted.out / "runs"))
        return
    runs = sum(len(point.runs) for point in study.points)
    workspace.stages.title(f"{study.title}: {some(len(study.points), 'workload')}, {some(runs, 'run')}")
    yield run_study(workspace, study, str(wanted.out / "runs"), wanted.market)
    if study.name is StudyName.BURST:
        yield Ran(Tables(loads=_loads(workspace, study, wanted.out / "runs")))
    if study.name is StudyName.DELIVERY:
        yield Ran(Tables(costs=_costs(workspace, study, wanted.out / "runs", costs)))
    if wanted.extent.scale is Scale.PAPER:
        # Sensitivity has the scale tiny, and is part of smaller evaluations.
        return
    workspace.stages.title(f"{study.title}, under other assumptions")
    sensitivity = wanted.out / "sensitivity"
    yield Ran(Tables(sensitivity=tuple(vary(workspace, study.name, sensitivity, wanted.market))))
    if study.name is StudyName.BURST:
        workspace.stages.title(f"{study.title}, under all combinations of decisive assumptions")
        yield Ran(Tables(decisive=tuple(decide(workspace, sensitivity / "decisive", wanted.market))))


def socket_study(extent: Extent) -> SocketStudy:
    """Return the comparison over sockets at a scale."""
    match extent.scale:
        case Scale.TINY:
            return tiny_study(extent.seeds)
        case Scale.LAPTOP:
            return laptop_study(extent.seeds)
        case Scale.PAPER:
            return full_study(extent.seeds)
        case _:
            assert_never(extent.scale)


def _over_sockets(workspace: Workspace, wanted: Reproduction) -> Iterator[Compared]:
    """Compare all algorithms over real sockets, and yield the results of each overlay and workload."""
    study = socket_study(wanted.extent)
    workspace.stages.title(f"Over real sockets: {some(len(study.setups), 'workload')}, {study.runs} runs")
    yield from compare_over_sockets(workspace, study, wanted.out / OVER_SOCKETS, wanted.market)


def _costs(workspace: Workspace, study: Study, runs: Path, before: Sequence[CostRow]) -> tuple[CostRow, ...]:
    """Measure the cost of publications in the real code, for each number of subscribers not yet measured."""
    known = {row.subscribers for row in before}
    rows: list[CostRow] = []
    for point in study.points:
        subscribers = point.workload.subscribers
        if subscribers not in known:
            known.add(subscribers)
            workload = load_workload(workspace.storage.absolute(f"{runs}/{study.name}/{point.folder}"))
            with workspace.stages.line(f"measuring the code with {subscribers:,} subscribers") as report:
                rows += measure_costs(workload, _MEASURED, MEASURING)
                report("by the clock")
    return tuple(rows)


def _loads(workspace: Workspace, study: Study, runs: Path) -> tuple[LoadRow, ...]:
    """Count the ordinary publications on links in the first workload of the burst study."""
    point = study.points[0]
    workload = load_workload(workspace.storage.absolute(f"{runs}/{study.name}/{point.folder}"))
    with workspace.stages.line("counting ordinary publications on links") as report:
        rows = tuple(measure_loads(workload, point.workload))
        report(f"{rows[0].publications:,}")
    return rows


def _manifest_before(wanted: Reproduction) -> Manifest | None:
    """Return the manifest of earlier results in the folder, if any; they must be of the same scale and data."""
    before = read_manifest(wanted.out / MANIFEST_FILE)
    if before is None:
        return None
    if before.scale is not wanted.extent.scale or (before.data != wanted.data and not wanted.only_finished):
        raise UsageError(
            f"expected a folder for the scale {wanted.extent.scale} with {wanted.data}, got {wanted.out}, which has "
            f"results of the scale {before.scale} with {before.data}: choose another folder with --out, or its scale "
            "and data with --scale and --bars"
        )
    return before


def manifest_of(
    wanted: Reproduction,
    before: Manifest | None,
    notes: Mapping[StudyName, StudyNote],
    tables: Tables,
    *,
    started: str = "",
    finished: str = "",
) -> Manifest:
    """Return the manifest of an evaluation with these notes on studies and these results."""
    extent = wanted.extent
    options = "" if extent.seeds is None else f" --seeds {extent.seeds}"
    options += "".join(f" --only-seed {seed}" for seed in extent.only_seeds)
    options += "".join(f" --value {value:g}" for value in extent.values)
    options += "".join(f" --model {model}" for model in extent.models)
    options += "".join(f" --host {host}" for host in extent.hosts)
    options += "".join(f" --algorithm {algorithm}" for algorithm in extent.algorithms)
    options += "" if wanted.market.path is None else f" --bars {wanted.market.path}"
    options += "" if not wanted.real else " --real" if wanted.studies else " --only-real"
    options += "" if wanted.beside is None else f" --beside {wanted.beside}"
    study = f" {wanted.studies[0]}" if len(wanted.studies) == 1 else ""
    models = [each for each in Model if each in (*tables.models, *extent.models)] or list(Model)
    made = Manifest(
        scale=extent.scale,
        data=_data(wanted, before),
        studies=dict(notes),
        deliveries_a_point=load_study(StudyName.BURST, Extent(extent.scale)).deliveries_a_point,
        profiles={model: find_profile(model.profile).assumptions() for model in models},
        commit=commit(),
        versions=versions(),
        machine=describe_machine(),
        again=f"octopia paper{study} --scale {extent.scale}{options}",
        started=started,
        finished=finished,
    )
    if before is None or not wanted.only_finished:
        return made
    # Nothing is run, so all of this is still what it was when something was.
    earlier = {name: getattr(before, name) for name in _OF_RUNS}
    return msgspec.structs.replace(made, **earlier)


def _data(wanted: Reproduction, before: Manifest | None) -> str:
    """Return the source of the data; a call that runs nothing does not name it."""
    if not wanted.only_finished:
        return wanted.data
    return before.data if before is not None else "see others"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute the results."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _now() -> str:
    return datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
