"""The ``octopia`` command: arguments in, text out; all work is done elsewhere.

Exit codes: 0 for success, 1 for a failure, 2 for a usage error (an option, a file or a filter that cannot be used).
"""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from octopia.cli import bench, broker, compare, demo, explain, link, paper, pipeline, play, publish, simulate, topology
from octopia.errors import OctopiaError, UsageError

app = typer.Typer(
    name="octopia",
    help="Content-based publish/subscribe that routes around congestion.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(topology.app, name="topology")
app.add_typer(link.app, name="link")
app.command("up", epilog=broker.UP_EXAMPLES)(broker.up)
app.command("broker", epilog=broker.BROKER_EXAMPLES)(broker.broker)
app.command("pub", epilog=publish.PUB_EXAMPLES)(publish.pub)
app.command("sub", epilog=publish.SUB_EXAMPLES)(publish.sub)
app.command("bench", epilog=bench.BENCH_EXAMPLES)(bench.bench)
app.command("calibrate", epilog=bench.CALIBRATE_EXAMPLES)(bench.calibrate)
app.command("simulate", epilog=simulate.EXAMPLES)(simulate.simulate)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("workload", epilog=pipeline.WORKLOAD_EXAMPLES)(pipeline.workload)
app.command("truth", epilog=pipeline.TRUTH_EXAMPLES)(pipeline.truth)
app.command("play", epilog=play.EXAMPLES)(play.play)
app.command("sweep", epilog=pipeline.SWEEP_EXAMPLES)(pipeline.sweep)
app.command("metrics", epilog=pipeline.METRICS_EXAMPLES)(pipeline.metrics)
app.command("audit", epilog=pipeline.AUDIT_EXAMPLES)(pipeline.audit)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("paper", epilog=paper.EXAMPLES)(paper.paper)
app.command("pipeline", epilog=pipeline.PIPELINE_EXAMPLES)(pipeline.pipeline)


def main() -> NoReturn:
    """Run the command line, and turn errors into one message and an exit code."""
    try:
        app()
    except UsageError as error:
        _fail(error, 2)
    except OctopiaError as error:
        _fail(error, 1)
    sys.exit(0)


def _fail(error: OctopiaError, code: int) -> NoReturn:
    print(f"octopia: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks to its terminal
    sys.exit(code)
