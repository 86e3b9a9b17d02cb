"""``octopia workload``, ``truth``, ``sweep``, ``metrics``, ``audit`` and ``pipeline``: the data pipeline."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from octopia.cli.output import console, print_json
from octopia.cli.spark import Master, Remote, StorageRoot, Ui, bench, require_spark
from octopia.errors import JobFailed, UsageError
from octopia.pipeline.spec import Burst, Meaning, WorkloadSpec
from octopia.settings import Algorithm

if TYPE_CHECKING:
    from octopia.pipeline.jobs import Made
    from octopia.pipeline.jobs import Workspace as Bench

WORKLOAD_EXAMPLES = """Examples:

octopia workload out/market --publishers 20 --publications 100 --subscribers 200

octopia workload out/real --bars prices.csv --selectivity 0.04 --meaning publishers

octopia workload out/burst --subscribers 10000 --burst-publications 50000 --burst-rate 100000
"""

TRUTH_EXAMPLES = """Examples:

octopia truth out/market

octopia truth out/market --engine sql
"""

SWEEP_EXAMPLES = """Examples:

octopia sweep runs.toml --out out/sweep

octopia sweep runs.csv --out out/sweep --master spark://machine:7077
"""

METRICS_EXAMPLES = """Examples:

octopia metrics out/sweep

octopia metrics out/sweep --metric publication_delay --metric messages --csv out/csv
"""

AUDIT_EXAMPLES = """Examples:

octopia audit out/sweep --workload out/market

octopia audit out/run/trace.parquet --workload out/market --json
"""

PIPELINE_EXAMPLES = """Examples:

octopia pipeline out/all --publishers 20 --publications 100 --subscribers 200

octopia pipeline out/real --bars prices.parquet --publishers 101 --publications 0 --first 2000
"""


class Engine(enum.StrEnum):
    """Who finds the matches: the vectorised engine, or Spark's own expressions, as a second opinion."""

    FAST = "fast"
    SQL = "sql"


