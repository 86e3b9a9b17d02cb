"""The results of a study's runs: rows that Spark finds in their traces, kept beside the runs.

At full size a trace has tens of millions of rows. So Spark summarises a few runs at a time, the rows of each run are
kept in its folder, and those of an audit in the folder of the workload. A study that was stopped continues where it
was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, assert_never

import msgspec

from octopia.experiments.audits import AuditRow, audit_rows
from octopia.experiments.paper.measurements import burst_rows, delivery_row, publisher_row, subscriber_row
from octopia.experiments.paper.names import StudyName
from octopia.experiments.paper.rows import Row, Tables, tables_of
from octopia.experiments.paper.sizes import some
from octopia.experiments.paper.studies import PlannedRun, Study
from octopia.playing.files import count_rows
from octopia.playing.runs import MANIFEST, TRACE

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Bench

ROWS_AT_ONCE = 100_000_000
"""The most rows of traces that are summarised together, since Spark sorts them; a larger run is summarised alone."""
KEPT = "rows.json"


class Kept(msgspec.Struct, frozen=True):
    """Rows with a digest of the runs and settings that they were found with."""

    digest: str
    rows: Tables


def find_rows(bench: Bench, study: Study, runs: Mapping[str, PlannedRun]) -> dict[str, Tables]:
    """Return the rows of each run; the runs are given by their folders."""
    digests = {folder: _digest(bench, [folder], study.name, str(study.deliveries_a_point)) for folder in runs}
    kept = {folder: _recall(bench, folder, digest) for folder, digest in digests.items()}
    found = {folder: rows for folder, rows in kept.items() if rows is not None}
    for batch in _batches(bench, [folder for folder in runs if folder not in found]):
        with bench.stages.stage(f"summarising {some(len(batch), 'run')}"):
            summarised = _summarise(bench, study, {folder: runs[folder] for folder in batch})
        for folder, rows in summarised.items():
            found[folder] = tables_of(rows)
            _keep(bench, folder, digests[folder], found[folder])
    return found


def audit(bench: Bench, workload: str, folders: Iterable[str]) -> tuple[AuditRow, ...]:
    """Audit all runs of a workload; a list of the faults is written to the folder of the workload."""
    from octopia.pipeline.jobs import audit_runs

    traces = list(folders)
    digest = _digest(bench, traces)
    kept = _recall(bench, workload, digest)
    if kept is None:
        kept = Tables(audits=audit_rows(audit_runs(bench, traces, workload, f"{workload}/faults")))
        _keep(bench, workload, digest, kept)
    return kept.audits


def _summarise(bench: Bench, study: Study, runs: Mapping[str, PlannedRun]) -> dict[str, list[Row]]:
    from octopia.pipeline import summaries

    traces, ids = list(runs), {folder: each.run.run_id for folder, each in runs.items()}
    match study.name:
        case StudyName.PUBLISHERS:
            setups = summaries.summarise_setup(bench, traces, study.brokers)
            return {folder: [publisher_row(each, setups[ids[folder]])] for folder, each in runs.items()}
        case StudyName.SUBSCRIBERS:
            setups = summaries.summarise_setup(bench, traces, study.brokers)
            return {folder: [subscriber_row(each, setups[ids[folder]])] for folder, each in runs.items()}
        case StudyName.DELIVERY:
            deliveries = summaries.summarise_deliveries(bench, traces)
            return {folder: [delivery_row(each, deliveries[ids[folder]])] for folder, each in runs.items()}
        case StudyName.BURST:
            bursts = summaries.summarise_bursts(bench, traces, study.deliveries_a_point)
            seconds = {folder: float(bench.storage.read_json(f"{folder}/{MANIFEST}")["seconds"]) for folder in runs}
            return {
                folder: list(burst_rows(each, bursts[ids[folder]], seconds[folder])) for folder, each in runs.items()
            }
        case _:
            assert_never(study.name)


def _batches(bench: Bench, folders: Iterable[str]) -> Iterator[list[str]]:
    """Divide runs, in order, into batches of at most ``ROWS_AT_ONCE`` rows, or of one run."""
    batch: list[str] = []
    rows = 0
    for folder in folders:
        more = count_rows(bench.storage.path(f"{folder}/{TRACE}"))
        if batch and rows + more > ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
        batch.append(folder)
        rows += more
    if batch:
        yield batch


def _digest(bench: Bench, folders: Iterable[str], *settings: str) -> str:
    """Return a digest of finished runs; it changes if one is run again, because a run notes its duration."""
    runs = [bench.storage.read_json(f"{folder}/{MANIFEST}") for folder in folders]
    return hashlib.sha256(json.dumps([runs, settings], sort_keys=True).encode()).hexdigest()


def _recall(bench: Bench, folder: str, digest: str) -> Tables | None:
    """Return the rows kept in a folder; none if they are of other runs, or of code with other columns."""
    path = f"{folder}/{KEPT}"
    if not bench.storage.exists(path):
        return None
    try:
        kept = msgspec.convert(bench.storage.read_json(path), Kept)
    except msgspec.ValidationError:
        return None
    return kept.rows if kept.digest == digest else None


def _keep(bench: Bench, folder: str, digest: str, rows: Tables) -> None:
    bench.storage.write_json(f"{folder}/{KEPT}", msgspec.to_builtins(Kept(digest, rows)))
