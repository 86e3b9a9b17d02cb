"""``octopia spool``: write the publications of a subscription to disk, without losing acknowledged ones."""

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
from octopia.records.recording import KEEP_S, Recorded, Recording, record
from octopia.records.spool import SEGMENT_BYTES, Retention
from octopia.transport.loop import run_loop

_SHOWN_EVERY_S = 1.0
_MIB = 1024 * 1024


@examples(
    "octopia spool \"symbol = 'IBM'\" --dir spool/ibm",
    'octopia spool "price > 100" --dir spool/expensive --retain-hours 24 --sync-ms 20',
)
def spool(
    interest: Annotated[str, typer.Argument(metavar="FILTER", help='Publications to record, such as "price > 100".')],
    folder: Annotated[
        Path,
        typer.Option("--dir", help="The folder of the spool; created if it does not exist.", callback=to_local_folder),
    ],
    name: ClientName = None,
    keep_s: KeepSeconds = KEEP_S,
    sync_ms: SyncMs = 0.0,
    segment_mib: Annotated[
        float, typer.Option(min=0.001, help="Size of a segment; old rows are removed segment by segment.")
    ] = SEGMENT_BYTES / _MIB,
    retain_hours: Annotated[
        float, typer.Option(min=0.0, help="Remove rows after this time, even if consumers need them; 0 is never.")
    ] = 0.0,
    retain_mib: Annotated[
        float,
        typer.Option(min=0.0, help="Remove the oldest rows beyond this size, even if consumers need them; 0 is never."),
    ] = 0.0,
    url: Url = None,
    broker: Broker = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Record publications on disk, and lose none of them.

    Publications become Arrow record batches with checksums. Each is acknowledged to the broker when it is on disk.
    After a crash, start the same command again: it removes an incomplete write at the end and continues. Gaps and
    losses are rows, too. Consumers have names; rows that all of them have committed are removed. Ctrl-C stops it, and
    the broker keeps the session.
    """
    wanted = Recording(
        interest,
        folder,
        name=name,
        keep_s=keep_s,
        sync_ms=sync_ms,
        retention=Retention(retain_hours, round(retain_mib * _MIB)),
        segment_bytes=round(segment_mib * _MIB),
    )
    state = run_loop(_record(url, broker, wanted, timeout, as_json=as_json))
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(state)))
    else:
        typer.echo(_line(state))


async def _record(
    url: str | None, broker: str | None, wanted: Recording, timeout: float | None, *, as_json: bool
) -> Recorded:
    stop = stopped_by_signal()
    progress = _Progress(as_json=as_json)
    return await record(await find_urls(url, broker), wanted, stop, progress.show, timeout or CONNECT_S)


class _Progress:
    """Prints the progress of a recording, at most once per second."""

    def __init__(self, *, as_json: bool):
        self._as_json = as_json
        self._next_s = 0.0
        self._has_begun = False

    def show(self, state: Recorded) -> None:
        if not self._has_begun:
            self._has_begun = True
            if state.cut_bytes:
                typer.echo(f"removed {state.cut_bytes:,} bytes of a write that a crash interrupted", err=True)
            typer.echo(f"recording from row {state.end_offset:,} on; press Ctrl-C to stop", err=True)
        elif not self._as_json and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _SHOWN_EVERY_S
            typer.echo(_line(state), err=True)


def _line(state: Recorded) -> str:
    troubles = f", {state.gaps:,} gaps, {state.lost:,} lost" if state.gaps or state.lost else ""
    return f"{state.rows:,} rows recorded, {state.end_offset:,} in total{troubles}"
