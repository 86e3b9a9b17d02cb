"""A run in virtual time: the workload as a scenario for the simulator, and the folder that a run leaves behind.

The folder has ``trace.parquet``, and ``run.json`` with the run's assumptions and totals. That file is written last, and
is the sign of a finished run, on a disk and in an object store.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import pathlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from octopia.broker import Verdict
from octopia.errors import UsageError
from octopia.overlay import Scot
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.scenario import (
    AdvertiseItem,
    ClientSpec,
    CrashItem,
    Event,
    LinkChange,
    PublishItem,
    Scenario,
    SubscribeItem,
)
from octopia.settings import RoutingSettings
from octopia.simulator.profiles import find_profile
from octopia.simulator.run import Run, run_scenario
from octopia.trace import PARQUET_FILE, RUN_FILE, Parquet
from octopia.workloads.arrow import read_json
from octopia.workloads.outages import Outage, split
from octopia.workloads.places import DRAFT, fs, info_of, locate
from octopia.workloads.provenance import commit
from octopia.workloads.runs import DETAILS, TRACES, RunSpec, identity_of, overlay_of
from octopia.workloads.workload import Issued, Workload, load_workload


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A run with everything that it reads from storage."""

    spec: RunSpec
    workload: Workload
    identity: dict[str, Any]


def prepare(spec: RunSpec) -> Prepared:
    """Read what a run needs."""
    return Prepared(spec, load_workload(spec.workload, spec.first), identity_of(spec))


def play_run(spec: RunSpec, folder: str) -> None:
    """Run a workload and put its trace into the folder of a sweep, replacing an earlier one."""
    prepared = prepare(spec)
    with drafting(folder, spec.run_id) as draft:
        play_prepared(prepared, draft)
        finish(draft, folder, spec.run_id)


def play_into(spec: RunSpec, folder: pathlib.Path) -> Run:
    """Run a workload in virtual time; write its trace and ``run.json`` to a folder."""
    return play_prepared(prepare(spec), folder)


def play_prepared(prepared: Prepared, folder: pathlib.Path) -> Run:
    """Play a run that has been read; write its trace and ``run.json`` to a folder of this machine."""
    spec, workload = prepared.spec, prepared.workload
    # A folder without this file does not count as a finished run, even if this one fails.
    (folder / RUN_FILE).unlink(missing_ok=True)
    begin = time.perf_counter()
    scenario = scenario_of(
        workload,
        spec.routing,
        first=spec.first,
        uncongested=spec.uncongested,
        overlay=overlay_of(spec, workload),
        outage=spec.outage,
    )
    with Parquet(folder / PARQUET_FILE) as sink:
        run = run_scenario(
            scenario,
            seed=spec.seed,
            profile=find_profile(spec.profile),
            detail=DETAILS[spec.detail],
            keep=False,
            sinks=[sink],
            run_id=spec.run_id,
            sample_ms=spec.sample_ms,
        )
    unsent = 0 if spec.outage is None else split(workload, spec.first, spec.outage).unsent
    manifest = _manifest_of(prepared.identity, run, unsent, time.perf_counter() - begin)
    draft = folder / f"{RUN_FILE}.draft"
    draft.write_text(json.dumps(manifest, indent=2) + "\n")
    draft.replace(folder / RUN_FILE)
    return run


def _manifest_of(identity: dict[str, Any], run: Run, unsent: int, seconds: float) -> dict[str, Any]:
    return {
        "identity": identity,
        "messages": run.messages(),
        "losses": run.losses(),
        "refused": len(run.recorder.refused),
        "unsent": unsent,
        "virtual_ms": run.world.agenda.now_ms,
        "seconds": round(seconds, 3),
        "commit": commit(),
    }


# The folder of a sweep.


