"""Runs: how a workload is played, as rows of a table, and the playing of one of them.

A table of runs is a CSV file with the fields of ``RunSpec`` as columns, or a TOML file in which every field may have
several values; the runs are all combinations::

    workload = "out/market"
    algorithm = ["static", "dynamic"]
    seed = [0, 1, 2]
    profile = "paper"
    first = 2000

``play_run`` leaves a folder behind: ``trace.parquet``, and ``run.json`` with what was assumed. The folder gets its name
when all is in it, so that a run that was interrupted leaves nothing that could be taken for a finished one.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import json
import pathlib
import secrets
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from octopia.broker import Detail
from octopia.errors import InvalidFile, UsageError
from octopia.overlay.files import Overlay, load_overlay, overlay_from_text
from octopia.playing.files import MANIFEST as WORKLOAD
from octopia.playing.files import Workload, absolute, fs, load_workload, locate, read_json
from octopia.playing.provenance import commit
from octopia.playing.simulated import Play, play_simulated
from octopia.settings import Algorithm, PathSelection, RoutingSettings
from octopia.simulator.profiles import find_profile
from octopia.simulator.run import Run
from octopia.tomlfile import Table, read_toml
from octopia.trace import Parquet

TRACES = "traces"
MANIFEST = "run.json"
TRACE = "trace.parquet"
_DETAILS = {"deliveries": Detail.DELIVERIES, "hops": Detail.HOPS, "all": Detail.ALL}
DRAFT = ".draft-"
"""How the folders of unfinished runs begin."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a workload; ``first`` so many publications (0: all), on an overlay file's links if one is named.

    In an ``uncongested`` run every link counts as free, so that dynamic routing takes static paths. With ``sample_ms``,
    the trace tells every so many milliseconds which queues hold something.
    """

    workload: str
    run_id: str = ""
    algorithm: Algorithm = Algorithm.DYNAMIC
    seed: int = 0
    profile: str = "unit"
    first: int = 0
    detail: str = "deliveries"
    tau: float = 10.0
    window_ms: float = 50.0
    confirmations: bool = True
    path_selection: PathSelection = PathSelection.LINEAR
    overlay: str = ""
    uncongested: bool = False
    sample_ms: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no run can be."""
        if self.detail not in _DETAILS:
            raise UsageError(f"expected a detail of {', '.join(_DETAILS)}, got {self.detail}")
        if self.first < 0 or self.sample_ms < 0 or self.tau <= 0 or self.window_ms <= 0:
            raise UsageError("expected first and sample_ms of at least 0, and tau and window_ms above 0, got less")

    def named(self) -> RunSpec:
        """Return the run with an id; without one it is made of what tells runs apart, and a digest of all the rest."""
        if self.run_id:
            if "/" in self.run_id or self.run_id.startswith((".", "_")):
                raise UsageError(f'expected a run_id without "/" that begins with a letter or digit, got {self.run_id}')
            return self
        digest = hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]
        workload = self.workload.rstrip("/").rsplit("/", 1)[-1]
        return msgspec.structs.replace(self, run_id=f"{workload}-{self.algorithm}-{self.seed}-{digest}")

    @property
    def routing(self) -> RoutingSettings:
        """What all brokers agree on."""
        return RoutingSettings(self.algorithm, self.tau, self.window_ms, self.confirmations, self.path_selection)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run; ``error`` is empty if all went well."""

    run_id: str
    seconds: float
    error: str = ""


def read_runs(path: pathlib.Path) -> list[RunSpec]:
    """Read a table of runs; no two may have the same id."""
    rows = _rows_of_csv(path) if path.suffix == ".csv" else _rows_of_toml(read_toml(path))
    runs = [_spec_of(row, path) for row in rows]
    if not runs:
        raise InvalidFile(f"{path}: expected at least one run, got none")
    for one, other in itertools.pairwise(sorted(run.run_id for run in runs)):
        if one == other:
            raise InvalidFile(f"{path}: expected every run once, got {one} twice")
    return runs


def _spec_of(row: dict[str, Any], path: pathlib.Path) -> RunSpec:
    # Where a workload and an overlay lie is told from the file's own folder.
    for key in ("workload", "overlay"):
        if row.get(key) and "://" not in row[key]:
            row[key] = absolute(str(path.parent / row[key]))
    if str(row.get("profile", "")).endswith(".toml"):
        row["profile"] = absolute(str(path.parent / row["profile"]))
    try:
        return msgspec.convert(row, RunSpec, strict=False).named()
    except (msgspec.ValidationError, UsageError) as error:
        raise InvalidFile(f"{path}: {error}") from None


def _rows_of_csv(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            _check_fields(list(reader.fieldnames or ()), path)
            yield from ({key: value for key, value in row.items() if value} for row in reader)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"expected a table of runs at {path}, got: {error}") from None


def _check_fields(fields: list[str], path: pathlib.Path) -> None:
    known = RunSpec.__struct_fields__
    unknown = [each for each in fields if each not in known]
    if unknown or "workload" not in fields:
        got = f"no workload in {', '.join(fields) or 'an empty file'}" if not unknown else ", ".join(unknown)
        raise InvalidFile(f"{path}: expected columns of {', '.join(known)}, got {got}")


def _rows_of_toml(top: Table) -> Iterator[dict[str, Any]]:
    fields = {key: top.raw(key) for key in RunSpec.__struct_fields__ if top.has(key)}
    top.finish()
    several = [
        [(key, each) for each in (value if isinstance(value, list) else [value])] for key, value in fields.items()
    ]
    yield from (dict(choice) for choice in itertools.product(*several))


# Playing.


def play_run(spec: RunSpec, folder: str) -> None:
    """Play one run and put its trace into the folder of a sweep; one that is already there is replaced."""
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
    """Play one run in virtual time; its trace and what it assumed go into a folder."""
    workload = load_workload(spec.workload)
    begin = time.perf_counter()
    play = Play(
        spec.routing, spec.profile, spec.seed, spec.first, _DETAILS[spec.detail], spec.uncongested, spec.sample_ms
    )
    with Parquet(folder / TRACE) as sink:
        run = play_simulated(workload, play, spec.run_id, [sink], overlay_of(spec, workload))
    manifest = manifest_of(spec, run, time.perf_counter() - begin)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    return run


def overlay_of(spec: RunSpec, workload: Workload) -> Overlay:
    """Return the overlay of a run: the workload's, or the file that the run names, which must have the same brokers."""
    if not spec.overlay:
        return overlay_from_text(workload.tree, workload.scot.clusters)
    overlay = load_overlay(pathlib.Path(spec.overlay))
    if overlay.scot.brokers != workload.scot.brokers:
        raise UsageError(f"expected the brokers of the workload in {spec.overlay}, got others")
    return overlay


