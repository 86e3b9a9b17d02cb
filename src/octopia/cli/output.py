"""How results look in a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from octopia.simulator.record import Hop
from octopia.simulator.run import Run

_MOST_ROWS = 40


def console() -> Console:
    """Return the console of standard output; piped output is not cut at a guessed width."""
    # Names come from files: brackets and colons in them are not markup.
    screen = Console(highlight=False, markup=False, emoji=False)
    return screen if screen.is_terminal else Console(highlight=False, markup=False, emoji=False, width=120)


def print_json(value: Any) -> None:
    """Print a value as JSON, always the same bytes for the same value."""
    print(json.dumps(value, indent=2, ensure_ascii=False))  # noqa: T201 - the output of the command


def describe_hop(hop: Hop) -> str:
    """Write a hop as the paper's examples do: ``b.3>b.1[0001]``."""
    return f"{hop.sender}>{hop.receiver}" + (f"[{hop.civ}]" if hop.civ else "")


def print_run(run: Run) -> None:
    """Print what happened in a run."""
    screen = console()
    scenario = run.scenario
    scot = scenario.overlay.scot
    screen.print(
        f"{scenario.name}: {len(scot.brokers)} brokers ({len(scot.regions)} regions x {scot.clusters} "
        f"clusters), {scenario.routing.algorithm} routing, tau {scenario.routing.tau:g}, "
        f"window {scenario.routing.window_ms:g} ms"
    )
    screen.print(f"assumed: profile {run.profile.name}: {run.profile.description}")
    _print_deliveries(screen, run)
    _print_refusals(screen, run)
    _print_messages(screen, run)


def _print_deliveries(screen: Console, run: Run) -> None:
    deliveries = run.recorder.deliveries
    title = "1 delivery" if len(deliveries) == 1 else f"{len(deliveries)} deliveries"
    table = Table(title=title, title_justify="left")
    for column in ("publication", "client", "subscription", "path"):
        table.add_column(column, overflow="fold")
    table.add_column("delay (ms)", justify="right")
    for each in deliveries[:_MOST_ROWS]:
        path = " > ".join(each.path)
        table.add_row(str(each.publication), each.client, each.subscription, path, f"{each.delay_ms:g}")
    screen.print(table)
    _print_rest(screen, deliveries)


def _print_refusals(screen: Console, run: Run) -> None:
    for each in run.recorder.refused[:_MOST_ROWS]:
        what = "request" if each.publication is None else f"publication {each.publication}"
        screen.print(f"refused to {each.client}: {what}: {each.reason}")
    _print_rest(screen, run.recorder.refused)


def _print_messages(screen: Console, run: Run) -> None:
    counts = {kind: count for kind, count in run.messages().items() if count}
    text = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"
    screen.print(f"messages between brokers: {text}")
    positives = sum(each.false_positives for each in run.world.counters())
    screen.print(f"false positives: {positives}")
    lost = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in run.losses().items())
    if lost:
        screen.print(f"lost or doubled on the way, and counted: {lost}")


def _print_rest(screen: Console, rows: Sequence[object]) -> None:
    if len(rows) > _MOST_ROWS:
        screen.print(f"… and {len(rows) - _MOST_ROWS} more (--json shows all)")
