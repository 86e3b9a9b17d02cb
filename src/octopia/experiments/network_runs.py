"""Runs of a workload on real brokers, which are started for it on this machine.

``play_on_brokers`` leaves a folder like that of a simulated run: ``trace.parquet``, and ``run.json`` with assumptions
and counts. Brokers, clients and other processes share the CPUs of this machine. Where those were short, delays depend
on CPUs and not on links alone, so every run notes how busy they were.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from octopia.errors import UsageError
from octopia.experiments.local_overlay import at_free_addresses, cpu_s_of, running
from octopia.overlay.files import Overlay
from octopia.records.files import write_whole
from octopia.settings import Algorithm
from octopia.trace import PARQUET_FILE, RUN_FILE, Parquet
from octopia.transport.loop import run_loop
from octopia.workloads.network_run import NetworkTrace, Pace, Played, play_on_network
from octopia.workloads.provenance import commit
from octopia.workloads.runs import RunSpec, identity_of, overlay_of
from octopia.workloads.workload import load_workload

SAMPLE_S = 1.0
BUSY_PROCESS = 0.9
"""A process that uses more of one core than this may hold up the others."""
BUSY_TOGETHER = 0.95
"""All CPUs are in use if brokers and clients use more of them than this."""
WAITED = 0.2
"""A process that waited for a processor for more than this share of the time was held up by others."""
SHORT_FROM = 0.1
"""Processors were short if they were busy in more than this share of the time."""


@dataclasses.dataclass(frozen=True, slots=True)
class CpuUse:
    """The use of CPUs while a workload was played, sampled every second, in shares from 0 to 1.

    Only brokers and clients are counted. Other processes on this machine show in the time that these waited.
    """

    cores: int
    busiest_worker: float
    """The largest share of one core that a worker used in any second."""
    busiest_clients: float
    """The largest share of one core that the process of all clients used in any second."""
    total_mean: float
    """The mean share of all CPUs that workers and clients used together."""
    total_max: float
    waited_max: float
    """The largest share of any second in which a process was ready, but waited for a processor."""
    busy_share: float
    """The share of samples in which CPUs were busy.

    They are busy if a process uses over 90% of a core, if all processes use over 95% of all CPUs, or if a process
    waits for one over 20% of the time.
    """

    @property
    def is_short(self) -> bool:
        """True if CPUs may have been the bottleneck: they were busy in over 10% of the samples."""
        return self.busy_share > SHORT_FROM

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {**dataclasses.asdict(self), "is_short": self.is_short}


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkRun:
    """The results of a workload on real brokers; the use of CPUs is known on Linux only."""

    run_id: str
    algorithm: Algorithm
    publications: int
    deliveries: int
    messages: dict[str, int]
    """Messages between brokers by kind, summed over brokers."""
    seconds: float
    cpu: CpuUse | None
    unsent: int = 0
    """Publications of publishers whose broker was killed before."""
    killed_ms: float | None = None
    """The time since the start of the run at which the neighbours of the killed broker had noticed."""
    noticed_ms: float | None = None
    """The time from the kill until then."""
    messages_at_begin: dict[str, int] = dataclasses.field(default_factory=dict)
    """Messages before the first publication: for links, advertisements and subscriptions."""


def play_on_brokers(
    spec: RunSpec, folder: Path, speed: float, show: Callable[[str], None], processes: int | None = None
) -> NetworkRun:
    """Start the brokers of a run, play its workload on them, and write the trace and the counts into a folder.

    Links are as slow as the run's overlay file says, from the start. ``show`` is called with the progress. Brokers
    share as many ``processes`` as there are CPUs, less one for the clients, unless the caller wants another number. A
    broker that is killed has its own.
    """
    spec = spec.named()
    outage = spec.outage
    if spec.uncongested:
        raise UsageError(f"expected links that may congest on real brokers, got {spec.run_id}, which is uncongested")
    workload = load_workload(spec.workload, spec.first)
    overlay = at_free_addresses(dataclasses.replace(overlay_of(spec, workload), routing=spec.routing))
    folder.mkdir(parents=True, exist_ok=True)
    # A folder without a manifest does not count as a finished run, even if this one fails.
    (folder / RUN_FILE).unlink(missing_ok=True)
    brokers = len(overlay.scot.brokers)
    processes = processes or _processes()
    show(f"starting {brokers} brokers")
    alone = () if outage is None else (outage.broker,)
    with (
        _quiet() if outage is not None else contextlib.nullcontext(),
        running(overlay, processes, alone) as workers,
        Parquet(folder / PARQUET_FILE) as sink,
    ):
        writer = NetworkTrace(spec.run_id, spec.algorithm.value, [sink])
        meter = _Meter(workers.pids) if sys.platform == "linux" else None

        def on_progress(publications: int, deliveries: int) -> None:
            if meter is not None:
                meter.look()
            show(f"playing on {brokers} brokers: {deliveries:,} deliveries")

        show(f"connecting {len(workload.advertisements) + len(workload.subscriptions):,} clients")
        pace = Pace(spec.first, speed)
        coming = play_on_network(workload, overlay.addresses, writer, pace, on_progress, outage, workers.kill)
        run = _run_of(spec, run_loop(coming), meter.use() if meter is not None else None)
        if outage is not None:
            # An orderly stop would wait for the publications that wait for the dead broker.
            for broker in overlay.scot.brokers:
                workers.kill(broker)
    manifest = json.dumps(_manifest_of(spec, overlay, processes, speed, run), indent=2)
    write_whole(folder / RUN_FILE, f"{manifest}\n".encode())
    return run


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Log no warnings: brokers and clients would warn of the connections that a planned outage breaks."""
    logger = logging.getLogger("octopia")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _processes() -> int:
    """Return the number of workers: one core is left for the clients, if there are several."""
    return max(1, (os.cpu_count() or 2) - 1)


