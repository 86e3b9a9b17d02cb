"""``octopia top``: the busiest brokers of a running overlay, live."""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Url
from octopia.cli.output import console, count_of, print_json
from octopia.cli.overlays import Watched
from octopia.cli.report import broker_rows
from octopia.client.operators import Answers
from octopia.errors import UsageError
from octopia.protocol import Command, Verb
from octopia.transport.loop import run_loop

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = ("broker", "published_per_s", "sent_per_s", "rerouted_per_s", "queued", "clients", "congested", "lost")


class Order(enum.StrEnum):
    """The column by which brokers are sorted, largest first; names are sorted as names."""

    PUBLISHED = "published"
    SENT = "sent"
    REROUTED = "rerouted"
    QUEUED = "queued"
    CLIENTS = "clients"
    BROKER = "broker"


@examples("octopia top", "octopia top --sort queued --every 0.5", "octopia top --once --json")
def top(
    sort: Annotated[Order, typer.Option(help="Column to sort by.")] = Order.PUBLISHED,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.05, help="Time over which rates are measured.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Measure once, print, and exit.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the busiest brokers of a running overlay, live.

    Rates are per second: `published` by the clients of a broker, `sent` to other brokers, `rerouted` around congestion.
    Ctrl-C stops it.
    """
    if as_json and not once:
        raise UsageError("expected --json with --once, got it alone: a live table cannot be printed as JSON")
    if once:
        found, rows = run_loop(_measure_once(url, every))
        rows = _sorted(rows, sort)
        if as_json:
            print_json({"overlay": found.overlay["name"], "brokers": rows, "problems": found.problems})
        else:
            console().print(_table(found, rows))
        return
    try:
        run_loop(_watch(url, every, sort))
    except KeyboardInterrupt:
        return


async def _measure_once(url: str | None, every_s: float) -> tuple[Answers, list[dict[str, Any]]]:
    watched = Watched(url)
    before, begin = await watched.ask(Command(Verb.REPORT)), time.monotonic()
    await asyncio.sleep(every_s)
    after = await watched.ask(Command(Verb.REPORT))
    return after, rates(before, after, time.monotonic() - begin)


async def _watch(url: str | None, every_s: float, sort: Order) -> None:
    from rich.live import Live

    watched = Watched(url)
    before, begin = await watched.ask(Command(Verb.REPORT)), time.monotonic()
    terminal = console()
    with Live(console=terminal, auto_refresh=False, screen=terminal.is_terminal) as live:
        while True:
            await asyncio.sleep(every_s)
            after, now = await watched.ask(Command(Verb.REPORT)), time.monotonic()
            live.update(_table(after, _sorted(rates(before, after, now - begin), sort)), refresh=True)
            before, begin = after, now


def rates(before: Answers, after: Answers, seconds: float) -> list[dict[str, Any]]:
    """Return the rows of all brokers with the rates between two reports.

    A broker that restarted begins at 0. One that gave no report before has no rates yet: they are 0.
    """
    earlier = {row["broker"]: row for row in broker_rows(before)}
    rows = []
    for row in broker_rows(after):
        known = earlier.get(row["broker"], row)
        if known["incarnation"] != row["incarnation"]:
            known = {"published": 0, "sent": 0, "rerouted": 0}
        speeds = {f"{name}_per_s": (row[name] - known[name]) / seconds for name in ("published", "sent", "rerouted")}
        rows.append({**row, **speeds})
    return rows


def _sorted(rows: Sequence[dict[str, Any]], order: Order) -> list[dict[str, Any]]:
    if order is Order.BROKER:
        return list(rows)
    column = f"{order}_per_s" if f"{order}_per_s" in _COLUMNS else str(order)
    return sorted(rows, key=lambda row: -row[column])


def _table(found: Answers, rows: Sequence[dict[str, Any]]) -> Table:
    from rich.table import Table

    missing = f"; no answer from {', '.join(found.problems)}" if found.problems else ""
    table = Table(title=f"{found.overlay['name']}: {count_of(len(rows), 'brokers')}{missing}", title_justify="left")
    for column in _COLUMNS:
        is_text = column in ("broker", "congested")
        table.add_column(column.replace("_per_s", "/s"), justify="left" if is_text else "right")
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in _COLUMNS))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}"
    return ", ".join(value) if isinstance(value, list) else str(value)
