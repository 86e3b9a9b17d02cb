"""The ``octopia`` command: arguments in, text out; all work is done elsewhere.

Every command is imported when it is called. Exit codes: 0 for success, 1 for a failure, 2 for a usage error (an option,
a file or a filter that cannot be used).
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer

from octopia.cli.lazy import MARKUP, LazyGroup, command, group, show_examples
from octopia.errors import OctopiaError, UsageError

_BROKERS = "Run brokers"
_CLIENTS = "Publish and subscribe"
_SIMULATOR = "Simulate"
_DATA = "Data and evaluation"

_SIMULATE = (
    command("run", "simulate:simulate", "Run a scenario in virtual time and show the deliveries with their paths."),
    command(
        "compare", "compare:compare", "Run scenarios under static, dynamic and adaptive routing and compare the hops."
    ),
    command("explain", "explain:explain", "Explain hop by hop why a publication took its path."),
)
_PIPELINE = (
    command("ingest", "pipeline:ingest", "Read stock prices into a table of bars and a table of rejects."),
    command("workload", "pipeline:workload", "Make a workload: publications, advertisements, subscriptions, clients."),
    command("truth", "pipeline:truth", "Find every publication that each subscription of a workload must get."),
    command("play", "play:play", "Play a workload in virtual time or on real brokers."),
    command("sweep", "pipeline:sweep", "Simulate many runs, one per Spark task."),
    command("metrics", "pipeline:metrics", "Compute the paper's metrics from traces."),
    command("audit", "pipeline:audit", "Compare deliveries with the truth."),
    command("pipeline", "pipeline:pipeline", "Run all steps: ingest, workload, truth, sweep and audit."),
)
_COMMANDS = (
    command("up", "broker:up", "Run all brokers of an overlay on this machine.", panel=_BROKERS),
    command("broker", "broker:broker", "Run one or more brokers of an overlay in this process.", panel=_BROKERS),
    command("status", "status:status", "Show the state of a running overlay.", panel=_BROKERS),
    group(
        "link",
        "Change links of a running overlay.",
        command("throttle", "link:throttle", "Limit the rate of a link or delay it."),
        panel=_BROKERS,
        example="octopia link throttle b.3:b.0 --rate 50",
    ),
    group(
        "topology",
        "Show overlays: clusters, regions, brokers and links.",
        command("show", "topology:show", "Show the brokers of an overlay."),
        panel=_BROKERS,
        example="octopia topology show paper:se",
    ),
    command("pub", "publish:pub", "Publish from the command line.", panel=_CLIENTS),
    command("sub", "publish:sub", "Subscribe and print publications as they arrive.", panel=_CLIENTS),
    group(
        "sim",
        "Run scenarios in virtual time.",
        *_SIMULATE,
        panel=_SIMULATOR,
        example="octopia sim run examples/fig7b.toml",
    ),
    command("calibrate", "bench:calibrate", "Measure this machine's costs as a simulator profile.", panel=_SIMULATOR),
    group(
        "data",
        "Make, play and audit workloads.",
        *_PIPELINE,
        panel=_DATA,
        example="octopia data pipeline out/all --publishers 20 --publications 100 --subscribers 200",
    ),
    command("bench", "bench:bench", "Measure the throughput and the delays of an overlay.", panel=_DATA),
    command("demo", "demo:demo", "Compare static, dynamic and adaptive routing on twelve real brokers.", panel=_DATA),
    command("paper", "paper:paper", "Run the paper's evaluation and compare its results with ours.", panel=_DATA),
    command(
        "scale", "scale:scale", "Measure how messages, tables, memory and delays grow beyond the paper.", panel=_DATA
    ),
)
_ALIASES = (
    command("simulate", "simulate:simulate", "The same as octopia sim run.", hidden=True),
    *(each.alias("sim") for each in _SIMULATE[1:]),
    *(each.alias("data") for each in _PIPELINE[1:]),
)
"""Names from before there were groups."""


class _Octopia(LazyGroup):
    """The group of all commands; those in ``commands`` were added to ``app``."""

    def __init__(self, *, commands: dict[str, Any], **attributes: Any):
        described = {str(each.name): each for each in (*_COMMANDS, *_ALIASES)}
        super().__init__(commands={**described, **commands}, **attributes)


app = typer.Typer(
    name="octopia", cls=_Octopia, no_args_is_help=True, rich_markup_mode=MARKUP, pretty_exceptions_enable=False
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        import importlib.metadata

        typer.echo(f"octopia {importlib.metadata.version('octopia')}")
        raise typer.Exit


@app.callback(
    epilog=show_examples(
        "octopia up path:3 --clusters 4", 'octopia sub "price > 100"', "octopia pub symbol=IBM price=101.5"
    )
)
def octopia(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Content-based publish/subscribe that routes around congestion."""


def main() -> NoReturn:
    """Run the command line, and turn errors into one message and an exit code."""
    try:
        app(prog_name="octopia")
    except UsageError as error:
        _fail(error, 2)
    except OctopiaError as error:
        _fail(error, 1)
    sys.exit(0)


def _fail(error: OctopiaError, code: int) -> NoReturn:
    print(f"octopia: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks to its terminal
    sys.exit(code)