def _run_of(spec: RunSpec, played: Played, cpu: CpuUse | None) -> NetworkRun:
    messages, at_begin = (_sent(reports) for reports in (played.reports, played.at_begin))
    return NetworkRun(
        spec.run_id,
        spec.algorithm,
        played.publications,
        played.deliveries,
        messages,
        played.seconds,
        cpu,
        played.unsent,
        played.killed_ms,
        played.noticed_ms,
        at_begin,
    )


def _sent(reports: Mapping[str, dict[str, Any]]) -> dict[str, int]:
    """Return the messages between brokers by kind, summed over the reports of brokers."""
    messages: Counter[str] = Counter()
    for report in reports.values():
        messages.update(report["sent"])
    return messages


def _manifest_of(spec: RunSpec, overlay: Overlay, processes: int, speed: float, run: NetworkRun) -> dict[str, Any]:
    """Return the assumptions and the counts of a run on the network."""
    links = [
        {"from": str(sender), "to": str(receiver), "rate": shape.rate, "delay_ms": shape.delay_ms}
        for (sender, receiver), shape in overlay.shapes.items()
    ]
    return {
        "identity": identity_of(spec),
        "network": {"processes": processes, "speed": speed, "links": links},
        "messages": run.messages,
        "messages_at_begin": run.messages_at_begin,
        "publications": run.publications,
        "unsent": run.unsent,
        "noticed_ms": run.noticed_ms,
        "deliveries": run.deliveries,
        "seconds": round(run.seconds, 3),
        "commit": commit(),
        "cpu": None if run.cpu is None else run.cpu.to_json(),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSample:
    """The shares of one core that processes used between two readings, and the longest share of waiting for one."""

    workers: tuple[float, ...]
    clients: float
    waited: float = 0.0


def use_of(samples: Sequence[CpuSample], cores: int) -> CpuUse:
    """Summarise at least one sample."""
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
class _Reading:
    """The clocks of processes, the clients' last: the CPU time of each, and its waiting time for a processor."""

    now_s: float
    used_s: list[float]
    waited_s: list[float]


class _Meter:
    """Reads the clocks of processes, and keeps one sample per second."""

    def __init__(self, workers: Sequence[int]):
        self._pids = [*workers, os.getpid()]
        self._last: _Reading | None = None
        self._samples: list[CpuSample] = []

    def look(self) -> None:
        """Take a sample if a second has passed since the last reading."""
        if self._last is None or time.perf_counter() - self._last.now_s >= SAMPLE_S:
            self._take()

    def use(self) -> CpuUse | None:
        """Return the use so far, or None if a worker died; a run shorter than a second is one sample."""
        if not self._samples:
            self._take()
        return use_of(self._samples, os.cpu_count() or 1) if self._samples else None

    def _take(self) -> None:
        try:
            used_s, waited_s = [cpu_s_of(pid) for pid in self._pids], [_waited_s_of(pid) for pid in self._pids]
        except OSError:  # A worker died: the run fails with a better message.
            return
        now = _Reading(time.perf_counter(), used_s, waited_s)
        if self._last is not None:
            self._samples.append(_sample_between(self._last, now))
        self._last = now


def _sample_between(before: _Reading, after: _Reading) -> CpuSample:
    passed_s = after.now_s - before.now_s
    used, waited = (
        [(late - early) / passed_s for early, late in zip(*clocks, strict=True)]
        for clocks in ((before.used_s, after.used_s), (before.waited_s, after.waited_s))
    )
    return CpuSample(tuple(used[:-1]), used[-1], max(waited))


def _waited_s_of(pid: int) -> float:
    """Return how long the main thread of a process has waited for a processor; 0 where Linux does not report it."""
    try:
        _, waited_ns, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (FileNotFoundError, ValueError):
        return 0.0
    return int(waited_ns) / 1e9