Bars = Annotated[
    str | None,
    typer.Option("--bars", metavar="PATH", help="Stock prices, CSV or Parquet. Without: a market that is made up."),
]
Symbols = Annotated[int, typer.Option(min=1, help="Symbols of a market that is made up.")]
Days = Annotated[int, typer.Option(min=1, help="Days of a market that is made up.")]
Tree = Annotated[str, typer.Option("--overlay", metavar="TREE", help="The overlay on which clients are placed.")]
Clusters = Annotated[int | None, typer.Option(help="Its number of clusters.")]
Publishers = Annotated[int, typer.Option(help="How many clients publish.")]
Publications = Annotated[int, typer.Option(help="Publications of each; 0: one for every bar of its symbols.")]
Subscribers = Annotated[int, typer.Option(help="How many clients subscribe.")]
Share = Annotated[float, typer.Option("--selectivity", help="The share that a subscription matches.")]
ShareOf = Annotated[Meaning, typer.Option("--meaning", help="Of what it is a share.")]
Rate = Annotated[
    tuple[float, float], typer.Option("--rate", metavar="MIN MAX", help="Publications of each publisher a minute.")
]
BurstSize = Annotated[int, typer.Option("--burst-publications", help="A high-rate publisher with so many; 0: none.")]
BurstRate = Annotated[float, typer.Option("--burst-rate", help="How many it sends a minute.")]
BurstShare = Annotated[float, typer.Option("--burst-share", help="The share of subscriptions that want it.")]
BurstStart = Annotated[float, typer.Option("--burst-start-ms", help="When it begins.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same workload.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def workload(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder of the workload.")],
    bars: Bars = None,
    symbols: Symbols = 500,
    days: Days = 250,
    overlay: Tree = "paper:se",
    clusters: Clusters = None,
    publishers: Publishers = 100,
    publications: Publications = 1000,
    subscribers: Subscribers = 1000,
    selectivity: Share = 0.02,
    meaning: ShareOf = Meaning.PUBLICATIONS,
    rate: Rate = (100.0, 120.0),
    burst_publications: BurstSize = 0,
    burst_rate: BurstRate = 100_000.0,
    burst_share: BurstShare = 0.001,
    burst_start_ms: BurstStart = 10_000.0,
    seed: Seed = 0,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Make a workload of stock prices: publications, advertisements, subscriptions, and clients on brokers.

    Selectivity is wanted as a share of publications or of publishers; what came of it is measured and printed.
    """
    burst = Burst(burst_publications, burst_rate, burst_start_ms, burst_share) if burst_publications else None
    spec = WorkloadSpec(
        overlay, clusters, publishers, publications, subscribers, selectivity, meaning, *rate, burst, seed
    )
    with bench(master, remote, storage, ui) as work:
        made = _make(work, out, spec, bars, symbols, days)
    if as_json:
        print_json({"manifest": made.manifest, "rejects": made.rejects})
    else:
        _print_workload(out, made)
        console().print(f"next: octopia truth {out}")


def truth(
    folder: Annotated[str, typer.Argument(metavar="WORKLOAD", help="The folder of a workload.")],
    engine: Annotated[Engine, typer.Option(help="Who finds them: fast, or SQL as a second opinion.")] = Engine.FAST,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Find every publication that every subscription of a workload must get."""
    with bench(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import TRUTH, find_truth

        count = find_truth(work, folder, by_sql=engine is Engine.SQL)
    if as_json:
        print_json({"matches": count, "engine": engine.value})
    else:
        console().print(f"{count:,} matches, in {folder}/{TRUTH}")


def sweep(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="A table of runs: a .toml or .csv file.")],
    out: Annotated[str, typer.Option(metavar="DIR", help="The folder of the sweep.")],
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Simulate many runs, one a task of Spark. What is finished is not run again, so a sweep can be stopped.

    A run that fails is reported, and the others go on; the exit code is 1 then.
    """
    require_spark()
    from octopia.workloads.runs import read_runs

    described = read_runs(runs)
    with bench(master, remote, storage, ui) as work:
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


def metrics(
    traces: Annotated[str, typer.Argument(metavar="TRACES", help="A sweep's folder, a run's folder, or a trace file.")],
    metric: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    csv: Annotated[str | None, typer.Option(metavar="DIR", help="Write each as CSV into this folder.")] = None,
    as_json: AsJson = False,
    rows: Annotated[int, typer.Option(min=1, help="How many rows of each are shown; JSON has all.")] = 20,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Turn traces into the paper's metrics: delays, messages, tables, queues, and delays in sequence."""
    with bench(master, remote, storage, ui) as work:
        shown = _metrics(work, traces, metric or [], csv, None if as_json else rows)
    if as_json:
        print_json({name: found for name, (found, _) in shown.items()})
        return
    for name, (found, has_more) in shown.items():
        _print_rows(name.replace("_", " "), found, "… and more (--rows, --csv)" if has_more else "")