@contextlib.contextmanager
def drafting(folder: str, run_id: str) -> Iterator[pathlib.Path]:
    """Yield a folder of this machine for the files of a run, inside the folder of the sweep if that is here as well."""
    system, traces = locate(f"{folder}/{TRACES}")
    if not isinstance(system, fs.LocalFileSystem):
        with tempfile.TemporaryDirectory() as place:
            yield pathlib.Path(place)
        return
    draft = pathlib.Path(traces) / f"{DRAFT}{run_id}-{secrets.token_hex(4)}"
    draft.mkdir(parents=True)
    try:
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def finish(draft: pathlib.Path, folder: str, run_id: str) -> None:
    """Move the files of a run into place, the one that marks it as finished last.

    No folder is moved: an object store would copy its files one by one, in any order.
    """
    system, place = locate(f"{folder}/{TRACES}/{run_id}")
    system.create_dir(place, recursive=True)
    if system.get_file_info(f"{place}/{RUN_FILE}").type == fs.FileType.File:
        system.delete_file(f"{place}/{RUN_FILE}")
    for name in (PARQUET_FILE, RUN_FILE):
        if isinstance(system, fs.LocalFileSystem):
            (draft / name).replace(f"{place}/{name}")
        else:
            fs.copy_files(
                str(draft / name),
                f"{place}/{name}",
                source_filesystem=fs.LocalFileSystem(),
                destination_filesystem=system,
            )


def finished_run(folder: str, run_id: str) -> dict[str, Any] | None:
    """Return the identity of a finished run, or None if it is not finished."""
    path = f"{folder}/{TRACES}/{run_id}/{RUN_FILE}"
    if info_of(path).type == fs.FileType.NotFound:
        return None
    return dict(read_json(path)["identity"])


def remove_drafts(folder: str) -> None:
    """Remove the folders that interrupted runs have left behind."""
    system, traces = locate(f"{folder}/{TRACES}")
    for each in system.get_file_info(fs.FileSelector(traces, allow_not_found=True)):
        if each.base_name.startswith(DRAFT):
            system.delete_dir(each.path)


# The scenario.


def scenario_of(
    workload: Workload,
    routing: RoutingSettings,
    *,
    first: int = 0,
    uncongested: bool = False,
    overlay: Overlay | None = None,
    outage: Outage | None = None,
) -> Scenario:
    """Return a workload as a scenario: publishers, then subscribers, then the ``first`` N publications (0 for all).

    An ``overlay`` with the same brokers may shape links. In an ``uncongested`` scenario no link counts as congested.
    After an ``outage``, publications of the dead broker's clients fail, but keep their numbers.
    """
    clients = [
        *(
            _client(each, AdvertiseItem(each.client, each.id, each.text, each.filter))
            for each in workload.advertisements
        ),
        *(
            _client(each, SubscribeItem(each.client, each.id, each.text, each.filter))
            for each in workload.subscriptions
        ),
    ]
    _check_names(clients)
    return Scenario(
        name=workload.name,
        overlay=overlay or overlay_from_text(workload.tree, workload.scot.clusters),
        routing=routing,
        clients=tuple(clients),
        links=(_all_free(workload.scot),) if uncongested else (),
        events=tuple(_events(workload, first, outage)),
    )


def _events(workload: Workload, first: int, outage: Outage | None) -> Iterator[Event]:
    """Yield the publications; a broker crashes when those before its outage have arrived."""
    is_down = False
    for each in workload.timed(first or None):
        item = PublishItem(each.publisher, each.publication)
        if outage is None or each.at_ms < outage.at_ms:
            yield Event(item, at_ms=each.at_ms)
            continue
        if not is_down:
            is_down = True
            yield Event(CrashItem(outage.broker))
        yield Event(item, after_ms=each.at_ms - outage.at_ms)


def _all_free(scot: Scot) -> LinkChange:
    """Return the change after which no link counts as congested."""
    joined = (*scot.alinks, *scot.ilinks)
    return LinkChange(tuple(both for low, high in joined for both in ((low, high), (high, low))), Verdict.FREE)


def _client(issued: Issued, item: AdvertiseItem | SubscribeItem) -> ClientSpec:
    return ClientSpec(issued.client, issued.broker, (item,))


def _check_names(clients: Sequence[ClientSpec]) -> None:
    for one, other in itertools.pairwise(sorted(client.name for client in clients)):
        if one == other:
            raise UsageError(f"expected one advertisement or subscription of each client, got two of {one}")