def manifest_of(spec: RunSpec, run: Run, seconds: float) -> dict[str, Any]:
    """Return what a run assumed, and what it counted."""
    return {
        "identity": identity_of(spec),
        "messages": run.messages(),
        "losses": run.losses(),
        "refused": len(run.recorder.refused),
        "virtual_ms": run.world.agenda.now_ms,
        "seconds": round(seconds, 3),
        "commit": commit(),
    }


def identity_of(spec: RunSpec) -> dict[str, Any]:
    """Return what makes a run this run and no other: its spec, what its workload was made of, and what things cost.

    Where workload, profile and overlay lie is no part of it: what they say is. So folders may be moved.
    """
    places = ("workload", "profile", "overlay")
    return {
        "spec": {key: value for key, value in msgspec.to_builtins(spec).items() if key not in places},
        "workload": read_json(f"{spec.workload}/{WORKLOAD}"),
        "profile": find_profile(spec.profile).assumptions(),
        "links": _links_of(spec),
    }


def _links_of(spec: RunSpec) -> dict[str, list[float | None]]:
    """Return rate and delay of the links that the overlay file of a run shapes."""
    shapes = load_overlay(pathlib.Path(spec.overlay)).shapes if spec.overlay else {}
    return {f"{source}>{target}": [shape.rate, shape.delay_ms] for (source, target), shape in shapes.items()}


def finished_run(folder: str, run_id: str) -> dict[str, Any] | None:
    """Return the identity of a finished run, or None if it is not finished."""
    path = f"{folder}/{TRACES}/{run_id}/{MANIFEST}"
    system, place = locate(path)
    if system.get_file_info(place).type == fs.FileType.NotFound:
        return None
    return dict(read_json(path)["identity"])


def remove_drafts(folder: str) -> None:
    """Remove what interrupted runs have left behind."""
    system, traces = locate(f"{folder}/{TRACES}")
    for each in system.get_file_info(fs.FileSelector(traces, allow_not_found=True)):
        if each.base_name.startswith(DRAFT):
            system.delete_dir(each.path)
