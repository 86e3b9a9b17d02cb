"""Options and sessions of the commands that use Spark."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from octopia.cli.options import make_folder
from octopia.errors import MissingDependency
from octopia.pipeline.configuration import load_settings

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Workspace

_PANEL = "Spark"
INTERRUPTED = 130
"""Exit code after Ctrl-C."""

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="URL of a Spark master, such as spark://machine:7077.", rich_help_panel=_PANEL),
]
Remote = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="URL of a Spark Connect server, such as sc://machine:15002.", rich_help_panel=_PANEL
    ),
]
StorageRoot = Annotated[
    str | None,
    typer.Option(
        "--storage", metavar="ROOT", help="Root of relative paths, a folder or a URL.", rich_help_panel=_PANEL
    ),
]
Ui = Annotated[bool | None, typer.Option("--ui/--no-ui", help="Serve Spark's web interface.", rich_help_panel=_PANEL)]


def require_spark() -> None:
    """Raise MissingDependency if Spark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingDependency('expected pyspark, got none: pip install ".[spark]" in the checkout')


def prepare_report(out: Path) -> None:
    """Make the folder of a report; raise at once if Spark or matplotlib is missing."""
    require_report()
    make_folder(out)


def require_report() -> None:
    """Raise if Spark or matplotlib, which a report needs, is missing."""
    missing = [name for name in ("pyspark", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependency(
            f"expected pyspark and matplotlib, got no {' and no '.join(missing)}: "
            'pip install ".[spark,plot]" in the checkout'
        )


@contextlib.contextmanager
def open_workspace(
    master: str | None,
    remote: str | None,
    storage: str | None,
    ui: bool | None,
    *,
    small: bool = False,
    keeps_work: bool = True,
) -> Iterator[Workspace]:
    """Open a session for the jobs of a block; ``small`` tunes it for small tables.

    ``keeps_work`` is for the message after Ctrl-C: finished work stays for the next call.
    """
    require_spark()
    # Spark takes a second to import, and no other command needs it.
    from octopia.pipeline.jobs import Workspace
    from octopia.pipeline.preflight import check_workers
    from octopia.pipeline.progress import Stages, starting
    from octopia.pipeline.spark_session import is_here, open_session, without_interrupts
    from octopia.pipeline.storage import Storage
    from octopia.workloads.places import is_uri

    settings = load_settings().with_options(master, remote, storage, ui)
    if small:
        settings = settings.for_small_tables()
    place = Storage(settings.storage)
    place.check()
    try:
        with contextlib.ExitStack() as stack:
            with without_interrupts(), starting():
                spark = stack.enter_context(open_session(settings))
            stages = Stages(spark)
            if not is_here(settings) or is_uri(settings.storage):
                with stages.stage("checking Spark's workers"):
                    check_workers(spark, place)
            yield Workspace(spark, place, stages)
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print(f"octopia: stopped{'; finished work is kept' * keeps_work}")
        raise typer.Exit(INTERRUPTED) from None
