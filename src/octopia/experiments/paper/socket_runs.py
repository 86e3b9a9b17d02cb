"""The runs of a study over real sockets: all brokers on this machine, one workload under every algorithm, audited.

The same runs are also played in virtual time. So brokers that are not the simulator confirm or contradict the order in
which the simulator puts the algorithms. A finished run is not run again.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from octopia.experiments.network_runs import CpuUse, play_on_brokers
from octopia.experiments.paper.rows import CpuSupply, RealRow, Tables
from octopia.experiments.paper.studies import PlannedRun, Study
from octopia.experiments.paper.study_runs import make_point, plan, run_audits, sweep_runs
from octopia.experiments.slow_links import host_of_burst, overlay_text, slow_links
from octopia.protocol import MessageKind
from octopia.simulator.profiles import UNIT, write_profile
from octopia.trace import RUN_FILE
from octopia.workloads.runs import TRACES, RunSpec

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market, Workspace
    from octopia.pipeline.summaries import DeliverySummary

LINKS = dataclasses.replace(
    UNIT, name="sockets", description="every link takes 1 ms and up to 0.1 ms more", jitter_ms=0.1
)
"""In virtual time as on sockets, the copies of a flood race each other."""


def run_over_sockets(workspace: Workspace, study: Study, out: Path, market: Market) -> Tables:
    """Run the unfinished part of a study over real sockets and in virtual time, and return its rows and audits."""
    from octopia.pipeline.summaries import summarise_deliveries
    from octopia.pipeline.sweep import pending

    place = out.absolute() / study.name
    real, simulated = str(place / "real"), str(place / "simulated")
    for point in study.points:
        make_point(workspace, point, f"{place}/{point.folder}", market, with_truth=True)
    profile = str(write_profile(LINKS, place))
    planned = [
        dataclasses.replace(each, run=_real(each, study, place, profile))
        for each in plan(workspace, study, str(place), "real")
    ]
    for run in pending([each.run for each in planned], real):
        _play(workspace, run, real)
    sweep_runs(workspace, study, planned, simulated)
    by_clock, in_virtual_time = summarise_deliveries(workspace, [real]), summarise_deliveries(workspace, [simulated])
    rows = [
        _row(study, each, by_clock[each.run.run_id], in_virtual_time[each.run.run_id], _cpu_use(workspace, each.folder))
        for each in planned
    ]
    # The runs in virtual time have the same ids.
    audits = [
        dataclasses.replace(row, run=f"{row.run}, over sockets") for row in run_audits(workspace, planned, str(place))
    ]
    return Tables(real=tuple(rows), audits=tuple(audits))


def _real(planned: PlannedRun, study: Study, place: Path, profile: str) -> RunSpec:
    """Return a run for real brokers: links may congest, and some are slow if the study says so."""
    run, point, overlay = planned.run, planned.point, ""
    if study.link_rate is not None:
        path = place / f"{point.folder}.overlay.toml"
        links = slow_links(point.workload.scot(), host_of_burst(run.workload))
        path.write_text(overlay_text(study.name, point.workload, links, study.link_rate), encoding="utf-8")
        overlay = str(path)
    return msgspec.structs.replace(run, uncongested=False, sample_ms=0.0, profile=profile, overlay=overlay)


def _play(workspace: Workspace, run: RunSpec, folder: str) -> None:
    with workspace.stages.line(f"{run.run_id}, over sockets:") as tell:
        played = play_on_brokers(run, Path(folder) / TRACES / run.run_id, 1.0, tell)
        tell(f"{played.deliveries:,} deliveries")


def _cpu_use(workspace: Workspace, folder: str) -> CpuUse | None:
    cpu = workspace.storage.read_json(f"{folder}/{RUN_FILE}")["cpu"]
    return None if cpu is None else msgspec.convert(cpu, CpuUse)


def _row(
    study: Study, planned: PlannedRun, real: DeliverySummary, simulated: DeliverySummary, cpu: CpuUse | None
) -> RealRow:
    point, burst = planned.point, planned.point.workload.burst
    burst_per_s = 0.0 if burst is None else burst.per_minute / 60.0
    supply = CpuSupply.UNKNOWN if cpu is None else CpuSupply.SHORT if cpu.is_short else CpuSupply.ENOUGH
    return RealRow(
        study=study.name,
        algorithm=planned.run.algorithm,
        seed=point.seed,
        publications=point.publications,
        deliveries=real.count,
        offered=burst_per_s / study.link_rate if study.link_rate else 0.0,
        publication_delay_ms=real.delay_ms_mean,
        share_below_1s=real.share_below_1s,
        publication_messages=real.messages[MessageKind.PUBLICATION],
        simulated_delay_ms=simulated.delay_ms_mean,
        simulated_messages=simulated.messages[MessageKind.PUBLICATION],
        processors_used=0.0 if cpu is None else cpu.total_mean,
        processors=supply,
    )
