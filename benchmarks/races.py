"""Measure the copies of TID-D in a burst where floods race, which the evaluation of the paper leaves out.

The burst is that of ``octopia paper`` at the scale ``tiny``, with an inner host. TID-S and TID-D are run over trees of
shortest paths and over trees that floods draw in a race (the profiles ``paper`` and ``paper-race-trees``), TID-D also
with one copy per next hop. At some times after the burst began, a row counts the copies that brokers have sent, the
copies that wait in their queues, and the deliveries.

TID-D does not recover where floods race: its copies multiply. So these runs are stopped at the last of the times. The
benchmark fails if another run delivers more or less than it should, or if TID-D does recover.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import sys
import tempfile
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession
from rich.console import Console

from octopia.broker import Detail
from octopia.broker.interface import Event
from octopia.experiments.charts import LOOKS
from octopia.experiments.kept import prepare_workload
from octopia.experiments.paper.names import Contender, Model, Scale, StudyName
from octopia.experiments.paper.studies import Extent, load_study
from octopia.pipeline.configuration import PipelineSettings
from octopia.pipeline.jobs import TRUTH, Market, Workspace
from octopia.pipeline.progress import Stages
from octopia.pipeline.spark_session import make_session
from octopia.pipeline.spec import Burst, HostKind
from octopia.pipeline.storage import Storage
from octopia.protocol import MessageKind
from octopia.settings import PathSelection
from octopia.simulator.profiles import find_profile
from octopia.simulator.run import run_scenario
from octopia.trace import Deliveries, Row
from octopia.workloads.runs import RunSpec
from octopia.workloads.simulated_run import scenario_of
from octopia.workloads.workload import Workload, load_workload
from tables import print_json, print_rows

AT_S = (1.0, 2.0, 5.0, 10.0, 19.0)
SAMPLE_MS = 500.0
RUNS = (
    (Model.LINKS, Contender.TID_STATIC),
    (Model.LINKS, Contender.TID_DYNAMIC),
    (Model.RACE_TREES, Contender.TID_STATIC),
    (Model.RACE_TREES, Contender.TID_DYNAMIC),
    (Model.RACE_TREES, Contender.TID_DYNAMIC_PER_HOP),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a run at some time: copies that were sent, copies that wait, and deliveries."""

    copies_sent: int
    copies_waiting: int
    deliveries: int


class TimeIsUp(Exception):
    """Raised by a sink to stop a run."""


class Counter:
    """A sink that counts at some times after a burst began, and can stop a run that is not over at the last of them."""

    def __init__(self, burst_after_ms: float, at_s: Sequence[float], *, stopping: bool):
        self.found: dict[float, Counts] = {}
        self.is_stopped = False
        self._burst_after_ms = burst_after_ms
        self._at_s = sorted(at_s)
        self._stopping = stopping
        self._begin_ms: float | None = None
        self._sampled_ms = 0.0
        self._sent = self._waiting = self._delivered = 0

    def write(self, row: Row) -> None:
        """Count a copy that was sent, or the queue of a sample."""
        self._look(row.time_ms)
        match row.event:
            case Event.RECEIVE if self._begin_ms is None and row.published_ms is not None:
                self._begin_ms = row.published_ms + self._burst_after_ms
            case Event.SEND if row.peer is not None:
                self._sent += row.kind == MessageKind.PUBLICATION
            case Event.WINDOW:
                if row.time_ms != self._sampled_ms:
                    self._sampled_ms, self._waiting = row.time_ms, 0
                self._waiting += row.queue_length or 0

    def deliver(self, batch: Deliveries) -> None:
        """Count deliveries."""
        self._look(batch.time_ms)
        self._delivered += len(batch.recipients.subscriptions)

    def close(self) -> None:
        """Do nothing: counts are in memory."""

    def finish(self) -> Counts:
        """Count at the end of a run, also for the times that it did not reach, and return the counts."""
        end = self._count(self._waiting if self.is_stopped else 0)
        self.found |= dict.fromkeys(self._at_s, end)
        return end

    def _look(self, now_ms: float) -> None:
        while self._begin_ms is not None and self._at_s:
            at_ms = self._begin_ms + self._at_s[0] * 1000
            if now_ms <= at_ms:
                break
            # Empty queues are not sampled.
            self.found[self._at_s.pop(0)] = self._count(self._waiting if at_ms <= self._sampled_ms + SAMPLE_MS else 0)
            if self._stopping and not self._at_s:
                self.is_stopped = True
                raise TimeIsUp

    def _count(self, waiting: int) -> Counts:
        return Counts(self._sent, waiting, self._delivered)


