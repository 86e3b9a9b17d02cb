"""``octopia topology``: show overlays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Clusters, OverlayArgument, find_overlay
from octopia.cli.output import print_json
from octopia.ids import BrokerId
from octopia.overlay.column_order import column_order
from octopia.overlay.files import Overlay
from octopia.overlay.scot import Link, Scot


@examples(
    "octopia topology show paper:se",
    'octopia topology show "a-b, b-c" --clusters 4 --out overlay.svg',
    "octopia topology show overlay.toml --json",
)
def show(
    overlay: OverlayArgument,
    clusters: Clusters = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the overlay into this .svg or .png file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the brokers of an overlay.

    Clusters are rows and regions are columns.
    """
    found = find_overlay(overlay, clusters)
    if out is not None:
        from octopia.overlay.diagrams import draw

        draw(found.scot, out, title=found.name)
    if as_json:
        print_json(to_json(found, out))
        return
    _print_tables(Console(highlight=False), found.scot)
    typer.echo(summary(found.scot))
    typer.echo(f"{found.routing.algorithm} routing, at most {_hop_limit(found)} hops")
    if out is not None:
        typer.echo(f"The picture is in {out}.")


def summary(scot: Scot) -> str:
    """Return the counts of an overlay in one line."""
    inner, edge = _count_kinds(scot)
    return (
        f"{len(scot.brokers)} brokers ({inner} inner, {edge} edge), {len(scot.alinks)} aLinks, "
        f"{len(scot.ilinks)} iLinks, tree diameter {scot.diameter}"
    )


def _hop_limit(overlay: Overlay) -> int:
    from octopia.algorithms import hop_limit_of

    return hop_limit_of(overlay.scot, overlay.routing.algorithm)


def to_json(overlay: Overlay, picture: Path | None) -> dict[str, object]:
    """Return an overlay as JSON values."""
    scot = overlay.scot
    inner, edge = _count_kinds(scot)
    return {
        "name": overlay.name,
        "regions": list(scot.regions),
        "clusters": scot.clusters,
        "counts": {
            "brokers": len(scot.brokers),
            "inner": inner,
            "edge": edge,
            "alinks": len(scot.alinks),
            "ilinks": len(scot.ilinks),
        },
        "diameter": scot.diameter,
        "hop_bound": scot.hop_bound,
        "routing": {"algorithm": overlay.routing.algorithm, "hop_limit": _hop_limit(overlay)},
        "fingerprint": scot.fingerprint,
        "brokers": [_broker_to_json(overlay, broker) for broker in scot.brokers],
        "alinks": _links_to_json(scot.alinks),
        "ilinks": _links_to_json(scot.ilinks),
        "picture": None if picture is None else str(picture),
    }


def _broker_to_json(overlay: Overlay, broker: BrokerId) -> dict[str, object]:
    known = overlay.scot.neighbourhood(broker)
    return {
        "broker": str(broker),
        "kind": "edge" if known.is_edge else "inner",
        "address": str(overlay.addresses[broker]),
        "primary_neighbours": [str(each) for each in known.primary_neighbours],
        "secondary_neighbours": [str(each) for each in known.secondary_neighbours],
    }


def _links_to_json(links: tuple[Link, ...]) -> list[list[str]]:
    return [[str(low), str(high)] for low, high in links]


def _count_kinds(scot: Scot) -> tuple[int, int]:
    """Return the numbers of inner and of edge brokers."""
    edge = sum(scot.neighbourhood(broker).is_edge for broker in scot.brokers)
    return len(scot.brokers) - edge, edge


def _print_tables(console: Console, scot: Scot) -> None:
    """Print the regions side by side, in several tables if the screen is too narrow for one."""
    columns = column_order(scot.tree)
    cell = max(len(region) for region in columns) + len(str(scot.clusters - 1)) + 1
    fitting = max(1, (console.width - 5) // (cell + 2))
    for start in range(0, len(columns), fitting):
        console.print(_table(scot, columns[start : start + fitting]))


def _table(scot: Scot, columns: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("", style="bold")
    for region in columns:
        table.add_column(region, justify="center", no_wrap=True)
    for cluster in range(scot.clusters):
        table.add_row(f"C{cluster}", *(str(BrokerId(region, cluster)) for region in columns))
    return table
