"""A workload on real brokers: they are started for it on this machine, and how busy the processors were is noted.

``play_on_brokers`` leaves a folder like that of a simulated run: ``trace.parquet``, and ``run.json`` with what was
assumed and counted. Brokers, clients and whoever else is there share the processors of this machine. Where those were
short, delays tell of processors and not of links, so that every run says how busy they were.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from octopia.errors import UsageError
from octopia.experiments.embedded import at_free_addresses, cpu_s_of, running
from octopia.overlay.files import Overlay
from octopia.runtime.process import run_loop
from octopia.trace import PARQUET_FILE, RUN_FILE, Parquet
from octopia.workloads.network_run import NetworkTrace, Pace, Played, play_on_network
from octopia.workloads.provenance import commit
from octopia.workloads.runs import RunSpec, identity_of, overlay_of
from octopia.workloads.workload import load_workload

SAMPLE_S = 1.0
BUSY_PROCESS = 0.9
"""A process that uses more of one core than this may be what others wait for."""
BUSY_TOGETHER = 0.95
"""All processors are taken if brokers and clients use more of them than this."""
WAITED = 0.2
"""A process that could run, and waited longer for a processor than this share of the time, was held up by others."""
SHORT_FROM = 0.1
"""Processors were short if they were busy in more than this share of the time."""


@dataclasses.dataclass(frozen=True, slots=True)
class CpuUse:
    """How busy processors were while a workload was played: a sample every second. All are shares from 0 to 1.

    Only what brokers and clients used is counted. What others on this machine used shows in how long these waited.
    """

    cores: int
    busiest_worker: float
    """The largest share of one core that a worker used over any second."""
    busiest_clients: float
    """The largest share of one core that the process of all clients used over any second."""
    total_mean: float
    """Of all processors, by workers and by the clients' process together."""
    total_max: float
    waited_max: float
    """The largest share of any second in which a process could have run, but waited for a processor."""
    busy_share: float
    """The share of samples in which processors were busy.

    They were if a process used over 90% of a core, if all together used over 95% of all processors, or if a process
    waited for one in over 20% of the time.
    """

    @property
    def is_short(self) -> bool:
        """Whether processors, not links, may have been the bottleneck: they were busy in over 10% of the samples."""
        return self.busy_share > SHORT_FROM


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkRun:
    """What came of a workload on real brokers; the use of processors is known on Linux only."""

    run_id: str
    algorithm: str
    publications: int
    deliveries: int
    messages: dict[str, int]
    """By kind, between brokers, summed over brokers."""
    seconds: float
    cpu: CpuUse | None


def play_on_brokers(spec: RunSpec, folder: Path, speed: float, show: Callable[[str], None]) -> NetworkRun:
    """Start the brokers of a run, play its workload on them, and put the trace and what was counted into a folder.

    Links are as slow as the run's overlay file says, from the start. ``show`` is told how far it is.
    """
    spec = spec.named()
    if spec.uncongested:
        raise UsageError(f"expected links that may congest on real brokers, got {spec.run_id}, which is uncongested")
    workload = load_workload(spec.workload)
    overlay = at_free_addresses(dataclasses.replace(overlay_of(spec, workload), routing=spec.routing))
    folder.mkdir(parents=True, exist_ok=True)
    # Without it the folder is not that of a finished run, whatever becomes of this one.
    (folder / RUN_FILE).unlink(missing_ok=True)
    brokers = len(overlay.scot.brokers)
    show(f"starting {brokers} brokers")
    with running(overlay, _processes()) as workers, Parquet(folder / PARQUET_FILE) as sink:
        writer = NetworkTrace(spec.run_id, spec.algorithm.value, [sink])
        meter = _Meter(workers.pids) if sys.platform == "linux" else None

        def on_progress(publications: int, deliveries: int) -> None:
            if meter is not None:
                meter.look()
            show(f"playing on {brokers} brokers: {deliveries:,} deliveries")

        show(f"connecting {len(workload.advertisements) + len(workload.subscriptions):,} clients")
        pace = Pace(spec.first, speed)
        played = run_loop(play_on_network(workload, overlay.addresses, writer, pace, on_progress))
        run = _run_of(spec, played, meter.use() if meter is not None else None)
    (folder / RUN_FILE).write_text(json.dumps(_manifest_of(spec, overlay, speed, run), indent=2) + "\n")
    return run


