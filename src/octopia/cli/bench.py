"""``octopia bench`` and ``octopia calibrate``: measure the network."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from octopia.cli.lazy import examples
from octopia.cli.options import (
    AsJson,
    Clusters,
    Count,
    Publishers,
    Rate,
    complete_overlay,
    find_overlay,
)
from octopia.cli.output import console, print_json
from octopia.client.urls import VARIABLE
from octopia.errors import NetworkError, UsageError
from octopia.experiments.bench import Load, Result, run_load
from octopia.experiments.calibration import Calibration, Scale, calibrate_here
from octopia.experiments.local_overlay import at_free_addresses, running, urls_of
from octopia.overlay.files import Overlay, overlay_from_text
from octopia.transport.loop import run_loop


@examples(
    "octopia bench",
    "octopia bench path:3 --clusters 2 --publishers 2 --subscribers 4",
    "octopia bench --url octopia://127.0.0.1:7400 --rate 200 --count 2000 --json",
)
def bench(
    overlay: Annotated[
        str | None,
        typer.Argument(
            metavar="OVERLAY",
            help="An overlay to start for the measurement: a file (.toml), or a tree such as path:3.",
            autocompletion=complete_overlay,
        ),
    ] = None,
    clusters: Clusters = None,
    url: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="URL of a running broker.", show_default="$OCTOPIA_URL")
    ] = None,
    publishers: Publishers = 1,
    subscribers: Annotated[int, typer.Option(min=1, help="Number of clients that subscribe.")] = 1,
    count: Count = 20_000,
    rate: Rate = 0.0,
    payload_bytes: Annotated[int, typer.Option(min=0, help="Size of the payload of each publication.")] = 20,
    window: Annotated[
        int, typer.Option(min=1, help="Maximum number of deliveries in flight, if the rate is unlimited.")
    ] = 1000,
    as_json: AsJson = False,
) -> None:
    """Measure the throughput and the delays of an overlay.

    Without an overlay, --url and OCTOPIA_URL it starts one broker. --url may be repeated: clients are spread over the
    brokers. Every subscriber gets every publication. The exit code is 1 if a delivery is lost or duplicated.
    """
    load = Load(count or 0, publishers, subscribers, rate or 0.0, payload_bytes, window)
    if overlay and url:
        raise UsageError(f"expected an overlay to start or a running one, got {overlay} and --url {url[0]}")
    if overlay is None and (running_urls := url or _urls_of_environment()):
        result = _run(running_urls, running_urls, load, quiet=as_json)
    else:
        found = find_overlay(overlay, clusters) if overlay else overlay_from_text("a", 1)
        result = _run_embedded(at_free_addresses(found), load, quiet=as_json)
    if as_json:
        print_json(result.to_json())
    else:
        _print_result(result)
    if not result.is_exact:
        raise NetworkError(
            f"expected {result.expected} deliveries once each, but {result.lost} were lost and {result.doubled} "
            "duplicated"
        )


def _urls_of_environment() -> list[str]:
    return [each.strip() for each in os.environ.get(VARIABLE, "").split(",") if each.strip()]


def _run_embedded(overlay: Overlay, load: Load, *, quiet: bool) -> Result:
    with running(overlay, os.cpu_count() or 1):
        urls = urls_of(overlay)
        # Publications go from one end of the overlay to the other.
        return _run(urls, urls[::-1], load, quiet=quiet)


def _run(publish_at: Sequence[str], subscribe_at: Sequence[str], load: Load, *, quiet: bool) -> Result:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as progress:
        task = progress.add_task("deliveries", total=load.publications * load.subscribers)

        def on_progress(done: int, expected: int) -> None:
            progress.update(task, completed=done, total=expected)

        return run_loop(run_load(publish_at, subscribe_at, load, on_progress))


def _print_result(result: Result) -> None:
    table = Table(title=f"{result.publications:,} publications", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("published per second", f"{result.published_per_s:,.0f}")
    table.add_row("delivered per second", f"{result.delivered_per_s:,.0f}")
    table.add_row("delivered", f"{result.delivered:,} of {result.expected:,}")
    table.add_row("lost", f"{result.lost:,}")
    table.add_row("duplicated", f"{result.doubled:,}")
    table.add_row("delay p50 (ms)", f"{result.p50_ms:.3f}")
    table.add_row("delay p99 (ms)", f"{result.p99_ms:.3f}")
    table.add_row("most hops between brokers", str(result.hops))
    console().print(table)


@examples(
    "octopia calibrate --out measured.toml",
    "octopia sim run examples/fig7b.toml --profile measured.toml",
)
def calibrate(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the profile to this .toml file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure for a shorter time, with less precision.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure this machine's costs as a simulator profile.

    The costs are those of brokers and links.
    """
    if out is not None and out.suffix != ".toml":
        raise UsageError(f"expected a file that ends in .toml, got {out}")
    found = calibrate_here(Scale.quick() if quick else Scale())
    if out is not None:
        try:
            out.write_text(found.to_toml(out.stem))
        except OSError as error:
            raise UsageError(f"expected a file that can be written, got {out}: {error.strerror}") from None
    if as_json:
        print_json(found.to_json())
        return
    _print_calibration(found)
    if out is not None:
        typer.echo(f"the profile is in {out}; use it with: octopia sim run SCENARIO --profile {out}")


def _print_calibration(found: Calibration) -> None:
    table = Table(title=f"measured on {found.machine}", title_justify="left")
    table.add_column("cost")
    table.add_column("value", justify="right")
    for name, value in found.rows():
        table.add_row(name, value)
    console().print(table)
