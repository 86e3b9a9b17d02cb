"""``octopia archive``: store the publications of a subscription as Parquet files."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.contexts import find_urls
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Broker, ClientName, KeepSeconds, SyncMs, Timeout, Url, to_local_folder
from octopia.cli.sessions import stopped_by_signal
from octopia.client.client import CONNECT_S
from octopia.records.archiving import ROLL_ROWS, ROLL_S, Archived, Archiving
from octopia.records.archiving import archive as run_archive
from octopia.records.recording import KEEP_S
from octopia.transport.loop import run_loop

_SHOWN_EVERY_S = 1.0


@examples(
    "octopia archive \"symbol = 'IBM'\" --to archive/ibm",
    'octopia archive "price > 0" --to archive/all --roll 300 --sync-ms 20',
)
def archive(
    interest: Annotated[str, typer.Argument(metavar="FILTER", help='Publications to archive, such as "price > 100".')],
    folder: Annotated[
        Path,
        typer.Option(
            "--to",
            metavar="DIR",
            help="The folder of the archive; created if it does not exist.",
            callback=to_local_folder,
        ),
    ],
    name: ClientName = None,
    keep_s: KeepSeconds = KEEP_S,
    sync_ms: SyncMs = 0.0,
    roll_s: Annotated[
        float, typer.Option("--roll", min=0.01, help="Seconds after which recorded rows go into Parquet files.")
    ] = ROLL_S,
    roll_rows: Annotated[
        int, typer.Option(min=1, help="Number of recorded rows at which they go into Parquet files early.")
    ] = ROLL_ROWS,
    url: Url = None,
    broker: Broker = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Archive publications as Parquet, one folder per day.

    Publications are recorded as by `octopia spool`, and go from there into Parquet files by the day on which they were
    published (UTC). Every row is in the archive once, even if this command is killed: start it again. Gaps and losses
    are rows, too. `octopia history` finds all rows, including those that are in no file yet. Ctrl-C stops it, and the
    broker keeps the session.
    """
    wanted = Archiving(interest, folder, name, keep_s, sync_ms, roll_s, roll_rows)
    state = run_loop(_archive(url, broker, wanted, timeout, as_json=as_json))
    typer.echo(json.dumps(dataclasses.asdict(state)) if as_json else _line(state))


async def _archive(
    url: str | None, broker: str | None, wanted: Archiving, timeout: float | None, *, as_json: bool
) -> Archived:
    progress = _Progress(as_json=as_json)
    urls = await find_urls(url, broker)
    return await run_archive(urls, wanted, stopped_by_signal(), progress.show, timeout or CONNECT_S)


class _Progress:
    """Prints the progress of an archive, at most once per second."""

    def __init__(self, *, as_json: bool):
        self._as_json = as_json
        self._next_s = 0.0
        self._has_begun = False

    def show(self, state: Archived) -> None:
        if not self._has_begun:
            self._has_begun = True
            if state.removed:
                typer.echo(f"removed {state.removed:,} unfinished files that a crash had left behind", err=True)
            typer.echo(f"archiving from row {state.end_offset:,} on; press Ctrl-C to stop", err=True)
        elif not self._as_json and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _SHOWN_EVERY_S
            typer.echo(_line(state), err=True)


def _line(state: Archived) -> str:
    troubles = f", {state.gaps:,} gaps, {state.lost:,} lost" if state.gaps or state.lost else ""
    return f"{state.rows:,} rows archived, {state.end_offset:,} in total, {state.in_files:,} of them in files{troubles}"
