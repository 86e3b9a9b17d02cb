"""The ``octopia`` command: arguments in, text out; all work is done elsewhere.

Every command is imported when it is called. Exit codes: 0 for success, 1 for a failure, 2 for a usage error (an option,
a file or a filter that cannot be used).
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from octopia.cli.lazy import MARKUP, LazyGroup, command, group, show_examples
from octopia.errors import AccessDenied, OctopiaError, TlsFailure, UsageError

_BROKERS = "Run brokers"
_CLIENTS = "Publish and subscribe"
_RECORDS = "Live and historic data"
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
        "report",
        "Show the parts of a running overlay, one table each.",
        command("brokers", "report:brokers", "Show the brokers: state, clients, publications, queues and losses."),
        command("links", "report:links", "Show both directions of every link: state, queue, congestion and shape."),
        command("clients", "report:clients", "Show the clients of each broker, with what waits for them."),
        command("subs", "report:subs", "Show the subscriptions of all clients, at their host brokers."),
        command("civ", "report:civ", "Show the advertisements at their host brokers, and the clusters that want them."),
        command("tables", "report:tables", "Show the sizes of the routing tables of each broker."),
        panel=_BROKERS,
        example="octopia report links --watch",
    ),
    command("top", "top:top", "Show the busiest brokers of a running overlay, live.", panel=_BROKERS),
    command("ping", "ping:ping", "Measure the round trip to a broker.", panel=_BROKERS),
    group(
        "link",
        "Show and change links of a running overlay.",
        command("throttle", "link:throttle", "Limit the rate of a link or delay it."),
        command("cut", "link:cut", "Break the connection of a link, and keep it broken."),
        command("heal", "link:heal", "Let the brokers of a link that was cut connect again."),
        command("list", "link:show", "List the links of an overlay, in both directions."),
        panel=_BROKERS,
        example="octopia link throttle b.3:b.0 --rate 50",
    ),
    group(
        "context",
        "Name overlays, so that brokers are addressed by name.",
        command("add", "context:add", "Add a named overlay, or replace it."),
        command("use", "context:use", "Make a context the current one."),
        command("list", "context:show", "List the contexts and their URLs."),
        command("remove", "context:remove", "Remove a context."),
        panel=_BROKERS,
        example="octopia context add market overlay.toml",
    ),
    group(
        "topology",
        "Show overlays: clusters, regions, brokers and links.",
        command("show", "topology:show", "Show the brokers of an overlay."),
        panel=_BROKERS,
        example="octopia topology show paper:se",
    ),
    group(
        "config",
        "Check overlay files and settings.",
        command(
            "check",
            "config:check",
            "Check an overlay file and the files that it names, and show the settings in force.",
        ),
        panel=_BROKERS,
        example="octopia config check overlay.toml",
    ),
    group(
        "cert",
        "Create broker certificates.",
        command("ca", "cert:ca", "Create a certificate authority that signs broker certificates."),
        command("broker", "cert:broker", "Create broker certificates, signed by the authority in the same folder."),
        panel=_BROKERS,
        example="octopia cert broker overlay.toml --out certs",
    ),
    group(
        "token",
        "Create, list and revoke the tokens of clients and operators.",
        command("add", "token:add", "Create a token, and print it."),
        command("list", "token:show", "List the tokens of a file, with their permissions."),
        command("revoke", "token:revoke", "Revoke a token, so that brokers no longer accept it."),
        panel=_BROKERS,
        example="octopia token list tokens.toml",
    ),
    command("pub", "publish:pub", "Publish from the command line.", panel=_CLIENTS),
    command("sub", "subscribe:sub", "Subscribe and print publications as they arrive.", panel=_CLIENTS),
    command(
        "explain",
        "reasons:explain",
        "Explain why a client of a running overlay gets a publication, or why not.",
        panel=_CLIENTS,
    ),
    command("trace", "trace:trace", "Publish and show the path of the publication, hop by hop.", panel=_CLIENTS),
    group(
        "filter",
        "Try filters without a broker.",
        command("check", "filters:check", "Check a filter, and try it on a publication."),
        panel=_CLIENTS,
        example="octopia filter check \"symbol = 'IBM' AND price > 100\" symbol=IBM price=99",
    ),
    command("spool", "spool:spool", "Record publications on disk, and lose none of them.", panel=_RECORDS),
    command("consumers", "consumers:consumers", "List the consumers of a spool, or remove one.", panel=_RECORDS),
    command("archive", "archive:archive", "Archive publications as Parquet, one folder per day.", panel=_RECORDS),
    command("outbox", "outbox:outbox", "Publish the rows of an outbox, each once.", panel=_RECORDS),
    command("history", "history:history", "Find publications in an archive or a spool.", panel=_RECORDS),
    command(
        "replay",
        "replay:replay",
        "Publish the rows of an archive or a spool again, at any speed.",
        panel=_RECORDS,
    ),
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
    _SIMULATE[1].alias("sim"),
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


_TOKEN = "OCTOPIA_TOKEN"
_UNKNOWN_AUTHORITY = ("unable to get local issuer certificate", "self-signed certificate")


def main() -> NoReturn:
    """Run the command line, and turn errors into one message and an exit code."""
    try:
        app(prog_name="octopia")
    except UsageError as error:
        _fail(error, 2)
    except OctopiaError as error:
        _fail(f"{error}{_next_step(error)}", 1)
    except OSError as error:  # A closed pipe has ended the command before.
        if error.errno is None:
            raise
        file = "" if error.filename is None else f" ({error.filename})"
        _fail(f"the system reported an error: {error.strerror}{file}", 1)
    sys.exit(0)


def _next_step(error: OctopiaError) -> str:
    """Return what to do about credentials, for the end of a message."""
    if isinstance(error, AccessDenied):
        return "; OCTOPIA_TOKEN has the token of this command" if os.environ.get(_TOKEN) else f"; set {_TOKEN}"
    if isinstance(error, TlsFailure) and any(each in str(error) for each in _UNKNOWN_AUTHORITY):
        return "; set OCTOPIA_CA to the certificate of the overlay's authority, such as certs/ca.pem"
    return ""


def _fail(error: OctopiaError | str, code: int) -> NoReturn:
    from octopia.cli.output import printable

    print(printable(f"octopia: {error}"), file=sys.stderr)  # noqa: T201 - a command line speaks to its terminal
    sys.exit(code)
