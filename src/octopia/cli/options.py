"""Arguments and options that several commands share: each name has one meaning everywhere."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from octopia.errors import OctopiaError, UsageError
from octopia.settings import KEEP_MAX_S, Algorithm

if TYPE_CHECKING:
    from octopia.overlay.files import Overlay

_TREES = ("paper:fig3", "paper:fig7", "paper:se", "path:3", "star:5", "binary:7")
_PROFILES = (
    "unit",
    "paper",
    "paper-broker-sender",
    "paper-machine-sender",
    "paper-race-trees",
    "paper-broker-sender-race-trees",
)
_OF_SCENARIO = "as in the scenario"


class TraceLevel(enum.StrEnum):
    """The facts that a trace has."""

    DELIVERIES = "deliveries"
    HOPS = "hops"
    ALL = "all"


def find_overlay(text: str, clusters: int | None = None) -> Overlay:
    """Return the overlay of an argument, the path of a .toml file or a tree, with the settings of the environment."""
    from octopia.cli.environment import PLACE, overrides
    from octopia.overlay.files import load_overlay, overlay_from_text, with_overrides

    path = Path(text)
    if path.suffix == ".toml" and clusters is not None:
        raise UsageError(f"expected --clusters only with a tree, got the file {text}, which has its own")
    found = load_overlay(path) if path.suffix == ".toml" else overlay_from_text(text, clusters)
    return with_overrides(found, overrides(), PLACE)


def make_folder(folder: Path) -> None:
    """Create a folder for results."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"expected a folder that can be created, got {folder}: {error.strerror}") from None


def to_local_folder(folder: Path) -> Path:
    """Return the folder of a spool, an archive or an outbox, which may be given as a ``file:`` URI."""
    from octopia.records.folders import local_folder

    return local_folder(folder)


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
    """Return the brokers of the overlay that was given before them, as an overlay or as an overlay file."""
    given = context.params.get("overlay") or context.params.get("file")
    if given is None:
        return []
    try:
        return [str(each) for each in find_overlay(str(given), context.params.get("clusters")).scot.brokers]
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
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="[HOST:]PORT",
        help="Serve a live map, metrics and reports; at 127.0.0.1 unless HOST is given.",
    ),
]
HttpToken = Annotated[
    str,
    typer.Option(
        "--http-token",
        envvar="OCTOPIA_HTTP_TOKEN",
        help="Token for HTTP requests; required unless HOST is a loopback address.",
        show_default=False,
    ),
]
Rate = Annotated[float | None, typer.Option("--rate", min=0, help="Publications per second; 0 is unlimited.")]
Count = Annotated[int | None, typer.Option("--count", min=1, help="Stop after this many publications.")]
Publishers = Annotated[int, typer.Option("--publishers", min=1, help="Number of clients that publish.")]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="OCTOPIA_URL",
        help="URL of a running broker.",
        show_default="the context, or octopia://127.0.0.1:7400",
    ),
]
Broker = Annotated[
    str | None, typer.Option("--broker", "-b", metavar="BROKER", help="A broker by its name, such as b.3.")
]
ClientName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name of this client at the broker.", show_default="a random one"),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.001,
        help="Time limit for the connection and for each confirmation.",
        show_default="5 for the connection",
    ),
]

KeepSeconds = Annotated[
    float,
    typer.Option(
        "--keep",
        min=0.0,
        max=KEEP_MAX_S,
        help="Seconds for which the broker keeps the session of a stopped command, at most a day.",
    ),
]
SyncMs = Annotated[
    float, typer.Option("--sync-ms", min=0.0, help="Minimum time between two syncs to disk; 0 syncs after every write.")
]
RecordsFolder = Annotated[
    Path,
    typer.Option("--archive", metavar="DIR", help="The folder of an archive or of a spool.", callback=to_local_folder),
]
FromTime = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Publications from this time on, such as 2026-11-18, 2026-11-18T09:30 or ms since 1970; times are UTC.",
        show_default="all",
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Publications before this time.", show_default="all"),
]
Offer = Annotated[
    str | None,
    typer.Option(
        "--advertise",
        metavar="FILTER",
        help="Advertise this.",
        show_default="the attributes, of any value",
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
_PROFILE_HELP = f"Cost model of the simulator: {', '.join(_PROFILES)}, or a .toml file."
Profile = Annotated[str, typer.Option(metavar="NAME", help=_PROFILE_HELP, autocompletion=complete_profile)]
ProfileOverride = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help=_PROFILE_HELP, show_default=_OF_SCENARIO, autocompletion=complete_profile
    ),
]
TraceLevelOption = Annotated[TraceLevel, typer.Option("--trace-level", help="Facts to trace.")]
