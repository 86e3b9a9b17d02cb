"""The outcome of the demo: a workload by Spark, played on real brokers under static and dynamic routing, and audited.

The folder has ``workload`` (its tables and the truth), ``overlay.toml`` (with the slow links) and ``runs`` (the traces,
as a sweep leaves them). Everything is made again each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.audits import AuditRow, audit_rows
from octopia.experiments.demo.delays import Delays, read_delays
from octopia.experiments.demo.plan import Plan
from octopia.experiments.network_runs import NetworkRun, play_on_brokers
from octopia.experiments.slow_links import host_of_burst, overlay_text, slow_links
from octopia.ids import BrokerId
from octopia.overlay.scot import Link
from octopia.settings import Algorithm
from octopia.trace import PARQUET_FILE
from octopia.workloads.runs import TRACES, RunSpec
from octopia.workloads.workload import load_workload

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace

ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC)
WORKLOAD = "workload"
OVERLAY = "overlay.toml"
RUNS = "runs"


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """The results of the workload under one algorithm."""

    run: NetworkRun
    delays: Delays
    audit: AuditRow

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        run, delays, audit = self.run, self.delays, self.audit
        return {
            "algorithm": run.algorithm,
            "publications": run.publications,
            "deliveries": run.deliveries,
            "delay_ms_median": round(delays.median_ms, 3),
            "delay_ms_p99": round(delays.p99_ms, 3),
            "delay_ms_max": round(delays.max_ms, 3),
            "messages": {kind: count for kind, count in run.messages.items() if count},
            "audit": {
                "owed": audit.owed,
                "missing": audit.missing,
                "unwanted": audit.unwanted,
                "duplicate": audit.duplicate,
            },
            "seconds": round(run.seconds, 3),
            "cpu": None if run.cpu is None else run.cpu.to_json(),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the demo; ``steps`` are its steps with their durations in seconds."""

    plan: Plan
    host: BrokerId
    links: tuple[Link, ...]
    matches: int
    sides: tuple[Side, ...]
    steps: tuple[tuple[str, float], ...]

    @property
    def is_clean(self) -> bool:
        """True if no audit found a fault."""
        return all(side.audit.is_clean for side in self.sides)

    @property
    def is_short(self) -> bool:
        """True if processors may have been the bottleneck in a run."""
        return any(side.run.cpu is not None and side.run.cpu.is_short for side in self.sides)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "host": str(self.host),
            "throttled": [{"between": [*map(str, link)], "rate": self.plan.link_rate} for link in self.links],
            "burst_per_s": self.plan.burst_rate,
            "matches": self.matches,
            "runs": [side.to_json() for side in self.sides],
            "seconds": {name: round(seconds, 1) for name, seconds in self.steps},
        }


def run_demo(workspace: Workspace, out: Path, plan: Plan) -> Outcome:
    """Make the workload and its truth, play it under both algorithms, and audit the deliveries."""
    from octopia.pipeline.jobs import Market, find_truth, make_workload

    watch = _Watch()
    workload = str((out / WORKLOAD).absolute())
    with watch.step("workload"):
        make_workload(workspace, workload, plan.workload, Market(symbols=plan.symbols, days=plan.days))
    with watch.step("truth"):
        matches = find_truth(workspace, workload)
    outcome = compare_routing(workspace, out, plan)
    return dataclasses.replace(outcome, matches=matches, steps=(*watch.steps, *outcome.steps))


def compare_routing(workspace: Workspace, out: Path, plan: Plan) -> Outcome:
    """Play the workload in the demo's folder, which has its truth, under both algorithms, and audit both."""
    watch = _Watch()
    folder = str(out.absolute())
    load_workload.cache_clear()  # An earlier demo in this process may have left another workload there.
    host = host_of_burst(f"{folder}/{WORKLOAD}")
    links = slow_links(plan.workload.scot(), host)
    (out / OVERLAY).write_text(overlay_text("demo", plan.workload, links, plan.link_rate))
    # Earlier runs are worthless if the workload was made again.
    workspace.storage.remove(f"{folder}/{RUNS}")
    runs = []
    for algorithm in ALGORITHMS:
        with watch.step(f"{algorithm} routing"):
            runs.append(_play(workspace, out, algorithm, plan.speed))
    with watch.step("audit"):
        audits = _audit(workspace, folder)
    sides = tuple(
        Side(run, read_delays(_folder_of(out, run.run_id) / PARQUET_FILE), audits[run.run_id]) for run in runs
    )
    return Outcome(plan, host, links, max(side.audit.owed for side in sides), sides, tuple(watch.steps))


def _play(workspace: Workspace, out: Path, algorithm: Algorithm, speed: float) -> NetworkRun:
    spec = RunSpec(
        workload=str((out / WORKLOAD).absolute()),
        run_id=algorithm.value,
        algorithm=algorithm,
        overlay=str((out / OVERLAY).absolute()),
    )
    with workspace.stages.line(f"{algorithm} routing:") as tell:
        run = play_on_brokers(spec, _folder_of(out, spec.run_id), speed, tell)
        tell(f"{run.deliveries:,} deliveries")
    return run


def _folder_of(out: Path, run_id: str) -> Path:
    return out / RUNS / TRACES / run_id


def _audit(workspace: Workspace, folder: str) -> dict[str, AuditRow]:
    from octopia.pipeline.jobs import run_audit

    return {row.run: row for row in audit_rows(run_audit(workspace, f"{folder}/{RUNS}", f"{folder}/{WORKLOAD}"))}


class _Watch:
    """A stopwatch that notes the durations of steps."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.steps.append((name, time.perf_counter() - begin))
