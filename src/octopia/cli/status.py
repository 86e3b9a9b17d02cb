"""``octopia status``: the state of a running overlay."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Url
from octopia.cli.output import console, print_json
from octopia.cli.overlays import Watched, ask_brokers
from octopia.client.operators import OverlayStatus, status_of
from octopia.errors import UsageError
from octopia.protocol import Cause, Command, Verb
from octopia.transport.loop import run_loop

REFRESH_S = 0.5
_COLUMNS = ("clients", "PRT", "CLT", "links up", "queued", "sent", "rerouted")


@examples(
    "octopia status",
    "octopia status --url octopia://127.0.0.1:7403 --json",
    "octopia status --watch",
)
def status(
    url: Url = None,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh the table until Ctrl-C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the state of a running overlay.

    Any broker on this machine will do: it knows the addresses of all others. The exit code is 1 unless all brokers run
    and all links are up.
    """
    if watch and as_json:
        raise UsageError("expected --watch or --json, got both")
    if watch:
        _watch(url)
        return
    overlay = run_loop(_ask(url))
    if as_json:
        print_json(_to_json(overlay))
    else:
        console().print(_table(overlay))
    if not overlay.is_whole:
        raise typer.Exit(1)


async def _ask(url: str | None) -> OverlayStatus:
    return status_of(await ask_brokers(url, Command(Verb.REPORT)))


def _watch(url: str | None) -> None:
    watched = Watched(url)
    try:
        with Live(console=console(), auto_refresh=False) as live:
            while True:
                overlay = status_of(run_loop(watched.ask(Command(Verb.REPORT))))
                live.update(_table(overlay), refresh=True)
                time.sleep(REFRESH_S)
    except KeyboardInterrupt:
        return


def _to_json(overlay: OverlayStatus) -> dict[str, Any]:
    return {
        "name": overlay.name,
        "tree": overlay.tree,
        "clusters": overlay.clusters,
        "whole": overlay.is_whole,
        "brokers": {each: overlay.reports.get(each) for each in overlay.brokers},
        "problems": overlay.problems,
    }


def _table(overlay: OverlayStatus) -> Table:
    title = f"{overlay.name}: {len(overlay.reports)} of {len(overlay.brokers)} brokers"
    return status_table(title, overlay.brokers, overlay.reports, overlay.problems)


def status_table(
    title: str, brokers: Sequence[str], reports: Mapping[str, dict[str, Any]], problems: Mapping[str, str]
) -> Table:
    """Return a table with one row per broker; a column of losses appears when a broker has any."""
    table = Table(title=title, title_justify="left")
    table.add_column("broker")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    table.add_column("congested links")
    has_losses = any(report["losses"] for report in reports.values())
    if has_losses:
        table.add_column("lost publications")
    for broker in brokers:
        report = reports.get(broker)
        if report is None:
            table.add_row(broker, *[""] * len(_COLUMNS), problems.get(broker, "not running"))
        else:
            table.add_row(broker, *_row(report), *([_losses(report)] if has_losses else []))
    return table


def _row(report: dict[str, Any]) -> list[str]:
    links = report["links"]
    return [
        str(report["clients"]),
        str(report["tables"]["prt"]),
        str(report["tables"]["clt"] + report["tables"]["srt"]),
        f"{sum(link['up'] for link in links.values())}/{len(links)}",
        str(sum(link["queue"] for link in links.values()) + report["stranded"]),
        str(report["sent"].get("publication", 0)),
        str(report["rerouted"]),
        ", ".join(f"{peer}{_why_avoided(link)}" for peer, link in links.items() if link["congested"]),
    ]


def _why_avoided(link: dict[str, Any]) -> str:
    """Return a remark on a link that counts as congested because it carries no publications, else nothing."""
    if not link["up"]:
        return " (down)"
    return "" if link["open"] else " (closed)"


def _losses(report: dict[str, Any]) -> str:
    """Return the losses of a broker by cause; their number may be unknown, or only a bound."""
    return ", ".join(
        f"{cause}: {'up to ' if cause == Cause.UNREACHABLE_BROKER else ''}{loss['publications'] or 'unknown'}"
        for cause, loss in sorted(report["losses"].items())
    )
