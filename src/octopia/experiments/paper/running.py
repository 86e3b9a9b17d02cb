"""Running a study: its workloads, its runs as one sweep, the audit, and the rows of its tables.

Everything is kept in the study's folder. A workload that is there and was made from the same spec is not made again,
and a run that is finished is not run again, so that a study that was stopped goes on where it was.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from octopia.errors import JobFailed
from octopia.experiments.paper.names import Name
from octopia.experiments.paper.studies import Point, Study
from octopia.experiments.paper.tables import (
    OCTOPIA,
    TID,
    AuditRow,
    BurstRow,
    DeliveryRow,
    PublisherRow,
    SequenceRow,
    SubscriberRow,
    Tables,
)
from octopia.playing.files import MANIFEST
from octopia.playing.runs import RunSpec

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Bench, Market

CALM_MS = 1000.0
"""What delays are normal again."""
_AUDITED = (Name.DELIVERY, Name.BURST)


@dataclasses.dataclass(frozen=True, slots=True)
class Ran:
    """What a study gave."""

    tables: Tables
    audits: tuple[AuditRow, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Planned:
    """A run with the point of the study that it belongs to."""

    point: Point
    run: RunSpec


def run_study(bench: Bench, study: Study, folder: str, market: Market) -> Ran:
    """Run what is not finished of a study, and return its tables."""
    from octopia.pipeline.jobs import run_sweep

    place = f"{folder}/{study.name}"
    for point in study.points:
        _make_workload(bench, point, f"{place}/{point.folder}", market, with_truth=study.name in _AUDITED)
    planned = {each.run.run_id: each for each in _plan(bench, study, place)}
    outcomes, _ = run_sweep(bench, [each.run for each in planned.values()], f"{place}/runs")
    failed = [each for each in outcomes if each.error]
    if failed:
        raise JobFailed(f"{len(failed)} runs of {study.title} failed; the first, {failed[0].run_id}: {failed[0].error}")
    audits = tuple(_audit(bench, planned, place)) if study.name in _AUDITED else ()
    return Ran(_tables(bench, study, f"{place}/runs", planned), audits)


def _make_workload(bench: Bench, point: Point, folder: str, market: Market, *, with_truth: bool) -> None:
    from octopia.pipeline.jobs import TRUTH, find_truth, make_workload

    storage = bench.storage
    wanted = json.loads(json.dumps({"spec": point.workload.to_json(), "market": dataclasses.asdict(market)}))
    if storage.exists(f"{folder}/{MANIFEST}"):
        manifest = storage.read_json(f"{folder}/{MANIFEST}")
        if {key: manifest.get(key) for key in wanted} == wanted:
            if with_truth and not storage.has_table(f"{folder}/{TRUTH}"):
                find_truth(bench, folder)
            return
    make_workload(bench, folder, point.workload, market)
    if with_truth:
        find_truth(bench, folder)


def _plan(bench: Bench, study: Study, place: str) -> Iterator[_Planned]:
    for point in study.points:
        workload = bench.storage.absolute(f"{place}/{point.folder}")
        for run in point.runs:
            run_id = f"{study.name}-{point.value:g}-{run.algorithm}-{point.seed}"
            yield _Planned(point, msgspec.structs.replace(run, workload=workload, run_id=run_id))


def _audit(bench: Bench, planned: dict[str, _Planned], place: str) -> Iterator[AuditRow]:
    """Audit all runs, those of one workload at once against its truth."""
    from octopia.pipeline.jobs import audit_runs

    by_workload: dict[str, list[str]] = {}
    for name, each in planned.items():
        by_workload.setdefault(f"{place}/{each.point.folder}", []).append(f"{place}/runs/traces/{name}")
    for folder, traces in by_workload.items():
        # The faults lie with the workload, since the folder of runs is that of several.
        found = {row["run_id"]: row for row in audit_runs(bench, traces, folder, f"{folder}/faults")}
        for name in (trace.rpartition("/")[2] for trace in traces):
            row = found[name]
            yield AuditRow(name, row["deliveries"], row["missing"], row["unwanted"], row["duplicates"])


def _tables(bench: Bench, study: Study, traces: str, planned: dict[str, _Planned]) -> Tables:
    from octopia.pipeline import summaries

    brokers = len(study.points[0].workload.scot().brokers)
    if study.name is Name.PUBLISHERS:
        spread = summaries.spreading(bench, traces, brokers)
        return Tables(publishers=tuple(_publisher_row(each, spread[run], brokers) for run, each in planned.items()))
    if study.name is Name.SUBSCRIBERS:
        spread = summaries.spreading(bench, traces, brokers)
        return Tables(subscribers=tuple(_subscriber_row(each, spread[run]) for run, each in planned.items()))
    if study.name is Name.DELIVERY:
        found = summaries.delivering(bench, traces)
        return Tables(delivery=tuple(_delivery_row(each, found[run]) for run, each in planned.items()))
    found, sequence = summaries.bursting(bench, traces, study.points[0].runs[0].tau)
    rows: dict[str, list[SequenceRow]] = {run: [] for run in planned}
    for row in sequence:
        run = row["run_id"]
        rows[run].append(_sequence_row(planned[run], row, found[run]["burst_ms"]))
    bursts = tuple(
        _burst_row(each, found[run], rows[run], _seconds(bench, traces, run)) for run, each in planned.items()
    )
    return Tables(bursts=bursts, sequences=tuple(row for each in rows.values() for row in each))


def _system(run: RunSpec) -> str:
    return TID if run.algorithm.is_tid else OCTOPIA


def _publisher_row(planned: _Planned, found: dict[str, Any], brokers: int) -> PublisherRow:
    spec, run = planned.point.workload, planned.run
    advertisements, messages = found["advertisements"], found["advertisement_messages"]
    # A flood reaches every other broker once; what is more than that is discarded there.
    needed = advertisements * (brokers - 1)
    return PublisherRow(
        publishers=spec.publishers,
        system=_system(run),
        seed=planned.point.seed,
        advertisements=advertisements,
        advertisement_delay_ms=found["advertisement_delay_ms"],
        table_size_mean=found["srt_size_mean" if run.algorithm.is_tid else "clt_size_mean"],
        advertisement_messages=messages,
        duplicate_share=max(0, messages - needed) / messages if run.algorithm.is_tid else 0.0,
    )


def _subscriber_row(planned: _Planned, found: dict[str, Any]) -> SubscriberRow:
    return SubscriberRow(
        subscribers=planned.point.workload.subscribers,
        system=_system(planned.run),
        seed=planned.point.seed,
        subscriptions=found["subscriptions"],
        subscription_delay_ms=found["subscription_delay_ms"],
        prt_size_mean=found["prt_size_mean"],
        subscription_messages=found.get("subscription_messages", 0),
    )


def _delivery_row(planned: _Planned, found: dict[str, Any]) -> DeliveryRow:
    return DeliveryRow(
        subscribers=planned.point.workload.subscribers,
        algorithm=planned.run.algorithm.value,
        seed=planned.point.seed,
        deliveries=found["deliveries"],
        publication_delay_ms=found["delay_ms_mean"],
        publication_messages=found.get("publication_messages", 0),
    )


def _sequence_row(planned: _Planned, found: dict[str, Any], burst_ms: float) -> SequenceRow:
    return SequenceRow(
        rate_per_minute=round(planned.point.value),
        algorithm=planned.run.algorithm.value,
        seed=planned.point.seed,
        sequence=found["sequence"],
        delay_ms_max=found["delay_ms_max"],
        time_ms=found["time_ms_last"] - burst_ms,
    )


def _burst_row(planned: _Planned, found: dict[str, Any], sequence: list[SequenceRow], seconds: float) -> BurstRow:
    spec, run = planned.point.workload, planned.run
    samples = max(1.0, (found["last_ms"] - found["burst_ms"]) / run.sample_ms)
    return BurstRow(
        rate_per_minute=round(planned.point.value),
        algorithm=run.algorithm.value,
        seed=planned.point.seed,
        publications=spec.publishers * spec.publications + (spec.burst.publications if spec.burst else 0),
        deliveries=found["deliveries"],
        publication_delay_ms=found["delay_ms_mean"],
        share_below_1s=found["share_below_1000_ms"],
        stable_ms=stable_ms(sequence),
        queue_length_mean=found.get("waited", 0) / samples / max(1, found.get("links", 0)),
        publication_messages=found.get("publication_messages", 0),
        congested_ms=found.get("congested", 0) * run.sample_ms,
        seconds=seconds,
    )


def stable_ms(sequence: list[SequenceRow]) -> float | None:
    """Return when deliveries took no more than a second again, from the start of the burst; none if they never did."""
    late = [row for row in sequence if row.delay_ms_max > CALM_MS]
    if not late:
        return 0.0
    return None if late[-1] is sequence[-1] else late[-1].time_ms


def _seconds(bench: Bench, traces: str, run: str) -> float:
    """Return how long a run took by the clock, as it noted itself."""
    return float(bench.storage.read_json(f"{traces}/traces/{run}/run.json")["seconds"])
