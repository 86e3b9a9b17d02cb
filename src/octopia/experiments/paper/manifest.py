"""The manifest of an evaluation: everything that its results depend on."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from octopia.errors import UsageError
from octopia.experiments.paper.names import Model, Scale, StudyName


class StudyNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One study of an evaluation, as it was last run."""

    seeds: tuple[int, ...]
    commit: str
    failed: str = ""
    """The error that stopped the study."""
    runs_of: tuple[str, ...] = ()
    """The commits of the code that played its runs; a run that was finished before keeps its own."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that the results of an evaluation depend on, and when it ran."""

    scale: Scale
    data: str
    studies: dict[StudyName, StudyNote]
    deliveries_a_point: int
    profiles: dict[Model, dict[str, str | float]]
    commit: str
    versions: dict[str, str]
    machine: str
    again: str
    """The command that runs it again."""
    started: str = ""
    finished: str = ""


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest as JSON."""
    path.write_text(json.dumps(msgspec.to_builtins(manifest), indent=2) + "\n")


def read_manifest(path: Path) -> Manifest | None:
    """Read a manifest; none if there is no file."""
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, ValueError) as error:
        raise UsageError(f"expected the manifest of an evaluation in {path}, got: {error}") from None
