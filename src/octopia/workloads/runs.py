"""Run specifications: the settings under which a workload is run.

A table of runs is a CSV file with the fields of ``RunSpec`` as columns, or a TOML file in which every field may have
several values. A TOML file stands for all combinations of them::

    workload = "out/market"
    algorithm = ["static", "dynamic"]
    seed = [0, 1, 2]
    profile = "paper"
    first = 2000
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import msgspec

from octopia.broker import Detail
from octopia.errors import InvalidFile, UsageError
from octopia.ids import BrokerId
from octopia.overlay.files import Overlay, load_overlay, overlay_from_text
from octopia.settings import PAPER_ROUTING, Algorithm, PathSelection, RoutingSettings, TidCopies
from octopia.simulator.profiles import find_profile
from octopia.tomlfile import Table, read_toml
from octopia.workloads.arrow import read_json
from octopia.workloads.outages import Outage
from octopia.workloads.places import absolute, is_uri
from octopia.workloads.workload import WORKLOAD_FILE, Workload

TRACES = "traces"
"""The folder of a sweep that holds one folder per run."""
DETAILS = {"deliveries": Detail.DELIVERIES, "hops": Detail.HOPS, "all": Detail.ALL}


_LATER_FIELDS = ("wait_ms", "hold_ms", "probe_ms", "killed", "killed_at_ms", "tid_copies")
"""The last fields of a run, which earlier versions did not have."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a workload: its ``first`` N publications (0 for all), on the links of an ``overlay`` file if named.

    In an ``uncongested`` run no link counts as congested, so dynamic routing takes static paths. With ``sample_ms``,
    the trace lists the non-empty queues at that interval. A broker may be ``killed`` before the first publication that
    is due at ``killed_at_ms`` or later.
    """

    workload: str
    run_id: str = ""
    algorithm: Algorithm = PAPER_ROUTING.algorithm
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
    wait_ms: float = 50.0
    hold_ms: float = 500.0
    probe_ms: float = 5_000.0
    killed: str = ""
    killed_at_ms: float = 0.0
    tid_copies: TidCopies = TidCopies.PER_TREE

    def __post_init__(self) -> None:
        """Refuse values that no run can have."""
        if self.detail not in DETAILS:
            raise UsageError(f"expected a detail of {', '.join(DETAILS)}, got {self.detail}")
        for name in ("first", "sample_ms", "hold_ms", "killed_at_ms"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"expected {name} to be at least 0, got {getattr(self, name)}")
        for name in ("tau", "window_ms", "wait_ms", "probe_ms"):
            if not getattr(self, name) > 0:
                raise UsageError(f"expected {name} to be above 0, got {getattr(self, name)}")
        if self.killed_at_ms and not self.killed:
            raise UsageError(f"expected killed_at_ms only with a killed broker, got {self.killed_at_ms:g} without one")

    def named(self) -> RunSpec:
        """Return the run with an id: its own, or one of workload, algorithm, seed and a digest of all fields."""
        if self.run_id:
            if "/" in self.run_id or self.run_id.startswith((".", "_")):
                raise UsageError(f'expected a run_id without "/" that begins with a letter or digit, got {self.run_id}')
            return self
        digest = hashlib.sha256(msgspec.json.encode(self.fields())).hexdigest()[:8]
        workload = self.workload.rstrip("/").rsplit("/", 1)[-1]
        return msgspec.structs.replace(self, run_id=f"{workload}-{self.algorithm}-{self.seed}-{digest}")

    def fields(self) -> dict[str, Any]:
        """Return all fields, but those that were added later only if they differ from the defaults.

        So runs that do not use them keep the identity that they had before there were such fields.
        """
        defaults = dict(zip(_LATER_FIELDS, self.__struct_defaults__[-len(_LATER_FIELDS) :], strict=True))
        return {
            key: value
            for key, value in msgspec.to_builtins(self).items()
            if key not in defaults or value != defaults[key]
        }

    @property
    def routing(self) -> RoutingSettings:
        """The settings that all brokers share."""
        names = [field.name for field in dataclasses.fields(RoutingSettings)]
        return RoutingSettings(**{name: getattr(self, name) for name in names})

    @property
    def outage(self) -> Outage | None:
        """The outage of the killed broker, if any."""
        return Outage(BrokerId.parse(self.killed), self.killed_at_ms) if self.killed else None


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
    # Paths in the file are relative to the file's own folder.
    for key in ("workload", "overlay"):
        if row.get(key) and not is_uri(row[key]):
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


def overlay_of(spec: RunSpec, workload: Workload) -> Overlay:
    """Return the overlay of a run: the workload's, or the file that the run names, which must have the same brokers."""
    if not spec.overlay:
        return overlay_from_text(workload.tree, workload.scot.clusters)
    overlay = load_overlay(pathlib.Path(spec.overlay))
    if overlay.scot.brokers != workload.scot.brokers:
        raise UsageError(f"expected the brokers of the workload in {spec.overlay}, got others: choose another file")
    return overlay


def identity_of(spec: RunSpec) -> dict[str, Any]:
    """Return everything that distinguishes a run from others: its spec, and the contents of the files that it names.

    The paths of workload, profile and overlay are not part of it, so folders may be moved.
    """
    paths = ("workload", "profile", "overlay")
    return {
        "spec": {key: value for key, value in spec.fields().items() if key not in paths},
        "workload": read_json(f"{spec.workload}/{WORKLOAD_FILE}"),
        "profile": find_profile(spec.profile).assumptions(),
        "links": _links_of(spec),
    }


def _links_of(spec: RunSpec) -> dict[str, list[float | None]]:
    """Return rate and delay of each link that the overlay file of a run shapes."""
    shapes = load_overlay(pathlib.Path(spec.overlay)).shapes if spec.overlay else {}
    return {f"{source}>{target}": [shape.rate, shape.delay_ms] for (source, target), shape in shapes.items()}
