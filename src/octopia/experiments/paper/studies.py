"""The four studies of the paper's evaluation: experiment files beside this module, read at a scale.

An experiment file has a ``[workload]`` (the fields of a ``WorkloadSpec``, one of them with several values), a ``[run]``
(fields of a ``RunSpec``, ``algorithm`` with several values), and one table per scale: the number of ``seeds``, and the
fields of the workload that are smaller at this scale. One seed makes one workload and its runs; all algorithms play the
same workload.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from octopia.errors import InvalidFile, UsageError
from octopia.experiments.paper.names import ALGORITHMS, Scale, StudyName
from octopia.pipeline.spec import Burst, WorkloadSpec
from octopia.tomlfile import Table, read_toml
from octopia.workloads.runs import RunSpec

_BURST_PREFIX = "burst_"


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One workload of a study: the value of the field that varies, the seed, and the runs that play it."""

    value: float
    seed: int
    workload: WorkloadSpec
    runs: tuple[RunSpec, ...]

    @property
    def folder(self) -> str:
        """The name of the workload's folder within the study's."""
        return f"workload-{self.value:g}-{self.seed}"

    @property
    def publications(self) -> int:
        """The number of publications by all publishers and the burst."""
        spec = self.workload
        return spec.publishers * spec.publications + (spec.burst.publications if spec.burst else 0)


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run with the point of the study that it belongs to, and the folder for its trace."""

    point: Point
    run: RunSpec
    folder: str


@dataclasses.dataclass(frozen=True, slots=True)
class Study:
    """A study at a scale."""

    name: StudyName
    title: str
    points: tuple[Point, ...]
    deliveries_a_point: int = 5000
    """The number of consecutive deliveries per point of a burst's curve."""

    @property
    def brokers(self) -> int:
        """The number of brokers of the overlay, which all points share."""
        return len(self.points[0].workload.scot().brokers)


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """The part of a study to run: its scale, and settings that replace those of the scale.

    ``seeds`` is a number, and ``values`` are those of the field that varies.
    """

    scale: Scale
    seeds: int | None = None
    values: tuple[float, ...] = ()


def load_study(name: StudyName, extent: Extent) -> Study:
    """Read a study from its file."""
    return read_study(Path(str(importlib.resources.files(__package__) / f"{name}.toml")), name, extent)


def read_study(path: Path, name: StudyName, extent: Extent) -> Study:
    """Read a study from a file."""
    top = read_toml(path)
    title = top.text("title")
    workload, run = _plain(top, "workload"), _plain(top, "run")
    sizes = {each.value: _plain(top, each.value) for each in Scale}
    top.finish()
    chosen = sizes[extent.scale.value]
    seeds = int(chosen.pop("seeds", 1))
    a_point = int(chosen.pop("deliveries_a_point", 5000))
    points = _points(path, workload | chosen, run, dataclasses.replace(extent, seeds=extent.seeds or seeds))
    return Study(name, title, points, a_point)


def _plain(top: Table, key: str) -> dict[str, Any]:
    """Return a table as a dictionary, a burst's fields with a prefix."""
    table = top.table(key)
    if table is None:
        raise top.error(f"expected a table [{key}], got none")
    plain: dict[str, Any] = {}
    for field in table:
        value = table.raw(field)
        if isinstance(value, Mapping):
            plain |= {f"{_BURST_PREFIX}{inner}": each for inner, each in value.items()}
        else:
            plain[field] = value
    return plain


def _points(path: Path, fields: dict[str, Any], run: dict[str, Any], extent: Extent) -> tuple[Point, ...]:
    several = [key for key, value in fields.items() if isinstance(value, list)]
    if len(several) != 1:
        raise InvalidFile(f"{path.name}: expected one field of [workload] with several values, got {several or 'none'}")
    (varies,) = several
    if any(value <= 0 for value in extent.values):
        raise UsageError(f"--value of {varies}: expected numbers above 0, got {min(extent.values):g}")
    if not varies.startswith(_BURST_PREFIX) and not all(value.is_integer() for value in extent.values):
        raise UsageError(f"--value of {varies}: expected whole numbers, got {', '.join(map(str, extent.values))}")
    seeds = range(extent.seeds or 1)
    runs = {seed: tuple(_runs(path, run, seed)) for seed in seeds}
    try:
        return tuple(
            Point(value, seed, _workload(fields | {varies: value}, seed), runs[seed])
            for value, seed in itertools.product(extent.values or fields[varies], seeds)
        )
    except (msgspec.ValidationError, UsageError) as error:
        if extent.values:
            raise UsageError(f"--value of {varies}: {error}") from None
        raise InvalidFile(f"{path.name}: {error}") from None


def _workload(fields: dict[str, Any], seed: int) -> WorkloadSpec:
    of_burst = {key.removeprefix(_BURST_PREFIX): fields[key] for key in fields if key.startswith(_BURST_PREFIX)}
    own = {key: value for key, value in fields.items() if not key.startswith(_BURST_PREFIX)}
    burst = msgspec.convert(of_burst, Burst, strict=False) if of_burst else None
    return dataclasses.replace(msgspec.convert(own, WorkloadSpec, strict=False), burst=burst, seed=seed)


def _runs(path: Path, run: dict[str, Any], seed: int) -> Iterator[RunSpec]:
    algorithms = run["algorithm"] if isinstance(run.get("algorithm"), list) else [run.get("algorithm", "dynamic")]
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise InvalidFile(f"{path.name}: expected an algorithm of {', '.join(ALGORITHMS)}, got {algorithm}")
        try:
            yield msgspec.convert(run | {"algorithm": algorithm, "seed": seed, "workload": ""}, RunSpec)
        except msgspec.ValidationError as error:
            raise InvalidFile(f"{path.name}: {error}") from None
