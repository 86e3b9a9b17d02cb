"""``octopia play``: a workload, in virtual time or on real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from octopia.cli.output import console, print_json
from octopia.errors import UsageError
from octopia.settings import Algorithm

if TYPE_CHECKING:
    from octopia.workloads.runs import RunSpec

EXAMPLES = """Examples:

octopia play out/market --out out/simulated --first 2000

octopia play out/market --out out/network --network --speed 10 --algorithm static

octopia audit out/network --workload out/market
"""


def play(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="The folder of a workload.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the trace.")],
    network: Annotated[bool, typer.Option("--network", help="Start real brokers here, and play it on them.")] = False,
    first: Annotated[int, typer.Option(min=0, help="Only the first so many publications; 0: all.")] = 0,
    speed: Annotated[float, typer.Option(help="On the network: so many times faster than it says.")] = 1.0,
    algorithm: Annotated[Algorithm, typer.Option(help="Route by this.")] = Algorithm.DYNAMIC,
    overlay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An overlay file with the same brokers, for slow links.")
    ] = None,
    profile: Annotated[str, typer.Option(help="In virtual time: what things cost.")] = "unit",
    detail: Annotated[str, typer.Option(help="In virtual time: deliveries, hops or all.")] = "deliveries",
    seed: Annotated[int, typer.Option(help="In virtual time: the seed of all randomness.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Play a workload that the pipeline made, and leave a trace that it can audit.

    In virtual time by default; with --network on brokers that are started on this machine for as long as it takes.
    """
    from octopia.workloads.runs import RunSpec

    if speed <= 0:
        raise UsageError(f"expected a speed above 0, got {speed:g}")
    _make_folder(out)
    spec = RunSpec(
        workload=workload,
        run_id=out.name,
        algorithm=algorithm,
        seed=seed,
        profile=profile,
        first=first,
        detail=detail,
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
        for what, value in result.items():
            console().print(f"{what}: {value:,}" if isinstance(value, int | float) else f"{what}: {value}")
        console().print(f"the trace is in {out}; next: octopia audit {out} --workload {workload}")


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
    from octopia.experiments.networked import play_on_brokers

    run = play_on_brokers(spec, out, speed, show)
    result: dict[str, Any] = {
        "publications": run.publications,
        "deliveries": run.deliveries,
        "messages between brokers": sum(run.messages.values()),
        "seconds": round(run.seconds, 3),
    }
    if run.cpu is not None:
        result["share of processors in use"] = run.cpu.total_mean
        result["processors were short"] = "yes" if run.cpu.is_short else "no"
    return result


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"expected a folder that can be made, got {out}: {error.strerror}") from None
