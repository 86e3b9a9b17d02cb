"""``octopia outbox``: publish the rows that jobs have written into an outbox."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.contexts import find_urls
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Broker, ClientName, Offer, Timeout, Url, to_local_folder
from octopia.cli.sessions import stopped_by_signal
from octopia.client.client import CONNECT_S
from octopia.content import parse_filter
from octopia.errors import RequestRefused
from octopia.records.dispatching import Dispatched, Dispatching, dispatch
from octopia.transport.loop import run_loop

_SHOWN_EVERY_S = 1.0


@examples(
    "octopia outbox out/averages",
    "octopia outbox out/averages --until-empty -b lon.0",
    "octopia outbox out/averages --advertise \"symbol = 'IBM' AND average > 0\"",
)
def outbox(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of the outbox; created if it does not exist.", callback=to_local_folder
        ),
    ],
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Exit when everything is published.")] = False,
    moves: Annotated[
        bool, typer.Option("--move", help="Publish to another broker than before; some rows may be published twice.")
    ] = False,
    advertise: Offer = None,
    name: ClientName = None,
    url: Url = None,
    broker: Broker = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Publish the rows of an outbox, each once.

    Spark writes rows into an outbox with `df.writeStream.format("octopia")`. This command advertises their attributes
    and publishes them in order, and removes published rows. If it is killed, start it again at the same broker, which
    knows the rows that it has received. If the broker refuses rows, they go to the file refused.jsonl in the outbox,
    and the command ends. Ctrl-C stops it.
    """
    wanted = Dispatching(
        folder,
        until_empty=until_empty,
        moves=moves,
        name=name,
        timeout_s=timeout or CONNECT_S,
        offer=None if advertise is None else parse_filter(advertise),
    )
    run_loop(_dispatch(url, broker, wanted, as_json=as_json))


async def _dispatch(url: str | None, broker: str | None, wanted: Dispatching, *, as_json: bool) -> None:
    """Publish, and print the result, also before an error about refused rows."""
    shown_s, latest = 0.0, Dispatched()

    def show(state: Dispatched) -> None:
        nonlocal shown_s, latest
        latest = state
        if not as_json and time.monotonic() - shown_s >= _SHOWN_EVERY_S:
            shown_s = time.monotonic()
            typer.echo(_line(state), err=True)

    urls = await find_urls(url, broker)
    typer.echo(f"publishing from {wanted.folder}; press Ctrl-C to stop", err=True)
    try:
        latest = await dispatch(urls, wanted, stopped_by_signal(), show)
    except RequestRefused:
        if latest.refused:
            _print(latest, as_json=as_json)
        raise
    _print(latest, as_json=as_json)


def _print(state: Dispatched, *, as_json: bool) -> None:
    typer.echo(json.dumps(dataclasses.asdict(state)) if as_json else _line(state))


def _line(state: Dispatched) -> str:
    repeated = f"; the broker dropped {state.repeated:,} of them as repeated" if state.repeated else ""
    uncertain = f"; {state.uncertain:,} may be published twice, since a broker was lost" if state.uncertain else ""
    refused = f"; refused: {state.refused:,} ({state.reason})" if state.refused else ""
    return f"{state.rows:,} rows published, {state.published:,} in total{repeated}{uncertain}{refused}"
