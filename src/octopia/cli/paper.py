"""``octopia paper``: the paper's evaluation, with our numbers beside its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Bars, make_folder
from octopia.cli.output import print_json
from octopia.cli.spark import Master, Remote, Ui, open_workspace, require_report
from octopia.errors import JobFailed, UsageError
from octopia.experiments.paper.names import Contender, Model, Scale, StudyName
from octopia.pipeline.spec import HostKind


@examples(
    "octopia paper",
    "octopia paper burst --seeds 3",
    "octopia paper burst --scale paper --seeds 3 --value 100000 --model links --algorithm adaptive",
    "octopia paper burst --scale paper --value 100000 --only-seed 2",
    "octopia paper burst --scale paper --only-finished --beside evaluation-of-another-machine",
    "octopia paper --real",
    "octopia paper --only-real --scale tiny",
    "octopia paper --scale paper --bars prices.parquet --master spark://machine:7077",
)
def paper(
    study: Annotated[StudyName | None, typer.Argument(help="The study to run.", show_default="all")] = None,
    scale: Annotated[Scale, typer.Option(help="Size of the studies.")] = Scale.LAPTOP,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write all files into this folder.", show_default="out/paper/SCALE"),
    ] = None,
    bars: Bars = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds.", show_default="as in the scale")] = None,
    only_seed: Annotated[
        list[int] | None, typer.Option(min=0, help="Run this seed only; may be repeated.", show_default="all")
    ] = None,
    value: Annotated[
        list[float] | None,
        typer.Option(help="Run one study with this value of its variable only; may be repeated.", show_default="all"),
    ] = None,
    model: Annotated[
        list[Model] | None, typer.Option(help="Run under this model only; may be repeated.", show_default="all")
    ] = None,
    host: Annotated[
        list[HostKind] | None,
        typer.Option(help="Kind of broker that hosts the burst; may be repeated.", show_default="inner and edge"),
    ] = None,
    algorithm: Annotated[
        list[Contender] | None,
        typer.Option(help="Routing algorithm.", show_default="all"),
    ] = None,
    only_finished: Annotated[
        bool,
        typer.Option(
            "--only-finished", help="Run nothing; report what is finished, even while another process runs the rest."
        ),
    ] = False,
    beside: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also report the tables of this folder, such as of an evaluation on another machine.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also copy the main figures here.", show_default=False),
    ] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Also compare all algorithms on real brokers on this machine.")
    ] = False,
    only_real: Annotated[
        bool, typer.Option("--only-real", help="Compare all algorithms on real brokers, and run no study.")
    ] = False,
    master: Master = None,
    remote: Remote = None,
    ui: Ui = None,
    as_json: AsJson = False,
) -> None:
    """Run the paper's evaluation and compare its results with ours.

    It writes figures, tables and a report with every claim of the paper. It can be stopped and started again: finished
    runs are kept. The report marks results of less than the paper's size.
    """
    if value and study is None:
        raise UsageError("expected the name of a study with --value, got none: octopia paper burst --value 100000")
    if host and study is not StudyName.BURST:
        raise UsageError("expected --host with the burst study, got another: octopia paper burst --host inner")
    if bars is not None and not Path(bars).exists():
        raise UsageError(f"expected a file or folder of stock prices, got {bars}, which does not exist")
    if only_seed and seeds is not None:
        raise UsageError("expected either --seeds, a number of seeds, or --only-seed, single ones, got both")
    if only_real and study is not None:
        raise UsageError(f"expected no study with --only-real, got {study}")
    if only_finished and (real or only_real):
        raise UsageError("expected either --only-finished, which runs nothing, or --real or --only-real, got both")
    out = out or Path("out/paper") / scale
    if only_finished and beside is None and not (out / "manifest.json").exists():
        raise UsageError(f"expected the folder of an evaluation, got {out}, which has none: choose it with --out")
    require_report()
    from octopia.experiments.paper.reproduction import Reproduction, read_given, reproduce
    from octopia.experiments.paper.studies import Extent
    from octopia.pipeline.jobs import Market

    market = Market(None if bars is None else str(Path(bars).absolute()))
    names = [] if only_real else list(StudyName) if study is None else [study]
    extent = Extent(
        scale,
        seeds,
        values=tuple(value or ()),
        models=tuple(model or ()),
        hosts=tuple(host or ()),
        algorithms=tuple(algorithm or ()),
        only_seeds=tuple(only_seed or ()),
    )
    wanted = Reproduction(names, extent, out, market, only_finished, real or only_real, images, beside)
    # An option that does not fit is refused before a folder is made and before Spark starts, which takes seconds.
    read_given(wanted)
    make_folder(out)
    # The report is written to this machine, not to the storage root.
    with open_workspace(master, remote, "", ui, small=scale is not Scale.PAPER) as work:
        done = reproduce(work, wanted)
    page = done.page
    if as_json:
        failed = {name: str(error) for name, error in done.failed.items()}
        print_json({"report": str(page), "failed": failed, "faulty": [each.run for each in done.faulty]})
    else:
        typer.echo(f"the report is in {page} and {page.with_suffix('.md')}; figures and tables are beside it")
    if done.failed:
        reasons = "; ".join(f"{name}: {error}" for name, error in done.failed.items())
        studies = len(names) + (real or only_real)
        raise JobFailed(
            f"expected every study to finish, but {len(done.failed)} of {studies} failed ({reasons}); finished runs "
            "are kept, and the same command continues"
        )
    if done.faulty:
        raise JobFailed(
            f"expected every delivery once, but the audit found faults in {len(done.faulty)} runs, the first "
            f"{done.faulty[0].run}; the report lists them all"
        )
