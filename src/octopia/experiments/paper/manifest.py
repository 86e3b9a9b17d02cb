"""The manifest of an evaluation: everything that its results depend on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from octopia.errors import UsageError
from octopia.experiments.paper.names import Model, Scale, StudyName
from octopia.records.files import write_whole

MANIFEST_FILE = "manifest.json"


class StudyNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One study of an evaluation: what earlier calls ran, and what the last one did."""

    seeds: tuple[int, ...]
    commit: str
    """The commit of the code that ran it last."""
    failed: str = ""
    """The error that stopped the study."""
    runs_of: tuple[str, ...] = ()
    """The commits of the code that played its runs; a run that was finished before keeps its own."""

    def with_part(self, seeds: Iterable[int], runs_of: Iterable[str]) -> StudyNote:
        """Return the note with the seeds of a part that was run, and the commits of its runs."""
        return msgspec.structs.replace(
            self, seeds=tuple(sorted({*self.seeds, *seeds})), runs_of=tuple(sorted({*self.runs_of, *runs_of}))
        )


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
    others: str = ""
    """The data and the commits of another evaluation whose results are included."""
    started: str = ""
    finished: str = ""


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest as JSON."""
    write_whole(path, json.dumps(msgspec.to_builtins(manifest), indent=2).encode() + b"\n")


def read_manifest(path: Path) -> Manifest | None:
    """Read a manifest; none if there is no file."""
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, ValueError) as error:
        raise UsageError(f"expected the manifest of an evaluation in {path}, got: {error}") from None
