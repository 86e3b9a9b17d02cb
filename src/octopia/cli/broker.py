"""``octopia broker`` and ``octopia up``: run brokers on the network."""

from __future__ import annotations

import logging
import os
import signal
import time
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from octopia.cli.lazy import examples
from octopia.cli.options import Clusters, OverlayArgument, complete_brokers, find_overlay
from octopia.cli.output import console, notify
from octopia.cli.status import REFRESH_S, status_table
from octopia.errors import UsageError
from octopia.overlay.files import Overlay
from octopia.runtime.process import Workers, exclude_from_collection, run_brokers
from octopia.transport.loop import run_loop

_MOST_ROWS = 60
_PATIENCE_S = 5.0
"""The time that ``up`` waits for brokers that cannot start before it goes on without them."""

Verbose = Annotated[bool, typer.Option("--verbose", help="Log every connection.")]


@examples(
    "octopia broker overlay.toml b.3",
    "octopia broker overlay.toml b.0 b.1 b.2 b.3",
)
def broker(
    overlay: OverlayArgument,
    brokers: Annotated[
        list[str],
        typer.Argument(metavar="BROKER", help="The brokers to run here, such as b.3.", autocompletion=complete_brokers),
    ],
    clusters: Clusters = None,
    verbose: Verbose = False,
) -> None:
    """Run one or more brokers of an overlay in this process.

    All machines use the same overlay file, which gives the address of each broker. Ctrl-C or SIGTERM stops the process
    after it has passed on all publications that it accepted.
    """
    found = find_overlay(overlay, clusters)
    chosen = list(dict.fromkeys(found.scot.broker(name) for name in brokers))
    _begin_log(verbose)
    screen = console(stderr=True)

    def show_addresses() -> None:
        for each in chosen:
            notify(screen, f"{each} listens at {found.addresses[each]}")

    exclude_from_collection()
    lost = run_loop(run_brokers(found, chosen, on_listening=show_addresses))
    if lost:
        notify(screen, f"stopped; {lost} publications could not be passed on in time and are lost")
        raise typer.Exit(1)
    notify(screen, "drained and stopped")


@examples(
    "octopia up overlay.toml",
    "octopia up path:3 --clusters 4 --processes 2",
    "octopia up paper:se --plain",
)
def up(
    overlay: OverlayArgument,
    clusters: Clusters = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of processes that share the brokers.", show_default="one per CPU")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Print a line when ready instead of a live table.")] = False,
    verbose: Verbose = False,
) -> None:
    """Run all brokers of an overlay on this machine.

    A table shows their state. Ctrl-C stops them after they have delivered all publications that they accepted. A
    process that dies is restarted, at intervals of up to 10 s. The log goes to stderr.
    """
    found = find_overlay(overlay, clusters)
    _check_local(found)
    _begin_log(verbose)
    workers = Workers(found, processes or os.cpu_count() or 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)
    screen = console()
    try:
        _wait_until_ready(workers, found, screen)
        if plain or not screen.is_terminal:
            _wait(workers)
        else:
            _watch(workers, found, screen)
    except KeyboardInterrupt:
        notify(screen, "stopping; accepted publications are delivered first")
    finally:
        lost = workers.stop()
    if lost:
        notify(screen, f"all brokers have stopped; {lost} publications could not be passed on in time and are lost")
        raise typer.Exit(1)
    notify(screen, "all brokers have stopped")


def _begin_log(verbose: bool) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s")


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
        if workers.problems() and time.monotonic() - begin > _PATIENCE_S:
            break
        workers.wait(REFRESH_S)
    count, took = len(overlay.scot.brokers), time.monotonic() - begin
    first, last = overlay.addresses[overlay.scot.brokers[0]], overlay.addresses[overlay.scot.brokers[-1]]
    up = count - len(workers.problems())
    share = f"{count}" if up == count else f"{up} of {count}"
    notify(screen, f"{share} brokers are up after {took:.1f} s, at {first} to {last}; Ctrl-C stops them")
    for broker, problem in workers.problems().items():
        notify(screen, f"{broker} is {problem}")


def _wait(workers: Workers) -> None:
    while True:
        workers.poll()
        time.sleep(REFRESH_S)


def _watch(workers: Workers, overlay: Overlay, screen: Console) -> None:
    begin = time.monotonic()
    brokers = [str(each) for each in overlay.scot.brokers]
    with Live(console=screen, auto_refresh=False) as live:
        while True:
            reports = workers.poll()
            title = f"{overlay.name}: {len(reports)} of {len(brokers)} brokers, {time.monotonic() - begin:.0f} s"
            live.update(status_table(title, brokers[:_MOST_ROWS], reports, workers.problems()), refresh=True)
            time.sleep(REFRESH_S)
