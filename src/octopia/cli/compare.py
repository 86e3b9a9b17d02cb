"""``octopia sim compare``: the same scenario under static, dynamic and adaptive routing, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from octopia.broker import Case, Verdict
from octopia.cli.lazy import examples
from octopia.cli.options import AsJson, complete_toml
from octopia.cli.output import console, print_json
from octopia.scenario import Scenario, load_scenario
from octopia.settings import Algorithm
from octopia.simulator.record import Hop
from octopia.simulator.run import Run, run_scenario

_ALGORITHMS = (Algorithm.STATIC, Algorithm.DYNAMIC, Algorithm.ADAPTIVE)


@examples(
    "octopia sim compare examples/fig7b.toml",
    "octopia sim compare examples/fig7b.toml examples/fig7c.toml examples/fig7d.toml",
)
def compare(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Scenario files (.toml).", autocompletion=complete_toml)
    ],
    as_json: AsJson = False,
) -> None:
    """Run scenarios under static, dynamic and adaptive routing and compare the hops.

    A hop is written `b.3>b.1[0001]`: from, to, and the clusters that this copy must still reach, cluster 0 rightmost.
    Under adaptive routing, `b.3>b.1[0000 c:1010]` also names the clusters that are to be carried over to region c.
    """
    results = []
    for file in files:
        scenario = load_scenario(file)
        runs = [run_scenario(scenario.with_algorithm(each)) for each in _ALGORITHMS]
        results.append({"scenario": scenario.name} | {run.scenario.routing.algorithm.value: _json(run) for run in runs})
        if not as_json:
            _show(scenario, runs)
    if as_json:
        print_json(results)


def _json(run: Run) -> dict[str, object]:
    return {"messages": run.messages()["publication"], "hops": [str(hop) for hop in _publication_hops(run)]}


def _publication_hops(run: Run) -> list[Hop]:
    return [hop for hop in run.recorder.hops if hop.publication is not None]


def _show(scenario: Scenario, runs: list[Run]) -> None:
    screen = console()
    screen.print()
    screen.print(scenario.name)
    congested = [
        f"{source}>{target}"
        for change in scenario.links
        if change.verdict is Verdict.CONGESTED
        for source, target in change.directions
    ]
    if congested:
        screen.print(f"congested: {', '.join(congested)}")
    table = Table(show_lines=True)
    for column in ("routing", "hops of the publications", "rerouted"):
        table.add_column(column, overflow="fold")
    for column in ("messages", "deliveries"):
        table.add_column(column, justify="right")
    for run in runs:
        table.add_row(
            run.scenario.routing.algorithm.value,
            Text(", ".join(str(hop) for hop in _publication_hops(run))),
            _rerouted(run),
            str(run.messages()["publication"]),
            str(len(run.recorder.deliveries)),
        )
    screen.print(table)


def _rerouted(run: Run) -> str:
    """Return the counts of the cases of dynamic routing, or of the detours of adaptive routing, as text."""
    counters = run.world.counters()
    taken = {f"case {case}": sum(each.cases[case] for each in counters) for case in Case}
    taken["detour"] = sum(each.detours for each in counters)
    return ", ".join(f"{count} x {what}" for what, count in taken.items() if count) or "-"
