"""Running the demo: a workload by Spark, the same on real brokers under two algorithms, and the audit of both.

The folder has ``workload`` (its tables and the truth), ``overlay.toml`` (with the slow links) and ``runs`` (the traces,
as a sweep leaves them). All of it is made anew each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octopia.experiments.demo.delays import Delays, read_delays
from octopia.experiments.demo.plan import Plan
from octopia.experiments.networked import NetworkRun, play_on_brokers
from octopia.experiments.slow_links import host_of_burst, overlay_text, slow_links
from octopia.ids import BrokerId
from octopia.overlay.scot import Link
from octopia.settings import Algorithm
from octopia.trace import PARQUET_FILE
from octopia.workloads.runs import TRACES, RunSpec
from octopia.workloads.workload import load_workload

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace as Bench

ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC)
WORKLOAD = "workload"
OVERLAY = "overlay.toml"
RUNS = "runs"


@dataclasses.dataclass(frozen=True, slots=True)
class Audit:
    """What the audit of a run found."""

    owed: int
    missing: int
    unwanted: int
    duplicate: int

    @property
    def is_clean(self) -> bool:
        """Whether every delivery came exactly once, and nothing else did."""
        return not (self.missing or self.unwanted or self.duplicate)

    def __str__(self) -> str:
        return f"{self.missing:,} missing, {self.unwanted:,} unwanted, {self.duplicate:,} duplicate"


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What came of the workload under one algorithm."""

    run: NetworkRun
    delays: Delays
    audit: Audit


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the demo; ``steps`` are what took how many seconds."""

    plan: Plan
    host: BrokerId
    links: tuple[Link, ...]
    matches: int
    sides: tuple[Side, ...]
    steps: tuple[tuple[str, float], ...]

    @property
    def is_clean(self) -> bool:
        """Whether no audit found anything."""
        return all(side.audit.is_clean for side in self.sides)

    @property
    def is_short(self) -> bool:
        """Whether processors may have been the bottleneck in a run."""
        return any(side.run.cpu is not None and side.run.cpu.is_short for side in self.sides)

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {
            "host": str(self.host),
            "throttled": [{"between": [*map(str, link)], "rate": self.plan.link_rate} for link in self.links],
            "burst_per_s": self.plan.burst_rate,
            "matches": self.matches,
            "runs": [_side_json(side) for side in self.sides],
            "seconds": {name: round(seconds, 1) for name, seconds in self.steps},
        }


def _side_json(side: Side) -> dict[str, Any]:
    run, delays = side.run, side.delays
    cpu = None if run.cpu is None else {**dataclasses.asdict(run.cpu), "is_short": run.cpu.is_short}
    return {
        "algorithm": run.algorithm,
        "publications": run.publications,
        "deliveries": run.deliveries,
        "delay_ms_median": round(delays.median_ms, 3),
        "delay_ms_p99": round(delays.p99_ms, 3),
        "delay_ms_max": round(delays.max_ms, 3),
        "messages": {kind: count for kind, count in run.messages.items() if count},
        "audit": dataclasses.asdict(side.audit),
        "seconds": round(run.seconds, 3),
        "cpu": cpu,
    }


def run_demo(bench: Bench, out: Path, plan: Plan) -> Outcome:
    """Make the workload and its truth, play it under both algorithms, and audit what was delivered."""
    from octopia.pipeline.jobs import Market, find_truth, make_workload

    watch = _Watch()
    workload = str((out / WORKLOAD).absolute())
    with watch.step("workload"):
        make_workload(bench, workload, plan.workload, Market(symbols=plan.symbols, days=plan.days))
    with watch.step("truth"):
        matches = find_truth(bench, workload)
    outcome = compare_routing(bench, out, plan)
    return dataclasses.replace(outcome, matches=matches, steps=(*watch.steps, *outcome.steps))


def compare_routing(bench: Bench, out: Path, plan: Plan) -> Outcome:
    """Play the workload that is in the demo's folder, with its truth, under both algorithms, and audit both."""
    watch = _Watch()
    folder = str(out.absolute())
    load_workload.cache_clear()  # An earlier demo in this process may have left another one there.
    host = host_of_burst(f"{folder}/{WORKLOAD}")
    links = slow_links(plan.workload.scot(), host)
    (out / OVERLAY).write_text(overlay_text("demo", plan.workload, links, plan.link_rate))
    # The workload may have been made anew, which makes earlier runs worthless.
    bench.storage.remove(f"{folder}/{RUNS}")
    runs = []
    for algorithm in ALGORITHMS:
        with watch.step(f"{algorithm} routing"):
            runs.append(_play(bench, out, algorithm, plan.speed))
    with watch.step("audit"):
        audits = _audit(bench, folder)
    sides = tuple(
        Side(run, read_delays(_folder_of(out, run.run_id) / PARQUET_FILE), audits[run.run_id]) for run in runs
    )
    return Outcome(plan, host, links, max(side.audit.owed for side in sides), sides, tuple(watch.steps))


def _play(bench: Bench, out: Path, algorithm: Algorithm, speed: float) -> NetworkRun:
    spec = RunSpec(
        workload=str((out / WORKLOAD).absolute()),
        run_id=algorithm.value,
        algorithm=algorithm,
        overlay=str((out / OVERLAY).absolute()),
    )
    with bench.stages.line(f"{algorithm} routing:") as tell:
        run = play_on_brokers(spec, _folder_of(out, spec.run_id), speed, tell)
        tell(f"{run.deliveries:,} deliveries")
    return run


def _folder_of(out: Path, run_id: str) -> Path:
    return out / RUNS / TRACES / run_id


def _audit(bench: Bench, folder: str) -> dict[str, Audit]:
    from octopia.pipeline.jobs import run_audit

    rows = run_audit(bench, f"{folder}/{RUNS}", f"{folder}/{WORKLOAD}")
    return {row["run_id"]: Audit(row["owed"], row["missing"], row["unwanted"], row["duplicates"]) for row in rows}


class _Watch:
    """Notes how long steps took."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float]] = []

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.steps.append((name, time.perf_counter() - begin))
