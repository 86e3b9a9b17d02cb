"""``octopia demo``: workload, brokers, audit and report on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, OutFolder
from octopia.cli.output import console, print_json
from octopia.cli.spark import open_workspace, prepare_report
from octopia.errors import JobFailed

if TYPE_CHECKING:
    from octopia.experiments.demo.outcome import Outcome


@examples(
    "octopia demo",
    "octopia demo --out /tmp/demo --json",
)
def demo(out: OutFolder = Path("out/demo"), as_json: AsJson = False) -> None:
    """Compare static, dynamic and adaptive routing on twelve real brokers.

    Under each algorithm it plays a burst over slow links, then kills a broker. It audits all deliveries and writes a
    report with figures. It takes less than two minutes on two cores.
    """
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
    screen.print(f"next: {next_steps(page.parent)[0]}, or what the report has at its end")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table()
    for head in header:
        table.add_column(head.lower(), justify="left" if head == "Routing" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
