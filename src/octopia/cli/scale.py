"""``octopia scale``: the growth of OctopiA beyond the paper."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, make_folder
from octopia.cli.output import print_json
from octopia.cli.spark import INTERRUPTED, Master, Remote, Ui, open_workspace
from octopia.errors import JobFailed
from octopia.experiments.scale.names import Scale


@examples(
    "octopia scale",
    "octopia scale --scale tiny --out out/try",
    "octopia scale --scale full --jobs 1",
    "octopia scale --spark",
    "octopia scale --scale full --master spark://machine:7077",
)
def scale(
    size: Annotated[Scale, typer.Option("--scale", help="Size of the studies.")] = Scale.LAPTOP,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write all files into this folder.", show_default="out/scale/SCALE"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time, without Spark.", show_default="one per CPU")
    ] = None,
    spark: Annotated[bool, typer.Option("--spark", help="Run on Spark, one task per run.")] = False,
    master: Master = None,
    remote: Remote = None,
    ui: Ui = None,
    as_json: AsJson = False,
) -> None:
    """Measure how messages, tables, memory and delays grow beyond the paper.

    It compares OctopiA with TID-based routing and a flood at up to 5,000 brokers and a million subscriptions, and
    measures the cost of failures. What does not fit is computed by formulas, which are checked against every run. It
    can be stopped and started again: finished runs are kept.
    """
    from octopia.experiments.scale.study import in_processes, on_spark, study

    out = out or Path("out/scale") / size
    make_folder(out)
    if spark or master or remote:
        with open_workspace(master, remote, "", ui, small=True) as workspace:
            done = study(size, out, on_spark(workspace))
    else:
        try:
            done = study(size, out, in_processes(jobs or os.cpu_count() or 1))
        except KeyboardInterrupt:
            typer.echo("octopia: stopped; finished runs are kept", err=True)
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({"report": str(done.page), "failed": dict(done.failed), "wrong": len(done.wrong)})
    else:
        typer.echo(f"the report is in {done.page} and {done.page.with_suffix('.md')}; figures and tables are beside it")
    if done.failed:
        name, error = next(iter(done.failed.items()))
        raise JobFailed(
            f"expected every run to finish, but {len(done.failed)} failed, the first {name}: {error}; finished runs "
            "are kept, and the same command continues"
        )
    if done.wrong:
        first = done.wrong[0]
        raise JobFailed(
            f"expected formulas and simulations to agree, but {len(done.wrong)} totals differ, the first "
            f"{first.quantity} of {first.system} at {first.tree} x {first.clusters}: {first.formula} and "
            f"{first.simulated}"
        )
