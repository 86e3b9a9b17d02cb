"""The studies over real sockets: all brokers on this machine, the same workload under every algorithm, audited.

The same runs are played in virtual time as well, so that the order in which the simulator puts the algorithms is
confirmed, or not, by something that is not the simulator. A run that is finished is not run again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from octopia.errors import JobFailed
from octopia.experiments.networked import play_on_brokers
from octopia.experiments.paper.running import make_point, plan, run_audits
from octopia.experiments.paper.studies import Point, Study
from octopia.experiments.paper.tables import AuditRow, RealRow
from octopia.experiments.slow_links import host_of_burst, overlay_text, slow_links
from octopia.simulator.profiles import UNIT, write_profile
from octopia.trace import RUN_FILE
from octopia.workloads.runs import TRACES, RunSpec

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market
    from octopia.pipeline.jobs import Workspace as Bench

LINKS = dataclasses.replace(
    UNIT, name="sockets", description="every link takes 1 ms and up to 0.1 ms more", jitter_ms=0.1
)
"""In virtual time: as on sockets, which copy of a flood comes first is a race."""
ENOUGH, SHORT, UNKNOWN = "enough", "short", "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class RanReally:
    """What a study over real sockets gave."""

    rows: tuple[RealRow, ...]
    audits: tuple[AuditRow, ...]


def run_really(bench: Bench, study: Study, out: Path, market: Market) -> RanReally:
    """Run what is not finished of a study over real sockets, and the same in virtual time."""
    from octopia.pipeline.jobs import run_sweep
    from octopia.pipeline.summaries import delivering
    from octopia.pipeline.sweep import pending

    place = out.absolute() / study.name
    real, simulated = str(place / "real"), str(place / "simulated")
    for point in study.points:
        make_point(bench, point, f"{place}/{point.folder}", market, with_truth=True)
    profile = str(write_profile(LINKS, place))
    planned = {
        each.run.run_id: dataclasses.replace(each, run=_real(each.run, each.point, study, place, profile))
        for each in plan(bench, study, str(place))
    }
    for run in pending([each.run for each in planned.values()], real):
        _play(bench, run, real)
    outcomes, _ = run_sweep(bench, [each.run for each in planned.values()], simulated)
    if failed := [each for each in outcomes if each.error]:
        raise JobFailed(f"a run of {study.title} failed in virtual time: {failed[0].run_id}: {failed[0].error}")
    by_clock, in_virtual_time = delivering(bench, [real]), delivering(bench, [simulated])
    rows = tuple(
        _row(study, each.point, each.run, by_clock[name], in_virtual_time[name], _processors(bench, real, name))
        for name, each in planned.items()
    )
    return RanReally(rows, tuple(_renamed(run_audits(bench, planned, str(place), "real"))))


def _real(run: RunSpec, point: Point, study: Study, place: Path, profile: str) -> RunSpec:
    """Return a run as it is played on real brokers: some links are slow if the study says so."""
    overlay = ""
    if study.link_rate is not None:
        path = place / f"{point.folder}.overlay.toml"
        links = slow_links(point.workload.scot(), host_of_burst(run.workload))
        path.write_text(overlay_text(study.name, point.workload, links, study.link_rate), encoding="utf-8")
        overlay = str(path)
    return msgspec.structs.replace(run, uncongested=False, sample_ms=0.0, profile=profile, overlay=overlay)


def _play(bench: Bench, run: RunSpec, folder: str) -> None:
    with bench.stages.line(f"{run.run_id}, over sockets:") as tell:
        played = play_on_brokers(run, Path(folder) / TRACES / run.run_id, 1.0, tell)
        tell(f"{played.deliveries:,} deliveries")


def _processors(bench: Bench, folder: str, run: str) -> tuple[float, str]:
    """Return how much of the processors a run used, and whether they were enough."""
    cpu = bench.storage.read_json(f"{folder}/{TRACES}/{run}/{RUN_FILE}")["cpu"]
    if cpu is None:
        return 0.0, UNKNOWN
    return float(cpu["total_mean"]), SHORT if cpu["is_short"] else ENOUGH


def _row(
    study: Study,
    point: Point,
    run: RunSpec,
    real: dict[str, Any],
    simulated: dict[str, Any],
    processors: tuple[float, str],
) -> RealRow:
    burst = point.workload.burst
    per_s = 0.0 if burst is None else burst.per_minute / 60.0
    return RealRow(
        study=study.name.value,
        algorithm=run.algorithm.value,
        seed=point.seed,
        publications=point.publications,
        deliveries=real["deliveries"],
        offered=per_s / study.link_rate if study.link_rate else 0.0,
        publication_delay_ms=real["delay_ms_mean"],
        share_below_1s=real["share_below_1000_ms"],
        publication_messages=real.get("publication_messages", 0),
        simulated_delay_ms=simulated["delay_ms_mean"],
        simulated_messages=simulated.get("publication_messages", 0),
        processors_used=processors[0],
        processors=processors[1],
    )


def _renamed(audits: Iterator[AuditRow]) -> Iterator[AuditRow]:
    """Tell the audits of these runs from those of the simulated ones."""
    return (dataclasses.replace(row, run=f"{row.run}, over sockets") for row in audits)
