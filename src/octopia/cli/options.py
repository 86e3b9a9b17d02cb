"""Arguments and options that several commands have: each name has one meaning everywhere."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.errors import OctopiaError, UsageError
from octopia.settings import Algorithm

if TYPE_CHECKING:
    from octopia.overlay.files import Overlay

_TREES = ("paper:fig3", "paper:fig7", "paper:se", "path:3", "star:5", "binary:7")
_PROFILES = ("unit", "paper")
_OF_SCENARIO = "as in the scenario"


class TraceLevel(enum.StrEnum):
    """The facts that a trace has."""

    DELIVERIES = "deliveries"
    HOPS = "hops"
    ALL = "all"


def find_overlay(text: str, clusters: int | None = None) -> Overlay:
    """Return the overlay of an argument: the path of a .toml file, or a tree."""
    from octopia.overlay.files import load_overlay, overlay_from_text

    path = Path(text)
    if path.suffix != ".toml":
        return overlay_from_text(text, clusters)
    if clusters is not None:
        raise UsageError(f"expected --clusters only with a tree, got the file {text}, which has its own")
    return load_overlay(path)


def make_folder(folder: Path) -> None:
    """Make a folder for results."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"expected a folder that can be made, got {folder}: {error.strerror}") from None


def complete_toml(incomplete: str) -> Iterator[str]:
    """Yield the TOML files and the folders in the folder of an incomplete path."""
    folder = os.path.dirname(incomplete)  # noqa: PTH120 - a Path would drop a leading "./"
    for path in sorted(Path(folder or ".").glob("*")):
        if path.suffix == ".toml" or path.is_dir():
            yield os.path.join(folder, path.name) + "/" * path.is_dir()  # noqa: PTH118


def complete_overlay(incomplete: str) -> list[str]:
    """Return trees and overlay files."""
    return [*_TREES, *complete_toml(incomplete)]


def complete_brokers(context: typer.Context) -> list[str]:
    """Return the brokers of the overlay that was given before them."""
    try:
        return [str(each) for each in find_overlay(context.params["overlay"], context.params["clusters"]).scot.brokers]
    except OctopiaError:
        return []


def complete_profile(incomplete: str) -> list[str]:
    """Return the built-in profiles and profile files."""
    return [*_PROFILES, *complete_toml(incomplete)]


ScenarioFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A scenario file (.toml).", autocompletion=complete_toml)
]
WorkloadFolder = Annotated[str, typer.Argument(metavar="WORKLOAD", help="The folder of a workload.")]
OverlayArgument = Annotated[
    str,
    typer.Argument(
        metavar="OVERLAY",
        help="An overlay file (.toml), or a tree such as 'a-b, b-c', path:3 or paper:se.",
        autocompletion=complete_overlay,
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Clusters = Annotated[
    int | None,
    typer.Option(help="Number of clusters, if the overlay is given as a tree; paper:* trees have their own."),
]
Rate = Annotated[float | None, typer.Option("--rate", min=0, help="Publications per second; 0 is unlimited.")]
Count = Annotated[int | None, typer.Option("--count", min=1, help="Stop after this many publications.")]
Publishers = Annotated[int, typer.Option("--publishers", min=1, help="Number of clients that publish.")]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="OCTOPIA_URL", help="URL of a running broker.", show_default="octopia://127.0.0.1:7400"
    ),
]

OutFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="Write all files into this folder.")]
Bars = Annotated[
    str | None, typer.Option(metavar="PATH", help="Stock prices, CSV or Parquet.", show_default="a synthetic market")
]
First = Annotated[int, typer.Option(min=0, help="Play only the first N publications; 0 plays all.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all randomness.")]
SeedOverride = Annotated[int | None, typer.Option("--seed", help="Seed of all randomness.", show_default=_OF_SCENARIO)]
AlgorithmOverride = Annotated[
    Algorithm | None, typer.Option("--algorithm", help="Routing algorithm.", show_default=_OF_SCENARIO)
]
_PROFILE_HELP = "Cost model of the simulator: unit, paper, or a .toml file."
Profile = Annotated[str, typer.Option(metavar="NAME", help=_PROFILE_HELP, autocompletion=complete_profile)]
ProfileOverride = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help=_PROFILE_HELP, show_default=_OF_SCENARIO, autocompletion=complete_profile
    ),
]
TraceLevelOption = Annotated[TraceLevel, typer.Option("--trace-level", help="Facts to trace.")]
