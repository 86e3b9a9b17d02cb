"""The four studies of the paper's evaluation: experiment files beside this module, read at a scale.

An experiment file has a ``[workload]`` (the fields of a ``WorkloadSpec``, one of them with several values; ``host`` of
a burst may have several too), a ``[run]`` (fields of a ``RunSpec``, ``algorithm`` and ``model`` with several values),
and one table per scale: the number of ``seeds``, and the fields that are smaller at this scale. One seed makes one
workload per kind of host broker, and its runs; all algorithms play the same workload under all models, unless a field
such as ``algorithm_under_race_trees`` names others for one of them.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from octopia.errors import InvalidFile, UsageError
from octopia.experiments.paper.names import Contender, Model, Scale, StudyName
from octopia.pipeline.spec import Burst, HostKind, WorkloadSpec
from octopia.tomlfile import Table, read_toml
from octopia.workloads.runs import RunSpec

_E = TypeVar("_E", Contender, Model)
_BURST_PREFIX = "burst_"
_HOST = f"{_BURST_PREFIX}host"
_UNDER = {model: f"algorithm_under_{model.value.replace('-', '_')}" for model in Model}
_OF_RUNS = ("algorithm", "model", *_UNDER.values())
"""The fields with one value per run; a scale may replace them."""


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
        return f"workload-{self.name}"

    @property
    def name(self) -> str:
        """The value, the seed and, in a burst, the kind of host broker."""
        host = "" if self.host is HostKind.ANY else f"-{self.host}"
        return f"{round(self.value)}-{self.seed}{host}"

    @property
    def host(self) -> HostKind:
        """The kind of broker that hosts the burst."""
        return HostKind.ANY if self.workload.burst is None else self.workload.burst.host

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

    @property
    def contender(self) -> Contender:
        """The algorithm or the variant that is run."""
        return Contender.of(self.run.algorithm, self.run.tid_copies)

    @property
    def model(self) -> Model:
        """The model under which it is run."""
        return Model.of_profile(self.run.profile)


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

    ``seeds`` is a number; ``only_seeds`` are those to run, whatever the number. ``values`` are those of the field that
    varies. ``models``, ``hosts`` and ``algorithms`` choose among those of the study.
    """

    scale: Scale
    seeds: int | None = None
    values: tuple[float, ...] = ()
    models: tuple[Model, ...] = ()
    hosts: tuple[HostKind, ...] = ()
    algorithms: tuple[Contender, ...] = ()
    only_seeds: tuple[int, ...] = ()


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
    run |= {key: chosen.pop(key) for key in _OF_RUNS if key in chosen}
    runs = _Runs(path.name, name, run, extent.models, extent.algorithms)
    if not runs.played():
        named = ", ".join(extent.algorithms)
        raise UsageError(f"--algorithm: expected one that {path.name} runs under this model, got {named}")
    points = _points(path, workload | chosen, runs, dataclasses.replace(extent, seeds=extent.seeds or seeds))
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


def _points(path: Path, fields: dict[str, Any], runs: _Runs, extent: Extent) -> tuple[Point, ...]:
    of_study = fields.pop(_HOST, [HostKind.ANY])
    hosts = extent.hosts or of_study
    several = [key for key, value in fields.items() if isinstance(value, list)]
    if len(several) != 1:
        raise InvalidFile(f"{path.name}: expected one field of [workload] with several values, got {several or 'none'}")
    (varies,) = several
    if any(value <= 0 for value in extent.values):
        raise UsageError(f"--value of {varies}: expected numbers above 0, got {min(extent.values):g}")
    if not all(value.is_integer() for value in extent.values):
        raise UsageError(f"--value of {varies}: expected whole numbers, got {', '.join(map(str, extent.values))}")
    if extent.hosts and not any(key.startswith(_BURST_PREFIX) for key in fields):
        raise UsageError(f"expected --host for a study with a burst, got {path.stem}")
    seeds = dict.fromkeys(extent.only_seeds) or range(extent.seeds or 1)
    values = dict.fromkeys(extent.values) or fields[varies]
    try:
        return tuple(
            Point(value, seed, _workload(fields | {varies: value}, host, seed), tuple(runs.with_seed(seed)))
            for value, seed, host in itertools.product(values, seeds, dict.fromkeys(hosts))
        )
    except (msgspec.ValidationError, UsageError) as error:
        if extent.values:
            raise UsageError(f"--value of {varies}: {error}") from None
        raise InvalidFile(f"{path.name}: {error}") from None


def _workload(fields: dict[str, Any], host: str, seed: int) -> WorkloadSpec:
    of_burst = {key.removeprefix(_BURST_PREFIX): fields[key] for key in fields if key.startswith(_BURST_PREFIX)}
    own = {key: value for key, value in fields.items() if not key.startswith(_BURST_PREFIX)}
    burst = msgspec.convert(of_burst | {"host": host}, Burst, strict=False) if of_burst else None
    return dataclasses.replace(msgspec.convert(own, WorkloadSpec, strict=False), burst=burst, seed=seed)


@dataclasses.dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of a workload: every algorithm under every model, but none that holds for another model already."""

    file: str
    study: StudyName
    fields: dict[str, Any]
    models: tuple[Model, ...]
    algorithms: tuple[Contender, ...]

    def with_seed(self, seed: int) -> Iterator[RunSpec]:
        """Yield the runs with a seed."""
        fields = {key: value for key, value in self.fields.items() if key not in _OF_RUNS}
        for model, contender in self.played():
            chosen = {"algorithm": contender.algorithm, "tid_copies": contender.tid_copies, "profile": model.profile}
            try:
                yield msgspec.convert(fields | chosen | {"seed": seed, "workload": ""}, RunSpec)
            except msgspec.ValidationError as error:
                raise InvalidFile(f"{self.file}: {error}") from None

    def played(self) -> list[tuple[Model, Contender]]:
        """Return what is to be played, each once: the runs of one model may hold for another."""
        wanted = self.models or [self._choice(Model, each) for each in _listed(self.fields.get("model", Model.LINKS))]
        return list(
            dict.fromkeys(
                (model.played_as(self.study, is_tid=contender.algorithm.is_tid), contender)
                for model in wanted
                for contender in self._contenders(model)
                if not self.algorithms or contender in self.algorithms
            )
        )

    def _contenders(self, model: Model) -> list[Contender]:
        named = self.fields.get("algorithm", Contender.DYNAMIC)
        return [self._choice(Contender, each) for each in _listed(self.fields.get(_UNDER[model], named))]

    def _choice(self, choices: type[_E], value: str) -> _E:
        try:
            return choices(value)
        except ValueError:
            what = f"{'an algorithm' if choices is Contender else 'a model'} of {', '.join(choices)}"
            raise InvalidFile(f"{self.file}: expected {what}, got {value}") from None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
