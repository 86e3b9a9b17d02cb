"""``octopia broker`` and ``octopia up``: run brokers on the network."""

from __future__ import annotations

import logging
import os
import signal
import time
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from octopia.cli.output import console
from octopia.cli.topology import find_overlay
from octopia.errors import UsageError
from octopia.overlay.files import Overlay
from octopia.runtime.process import Workers, run_brokers, run_loop

REFRESH_S = 0.5
_MOST_ROWS = 60

BROKER_EXAMPLES = """Examples:

octopia broker overlay.toml b.3

octopia broker overlay.toml b.0 b.1 b.2 b.3
"""

UP_EXAMPLES = """Examples:

octopia up overlay.toml

octopia up path:3 --clusters 4 --processes 2

octopia up paper:se --plain
"""

OverlayArgument = Annotated[
    str, typer.Argument(metavar="OVERLAY", help="An overlay file (….toml), or a tree such as path:3 or paper:se.")
]
ClustersOption = Annotated[int | None, typer.Option(help="The number of clusters for a tree.")]


def broker(
    overlay: OverlayArgument,
    brokers: Annotated[list[str], typer.Argument(metavar="BROKER...", help="Which brokers to run here, such as b.3.")],
    clusters: ClustersOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every connection.")] = False,
) -> None:
    """Run one broker of an overlay, or some, in this process, until it is told to stop (Ctrl-C or SIGTERM).

    All machines use the same overlay file, which says where each broker listens. Stopping drains: what was accepted
    goes on before the process ends.
    """
    found = find_overlay(overlay, clusters)
    chosen = list(dict.fromkeys(found.scot.broker(name) for name in brokers))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s")
    screen = Console(stderr=True, highlight=False, markup=False)

    def tell() -> None:
        for each in chosen:
            screen.print(f"{each} listens at {found.addresses[each]}")

    left = run_loop(run_brokers(found, chosen, on_listening=tell))
    if left:
        screen.print(f"stopped; {left} publications could not be passed on in time, and are lost")
        raise typer.Exit(1)
    screen.print("drained and stopped")


def up(
    overlay: OverlayArgument,
    clusters: ClustersOption = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="How many processes share the brokers (default: one a processor).")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line when ready, and no live table.")] = False,
) -> None:
    """Run all brokers of an overlay on this machine, and show how they are doing.

    Ctrl-C stops them; what was accepted is delivered first. A process that dies is started anew.
    """
    found = find_overlay(overlay, clusters)
    _check_local(found)
    workers = Workers(found, processes or os.cpu_count() or 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    screen = console()
    try:
        _wait_until_ready(workers, found, screen)
        if plain or not screen.is_terminal:
            _watch_plainly(workers)
        else:
            _watch(workers, found, screen)
    except KeyboardInterrupt:
        screen.print("stopping; what was accepted is delivered first")
    finally:
        left = workers.stop()
    if left:
        screen.print(f"all brokers have stopped; {left} publications could not be passed on in time, and are lost")
        raise typer.Exit(1)
    screen.print("all brokers have stopped")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _check_local(overlay: Overlay) -> None:
    here = ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::")
    elsewhere = {address.host for address in overlay.addresses.values()}.difference(here)
    if elsewhere:
        raise UsageError(
            f"expected an overlay whose brokers are all on this machine, got {', '.join(sorted(elsewhere))}; "
            "start each machine's brokers with: octopia broker OVERLAY BROKER..."
        )


def _wait_until_ready(workers: Workers, overlay: Overlay, screen: Console) -> None:
    begin = time.monotonic()
    while not workers.is_ready():
        time.sleep(0.02)
    count, took = len(overlay.scot.brokers), time.monotonic() - begin
    first, last = overlay.addresses[overlay.scot.brokers[0]], overlay.addresses[overlay.scot.brokers[-1]]
    screen.print(f"{count} brokers are up after {took:.1f} s, at {first} to {last}; Ctrl-C stops them")


def _watch_plainly(workers: Workers) -> None:
    while True:
        workers.poll()
        time.sleep(REFRESH_S)


def _watch(workers: Workers, overlay: Overlay, screen: Console) -> None:
    begin = time.monotonic()
    with Live(console=screen, auto_refresh=False) as live:
        while True:
            live.update(_table(workers.poll(), overlay, time.monotonic() - begin), refresh=True)
            time.sleep(REFRESH_S)


def _table(reports: dict[str, dict[str, Any]], overlay: Overlay, seconds: float) -> Table:
    title = f"{overlay.name}: {len(reports)} of {len(overlay.scot.brokers)} brokers, {seconds:.0f} s"
    table = Table(title=title, title_justify="left")
    table.add_column("broker")
    for name in ("clients", "PRT", "CLT", "links up", "queued", "sent", "rerouted"):
        table.add_column(name, justify="right")
    table.add_column("congested links")
    for name in [str(each) for each in overlay.scot.brokers][:_MOST_ROWS]:
        table.add_row(name, *_row(reports.get(name)))
    return table


def _row(report: dict[str, Any] | None) -> list[str]:
    if report is None:
        return ["", "", "", "", "", "", "", "not running"]
    links = report["links"]
    return [
        str(report["clients"]),
        str(report["tables"]["prt"]),
        str(report["tables"]["clt"] + report["tables"]["srt"]),
        f"{sum(link['up'] for link in links.values())}/{len(links)}",
        str(sum(link["queue"] for link in links.values())),
        str(report["sent"].get("publication", 0)),
        str(sum(report["cases"].values())),
        ", ".join(peer for peer, link in links.items() if link["congested"]),
    ]
