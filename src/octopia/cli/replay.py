"""``octopia replay``: publish the rows of an archive or a spool again."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import (
    AsJson,
    Broker,
    ClientName,
    Count,
    FromTime,
    Offer,
    Timeout,
    ToTime,
    Url,
    to_local_folder,
)
from octopia.cli.sessions import connected, stopped_by_signal
from octopia.content import format_filter, parse_filter
from octopia.errors import UsageError
from octopia.records.history import Records
from octopia.records.replaying import AS_FAST_AS_POSSIBLE, Replayed, Replaying
from octopia.records.replaying import replay as run_replay
from octopia.records.selection import EVERYTHING, Question, time_ms
from octopia.transport.loop import run_loop

_SHOWN_EVERY_S = 1.0


@examples(
    "octopia replay archive/ibm --speed 10",
    "octopia replay archive/all --filter \"symbol = 'IBM'\" --from 2026-11-18 --to 2026-11-19 --as-fast-as-possible",
)
def replay(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of an archive or of a spool.", callback=to_local_folder)
    ],
    interest: Annotated[
        str, typer.Option("--filter", metavar="FILTER", help="Publications to replay, such as 'price > 100'.")
    ] = EVERYTHING,
    from_time: FromTime = None,
    to_time: ToTime = None,
    speed: Annotated[
        float | None, typer.Option(min=1e-6, help="Speed factor: 10 replays in a tenth of the time.", show_default="1")
    ] = None,
    at_once: Annotated[bool, typer.Option("--as-fast-as-possible", help="Do not wait between publications.")] = False,
    count: Count = None,
    advertise: Offer = None,
    name: ClientName = None,
    url: Url = None,
    broker: Broker = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Publish the rows of an archive or a spool again, at any speed.

    Publications keep their order, and the time between them, divided by the speed. Their attributes are advertised.
    Ctrl-C stops it.
    """
    if at_once and speed is not None:
        raise UsageError("expected --speed or --as-fast-as-possible, got both")
    Records(folder)
    question = Question(
        format_filter(parse_filter(interest)), time_ms(from_time, -math.inf), time_ms(to_time, math.inf)
    )
    offer = None if advertise is None else parse_filter(advertise)
    wanted = Replaying(folder, question, AS_FAST_AS_POSSIBLE if at_once else speed or 1.0, count, offer)
    state = run_loop(_replay(wanted, url, broker, timeout, name, as_json=as_json))
    typer.echo(json.dumps(dataclasses.asdict(state)) if as_json else _line(state))


async def _replay(
    wanted: Replaying, url: str | None, broker: str | None, timeout: float | None, name: str | None, *, as_json: bool
) -> Replayed:
    shown_s = time.monotonic()

    def show(state: Replayed) -> None:
        nonlocal shown_s
        if not as_json and time.monotonic() - shown_s >= _SHOWN_EVERY_S:
            shown_s = time.monotonic()
            typer.echo(f"{state.rows:,} publications replayed", err=True)

    async with connected(url, broker, timeout, name) as client:
        return await run_replay(client, wanted, stopped_by_signal(), show)


def _line(state: Replayed) -> str:
    late = f", up to {state.late_ms_max:.0f} ms late" if state.late_ms_max else ""
    notices = f", {state.notices:,} gaps and losses left out" if state.notices else ""
    return f"{state.rows:,} publications replayed in {state.seconds:.1f} s{late}{notices}"
