"""The results of a study's runs: rows that Spark finds in their traces, kept beside the runs.

At full size a trace has tens of millions of rows. So Spark summarises a few runs at a time, and the rows of each run
are kept in its folder. A study that was stopped continues where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, assert_never

from octopia.experiments.kept import digest_of, keep, recall
from octopia.experiments.paper.bounds import burst_ends
from octopia.experiments.paper.measurements import burst_rows, delivery_row, publisher_row, subscriber_row, target_links
from octopia.experiments.paper.names import StudyName
from octopia.experiments.paper.rows import Row, Tables, tables_of
from octopia.experiments.paper.sizes import some
from octopia.experiments.paper.studies import PlannedRun, Study
from octopia.overlay.scot import Link
from octopia.trace import PARQUET_FILE, RUN_FILE
from octopia.workloads.arrow import count_rows

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace

ROWS_AT_ONCE = 100_000_000
"""The most rows of traces that are summarised together, since Spark sorts them; a larger run is summarised alone."""


def find_rows(workspace: Workspace, study: Study, runs: Sequence[PlannedRun]) -> dict[str, Tables]:
    """Return the rows of finished runs by run id."""
    found: dict[str, Tables] = {}
    settings = study.name, str(study.deliveries_a_point)
    digests = {each.run.run_id: digest_of(workspace, [each.folder], *settings) for each in runs}
    for each in runs:
        kept = recall(workspace, each.folder, digests[each.run.run_id], Tables)
        if kept is not None:
            found[each.run.run_id] = kept
    for batch in _batches(workspace, [each for each in runs if each.run.run_id not in found]):
        with workspace.stages.stage(f"summarising {some(len(batch), 'run')}"):
            summarised = _summarise(workspace, study, batch)
        for each, rows in zip(batch, summarised, strict=True):
            found[each.run.run_id] = tables_of(rows)
            keep(workspace, each.folder, digests[each.run.run_id], found[each.run.run_id])
    return found


def _summarise(workspace: Workspace, study: Study, runs: Sequence[PlannedRun]) -> list[list[Row]]:
    """Return the rows of each run."""
    from octopia.pipeline import summaries

    traces = [each.folder for each in runs]
    match study.name:
        case StudyName.PUBLISHERS | StudyName.SUBSCRIBERS:
            setups = summaries.summarise_setup(workspace, traces, study.brokers)
            make = publisher_row if study.name is StudyName.PUBLISHERS else subscriber_row
            return [[make(each, setups[each.run.run_id])] for each in runs]
        case StudyName.DELIVERY:
            deliveries = summaries.summarise_deliveries(workspace, traces)
            return [[delivery_row(each, deliveries[each.run.run_id])] for each in runs]
        case StudyName.BURST:
            bursts = summaries.summarise_bursts(workspace, traces, study.deliveries_a_point)
            seconds = [float(workspace.storage.read_json(f"{trace}/{RUN_FILE}")["seconds"]) for trace in traces]
            return [
                [*burst_rows(each, bursts[each.run.run_id], _targets(each), took)]
                for each, took in zip(runs, seconds, strict=True)
            ]
        case _:
            assert_never(study.name)


def _targets(planned: PlannedRun) -> list[Link]:
    """Return the links on static paths of the burst, whose subscribers come first among all."""
    spec = planned.point.workload
    host, subscribers = burst_ends(spec)
    return target_links(spec.scot(), host, subscribers)


def _batches(workspace: Workspace, runs: Iterable[PlannedRun]) -> Iterator[list[PlannedRun]]:
    """Divide runs, in order, into batches of at most ``ROWS_AT_ONCE`` rows, or of one run."""
    batch: list[PlannedRun] = []
    rows = 0
    for each in runs:
        more = count_rows(workspace.storage.path(f"{each.folder}/{PARQUET_FILE}"))
        if batch and rows + more > ROWS_AT_ONCE:
            yield batch
            batch, rows = [], 0
        batch.append(each)
        rows += more
    if batch:
        yield batch
