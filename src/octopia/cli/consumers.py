"""``octopia consumers``: list and remove the consumers of a spool."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, to_local_folder
from octopia.errors import UsageError
from octopia.records import archive
from octopia.records.spool import SpoolReader


@dataclasses.dataclass(frozen=True, slots=True)
class _Progress:
    """A consumer, the offset that it has committed, and the number of rows that it has not committed."""

    name: str
    committed: int
    waiting: int


@examples("octopia consumers spool/ibm", "octopia consumers spool/ibm --remove report")
def consumers(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a spool or of an archive.", callback=to_local_folder)
    ],
    removed: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Remove this consumer.", show_default="none")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the consumers of a spool, or remove one.

    A spool retains rows until all its consumers have committed them, so a consumer that is never used again keeps them
    on disk. The spool need not be stopped. Rows are removed within about a minute while it runs, or when it starts.
    """
    is_archive = (folder / archive.DESCRIPTION).exists()
    spool = archive.spool_of(folder) if is_archive else folder
    reader = SpoolReader(spool)
    if removed is not None:
        _remove(reader, spool, removed)
    found = [
        _Progress(name, offset, reader.end_offset - offset)
        for name in reader.consumers.names()
        if (offset := reader.consumers.committed(name)) is not None
    ]
    if as_json:
        typer.echo(json.dumps([dataclasses.asdict(each) for each in found]))
        return
    for each in found:
        typer.echo(f"{each.name}: committed {each.committed:,}, waiting {each.waiting:,}")
    if not found:
        typer.echo("no consumers: rows are retained without limit, unless the spool has --retain-hours or --retain-mib")


def _remove(reader: SpoolReader, spool: Path, name: str) -> None:
    if name == archive.CONSUMER and (spool.parent / archive.DESCRIPTION).exists():
        raise UsageError(
            f"expected a consumer other than {name!r}, with which the archive in {spool.parent} reads its spool: rows "
            "that are in no file yet would be lost"
        )
    if reader.consumers.committed(name) is None:
        known = ", ".join(reader.consumers.names()) or "none"
        raise UsageError(f"expected a consumer of {spool} (known: {known}), got {name!r}")
    reader.consumers.remove(name)
