"""``octopia explain``: why a publication went where it went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from octopia.cli.output import console, print_json
from octopia.scenario import load_scenario
from octopia.settings import Algorithm
from octopia.simulator.explain import explain_publication

EXAMPLES = """Examples:

octopia explain examples/fig7b.toml --publication 0

octopia explain examples/fig7d.toml --publication 0 --algorithm static
"""


def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file (TOML).")],
    publication: Annotated[int, typer.Option("--publication", "-p", help="Which publication, counted from 0.")] = 0,
    algorithm: Annotated[Algorithm | None, typer.Option(help="Route by this, whatever the scenario says.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness, in place of the scenario's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as a JSON list.")] = False,
) -> None:
    """Tell hop by hop why a publication went where it went, and why a client did not get it."""
    scenario = load_scenario(file)
    if algorithm is not None:
        scenario = scenario.with_algorithm(algorithm)
    lines = explain_publication(scenario, publication, seed)
    if as_json:
        print_json(lines)
        return
    screen = console()
    for line in lines:
        screen.print(line, soft_wrap=True)
