"""What commands on Spark share: their options, the session, and a word for those who have no Spark."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from octopia.errors import MissingDependency, UsageError
from octopia.pipeline.configuration import load_settings

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace as Bench

_PANEL = "Spark"
INTERRUPTED = 130
"""The exit code of whoever was stopped by Ctrl-C."""

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Spark to run on, such as spark://machine:7077.", rich_help_panel=_PANEL),
]
Remote = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Spark Connect server, such as sc://machine:15002.", rich_help_panel=_PANEL),
]
StorageRoot = Annotated[
    str | None,
    typer.Option(
        "--storage", metavar="ROOT", help="Where relative names of folders are found.", rich_help_panel=_PANEL
    ),
]
Ui = Annotated[bool | None, typer.Option("--ui/--no-ui", help="Serve Spark's web page.", rich_help_panel=_PANEL)]


def require_spark() -> None:
    """Say what to install where Spark is not."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingDependency('expected pyspark, got none: pip install "octopia[spark]"')


def prepare_report(out: Path) -> None:
    """Make the folder of a report, and refuse at once what would fail at the end: no Spark, or nothing to draw with."""
    require_spark()
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependency('expected matplotlib for drawing, got none: pip install "octopia[plot]"')
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"expected a folder that can be made, got {out}: {error.strerror}") from None


@contextlib.contextmanager
def bench(
    master: str | None, remote: str | None, storage: str | None, ui: bool | None, *, small: bool = False
) -> Iterator[Bench]:
    """Give what jobs work with, for as long as the block runs; ``small`` if their tables are."""
    require_spark()
    # Spark takes a second to import, and no other command needs it.
    from octopia.pipeline.jobs import Workspace as Bench
    from octopia.pipeline.progress import Stages
    from octopia.pipeline.spark_session import open_session
    from octopia.pipeline.storage import Storage

    settings = load_settings().with_options(master, remote, storage, ui)
    if small:
        settings = settings.for_small_tables()
    place = Storage(settings.storage)
    place.check()
    try:
        with open_session(settings) as spark:
            yield Bench(spark, place, Stages(spark))
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print("octopia: stopped; what was finished is kept")
        raise typer.Exit(INTERRUPTED) from None
