"""``octopia data``: the commands of the data pipeline."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from octopia.cli.lazy import examples
from octopia.cli.options import (
    AsJson,
    Bars,
    Clusters,
    First,
    Profile,
    Publishers,
    Seed,
    WorkloadFolder,
)
from octopia.cli.output import console, print_json
from octopia.cli.spark import Master, Remote, StorageRoot, Ui, open_workspace, require_spark
from octopia.errors import JobFailed
from octopia.pipeline.spec import Burst, HostKind, Meaning, WorkloadSpec
from octopia.settings import Algorithm

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Made, Workspace


class Engine(enum.StrEnum):
    """The engine that finds matches: the vectorised one, or Spark's SQL expressions as a second opinion."""

    FAST = "fast"
    SQL = "sql"


Out = Annotated[str, typer.Argument(metavar="OUT", help="The folder for the results.")]
Traces = Annotated[str, typer.Argument(metavar="TRACES", help="The folder of a sweep or of a run, or a trace file.")]
Symbols = Annotated[int, typer.Option(min=1, help="Number of symbols of the synthetic market.")]
Days = Annotated[int, typer.Option(min=1, help="Number of days of the synthetic market.")]
Tree = Annotated[str, typer.Option(metavar="TREE", help="Tree of the overlay, such as path:3 or paper:se.")]
Subscribers = Annotated[int, typer.Option(min=0, help="Number of clients that subscribe.")]
Publications = Annotated[int, typer.Option(help="Publications per publisher; 0 is one per bar of its symbols.")]
Selectivity = Annotated[float, typer.Option(help="Share of publications or publishers that a subscription matches.")]
SelectivityMeaning = Annotated[Meaning, typer.Option("--meaning", help="Unit of --selectivity.")]
Rates = Annotated[
    tuple[float, float],
    typer.Option(metavar="MIN MAX", help="Publications per minute of each publisher, between these rates."),
]
BurstSize = Annotated[int, typer.Option(help="Publications of an extra high-rate publisher; 0 is no burst.")]
BurstRate = Annotated[float, typer.Option(help="Publications per minute of the burst.")]
BurstShare = Annotated[float, typer.Option(help="Share of the subscriptions that match the burst.")]
BurstHost = Annotated[HostKind, typer.Option(help="Kind of broker that hosts the publisher of the burst.")]
BurstStart = Annotated[float, typer.Option(help="Start of the burst.")]