def _processes() -> int:
    """Return how many workers there are: the clients have a core of their own, if there is more than one."""
    return max(1, (os.cpu_count() or 2) - 1)


def _run_of(spec: RunSpec, played: Played, cpu: CpuUse | None) -> NetworkRun:
    messages: dict[str, int] = {}
    for report in played.reports.values():
        for kind, count in report["sent"].items():
            messages[kind] = messages.get(kind, 0) + count
    return NetworkRun(
        spec.run_id, spec.algorithm.value, played.publications, played.deliveries, messages, played.seconds, cpu
    )


def _manifest_of(spec: RunSpec, overlay: Overlay, speed: float, run: NetworkRun) -> dict[str, Any]:
    """Return what a run on the network assumed, and what it counted."""
    links = [
        {"from": str(sender), "to": str(receiver), "rate": shape.rate, "delay_ms": shape.delay_ms}
        for (sender, receiver), shape in overlay.shapes.items()
    ]
    cpu = None if run.cpu is None else {**dataclasses.asdict(run.cpu), "is_short": run.cpu.is_short}
    return {
        "identity": identity_of(spec),
        "network": {"processes": _processes(), "speed": speed, "links": links},
        "messages": run.messages,
        "publications": run.publications,
        "deliveries": run.deliveries,
        "seconds": round(run.seconds, 3),
        "commit": commit(),
        "cpu": cpu,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSample:
    """What processes did between two looks: the shares of one core that they used, and the longest wait for one."""

    workers: tuple[float, ...]
    clients: float
    waited: float = 0.0


def use_of(samples: Sequence[CpuSample], cores: int) -> CpuUse:
    """Sum up at least one sample."""
    together = [(sum(each.workers) + each.clients) / cores for each in samples]
    busy = [
        max(*sample.workers, sample.clients) > BUSY_PROCESS or total > BUSY_TOGETHER or sample.waited > WAITED
        for sample, total in zip(samples, together, strict=True)
    ]
    return CpuUse(
        cores=cores,
        busiest_worker=round(max(max(each.workers) for each in samples), 3),
        busiest_clients=round(max(each.clients for each in samples), 3),
        total_mean=round(sum(together) / len(together), 3),
        total_max=round(max(together), 3),
        waited_max=round(max(each.waited for each in samples), 3),
        busy_share=round(sum(busy) / len(busy), 3),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Look:
    """The clocks of processes, the clients' last: what each has used, and how long it has waited for a processor."""

    now_s: float
    used_s: list[float]
    waited_s: list[float]


class _Meter:
    """Looks at the clocks of processes, from the first look on, and remembers a sample for every second."""

    def __init__(self, workers: Sequence[int]):
        self._pids = [*workers, os.getpid()]
        self._last: _Look | None = None
        self._samples: list[CpuSample] = []

    def look(self) -> None:
        """Take a sample if a second has passed since the last one."""
        if self._last is None or time.perf_counter() - self._last.now_s >= SAMPLE_S:
            self._take()

    def use(self) -> CpuUse | None:
        """Return what was seen, which is nothing if a worker died; a run of less than a second is one sample."""
        if not self._samples:
            self._take()
        return use_of(self._samples, os.cpu_count() or 1) if self._samples else None

    def _take(self) -> None:
        try:
            used_s, waited_s = [cpu_s_of(pid) for pid in self._pids], [_waited_s_of(pid) for pid in self._pids]
        except OSError:  # A worker died: the run fails, and says so better than this could.
            return
        now = _Look(time.perf_counter(), used_s, waited_s)
        if self._last is not None:
            self._samples.append(_sample_between(self._last, now))
        self._last = now


def _sample_between(before: _Look, after: _Look) -> CpuSample:
    passed_s = after.now_s - before.now_s
    used, waited = (
        [(late - early) / passed_s for early, late in zip(*clocks, strict=True)]
        for clocks in ((before.used_s, after.used_s), (before.waited_s, after.waited_s))
    )
    return CpuSample(tuple(used[:-1]), used[-1], max(waited))


def _waited_s_of(pid: int) -> float:
    """Return how long the main thread of a process has waited for a processor; not every Linux tells, then nothing."""
    try:
        _, waited_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (FileNotFoundError, ValueError):
        return 0.0
    return int(waited_ns) / 1e9
