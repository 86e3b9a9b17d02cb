"""``octopia sim run``: run a scenario in virtual time."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from octopia.broker import Detail
from octopia.cli.lazy import examples
from octopia.cli.options import (
    AlgorithmOverride,
    AsJson,
    ProfileOverride,
    ScenarioFile,
    SeedOverride,
    TraceLevel,
    TraceLevelOption,
    make_folder,
)
from octopia.cli.output import console, print_json
from octopia.errors import InternalError
from octopia.scenario import load_scenario
from octopia.settings import Algorithm, RoutingSettings
from octopia.simulator.profiles import find_profile
from octopia.simulator.run import Run, run_scenario
from octopia.simulator.whereabouts import waiting_copies
from octopia.trace import JSON_LINES_FILE, PARQUET_FILE, RUN_FILE, JsonLines, Parquet, TraceSink

_MOST_ROWS = 40
_MOST_NAMED = 5


class TraceFormat(enum.StrEnum):
    """The trace files to write."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    BOTH = "both"


@examples(
    "octopia sim run examples/fig7b.toml",
    "octopia sim run examples/fig7b.toml --algorithm static --json",
    "octopia sim run examples/market.toml --check --trace out/market",
)
def simulate(
    file: ScenarioFile,
    as_json: AsJson = False,
    trace: Annotated[Path | None, typer.Option(metavar="DIR", help="Write a trace into this folder.")] = None,
    trace_format: Annotated[TraceFormat, typer.Option(help="Trace files to write.")] = TraceFormat.BOTH,
    trace_level: TraceLevelOption = TraceLevel.ALL,
    seed: SeedOverride = None,
    profile: ProfileOverride = None,
    algorithm: AlgorithmOverride = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check all invariants after every step, and all deliveries at the end.")
    ] = False,
) -> None:
    """Run a scenario in virtual time and show the deliveries with their paths.

    The same file and seed give the same output, byte for byte.
    """
    scenario = load_scenario(file)
    if algorithm is not None:
        scenario = scenario.with_algorithm(algorithm)
    costs = find_profile(profile) if profile else None
    with _sinks(trace, trace_format) as sinks:
        detail = Detail[trace_level.name] if trace else Detail.HOPS
        run = run_scenario(scenario, seed=seed, profile=costs, detail=detail, check=check, sinks=sinks)
    if trace:
        _write_manifest(run, trace)
    if as_json:
        print_json(run.to_json())
    else:
        _print_run(run)
        if trace:
            typer.echo(f"the trace is in {trace}")
    if check:
        _judge(run, quiet=as_json)


@contextlib.contextmanager
def _sinks(folder: Path | None, wanted: TraceFormat) -> Iterator[list[TraceSink]]:
    with contextlib.ExitStack() as stack:
        sinks: list[TraceSink] = []
        if folder is not None:
            make_folder(folder)
            if wanted is not TraceFormat.PARQUET:
                sinks.append(stack.enter_context(JsonLines(folder / JSON_LINES_FILE)))
            # "both" leaves Parquet out if pyarrow is not installed; "parquet" fails then.
            if wanted is TraceFormat.PARQUET or (wanted is TraceFormat.BOTH and importlib.util.find_spec("pyarrow")):
                sinks.append(stack.enter_context(Parquet(folder / PARQUET_FILE)))
        yield sinks


def _write_manifest(run: Run, folder: Path) -> None:
    manifest = {
        "scenario": run.scenario.name,
        "seed": run.seed,
        "routing": dataclasses.asdict(run.scenario.routing),
        "profile": run.profile.assumptions(),
    }
    (folder / RUN_FILE).write_text(json.dumps(manifest, indent=2) + "\n")


def _judge(run: Run, quiet: bool) -> None:
    complaints = run.complaints()
    if complaints:
        more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
        raise InternalError(f"{complaints[0]}{more}")
    if not quiet:
        once = "every delivery exactly once, to the right clients"
        if run.scenario.routing.algorithm is Algorithm.TID_DYNAMIC:
            once = "no delivery twice or to the wrong client"
        typer.echo(f"checked: every invariant after every step; {once}{_reservations(run)}")


def _reservations(run: Run) -> str:
    """Return the deliveries that the check leaves out, as text."""
    reservations = []
    if run.losses():
        reservations.append("except for counted losses")
    if run.ledger.under_way:
        reservations.append(f"except for {_under_way(run)}")
    return "".join(f", {each}" for each in reservations)


def _under_way(run: Run) -> str:
    """Return the publications that may still owe deliveries, as text: where their copies wait, or why they may."""
    numbers = run.ledger.under_way
    named, rest = numbers[:_MOST_NAMED], len(numbers) - _MOST_NAMED
    owing = f"publication{'s' if len(numbers) > 1 else ''} {', '.join(map(str, named))}"
    if rest > 0:
        owing += f" and {rest} more"
    places = [f"a copy of {number} {each}" for number in named for each in waiting_copies(run, number)]
    why = "; ".join(places) or " and ".join(run.ledger.faults)
    return f"what {owing} may still owe: {why}"


def _print_run(run: Run) -> None:
    screen = console()
    scenario = run.scenario
    scot = scenario.overlay.scot
    screen.print(
        f"{scenario.name}: {len(scot.brokers)} brokers ({len(scot.regions)} regions x {scot.clusters} "
        f"clusters), {_describe_routing(scenario.routing)}"
    )
    screen.print(f"assumed: profile {run.profile.name}: {run.profile.description}")
    _print_deliveries(screen, run)
    _print_refusals(screen, run)
    _print_messages(screen, run)


def _describe_routing(routing: RoutingSettings) -> str:
    text = f"{routing.algorithm} routing, tau {routing.tau:g}, window {routing.window_ms:g} ms"
    if routing.algorithm is Algorithm.ADAPTIVE:
        text += f", wait {routing.wait_ms:g} ms, hold {routing.hold_ms:g} ms, probe {routing.probe_ms:g} ms"
    return text


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
        screen.print(f"refused: {what} of {each.client}: {each.reason}")
    _print_rest(screen, run.recorder.refused)


def _print_messages(screen: Console, run: Run) -> None:
    counts = {kind: count for kind, count in run.messages().items() if count}
    text = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none"
    screen.print(f"messages between brokers: {text}")
    positives = sum(each.false_positives for each in run.world.counters())
    screen.print(f"false positives: {positives}")
    lost = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in run.losses().items())
    if lost:
        screen.print(f"lost or duplicated in transit: {lost}")
    notified = dict.fromkeys(f"{each.client} ({each.cause})" for each in run.recorder.gaps)
    if notified:
        screen.print(f"notified of possible gaps: {', '.join(notified)}")


def _print_rest(screen: Console, rows: Sequence[object]) -> None:
    if len(rows) > _MOST_ROWS:
        screen.print(f"… and {len(rows) - _MOST_ROWS} more (--json shows all)")