@examples(
    "octopia data ingest out/market --bars prices.csv",
    "octopia data ingest out/synthetic --symbols 100 --days 250 --json",
)
def ingest(
    out: Out,
    bars: Bars = None,
    symbols: Symbols = 500,
    days: Days = 250,
    seed: Seed = 0,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Read stock prices into a table of bars and a table of rejects.

    Every row of the input is in one of the two; rejects have a reason. Without --bars it makes a synthetic market.
    """
    with open_workspace(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import Market
        from octopia.pipeline.jobs import ingest as run_ingest

        rejects = run_ingest(work, out, Market(bars, symbols, days), seed)
        count = work.storage.count_rows(f"{out}/bars")
    if as_json:
        print_json({"bars": count, "rejects": rejects})
    else:
        _print_rejects(out, rejects)
        typer.echo(f"{count:,} bars are in {out}/bars; next: octopia data workload OUT --bars {out}/bars")


@examples(
    "octopia data workload out/market --publishers 20 --publications 100 --subscribers 200",
    "octopia data workload out/real --bars prices.csv --selectivity 0.04 --meaning publishers",
    "octopia data workload out/burst --subscribers 10000 --burst-publications 50000 --burst-per-minute 100000",
)
def workload(
    out: Out,
    bars: Bars = None,
    symbols: Symbols = 500,
    days: Days = 250,
    tree: Tree = "paper:se",
    clusters: Clusters = None,
    publishers: Publishers = 100,
    publications: Publications = 1000,
    subscribers: Subscribers = 1000,
    selectivity: Selectivity = 0.02,
    meaning: SelectivityMeaning = Meaning.PUBLICATIONS,
    publications_per_minute: Rates = (100.0, 120.0),
    burst_publications: BurstSize = 0,
    burst_per_minute: BurstRate = 100_000.0,
    burst_share: BurstShare = 0.001,
    burst_start_ms: BurstStart = 10_000.0,
    burst_host: BurstHost = HostKind.ANY,
    seed: Seed = 0,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Make a workload: publications, advertisements, subscriptions, clients.

    Publications are stock prices. Selectivity is a share of all publications or of all publishers; the command also
    measures and prints the selectivity that the subscriptions have.
    """
    burst = None
    if burst_publications:
        burst = Burst(burst_publications, burst_per_minute, burst_start_ms, burst_share, burst_host)
    spec = WorkloadSpec(
        tree,
        clusters,
        publishers,
        publications,
        subscribers,
        selectivity,
        meaning,
        *publications_per_minute,
        burst,
        seed,
    )
    with open_workspace(master, remote, storage, ui) as work:
        made = _make(work, out, spec, bars, symbols, days)
    if as_json:
        print_json({"manifest": made.manifest, "rejects": made.rejects})
    else:
        _print_workload(out, made)
        typer.echo(f"next: octopia data truth {out}")


@examples(
    "octopia data truth out/market",
    "octopia data truth out/market --engine sql",
)
def truth(
    folder: WorkloadFolder,
    engine: Annotated[Engine, typer.Option(help="Matching engine.")] = Engine.FAST,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Find every publication that each subscription of a workload must get.

    The engine sql is a second opinion that shares no code with the fast one.
    """
    with open_workspace(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import TRUTH, find_truth

        count = find_truth(work, folder, by_sql=engine is Engine.SQL)
    if as_json:
        print_json({"matches": count, "engine": engine.value})
    else:
        typer.echo(f"{count:,} matches are in {folder}/{TRUTH}")


@examples(
    "octopia data sweep runs.toml --out out/sweep",
    "octopia data sweep runs.csv --out out/sweep --master spark://machine:7077",
)
def sweep(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="A table of runs: a .toml or .csv file.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="Write all files into this folder.")],
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Simulate many runs, one per Spark task.

    A sweep can be stopped and started again: finished runs are kept. If a run fails, the others continue, and the exit
    code is 1.
    """
    require_spark()
    from octopia.workloads.runs import read_runs

    described = read_runs(runs)
    with open_workspace(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import run_sweep

        outcomes, before = run_sweep(work, described, out)
    failed = [each for each in outcomes if each.error]
    if as_json:
        rows = [{"run_id": each.run_id, "seconds": each.seconds, "error": each.error or None} for each in outcomes]
        print_json({"runs": rows, "finished_before": before})
    else:
        _print_sweep(out, outcomes, before)
    if failed:
        raise JobFailed(
            f"{len(failed)} of {len(outcomes)} runs failed; the first, {failed[0].run_id}: {failed[0].error}"
        )


@examples(
    "octopia data metrics out/sweep",
    "octopia data metrics out/sweep --metric publication_delay --metric messages --csv out/csv",
)
def metrics(
    traces: Traces,
    metric: Annotated[
        list[str] | None, typer.Option(help="Compute this metric; may be repeated.", show_default="all")
    ] = None,
    csv: Annotated[str | None, typer.Option(metavar="DIR", help="Also write CSV files into this folder.")] = None,
    as_json: AsJson = False,
    rows: Annotated[int, typer.Option(min=1, help="Rows to show per metric; JSON has all rows.")] = 20,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Compute the paper's metrics from traces.

    They are delays, messages, table sizes, queue lengths, and delays in sequence.
    """
    with open_workspace(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import compute_metrics

        shown = compute_metrics(work, traces, metric or (), csv, None if as_json else rows)
    if as_json:
        print_json({name: found for name, (found, _) in shown.items()})
        return
    for name, (found, has_more) in shown.items():
        _print_rows(name.replace("_", " "), found, "… and more (--rows, --csv)" if has_more else "")


@examples(
    "octopia data audit out/sweep --workload out/market",
    "octopia data audit out/run/trace.parquet --workload out/market --json",
)
def audit(
    traces: Traces,
    workload: Annotated[str, typer.Option(metavar="DIR", help="The folder of the workload that was played.")],
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Compare deliveries with the truth.

    It counts missing, unwanted and duplicate deliveries, of simulated runs and of runs on the network. The exit code is
    1 if there are any. The truth comes from `octopia data truth`.
    """
    with open_workspace(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import run_audit

        summaries = run_audit(work, traces, workload)
    if as_json:
        print_json(summaries)
    else:
        _print_rows("audit", summaries)
    _judge(summaries)


@examples(
    "octopia data pipeline out/all --publishers 20 --publications 100 --subscribers 200",
    "octopia data pipeline out/real --bars prices.parquet --publishers 101 --publications 0 --first 2000",
)
def pipeline(
    out: Out,
    bars: Bars = None,
    symbols: Symbols = 500,
    days: Days = 250,
    tree: Tree = "paper:se",
    clusters: Clusters = None,
    publishers: Publishers = 100,
    publications: Publications = 1000,
    subscribers: Subscribers = 1000,
    selectivity: Selectivity = 0.02,
    meaning: SelectivityMeaning = Meaning.PUBLICATIONS,
    first: First = 2000,
    algorithm: Annotated[
        list[Algorithm] | None, typer.Option(help="Routing algorithm.", show_default="static and dynamic")
    ] = None,
    profile: Profile = "unit",
    seed: Seed = 0,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Run all steps: ingest, workload, truth, sweep and audit.

    The sweep has one run per --algorithm, which may be repeated.
    """
    require_spark()
    from octopia.workloads.runs import RunSpec

    spec = WorkloadSpec(tree, clusters, publishers, publications, subscribers, selectivity, meaning, seed=seed)
    with open_workspace(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import find_truth, run_audit, run_sweep

        folder, traces = f"{out}/workload", f"{out}/runs"
        made = _make(work, folder, spec, bars, symbols, days)
        count = find_truth(work, folder)
        place = work.storage.absolute(folder)
        runs = [
            RunSpec(workload=place, algorithm=each, first=first, profile=profile, seed=seed).named()
            for each in algorithm or (Algorithm.STATIC, Algorithm.DYNAMIC)
        ]
        # Earlier runs are of another workload.
        work.storage.remove(traces)
        outcomes, _ = run_sweep(work, runs, traces)
        failed = [each for each in outcomes if each.error]
        if failed:
            raise JobFailed(f"{failed[0].run_id} failed: {failed[0].error}")
        summaries = run_audit(work, traces, folder)
    if as_json:
        print_json({"manifest": made.manifest, "rejects": made.rejects, "matches": count, "audit": summaries})
    else:
        _print_workload(folder, made)
        typer.echo(f"{count:,} matches of all publications and subscriptions")
        _print_rows("audit", summaries)
        typer.echo(f"next: octopia data metrics {traces}")
    _judge(summaries)


def _make(work: Workspace, out: str, spec: WorkloadSpec, bars: str | None, symbols: int, days: int) -> Made:
    from octopia.pipeline.jobs import Market, make_workload

    return make_workload(work, out, spec, Market(bars, symbols, days))


def _judge(summaries: list[dict[str, Any]]) -> None:
    wrong = [row for row in summaries if row["missing"] or row["unwanted"] or row["duplicates"]]
    if wrong:
        row = wrong[0]
        raise JobFailed(
            f"expected every delivery once, but {row['run_id']} has {row['missing']:,} missing, {row['unwanted']:,} "
            f"unwanted and {row['duplicates']:,} duplicate; the table faults beside the traces lists them"
        )


def _print_workload(folder: str, made: Made) -> None:
    spec, got = made.manifest["spec"], made.selectivity
    _print_rejects(folder, made.rejects)
    table = Table(title=folder, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("publications", f"{made.manifest['publications']:,}")
    table.add_row("publishers", f"{spec['publishers']:,}")
    table.add_row("subscriptions", f"{spec['subscribers']:,}")
    table.add_row("selectivity wanted", f"{spec['selectivity']:.2%} of {spec['meaning']}")
    table.add_row(f"achieved, of publications (over {got.measured} subscriptions)", f"{got.of_publications:.3%}")
    table.add_row("achieved, of publishers", f"{got.of_publishers:.3%}")
    if got.of_burst is not None:
        table.add_row("subscriptions that match the burst", f"{got.of_burst:.3%}")
    console().print(table)


def _print_rejects(folder: str, rejects: dict[str, int]) -> None:
    for reason, count in rejects.items():
        typer.echo(f"rejected {count:,} rows: {reason} (they are in {folder}/rejects)")


def _print_sweep(out: str, outcomes: list[Any], before: int) -> None:
    screen = console()
    if before:
        screen.print(f"{before} runs were already finished")
    table = Table(title=f"{len(outcomes)} runs", title_justify="left")
    for column in ("run", "seconds", "outcome"):
        table.add_column(column, justify="right" if column == "seconds" else "left", overflow="fold")
    for each in outcomes:
        table.add_row(each.run_id, f"{each.seconds:.1f}", each.error or "finished")
    screen.print(table)
    screen.print(f"the traces are in {out}/traces; next: octopia data metrics {out}")


def _print_rows(title: str, rows: list[dict[str, Any]], rest: str = "") -> None:
    table = Table(title=title, title_justify="left")
    for column in rows[0] if rows else ("nothing",):
        is_number = bool(rows) and isinstance(rows[0][column], int | float)
        is_name = column in ("run_id", "kind")
        table.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=is_name)
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console().print(table)
    if rest:
        console().print(rest)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
