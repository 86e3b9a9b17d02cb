"""Running a study: its workloads, its runs as one sweep, the audit, and the rows of its tables.

Everything is kept in the study's folder. A workload that is there and was made from the same spec is not made again,
and a run that is finished is not run again, so that a study that was stopped goes on where it was.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from octopia.errors import JobFailed
from octopia.experiments.paper.comparing import CALM_MS
from octopia.experiments.paper.finding import Found, audit, find
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
from octopia.trace import RUN_FILE
from octopia.workloads.provenance import UNKNOWN
from octopia.workloads.runs import TRACES, RunSpec
from octopia.workloads.workload import WORKLOAD_FILE

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market
    from octopia.pipeline.jobs import Workspace as Bench

_AUDITED = (Name.DELIVERY, Name.BURST)


@dataclasses.dataclass(frozen=True, slots=True)
class Ran:
    """What a study gave."""

    tables: Tables
    audits: tuple[AuditRow, ...] = ()
    commits: tuple[str, ...] = ()
    """Of which code its runs are."""


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """A run with the point of the study that it belongs to."""

    point: Point
    run: RunSpec


def run_study(bench: Bench, study: Study, folder: str, market: Market) -> Ran:
    """Run what is not finished of a study, and return its tables."""
    place = f"{folder}/{study.name}"
    is_audited = study.name in _AUDITED
    planned = _run(bench, study, place, market, with_truth=is_audited)
    audits = tuple(run_audits(bench, planned, place, "runs")) if is_audited else ()
    folders = _folders(planned, f"{place}/runs")
    noted = [bench.storage.read_json(f"{folder}/{RUN_FILE}") for folder in folders.values()]
    commits = sorted({str(each.get("commit", UNKNOWN)) for each in noted})
    return Ran(_tables(study, planned, find(bench, study, folders)), audits, tuple(commits))


def run_variants(
    bench: Bench, study: Study, folder: str, market: Market, profiles: Mapping[str, str]
) -> dict[str, Tables]:
    """Run a study under several profiles, all in one sweep, and return the tables of each by its name.

    A profile is given as runs name it: by a name, or by the path of a file.
    """
    place = f"{folder}/{study.name}"
    varied = dataclasses.replace(study, points=tuple(_under(point, profiles.values()) for point in study.points))
    planned = _run(bench, varied, place, market, with_truth=False)
    found = find(bench, study, _folders(planned, f"{place}/runs"))
    return {
        name: _tables(study, {run: each for run, each in planned.items() if each.run.profile == profile}, found)
        for name, profile in profiles.items()
    }


def _under(point: Point, profiles: Iterable[str]) -> Point:
    """Return a point of a study with its runs under each profile."""
    runs = [msgspec.structs.replace(run, profile=profile) for profile in profiles for run in point.runs]
    return dataclasses.replace(point, runs=tuple(runs))


def _run(bench: Bench, study: Study, place: str, market: Market, *, with_truth: bool) -> dict[str, Planned]:
    """Make the workloads and play the runs that are not there yet; return all of them by their ids."""
    from octopia.pipeline.jobs import run_sweep

    for point in study.points:
        make_point(bench, point, f"{place}/{point.folder}", market, with_truth=with_truth)
    planned = {each.run.run_id: each for each in plan(bench, study, place)}
    outcomes, _ = run_sweep(bench, [each.run for each in planned.values()], f"{place}/runs")
    failed = [each for each in outcomes if each.error]
    if failed:
        raise JobFailed(f"{len(failed)} runs of {study.title} failed; the first, {failed[0].run_id}: {failed[0].error}")
    return planned


def make_point(bench: Bench, point: Point, folder: str, market: Market, *, with_truth: bool) -> None:
    """Make the workload of a point, and its truth if it is wanted, unless they are there."""
    from octopia.pipeline.jobs import TRUTH, find_truth, make_workload

    storage = bench.storage
    wanted = json.loads(json.dumps({"spec": point.workload.to_json(), "market": dataclasses.asdict(market)}))
    if storage.exists(f"{folder}/{WORKLOAD_FILE}"):
        manifest = storage.read_json(f"{folder}/{WORKLOAD_FILE}")
        if {key: manifest.get(key) for key in wanted} == wanted:
            if with_truth and not storage.has_table(f"{folder}/{TRUTH}"):
                find_truth(bench, folder)
            return
    make_workload(bench, folder, point.workload, market)
    if with_truth:
        find_truth(bench, folder)


def plan(bench: Bench, study: Study, place: str) -> Iterator[Planned]:
    """Yield the runs of a study, each with an id, and with the workload in the folder of its point."""
    for point in study.points:
        workload = bench.storage.absolute(f"{place}/{point.folder}")
        for run in point.runs:
            profile = "" if run.profile == "paper" else f"-{PurePosixPath(run.profile).stem}"
            run_id = f"{study.name}-{point.value:g}-{run.algorithm}-{point.seed}{profile}"
            yield Planned(point, msgspec.structs.replace(run, workload=workload, run_id=run_id))


def run_audits(bench: Bench, planned: Mapping[str, Planned], place: str, runs: str) -> Iterator[AuditRow]:
    """Audit all runs in a folder of a study, those of one workload at once against its truth."""
    folders = _folders(planned, f"{place}/{runs}")
    by_workload: dict[str, dict[str, str]] = {}
    for name, each in planned.items():
        by_workload.setdefault(f"{place}/{each.point.folder}", {})[name] = folders[name]
    for workload, of_workload in by_workload.items():
        found = audit(bench, workload, of_workload)
        for name in of_workload:
            row = found[name]
            yield AuditRow(name, row["deliveries"], row["missing"], row["unwanted"], row["duplicates"])


def _folders(planned: Iterable[str], sweep: str) -> dict[str, str]:
    """Return where the folder of a sweep has each run."""
    return {run: f"{sweep}/{TRACES}/{run}" for run in planned}


def _tables(study: Study, planned: Mapping[str, Planned], found: Mapping[str, Found]) -> Tables:
    """Return the rows of some runs of a study."""
    runs = [(each, found[run].values) for run, each in planned.items()]
    match study.name:
        case Name.PUBLISHERS:
            return Tables(publishers=tuple(_publisher_row(each, values, study.brokers) for each, values in runs))
        case Name.SUBSCRIBERS:
            return Tables(subscribers=tuple(_subscriber_row(each, values) for each, values in runs))
        case Name.DELIVERY:
            return Tables(delivery=tuple(_delivery_row(each, values) for each, values in runs))
        case Name.BURST:
            return _burst_tables(planned, found)
        case _:
            assert_never(study.name)


def _burst_tables(planned: Mapping[str, Planned], found: Mapping[str, Found]) -> Tables:
    rows = {
        run: [_sequence_row(each, row, found[run].values["burst_ms"]) for row in found[run].sequence]
        for run, each in planned.items()
    }
    bursts = tuple(_burst_row(each, found[run].values, rows[run]) for run, each in planned.items())
    return Tables(bursts=bursts, sequences=tuple(row for each in rows.values() for row in each))


def _system(run: RunSpec) -> str:
    return TID if run.algorithm.is_tid else OCTOPIA


def _publisher_row(planned: Planned, found: dict[str, Any], brokers: int) -> PublisherRow:
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
        confirmation_messages=found.get("confirmation_messages", 0),
        duplicate_share=max(0, messages - needed) / messages if run.algorithm.is_tid else 0.0,
    )


def _subscriber_row(planned: Planned, found: dict[str, Any]) -> SubscriberRow:
    return SubscriberRow(
        subscribers=planned.point.workload.subscribers,
        system=_system(planned.run),
        seed=planned.point.seed,
        subscriptions=found["subscriptions"],
        subscription_delay_ms=found["subscription_delay_ms"],
        prt_size_mean=found["prt_size_mean"],
        # Cluster index vectors are set as part of a subscription.
        subscription_messages=found.get("subscription_messages", 0) + found.get("civ_set_messages", 0),
        confirmation_messages=found.get("confirmation_messages", 0),
    )


def _delivery_row(planned: Planned, found: dict[str, Any]) -> DeliveryRow:
    return DeliveryRow(
        subscribers=planned.point.workload.subscribers,
        algorithm=planned.run.algorithm.value,
        seed=planned.point.seed,
        publications=planned.point.publications,
        deliveries=found["deliveries"],
        publication_delay_ms=found["delay_ms_mean"],
        publication_messages=found.get("publication_messages", 0),
    )


def _sequence_row(planned: Planned, found: dict[str, Any], burst_ms: float) -> SequenceRow:
    return SequenceRow(
        rate_per_minute=round(planned.point.value),
        algorithm=planned.run.algorithm.value,
        seed=planned.point.seed,
        sequence=found["sequence"],
        delay_ms_max=found["delay_ms_max"],
        time_ms=found["time_ms_last"] - burst_ms,
    )


def _burst_row(planned: Planned, found: dict[str, Any], sequence: list[SequenceRow]) -> BurstRow:
    run = planned.run
    samples = max(1.0, (found["last_ms"] - found["burst_ms"]) / run.sample_ms)
    scot, stable = planned.point.workload.scot(), stable_ms(sequence)
    queues = 2 * (len(scot.alinks) + len(scot.ilinks))
    return BurstRow(
        rate_per_minute=round(planned.point.value),
        algorithm=run.algorithm.value,
        seed=planned.point.seed,
        publications=planned.point.publications,
        deliveries=found["deliveries"],
        publication_delay_ms=found["delay_ms_mean"],
        share_below_1s=found["share_below_1000_ms"],
        stable_ms=stable,
        queue_length_mean=found["waited"] / samples / queues,
        publication_messages=found.get("publication_messages", 0),
        shrinking_ms=None if stable is None else _shrinking_ms(found, stable, run.sample_ms),
        seconds=found["seconds"],
    )


def _shrinking_ms(found: dict[str, Any], stable: float, sample_ms: float) -> float:
    """Return how long, until delays were normal, the longest queue was getting shorter."""
    until_ms = found["burst_ms"] + stable
    return sample_ms * len([moment_ms for moment_ms in found["shrinking_ms"] if moment_ms <= until_ms])


def stable_ms(sequence: list[SequenceRow]) -> float | None:
    """Return when deliveries took no more than a second again, from the start of the burst; none if they never did."""
    late = [row for row in sequence if row.delay_ms_max > CALM_MS]
    if not late:
        return 0.0
    return None if late[-1] is sequence[-1] else late[-1].time_ms
