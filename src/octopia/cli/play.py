"""``octopia data play``: play a workload in virtual time or on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from octopia.cli.lazy import examples
from octopia.cli.options import (
    AsJson,
    First,
    OutFolder,
    Profile,
    Seed,
    TraceLevel,
    TraceLevelOption,
    WorkloadFolder,
    complete_toml,
    make_folder,
)
from octopia.cli.output import print_json
from octopia.errors import UsageError
from octopia.settings import PAPER_ROUTING, Algorithm, RoutingSettings

if TYPE_CHECKING:
    from octopia.workloads.runs import RunSpec


@examples(
    "octopia data play out/market --out out/simulated --first 2000",
    "octopia data play out/market --out out/network --network --speed 10 --algorithm static",
    "octopia data audit out/network --workload out/market",
)
def play(
    workload: WorkloadFolder,
    out: OutFolder,
    network: Annotated[bool, typer.Option("--network", help="Play on real brokers, started for this run.")] = False,
    first: First = 0,
    speed: Annotated[float, typer.Option(help="On the network: speed relative to the workload's schedule.")] = 1.0,
    algorithm: Annotated[
        Algorithm | None,
        typer.Option(help="Routing algorithm.", show_default="dynamic in virtual time, adaptive with --network"),
    ] = None,
    overlay: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An overlay file with the same brokers, for slow links.",
            show_default="the workload's overlay",
            autocompletion=complete_toml,
        ),
    ] = None,
    profile: Profile = "unit",
    trace_level: TraceLevelOption = TraceLevel.DELIVERIES,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Play a workload in virtual time or on real brokers.

    It writes a trace that `octopia data audit` can check. Brokers for --network run on this machine until the workload
    is played. --profile, --trace-level and --seed are for virtual time.
    """
    from octopia.workloads.runs import RunSpec

    if speed <= 0:
        raise UsageError(f"expected a speed above 0, got {speed:g}")
    make_folder(out)
    spec = RunSpec(
        workload=workload,
        run_id=out.name,
        algorithm=algorithm or (RoutingSettings() if network else PAPER_ROUTING).algorithm,
        seed=seed,
        profile=profile,
        first=first,
        detail=trace_level.value,
        overlay=str(overlay or ""),
    ).named()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        line = progress.add_task("reading the workload", total=None)

        def show(text: str) -> None:
            progress.update(line, description=text)

        result = _on_network(spec, out, speed, show) if network else _simulated(spec, out, show)
    if as_json:
        print_json(result)
    else:
        for name, value in result.items():
            typer.echo(f"{name}: {value:,}" if isinstance(value, int | float) else f"{name}: {value}")
        typer.echo(f"the trace is in {out}; next: octopia data audit {out} --workload {workload}")


def _simulated(spec: RunSpec, out: Path, show: Callable[[str], None]) -> dict[str, Any]:
    from octopia.workloads.simulated_run import play_into

    show("playing in virtual time")
    run = play_into(spec, out)
    messages = {kind: count for kind, count in run.messages().items() if count}
    return {
        "publications": run.ledger.attempted,
        "refused": len(run.recorder.refused),
        "messages between brokers": sum(messages.values()),
        "virtual seconds": round(run.world.agenda.now_ms / 1000.0, 3),
    }


def _on_network(spec: RunSpec, out: Path, speed: float, show: Callable[[str], None]) -> dict[str, Any]:
    from octopia.experiments.network_runs import play_on_brokers

    run = play_on_brokers(spec, out, speed, show)
    result: dict[str, Any] = {
        "publications": run.publications,
        "deliveries": run.deliveries,
        "messages between brokers": sum(run.messages.values()),
        "seconds": round(run.seconds, 3),
    }
    if run.cpu is not None:
        result["CPU use"] = run.cpu.total_mean
        result["CPUs overloaded"] = "yes" if run.cpu.is_short else "no"
    return result
