"""What the traces of a study's runs tell: found by Spark once, and kept beside the runs.

At full size a run has tens of millions of rows. So runs are looked at a few at a time, and what was found of each is
kept in its folder; what the audit of a workload's runs found is kept with the workload. A study that is stopped goes on
where it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, assert_never

from octopia.experiments.paper.names import Name
from octopia.experiments.paper.sizes import some
from octopia.experiments.paper.studies import Study
from octopia.trace import PARQUET_FILE, RUN_FILE
from octopia.workloads.arrow import count_rows

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace as Bench

ROWS_AT_ONCE = 100_000_000
"""So many rows of traces are looked at together, or one run if it has more: Spark sorts all of them."""
_FOUND = "found.json"
_AUDITED = "audit.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What the trace of a run tells: numbers by name, and for a burst all delays in sequence."""

    values: dict[str, Any]
    sequence: Sequence[dict[str, Any]] = ()


def find(bench: Bench, study: Study, folders: Mapping[str, str]) -> dict[str, Found]:
    """Return what is found of each run of a study; the runs are given with their folders."""
    asked = {run: _question(bench, study, folder) for run, folder in folders.items()}
    found: dict[str, Found] = {}
    for run, folder in folders.items():
        answer = _recall(bench, f"{folder}/{_FOUND}", asked[run])
        if answer is not None:
            found[run] = Found(**answer)
    left = {run: folder for run, folder in folders.items() if run not in found}
    for batch in _batches(bench, left):
        with bench.stages.stage(f"looking at {some(len(batch), 'run')}"):
            looked_at = _look(bench, study, batch)
        for run, folder in batch.items():
            found[run] = looked_at[run]
            _remember(bench, f"{folder}/{_FOUND}", asked[run], dataclasses.asdict(found[run]))
    return found


def audit(bench: Bench, workload: str, folders: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return what the audit of all runs of a workload finds, by run; a list of the faults lies with the workload."""
    from octopia.pipeline.jobs import audit_runs

    asked = {run: _digest(bench, folder) for run, folder in folders.items()}
    kept = _recall(bench, f"{workload}/{_AUDITED}", asked)
    if kept is None:
        rows = audit_runs(bench, list(folders.values()), workload, f"{workload}/faults")
        kept = {row["run_id"]: row for row in rows}
        _remember(bench, f"{workload}/{_AUDITED}", asked, kept)
    return kept


def _look(bench: Bench, study: Study, folders: Mapping[str, str]) -> dict[str, Found]:
    from octopia.pipeline import summaries

    traces = list(folders.values())
    match study.name:
        case Name.PUBLISHERS | Name.SUBSCRIBERS:
            found = summaries.spreading(bench, traces, study.brokers)
        case Name.DELIVERY:
            found = summaries.delivering(bench, traces)
        case Name.BURST:
            found, sequence = summaries.bursting(bench, traces, study.deliveries_a_point)
            for run, folder in folders.items():
                # How long it took by the clock, as it noted itself.
                found[run]["seconds"] = float(bench.storage.read_json(f"{folder}/{RUN_FILE}")["seconds"])
            by_run = {run: list(rows) for run, rows in itertools.groupby(sequence, lambda row: str(row["run_id"]))}
            return {run: Found(values, by_run.get(run, [])) for run, values in found.items()}
        case _:
            assert_never(study.name)
    return {run: Found(values) for run, values in found.items()}


def _batches(bench: Bench, folders: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Divide runs, in their order, so that none but a single one has more rows than are looked at together."""
    batch: dict[str, str] = {}
    rows = 0
    for run, folder in folders.items():
        more = count_rows(bench.storage.path(f"{folder}/{PARQUET_FILE}"))
        if batch and rows + more > ROWS_AT_ONCE:
            yield batch
            batch, rows = {}, 0
        batch[run] = folder
        rows += more
    if batch:
        yield batch


# What was found is kept with what was asked, and of which run: one that was run again is looked at again.


def _question(bench: Bench, study: Study, folder: str) -> dict[str, Any]:
    return {
        "study": study.name.value,
        "deliveries_a_point": study.deliveries_a_point,
        "run": _digest(bench, folder),
    }


def _digest(bench: Bench, folder: str) -> str:
    """Return what tells a finished run from all others, and from itself run again: it noted how long it took."""
    noted = bench.storage.read_json(f"{folder}/{RUN_FILE}")
    return hashlib.sha256(json.dumps(noted, sort_keys=True).encode()).hexdigest()


def _recall(bench: Bench, name: str, question: Mapping[str, Any]) -> dict[str, Any] | None:
    if not bench.storage.exists(name):
        return None
    kept = bench.storage.read_json(name)
    return kept["found"] if kept["asked"] == question else None


def _remember(bench: Bench, name: str, question: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    bench.storage.write_json(name, {"asked": question, "found": answer})
