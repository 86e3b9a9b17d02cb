"""Work that is done once and kept in its folder: workloads with their truth, rows found in runs, and audits.

A workload that was made from the same spec is not made again. Rows and audits are kept with a digest of the runs that
they were found in, and are found again if one of these is run again. So what was stopped continues where it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from octopia.experiments.audits import AuditRow, audit_rows
from octopia.pipeline.spec import WorkloadSpec
from octopia.trace import RUN_FILE
from octopia.workloads.workload import WORKLOAD_FILE

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Market, Workspace

KEPT = "rows.json"
_T = TypeVar("_T")


class _Audits(msgspec.Struct, frozen=True):
    """The audits of all runs of a workload."""

    audits: tuple[AuditRow, ...]


def prepare_workload(
    workspace: Workspace, folder: str, spec: WorkloadSpec, market: Market, *, with_truth: bool
) -> None:
    """Make a workload, and its truth if that is wanted, unless they exist."""
    from octopia.pipeline.jobs import TRUTH, find_truth, make_workload

    if not is_made(workspace, folder, spec=spec.to_json(), market=dataclasses.asdict(market)):
        make_workload(workspace, folder, spec, market)
    if with_truth and not workspace.storage.has_table(f"{folder}/{TRUTH}"):
        find_truth(workspace, folder)


def is_made(workspace: Workspace, folder: str, **wanted: object) -> bool:
    """Return whether a folder has a workload that was made from these parts of its manifest."""
    path = f"{folder}/{WORKLOAD_FILE}"
    manifest = workspace.storage.read_json(path) if workspace.storage.exists(path) else {}
    found = {key: manifest.get(key) for key in wanted}
    return bool(found == json.loads(json.dumps(wanted)))


def audit_workload(
    workspace: Workspace, workload: str, runs: Mapping[str, str], may_miss: Collection[str] = ()
) -> tuple[AuditRow, ...]:
    """Audit the runs of a workload, given as folders by run id; ``may_miss`` are runs with known losses.

    A list of the faults is written to the folder of the workload.
    """
    from octopia.pipeline.jobs import audit_runs

    digest = digest_of(workspace, runs.values())
    kept = recall(workspace, workload, digest, _Audits)
    if kept is None:
        found = audit_runs(workspace, list(runs.values()), workload, f"{workload}/faults")
        kept = _Audits(audit_rows(found, may_miss))
        keep(workspace, workload, digest, kept)
    return kept.audits


def digest_of(workspace: Workspace, runs: Iterable[str], *settings: str) -> str:
    """Return a digest of the folders of finished runs; it changes if one is run again, since a run notes its time."""
    noted = [workspace.storage.read_json(f"{folder}/{RUN_FILE}") for folder in runs]
    return hashlib.sha256(json.dumps([noted, settings], sort_keys=True).encode()).hexdigest()


def recall(workspace: Workspace, folder: str, digest: str, kind: type[_T]) -> _T | None:
    """Return what is kept in a folder; None if it is of other runs, or of code with other columns."""
    path = f"{folder}/{KEPT}"
    if not workspace.storage.exists(path):
        return None
    kept = workspace.storage.read_json(path)
    if kept.get("digest") != digest:
        return None
    try:
        return msgspec.convert(kept.get("rows"), kind)
    except msgspec.ValidationError:
        return None


def keep(workspace: Workspace, folder: str, digest: str, rows: object) -> None:
    """Keep rows in a folder, with the digest of the runs that they were found in."""
    workspace.storage.write_json(f"{folder}/{KEPT}", {"digest": digest, "rows": msgspec.to_builtins(rows)})
