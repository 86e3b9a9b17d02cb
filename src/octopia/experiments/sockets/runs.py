"""The runs of the comparison over sockets: predicted in virtual time, played on real brokers, and audited.

Predictions come first, because they would take CPU time from brokers. A finished run is not repeated, unless CPUs
were short. Each setup has a folder with its workload, ``predicted`` and ``real``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec

from octopia.errors import JobFailed
from octopia.experiments.audits import AuditRow
from octopia.experiments.delays import Delays, read_delays
from octopia.experiments.kept import audit_workload, prepare_workload
from octopia.experiments.missing import Missing, read_missing
from octopia.experiments.network_runs import CpuUse, play_on_brokers
from octopia.experiments.slow_links import overlay_text
from octopia.experiments.sockets.cases import Case, Circumstances, Setup, SocketStudy, circumstances_of
from octopia.experiments.sockets.rows import CpuSupply, SocketRow
from octopia.protocol import MessageKind
from octopia.settings import Algorithm
from octopia.simulator.profiles import Profile, write_profile
from octopia.trace import PARQUET_FILE, RUN_FILE
from octopia.workloads.arrow import read_json
from octopia.workloads.runs import TRACES, RunSpec
from octopia.workloads.workload import Workload, load_workload

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market, Workspace

ATTEMPTS = 2
"""The number of times that a run is played if CPUs are short."""
REAL, PREDICTED = "real", "predicted"
LINKS = Profile(
    "sockets",
    "every link takes 0.02 to 0.8 ms, brokers take no time, bandwidth is unlimited",
    link_delay_ms=0.02,
    same_machine_delay_ms=0.02,
    client_delay_ms=0.02,
    jitter_ms=0.78,
)
"""Links about as fast as those between processes of one machine.

Their delay is almost all jitter, so that the copies of a flood race each other as they do there.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedRun:
    """A run with the folder for its trace."""

    run: RunSpec
    folder: str


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One run of the comparison, with its predictions."""

    setup: Setup
    case: Case
    circumstances: Circumstances
    run: PlacedRun
    predictions: tuple[PlacedRun, ...]

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of the run."""
        return self.run.run.algorithm

    @property
    def all_runs(self) -> tuple[PlacedRun, ...]:
        """The run and its predictions."""
        return (self.run, *self.predictions)


@dataclasses.dataclass(frozen=True, slots=True)
class Compared:
    """The rows of the comparison, and the audits of all runs, predicted ones included."""

    rows: tuple[SocketRow, ...]
    audits: tuple[AuditRow, ...]


def compare_over_sockets(workspace: Workspace, study: SocketStudy, out: Path, market: Market) -> Iterator[Compared]:
    """Run the unfinished part of a study, and yield the results of each setup."""
    for setup in study.setups:
        place = out.absolute() / f"{setup.brokers}-brokers-{setup.seed}"
        workload = f"{place}/workload-{setup.brokers}-{setup.seed}"
        prepare_workload(workspace, workload, setup.workload, market, with_truth=True)
        entries = list(_plan(study, setup, workload, place))
        _predict(workspace, [run for each in entries for run in each.predictions], place)
        for each in entries:
            _play(workspace, each.run.run, place / REAL)
        yield _judge(workspace, entries, workload)


# Planning.


def _plan(study: SocketStudy, setup: Setup, workload: str, place: Path) -> Iterator[Entry]:
    profile = str(write_profile(LINKS, place))
    for case in study.cases:
        circumstances = circumstances_of(case, setup, workload)
        overlay = place / f"{case.name}.overlay.toml"
        overlay.write_text(overlay_text(case.name, setup.workload, circumstances.links, setup.link_rate))
        for algorithm in study.algorithms:
            spec = RunSpec(
                workload=workload,
                run_id=f"{case.name}-{setup.brokers}-{algorithm}-{setup.seed}",
                algorithm=algorithm,
                profile=profile,
                overlay=str(overlay),
            )
            if circumstances.killed is not None:
                spec = msgspec.structs.replace(spec, killed=str(circumstances.killed), killed_at_ms=setup.outage_ms)
            predictions = [
                msgspec.structs.replace(spec, run_id=f"{spec.run_id}-predicted-{seed}", seed=seed)
                for seed in range(study.predictions)
            ]
            placed = [_placed(each, place / PREDICTED) for each in predictions]
            yield Entry(setup, case, circumstances, _placed(spec, place / REAL), tuple(placed))


def _placed(run: RunSpec, folder: Path) -> PlacedRun:
    return PlacedRun(run, f"{folder}/{TRACES}/{run.run_id}")


# Playing.


def _predict(workspace: Workspace, runs: Sequence[PlacedRun], place: Path) -> None:
    """Play the unfinished predictions in virtual time."""
    from octopia.pipeline.jobs import run_sweep

    outcomes, _ = run_sweep(workspace, [each.run for each in runs], str(place / PREDICTED))
    failed = [each for each in outcomes if each.error]
    if failed:
        raise JobFailed(f"{len(failed)} predictions failed; the first, {failed[0].run_id}: {failed[0].error}")