def measure(workload: Workload, model: Model, contender: Contender, counter: Counter) -> Counts:
    """Run a burst, and return the counts at its end."""
    run = RunSpec(
        workload="",
        algorithm=contender.algorithm,
        tid_copies=contender.tid_copies,
        path_selection=PathSelection.INDEXED,
    )
    with contextlib.suppress(TimeIsUp):
        run_scenario(
            scenario_of(workload, run.routing),
            seed=0,
            profile=find_profile(model.profile),
            detail=Detail.HOPS,
            keep=False,
            sinks=[counter],
            sample_ms=SAMPLE_MS,
        )
    return counter.finish()


def rows_of(
    workload: Workload, burst: Burst, matches: int, at_s: Sequence[float]
) -> Iterator[dict[str, str | float | int]]:
    """Run everything, check it, and yield the rows."""
    for model, contender in RUNS:
        grows = model is Model.RACE_TREES and contender.algorithm.is_dynamic
        (first,) = workload.timed(1)
        counter = Counter(burst.start_ms - first.at_ms, at_s, stopping=grows)
        delivered = measure(workload, model, contender, counter).deliveries
        if grows and not counter.is_stopped:
            raise SystemExit(f"WRONG: expected {contender} under {model} not to recover within {max(at_s):g} s")
        if not grows and delivered != matches:
            raise SystemExit(f"WRONG: expected {matches:,} deliveries of {contender} under {model}, got {delivered:,}")
        name = {
            "trees": "races" if model is Model.RACE_TREES else "shortest paths",
            "algorithm": LOOKS[contender].label,
        }
        for after_s, counts in counter.found.items():
            yield name | {"after_s": after_s} | dataclasses.asdict(counts)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, help="of the burst (default: those of the scale tiny)")
    parser.add_argument("--at", type=float, nargs="+", default=AT_S, help="seconds after the burst began (%(default)s)")
    parser.add_argument("--master", default="local[*]", help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options = parser.parse_args(arguments)
    (point,) = load_study(StudyName.BURST, Extent(Scale.TINY, hosts=(HostKind.INNER,))).points
    spec = point.workload
    assert spec.burst is not None
    burst = dataclasses.replace(spec.burst, publications=options.publications or spec.burst.publications)
    with tempfile.TemporaryDirectory() as folder, open_session(options.master) as spark:
        workspace = Workspace(spark, Storage(folder), Stages(spark, Console(file=io.StringIO())))
        prepare_workload(workspace, folder, dataclasses.replace(spec, burst=burst), Market(), with_truth=True)
        rows = list(
            rows_of(load_workload(folder), burst, workspace.storage.count_rows(f"{folder}/{TRUTH}"), options.at)
        )
    if options.json:
        print_json(rows)
    else:
        print_rows(f"copies of a burst of {burst.publications:,} publications", rows)


@contextlib.contextmanager
def open_session(master: str) -> Iterator[SparkSession]:
    """Yield the present session as it is, or one of this program."""
    active = SparkSession.getActiveSession()
    spark = active or make_session(PipelineSettings(master=master), "octopia benchmark of racing floods")
    try:
        yield spark
    finally:
        if active is None:
            spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