def audit(
    traces: Annotated[str, typer.Argument(metavar="TRACES", help="A sweep's folder, a run's folder, or a trace file.")],
    workload: Annotated[str, typer.Option(metavar="DIR", help="The workload that was played, with its truth.")],
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Compare deliveries with the truth: what is missing, what nobody wanted, and what came twice.

    Works for simulated runs and for runs on the network. The exit code is 1 if anything is wrong.
    """
    with bench(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import run_audit

        summaries = run_audit(work, traces, workload)
    if as_json:
        print_json(summaries)
    else:
        _print_rows("audit", summaries)
    _judge(summaries)


def pipeline(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder for everything.")],
    bars: Bars = None,
    symbols: Symbols = 500,
    days: Days = 250,
    overlay: Tree = "paper:se",
    clusters: Clusters = None,
    publishers: Publishers = 100,
    publications: Publications = 1000,
    subscribers: Subscribers = 1000,
    selectivity: Share = 0.02,
    meaning: ShareOf = Meaning.PUBLICATIONS,
    first: Annotated[int, typer.Option(min=0, help="How many publications are simulated; 0: all.")] = 2000,
    algorithm: Annotated[
        list[Algorithm] | None, typer.Option(help="Route by this; may be repeated. By default static and dynamic.")
    ] = None,
    profile: Annotated[str, typer.Option(help="What things cost in the simulation.")] = "unit",
    seed: Seed = 0,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
    storage: StorageRoot = None,
    ui: Ui = None,
) -> None:
    """Do it all: read bars, make a workload, find the truth, simulate a slice of it, and audit the deliveries."""
    require_spark()
    from octopia.workloads.runs import RunSpec

    spec = WorkloadSpec(overlay, clusters, publishers, publications, subscribers, selectivity, meaning, seed=seed)
    with bench(master, remote, storage, ui) as work:
        from octopia.pipeline.jobs import find_truth, run_audit, run_sweep

        folder, traces = f"{out}/workload", f"{out}/runs"
        made = _make(work, folder, spec, bars, symbols, days)
        count = find_truth(work, folder)
        place = work.storage.absolute(folder)
        runs = [
            RunSpec(workload=place, algorithm=each, first=first, profile=profile, seed=seed).named()
            for each in algorithm or (Algorithm.STATIC, Algorithm.DYNAMIC)
        ]
        # A workload that was made anew makes earlier runs worthless.
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
        console().print(f"{count:,} matches of all publications and subscriptions")
        _print_rows("audit", summaries)
        console().print(f"next: octopia metrics {traces}")
    _judge(summaries)


def _make(work: Bench, out: str, spec: WorkloadSpec, bars: str | None, symbols: int, days: int) -> Made:
    from octopia.pipeline.jobs import Market, make_workload

    return make_workload(work, out, spec, Market(bars, symbols, days))


def _metrics(
    work: Bench, traces: str, wanted: list[str], csv: str | None, most: int | None
) -> dict[str, tuple[list[dict[str, Any]], bool]]:
    from octopia.pipeline.jobs import rows_of, write_csv
    from octopia.pipeline.metrics import METRICS
    from octopia.pipeline.traces import read_traces

    for each in wanted:
        if each not in METRICS:
            raise UsageError(f"expected a metric of {', '.join(METRICS)}, got {each}")
    trace = read_traces(work.spark, work.storage, traces)
    shown = {}
    for name in wanted or METRICS:
        with work.stages.stage(name.replace("_", " ")):
            frame = METRICS[name](trace)
            if csv is not None:
                write_csv(frame, work.storage, f"{csv}/{name}")
            shown[name] = rows_of(frame, most)
    return shown


def _judge(summaries: list[dict[str, Any]]) -> None:
    wrong = [row for row in summaries if row["missing"] or row["unwanted"] or row["duplicates"]]
    if wrong:
        row = wrong[0]
        raise JobFailed(
            f"expected every delivery once, but {row['run_id']} has {row['missing']:,} missing, {row['unwanted']:,} "
            f"unwanted and {row['duplicates']:,} duplicate; they are in the table faults beside the traces"
        )


def _print_workload(folder: str, made: Made) -> None:
    screen, spec, got = console(), made.manifest["spec"], made.selectivity
    for reason, count in made.rejects.items():
        screen.print(f"rejected {count:,} rows: {reason} (they are in {folder}/rejects)")
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
        table.add_row("of subscriptions that want the burst", f"{got.of_burst:.3%}")
    screen.print(table)


def _print_sweep(out: str, outcomes: list[Any], before: int) -> None:
    screen = console()
    if before:
        screen.print(f"{before} runs were finished before")
    table = Table(title=f"{len(outcomes)} runs", title_justify="left")
    for column in ("run", "seconds", "outcome"):
        table.add_column(column, justify="right" if column == "seconds" else "left", overflow="fold")
    for each in outcomes:
        table.add_row(each.run_id, f"{each.seconds:.1f}", each.error or "finished")
    screen.print(table)
    screen.print(f"the traces are in {out}/traces; next: octopia metrics {out}")


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
