"""``octopia sim explain``: the decisions that a publication met."""

from __future__ import annotations

from typing import Annotated

import typer

from octopia.cli.lazy import examples
from octopia.cli.options import AlgorithmOverride, AsJson, ScenarioFile, SeedOverride
from octopia.cli.output import print_json
from octopia.scenario import load_scenario
from octopia.simulator.explain import explain_publication


@examples(
    "octopia sim explain examples/fig7b.toml --publication 0",
    "octopia sim explain examples/fig7d.toml --publication 0 --algorithm static",
)
def explain(
    file: ScenarioFile,
    publication: Annotated[
        int, typer.Option("--publication", "-p", help="Number of the publication, counted from 0.")
    ] = 0,
    algorithm: AlgorithmOverride = None,
    seed: SeedOverride = None,
    as_json: AsJson = False,
) -> None:
    """Explain hop by hop why a publication took its path.

    It also says why a client did not get the publication.
    """
    scenario = load_scenario(file)
    if algorithm is not None:
        scenario = scenario.with_algorithm(algorithm)
    lines = explain_publication(scenario, publication, seed)
    if as_json:
        print_json(lines)
        return
    for line in lines:
        typer.echo(line)
