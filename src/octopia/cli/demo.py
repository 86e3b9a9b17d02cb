"""``octopia demo``: workload, brokers, audit and report on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, Http, HttpToken, OutFolder
from octopia.cli.output import console, notify, print_json
from octopia.cli.spark import open_workspace, prepare_report
from octopia.errors import JobFailed

if TYPE_CHECKING:
    from octopia.experiments.demo.outcome import Outcome


DEFAULT_HTTP = "7480"
"""The port of the live map of the demo."""


@examples(
    "octopia demo",
    "octopia demo --out /tmp/demo --json",
    "octopia demo --live",
    "octopia demo --live --http 0.0.0.0:7480 --http-token TOKEN",
)
def demo(
    out: OutFolder = Path("out/demo"),
    live: Annotated[
        bool, typer.Option("--live", help="Run twelve brokers under load with a live map instead, until Ctrl-C.")
    ] = False,
    http: Http = None,
    http_token: HttpToken = "",
    as_json: AsJson = False,
) -> None:
    """Compare static, dynamic and adaptive routing on twelve real brokers.

    Under each algorithm it plays a burst over slow links, then kills a broker. It audits all deliveries and writes a
    report with figures. It takes less than two minutes on two cores. With --live it shows brokers under load on a map
    in a browser instead, where links can be throttled and cut.
    """
    if live:
        _run_live(http or DEFAULT_HTTP, http_token)
        return
    prepare_report(out)
    with open_workspace(None, None, "", None, small=True) as work:
        from octopia.experiments.demo.outcome import run_demo
        from octopia.experiments.demo.pictures import draw_pictures
        from octopia.experiments.demo.plan import DEMO
        from octopia.experiments.demo.report import write_report

        outcome = run_demo(work, out, DEMO)
        with work.stages.line("drawing pictures"):
            page = write_report(outcome, draw_pictures(outcome, out), out)
    if as_json:
        print_json({**outcome.to_json(), "report": str(page)})
    else:
        _print(outcome, page)
    if not outcome.is_clean:
        raise JobFailed(
            f"expected every delivery once, but the audit found faults: they are in {out / 'runs' / 'faults'}"
        )


def _run_live(http: str, http_token: str) -> None:
    from octopia.experiments.demo.live import run_live

    screen = console()

    def announce(invitation: Sequence[str]) -> None:
        notify(screen, "twelve brokers are up, and b.3 publishes for all of them")
        for line in invitation:
            notify(screen, line)
        notify(screen, "click the lane from b.3 to b.0 and throttle it to 20/s; Ctrl-C stops the brokers")

    run_live(http, http_token, announce)
    notify(screen, "all brokers have stopped")


def _print(outcome: Outcome, page: Path) -> None:
    from octopia.experiments.demo.report import (
        AFTERWARDS,
        RESULTS,
        killed_story,
        next_steps,
        result_rows,
        rows_afterwards,
        shortage,
        slow_story,
    )

    screen = console()
    screen.print(f"1. {slow_story(outcome)}")
    screen.print(_table(RESULTS, result_rows(outcome)))
    screen.print(f"2. {killed_story(outcome)}")
    screen.print(_table(AFTERWARDS, rows_afterwards(outcome)))
    for side in outcome.sides:
        screen.print(f"audit of {side.run.algorithm} routing: {side.faults}")
    if outcome.is_short:
        screen.print(shortage(outcome))
    screen.print(f"the report is in {page} and {page.with_suffix('.md')}: open it in a browser")
    screen.print("watch brokers live: octopia demo --live, then open http://127.0.0.1:7480/ in a browser")
    screen.print(f"next: {next_steps(page.parent)[0]}, or what the report has at its end")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table()
    for head in header:
        table.add_column(head.lower(), justify="left" if head == "Routing" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
