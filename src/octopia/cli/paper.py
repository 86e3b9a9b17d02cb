"""``octopia paper``: the paper's evaluation, with our numbers beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.output import console
from octopia.cli.spark import Master, Remote, Ui, bench, prepare_report
from octopia.errors import JobFailed, UsageError
from octopia.experiments.paper.names import Scale, StudyName

EXAMPLES = """Examples:

octopia paper

octopia paper burst --seeds 3

octopia paper burst --scale paper --seeds 3 --value 100000

octopia paper delivery --real

octopia paper --scale paper --bars prices.parquet --master spark://machine:7077
"""


def paper(
    study: Annotated[StudyName | None, typer.Argument(help="Only this study; by default all of them.")] = None,
    scale: Annotated[Scale, typer.Option(help="How large.")] = Scale.LAPTOP,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder for everything; by default out/paper/SCALE.")
    ] = None,
    bars: Annotated[
        Path | None, typer.Option(metavar="PATH", exists=True, help="Stock prices. Without: a market that is made up.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds, whatever the scale says.")] = None,
    value: Annotated[
        list[float] | None, typer.Option(help="Of one study: only this value of what varies; may be repeated.")
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Also run delivery and burst over sockets, with all brokers on this machine.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    ui: Ui = None,
) -> None:
    """Run the studies of the paper's evaluation, and write figures, tables and a report with every claim of the paper.

    What is finished is not run again, so it can be stopped. What was run at less than full size says so.
    """
    if value and study is None:
        raise UsageError("expected the name of a study with --value, got none: octopia paper burst --value 100000")
    if real and study in (StudyName.PUBLISHERS, StudyName.SUBSCRIBERS):
        raise UsageError(f"expected delivery, burst or all studies with --real, got {study}")
    out = out or Path("out/paper") / scale
    prepare_report(out)
    # The page and the pictures are files of this machine, and so is the rest.
    with bench(master, remote, "", ui, small=scale is not Scale.PAPER) as work:
        from octopia.experiments.paper.reproduction import Reproduction, reproduce
        from octopia.experiments.paper.studies import Extent
        from octopia.pipeline.jobs import Market

        market = Market(None if bars is None else str(bars.absolute()))
        names = list(StudyName) if study is None else [study]
        done = reproduce(work, Reproduction(names, Extent(scale, seeds, tuple(value or ())), out, market, real))
    page = done.page
    console().print(f"the report is in {page} and {page.with_suffix('.md')}; figures and tables are beside it")
    if done.failed:
        told = "; ".join(f"{name}: {error}" for name, error in done.failed.items())
        raise JobFailed(
            f"expected every study to come to its end, got {len(done.failed)} of {len(names)} that did not ({told}); "
            "what is finished is kept, and the same command goes on"
        )
    if done.faulty:
        raise JobFailed(
            f"expected every delivery once, but the audit found faults in {len(done.faulty)} runs, the first "
            f"{done.faulty[0].run}: the report has them all"
        )
