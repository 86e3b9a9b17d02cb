"""``octopia topology``: look at an overlay before anything runs on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from octopia.errors import UsageError
from octopia.ids import BrokerId
from octopia.overlay.column_order import column_order
from octopia.overlay.files import Overlay, load_overlay, overlay_from_text
from octopia.overlay.scot import Link, Scot

app = typer.Typer(no_args_is_help=True, help="Look at overlays: their clusters, regions, brokers and links.")


@app.callback()
def topology() -> None:
    """Look at overlays: their clusters, regions, brokers and links."""


_EXAMPLES = """Examples:

octopia topology show paper:se

octopia topology show "a-b, b-c" --clusters 4 --out overlay.svg

octopia topology show overlay.toml --json
"""


@app.command(epilog=_EXAMPLES)
def show(
    overlay: Annotated[
        str, typer.Argument(help="An overlay file (….toml), or a tree such as 'a-b, b-c', path:3 or paper:se.")
    ],
    clusters: Annotated[
        int | None, typer.Option(help="The number of clusters for a tree; paper:* trees bring their own.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Draw a picture into this .svg or .png file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the brokers of an overlay, clusters as rows and regions as columns."""
    found = find_overlay(overlay, clusters)
    if out is not None:
        from octopia.overlay.diagrams import draw

        draw(found.scot, out, title=found.name)
    if as_json:
        typer.echo(json.dumps(to_json(found, out), indent=2))
        return
    console = Console(highlight=False, soft_wrap=False)
    _print_tables(console, found.scot)
    console.print(summary(found.scot), soft_wrap=True)
    if out is not None:
        console.print(f"The picture is in {out}.", soft_wrap=True, markup=False)


def find_overlay(text: str, clusters: int | None = None) -> Overlay:
    """Read what a command was given: the path of a .toml file, or a tree expression."""
    path = Path(text)
    if path.suffix != ".toml":
        return overlay_from_text(text, clusters)
    if clusters is not None:
        raise UsageError(f"expected --clusters only with a tree, got the file {text}, which has its own")
    return load_overlay(path)


def summary(scot: Scot) -> str:
    """Return the counts of an overlay in one line."""
    inner, edge = _count_kinds(scot)
    return (
        f"{len(scot.brokers)} brokers ({inner} inner, {edge} edge), {len(scot.alinks)} aLinks, "
        f"{len(scot.ilinks)} iLinks, tree diameter {scot.diameter}, at most {scot.hop_bound} hops"
    )


def to_json(overlay: Overlay, picture: Path | None) -> dict[str, object]:
    """Return all that is known of an overlay as JSON values."""
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
    """Print as many columns side by side as the screen is wide, and the others below."""
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
