"""A run in virtual time: the workload as a scenario for the simulator, and the folder that a run leaves behind.

The folder has ``trace.parquet``, and ``run.json`` with the run's assumptions and totals. It is renamed to its final
name once it is complete, so an interrupted run is never taken for a finished one.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import secrets
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
from octopia.workloads.arrow import fs, locate, read_json
from octopia.workloads.outages import Outage, split
from octopia.workloads.provenance import commit
from octopia.workloads.runs import DETAILS, TRACES, RunSpec, identity_of, overlay_of
from octopia.workloads.workload import Issued, Workload, load_workload

DRAFT = ".draft-"
"""The prefix of folders of unfinished runs."""


def play_run(spec: RunSpec, folder: str) -> None:
    """Run a workload and put its trace into the folder of a sweep, in place of an earlier one."""
    system, traces = locate(f"{folder}/{TRACES}")
    draft, final = f"{traces}/{DRAFT}{spec.run_id}-{secrets.token_hex(4)}", f"{traces}/{spec.run_id}"
    system.create_dir(draft, recursive=True)
    try:
        _play_into_draft(spec, system, draft)
    except BaseException:
        system.delete_dir(draft)
        raise
    if system.get_file_info(final).type == fs.FileType.Directory:
        system.delete_dir(final)
    system.move(draft, final)


def _play_into_draft(spec: RunSpec, system: fs.FileSystem, draft: str) -> None:
    if isinstance(system, fs.LocalFileSystem):
        play_into(spec, pathlib.Path(draft))
        return
    with tempfile.TemporaryDirectory() as place:
        play_into(spec, pathlib.Path(place))
        fs.copy_files(place, draft, source_filesystem=fs.LocalFileSystem(), destination_filesystem=system)


def play_into(spec: RunSpec, folder: pathlib.Path) -> Run:
    """Run a workload in virtual time; write its trace and ``run.json`` to a folder."""
    workload = load_workload(spec.workload)
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
    unsent = split(workload, spec.first, spec.outage).unsent
    manifest = _manifest_of(spec, run, unsent, time.perf_counter() - begin)
    (folder / RUN_FILE).write_text(json.dumps(manifest, indent=2) + "\n")
    return run


def _manifest_of(spec: RunSpec, run: Run, unsent: int, seconds: float) -> dict[str, Any]:
    return {
        "identity": identity_of(spec),
        "messages": run.messages(),
        "losses": run.losses(),
        "refused": len(run.recorder.refused),
        "unsent": unsent,
        "virtual_ms": run.world.agenda.now_ms,
        "seconds": round(seconds, 3),
        "commit": commit(),
    }


def finished_run(folder: str, run_id: str) -> dict[str, Any] | None:
    """Return the identity of a finished run, or None if it is not finished."""
    path = f"{folder}/{TRACES}/{run_id}/{RUN_FILE}"
    system, place = locate(path)
    if system.get_file_info(place).type == fs.FileType.NotFound:
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
