"""``octopia simulate``: run a scenario in virtual time."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from octopia.broker import Detail
from octopia.cli.output import console, print_json, print_run
from octopia.errors import InternalError, UsageError
from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.profiles import find_profile
from octopia.simulator.run import Run, run_scenario
from octopia.trace import JSON_LINES_FILE, PARQUET_FILE, RUN_FILE, JsonLines, Parquet, TraceSink


class TraceFormat(enum.StrEnum):
    """Which trace files are written."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    BOTH = "both"


class TraceLevel(enum.StrEnum):
    """How much is traced."""

    DELIVERIES = "deliveries"
    HOPS = "hops"
    ALL = "all"


_DETAILS = {
    TraceLevel.DELIVERIES: Detail.DELIVERIES,
    TraceLevel.HOPS: Detail.HOPS,
    TraceLevel.ALL: Detail.ALL,
}


EXAMPLES = """Examples:

octopia simulate examples/fig7b.toml

octopia simulate examples/fig7b.toml --algorithm static --json

octopia simulate examples/market.toml --check --trace out/market
"""


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file (TOML).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the trace into this folder.")] = None,
    trace_format: Annotated[TraceFormat, typer.Option(help="Which trace files to write.")] = TraceFormat.BOTH,
    trace_level: Annotated[TraceLevel, typer.Option(help="How much to trace.")] = TraceLevel.ALL,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness, in place of the scenario's.")] = None,
    profile: Annotated[
        str | None, typer.Option(help="What things cost: unit, paper, or a .toml file.", metavar="NAME")
    ] = None,
    algorithm: Annotated[Algorithm | None, typer.Option(help="Route by this, whatever the scenario says.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check every invariant after every step, and all deliveries at the end.")
    ] = False,
) -> None:
    """Run a scenario in virtual time and show who received what, and over which links.

    The same file and seed give the same output, byte for byte.
    """
    scenario = load_scenario(file)
    if algorithm is not None:
        scenario = scenario.with_algorithm(algorithm)
    costs = find_profile(profile) if profile else None
    with _sinks(trace, trace_format) as sinks:
        detail = _DETAILS[trace_level] if trace else Detail.HOPS
        run = run_scenario(scenario, seed=seed, profile=costs, detail=detail, check=check, sinks=sinks)
    if trace:
        _write_manifest(run, trace)
    if as_json:
        print_json(run.to_json())
    else:
        print_run(run)
        if trace:
            console().print(f"the trace is in {trace}")
    if check:
        _judge(run, quiet=as_json)


@contextlib.contextmanager
def _sinks(folder: Path | None, wanted: TraceFormat) -> Iterator[list[TraceSink]]:
    with contextlib.ExitStack() as stack:
        sinks: list[TraceSink] = []
        if folder is not None:
            _make_folder(folder)
            if wanted is not TraceFormat.PARQUET:
                sinks.append(stack.enter_context(JsonLines(folder / JSON_LINES_FILE)))
            # Without pyarrow "both" quietly means what can be had; asked for by name, Parquet must be there.
            if wanted is TraceFormat.PARQUET or (wanted is TraceFormat.BOTH and importlib.util.find_spec("pyarrow")):
                sinks.append(stack.enter_context(Parquet(folder / PARQUET_FILE)))
        yield sinks


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"expected a folder for the trace that can be made, got {folder}: {error.strerror}") from None


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
        console().print(f"checked: every invariant after every step; {once}{_reservations(run)}")


def _reservations(run: Run) -> str:
    """Say what the check does not vouch for."""
    reservations = []
    if run.losses():
        reservations.append("but for what was lost and counted")
    if run.ledger.under_way:
        reservations.append(f"but for {run.ledger.under_way} publications that are still under way")
    return "".join(f", {each}" for each in reservations)
