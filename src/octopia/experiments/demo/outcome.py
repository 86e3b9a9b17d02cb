"""The outcome of the demo: a workload by Spark, played on real brokers under each algorithm, and audited.

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
from octopia.experiments.delays import Delays, read_delays
from octopia.experiments.demo.plan import Plan
from octopia.experiments.missing import Missing, read_missing
from octopia.experiments.network_runs import NetworkRun, play_on_brokers
from octopia.experiments.slow_links import host_of_burst, inner_broker, overlay_text, slow_alink_and_ilink
from octopia.ids import BrokerId
from octopia.overlay.scot import Link
from octopia.settings import Algorithm
from octopia.trace import PARQUET_FILE
from octopia.workloads.outages import Outage
from octopia.workloads.runs import TRACES, RunSpec
from octopia.workloads.workload import load_workload

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace

ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE)
WORKLOAD = "workload"
OVERLAY = "overlay.toml"
RUNS = "runs"


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """The results of the workload under one algorithm.

    ``delays`` and ``later`` are the delays before and after the broker was killed, ``missing`` sorts the missing
    deliveries of the audit.
    """

    run: NetworkRun
    delays: Delays
    later: Delays
    audit: AuditRow
    missing: Missing

    @property
    def owed(self) -> int:
        """The number of deliveries that live subscribers were owed before the broker was killed."""
        return self.audit.owed - self.missing.gone - self.owed_later

    @property
    def owed_later(self) -> int:
        """The number of deliveries that live subscribers were owed after the broker was killed."""
        return self.later.count + self.missing.cut_off

    @property
    def share_later(self) -> float:
        """The share of these that arrived."""
        return self.later.count / self.owed_later

    @property
    def is_clean(self) -> bool:
        """True if every delivery came once, and none is missing that the algorithm promises."""
        return not (self.audit.unwanted or self.audit.duplicate or self.missing.faults(self.run.algorithm))

    @property
    def faults(self) -> str:
        """The counts of all faults, and of the deliveries that were cut off, as text."""
        missing, audit = self.missing, self.audit
        return (
            f"{missing.cut_off:,} cut off, {missing.unexplained:,} missing otherwise, {audit.unwanted:,} unwanted, "
            f"{audit.duplicate:,} duplicate"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        run, delays, later, audit = self.run, self.delays, self.later, self.audit
        return {
            "algorithm": run.algorithm,
            "publications": run.publications,
            "deliveries": run.deliveries,
            "slow_links": {"owed": self.owed, "delivered": delays.count, **_delays_to_json(delays)},
            "killed_broker": {"owed": self.owed_later, "delivered": later.count, **_delays_to_json(later)},
            "messages": {kind: count for kind, count in run.messages.items() if count},
            "audit": {
                "owed": audit.owed,
                "missing": audit.missing,
                "missing_because": dataclasses.asdict(self.missing),
                "unwanted": audit.unwanted,
                "duplicate": audit.duplicate,
            },
            "seconds": round(run.seconds, 3),
            "cpu": None if run.cpu is None else run.cpu.to_json(),
        }


def _delays_to_json(delays: Delays) -> dict[str, float]:
    return {
        "delay_ms_mean": round(delays.mean_ms, 3),
        "delay_ms_p99": round(delays.p99_ms, 3),
        "delay_ms_max": round(delays.max_ms, 3),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the demo; ``steps`` are its steps with their durations in seconds.

    ``links`` are the slow aLink and the slow iLink; ``dead`` is the broker that was killed.
    """

    plan: Plan
    host: BrokerId
    links: tuple[Link, Link]
    dead: BrokerId
    matches: int
    sides: tuple[Side, ...]
    steps: tuple[tuple[str, float], ...]

    @property
    def is_clean(self) -> bool:
        """True if no audit found a fault."""
        return all(side.is_clean for side in self.sides)

    @property
    def is_short(self) -> bool:
        """True if CPUs may have been the bottleneck in a run."""
        return any(side.run.cpu is not None and side.run.cpu.is_short for side in self.sides)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "host": str(self.host),
            "throttled": [{"between": [*map(str, link)], "rate": self.plan.link_rate} for link in self.links],
            "killed": str(self.dead),
            "burst_per_s": self.plan.burst_rate,
            "matches": self.matches,
            "runs": [side.to_json() for side in self.sides],
            "seconds": {name: round(seconds, 1) for name, seconds in self.steps},
        }


def run_demo(workspace: Workspace, out: Path, plan: Plan) -> Outcome:
    """Make the workload and its truth, play it under each algorithm, and audit the deliveries."""
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
    """Play the workload in the demo's folder, which has its truth, under each algorithm, and audit all."""
    watch = _Watch()
    folder = str(out.absolute())
    host = host_of_burst(f"{folder}/{WORKLOAD}")
    links = slow_alink_and_ilink(f"{folder}/{WORKLOAD}", host)
    outage = Outage(inner_broker(plan.workload.scot(), host, links), plan.outage_ms)
    (out / OVERLAY).write_text(overlay_text("demo", plan.workload, links, plan.link_rate))
    # Earlier runs are worthless if the workload was made again.
    workspace.storage.remove(f"{folder}/{RUNS}")
    runs = []
    for algorithm in ALGORITHMS:
        with watch.step(f"{algorithm} routing"):
            runs.append(_play(workspace, out, _spec(out, algorithm, outage), plan.speed))
    with watch.step("audit"):
        audits = _audit(workspace, folder)
        workload = load_workload(f"{folder}/{WORKLOAD}")
        missing = read_missing(f"{folder}/{RUNS}/faults", workload, [_spec(out, each, outage) for each in ALGORITHMS])
    published_before = outage.published_before(workload)
    sides = tuple(_side(out, run, audits[run.run_id], missing[run.run_id], published_before) for run in runs)
    owed = max(side.audit.owed for side in sides)
    return Outcome(plan, host, links, outage.broker, owed, sides, tuple(watch.steps))


def _side(out: Path, run: NetworkRun, audit: AuditRow, missing: Missing, published_before: int) -> Side:
    trace = _folder_of(out, run.run_id) / PARQUET_FILE
    before, after = read_delays(trace, end=published_before), read_delays(trace, begin=published_before)
    return Side(run, before, after, audit, missing)


def _spec(out: Path, algorithm: Algorithm, outage: Outage) -> RunSpec:
    return RunSpec(
        workload=str((out / WORKLOAD).absolute()),
        run_id=algorithm.value,
        algorithm=algorithm,
        overlay=str((out / OVERLAY).absolute()),
        killed=str(outage.broker),
        killed_at_ms=outage.at_ms,
    )


def _play(workspace: Workspace, out: Path, spec: RunSpec, speed: float) -> NetworkRun:
    with workspace.stages.line(f"{spec.algorithm} routing:") as tell:
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