def _play(workspace: Workspace, run: RunSpec, folder: Path) -> None:
    """Play a run on real brokers, unless it is finished; play it again if CPUs were short."""
    from octopia.pipeline.sweep import pending

    place = folder / TRACES / run.run_id
    # A broker that is killed has a process of its own. If the others shared one, it would be the fastest of all, and
    # TID's trees would lead over it.
    processes = len(load_workload(run.workload).scot.brokers) if run.killed else None
    if not pending([run], str(folder)) and not is_short(place):
        return
    with workspace.stages.line(f"{run.run_id}:") as report:
        for attempt in range(1, ATTEMPTS + 1):
            play_on_brokers(run, place, 1.0, _numbered(report, attempt), processes)
            if not is_short(place):
                break
        report("over sockets" if not is_short(place) else "over sockets, short of CPU")


def _numbered(report: Callable[[str], None], attempt: int) -> Callable[[str], None]:
    return report if attempt == 1 else lambda text: report(f"short of CPU, attempt {attempt}: {text}")


def is_short(folder: Path) -> bool:
    """Return whether CPUs were short in a finished run."""
    use = _cpu_use(str(folder))
    return use is not None and use.is_short


def _cpu_use(folder: str) -> CpuUse | None:
    cpu = read_json(f"{folder}/{RUN_FILE}")["cpu"]
    return None if cpu is None else msgspec.convert(cpu, CpuUse)


# Judging.


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The results of one run, in either world."""

    delays: Delays
    owed: int
    publication_messages: int
    status_messages: int

    @property
    def share(self) -> float:
        return self.delays.count / self.owed


def _judge(workspace: Workspace, entries: Sequence[Entry], workload: str) -> Compared:
    """Audit all runs of a setup, and return the rows."""
    runs = [run for each in entries for run in each.all_runs]
    found = audit_workload(workspace, workload, {each.run.run_id: each.folder for each in runs})
    audits = {row.run: row for row in found}
    loaded = load_workload(workload)
    missing = read_missing(f"{workload}/faults", loaded, [each.run for each in runs])
    judged = [judged_audit(audits[each.run.run_id], missing[each.run.run_id], each.run.algorithm) for each in runs]
    rows = [
        _row(
            each,
            _found(each.run, loaded, audits, missing),
            [_found(run, loaded, audits, missing) for run in each.predictions],
        )
        for each in entries
    ]
    return Compared(tuple(rows), tuple(judged))


def judged_audit(found: AuditRow, missing: Missing, algorithm: Algorithm) -> AuditRow:
    """Return an audit in which only those deliveries are missing that the algorithm promises."""
    return dataclasses.replace(found, missing=missing.faults(algorithm))


def _found(placed: PlacedRun, workload: Workload, audits: dict[str, AuditRow], missing: dict[str, Missing]) -> _Found:
    run, outage = placed.run, placed.run.outage
    begin = 0 if outage is None else outage.published_before(workload)
    delays = read_delays(Path(placed.folder) / PARQUET_FILE, begin)
    lost = missing[run.run_id]
    owed = audits[run.run_id].owed if outage is None else delays.count + lost.cut_off + lost.unexplained
    noted = read_json(f"{placed.folder}/{RUN_FILE}")
    # In virtual time, an overlay starts with all links up: brokers have no changes to report.
    before = noted.get("messages_at_begin", {}).get(MessageKind.STATUS, 0)
    messages = {kind: noted["messages"].get(kind, 0) for kind in (MessageKind.PUBLICATION, MessageKind.STATUS)}
    return _Found(delays, owed, messages[MessageKind.PUBLICATION], messages[MessageKind.STATUS] - before)


def _row(entry: Entry, real: _Found, predicted: Sequence[_Found]) -> SocketRow:
    setup, links = entry.setup, entry.circumstances.links
    noted, cpu = read_json(f"{entry.run.folder}/{RUN_FILE}"), _cpu_use(entry.run.folder)
    delays_ms, shares = [each.delays.mean_ms for each in predicted], [each.share for each in predicted]
    supply = CpuSupply.UNKNOWN if cpu is None else CpuSupply.SHORT if cpu.is_short else CpuSupply.ENOUGH
    return SocketRow(
        case=entry.case.name,
        brokers=setup.brokers,
        seed=setup.seed,
        algorithm=entry.algorithm,
        publications=noted["publications"],
        slow_links=len(links),
        link_rate=setup.link_rate if links else 0.0,
        owed=real.owed,
        delivered=real.delays.count,
        delay_ms_mean=real.delays.mean_ms,
        delay_ms_p99=real.delays.p99_ms,
        publication_messages=real.publication_messages,
        status_messages=real.status_messages,
        predicted_share=fmean(shares),
        predicted_share_least=min(shares),
        predicted_share_most=max(shares),
        predicted_delay_ms_mean=fmean(delays_ms),
        predicted_delay_ms_least=min(delays_ms),
        predicted_delay_ms_most=max(delays_ms),
        predicted_delay_ms_p99=fmean(each.delays.p99_ms for each in predicted),
        predicted_publication_messages=fmean(each.publication_messages for each in predicted),
        predicted_status_messages=fmean(each.status_messages for each in predicted),
        noticed_ms=noted["noticed_ms"],
        processors_used=0.0 if cpu is None else cpu.total_mean,
        busiest_process=0.0 if cpu is None else max(cpu.busiest_worker, cpu.busiest_clients),
        waited_max=0.0 if cpu is None else cpu.waited_max,
        processors=supply,
    )
